"""The write-ahead log: commits leave it, checkpoints empty it, a reader of an old state may hold it."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from graphsearch.base.errors import StoreError
from graphsearch.store.side_files import log_bytes
from graphsearch.store.store import Store
from graphsearch.store.upkeep.verify import verify

from .records import IDENTITY, Records, batch_of, contents, identity

RECORDS = Records(71, 300)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "test.graph"


def new_store(path: Path) -> Store:
    return Store.open(path, create=True, identity=IDENTITY)


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
        assert contents(store) == {identity(record): record for record in RECORDS}
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


def test_a_checkpoint_needs_a_writer_outside_a_transaction(path: Path) -> None:
    with new_store(path) as store:
        append(store, 0, 5)
        with store.transaction(), pytest.raises(StoreError, match="inside a transaction"):
            store.checkpoint()
    with Store.open(path, read_only=True) as store, pytest.raises(StoreError, match="reading only"):
        store.checkpoint()


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
def test_checkpoints_leave_no_descriptor_open(path: Path) -> None:
    with new_store(path) as store:
        append(store, 0, 100)
        store.checkpoint()
        before = sorted(Path("/proc/self/fd").iterdir())
        for first in range(100, 300, 10):
            append(store, first, first + 10)
            store.checkpoint()
        assert sorted(Path("/proc/self/fd").iterdir()) == before
