"""Every command with a graph file: what kills and faults disturb, and what a damaged file meets."""

from __future__ import annotations

import shlex
import shutil
import sqlite3
import struct
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from graphsearch.store.ranking import visits_of
from graphsearch.store.store import Store

from . import commands

TABLES = (
    "run", "root", "root_history", "book_history", "source", "game", "player", "game_position",
    "polyglot_entry", "epd_position", "book_position", "book_queue", "entry_run", "study",
    "study_position", "note", "book_move",
)  # fmt: skip
State = dict[str, int]  # what a file holds: numbers that must not fall, records by position among them


@dataclass(frozen=True, slots=True)
class Work:
    """A command of the campaign.

    Attributes:
      line: as for a shell, with {} for the folder.
      start: the file it begins with, `STARTS`.
      grows: what it has added once it ends with 0, by name in the state.
      writes: files that must be whole if they are there; exports are compared with those of a calm run.
      least: records with fewer visits may go.
      lines: stdin.
    """

    name: str
    line: str
    start: str = "full"
    grows: State = field(default_factory=dict)
    writes: tuple[str, ...] = ()
    least: int = 0
    lines: bytes = b""


SMALL = "--ram 64MB"
MATE_IN_4 = "kbK5/pp6/1P6/8/8/8/8/R7 w - - 0 1"
SESSION = (
    b"uci\nisready\nposition startpos\ngo nodes 60\nisready\n"
    b"position startpos moves e2e4\ngo nodes 40\nisready\nquit\n"
)


def on(name: str, line: str, *parts: Any, **options: Any) -> Work:
    """Returns a work with the option `--store` at the end of its line."""
    return Work(name, f"{line} --store {{}}/a.graph", *parts, **options)


def _export(kind: str, to: str, *more: str) -> Work:
    return on(f"export {kind}", f"export --format {kind} -o {{}}/{to}", "logged", writes=more or (to,))


WORKS = (
    on("analyze", f"analyze startpos --visits 300 {SMALL}", grows={"visits": 300, "run": 1}),
    on("analyze, new file", f"analyze startpos --visits 60 {SMALL}", "none", {"visits": 60, "run": 1}),
    *(
        on(
            f"analyze, {threads} threads",
            f"analyze startpos --visits 2000 --threads {threads} {SMALL}",
            grows={"visits": 2000, "run": 1},
        )
        for threads in (2, 5)
    ),
    on("analyze, a set", f"analyze {{}}/b.epd --visits 300 {SMALL}", grows={"run": 1}),
    on("watch", f"watch '1. e4' --evaluations 200 {SMALL}", grows={"run": 1}),
    on("alphabeta", "alphabeta startpos --depth 3 --ram 8MB", grows={"entry_run": 1}),
    on("mate", f"mate '{MATE_IN_4}' --visits 3000"),
    on("uci", f"uci {SMALL}", lines=SESSION),
    Work("refresh", f"lab refresh {{}}/a.graph {SMALL}"),
    Work("reevaluate", f"reevaluate {{}}/a.graph --evaluator uniform {SMALL}"),
    on("book build", f"book build {{}}/white.toml --evaluations 60 {SMALL}", grows={"book_position": 0}),
    on(
        "book build, new file",
        f"book build {{}}/white.toml --evaluations 40 {SMALL}",
        "none",
        {"book_position": 1},
    ),
    on("book queue add", "book queue startpos --moves '1. c4 c5'", grows={"book_queue": 1}),
    on("book queue drop", "book queue --drop all"),
    on("book todo --queue", "book todo --book white --queue"),
    on("import pgn", "import {}/b.pgn", grows={"source": 1}),
    on(
        "review",
        f"review {{}}/b.pgn --visits 40 -o {{}}/out.pgn {SMALL}",
        grows={"run": 1},
        writes=("out.pgn",),
    ),
    on("study import", "study import {}/b.pgn", grows={"study": 1, "study_position": 2}),
    on("note", "note startpos --text 'a note'", grows={"note": 1}),
    on("repertoire import", "repertoire import {}/b.pgn --side white", grows={"book_move": 2}),
    on("import pgn --players", "import {}/b.pgn --players", grows={"source": 1, "game": 2}),
    on("import pgn, players later", "import {}/a.pgn --players", "counted", {"game": 2}),
    on("import polyglot", "import --format polyglot {}/b.bin", grows={"source": 1, "polyglot_entry": 1}),
    on("import epd", "import --format epd {}/b.epd", grows={"source": 1, "epd_position": 1}),
    Work("store compact", "store compact {}/a.graph"),
    Work("store prune", "store compact {}/a.graph --min-visits 2", least=2),
    Work("store backup", "store backup {}/a.graph {}/copy.graph --force", writes=("copy.graph",)),
    Work("store salvage", "store salvage {}/a.graph {}/new.graph --force", "damaged", writes=("new.graph",)),
    Work(
        "store merge",
        "store merge {}/a.graph {}/b.graph -o {}/new.graph --force",
        writes=("new.graph",),
    ),
    Work("store merge --into", f"store merge {{}}/b.graph --into {{}}/a.graph {SMALL}", grows={"run": 1}),
    Work("query diff", "diff {}/b.graph {}/a.graph", "logged"),
    Work("store verify", "store verify {}/a.graph", "logged"),
    Work("store info", "store info {}/a.graph", "logged"),
    on("show", "show startpos", "logged"),
    on("query pv", "lines startpos", "logged"),
    on("query find", "find --min-visits 2", "logged"),
    Work("query history", "history {}/a.graph", "logged"),
    on("query novelties", "novelties startpos --min-games 1", "logged"),
    on("query prepare", "prepare --player ann --min-visits 1", "logged"),
    on("query sql", "lab sql 'SELECT count(*) FROM block'", "logged"),
    _export("pgn", "out.pgn"),
    _export("epd", "out.epd"),
    _export("csv", "out.csv"),
    _export("jsonl", "out.jsonl"),
    _export("parquet", "tables", "tables/nodes.parquet", "tables/edges.parquet"),
    _export("polyglot", "out.bin"),
)


