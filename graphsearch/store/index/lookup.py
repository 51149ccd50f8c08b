"""Finds one record by position, without Numba; `reading.py` finds many."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from functools import lru_cache

import chess
import numpy as np
from numpy.typing import NDArray

from ...base.deadline import check_time
from ...base.errors import CorruptRecordError, UnsoundRecordError
from ...position.board import key_of_words, pack
from .. import order
from ..codec.records import find_in_block
from ..codec.soundness import fault_of
from ..protocol import OpenStore
from ..record.node import NodeRecord
from ..segments import fetch, keys_of
from .bloom import may_hold_each, may_hold_one
from .catalog import Catalog, Chunk

U64s = NDArray[np.uint64]


def _range(keys: U64s, key: int) -> range:
    """Returns the sorted pieces that may hold a key, given the first key of each piece."""
    first = int(np.searchsorted(keys, np.uint64(key), "left")) - 1
    return range(max(first, 0), int(np.searchsorted(keys, np.uint64(key), "right")))


def read(store: OpenStore, board: chess.Board) -> NodeRecord | None:
    """Returns the record of a position, or None; without Numba.

    Raises:
      CorruptRecordError: if a block that may hold it is damaged.
      UnsoundRecordError: if its record is unsound.
    """
    check_time()
    with store.reading() as connection, store.snapshot():
        return read_one(connection, store.catalog, pack(board))


def read_one(connection: sqlite3.Connection, catalog: Catalog, words: U64s) -> NodeRecord | None:
    """Returns the newest record of a packed position, or None; compares whole positions, not only keys."""
    row = words.reshape(1, -1)
    wanted = tuple(order.identities(row)[0].tolist())
    sort_key, key = int(order.sort_keys(row)[0]), int(keys_of(row)[0])
    for chunk, block in _candidates(catalog, sort_key, key):
        record = _find_in(connection, catalog, chunk, block, wanted)
        if record is not None:
            return _sound(catalog, chunk, block, record)
    return None


def _sound(catalog: Catalog, chunk: Chunk, block: int, record: NodeRecord) -> NodeRecord:
    if fault := _fault(record):
        key = key_of_words(np.array(record.words, np.uint64))
        raise UnsoundRecordError(f"{catalog.name(chunk, block)}: record {key:016x}: {fault}")
    return record


_fault = lru_cache(maxsize=1024)(fault_of)  # `find_in_block` returns the same object for the same record


def _candidates(catalog: Catalog, sort_key: int, key: int) -> Iterator[tuple[Chunk, int]]:
    """Yields the blocks that may hold a position, those of the newest segment first."""
    for chunk in catalog.directory.around(sort_key):
        index = catalog.full_index(chunk)
        if may_hold_one(index.bloom, key):
            for b in _range(index.keys[chunk.gone :], sort_key):
                yield chunk, chunk.gone + b


def _find_in(
    connection: sqlite3.Connection, catalog: Catalog, chunk: Chunk, block: int, wanted: tuple[int, ...]
) -> NodeRecord | None:
    data, ends = fetch(connection, np.array([chunk.block_id(block)]))
    opener = catalog.dictionaries(chunk).opener()
    try:
        return find_in_block(opener.open(data[: ends[0]].tobytes()), wanted)
    except CorruptRecordError as error:
        raise CorruptRecordError(f"{catalog.name(chunk, block)}: {error}") from None


def may_hold(store: OpenStore, words: U64s, keys: U64s) -> NDArray[np.bool_]:
    """Returns which positions the file may hold, `[K]`, by filters alone; about 0.5 % false positives.

    Args:
      words: `[K, 10]` packed positions; their clocks and keys are not read.
      keys: `[K]` their keys in the graph.
    """
    with store.reading(), store.snapshot():
        found, sort_keys = np.zeros(len(keys), bool), order.sort_keys(words)
        for chunk, first, following in store.catalog.directory:
            asked = np.nonzero(~found & (first <= sort_keys) & (sort_keys <= following))[0]
            if len(asked):
                found[asked] = may_hold_each(store.catalog.full_index(chunk).bloom, keys[asked])
        return found
