"""The positions that a walk has met, and columns of values about them, in temporary files.

Memory does not depend on their number: the operating system keeps the pages that are in use.
"""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ..base.system import Scratch, release_pages
from ..position.board import POSITION_WORDS
from ..query.steps import Ints, Mask, Words
from ..store.order import IDENTITY_WORDS, identities, keys_of

# ------------------------------------------------------------------ columns
# in memory-mapped temporary files; the operating system keeps the used pages in memory
LEAST_STEP, MOST_STEP = 1 << 16, 1 << 26  # limits of a file's growth step, which is half its size, in bytes
MOST_MAPPED = 64 << 20  # bytes of files; larger ones are released from memory between batches


class Column:
    """A growing array of one type, in a temporary file without a name, which disappears when closed.

    Raises:
      OSError: if the file system is full.
    """

    def __init__(self, folder: Path, kind: Any, width: int = 1) -> None:
        """Makes an empty column. `kind`: type of the values; `width`: values per row."""
        self._file = Scratch(folder)
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
        self._map, self._bytes = self._file.grow(size), size
        self._values = self._view(self._bytes // self._row)

    def _view(self, rows: int) -> NDArray[Any]:
        shape = (rows,) if self._width == 1 else (rows, self._width)
        if self._map is None:
            return np.zeros(shape, self._kind)
        flat = np.frombuffer(self._map, self._kind, rows * self._width)
        return flat.reshape(shape)

    def release(self) -> None:
        """Returns the mapped memory to the system; the values stay in the file."""
        if self._map is not None:
            release_pages(self._map)

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

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for column in self._columns.values():
            column.close()


# ------------------------------------------------------------------ positions
LEAST_PLACES = 1 << 12
AT_ONCE = 1 << 16  # positions entered together when the table grows
_IDENTITY = np.dtype((np.void, 8 * IDENTITY_WORDS))


class Met:
    """Positions numbered from 1 in the order in which they were met; found by a hash table of their keys.

    Clocks up to 75 do not distinguish positions; each keeps the clock with which it was met.
    """

    def __init__(self, folder: Path) -> None:
        """Creates an empty numbering; `folder`: for the temporary files."""
        self._folder = folder
        self._words = Column(folder, np.uint64, POSITION_WORDS)
        self._table = self._empty_table(LEAST_PLACES)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._words.close()
        self._table.close()

    def __len__(self) -> int:
        return len(self._words)

    @property
    def words(self) -> Words:
        """The positions, `[R, 10]`, by id - 1."""
        return self._words.values

    def meet(self, words: Words, follow: Mask | None = None) -> tuple[Ints, Ints]:
        """Numbers positions met for the first time.

        Args:
          words: `[M, 10]`. follow: `[M]` which of them may be new; None: all.

        Returns:
          Their ids, `[M]`, 0 for one that is neither known nor new; indices of the new ones, in order.
        """
        ids = self._find(words)
        unknown = np.flatnonzero(ids == 0)
        marks: list[Any] = identities(words[unknown]).view(_IDENTITY).ravel().tolist()  # bytes
        may_be_new = [True] * len(unknown) if follow is None else follow[unknown].tolist()
        met: dict[bytes, int] = {}
        new, last = [], len(self)
        for k, mark, is_wanted in zip(unknown.tolist(), marks, may_be_new, strict=True):
            if is_wanted and mark not in met:
                last += 1
                met[mark] = last
                new.append(k)
        ids[unknown] = [met.get(mark, 0) for mark in marks]
        self._add(words[new])
        return ids, np.array(new, np.int64)

    def _find(self, words: Words) -> Ints:
        """Returns the id of each position, 0 for one not met."""
        table, found = self._table.values, np.zeros(len(words), np.int64)
        marks, places = identities(words), self._places(words)
        rest = np.arange(len(words))
        while len(rest):
            ids = table[places[rest]]
            rest, ids = rest[ids > 0], ids[ids > 0]
            equal = (identities(self.words[ids - 1]) == marks[rest]).all(1)
            found[rest[equal]] = ids[equal]
            rest = rest[~equal]
            places[rest] = (places[rest] + 1) % len(table)
        return found

    def _add(self, words: Words) -> None:
        first = len(self)
        self._words.add(words)
        if 2 * len(self) <= len(self._table):
            self._enter(words, first)
            return
        self._table.close()
        self._table = self._empty_table(4 * max(len(self), len(self._table)))
        for begin in range(0, len(self), AT_ONCE):
            self._enter(self.words[begin : begin + AT_ONCE], begin)

    def _enter(self, words: Words, first: int) -> None:
        """Enters positions with the ids from `first + 1` on."""
        table, places = self._table.values, self._places(words)
        rest = np.arange(len(words))
        while len(rest):
            free = rest[table[places[rest]] == 0]
            table[places[free]] = first + 1 + free  # of several for one place, the last stays
            rest = rest[table[places[rest]] != first + 1 + rest]
            places[rest] = (places[rest] + 1) % len(table)

    def _places(self, words: Words) -> Ints:
        return np.asarray(keys_of(words) % np.uint64(len(self._table)), np.int64)

    def _empty_table(self, places: int) -> Column:
        table = Column(self._folder, np.int64)
        table.extend(places)
        return table

    def release(self) -> None:
        """Returns mapped memory to the system if the columns exceed MOST_MAPPED bytes."""
        if self._words.nbytes + self._table.nbytes > MOST_MAPPED:
            self._words.release()
            self._table.release()
