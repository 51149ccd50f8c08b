"""Reading records by position: of one state of the file, in batches, inside kernels, beside a writer.

A reader reads a batch in one read transaction, so that a merge cannot delete a block that it needs, and ends
it after the batch, so that checkpoints of the write-ahead log are not held back. Its index of segments and
chunks belongs to the same state of the file.
"""

from __future__ import annotations

import ctypes
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..base.errors import CapacityError, CorruptRecordError, StoreError, UnsoundRecordError
from ..jit.libraries import ReadConnection, libsqlite, sqlite_addresses
from ..position.board import MAX_MOVES
from ..position.board_kernel import ROOM
from .block import SLOTS, Unpacker, extract_stored, fault_message, unsound
from .block_kernel import PADDING
from .file import data_version, open_reader, sql_errors
from .index import SIZES, Catalog, Index, Sizes
from .index_kernel import FilterArrays, find_blocks, no_filter
from .ordered_work import in_order
from .reading_kernel import FUNCTIONS, NO_CHUNK, READ, STATES, UNKNOWN, ReaderArrays
from .record import RecordBatch, board_tables, owned, take
from .segment import fetch
from .tables.rows import MAX_BLOCK_BYTES

MAX_ASKED = 100_000  # positions of one batch
MAX_PROBLEMS = 100  # remembered
ALL = 1 << 62  # indexes: a reader keeps those of all chunks
THREADS = 2  # that search the blocks of a batch, the caller's included
MANY = 512  # blocks that are worth more threads
INDEX_ATTEMPTS = 3  # to read index and records of one state while another connection commits
_BLOCK = "SELECT data FROM block WHERE id = ? AND typeof(data) = 'blob' AND length(data) <= "

Places = NDArray[np.int64]
FileArrays = tuple[FilterArrays, ReaderArrays]  # of one thread


# ------------------------------------------------------------------ positions in one state of a file
class Found(NamedTuple):
    """The result of looking for positions.

    Attributes:
      have: `[K]` which have a sound record. records: their newest records, in order.
      damage: the error of each damaged block that may hold one, and of each unsound record.
    """

    have: NDArray[np.bool_]
    records: RecordBatch
    damage: list[CorruptRecordError]


class _Piece(NamedTuple):
    """The result of searching some blocks: the records found, their positions, and as in `Found` the damage.

    `misses` are positions that a damaged block may hold, or that have an unsound record.
    """

    records: RecordBatch
    hits: Places
    misses: Places
    damage: list[CorruptRecordError]


def find(
    connection: sqlite3.Connection, index: Index, words: NDArray[np.uint64], most: int, threads: int = 1
) -> Found:
    """Returns the newest records of some positions; compares whole positions, not only keys.

    Args:
      connection: in the state of the file that the index belongs to. words: `[K, 10]` packed positions.
      most: blocks that are fetched at once. threads: most threads that search blocks.
    """
    flat = owned(words, np.uint64).reshape(-1)
    segments = np.zeros(len(words), np.int64)  # where to look next
    is_settled = np.zeros(len(words), bool)
    left: Places = np.arange(len(words))
    found: list[_Piece] = []
    while len(left):
        asked, blocks, done = _candidates(index, flat, left, segments)
        several = threads if len(blocks) >= MANY else 1
        pieces = _fetched(connection, index, asked, blocks, most)
        for one in in_order(pieces, lambda piece: _searched(index, flat, *piece), several):
            is_settled[one.hits] = is_settled[one.misses] = True
            found.append(one)
        wanted = ~is_settled & (segments < len(index.filter.segments) - 1)
        left = left[wanted[left] | (np.arange(len(left)) >= done)]
    places = np.concatenate([*(one.hits for one in found), np.zeros(0, np.int64)])
    have = np.zeros(len(words), bool)
    have[places] = True
    records = take(RecordBatch.concat([one.records for one in found]), np.argsort(places, kind="stable"))
    return Found(have, records, [error for one in found for error in one.damage])


def _candidates(
    index: Index, words: NDArray[np.uint64], left: Places, segments: Places
) -> tuple[Places, Places, int]:
    """Returns pairs of a position and a block that may hold it, and how many of `left` were looked up."""
    room = 2 * len(left) + 64
    while True:
        asked, blocks = np.empty(room, np.int64), np.empty(room, np.int64)
        listed, done = find_blocks(board_tables(), index.filter, words, left, segments, asked, blocks)
        if done:
            return asked[:listed], blocks[:listed], int(done)
        room *= 2


