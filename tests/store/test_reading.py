"""Batches read beside a writer: never a record missed or misread, and damage passed over."""

from __future__ import annotations

import random
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphsearch.base.errors import CapacityError, StoreError
from graphsearch.store.index import Sizes
from graphsearch.store.store import Store
from graphsearch.store.tables.rows import rows

from ..conftest import sql
from ..support.forks import Fork, Say, needs_fork
from .records import (
    Records,
    batch_of,
    by_identity,
    changed,
    filled,
    found_by,
    identity,
    lookup,
    merge_all,
    new_store,
    stored_each,
    words_of,
)

RECORDS = Records(71, 400)
SMALL = Sizes(
    chunk_blocks=2, piece_blocks=5, step_blocks=2, fan_out=3, waste_from=100
)  # many chunks and steps


@pytest.mark.parametrize("read_only", [False, True])
def test_the_newest_versions_come_in_the_order_asked(path: Path, *, read_only: bool) -> None:
    rng = random.Random(0)
    newer = [changed(record, rng) for record in RECORDS[50:150]]
    with new_store(path, SMALL) as store:
        store.append(batch_of(RECORDS[:300]), fresh=300)
        store.append(batch_of(newer), fresh=0)
    model = by_identity([*RECORDS[:300], *newer])
    asked = rng.sample(RECORDS, 400) + RECORDS[:9]
    with Store.open(path, read_only=read_only, sizes=SMALL) as store, store.reader() as reader:
        assert found_by(reader, asked) == [model.get(identity(record)) for record in asked]
        assert found_by(reader, asked[:1]) == [model.get(identity(asked[0]))]
        assert found_by(reader, []) == []
        assert reader.problems == []


def test_a_reader_sees_what_is_committed_and_nothing_else(path: Path) -> None:
    with new_store(path) as store, store.reader() as reader:
        assert found_by(reader, RECORDS[:5]) == [None] * 5
        store.append(batch_of(RECORDS[:100]), fresh=100)
        assert found_by(reader, RECORDS[:100]) == RECORDS[:100]
        with suppress(KeyError), store.transaction():
            store.append(batch_of(RECORDS[100:200]), fresh=100)
            assert found_by(reader, RECORDS[100:102]) == [None, None]
            raise KeyError
        assert found_by(reader, RECORDS[100:200]) == [None] * 100
        store.append(batch_of(RECORDS[200:]), fresh=200)  # may use the ids of what was rolled back
        assert found_by(reader, RECORDS) == [*RECORDS[:100], *[None] * 100, *RECORDS[200:]]


@pytest.mark.parametrize("question", ["open", "ask again"])
def test_all_indexes_are_of_one_moment(path: Path, monkeypatch: pytest.MonkeyPatch, question: str) -> None:
    """Between the two lists that a reader reads, a writer commits a segment of its own."""
    with new_store(path) as writer, Store.open(path, read_only=True) as reader:
        writer.append(batch_of(RECORDS[:100]), fresh=100)

        def write_between(connection: sqlite3.Connection, table: str, *asked: Any) -> Iterator[Any]:
            if table == "chunk":
                monkeypatch.setattr("graphsearch.store.index.rows", rows)
                writer.append(batch_of(RECORDS[100:]), fresh=300)
            return rows(connection, table, *asked)

        monkeypatch.setattr("graphsearch.store.index.rows", write_between)
        if question == "open":
            Store.open(path, read_only=True).close()
        else:
            assert reader.node_count == 100
        assert reader.node_count == 400


VERSIONS = 8


