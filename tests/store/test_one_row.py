"""Columns of one row: numpy gives views where it gives copies for two, so that work in place shows."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from graphsearch.evaluators.lc0.planes import planes_and_transforms
from graphsearch.evaluators.lc0.weights import INPUTS
from graphsearch.position.board import CLOCK_SHIFT, MAX_CLOCK, Words, clocks_of, fens
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


OF_WORDS: dict[str, Callable[[Words], Any]] = {
    "identities": lambda words: _of_arrays(record.identities(words)),
    "sort keys": lambda words: _of_arrays(record.sort_keys(words)),
    "keys": lambda words: _of_arrays(record.keys_of(words)),
    "FENs": fens,
    "legal moves": lambda words: _of_arrays(steps.legal_codes(words)),
    "clocks": lambda words: _of_arrays(clocks_of(words)),
} | {
    f"planes {kind}": lambda words, kind=kind: _of_arrays(
        tuple(found for found in planes_and_transforms(words, kind) if found is not None)
    )
    for kind in INPUTS
}

OF_BATCHES: dict[str, Callable[[RecordBatch], Any]] = {
    "node N": lambda batch: _of_arrays(visits_of(batch)),
    "values of positions": lambda batch: _of_arrays(columns.worth_of(batch)),
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


def _words(seed: int) -> Words:
    return np.array([one.words for one in _records(seed)], np.uint64)


def _arrays(batch: RecordBatch) -> list[NDArray[Any]]:
    return batch.arrays()


@pytest.mark.parametrize("name", OF_WORDS)
@pytest.mark.parametrize("seed", range(3))
def test_a_position_alone_says_what_it_says_among_others_and_stays_as_it_is(name: str, seed: int) -> None:
    function, words = OF_WORDS[name], _words(seed)
    alone: Rows = []
    for row in words:
        one = row.reshape(1, -1).copy()
        alone += function(one)
        assert (one == row).all(), "the words that were given have changed"
    together = words.copy()
    assert list(function(together)) == alone
    assert (together == words).all(), "the words that were given have changed"


@pytest.mark.parametrize("name", [*OF_BATCHES, *CHANGING_NOTHING])
@pytest.mark.parametrize("seed", range(3))
def test_a_record_alone_says_what_it_says_among_others_and_stays_as_it_is(name: str, seed: int) -> None:
    records = _records(seed)
    if name in OF_BATCHES:
        alone = [row for record in records for row in OF_BATCHES[name](RecordBatch.from_records([record]))]
        assert OF_BATCHES[name](RecordBatch.from_records(records)) == alone
    batch = RecordBatch.from_records(records[seed:])
    before = [array.copy() for array in _arrays(batch)]
    (OF_BATCHES | CHANGING_NOTHING)[name](batch)
    assert before, "a batch is made of arrays"
    for array, old in zip(_arrays(batch), before, strict=True):
        assert array.tobytes() == old.tobytes()