def _fetched(
    connection: sqlite3.Connection, index: Index, asked: Places, blocks: Places, most: int
) -> Iterator[tuple[Places, Places, Places, NDArray[np.uint8], Places]]:
    """Yields the arguments of `_searched` in the order of blocks, each for few blocks and chunks."""
    order = np.argsort(blocks, kind="stable")
    asked, blocks = asked[order], blocks[order]
    chunks = np.cumsum(np.diff(index.owners(blocks), prepend=-1) != 0)
    first = 0
    while first < len(blocks):
        end = min(first + most, int(np.searchsorted(chunks, chunks[first] + SLOTS, "left")))
        wanted, firsts = np.unique(blocks[first:end], return_index=True)
        rows = wanted + index.filter.shifts[index.owners(wanted)]
        yield asked[first:end], np.append(firsts, end - first), wanted, *fetch(connection, rows)
        first = end


def _searched(
    index: Index,
    words: NDArray[np.uint64],
    asked: Places,
    firsts: Places,
    blocks: Places,
    data: NDArray[np.uint8],
    ends: Places,
) -> _Piece:
    """Returns the result of searching fetched blocks; runs on any thread.

    Args:
      words: of all positions, flat.
      asked: `[n]` positions, block by block. firsts: `[blocks + 1]` where those of each block begin.
      blocks: their indices in the index. data, ends: as `fetch` returns them.
    """
    owners, which = np.unique(index.owners(blocks), return_inverse=True)
    dictionaries = [index.dictionaries[owner] for owner in owners.tolist()]
    records, hits, refused = extract_stored(data, ends, dictionaries, which, words, asked, firsts)
    damage = [CorruptRecordError(f"{index.name(int(blocks[i]))}: {what}") for i, what in refused]
    lost = [asked[firsts[i] : firsts[i + 1]] for i, _ in refused]
    found, bad = asked[hits], unsound(records)
    if bad:
        holders = np.repeat(blocks, np.diff(firsts))[hits]
        for i, what in bad:
            name = index.name(int(holders[i]))
            damage.append(UnsoundRecordError(f"{name}: {fault_message(records, i, what)}"))
            lost.append(found[i : i + 1])
        good = np.setdiff1d(np.arange(len(found)), [i for i, _ in bad])
        records, found = take(records, good), found[good]
    return _Piece(records, found, np.concatenate([*lost, np.zeros(0, np.int64)]), damage)


# ------------------------------------------------------------------ a reader with its own connection
class Reader:
    """Finds the newest records of positions in a file. Use it from one thread at a time, and close it.

    Attributes:
      closed: whether it was closed.
      problems: one line for each damage found and skipped, without duplicates, at most 100.
    """

    def __init__(self, path: Path, *, sizes: Sizes = SIZES) -> None:
        self._path = path
        self._owner = os.getpid()
        self.closed = False
        self._version: int | None = None
        self._index = Index.of(path, ())
        self.problems: list[str] = []
        self._connection = open_reader(path)
        self._catalog = Catalog(self._connection, path, sizes, kept=ALL)
        self._kernel_readers: list[KernelReader] = []  # one for each thread

    def close(self) -> None:
        """Closes the connection. A second call does nothing."""
        if not self.closed:
            self.closed = True
            for one in self._kernel_readers:
                one.close()
            self._connection.close()

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def ram_bytes(self) -> int:
        """Bytes of the index and filters; the keys of blocks are there twice."""
        arrays = self._index.filter
        return sum(int(one.nbytes) for one in [*arrays.arrays(), arrays.keys]) + int(arrays.sizes.sum())

    def filter(self) -> FilterArrays:
        """Returns the filter of the last committed state, for `index_kernel.may_be_stored`; as `find`."""
        return self.present_index().filter

    @contextmanager
    def file_arrays(self, threads: int) -> Iterator[Sequence[FileArrays | None]]:
        """Yields the arrays for kernels on each thread, each of one state; None if kernels cannot read it."""
        library = libsqlite() if not self.closed and self._owner == os.getpid() else None
        with suppress(sqlite3.Error):
            while library and len(self._kernel_readers) < threads:
                self._kernel_readers.append(KernelReader(library, self._path))
        readers = self._kernel_readers[:threads] if library else []
        try:
            held = [(one.filter, one.arrays) if one.hold(self) else None for one in readers]
            yield [*held, *[None] * (threads - len(held))]  # with too few open files
        finally:
            for one in readers:
                one.end()

    @property
    def kernels_read(self) -> bool:
        """Whether kernels read the file directly."""
        return any(one.version is not None for one in self._kernel_readers)

    @property
    def read_inside(self) -> int:
        """Number of records that kernels have read and entered into memory."""
        return sum(int(one.arrays.states[READ]) for one in self._kernel_readers)

    def present_index(self) -> Index:
        """Returns the index of the last committed state."""
        with self._state():
            return self._index

    def find(self, words: NDArray[np.uint64]) -> tuple[NDArray[np.bool_], RecordBatch]:
        """Returns which packed positions have a record, `[K]`, and the newest records of these, in order.

        An unsound record, or one in a damaged block, counts as not found. So does a record in a chunk with a
        damaged index, unless an older segment has an earlier version. `problems` lists the damage; StoreError
        if the file cannot be read at all.

        Args:
          words: `[K, 10]`, at most 100,000 positions.
        """
        if len(words) > MAX_ASKED:
            raise CapacityError(f"{len(words)} positions in one batch, at most {MAX_ASKED} can be read")
        with self._state():
            found = find(self._connection, self._index, words, self._catalog.sizes.piece_blocks, THREADS)
        for error in found.damage:
            self._note(error)
        return found.have, found.records

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
                version = data_version(self._connection)  # from here on one state
                if version != self._version:
                    self._catalog.load()
                    self._index = self._catalog.flat(self._catalog.segments, self._note)
                    self._version = version
                yield
            finally:
                self._connection.execute("ROLLBACK")


