"""A disk that is full, at any step of any work: one line, a whole file, and on it goes once there is room."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from graphsearch.store.store import Store
from graphsearch.store.upkeep.compact import compact
from graphsearch.store.upkeep.prune import prune
from graphsearch.store.upkeep.verify import verify

from ..conftest import ROOT
from .records import Records, batch_of, contents, filled, identity

RECORDS = Records(71, 900)
EXPECTED = {identity(record): record for record in RECORDS}

# Forks a child for every line `WORK PATH LIMIT`, so that imports and records are paid for once. It does some
# work with files that may not grow past so many bytes, as on a full disk, and prints how it fails.
LIMITED = """
import os, resource, signal, sys
from graphsearch.base.errors import StoreError
from graphsearch.store.sizes import Sizes
from graphsearch.store.store import Store
from graphsearch.store.upkeep.backup import backup
from graphsearch.store.upkeep.compact import compact
from graphsearch.store.upkeep.prune import prune
from graphsearch.store.upkeep.salvage import salvage
from tests.store.records import batch_of, random_records

records = random_records(71, 900)
batch_of(records)
small = Sizes(step_blocks=4, fan_out=2, waste_from=100)
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # the write fails, the process lives

def append(path):
    with Store.open(path, sizes=small) as store:
        for first in range(0, 900, 60):
            store.append(batch_of(records[first : first + 60]), fresh=0)
            print("appended", flush=True)

def merge(path):
    with Store.open(path, sizes=small) as store:
        while store.merge_step():
            print("merged", flush=True)

works = {
    "append": append,
    "merge": merge,
    "compact": lambda path: compact(path, sizes=small),
    "prune": lambda path: prune(path, 2, sizes=small),
    "backup": lambda path: backup(path, path + ".copy"),
    "salvage": lambda path: salvage(path, path + ".copy", sizes=small),
}
for line in sys.stdin:
    child = os.fork()
    if not child:
        work, path, limit = line.split()
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), int(limit)))
        try:
            works[work](path)
        except StoreError as error:
            print("failed", error, flush=True)
        os._exit(0)
    print("over", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
Helper = subprocess.Popen[str]


@pytest.fixture(scope="module")
def helper() -> Iterator[Helper]:
    """The process that forks those who work."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", LIMITED], cwd=ROOT, **pipes) as process:  # type: ignore[call-overload]
        yield process
        process.stdin.close()


def limited(helper: Helper, work: str, path: Path, limit: int) -> list[str]:
    """Returns what a process prints that does some work within a limit on the size of files."""
    assert helper.stdin is not None
    assert helper.stdout is not None
    helper.stdin.write(f"{work} {path} {limit}\n")
    helper.stdin.flush()
    lines: list[str] = []
    while not (line := helper.stdout.readline()).startswith("over"):
        assert line, "the helper has ended"
        lines.append(line.rstrip("\n"))
    assert line == "over 0\n"
    return lines


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return filled(tmp_path / "test.graph", RECORDS, runs=6)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize(
    ("work", "room"),  # bytes a file may have: mostly the log meets it
    [
        ("append", 200_000),
        ("merge", 40_000),
        ("merge", 200_000),
        ("compact", 100_000),
        ("prune", 100_000),
        ("backup", 40_000),
        ("salvage", 200_000),
    ],
)
def test_a_full_disk_stops_the_work_with_one_line_and_a_whole_file(
    helper: Helper, path: Path, work: str, room: int
) -> None:
    lines = limited(helper, work, path, room)
    assert len([line for line in lines if line.startswith("failed")]) == 1
    assert lines[-1].startswith("failed"), lines
    assert str(path) in lines[-1]
    assert not Path(f"{path}.copy").exists()
    assert not Path(f"{path}.copy.part").exists()
    assert verify(path).problems == []
    with Store.open(path) as store:
        found = contents(store)
        if work == "prune":
            assert all(EXPECTED[key] == record for key, record in found.items())
        else:
            assert found == EXPECTED
        store.append(batch_of(RECORDS[:50]), fresh=50 - sum(identity(r) in found for r in RECORDS[:50]))
    compact(path)
    prune(path, 2)
    assert verify(path).problems == []
