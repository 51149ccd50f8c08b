"""A power failure at any moment, and a creation in which any one call fails: what was done is sound."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from graphsearch.store.store import Store
from graphsearch.store.verify import verify

from ..conftest import ROOT
from ..support.faults import shim
from ..support.faults.power import Disk, entries

pytestmark = pytest.mark.skipif(bool(shim.why_not()), reason=shim.why_not())

# Executes command lines in a process with the shim; marks the journal with what the file holds after each.
PROGRAM = """
import importlib, json, sys
from pathlib import Path
from graphsearch.store.store import Store
from tests.support.faults.shim import Shim
from tests.store.test_power_loss import holds

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
    command = [sys.executable, "-c", PROGRAM, str(library), str(folder / "disk"), json.dumps(lines)]
    done = subprocess.run(
        command, cwd=ROOT, env=shim.environment(library), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return folder / "journal"


def check(folder: Path, journal: Path, moments: int, seed: int) -> None:
    """Builds states of the disk at random moments and checks the graph file of each."""
    calls = list(entries(journal))
    rng = random.Random(seed)
    for moment in sorted(rng.randrange(len(calls)) for _ in range(moments)):
        disk = Disk({})
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


def test_no_state_of_the_disk_is_unsound_or_loses_what_a_command_ended_with(tmp_path: Path) -> None:
    journal = recorded(tmp_path, _lines(tmp_path))
    check(tmp_path, journal, MOMENTS, seed=1)


def test_the_model_of_a_disk_loses_tears_and_reorders_what_was_not_synced(tmp_path: Path) -> None:
    library = shim.build(tmp_path)
    script = (
        "import os; f = os.open('data', os.O_RDWR | os.O_CREAT); os.pwrite(f, b'a' * 8192, 0); os.fsync(f)\n"
    )
    script += "os.pwrite(f, b'b' * 8192, 0); os.pwrite(f, b'c' * 512, 8192)"
    watched = {"SHIM_PATHS": "data", "SHIM_JOURNAL": str(tmp_path / "journal")}
    environment = shim.environment(library) | watched
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, env=environment, check=True)
    disk = Disk({})
    disk.follow(entries(tmp_path / "journal"))
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


def test_a_creation_that_failed_can_be_repeated(tmp_path: Path) -> None:
    library = shim.build(tmp_path)
    (tmp_path / "files").mkdir()
    command = [sys.executable, "-c", CREATION, str(library), str(tmp_path / "files"), str(STEP)]
    done = subprocess.run(
        command, cwd=ROOT, env=shim.environment(library), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    failures, bad = json.loads(done.stdout)
    assert failures > 100 / STEP
    assert not bad
