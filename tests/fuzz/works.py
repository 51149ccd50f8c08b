"""What the campaign of kills and faults executes: every command that reads or writes a graph file."""

from __future__ import annotations

import shlex
import shutil
import sqlite3
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from graphsearch.store.ranking import visits_of
from graphsearch.store.store import Store

from . import commands, graphfile

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


def _on(name: str, line: str, *parts: Any, **options: Any) -> Work:
    """Returns a work with the option `--store` at the end of its line."""
    return Work(name, f"{line} --store {{}}/a.graph", *parts, **options)


def _export(kind: str, to: str, *more: str) -> Work:
    return _on(f"export {kind}", f"export --format {kind} -o {{}}/{to}", "logged", writes=more or (to,))


WORKS = (
    _on("analyze", f"analyze startpos --visits 300 {SMALL}", grows={"visits": 300, "run": 1}),
    _on("analyze, new file", f"analyze startpos --visits 60 {SMALL}", "none", {"visits": 60, "run": 1}),
    *(
        _on(
            f"analyze, {threads} threads",
            f"analyze startpos --visits 2000 --threads {threads} {SMALL}",
            grows={"visits": 2000, "run": 1},
        )
        for threads in (2, 5)
    ),
    _on("analyze, a set", f"analyze {{}}/b.epd --visits 300 {SMALL}", grows={"run": 1}),
    _on("watch", f"watch '1. e4' --evaluations 200 {SMALL}", grows={"run": 1}),
    _on("alphabeta", "alphabeta startpos --depth 3 --ram 8MB", grows={"entry_run": 1}),
    _on("mate", f"mate '{MATE_IN_4}' --visits 3000"),
    _on("uci", f"uci {SMALL}", lines=SESSION),
    Work("refresh", f"lab refresh {{}}/a.graph {SMALL}"),
    Work("reevaluate", f"reevaluate {{}}/a.graph --evaluator uniform {SMALL}"),
    _on("book build", f"book build {{}}/white.toml --evaluations 60 {SMALL}", grows={"book_position": 0}),
    _on(
        "book build, new file",
        f"book build {{}}/white.toml --evaluations 40 {SMALL}",
        "none",
        {"book_position": 1},
    ),
    _on("book queue add", "book queue startpos --moves '1. c4 c5'", grows={"book_queue": 1}),
    _on("book queue drop", "book queue --drop all"),
    _on("book todo --queue", "book todo --book white --queue"),
    _on("import pgn", "import {}/b.pgn", grows={"source": 1}),
    _on(
        "review",
        f"review {{}}/b.pgn --visits 40 -o {{}}/out.pgn {SMALL}",
        grows={"run": 1},
        writes=("out.pgn",),
    ),
    _on("study import", "study import {}/b.pgn", grows={"study": 1, "study_position": 2}),
    _on("note", "note startpos --text 'a note'", grows={"note": 1}),
    _on("repertoire import", "repertoire import {}/b.pgn --side white", grows={"book_move": 2}),
    _on("import pgn --players", "import {}/b.pgn --players", grows={"source": 1, "game": 2}),
    _on("import pgn, players later", "import {}/a.pgn --players", "counted", {"game": 2}),
    _on("import polyglot", "import --format polyglot {}/b.bin", grows={"source": 1, "polyglot_entry": 1}),
    _on("import epd", "import --format epd {}/b.epd", grows={"source": 1, "epd_position": 1}),
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
    _on("show", "show startpos", "logged"),
    _on("query pv", "lines startpos", "logged"),
    _on("query find", "find --min-visits 2", "logged"),
    Work("query history", "history {}/a.graph", "logged"),
    _on("query novelties", "novelties startpos --min-games 1", "logged"),
    _on("query prepare", "prepare --player ann --min-visits 1", "logged"),
    _on("query sql", "lab sql 'SELECT count(*) FROM block'", "logged"),
    _export("pgn", "out.pgn"),
    _export("epd", "out.epd"),
    _export("csv", "out.csv"),
    _export("jsonl", "out.jsonl"),
    _export("parquet", "tables", "tables/nodes.parquet", "tables/edges.parquet"),
    _export("polyglot", "out.bin"),
)


# ------------------------------------------------------------------ files to begin with
def make_starts(folder: Path) -> None:
    """Makes a folder for every start in `folder`."""
    full = folder / "full"
    full.mkdir(parents=True)
    graphfile.fill(full / "a.graph")
    shutil.copyfile(full / "a.graph", full / "b.graph")
    more = ("analyze", "startpos", "--moves", "e4", "--visits", 40, "--store", full / "b.graph")
    assert commands.run(*more).code == 0
    (full / "b.pgn").write_bytes(
        graphfile.PGN.replace(b"e4 e5", b"e4 c5").replace(b"Nf3 (2. f4) Nc6 3. Bb5 a6", b"Nf3")
    )
    (full / "b.epd").write_bytes(graphfile.EPD.replace(b"e4", b"d4"))
    (full / "b.bin").write_bytes(graphfile.POLYGLOT[16:])
    changes = (("none", _remove), ("logged", _log), ("damaged", _damage), ("counted", _count_only))
    for name, change in changes:
        shutil.copytree(full, folder / name)
        change(folder / name / "a.graph")


def _remove(path: Path) -> None:
    path.unlink()


def _count_only(path: Path) -> None:
    """Leaves a file whose games were imported without their players."""
    path.unlink()
    ended = commands.run("import", path.with_name("a.pgn"), "--store", path)
    assert not ended.code


def _log(path: Path) -> None:
    """Leaves the last changes in the log, as a killed search does."""
    database, log = graphfile.unpacked(graphfile.with_log(path))
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
        if after.get(name, -1) < number and not (_is_record(name) and number < work.least)
    ]


def missing(before: State, after: State, work: Work) -> list[str]:
    """Returns what a command that ended with 0 should have added and did not."""
    found = []
    for name, more in work.grows.items():
        key = name if name == "visits" else f"rows of {name}"
        if after.get(key, 0) < before.get(key, 0) + more:
            found.append(f"{key}: {before.get(key, 0)} before, {after.get(key, 0)} after, not {more} more")
    return found


def _is_record(name: str) -> bool:
    return len(name.split()[0]) == 16


def command_line(work: Work, folder: Path) -> list[str]:
    """Returns the words of a command in a folder."""
    return [word.replace("{}", str(folder)) for word in shlex.split(work.line)]


def copy(start: Path, folder: Path) -> Path:
    """Returns a fresh copy of a start."""
    return Path(shutil.copytree(start, folder, copy_function=shutil.copyfile))