# ------------------------------------------------------------------ reading inside kernels
class KernelReader:
    """The connection and arrays with which kernels read a file, for one thread.

    Another connection of this process must have opened and checked the file.

    Attributes:
      version: data version of the file's state in `arrays` and `filter`, None if there is none.
      arrays: the argument of the kernels. filter: of the same state.

    Raises:
      sqlite3.OperationalError: if it cannot be opened.
    """

    def __init__(self, library: ctypes.CDLL, path: Path) -> None:
        self._connection = ReadConnection(library, f"{path.as_uri()}?mode=ro")
        prepare = self._connection.prepare
        self._connection.run(prepare("PRAGMA cell_size_check = ON"))
        self._connection.run(prepare("PRAGMA trusted_schema = OFF"))
        self._begin, self._end = prepare("BEGIN"), prepare("ROLLBACK")
        self._data_version = prepare("PRAGMA data_version")
        self.version: int | None = None
        self._unpacker = Unpacker()
        self._dictionaries: tuple[bytes, ...] = ()
        self.filter = no_filter()
        functions = [*sqlite_addresses(library), prepare(f"{_BLOCK}{MAX_BLOCK_BYTES}").value]
        assert len(functions) == FUNCTIONS
        states = np.zeros(STATES, np.int64)
        states[UNKNOWN] = NO_CHUNK
        self.arrays = ReaderArrays(
            slots=np.zeros(0, np.int64),
            functions=np.array(functions, np.int64),
            states=states,
            data=np.zeros(MAX_BLOCK_BYTES + PADDING, np.uint8),
            moves=np.zeros(ROOM, np.uint16),
            columns=RecordBatch.room(1, MAX_MOVES, MAX_MOVES),
            workshop=self._unpacker.workshop,
        )

    def hold(self, reader: Reader) -> bool:
        """Holds the present state of the file until `end`; returns whether `arrays` belong to this state.

        `reader` reads the index through another connection.
        """
        self._load_unknown()
        for _ in range(INDEX_ATTEMPTS):
            self._connection.run(self._begin)
            version = self._connection.run(self._data_version)  # None if SQLite cannot
            if version is None or version == self.version:
                self.version = version
                return version is not None
            index = reader.present_index()  # of `version` if the next attempt begins the same one
            self.filter, self._dictionaries = index.filter, index.dictionaries
            few = len(set(self._dictionaries)) <= SLOTS  # of many, those that kernels miss
            slots = (self._unpacker.slots if few else self._unpacker.known_slots)(self._dictionaries)
            self.arrays = self.arrays.replace(slots=slots)
            self.version = version
            self.end()
        return False

    def end(self) -> None:
        """Ends the read transaction."""
        self._connection.run(self._end)

    def close(self) -> None:
        """Closes the connection."""
        self._connection.close()

    def _load_unknown(self) -> None:
        """Loads the dictionaries that a kernel has missed; if there is no room, all others are dropped."""
        chunk = int(self.arrays.states[UNKNOWN])
        self.arrays.states[UNKNOWN] = NO_CHUNK
        if 0 <= chunk < len(self._dictionaries):
            self._unpacker.slots([self._dictionaries[chunk]])
            self.arrays.slots[:] = self._unpacker.known_slots(self._dictionaries)
