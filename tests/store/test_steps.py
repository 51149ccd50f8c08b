"""Steps over several segments look at the blocks that they need, whatever the size of the file."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphsearch.base.errors import CorruptRecordError
from graphsearch.store.index.catalog import read_segments
from graphsearch.store.ordered_work import in_order
from graphsearch.store.portions import portions
from graphsearch.store.record.node import NodeRecord, RecordBatch
from graphsearch.store.segments import choose_pivot, first_chunks
from graphsearch.store.sizes import Sizes
from graphsearch.store.store import Store
from graphsearch.store.upkeep.rewrite import rewrite

from .records import IDENTITY, batch_of, filled, random_records

KEYS = st.lists(st.integers(0, 60), max_size=40).map(sorted)


@given(st.lists(KEYS, min_size=1, max_size=5), st.integers(0, 12), st.none() | st.integers(0, 60))
def test_the_pivot_has_so_many_blocks_below_it(keys: list[list[int]], blocks: int, low: int | None) -> None:
    cursors: Any = [SimpleNamespace(keys=np.array(some, np.uint64), at=0) for some in keys]
    above = sorted(key for some in keys for key in some if low is None or key > low)
    expected = above[blocks] if len(above) > blocks else None
    assert choose_pivot(cursors, blocks, low) == expected


def test_a_step_looks_at_few_chunks_of_a_large_segment(tmp_path: Path) -> None:
    sizes = Sizes(chunk_blocks=2)
    path = filled(tmp_path / "a.graph", random_records(5, 1000), runs=1, sizes=sizes)
    with Store.open(path, read_only=True, sizes=sizes) as store:
        (segment,) = store.catalog.segments
        assert len(segment.chunks) > 10
        some = first_chunks(store.catalog, segment, None, 3)
        assert some.chunks == segment.chunks[:2]
        assert first_chunks(store.catalog, segment, None, 10**6).chunks == segment.chunks
        later = first_chunks(store.catalog, segment, segment.chunks[4].first_key, 1)
        assert segment.chunks[4] in later.chunks
        assert len(later.chunks) < 8


def _append_good_then_bad(store: Store, records: list[NodeRecord]) -> None:
    batch = batch_of(records[:40])
    store.append(batch, fresh=0)
    batch.words[0] = 0
    store.append(batch, fresh=0)


def test_the_writer_follows_its_own_writing(tmp_path: Path) -> None:
    sizes = Sizes(chunk_blocks=3, step_blocks=2, fan_out=3)
    records = random_records(8, 900)
    path = filled(tmp_path / "a.graph", records, runs=7, sizes=sizes)

    def check(store: Store) -> None:
        assert store.catalog.segments == read_segments(store.connection, store.path)

    with Store.open(path, identity=IDENTITY, sizes=sizes) as store:
        check(store)
        while store.merge_step():
            check(store)
            if len(store.catalog.segments) % 2:
                store.append(batch_of(records[:40]), fresh=0)
                check(store)
        with pytest.raises(CorruptRecordError), store.transaction():
            _append_good_then_bad(store, records)
        check(store)
        rewrite(store, lambda batch: batch.part(0, len(batch) - 1))
        check(store)


def test_portions_solved_on_many_threads_come_in_order(tmp_path: Path) -> None:
    sizes = Sizes(scan_blocks=2, chunk_blocks=3)
    path = filled(tmp_path / "a.graph", random_records(6, 900), runs=4, sizes=sizes)
    with Store.open(path, read_only=True, sizes=sizes) as store:
        expected = RecordBatch.concat(list(store.scan()))
        batches = list(portions(store, lambda portion: portion.records(), threads=3))
        found = RecordBatch.concat(batches)
        sums = sum(portions(store, lambda portion: len(portion.versions()[1]), threads=2))
    assert len(batches) > 10
    assert [found.record(i) for i in range(len(found))] == [expected.record(i) for i in range(len(expected))]
    assert sums == len(expected)


def test_results_come_in_order_and_a_failure_reaches_the_caller() -> None:
    def late(x: int) -> int:
        time.sleep(0.02 if x == 0 else 0)
        return 10 * x

    assert list(in_order(range(7), late, 3)) == [0, 10, 20, 30, 40, 50, 60]
    assert list(in_order([], late, 3)) == []

    def failing(x: int) -> int:
        if x == 2:
            raise ValueError("two")
        return x

    results = in_order(range(100), failing, 2)
    assert [next(results), next(results)] == [0, 1]
    with pytest.raises(ValueError, match="two"):
        next(results)


def test_few_items_are_held_at_once_and_the_rest_is_never_asked_for() -> None:
    asked: list[int] = []

    def items() -> Any:
        for x in range(1000):
            asked.append(x)
            yield x

    results = in_order(items(), lambda x: x, 2)
    assert [next(results) for _ in range(3)] == [0, 1, 2]
    assert len(asked) <= 6
    results.close()  # type: ignore[attr-defined]
    assert len(asked) <= 6
