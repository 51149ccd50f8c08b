"""The records of a walk in temporary files, with lookup by number and by position.

A walk over a small part of a file reads records when it meets their positions, a thousand per read. A walk
over a large part reads the whole file in file order, which takes a tenth of the time per record.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..graph.sweeps.parts import LOAD
from ..graph.sweeps.sweep_kernel import PLACE_WORDS
from ..position.board import POSITION_WORDS
from ..query.steps import Ints, Words
from ..store.codec.bulk import board_tables, owned, take
from ..store.order import identities
from ..store.reading import Reader
from ..store.record.node import TERMINAL_MASK, UNPROVEN, RecordBatch
from ..store.store import Store
from .pool_kernel import enter, find, find_children

# ------------------------------------------------------------------ columns
# in memory-mapped temporary files; the operating system keeps the used pages in memory
LEAST_STEP, MOST_STEP = 1 << 16, 1 << 26  # limits of a file's growth step, which is half its size, in bytes
ZEROS = bytes(1 << 20)
MOST_MAPPED = 64 << 20  # bytes of files; larger ones are released from memory between batches


class Column:
    """A growing array of one type, in a temporary file without a name, which disappears when closed.

    Raises:
      OSError: if the file system is full.
    """

    def __init__(self, folder: Path, kind: Any, width: int = 1) -> None:
        """Makes an empty column. `kind`: type of the values; `width`: values per row."""
        self._file = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115 # closed by `close`
        self._kind, self._width = np.dtype(kind), width
        self._row = self._kind.itemsize * width
        self._bytes, self._rows = 0, 0
        self._map: mmap.mmap | None = None
        self._values = self._view(0)

    def __len__(self) -> int:
        return self._rows

    @property
    def values(self) -> NDArray[Any]:
        """All rows, `[rows]` or `[rows, width]`; writes to the array go to the file."""
        return self._values[: self._rows]

    def add(self, rows: NDArray[Any]) -> None:
        """Adds rows."""
        first = self.extend(len(rows))
        self._values[first : self._rows] = rows

    def extend(self, count: int) -> int:
        """Adds `count` rows of zeros; returns the index of the first."""
        first, self._rows = self._rows, self._rows + count
        if self._rows * self._row > self._bytes:
            self._grow(self._rows * self._row)
        return first

    def _grow(self, wanted: int) -> None:
        step = min(max(self._bytes // 2, LEAST_STEP), MOST_STEP)
        step = -(-step // mmap.PAGESIZE) * mmap.PAGESIZE
        size = max(wanted, self._bytes + step)
        self._file.seek(self._bytes)
        while self._bytes < size:  # written, not truncated: a full disk raises here instead of SIGBUS later
            self._bytes += os.write(self._file.fileno(), ZEROS[: min(len(ZEROS), size - self._bytes)])
        self._map = mmap.mmap(self._file.fileno(), self._bytes)
        self._values = self._view(self._bytes // self._row)

    def _view(self, rows: int) -> NDArray[Any]:
        shape = (rows,) if self._width == 1 else (rows, self._width)
        if self._map is None:
            return np.zeros(shape, self._kind)
        flat = np.frombuffer(self._map, self._kind, rows * self._width)
        return flat.reshape(shape)

    def release(self) -> None:
        """Returns the mapped memory to the system; the values stay in the file."""
        if self._map is not None and hasattr(mmap, "MADV_DONTNEED"):
            self._map.madvise(mmap.MADV_DONTNEED)

    @property
    def nbytes(self) -> int:
        """The size of the file in bytes."""
        return self._bytes

    def close(self) -> None:
        """Closes the file; arrays that `values` returned stay readable."""
        self._file.close()


class Rows:
    """Named columns of equal length."""

    def __init__(self, folder: Path, **kinds: Any) -> None:
        """Makes empty columns; `kinds`: the type of each column."""
        self._columns = {name: Column(folder, kind) for name, kind in kinds.items()}
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self._columns[name].values

    def add(self, **values: NDArray[Any]) -> None:
        """Adds rows; every column needs values."""
        for name, column in self._columns.items():
            column.add(values[name])
        self._length += len(next(iter(values.values())))

    def extend_to(self, length: int) -> None:
        """Adds rows of zeros up to a length."""
        for column in self._columns.values():
            column.extend(length - self._length)
        self._length = max(length, self._length)

    def release(self) -> None:
        """Returns mapped memory to the system if the columns exceed MOST_MAPPED bytes."""
        if sum(column.nbytes for column in self._columns.values()) > MOST_MAPPED:
            for column in self._columns.values():
                column.release()

    def __enter__(self) -> Rows:
        return self

    def __exit__(self, *error: object) -> None:
        for column in self._columns.values():
            column.close()


# ------------------------------------------------------------------ records
LEAST_TABLE = 1 << 12  # places
READ_SHARE = 16  # 1/16 of the file is read on demand; beyond that, the whole file is read
LEAST_READ = 2_000
READING = 200  # fixed cost of one read, in records

OnRead = Callable[[int, int], None]  # records read, records of the file

_OFFSETS = ("code_offsets", "edge_offsets")


class RecordPool:
    """Records by number. A position that is not in the file also has a number, and a record without moves.

    Attributes:
      problems: damage found in the file, one line each.
    """

    def __init__(self, store: Store, folder: Path, *, whole: bool, on_read: OnRead | None = None) -> None:
        """Opens an empty pool on an open store.

        Args:
          folder: for the temporary files.
          whole: read all records at the first lookup.
          on_read: called while the whole file is read.
        """
        self._store = store
        self._on_read = on_read
        self._reader: Reader | None = store.reader()
        self._wants_all, self._has_all = whole, False
        self._read = 0
        self.problems: list[str] = []
        nothing = RecordBatch.empty(0, 0, 0)
        self._columns = {
            one.name: Column(
                folder, getattr(nothing, one.name).dtype, POSITION_WORDS if one.name == "words" else 1
            )
            for one in fields(nothing)
        }
        for name in _OFFSETS:
            self._columns[name].extend(1)
        self._folder = folder
        self._table = self._empty_table(LEAST_TABLE)

    def close(self) -> None:
        """Closes the temporary files and the reader."""
        for column in (*self._columns.values(), self._table):
            column.close()
        if self._reader is not None:
            self._reader.close()

    def __len__(self) -> int:
        return len(self._columns["v"])

    @property
    def records(self) -> RecordBatch:
        """All records, by number."""
        return RecordBatch(**{name: column.values for name, column in self._columns.items()})

    def is_missing(self, numbers: Ints) -> NDArray[np.bool_]:
        """Returns a mask of the numbers whose positions are not in the file."""
        offsets, flags = self._columns["code_offsets"].values, self._columns["flags"].values
        empty = offsets[numbers + 1] == offsets[numbers]
        found: NDArray[np.bool_] = empty & (flags[numbers] & TERMINAL_MASK == 0)
        return found

    def records_of(self, numbers: Ints) -> RecordBatch:
        """Returns a copy of some records."""
        batch = take(self.records, numbers)
        return batch.copied() if batch.words.base is not None else batch

    def numbers_of(self, words: Words) -> Ints:
        """Returns the numbers of positions, `[R, 10]`; reads the records of new ones."""
        numbers = self._known(words)
        if (numbers < 0).any():
            self._load(np.ascontiguousarray(words[numbers < 0]))
            numbers = self._known(words)
        return numbers

    def _known(self, words: Words) -> Ints:
        """Returns the numbers of positions, -1 for those without one."""
        numbers = np.empty(len(words), np.int64)
        find(board_tables(), self._table.values, owned(words, np.uint64).reshape(-1), numbers)
        return numbers

    def children_of(self, words: Words, of: Ints, codes: NDArray[np.uint16]) -> tuple[Ints, Words]:
        """Returns the numbers of the positions after moves, and their META; reads the records of new ones.

        Args:
          words: `[R, 10]` positions. of: `[M]` index of each move's position. codes: `[M]` the moves.
        """
        numbers, metas = np.empty(len(of), np.int64), np.empty(len(of), np.uint64)
        unknown = np.empty(len(of) * words.shape[1], np.uint64)
        flat, moves = owned(words, np.uint64).reshape(-1), owned(codes, np.uint16)
        count = find_children(
            board_tables(), self._table.values, flat, owned(of, np.int64), moves, numbers, metas, unknown
        )
        if count:
            there = unknown[: count * words.shape[1]].reshape(count, -1)
            numbers[numbers < 0] = self.numbers_of(there)
        return numbers, metas

    # -------------------------------------------------------------- reading
    def _load(self, words: Words) -> None:
        """Reads the records of positions without a number; positions that are not in the file get one too."""
        if not self._has_all and self._wants_all:
            self._read_all()
        new = _distinct(words)
        new = np.ascontiguousarray(new[self._known(new) < 0])
        if not len(new):
            return
        if not self._has_all:
            assert self._reader is not None
            found, records = self._reader.find(new)
            self._add_problems(self._reader.problems)
            self._add(records)
            self._read += len(new) + READING
            self._wants_all = self._read > max(LEAST_READ, self._store.node_count // READ_SHARE)
            new = new[~found]
        missing = RecordBatch.empty(len(new), 0, 0)  # records without moves
        missing.words[:] = new
        missing.flags[:] = UNPROVEN
        self._add(missing)

    def _read_all(self) -> None:
        """Reads the whole file in file order, from one snapshot."""
        self._has_all = True
        done = 0
        for batch in self._store.scan(on_corrupt=lambda error: self._add_problems([str(error)])):
            self._add(take(batch, np.flatnonzero(self._known(batch.words) < 0)))
            done += len(batch)
            if self._on_read:
                self._on_read(done, max(done, self._store.node_count))
            self.release()

    def _add_problems(self, lines: Sequence[str]) -> None:
        self.problems += [line for line in lines if line not in self.problems]

    def _add(self, batch: RecordBatch) -> None:
        if not len(batch):
            return
        first = len(self)
        for name, column in self._columns.items():
            values = getattr(batch, name)
            column.add(values[1:] + column.values[-1] if name in _OFFSETS else values)
        if len(self) > LOAD * len(self._table) / PLACE_WORDS:
            places = len(self._table) // PLACE_WORDS
            self._table.close()
            self._table = self._empty_table(max(2 * places, int(1.2 * len(self) / LOAD)))
            first = 0
        words = self._columns["words"].values[first:]
        enter(board_tables(), self._table.values, words.reshape(-1), first)

    def _empty_table(self, places: int) -> Column:
        table = Column(self._folder, np.uint64)
        table.extend(places * PLACE_WORDS)
        return table

    def release(self) -> None:
        """Returns mapped memory to the system if the pool exceeds MOST_MAPPED bytes."""
        columns = (*self._columns.values(), self._table)
        if sum(column.nbytes for column in columns) > MOST_MAPPED:
            for column in columns:
                column.release()


def _distinct(words: Words) -> Words:
    """Returns positions without duplicates; clocks up to 75 do not distinguish positions."""
    known: dict[bytes, int] = {}
    for i, row in enumerate(identities(words.copy())):
        known.setdefault(row.tobytes(), i)
    return np.ascontiguousarray(words[list(known.values())])
