"""Finding one record by position, without Numba; `reading.py` finds many."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ...errors import CorruptRecordError, UnsoundRecordError
from ...position.board import key_of_words
from .. import order
from ..codec.records import find_in_block
from ..codec.soundness import fault_of
from ..record.node import NodeRecord
from ..segments import fetch_blocks, keys_of
from .bloom import may_hold, may_hold_each
from .catalog import Catalog, Chunk

U64s = NDArray[np.uint64]


def _range(keys: U64s, key: int) -> range:
    """Returns which of several sorted pieces may hold a key, given the first key of each."""
    first = int(np.searchsorted(keys, np.uint64(key), "left")) - 1
    return range(max(first, 0), int(np.searchsorted(keys, np.uint64(key), "right")))


def read_one(connection: sqlite3.Connection, catalog: Catalog, words: U64s) -> NodeRecord | None:
    """Returns the newest record of a packed position, whole positions compared, or None.

    Raises:
      CorruptRecordError: if a block that may hold it is damaged.
      UnsoundRecordError: if its record cannot be.
    """
    row = words.reshape(1, -1)
    wanted = tuple(order.identities(row)[0].tolist())
    sort_key, key = int(order.sort_keys(row)[0]), int(keys_of(row)[0])
    for chunk, block in _candidates(catalog, sort_key, key):
        record = _find_in(connection, catalog, chunk, block, wanted)
        if record is not None:
            return _sound(catalog, chunk, block, record)
    return None


def _sound(catalog: Catalog, chunk: Chunk, block: int, record: NodeRecord) -> NodeRecord:
    fault = fault_of(record)
    if fault:
        key = key_of_words(np.array(record.words, np.uint64))
        raise UnsoundRecordError(f"{catalog.name(chunk, block)}: record {key:016x}: {fault}")
    return record


def _candidates(catalog: Catalog, sort_key: int, key: int) -> Iterator[tuple[Chunk, int]]:
    """Yields the blocks that may hold a position, those of the newest segment first."""
    for chunk in catalog.directory.around(sort_key):
        index = catalog.full_index(chunk)
        if may_hold(index.bloom, key):
            for b in _range(index.keys[chunk.gone :], sort_key):
                yield chunk, chunk.gone + b


def _find_in(
    connection: sqlite3.Connection, catalog: Catalog, chunk: Chunk, block: int, wanted: tuple[int, ...]
) -> NodeRecord | None:
    data = fetch_blocks(connection, chunk, block, block + 1)[0]
    opener = catalog.dictionaries(chunk).opener()
    try:
        return find_in_block(opener.open(data), wanted)
    except CorruptRecordError as error:
        raise CorruptRecordError(f"{catalog.name(chunk, block)}: {error}") from None


def may_be_stored(catalog: Catalog, sort_keys: U64s, keys: U64s) -> NDArray[np.bool_]:
    """Returns which positions some segment may hold, `[K]`; those that are False are in none.

    Args:
      sort_keys, keys: `[K]` of the positions, as `order.sort_keys` and `board.key_of` return them.
    """
    found = np.zeros(len(keys), bool)
    for chunk, first, following in catalog.directory:
        asked = np.nonzero(~found & (first <= sort_keys) & (sort_keys <= following))[0]
        if len(asked):
            found[asked] = may_hold_each(catalog.full_index(chunk).bloom, keys[asked])
    return found
