"""Rewriting, compacting, pruning and copying a file: what stays, what goes, that a stop harms nothing."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import chess
import numpy as np
import pytest

from graphsearch.base.errors import StoreError, StoreLockedError
from graphsearch.position.board import fen_of, unpack
from graphsearch.store import file, index, merging, ordered_work
from graphsearch.store.backup import backup
from graphsearch.store.record import NodeRecord, RecordBatch, keys_of, take
from graphsearch.store.rewrite import Advance, Change, Progress, append_versions, compact, rewrite
from graphsearch.store.store import Store
from graphsearch.store.tables.top import rows_of
from graphsearch.store.verify import verify

from ..conftest import sql
from ..support.forks import Fork, Say
from .records import IDENTITY, Records, batch_of, by_identity, changed, contents, filled, held, identity

RECORDS = Records(71, 600)


@cache
def newer() -> list[NodeRecord]:
    return [changed(record, random.Random(k)) for k, record in enumerate(RECORDS[::2])]


@cache
def newest() -> dict[tuple[int, ...], NodeRecord]:
    return by_identity([*RECORDS, *newer()])


class Stop(Exception):  # noqa: N818
    """What a test ends some work with."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = filled(tmp_path_factory.mktemp("upkeep") / "test.graph", RECORDS, runs=6)
    with Store.open(path) as store:
        store.append(batch_of(newer()), fresh=0)
    return path


@pytest.fixture
def path(made: Path, tmp_path: Path) -> Path:
    """A copy of a file of seven runs with two versions of half of its records."""
    return Path(shutil.copy(made, tmp_path))


def test_compacting_keeps_the_newest_versions_and_gives_room_back(path: Path) -> None:
    size = file.file_bytes(path)
    report = compact(path)
    assert report.as_dict() == {
        "nodes": 600,
        "dropped": 0,
        "superseded": 300,
        "runs": 7,
        "bytes_before": size,
        "bytes_after": file.file_bytes(path),
    }
    assert report.bytes_after < size
    assert held(path) == newest()
    assert sql(path, "PRAGMA freelist_count") == [(0,)]
    again = compact(path)
    assert (again.superseded, again.bytes_after) == (0, again.bytes_before)


@pytest.mark.parametrize(
    "spoil",
    [
        "DELETE FROM sqlite_sequence",
        "UPDATE sqlite_sequence SET seq = 'x'",
        "UPDATE sqlite_sequence SET name = '1' WHERE name = 'chunk'",
    ],
)
def test_no_number_of_a_chunk_is_given_twice_though_sqlites_count_is_damaged(path: Path, spoil: str) -> None:
    sql(path, spoil)
    compact(path)
    assert held(path) == newest()


def test_compacting_empties_the_log_while_a_reader_is_there(path: Path) -> None:
    with Store.open(path, read_only=True) as reader:
        assert reader.node_count == 600
        compact(path)
        assert path.with_name(path.name + "-wal").stat().st_size == 0
        assert contents(reader) == newest()


def test_pruning_drops_what_has_few_visits_and_keeps_roots(path: Path) -> None:
    root = next(record for record in newest().values() if record.visits == 1)
    key = int(keys_of(batch_of([root]).words)[0])
    with Store.open(path) as store:
        store.record_root(f"{key:016x}", chess.STARTING_FEN, 1)
        many, few = (
            next(r for r in newest().values() if (r.visits >= 10) == stays and r != root) for stays in (1, 0)
        )
        shown = [rows_of(fen_of(unpack(record.words)), record) for record in (root, many, few)]
        store.write_top(shown)
    expected = {k: r for k, r in newest().items() if r.visits >= 10 or r == root}
    report = compact(path, min_visits=10)
    assert (report.dropped, report.nodes) == (600 - len(expected), len(expected))
    assert report.bytes_after == file.file_bytes(path) < report.bytes_before
    assert held(path) == expected
    positions, edges = (
        {key for (key,) in sql(path, f"SELECT key FROM top_{name}")} for name in ("position", "edge")
    )
    assert positions == {rows.position["key"] for rows in shown[:2]}
    assert edges == {rows.position["key"] for rows in shown[:2] if rows.moves}


