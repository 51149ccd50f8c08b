"""Passes over whole files: new versions of records, and pruning, in steps that may stop anywhere."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from graphsearch.store import merging
from graphsearch.store.index import Sizes
from graphsearch.store.record import NodeRecord, RecordBatch
from graphsearch.store.rewrite import keep_only, rewrite
from graphsearch.store.store import Store
from graphsearch.store.verify import verify

from .records import Records, batch_of, contents, filled, held, identity

RECORDS = Records(71, 500)
SMALL = Sizes(step_blocks=3, scan_blocks=3)


class Stop(Exception):  # noqa: N818
    """What a test ends a rewrite with."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of five runs with two versions of a fifth of its records, the newer ones with V = 0."""
    path = filled(tmp_path_factory.mktemp("rewrite") / "test.graph", RECORDS, runs=4, sizes=SMALL)
    with Store.open(path, sizes=SMALL) as store:
        store.append(batch_of([replace(record, v=0.0, d=0) for record in RECORDS[::5]]), fresh=0)
    return path


@pytest.fixture
def path(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(made, tmp_path))


def expected(change: Callable[[NodeRecord], NodeRecord | None]) -> dict[tuple[int, ...], NodeRecord]:
    newest = [replace(r, v=0.0, d=0) if i % 5 == 0 else r for i, r in enumerate(RECORDS)]
    return {identity(r): c for r in newest if (c := change(r)) is not None}


def mirrored(store: Store) -> Iterator[RecordBatch]:
    return (batch.replace(v=-batch.v) for batch in store.all_records())


def has_edges(batch: RecordBatch) -> NDArray[np.bool_]:
    return np.asarray(np.diff(batch.edge_offsets) > 0)


def test_new_versions_of_all_records_are_one_segment(path: Path) -> None:
    with Store.open(path, sizes=SMALL) as store:
        segments = len(store.catalog.segments)
        rewrite(store, mirrored(store))
        assert contents(store) == expected(lambda r: replace(r, v=-r.v))
        assert len(store.catalog.segments) <= segments + 2, "the last step is small"
        assert store.node_count == len(RECORDS)
    assert verify(path).problems == []


@pytest.mark.parametrize("steps", [0, 2, 5])
def test_a_pass_that_is_interrupted_leaves_a_sound_file_and_is_repeated(path: Path, steps: int) -> None:
    with Store.open(path, sizes=SMALL) as store:
        with pytest.raises(Stop):
            rewrite(store, stopping(mirrored(store), steps))
        both = expected(lambda r: r), expected(lambda r: replace(r, v=-r.v))
        assert all(record in (both[0][key], both[1][key]) for key, record in contents(store).items())
    assert verify(path).problems == []
    with Store.open(path, sizes=SMALL) as store:
        rewrite(store, (batch.replace(v=np.abs(batch.v)) for batch in store.all_records()))
        assert contents(store) == expected(lambda r: replace(r, v=abs(r.v)))


def stopping(batches: Iterator[RecordBatch], steps: int) -> Iterator[RecordBatch]:
    yield from islice(batches, steps)
    raise Stop


def test_every_newest_version_is_asked_for_once(path: Path) -> None:
    calls: list[tuple[int, int]] = []
    seen: list[tuple[int, ...]] = []

    def keep(batch: RecordBatch) -> NDArray[np.bool_]:
        seen.extend(identity(batch.record(i)) for i in range(len(batch)))
        return np.ones(len(batch), bool)

    with Store.open(path, sizes=SMALL) as store:
        keep_only(store, keep, lambda now: calls.append((now.done, now.total)))
        assert contents(store) == expected(lambda r: r)
        assert len(store.catalog.segments) == 1
    assert sorted(seen) == sorted(expected(lambda r: r))
    assert calls == sorted(calls)
    assert calls[-1] == (600 + 500, 600 + 500)


@pytest.mark.parametrize("steps", [0, 2, 5])
def test_an_interrupted_pruning_leaves_a_whole_file_that_any_merge_finishes(path: Path, steps: int) -> None:
    seen: set[tuple[int, ...]] = set()
    left_to_go = iter(range(steps))

    def stopping(batch: RecordBatch) -> NDArray[np.bool_]:
        if next(left_to_go, None) is None:
            raise Stop
        seen.update(identity(batch.record(i)) for i in range(len(batch)))
        return has_edges(batch)

    with Store.open(path, sizes=SMALL) as store, pytest.raises(Stop):
        keep_only(store, stopping)
    left = expected(lambda r: r if r.edges or identity(r) not in seen else None)
    assert verify(path).problems == []
    with Store.open(path, sizes=SMALL) as store:
        assert contents(store) == left
        while store.merge_step():
            assert contents(store) == left
        assert contents(store) == left
        assert store.node_count == len(left)
    assert verify(path).problems == []


def test_equal_sort_keys_on_both_sides_of_a_step_are_kept_apart(tmp_path: Path) -> None:
    """Positions that differ in rights and clocks only share a sort key."""
    twins = [r for r in RECORDS if r.words[8] >> 12 & 255 <= 75][:150]
    versions = [
        replace(r, words=(*r.words[:8], r.words[8] & ~(255 << 12) | clock << 12, r.words[9]))
        for r in twins
        for clock in range(76, 82)
    ]
    path = filled(tmp_path / "twins.graph", [*versions, *RECORDS[:50]])
    with Store.open(path, sizes=SMALL) as store:
        with pytest.raises(Stop):
            keep_only(store, drop_and_stop())
        assert sum(len(batch) for batch in store.scan()) == store.node_count < 950
    assert verify(path).problems == []


def drop_and_stop() -> Callable[[RecordBatch], NDArray[np.bool_]]:
    """Returns a function that drops all of the first two batches and stops at the third."""
    batches: list[RecordBatch] = []

    def drop(batch: RecordBatch) -> NDArray[np.bool_]:
        batches.append(batch)
        if len(batches) > 2:
            raise Stop
        return np.zeros(len(batch), bool)

    return drop


def test_a_merge_under_way_is_finished_first(path: Path) -> None:
    with Store.open(path, sizes=SMALL) as store:
        with store.rearranging():
            merging.start(store.connection, store.catalog.segments[:3])
        store.merge_step()
        keep_only(store, has_edges)
    assert held(path) == expected(lambda r: r if r.edges else None)
