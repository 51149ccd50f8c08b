"""Work in steps and portions: few blocks at a time, in order, also while the file is written to."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from graphsearch.store.index import Sizes
from graphsearch.store.ordered_work import in_order
from graphsearch.store.record import NodeRecord
from graphsearch.store.store import Store

from .records import IDENTITY, Records, batch_of, by_identity, changed, contents, filled, identity

RECORDS = Records(71, 400)
SMALL = Sizes(scan_blocks=2, chunk_blocks=3, step_blocks=2, fan_out=3)


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
