"""kill -9, a full disk and a power failure at any moment: what was committed is there, the file is sound."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from unittest.mock import patch

import chess
import numpy as np
import pytest

from graphsearch.base.errors import StoreError
from graphsearch.store.backup import backup
from graphsearch.store.index import Sizes
from graphsearch.store.provenance import EvaluatorIdentity
from graphsearch.store.record import NodeRecord, RecordBatch
from graphsearch.store.rewrite import compact, rewrite
from graphsearch.store.salvage import salvage
from graphsearch.store.store import Store
from graphsearch.store.verify import verify

from ..conftest import ROOT
from ..support.faults import shim
from ..support.forks import Fork, Say
from . import records

KILLS = 50 if os.environ.get("GRAPHSEARCH_FULL") else 1  # of each kind of work
RECORDS = records.Records(71, 400)
BATCH = 40  # records
KEPT, MARK = 3, 2  # visits that pruning asks for; the evaluator that rewriting enters

SMALL = Sizes(fan_out=3, step_blocks=4, scan_blocks=4, vacuum_pages=1)


def append(store: Store, k: int) -> None:
    batch = records.batch_of(part(k))
    found, _ = records.lookup(store, batch.words)
    with store.transaction():
        assert store.begin_run(chess.STARTING_FEN, {}, {}) == k + 1
        store.append(batch, fresh=int((~found).sum()))
        store.record_root(f"{k:016x}", chess.STARTING_FEN, k)


def marked(batch: RecordBatch, low: int, pivot: int | None) -> RecordBatch:
    return batch.replace(evaluator=np.full(len(batch), MARK, np.uint8))


def work_for_ever(work: str, path: Path, say: Say) -> None:
    """Appends batches, says each once it is committed, and does its work in tiny steps."""
    while True:
        with Store.open(path, create=True, identity=records.IDENTITY, sizes=SMALL) as store:
            for _ in range(4):
                k = len(store.roots())
                append(store, k)
                say(k)
                if work == "flush":
                    store.merge_step()
            if work == "merge":
                records.merge_all(store)
            if work == "rewrite":
                assert store.add_evaluator(EvaluatorIdentity("other")) == MARK
                rewrite(store, marked)
        if work == "compact":
            records.sized(SMALL, compact, path)
        if work == "prune":
            records.sized(SMALL, compact, path, min_visits=KEPT)


def part(k: int) -> list[NodeRecord]:
    """Returns the records of batch `k`, whose run tells them from earlier versions."""
    return [replace(RECORDS[(7 * k + i) % len(RECORDS)], run=k + 1) for i in range(BATCH)]


def kill_a_writer(work: str, path: Path, rng: random.Random) -> int:
    """Returns the last batch that a writer told of before it was killed."""
    with Fork(partial(work_for_ever, work, path)) as writer:
        said = [writer.line() for _ in range(rng.randrange(1, 10))]
        time.sleep(rng.random() * 0.05)  # the moment is what is drawn by chance
        return int([*said, *writer.kill()][-1])


def unmarked(record: NodeRecord) -> NodeRecord:
    return replace(record, evaluator=1)


def check(path: Path, work: str, last: int) -> int:
    """Checks a file after a kill; returns how many batches it holds."""
    assert verify(path).problems == []
    with Store.open(path, identity=records.IDENTITY) as store:
        batches = sorted(int(root.key, 16) for root in store.roots())
        assert batches == list(range(len(batches))), "batches are whole and in order"
        assert len(batches) > last, "every commit that was announced is there"
        expected = {records.identity(record): record for k in batches for record in part(k)}
        found = records.contents(store)
        records.merge_all(store)
        assert records.contents(store) == found
    for key, record in expected.items():
        if work == "prune" and record.visits < KEPT and key not in found:
            continue
        assert unmarked(found[key]) == unmarked(record)
        assert found[key].evaluator in ({record.evaluator, MARK} if work == "rewrite" else {record.evaluator})
    assert set(found) <= set(expected)
    assert verify(path).problems == []
    return len(batches)


@pytest.mark.parametrize("work", ["flush", "merge", "compact", "prune", "rewrite"])
def test_a_killed_writer_leaves_a_sound_file_with_all_it_committed(path: Path, work: str) -> None:
    rng = random.Random(work)
    batches = 0
    for _ in range(KILLS):
        last = kill_a_writer(work, path, rng)
        assert last >= batches, "the next writer goes on where the killed one was"
        batches = check(path, work, last)
    compact(path)
    check(path, work, batches - 1)
    compact(path, min_visits=KEPT)
    assert verify(path).problems == []


def copy_slowly(path: Path, copy: Path, say: Say) -> None:
    with patch("graphsearch.store.backup.STEP_PAGES", 1):
        backup(path, copy, force=True, on_progress=lambda now: say("."))


def test_a_killed_backup_leaves_the_old_copy(tmp_path: Path) -> None:
    path = records.filled(tmp_path / "test.graph", RECORDS, runs=4)
    copy = records.filled(tmp_path / "copy.graph", RECORDS[:7])
    with Fork(partial(copy_slowly, path, copy)) as child:
        for _ in range(5):
            child.line()
    assert len(records.held(copy)) in (7, 400), "the old one, or the new one if the kill came late"
    assert verify(path).problems == []


# ------------------------------------------------------------------ full disks
MANY = records.Records(71, 900)
MERGING = Sizes(step_blocks=4, fan_out=2, waste_from=100)


def append_all(path: Path, count: int = 900) -> None:
    with Store.open(path, sizes=MERGING) as store:
        for first in range(0, count, 60):
            store.append(records.batch_of(MANY[first : first + 60]), fresh=0)
        store.checkpoint()


def merge_file(path: Path) -> None:
    with Store.open(path, sizes=MERGING) as store:
        records.merge_all(store)


WORKS: dict[str, Callable[[Path], object]] = {
    "append": append_all,
    "checkpoint": lambda path: append_all(path, 300),
    "merge": merge_file,
    "compact": lambda path: records.sized(MERGING, compact, path),
    "prune": lambda path: records.sized(MERGING, compact, path, min_visits=2),
    "backup": lambda path: backup(path, f"{path}.copy"),
    "salvage": lambda path: records.sized(MERGING, salvage, path, f"{path}.copy"),
}


def limited(work: str, path: Path, limit: int, say: Say) -> None:
    """Does some work with files that may not grow past a limit, as on a full disk; says how it fails."""
    import resource  # of POSIX

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # the write fails, the process lives
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    try:
        WORKS[work](path)
    except StoreError as error:
        say(error)


@pytest.mark.parametrize(
    ("work", "room"),  # bytes a file may have, 0: no more than it has; mostly the log meets it
    [
        ("append", 200_000),
        ("checkpoint", 0),
        ("merge", 40_000),
        ("merge", 200_000),
        ("compact", 100_000),
        ("prune", 100_000),
        ("backup", 40_000),
        ("salvage", 200_000),
    ],
)
def test_a_full_disk_stops_the_work_with_one_line_and_a_whole_file(path: Path, work: str, room: int) -> None:
    expected = records.by_identity(MANY)
    records.filled(path, MANY, runs=6)
    with Fork(lambda say: limited(work, path, room or path.stat().st_size, say)) as child:
        (line,) = child.rest()
    assert child.status == 0
    assert str(path) in line
    assert not Path(f"{path}.copy").exists()
    assert not Path(f"{path}.copy.part").exists()
    assert verify(path).problems == []
    with Store.open(path) as store:
        found = records.contents(store)
        if work == "prune":
            assert all(expected[key] == record for key, record in found.items())
        else:
            assert found == expected
        store.append(
            records.batch_of(MANY[:50]), fresh=50 - sum(records.identity(r) in found for r in MANY[:50])
        )
    compact(path)
    compact(path, min_visits=2)
    assert verify(path).problems == []


# ------------------------------------------------------------------ power failures
needs_shim = pytest.mark.skipif(bool(shim.why_not()), reason=shim.why_not())

# Executes command lines in a process with the shim; marks the journal with what the file holds after each.
PROGRAM = """
import importlib, json, sys
from pathlib import Path
from graphsearch.store.store import Store
from tests.support.faults.shim import Shim
from tests.store.test_crash import holds

