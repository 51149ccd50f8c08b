"""Reading records in batches while another thread, or another process, writes.

A reader has a connection of its own. It looks at the file in one read transaction per batch, so that
merging cannot take a block from under it, and ends it after the batch, so that it never holds the
write-ahead log back. What it knows of runs and chunks is read from that same state of the file.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

from ..errors import CapacityError, CorruptRecordError, StoreError
from ..kernels.locate import FilterArrays, find_blocks, match
from ..position import POSITION_WORDS
from ..record import RecordBatch
from . import filters
from .bulk import board_tables, decode_stored, owned, take
from .catalog import Chunk, ChunkIndex, Indexes, chunk_name, read_index, read_segments
from .fetching import fetch
from .file import open_reader, sql_errors
from .unpacking import SLOTS, Unpacker

MAX_ASKED = 100_000  # positions of one batch
PIECE_BLOCKS = 1024  # blocks that are decoded at once: some 5 MB of records
MAX_PROBLEMS = 100  # remembered

Places = NDArray[np.int64]
OnDamage = Callable[[CorruptRecordError], None]


class Reader:
    """Finds the newest records of positions in a file. Use it from one thread at a time, and close it.

    Attributes:
      closed: whether it was closed.
      problems: what was found damaged and passed over, one line each, each once, at most 100.
    """

    def __init__(self, path: Path, indexes: Indexes) -> None:
        self._path = path
        self._indexes = indexes
        self._owner = os.getpid()
        self.closed = False
        self._version: int | None = None
        self._index = filters.no_index()
        self._unpacker = Unpacker()
        self.problems: list[str] = []
        self._connection = open_reader(path)

    def close(self) -> None:
        """Closes its connection. A second call does nothing."""
        if not self.closed:
            self.closed = True
            self._connection.close()

    def __enter__(self) -> Reader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def ram_bytes(self) -> int:
        """Bytes of its index and filters, and of the indexes that it shares with the writer."""
        return self._index.nbytes + self._indexes.nbytes

    def filter(self) -> FilterArrays:
        """Returns the filter of what is committed now, for `kernels.locate.may_be_stored`.

        Raises:
          StoreError: if the file cannot be read.
        """
        with self._state():
            return self._index.filter

    def find(
        self, words: NDArray[np.uint64], *, strict: bool = False
    ) -> tuple[NDArray[np.bool_], RecordBatch]:
        """Returns which packed positions have a record, `[K]`, and the newest records of those, in order.

        A record in a damaged block counts as not found, and so do those of a chunk whose index is damaged
        unless an older run has an earlier version; `problems` tells.

        Args:
          words: `[K, 10]`, at most 100,000 positions.
          strict: raise at damage instead.

        Raises:
          CorruptRecordError: naming file, run and block, if `strict`.
          StoreError: if the file as a whole cannot be read.
        """
        if len(words) > MAX_ASKED:
            raise CapacityError(f"{len(words)} positions in one batch, at most {MAX_ASKED} can be read")
        on_damage = _raise if strict else self._note
        with self._state(on_damage):
            search = _Search(
                self._connection, self._path, self._index, self._indexes, self._unpacker, on_damage
            )
            return search.find(words)

    def _note(self, error: CorruptRecordError) -> None:
        line = str(error)
        if line not in self.problems and len(self.problems) < MAX_PROBLEMS:
            self.problems.append(line)

    @contextmanager
    def _state(self, on_damage: OnDamage | None = None) -> Iterator[None]:
        """Holds one state of the file, its index up to date."""
        if self.closed:
            raise StoreError(f"{self._path}: its reader is closed")
        if self._owner != os.getpid():
            raise StoreError(f"{self._path}: its reader was made before a fork; make one in this process")
        with sql_errors(self._path, "read it"):
            self._connection.execute("BEGIN")
            try:
                self._refresh(on_damage or self._note)
                yield
            finally:
                self._connection.execute("ROLLBACK")

    def _refresh(self, on_damage: OnDamage) -> None:
        """Reads the lists of runs and chunks if anything was committed since they were read."""
        self._connection.execute("SELECT 1 FROM segment LIMIT 1").fetchone()  # from here on one state
        version = int(self._connection.execute("PRAGMA data_version").fetchone()[0])
        if version == self._version:
            return
        segments = read_segments(self._connection, self._path)
        self._index = filters.build(segments, self._index, self._indexes, self._read_index, on_damage)
        self._version = version

    def _read_index(self, chunk: Chunk) -> ChunkIndex:
        return read_index(self._connection, self._path, chunk)


def _raise(error: CorruptRecordError) -> None:
    raise error


class _Search:
    """One batch of positions, looked for in one state of a file."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        path: Path,
        index: filters.Index,
        indexes: Indexes,
        unpacker: Unpacker,
        on_damage: OnDamage,
    ) -> None:
        self._connection = connection
        self._path = path
        self._index = index
        self._indexes = indexes
        self._unpacker = unpacker
        self._on_damage = on_damage

    def find(self, words: NDArray[np.uint64]) -> tuple[NDArray[np.bool_], RecordBatch]:
        """Returns which positions have a record, and these."""
        flat = owned(words, np.uint64).reshape(-1)
        count = len(flat) // POSITION_WORDS
        have = np.zeros(count, bool)
        lost = np.zeros(count, bool)  # what a damaged block may have held
        runs = np.zeros(count, np.int64)  # where to look next
        found: list[Places] = [np.zeros(0, np.int64)]
        batches: list[RecordBatch] = []
        left: Places = np.arange(count)
        while len(left):
            asked, blocks, done = self._candidates(flat, left, runs)
            for part in _pieces(asked, blocks, self._index.owners):
                batch, hits, misses = self._read(flat, *part)
                batches.append(batch)
                found.append(hits)
                have[hits] = True
                lost[misses] = True
            lost &= ~have
            more = (runs[left] < len(self._index.filter.runs) - 1) & ~have[left] & ~lost[left]
            left = left[more | (np.arange(len(left)) >= done)]
        return have, take(RecordBatch.concat(batches), np.argsort(np.concatenate(found), kind="stable"))

    def _candidates(self, flat: Places, left: Places, runs: Places) -> tuple[Places, Places, int]:
        """Returns positions, a block each that may hold them, and how many of those left were looked up."""
        room = 2 * len(left) + 64
        while True:
            asked, blocks = np.empty(room, np.int64), np.empty(room, np.int64)
            listed, done = find_blocks(
                board_tables(), self._index.filter, self._index.blocks, flat, left, runs, asked, blocks
            )
            if done:
                return asked[:listed], blocks[:listed], int(done)
            room *= 2

    def _read(
        self, flat: NDArray[np.uint64], asked: Places, blocks: Places
    ) -> tuple[RecordBatch, Places, Places]:
        """Returns the records found, their positions, and those of which a damaged block is all there is."""
        wanted, place = np.unique(blocks, return_inverse=True)
        batch, sizes = self._decoded(wanted)
        lasts = np.cumsum(sizes)
        firsts = lasts - sizes
        places = np.empty(len(asked), np.int64)
        match(flat, asked, batch.words.reshape(-1), firsts[place], lasts[place], places)
        hit = places >= 0
        return take(batch, places[hit]), asked[hit], asked[sizes[place] == 0]

    def _decoded(self, blocks: Places) -> tuple[RecordBatch, Places]:
        """Returns the records of some blocks, and how many each has: none if it is damaged."""
        data, ends = fetch(self._connection, self._index.ids[blocks])
        owners, which = np.unique(self._index.owners[blocks], return_inverse=True)
        dictionaries = [self._dictionary(self._index.chunks[owner]) for owner in owners.tolist()]
        slots = np.array([self._unpacker.slot(dictionary) for dictionary in dictionaries], np.int64)
        return decode_stored(
            self._unpacker,
            data,
            ends,
            slots[which],
            lambda i: dictionaries[which[i]],
            lambda i, what: self._report(int(blocks[i]), what),
        )

    def _report(self, block: int, what: str) -> None:
        chunk = self._index.chunks[self._index.owners[block]]
        number = int(self._index.ids[block]) - chunk.first_block
        self._on_damage(CorruptRecordError(f"{chunk_name(self._path, chunk, number)}: {what}"))

    def _dictionary(self, chunk: Chunk) -> bytes:
        index = self._indexes.get(chunk) or read_index(self._connection, self._path, chunk)
        return index.dictionary


def _pieces(asked: Places, blocks: Places, owners: NDArray[np.int32]) -> Iterator[tuple[Places, Places]]:
    """Yields positions and their blocks in the order of blocks, not too many blocks and chunks at once."""
    order = np.argsort(blocks, kind="stable")
    asked, blocks = asked[order], blocks[order]
    changes = np.cumsum(np.diff(owners[blocks], prepend=-1) != 0)
    first = 0
    while first < len(blocks):
        end = int(np.searchsorted(changes, changes[first] + SLOTS, "left"))
        end = min(end, first + PIECE_BLOCKS)
        yield asked[first:end], blocks[first:end]
        first = end