# ------------------------------------------------------------------ files to begin with
def make_starts(folder: Path) -> None:
    full = folder / "full"
    full.mkdir(parents=True)
    fill(full / "a.graph")
    shutil.copyfile(full / "a.graph", full / "b.graph")
    more = ("analyze", "startpos", "--moves", "e4", "--visits", 40, "--store", full / "b.graph")
    assert commands.run(*more).code == 0
    changes = (("none", Path.unlink), ("logged", _log), ("damaged", _damage), ("counted", _count_only))
    for name, change in changes:
        shutil.copytree(full, folder / name)
        change(folder / name / "a.graph")


def _count_only(path: Path) -> None:
    """Leaves a file whose games were imported without their players."""
    path.unlink()
    assert not commands.run("import", path.with_name("a.pgn"), "--store", path).code


def _log(path: Path) -> None:
    """Leaves the last changes in the log, as a killed search does."""
    database, log = unpacked(with_log(path))
    path.write_bytes(database)
    path.with_name("a.graph-wal").write_bytes(log)


def _damage(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("UPDATE block SET data = zeroblob(99) WHERE id = (SELECT min(id) FROM block)")


# ------------------------------------------------------------------ what a file holds
def state(path: Path) -> State:
    """Returns what a file holds; nothing if it is not there."""
    if not path.exists() or not path.stat().st_size:
        return {}
    with Store.open(path, read_only=True) as store:
        found = {f"rows of {name}": number for name, number in _rows(store.connection).items()}
        found["visits"] = sum(root.visits for root in store.roots())
        for batch in store.scan(on_corrupt=lambda _: None):
            for words, visits in zip(batch.words.tolist(), visits_of(batch).tolist(), strict=True):
                found[f"{words[9]:016x} {words[8]:x}"] = visits
    return found


def _rows(connection: sqlite3.Connection) -> State:
    there = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    count = {name: f"SELECT count(*) FROM {name}" for name in TABLES if name in there}
    if "source" in count:
        count["source"] += " WHERE finished NOT NULL"
    return {name: connection.execute(query).fetchone()[0] for name, query in count.items()}


def losses(before: State, after: State, work: Work) -> list[str]:
    """Returns what was there before and is not any more, or is less."""
    return [
        f"{name}: {number} before, {after.get(name)} after"
        for name, number in before.items()
        if after.get(name, -1) < number and (len(name.split()[0]) != 16 or number >= work.least)
    ]


def missing(before: State, after: State, work: Work) -> list[str]:
    """Returns what a command that ended with 0 should have added and did not."""
    found = []
    for name, more in work.grows.items():
        key = name if name == "visits" else f"rows of {name}"
        if after.get(key, 0) < before.get(key, 0) + more:
            found.append(f"{key}: {before.get(key, 0)} before, {after.get(key, 0)} after, not {more} more")
    return found


def command_line(work: Work, folder: Path) -> list[str]:
    return [word.replace("{}", str(folder)) for word in shlex.split(work.line)]


def copy(start: Path, folder: Path) -> Path:
    return Path(shutil.copytree(start, folder, copy_function=shutil.copyfile))


# ------------------------------------------------------------------ sound graph files
GOLDEN = Path(__file__).resolve().parents[1] / "golden"
SMALL_PAGES = 1024  # bytes: a file of 200 kB instead of 1 MB
MATE = "6k1/5ppp/8/8/8/8/5PPP/3R2K1 w - - 0 1"
PGN = (
    b'[Event "a"]\n[White "Ann"]\n[Black "Bob"]\n[Result "1-0"]\n\n'
    b'1. e4 e5 2. Nf3 (2. f4) Nc6 3. Bb5 a6 1-0\n\n[Event "b"]\n\n1. d4 d5 *\n'
)
EPD = b'rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - bm e4; id "x"; ce 20;\n'
BOOK = (
    b'[book]\nname = "white"\nside = "white"\nmax_ply = 4\n[[root]]\nmoves = "1. d4"\n'
    b"[leaf]\nevaluations = 8\n"
)
POLYGLOT = bytes.fromhex("463b96181691fc9c 02db 0032 00000002 463b96181691fc9c 031c 0064 00000000")  # d4, e4
INPUTS = {  # files that commands read
    "a.pgn": PGN,
    "a.epd": EPD,
    "a.bin": POLYGLOT,
    "white.toml": BOOK,
    "b.pgn": PGN.replace(b"e4 e5", b"e4 c5").replace(b"Nf3 (2. f4) Nc6 3. Bb5 a6", b"Nf3"),
    "b.epd": EPD.replace(b"e4", b"d4"),
    "b.bin": POLYGLOT[16:],
}


def packed(database: bytes, log: bytes = b"") -> bytes:
    """Returns an input: the length of the database, the database, and behind it the write-ahead log."""
    return struct.pack("<Q", len(database)) + database + log


def unpacked(data: bytes) -> tuple[bytes, bytes]:
    size = int.from_bytes(data[:8], "little")
    return data[8 : 8 + size], data[8 + size :]


# ------------------------------------------------------------------ sound files
def write_inputs(folder: Path) -> None:
    for name, content in INPUTS.items():
        (folder / name).write_bytes(content)


def fill(path: Path) -> None:
    """Makes a file with something of every kind, and files that commands read beside it."""
    folder = path.parent
    write_inputs(folder)
    store = ("--store", path)
    for line in (
        ("analyze", "startpos", "--visits", 60, *store),
        ("analyze", MATE, "--visits", 30, *store),
        ("alphabeta", "startpos", "--depth", 2, *store),
        ("mate", MATE, "--visits", 100, *store),
        ("import", folder / "a.pgn", "--variations", "--players", *store),
        ("import", "--format", "epd", folder / "a.epd", *store),
        ("import", "--format", "polyglot", folder / "a.bin", *store),
        ("book", "build", folder / "white.toml", "--evaluations", 40, *store),
        ("book", "queue", "startpos", "--moves", "1. d4 d5", *store),
    ):
        ended = commands.run(*line)
        assert ended.code == 0, (line, ended.err)


def repaged(path: Path) -> bytes:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
        connection.execute(f"PRAGMA page_size = {SMALL_PAGES}")
        connection.execute("VACUUM")
        connection.execute("PRAGMA journal_mode = WAL")
    return path.read_bytes()


def with_log(path: Path) -> bytes:
    """Returns a file whose last changes are in its log only."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        for _ in range(3):
            connection.execute("UPDATE root SET visits = visits + 1")
            connection.execute("UPDATE block SET data = data")
        return packed(path.read_bytes(), path.with_name(path.name + "-wal").read_bytes())


_made: list[bytes] = []


def seeds(folder: Path) -> list[bytes]:
    """Returns sound files: one with everything, the same with a log, and the golden one."""
    if not _made:
        path = folder / "seed.graph"
        fill(path)
        whole = repaged(path)
        golden = (GOLDEN / "format4.graph").read_bytes()
        _made.extend([packed(whole), with_log(path), packed(golden)])
    return _made
