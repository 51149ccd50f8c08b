"""A disk that is full, at any step of any work: one line, a whole file, and on it goes once there is room."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from graphsearch.base.errors import StoreError
from graphsearch.store.backup import backup
from graphsearch.store.index import Sizes
from graphsearch.store.rewrite import compact
from graphsearch.store.salvage import salvage
from graphsearch.store.store import Store
from graphsearch.store.verify import verify

from ..support.forks import Fork, Say, needs_fork
from .records import Records, batch_of, by_identity, contents, filled, identity, merge_all, sized

resource = pytest.importorskip("resource", reason="limits of POSIX")

RECORDS = Records(71, 900)

SMALL = Sizes(step_blocks=4, fan_out=2, waste_from=100)


def append(path: Path) -> None:
    with Store.open(path, sizes=SMALL) as store:
        for first in range(0, 900, 60):
            store.append(batch_of(RECORDS[first : first + 60]), fresh=0)


def merge(path: Path) -> None:
    with Store.open(path, sizes=SMALL) as store:
        merge_all(store)


WORKS: dict[str, Callable[[Path], object]] = {
    "append": append,
    "merge": merge,
    "compact": lambda path: sized(SMALL, compact, path),
    "prune": lambda path: sized(SMALL, compact, path, min_visits=2),
    "backup": lambda path: backup(path, f"{path}.copy"),
    "salvage": lambda path: sized(SMALL, salvage, path, f"{path}.copy"),
}


def limited(work: str, path: Path, limit: int, say: Say) -> None:
    """Does some work with files that may not grow past a limit, as on a full disk; says how it fails."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # the write fails, the process lives
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    try:
        WORKS[work](path)
    except StoreError as error:
        say(error)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return filled(tmp_path_factory.mktemp("room") / "test.graph", RECORDS, runs=6)


@pytest.fixture
def path(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(made, tmp_path))


@needs_fork
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
def test_a_full_disk_stops_the_work_with_one_line_and_a_whole_file(path: Path, work: str, room: int) -> None:
    expected = by_identity(RECORDS)
    with Fork(lambda say: limited(work, path, room, say)) as child:
        (line,) = child.rest()
    assert child.status == 0
    assert str(path) in line
    assert not Path(f"{path}.copy").exists()
    assert not Path(f"{path}.copy.part").exists()
    assert verify(path).problems == []
    with Store.open(path) as store:
        found = contents(store)
        if work == "prune":
            assert all(expected[key] == record for key, record in found.items())
        else:
            assert found == expected
        store.append(batch_of(RECORDS[:50]), fresh=50 - sum(identity(r) in found for r in RECORDS[:50]))
    compact(path)
    compact(path, min_visits=2)
    assert verify(path).problems == []
