"""Reading records in batches while another thread, or another process, writes.

A reader has its own connection. It reads a batch in one read transaction, so that a merge cannot delete a
block that it needs, and ends the transaction after the batch, so that checkpoints of the write-ahead log are
not held back. Its index of segments and chunks belongs to the same state of the file.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..base.errors import CapacityError, CorruptRecordError, StoreError
from ..position.board import POSITION_WORDS
from .codec.bulk import board_tables, decode_stored, extract_stored, joined, owned, take
from .codec.soundness import fault_message, unsound
from .codec.unpacking import SLOTS, Unpacker, own_unpacker
from .file import data_version, open_reader, sql_errors
from .index import filters
from .index.catalog import Indexes, Segment, chunk_name, read_index, read_segments
from .index.locate_kernel import FilterArrays, find_blocks, match
from .kernel_reader import FileArrays, KernelReader, open_kernel_reader
from .ordered_work import let_hashes_wrap, with_helpers
from .record.node import RecordBatch
from .segments import fetch
from .sizes import SIZES, Sizes

MAX_ASKED = 100_000  # positions of one batch
MAX_PROBLEMS = 100  # remembered
LEAST_PIECE = 64  # blocks that are worth another thread: half a millisecond
PIECES_EACH = 2  # per thread, so that all threads end together

Places = NDArray[np.int64]


class Reader:
    """Finds the newest records of positions in a file. Use it from one thread at a time, and close it.

    Attributes:
      closed: whether it was closed.
      problems: one line for each damage found and skipped, without duplicates, at most 100.
    """

    _kernels_may_read = True
    _kernel_reader: KernelReader | None = None

    def __init__(self, path: Path, indexes: Indexes, threads: int = 1, *, sizes: Sizes = SIZES) -> None:
        self._path = path
        self._sizes = sizes
        self._indexes = indexes
        self._owner = os.getpid()
        self.closed = False
        self._version: int | None = None
        self._index = filters.no_index()
        self._threads, self._helpers = threads, None
        if threads > 1:
            self._helpers = ThreadPoolExecutor(threads - 1, "graphsearch-read", let_hashes_wrap)
        self.problems: list[str] = []
        self._connection = open_reader(path)

    def close(self) -> None:
        """Closes the connection. A second call does nothing."""
        if not self.closed:
            self.closed = True
            if self._helpers:
                self._helpers.shutdown()
            if self._kernel_reader:
                self._kernel_reader.close()
            self._connection.close()

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def ram_bytes(self) -> int:
        """Bytes of the index and filters, and of the indexes that the writer shares."""
        return self._index.nbytes + self._indexes.nbytes

    def filter(self) -> FilterArrays:
        """Returns the filter of the last committed state, for `index.locate_kernel.may_be_stored`.

        Raises:
          StoreError: if the file cannot be read.
        """
        return self._present_index().filter

    @contextmanager
    def file_arrays(self) -> Iterator[FileArrays | None]:
        """Holds one state of the file and yields its arrays for kernels, None if kernels cannot read it.

        Raises:
          StoreError: if the file cannot be read.
        """
        usable = self._kernels_may_read and not self.closed and self._owner == os.getpid()
        if usable and self._kernel_reader is None:
            self._kernel_reader = open_kernel_reader(self._path)
            self._kernels_may_read = self._kernel_reader is not None
        reader = self._kernel_reader
        if not usable or reader is None:
            yield None
            return
        try:
            yield (reader.filter, reader.arrays) if reader.hold(self._present_index) else None
        finally:
            reader.end()

    @property
    def kernels_read(self) -> bool:
        """Whether kernels read the file directly."""
        return self._kernel_reader is not None and self._kernel_reader.version is not None

    def _present_index(self) -> filters.Index:
        with self._state():
            return self._index

    def is_at(self, segments: Sequence[Segment]) -> bool:
        """Returns whether the last batch was read from the state of the file that has these segments."""
        return self._index.is_of(segments)

    def find(self, words: NDArray[np.uint64]) -> tuple[NDArray[np.bool_], RecordBatch]:
        """Returns which packed positions have a record, `[K]`, and the newest records of these, in order.

        An unsound record, or one in a damaged block, counts as not found. So does a record in a chunk with a
        damaged index, unless an older segment has an earlier version. `problems` lists the damage.

        Args:
          words: `[K, 10]`, at most 100,000 positions.

        Raises:
          StoreError: if the file cannot be read at all.
        """
        search = self._search(words)
        return search.have, search.in_order()

    def find_any(self, words: NDArray[np.uint64]) -> list[RecordBatch]:
        """Returns the newest records of those packed positions that have one, in any order.

        It skips damage as `find` does.

        Raises:
          StoreError: if the file cannot be read at all.
        """
        return self._search(words).records

    def _search(self, words: NDArray[np.uint64]) -> _Search:
        """Returns a finished search, and notes its damage."""
        if len(words) > MAX_ASKED:
            raise CapacityError(f"{len(words)} positions in one batch, at most {MAX_ASKED} can be read")
        with self._state():
            search = _Search(self._connection, self._index, words, self._sizes.piece_blocks)
            search.run(self._helpers, self._threads)
            for block, what in search.damage:
                self._note(self._fault(block, what))
        return search

    def _fault(self, block: int, what: str) -> CorruptRecordError:
        owner = int(self._index.owners(np.array([block]))[0])
        chunk = self._index.chunks[owner]
        number = block + int(self._index.shifts[owner]) - chunk.first_block
        return CorruptRecordError(f"{chunk_name(self._path, chunk, number)}: {what}")

    def _note(self, error: CorruptRecordError) -> None:
        line = str(error)
        if line not in self.problems and len(self.problems) < MAX_PROBLEMS:
            self.problems.append(line)

    @contextmanager
    def _state(self) -> Iterator[None]:
        """Holds one state of the file, with its index up to date."""
        if self.closed:
            raise StoreError(f"{self._path}: its reader is closed")
        if self._owner != os.getpid():
            raise StoreError(f"{self._path}: its reader was made before a fork; make one in this process")
        with sql_errors(self._path, "read it"):
            self._connection.execute("BEGIN")
            try:
                self._refresh()
                yield
            finally:
                self._connection.execute("ROLLBACK")

    def _refresh(self) -> None:
        """Reads the lists of segments and chunks again if anything was committed since."""
        version = data_version(self._connection)  # from here on one state
        if version == self._version:
            return
        segments = read_segments(self._connection, self._path)
        read = partial(read_index, self._connection, self._path)
        self._index = filters.build(segments, self._index, self._indexes, read, self._note)
        self._version = version


@dataclass(frozen=True)
class _Piece:
    """Fetched blocks, and the positions to look for in each.

    Attributes:
      asked: `[n]` positions, block by block. firsts: `[blocks + 1]` where those of each block begin.
      blocks: their indices in the index. data, ends: their bytes, as `fetch` returns them.
    """

    asked: Places
    firsts: Places
    blocks: Places
    data: NDArray[np.uint8]
    ends: Places

    @property
    def holders(self) -> Places:
        """The block that may hold each position of `asked`."""
        return np.repeat(self.blocks, np.diff(self.firsts))

    def part(self, some: Places) -> _Piece:
        """Returns some of the blocks."""
        begins = np.append(0, self.ends[:-1])
        data, ends = joined([self.data[begins[i] : self.ends[i]].tobytes() for i in some.tolist()])
        asked = [self.asked[self.firsts[i] : self.firsts[i + 1]] for i in some.tolist()]
        firsts = np.cumsum([0, *map(len, asked)])
        return _Piece(np.concatenate(asked), firsts, self.blocks[some], data, ends)


@dataclass(frozen=True)
class _Solved:
    """The result of searching a piece.

    Attributes:
      records: the records found. hits: their positions.
      misses: positions that a damaged block may hold, or that have an unsound record.
      damage: index of a block, and the fault of the block or of one of its records.
    """

    records: RecordBatch
    hits: Places
    misses: Places
    damage: list[tuple[int, str]]


def _without_unsound(blocks: Places, found: _Solved) -> _Solved:
    """Returns a result without its unsound records, which become misses and damage; `blocks` is `[hits]`."""
    bad = unsound(found.records)
    if not bad:
        return found
    damage = [(int(blocks[i]), fault_message(found.records, i, what)) for i, what in bad]
    places = np.array([i for i, _ in bad], np.int64)
    good = np.setdiff1d(np.arange(len(found.hits)), places)
    misses = np.concatenate([found.misses, found.hits[places]])
    return _Solved(take(found.records, good), found.hits[good], misses, found.damage + damage)


class _Search:
    """A search for one batch of positions in one state of a file.

    Attributes:
      have: `[K]` which positions have a record. damage: index of each damaged block, and its fault.
    """

    def __init__(
        self, connection: sqlite3.Connection, index: filters.Index, words: NDArray[np.uint64], piece: int
    ) -> None:
        self._connection = connection
        self._piece = piece
        self._index = index
        self._words = owned(words, np.uint64).reshape(-1)
        self._count = len(self._words) // POSITION_WORDS
        self.have = np.zeros(self._count, bool)
        self._lost = np.zeros(self._count, bool)
        self._segments = np.zeros(self._count, np.int64)  # where to look next
        self._answers: list[_Solved] = []
        self.damage: list[tuple[int, str]] = []

    def run(self, helpers: ThreadPoolExecutor | None, threads: int) -> None:
        """Searches for all positions, with some threads, the caller's included."""
        left: Places = np.arange(self._count)
        while len(left):
            asked, blocks, done = self._candidates(left)
            pieces = self._fetched(asked, blocks, threads)
            for answer in with_helpers(helpers, threads - 1, pieces, self._solve):
                self._answers.append(answer)
                self.have[answer.hits] = True
                self._lost[answer.misses] = True
                self.damage += answer.damage
            wanted = ~(self.have | self._lost) & (self._segments < len(self._index.filter.segments) - 1)
            left = left[wanted[left] | (np.arange(len(left)) >= done)]

    @property
    def records(self) -> list[RecordBatch]:
        """The records found, in any order."""
        return [answer.records for answer in self._answers]

    def in_order(self) -> RecordBatch:
        """Returns the records found, in the order of their positions."""
        places = np.concatenate([*(answer.hits for answer in self._answers), np.zeros(0, np.int64)])
        return take(RecordBatch.concat(self.records), np.argsort(places, kind="stable"))

    def _candidates(self, left: Places) -> tuple[Places, Places, int]:
        """Returns pairs of a position and a block that may hold it, and how many of `left` were looked up."""
        index = self._index
        room = 2 * len(left) + 64
        while True:
            asked, blocks = np.empty(room, np.int64), np.empty(room, np.int64)
            listed, done = find_blocks(
                board_tables(), index.filter, index.blocks, self._words, left, self._segments, asked, blocks
            )
            if done:
                return asked[:listed], blocks[:listed], int(done)
            room *= 2

    def _fetched(self, asked: Places, blocks: Places, threads: int) -> Iterator[_Piece]:
        """Yields pieces in the order of blocks: of few blocks and chunks each, and some for every thread."""
        order = np.argsort(blocks, kind="stable")
        asked, blocks = asked[order], blocks[order]
        owners = self._index.owners(blocks)
        chunks = np.cumsum(np.diff(owners, prepend=-1) != 0)
        most = min(self._piece, max(LEAST_PIECE, -(-len(blocks) // (PIECES_EACH * threads))))
        first = 0
        while first < len(blocks):
            end = int(np.searchsorted(chunks, chunks[first] + SLOTS, "left"))
            end = min(end, first + most)
            wanted, firsts = np.unique(blocks[first:end], return_index=True)
            rows = wanted + self._index.shifts[self._index.owners(wanted)]
            firsts = np.append(firsts, end - first)
            yield _Piece(asked[first:end], firsts, wanted, *fetch(self._connection, rows))
            first = end

    def _solve(self, piece: _Piece) -> _Solved:
        """Returns the result of searching a piece; runs on any thread."""
        unpacker = own_unpacker()
        owners, which = np.unique(self._index.owners(piece.blocks), return_inverse=True)
        dictionaries = [self._index.dictionaries[owner] for owner in owners.tolist()]
        slots = np.array([unpacker.slot(dictionary) for dictionary in dictionaries], np.int64)[which]
        records, found, refused = extract_stored(
            unpacker, piece.data, piece.ends, slots, self._words, piece.asked, piece.firsts
        )
        solved = _Solved(records, piece.asked[found], np.zeros(0, np.int64), [])
        solved = _without_unsound(piece.holders[found], solved)
        if not refused.any():
            return solved
        its_dictionaries = [dictionaries[i] for i in which[refused].tolist()]
        decoded = self._decode_refused(
            unpacker, piece.part(np.nonzero(refused)[0]), slots[refused], its_dictionaries
        )
        return _Solved(
            RecordBatch.concat([solved.records, decoded.records]),
            np.concatenate([solved.hits, decoded.hits]),
            np.concatenate([solved.misses, decoded.misses]),
            solved.damage + decoded.damage,
        )

    def _decode_refused(
        self, unpacker: Unpacker, piece: _Piece, slots: Places, dictionaries: list[bytes]
    ) -> _Solved:
        """Returns the result for blocks that the kernel has refused, and reports the damaged ones in it."""
        damage: list[tuple[int, str]] = []
        batch, sizes = decode_stored(
            unpacker,
            piece.data,
            piece.ends,
            slots,
            lambda i: dictionaries[i],
            lambda i, what: damage.append((int(piece.blocks[i]), what)),
        )
        place = np.repeat(np.arange(len(sizes)), np.diff(piece.firsts))
        lasts = np.cumsum(sizes)
        places = np.empty(len(piece.asked), np.int64)
        stored = batch.words.reshape(-1)
        match(self._words, piece.asked, stored, (lasts - sizes)[place], lasts[place], places)
        hit = places >= 0
        solved = _Solved(take(batch, places[hit]), piece.asked[hit], piece.asked[sizes[place] == 0], damage)
        return _without_unsound(piece.holders[hit], solved)
