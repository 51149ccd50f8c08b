"""Finding records by position: one without Numba, or many with the kernels."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ..errors import CorruptRecordError
from ..record import NodeRecord, RecordBatch
from . import order
from .bloom import may_hold, may_hold_each
from .catalog import Catalog, Chunk, Segment
from .codec import find_in_block
from .runs import fetch_blocks, keys_of

U64s = NDArray[np.uint64]
Places = NDArray[np.int64]


def _range(keys: U64s, key: int) -> range:
    """Returns which of several sorted pieces may hold a key, given the first key of each."""
    first = int(np.searchsorted(keys, np.uint64(key), "left")) - 1
    return range(max(first, 0), int(np.searchsorted(keys, np.uint64(key), "right")))


def _first_keys(segment: Segment) -> U64s:
    return np.array([chunk.first_key for chunk in segment.chunks], np.uint64)


def read_one(connection: sqlite3.Connection, catalog: Catalog, words: U64s) -> NodeRecord | None:
    """Returns the newest record of a packed position, whole positions compared, or None.

    Raises:
      CorruptRecordError: if a block that may hold it is damaged.
    """
    row = words.reshape(1, -1)
    wanted = tuple(order.identities(row)[0].tolist())
    sort_key, key = int(order.sort_keys(row)[0]), int(keys_of(row)[0])
    for segment in catalog.segments:
        for chunk, block in _candidates(catalog, segment, sort_key, key):
            record = _find_in(connection, catalog, chunk, block, wanted)
            if record is not None:
                return record
    return None


def _candidates(catalog: Catalog, segment: Segment, sort_key: int, key: int) -> Iterator[tuple[Chunk, int]]:
    """Yields the blocks of a run that may hold a position."""
    for c in _range(_first_keys(segment), sort_key):
        chunk = segment.chunks[c]
        index = catalog.index(chunk)
        if not may_hold(index.bloom, key):
            continue
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


def read_many(
    connection: sqlite3.Connection, catalog: Catalog, words: U64s
) -> tuple[NDArray[np.bool_], RecordBatch]:
    """Returns which packed positions have a record, `[K]`, and the newest records of those, in order."""
    from .bulk import take

    sort_keys, keys, wanted = order.sort_keys(words), keys_of(words), order.identities(words)
    left: Places = np.arange(len(words))
    batches: list[RecordBatch] = []
    asked: list[Places] = []
    for segment in catalog.segments:
        for chunk, some in _by_chunk(segment, sort_keys, left):
            some = some[may_hold_each(catalog.index(chunk).bloom, keys[some])]
            batch = _read_blocks(connection, catalog, chunk, sort_keys[some])
            at, places = _match(batch, sort_keys[some], wanted[some])
            if len(at):
                batches.append(take(batch, places))
                asked.append(some[at])
                left = np.setdiff1d(left, some[at], assume_unique=True)
    found = np.ones(len(words), bool)
    found[left] = False
    batch = RecordBatch.concat(batches)
    return found, take(batch, np.argsort(np.concatenate([*asked, np.zeros(0, np.int64)]), kind="stable"))


def _by_chunk(segment: Segment, sort_keys: U64s, left: Places) -> Iterator[tuple[Chunk, Places]]:
    """Yields the chunks of a run that may hold some of the keys, with those."""
    firsts = _first_keys(segment)
    low = np.maximum(np.searchsorted(firsts, sort_keys[left], "left") - 1, 0)
    high = np.searchsorted(firsts, sort_keys[left], "right")
    for c, chunk in enumerate(segment.chunks):
        some = left[(low <= c) & (c < high)]
        if len(some):
            yield chunk, some


def _read_blocks(
    connection: sqlite3.Connection, catalog: Catalog, chunk: Chunk, sort_keys: U64s
) -> RecordBatch:
    """Returns the records of all blocks of a chunk that may hold some of the keys."""
    from .runs import decode_blocks

    index = catalog.index(chunk).keys[chunk.gone :]
    blocks = sorted({b + chunk.gone for key in sort_keys.tolist() for b in _range(index, key)})
    batches = []
    for b in blocks:
        data = fetch_blocks(connection, chunk, b, b + 1)
        batches.append(decode_blocks(catalog, chunk, b, data))
    return RecordBatch.concat(batches)


def _match(batch: RecordBatch, sort_keys: U64s, wanted: U64s) -> tuple[Places, Places]:
    """Returns which of the wanted positions are in a batch in the order of a run, and where."""
    its_keys, its_identities = order.sort_keys(batch.words), order.identities(batch.words)
    first = np.searchsorted(its_keys, sort_keys, "left")
    last = np.searchsorted(its_keys, sort_keys, "right")
    place = np.full(len(sort_keys), -1)
    for offset in range(int((last - first).max(initial=0))):
        here = np.nonzero(first + offset < last)[0]
        same = (its_identities[first[here] + offset] == wanted[here]).all(1)
        place[here[same]] = first[here[same]] + offset
    at = np.nonzero(place >= 0)[0]
    return at, place[at]
