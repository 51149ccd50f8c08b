"""Finds one record by position, without Numba; `reading.py` finds many."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ...base.errors import CorruptRecordError, UnsoundRecordError
from ...position.board import key_of_words
from .. import order
from ..codec.records import find_in_block
from ..codec.soundness import fault_of
from ..record.node import NodeRecord
from ..segments import fetch, keys_of
from .bloom import may_hold_one
from .catalog import Catalog, Chunk

U64s = NDArray[np.uint64]


def read_one(connection: sqlite3.Connection, catalog: Catalog, words: U64s) -> NodeRecord | None:
    """Returns the newest record of a packed position, or None; compares whole positions, not only keys."""
    row = words.reshape(1, -1)
    wanted = tuple(order.identities(row)[0].tolist())
    sort_key, key = int(order.sort_keys(row)[0]), int(keys_of(row)[0])
    for chunk, block in _candidates(catalog, sort_key, key):
        data, ends = fetch(connection, np.array([chunk.block_id(block)]))
        opener = catalog.dictionaries(chunk).opener()
        try:
            record = find_in_block(opener.open(data[: ends[0]].tobytes()), wanted)
        except CorruptRecordError as error:
            raise CorruptRecordError(f"{catalog.name(chunk, block)}: {error}") from None
        if record is not None:
            if fault := _fault(record):
                found = key_of_words(np.array(record.words, np.uint64))
                raise UnsoundRecordError(f"{catalog.name(chunk, block)}: record {found:016x}: {fault}")
            return record
    return None


_fault = lru_cache(maxsize=1024)(fault_of)  # `find_in_block` returns the same object for the same record


def _candidates(catalog: Catalog, sort_key: int, key: int) -> Iterator[tuple[Chunk, int]]:
    """Yields the blocks that may hold a position, those of the newest segment first."""
    for chunk in catalog.directory.around(sort_key):
        index = catalog.full_index(chunk)
        if may_hold_one(index.bloom, key):
            keys, wanted = index.keys[chunk.gone :], np.uint64(sort_key)  # the first key of each block
            first = max(int(np.searchsorted(keys, wanted, "left")) - 1, 0)
            for b in range(first, int(np.searchsorted(keys, wanted, "right"))):
                yield chunk, chunk.gone + b