# -------------------------------------------------------------- backup
def write_when_told(path: Path, told: int, say: Say) -> None:
    """Commits a batch for each plus in a pipe."""
    with Store.open(path) as store:
        while os.read(told, 1) == b"+":
            store.append(batch_of(RECORDS[:100]), fresh=0)
            store.merge_step()
            say("done")


def test_a_copy_beside_a_writer_is_whole(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graphsearch.store.backup.STEP_PAGES", 1)
    told, telling = os.pipe()
    calls: list[tuple[int, int]] = []
    with Fork(lambda say: write_when_told(path, told, say)) as writer:

        def commit(now: Progress) -> None:
            """Has the other process commit between any two steps."""
            calls.append((now.done, now.total))
            assert len(calls) < 1000
            os.write(telling, b"+")
            assert writer.line() == "done"

        report = backup(path, tmp_path / "copy.graph", on_progress=commit)
        os.write(telling, b".")
        writer.rest()
    os.close(told)
    os.close(telling)
    assert [done for done, _ in calls] == list(range(1, len(calls) + 1)), "never from the start again"
    assert len(calls) > 5
    assert report.as_dict() == {
        "path": str(tmp_path / "copy.graph"),
        "nodes": 600,
        "bytes": calls[-1][1] * 16384,
    }
    assert held(tmp_path / "copy.graph") == newest()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["copy.graph", "test.graph"]
    assert verify(path).problems == []


def test_a_copy_overwrites_only_when_told_to(path: Path, tmp_path: Path) -> None:
    copy = filled(tmp_path / "copy.graph", RECORDS[:3])
    with pytest.raises(StoreError, match="exists already"):
        backup(path, copy)
    assert len(held(copy)) == 3
    for end in ("-wal", "-shm"):  # of a writer that was killed
        copy.with_name(copy.name + end).write_bytes(b"stale")
    backup(path, copy, force=True)
    with Store.open(copy) as store:
        assert contents(store) == newest()
        with pytest.raises(StoreLockedError):
            backup(path, copy, force=True)


def test_a_copy_needs_another_name_and_a_folder(path: Path, tmp_path: Path) -> None:
    (tmp_path / "link.graph").symlink_to(path)
    os.link(path, tmp_path / "hard.graph")
    for target, what in (
        (path, "the file itself"),
        (tmp_path / "link.graph", "the file itself"),
        (tmp_path / "hard.graph", "the file itself"),
        (tmp_path, "is a folder"),
        (tmp_path / "none" / "copy.graph", "does not exist"),
    ):
        with pytest.raises(StoreError, match=what):
            backup(path, target, force=True)
    with pytest.raises(StoreError, match="does not exist"):
        backup(tmp_path / "none.graph", tmp_path / "copy.graph")


def test_a_copy_that_is_cut_short_leaves_nothing(path: Path, tmp_path: Path) -> None:
    (tmp_path / "copy.graph.part").write_bytes(b"of a copy that was killed")

    def stopping(now: Progress) -> None:
        raise Stop

    with pytest.raises(Stop):
        backup(path, tmp_path / "copy.graph", on_progress=stopping)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["test.graph"]


def test_an_empty_graph_is_copied_and_compacted(tmp_path: Path) -> None:
    path = tmp_path / "test.graph"
    Store.open(path, create=True, identity=IDENTITY).close()
    assert backup(path, tmp_path / "copy.graph").nodes == 0
    assert compact(path).nodes == 0
    assert compact(path, min_visits=5).nodes == 0
    assert verify(path).problems == []


# ------------------------------------------------------------------ passes that rewrite
SMALL = index.Sizes(scan_blocks=2, chunk_blocks=3, step_blocks=2, fan_out=3)


def expected(change: Callable[[NodeRecord], NodeRecord | None]) -> dict[tuple[int, ...], NodeRecord]:
    return {key: c for key, record in newest().items() if (c := change(record)) is not None}


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
    assert calls[-1] == (900, 900)
    assert verify(path).problems == []


@pytest.mark.parametrize("steps", [0, 2, 5])
@pytest.mark.parametrize("prunes", [False, True])
def test_an_interrupted_pass_leaves_a_whole_file_that_any_merge_finishes(
    path: Path, steps: int, prunes: bool
) -> None:
    seen: set[tuple[int, ...]] = set()

    def changed_one(record: NodeRecord) -> NodeRecord | None:
        if identity(record) not in seen:
            return record
        return (record if record.edges else None) if prunes else replace(record, v=-record.v)

    with Store.open(path, sizes=SMALL) as store:
        if prunes:
            rewrite(store)
        with pytest.raises(Stop):
            rewrite(store, stopping(with_edges if prunes else mirrored, steps, seen))
        left = expected(changed_one)
        assert contents(store) == left
    assert held(path) == left
    with Store.open(path, sizes=SMALL) as store:
        while store.merge_step():
            assert contents(store) == left
        assert store.node_count == len(left)
        rewrite(store, lambda batch, low, pivot: batch.replace(v=np.abs(batch.v)))
    assert held(path) == {key: replace(record, v=abs(record.v)) for key, record in left.items()}


@pytest.mark.parametrize("fails", [False, True])
def test_versions_are_appended_in_steps_up_to_an_error(path: Path, fails: bool) -> None:
    def versions(store: Store) -> Iterator[RecordBatch]:
        yield from (mirrored(batch, 0, None) for batch in islice(store.all_records(), 20 if fails else None))
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


# ------------------------------------------------------------------ portions
def test_few_items_are_held_at_once_and_the_rest_is_never_asked_for() -> None:
    asked: list[int] = []

    def items() -> Any:
        for x in range(1000):
            asked.append(x)
            yield x

    results = ordered_work.in_order(items(), lambda x: x, 2)
    assert [next(results) for _ in range(3)] == [0, 1, 2]
    assert len(asked) <= 6
    results.close()  # type: ignore[attr-defined]
    assert len(asked) <= 6


def parts_of(store: Store) -> list[list[NodeRecord]]:
    found, start = [], 0
    while True:
        portion = store.fetch_portion(start)
        batch = portion.records()
        found.append([batch.record(i) for i in range(len(batch))])
        if portion.following is None:
            return found
        assert portion.following > start
        start = portion.following


def test_all_portions_together_are_the_scan_on_any_number_of_threads(tmp_path: Path) -> None:
    path = filled(tmp_path / "a.graph", RECORDS, runs=7, sizes=SMALL)
    with Store.open(path, identity=IDENTITY, sizes=SMALL) as store:
        store.append(batch_of([changed(r, random.Random(1)) for r in RECORDS[::3]]), fresh=0)
        due = True
        while due:
            parts = parts_of(store)
            together = [record for part in parts for record in part]
            assert [batch.record(i) for batch in store.scan() for i in range(len(batch))] == together
            assert len(parts) > 4
            assert max(map(len, parts)) < len(RECORDS) // 2
            due = store.merge_step()
    with Store.open(path, read_only=True, sizes=SMALL) as store:
        assert [record for part in parts_of(store) for record in part] == together
        batches = list(store.portions(lambda portion: portion.records()))
        assert [batch.record(i) for batch in batches for i in range(len(batch))] == together
        assert sum(store.portions(lambda portion: len(portion.versions()[1]))) == len(together)


def test_each_record_is_met_once_although_all_are_written_anew_meanwhile(tmp_path: Path) -> None:
    path = filled(tmp_path / "a.graph", RECORDS, runs=5, sizes=SMALL)
    rng = random.Random(2)
    with Store.open(path, identity=IDENTITY, sizes=SMALL) as store:
        met: list[tuple[int, ...]] = []
        expected: dict[tuple[int, ...], NodeRecord] = {}
        following: int | None = 0
        while following is not None:
            portion = store.fetch_portion(following)
            batch, following = portion.records(), portion.following
            records = [batch.record(i) for i in range(len(batch))]
            met += [identity(record) for record in records]
            new = [changed(record, rng) for record in records]
            expected |= by_identity(new)
            store.append(batch_of(new), fresh=0)
            for _ in range(rng.randrange(3)):
                store.merge_step()
        assert len(met) == len(set(met)) == len(RECORDS)
        assert contents(store) == expected