library, folder, lines = Path(sys.argv[1]), Path(sys.argv[2]), json.loads(sys.argv[3])
shim = Shim(library)
shim.watch(str(folder))
shim.journal(folder.with_name("journal"))
for line in lines:
    code = importlib.import_module("graphsearch.cli").main(line)
    assert code == 0, (line, code)
    shim.journal(None)  # a reader makes a shm file, and no more
    told = json.dumps(holds(folder / "a.graph"))
    shim.journal(folder.with_name("journal"))
    shim.mark(told)
"""
MOMENTS = 3000 if os.environ.get("GRAPHSEARCH_FULL") else 15
COUNTED = ("run", "root", "root_history", "source", "game_move", "game", "entry_run", "book_queue")
PGN = '[Result "1-0"]\n\n1. e4 e5 2. Nf3 Nc6 1-0\n'


def holds(path: Path) -> dict[str, int]:
    """Returns numbers of a file that never fall, but for nodes when it is pruned."""
    with Store.open(path, read_only=True) as store:
        counts = {table: f"SELECT count(*) FROM {table}" for table in COUNTED}
        rows = {table: store.connection.execute(count).fetchone()[0] for table, count in counts.items()}
        return {"visits": sum(root.visits for root in store.roots()), **rows}


@cache
def _library(folder: Path) -> Path:
    return shim.build(folder)


def recorded(folder: Path, lines: list[list[str]]) -> Path:
    """Returns the journal of what some command lines wrote."""
    library = _library(folder.parent)
    (folder / "disk").mkdir()
    executed(PROGRAM, library, folder / "disk", json.dumps(lines))
    return folder / "journal"


def executed(program: str, library: Path, *args: object) -> str:
    """Returns what a Python program prints in a process with the shim."""
    command = [sys.executable, "-c", program, str(library), *map(str, args)]
    environment = shim.environment(library)
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def check_states(folder: Path, journal: Path, moments: int, seed: int) -> None:
    """Builds states of the disk at random moments and checks the graph file of each."""
    calls = list(shim.entries(journal))
    rng = random.Random(seed)
    for moment in sorted(rng.randrange(len(calls)) for _ in range(moments)):
        disk = shim.Disk({})
        disk.follow(calls[:moment])
        target = folder / f"after{moment}"
        target.mkdir(exist_ok=True)
        for name, content in disk.after_failure(rng).items():
            if not name.endswith(("-shm", ".lock")):  # SQLite builds the one anew; the other is no content
                (target / Path(name).name).write_bytes(content)
        _check_state(target / "a.graph", disk.marks, f"seed {seed}, moment {moment}")


def _check_state(path: Path, marks: list[str], where: str) -> None:
    if not marks and (not path.exists() or not verify(path).opened):
        return  # the power failed while the file was made: nobody was told of it
    report = verify(path)
    assert report.ok, (where, report.problems)
    if marks:
        found, told = holds(path), json.loads(marks[-1])
        assert all(found[name] >= number for name, number in told.items()), (where, told, found)
    for copy in path.parent.glob("copy.graph"):
        assert verify(copy).ok, (where, "the copy")


def _lines(folder: Path) -> list[list[str]]:
    graph, pgn = str(folder / "disk" / "a.graph"), folder / "a.pgn"
    pgn.write_text(PGN)
    search = ["analyze", "startpos", "--visits", "40", "--ram", "64MB", "--store", graph]
    return [
        ["import", str(pgn), "--store", graph],
        ["alphabeta", "startpos", "--depth", "2", "--ram", "8MB", "--store", graph],
        ["book", "queue", "startpos", "--moves", "1. d4", "--store", graph],
        search,
        search,
        ["store", "compact", graph],
        ["lab", "refresh", graph, "--ram", "64MB"],
        ["store", "backup", graph, str(folder / "disk" / "copy.graph")],
        ["store", "compact", graph, "--min-visits", "2"],
    ]


@needs_shim
def test_no_state_of_the_disk_is_unsound_or_loses_what_a_command_ended_with(tmp_path: Path) -> None:
    journal = recorded(tmp_path, _lines(tmp_path))
    check_states(tmp_path, journal, MOMENTS, seed=1)


@needs_shim
def test_the_model_of_a_disk_loses_tears_and_reorders_what_was_not_synced(tmp_path: Path) -> None:
    library = shim.build(tmp_path)
    script = (
        "import os; f = os.open('data', os.O_RDWR | os.O_CREAT); os.pwrite(f, b'a' * 8192, 0); os.fsync(f)\n"
    )
    script += "os.pwrite(f, b'b' * 8192, 0); os.pwrite(f, b'c' * 512, 8192)"
    watched = {"SHIM_PATHS": "data", "SHIM_JOURNAL": str(tmp_path / "journal")}
    environment = shim.environment(library) | watched
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, env=environment, check=True)
    disk = shim.Disk({})
    disk.follow(shim.entries(tmp_path / "journal"))
    rng = random.Random(1)
    (whole,) = disk.whole().values()
    assert whole == (tmp_path / "data").read_bytes()
    states = {content for _ in range(60) for content in disk.after_failure(rng).values()}
    assert b"a" * 8192 in states, "lost"
    assert whole in states, "kept"
    assert any(b"a" in state and b"b" in state for state in states), "torn"
    assert any(state[8192:] == b"c" * 512 and b"a" in state for state in states), "the later one only"
    assert all(state[:8192].count(b"a") + state[:8192].count(b"b") == 8192 for state in states)


# ------------------------------------------------------------------ a creation that fails
# Creates a file again and again, each time with another call that fails; prints what could not be repeated.
CREATION = """
import errno, json, sys
from pathlib import Path
from graphsearch.base.errors import StoreError
from graphsearch.store.provenance import EvaluatorIdentity
from graphsearch.store.store import Store
from tests.support.faults.shim import ALL, SHORT_WRITE, Fault, Shim

