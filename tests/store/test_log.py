"""The write-ahead log: checkpoints empty it, old readers may hold it, upkeep keeps it short."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from graphsearch.base.errors import StoreError
from graphsearch.store import file as log
from graphsearch.store.file import log_bytes, open_reader
from graphsearch.store.index import Sizes
from graphsearch.store.rewrite import Progress, compact
from graphsearch.store.salvage import salvage
from graphsearch.store.store import Store
from graphsearch.store.verify import verify

from .records import Records, batch_of, by_identity, contents, filled, new_store, sized

RECORDS = Records(71, 1600)
SMALL = Sizes(chunk_blocks=8, step_blocks=4, scan_blocks=4, vacuum_pages=2, waste_from=1 << 30, fan_out=100)
SHORT = 1 << 17  # bytes of a log that is due for a checkpoint


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("many") / "many.graph"
    return filled(path, RECORDS, runs=20, sizes=SMALL)


@pytest.fixture
def many_runs(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of 20 runs, in whose upkeep a log of 128 KiB counts as long."""
    monkeypatch.setattr(log, "LOG_BYTES", SHORT)
    return Path(shutil.copy(made, tmp_path))


Upkeep = Callable[[Path, Callable[[Progress], None]], object]


def _salvage(path: Path, progress: Callable[[Progress], None]) -> object:
    return sized(SMALL, salvage, path, path.with_name("new.graph"), on_progress=progress)


@pytest.mark.parametrize(
    "upkeep",
    [
        lambda path, progress: sized(SMALL, compact, path, progress),
        lambda path, progress: sized(SMALL, compact, path, progress, min_visits=2),
        _salvage,
    ],
    ids=["compact", "prune", "salvage"],
)
def test_upkeep_of_many_runs_keeps_the_log_short(many_runs: Path, upkeep: Upkeep) -> None:
    written = [many_runs, many_runs.with_name("new.graph.part")]
    logs: list[int] = []
    upkeep(many_runs, lambda now: logs.append(max(map(log_bytes, written))))
    assert len(logs) > 10
    assert max(logs) < many_runs.stat().st_size / 2
    assert max(logs) < 3 * SHORT
    assert verify(many_runs).problems == []


def test_upkeep_stops_before_a_reader_s_log_grows(many_runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "LONGEST_LOG_BYTES", 2 * SHORT)
    with closing(open_reader(many_runs)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM block").fetchone()
        with pytest.raises(StoreError, match="another program is reading an old state"):
            sized(SMALL, compact, many_runs)
        reader.execute("ROLLBACK")
    assert verify(many_runs).problems == []
    assert sized(SMALL, compact, many_runs).nodes == len(RECORDS)
    with Store.open(many_runs, read_only=True) as store:
        assert len(store.catalog.segments) == 1


def append(store: Store, first: int, last: int) -> None:
    store.append(batch_of(RECORDS[first:last]), fresh=last - first)


def test_commits_leave_the_log_to_checkpoints(path: Path) -> None:
    with new_store(path) as store:
        store.checkpoint()
        for first in range(0, 300, 10):
            append(store, first, first + 10)
        grown = log_bytes(path)
        assert grown > 30 * 16384, "SQLite on its own would have begun anew after 1000 pages of 4096"
        assert store.checkpoint(over=grown) == (grown, False), "not longer than it may be"
        assert store.checkpoint() == (0, False)
        assert store.checkpoint() == (0, False)
        append(store, 0, 1)
        assert 0 < log_bytes(path) < grown


def test_a_reader_of_an_old_state_holds_the_log_and_loses_nothing(path: Path) -> None:
    with new_store(path) as store:
        append(store, 0, 100)
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN")
        before = other.execute("SELECT count(*) FROM block").fetchone()
        append(store, 100, 200)
        size, held = store.checkpoint()
        assert (size, held) == (log_bytes(path), True)
        assert size > 0
        append(store, 200, 300)
        assert store.checkpoint()[1]
        assert other.execute("SELECT count(*) FROM block").fetchone() == before, "it still sees its own state"
        assert contents(store) == by_identity(RECORDS[:300])
        other.execute("COMMIT")
        assert store.checkpoint() == (0, False)
        other.close()
    assert verify(path).problems == []


def test_a_reader_between_batches_holds_nothing(path: Path) -> None:
    with new_store(path) as store, store.reader() as reader:
        for first in range(0, 300, 100):
            append(store, first, first + 100)
            reader.filter()
            assert store.checkpoint() == (0, False)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
def test_checkpoints_and_readers_leave_no_descriptor_open(path: Path) -> None:
    descriptors = Path("/proc/self/fd")
    unopened = len(list(descriptors.iterdir()))
    with new_store(path) as store:
        append(store, 0, 100)
        store.checkpoint()
        before = sorted(descriptors.iterdir())
        for first in range(100, 300, 10):
            append(store, first, first + 10)
            store.checkpoint()
        assert sorted(descriptors.iterdir()) == before
        for _ in range(3):
            store.reader().filter()
    assert len(list(descriptors.iterdir())) == unopened
    assert [file.name for file in path.parent.iterdir()] == ["test.graph"]
