"""Columns in memory-mapped temporary files; the operating system keeps the used pages in memory."""

from __future__ import annotations

import mmap
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