library, folder, step = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
shim = Shim(library)
path = folder / "a.graph"

def made():
    try:
        with Store.open(path, create=True, identity=EvaluatorIdentity("uniform")) as store:
            return store.connection.execute("PRAGMA auto_vacuum").fetchone()[0]
    except StoreError as error:
        return str(error)

def tried(fault):
    for file in folder.iterdir():
        file.unlink()
    shim.fail(fault)
    first = made()
    calls = shim.calls
    shim.fail(Fault(0, 0, 0))
    return calls, first, made()

tried(Fault(0, 0, 0))  # imports what it needs
shim.watch(str(folder))
calls, *_ = tried(Fault(ALL, 0, 0))
bad, failures = [], 0
for at in range(1, calls + 1, step):
    for error in (errno.ENOSPC, errno.EIO, SHORT_WRITE):
        fault = Fault(ALL, at, error, sticky=at % 2 == 0)
        _, first, second = tried(fault)
        failures += isinstance(first, str)
        if second != 2:  # incremental
            bad.append([repr(fault), first, second])
print(json.dumps([failures, bad]))
"""

STEP = 1 if os.environ.get("GRAPHSEARCH_FULL") else 24  # of the calls, every how many fails


@needs_shim
def test_a_creation_that_failed_can_be_repeated(tmp_path: Path) -> None:
    library = shim.build(tmp_path)
    (tmp_path / "files").mkdir()
    failures, bad = json.loads(executed(CREATION, library, tmp_path / "files", STEP))
    assert failures > 100 / STEP
    assert not bad