def test_a_reader_beside_a_merging_writer_misses_nothing(path: Path) -> None:
    """One thread appends versions and merges, one reads; `d` is the number of the version."""
    versions: list[set[tuple[int, ...]]] = []  # what each version wrote
    state = {"begun": 0, "committed": 0}
    failed: list[BaseException] = []

    def write(store: Store) -> None:
        rng = random.Random(8)
        try:
            for version in range(VERSIONS):
                part = rng.sample(RECORDS, 60)
                versions.append({identity(record) for record in part})
                state["begun"] = version + 1
                fresh = sum(all(identity(r) not in v for v in versions[:-1]) for r in part)
                batch = batch_of([replace(r, v=0.0, d=version) for r in part])
                store.append(batch, fresh=fresh)
                state["committed"] = version + 1
                merge_all(store)
        except BaseException as error:
            failed.append(error)

    with new_store(path, SMALL) as store, store.reader() as reader:
        writer = threading.Thread(target=write, args=(store,))
        writer.start()
        rng = random.Random(9)
        while writer.is_alive():
            asked = rng.sample(RECORDS, 50)
            before = state["committed"]
            answers = found_by(reader, asked)
            after = state["begun"]
            for record, answer in zip(asked, answers, strict=True):
                mine = [v for v in range(after) if identity(record) in versions[v]]
                newest = max((v for v in mine if v < before), default=None)
                allowed = [v for v in mine if v >= before or v == newest]
                assert answer is not None or newest is None
                if answer is not None:
                    assert answer.d in allowed
                    assert answer == replace(record, v=0.0, d=answer.d)
        writer.join()
        assert not failed, failed
        assert state["committed"] == VERSIONS
        assert reader.problems == []
        assert len(store.catalog.segments) < 10


def test_a_record_may_be_asked_for_many_times(path: Path) -> None:
    """A position at several clocks is one record; what is found has more moves than its block then."""
    filled(path, RECORDS[:300], runs=2)
    asked = [*RECORDS[:20] * 30, *[RECORDS[7]] * 400]
    with Store.open(path) as store, store.reader() as reader:
        assert found_by(reader, asked) == asked


def test_an_older_filter_lives_on_when_merges_have_replaced_its_chunks(path: Path) -> None:
    """Filters are handed to kernels as addresses: whoever has the addresses keeps the filters."""
    words = words_of(RECORDS[:200])
    with new_store(path, SMALL) as store, store.reader() as reader:
        store.append(batch_of(RECORDS[:200]), fresh=200)
        older = reader.filter()
        for first in range(200, 400, 40):
            store.append(batch_of(RECORDS[first : first + 40]), fresh=40)
            merge_all(store)
            reader.filter()
        assert stored_each(older, words).all()


def test_a_file_that_cannot_be_read_at_all_is_an_error(path: Path) -> None:
    filled(path, RECORDS)
    with Store.open(path) as store, store.reader() as reader:
        sql(path, "DROP TABLE chunk")
        with pytest.raises(StoreError, match="chunk"):
            found_by(reader, RECORDS)


def test_limits_and_wrong_use(path: Path) -> None:
    filled(path, RECORDS)
    with Store.open(path) as store:
        reader = store.reader()
        with pytest.raises(CapacityError, match="100001 positions"):
            reader.find(np.zeros((100_001, 10), np.uint64))
    with pytest.raises(StoreError, match="closed"):
        reader.filter()


@needs_fork
def test_a_forked_child_uses_neither_store_nor_reader(path: Path) -> None:
    with new_store(path) as store, store.reader() as reader:
        for use in (reader.filter, lambda: store.append(batch_of(RECORDS[:1]), fresh=1)):

            def use_it(say: Say, use: Callable[[], object] = use) -> None:
                with pytest.raises(StoreError, match="fork"):
                    use()

            with Fork(use_it) as child:
                child.rest()
            assert child.status == 0


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
def test_readers_leave_no_descriptor_open(path: Path) -> None:
    filled(path, RECORDS[:40])
    before = descriptors()
    for _ in range(3):
        with Store.open(path) as store:
            for _ in range(3):
                store.reader().filter()
            lookup(store, np.zeros((0, 10), np.uint64))
    assert descriptors() == before
    assert sorted(p.name for p in path.parent.iterdir()) == ["test.graph"]
