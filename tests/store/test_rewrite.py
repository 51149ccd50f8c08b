"""The pass over a whole file that rewrites its records, in steps that may stop anywhere."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from graphsearch.store import merging
from graphsearch.store.index import Sizes
from graphsearch.store.record import NodeRecord, RecordBatch, take
from graphsearch.store.rewrite import Advance, Change, append_versions, rewrite
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


def mirrored(batch: RecordBatch, low: int, pivot: int | None) -> RecordBatch:
    return batch.replace(v=-batch.v)


def with_edges(batch: RecordBatch, low: int, pivot: int | None) -> RecordBatch:
    return take(batch, np.flatnonzero(np.diff(batch.edge_offsets) > 0))


def stopping(change: Change, steps: int, seen: set[tuple[int, ...]]) -> Change:
    """Returns a change that stops after some steps; `seen`: gets the records of these."""
    left_to_go = iter(range(steps))

    def changed(batch: RecordBatch, low: int, pivot: int | None) -> RecordBatch:
        if next(left_to_go, None) is None:
            raise Stop
        seen.update(identity(batch.record(i)) for i in range(len(batch)))
        return change(batch, low, pivot)

    return changed


def test_every_newest_version_is_changed_once_and_all_are_one_segment(path: Path) -> None:
    seen: list[tuple[int, ...]] = []
    calls: list[tuple[int, int]] = []

    def change(batch: RecordBatch, low: int, pivot: int | None) -> RecordBatch:
        seen.extend(identity(batch.record(i)) for i in range(len(batch)))
        return mirrored(batch, low, pivot)

    with Store.open(path, sizes=SMALL) as store:
        advance = Advance(lambda now: calls.append((now.done, now.total)), "", store.catalog.records)
        rewrite(store, change, advance=advance)
        assert contents(store) == expected(lambda r: replace(r, v=-r.v))
        assert len(store.catalog.segments) == 1
        assert store.node_count == len(RECORDS)
    assert sorted(seen) == sorted(expected(lambda r: r))
    assert calls == sorted(calls)
    assert calls[-1] == (600, 600)
    assert verify(path).problems == []


@pytest.mark.parametrize("steps", [0, 2, 5])
def test_a_pass_that_is_interrupted_leaves_a_sound_file_and_is_repeated(path: Path, steps: int) -> None:
    seen: set[tuple[int, ...]] = set()
    with Store.open(path, sizes=SMALL) as store:
        with pytest.raises(Stop):
            rewrite(store, stopping(mirrored, steps, seen))
        half = expected(lambda r: replace(r, v=-r.v) if identity(r) in seen else r)
        assert contents(store) == half
    assert verify(path).problems == []
    with Store.open(path, sizes=SMALL) as store:
        rewrite(store, lambda batch, low, pivot: batch.replace(v=np.abs(batch.v)))
        assert contents(store) == expected(lambda r: replace(r, v=abs(r.v)))


@pytest.mark.parametrize("steps", [0, 2, 5])
def test_an_interrupted_pruning_leaves_a_whole_file_that_any_merge_finishes(path: Path, steps: int) -> None:
    seen: set[tuple[int, ...]] = set()
    with Store.open(path, sizes=SMALL) as store:
        rewrite(store)
        with pytest.raises(Stop):
            rewrite(store, stopping(with_edges, steps, seen))
    left = expected(lambda r: r if r.edges or identity(r) not in seen else None)
    assert verify(path).problems == []
    with Store.open(path, sizes=SMALL) as store:
        assert contents(store) == left
        while store.merge_step():
            assert contents(store) == left
        assert contents(store) == left
        assert store.node_count == len(left)
    assert verify(path).problems == []


@pytest.mark.parametrize("fails", [False, True])
def test_versions_are_appended_in_steps_up_to_an_error(path: Path, fails: bool) -> None:
    def versions(store: Store) -> Iterator[RecordBatch]:
        yield from (mirrored(batch, 0, None) for batch in islice(store.all_records(), 2 if fails else None))
        if fails:
            raise Stop

    with Store.open(path, sizes=SMALL) as store:
        with pytest.raises(Stop) if fails else nullcontext():
            append_versions(store, versions(store))
        new, old = expected(lambda r: replace(r, v=-r.v)), expected(lambda r: r)
        found = contents(store)
        assert sum(found[key] == new[key] != old[key] for key in found) > 50
        assert all(record in (new[key], old[key]) for key, record in found.items())
        assert fails or found == new
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
        rewrite(store)
        with pytest.raises(Stop):
            rewrite(store, stopping(lambda batch, low, pivot: take(batch, np.zeros(0, np.int64)), 2, set()))
        assert sum(len(batch) for batch in store.scan()) == store.node_count < 950
    assert verify(path).problems == []


def test_a_merge_under_way_is_finished_first(path: Path) -> None:
    with Store.open(path, sizes=SMALL) as store:
        with store.rearranging():
            merging.start(store.connection, store.catalog.segments[:3])
        store.merge_step()
        rewrite(store, mirrored)
    assert held(path) == expected(lambda r: replace(r, v=-r.v))
