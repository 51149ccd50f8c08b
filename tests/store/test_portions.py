"""Reading a file portion by portion: what a scan reads, although it is written to in between."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from graphsearch.store.record.node import NodeRecord
from graphsearch.store.sizes import Sizes
from graphsearch.store.store import Store

from .records import IDENTITY, Records, batch_of, changed, contents, filled, identity

RECORDS = Records(71, 400)
SMALL = Sizes(scan_blocks=2, chunk_blocks=3, step_blocks=2, fan_out=3)


def portions(store: Store) -> list[list[NodeRecord]]:
    found, start = [], 0
    while True:
        batch, following = store.portion(start)
        found.append([batch.record(i) for i in range(len(batch))])
        if following is None:
            return found
        assert following > start
        start = following


@pytest.mark.parametrize("runs", [1, 9])
def test_all_portions_together_are_the_scan(tmp_path: Path, runs: int) -> None:
    path = filled(tmp_path / "a.graph", RECORDS, runs=runs, sizes=SMALL)
    with Store.open(path, identity=IDENTITY, sizes=SMALL) as store:
        store.append(batch_of([changed(r, random.Random(1)) for r in RECORDS[::3]]), fresh=0)
        due = True
        while due:
            parts = portions(store)
            together = [record for part in parts for record in part]
            assert [batch.record(i) for batch in store.scan() for i in range(len(batch))] == together
            assert len(parts) > 4
            assert max(map(len, parts)) < len(RECORDS) // 2
            due = store.merge_step()
    with Store.open(path, read_only=True, sizes=SMALL) as store:
        assert [record for part in portions(store) for record in part] == together


def test_each_record_is_met_once_although_all_are_written_anew_meanwhile(tmp_path: Path) -> None:
    path = filled(tmp_path / "a.graph", RECORDS, runs=5, sizes=SMALL)
    rng = random.Random(2)
    with Store.open(path, identity=IDENTITY, sizes=SMALL) as store:
        met: list[tuple[int, ...]] = []
        expected: dict[tuple[int, ...], NodeRecord] = {}
        following: int | None = 0
        while following is not None:
            start = following
            batch, following = store.portion(start)
            records = [batch.record(i) for i in range(len(batch))]
            met += [identity(record) for record in records]
            new = [changed(record, rng) for record in records]
            expected |= {identity(record): record for record in new}
            store.append(batch_of(new), fresh=0)
            for _ in range(rng.randrange(3)):
                store.merge_step()
        assert len(met) == len(set(met)) == len(RECORDS)
        assert contents(store) == expected


def test_a_file_without_records_has_one_empty_portion(tmp_path: Path) -> None:
    with Store.open(tmp_path / "a.graph", identity=IDENTITY, create=True) as store:
        batch, following = store.portion()
        assert (len(batch), following) == (0, None)
