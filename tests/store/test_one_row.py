"""Columns of one row: numpy gives views where it gives copies for two, so that work in place shows."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from graphsearch.evaluators.lc0.network import INPUTS
from graphsearch.evaluators.lc0.planes import planes_and_transforms
from graphsearch.position.board import CLOCK_SHIFT, MAX_CLOCK, clocks_of, fens
from graphsearch.query import columns, diff, steps
from graphsearch.store import block, record
from graphsearch.store.block import unsound
from graphsearch.store.ranking import visits_of
from graphsearch.store.record import NodeRecord, RecordBatch

from .records import plain_blocks, random_records

ROWS = 3
Rows = list[Any]  # what a function says, one item for each row


def _of_arrays(found: Any) -> Rows:
    """Returns arrays with a row for each position, as rows that can be compared."""
    arrays = found if isinstance(found, tuple) else (found,)
    return [tuple(np.asarray(array)[i].tolist() for array in arrays) for i in range(len(arrays[0]))]


OF_BATCHES: dict[str, Callable[[RecordBatch], Any]] = {
    "identities": lambda batch: _of_arrays(record.identities(batch.words)),
    "sort keys": lambda batch: _of_arrays(record.sort_keys(batch.words)),
    "keys": lambda batch: _of_arrays(record.keys_of(batch.words)),
    "FENs": lambda batch: fens(batch.words),
    "legal moves": lambda batch: _of_arrays(steps.legal_codes(batch.words)),
    "clocks": lambda batch: _of_arrays(clocks_of(batch.words)),
    "node N": lambda batch: _of_arrays(visits_of(batch)),
    "values of positions": lambda batch: _of_arrays(columns.worth_of(batch)),
} | {
    f"planes {kind}": lambda batch, kind=kind: _of_arrays(
        tuple(found for found in planes_and_transforms(batch.words, kind) if found is not None)
    )
    for kind in INPUTS
}
CHANGING_NOTHING: dict[str, Callable[[RecordBatch], Any]] = {
    "encode": plain_blocks,
    "encode a chunk": block.encode_chunk,
    "sort": lambda batch: record.newest_in_order(batch.words, record.sort_keys(batch.words)),
    "take": lambda batch: record.take(batch, np.arange(len(batch))[::-1].copy()),
    "soundness": unsound,
    "ranks": lambda batch: columns.ranked(batch, clocks_of(batch.words)),
    "values of a diff": diff.values_of,
}


def _records(seed: int) -> list[NodeRecord]:
    """Returns records of some positions, with clocks that identities forget and others."""
    rng = random.Random(seed)
    found = []
    for one in rng.sample(random_records(71, 200), ROWS):
        *men, meta, key = one.words
        clock = rng.choice((0, 1, 40, 75, 76, 99))
        found.append(
            replace(one, words=(*men, meta & ~(MAX_CLOCK << CLOCK_SHIFT) | clock << CLOCK_SHIFT, key))
        )
    return found


@pytest.mark.parametrize("name", [*OF_BATCHES, *CHANGING_NOTHING])
@pytest.mark.parametrize("seed", range(3))
def test_a_record_alone_says_what_it_says_among_others_and_stays_as_it_is(name: str, seed: int) -> None:
    records, function = _records(seed), (OF_BATCHES | CHANGING_NOTHING)[name]
    if name in OF_BATCHES:
        alone = [row for record in records for row in function(RecordBatch.from_records([record]))]
        assert list(function(RecordBatch.from_records(records))) == alone
    for batch in (RecordBatch.from_records(records[seed:]), RecordBatch.from_records(records[:1])):
        before = [array.copy() for array in batch.arrays()]
        function(batch)
        assert before, "a batch is made of arrays"
        for array, old in zip(batch.arrays(), before, strict=True):
            assert array.tobytes() == old.tobytes()
