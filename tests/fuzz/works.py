"""What the campaign of kills and faults executes: every command that reads or writes a graph file."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

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
      line: its words, with {} for the folder.
      start: the file it begins with, `STARTS`.
      grows: what it has added once it ends with 0, by name in the state.
      writes: files that must be whole if they are there; exports are compared with those of a calm run.
      least: records with fewer visits may go.
      lines: stdin.
    """

    name: str
    line: tuple[str, ...]
    start: str = "full"
    grows: State = field(default_factory=dict)
    writes: tuple[str, ...] = ()
    least: int = 0
    lines: bytes = b""


def _on(*words: str) -> tuple[str, ...]:
    return (*words, "--store", "{}/a.graph")


SMALL = ("--ram", "64MB")
MATE_IN_4 = "kbK5/pp6/1P6/8/8/8/8/R7 w - - 0 1"
SESSION = (
    b"uci\nisready\nposition startpos\ngo nodes 60\nisready\n"
    b"position startpos moves e2e4\ngo nodes 40\nisready\nquit\n"
)

WORKS = (
    Work("analyze", _on("analyze", "startpos", "--visits", "300", *SMALL), grows={"visits": 300, "run": 1}),
    Work(
        "analyze, new file",
        _on("analyze", "startpos", "--visits", "60", *SMALL),
        "none",
        {"visits": 60, "run": 1},
    ),
    *(
        Work(
            f"analyze, {threads} threads",
            _on("analyze", "startpos", "--visits", "2000", "--threads", threads, *SMALL),
            grows={"visits": 2000, "run": 1},
        )
        for threads in ("2", "5")
    ),
    Work("analyze, a set", _on("analyze", "{}/b.epd", "--visits", "300", *SMALL), grows={"run": 1}),
    Work("watch", _on("watch", "1. e4", "--evaluations", "200", *SMALL), grows={"run": 1}),
    Work("alphabeta", _on("alphabeta", "startpos", "--depth", "3", "--ram", "8MB"), grows={"entry_run": 1}),
    Work("mate", _on("mate", MATE_IN_4, "--visits", "3000")),
    Work("uci", ("uci", *SMALL, "--store", "{}/a.graph"), lines=SESSION),
    Work("refresh", ("lab", "refresh", "{}/a.graph", *SMALL)),
    Work("reevaluate", ("reevaluate", "{}/a.graph", "--evaluator", "uniform", *SMALL)),
    Work(
        "book build",
        _on("book", "build", "{}/white.toml", "--evaluations", "60", *SMALL),
        grows={"book_position": 0},
    ),
    Work(
        "book build, new file",
        _on("book", "build", "{}/white.toml", "--evaluations", "40", *SMALL),
        "none",
        {"book_position": 1},
    ),
    Work(
        "book queue add",
        _on("book", "queue", "startpos", "--moves", "1. c4 c5"),
        grows={"book_queue": 1},
    ),
    Work("book queue drop", _on("book", "queue", "--drop", "all")),
    Work("book todo --queue", _on("book", "todo", "--book", "white", "--queue")),
    Work("import pgn", _on("import", "{}/b.pgn"), grows={"source": 1}),
    Work(
        "review",
        _on("review", "{}/b.pgn", "--visits", "40", "-o", "{}/out.pgn", *SMALL),
        grows={"run": 1},
        writes=("out.pgn",),
    ),
    Work("study import", _on("study", "import", "{}/b.pgn"), grows={"study": 1, "study_position": 2}),
    Work("note", _on("note", "startpos", "--text", "a note"), grows={"note": 1}),
    Work(
        "repertoire import",
        _on("repertoire", "import", "{}/b.pgn", "--side", "white"),
        grows={"book_move": 2},
    ),
    Work("import pgn --players", _on("import", "{}/b.pgn", "--players"), grows={"source": 1, "game": 2}),
    Work("import pgn, players later", _on("import", "{}/a.pgn", "--players"), "counted", {"game": 2}),
    Work(
        "import polyglot",
        _on("import", "--format", "polyglot", "{}/b.bin"),
        grows={"source": 1, "polyglot_entry": 1},
    ),
    Work("import epd", _on("import", "--format", "epd", "{}/b.epd"), grows={"source": 1, "epd_position": 1}),
    Work("store compact", ("store", "compact", "{}/a.graph")),
    Work("store prune", ("store", "compact", "{}/a.graph", "--min-visits", "2"), least=2),
    Work(
        "store backup", ("store", "backup", "{}/a.graph", "{}/copy.graph", "--force"), writes=("copy.graph",)
    ),
    Work(
        "store salvage",
        ("store", "salvage", "{}/a.graph", "{}/new.graph", "--force"),
        "damaged",
        writes=("new.graph",),
    ),
    Work(
        "store merge",
        ("store", "merge", "{}/a.graph", "{}/b.graph", "-o", "{}/new.graph", "--force"),
        writes=("new.graph",),
    ),
    Work(
        "store merge --into",
        ("store", "merge", "{}/b.graph", "--into", "{}/a.graph", *SMALL),
        grows={"run": 1},
    ),
    Work("query diff", ("diff", "{}/b.graph", "{}/a.graph"), "logged"),
    Work("store verify", ("store", "verify", "{}/a.graph"), "logged"),
    Work("store info", ("store", "info", "{}/a.graph"), "logged"),
    Work("show", _on("show", "startpos"), "logged"),
    Work("query pv", _on("lines", "startpos"), "logged"),
    Work("query find", _on("find", "--min-visits", "2"), "logged"),
    Work("query history", ("history", "{}/a.graph"), "logged"),
    Work("query novelties", _on("novelties", "startpos", "--min-games", "1"), "logged"),
    Work("query prepare", _on("prepare", "--player", "ann", "--min-visits", "1"), "logged"),
    Work("query sql", _on("lab", "sql", "SELECT count(*) FROM block"), "logged"),
    Work("export pgn", _on("export", "--format", "pgn", "-o", "{}/out.pgn"), "logged", writes=("out.pgn",)),
    Work("export epd", _on("export", "--format", "epd", "-o", "{}/out.epd"), "logged", writes=("out.epd",)),
    Work("export csv", _on("export", "--format", "csv", "-o", "{}/out.csv"), "logged", writes=("out.csv",)),
    Work(
        "export jsonl",
        _on("export", "--format", "jsonl", "-o", "{}/out.jsonl"),
        "logged",
        writes=("out.jsonl",),
    ),
    Work(
        "export parquet",
        _on("export", "--format", "parquet", "-o", "{}/tables"),
        "logged",
        writes=("tables/nodes.parquet", "tables/edges.parquet"),
    ),
    Work(
        "export polyglot",
        _on("export", "--format", "polyglot", "-o", "{}/out.bin"),
        "logged",
        writes=("out.bin",),
    ),
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
    return [word.replace("{}", str(folder)) for word in work.line]


def copy(start: Path, folder: Path) -> Path:
    """Returns a fresh copy of a start."""
    return Path(shutil.copytree(start, folder, copy_function=shutil.copyfile))
