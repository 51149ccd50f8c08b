"""Reading records inside kernels: the connection, dictionaries and buffers that they use."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import numpy as np

from ..jit.libsqlite import Libsqlite, ReadConnection, libsqlite
from ..position.legality_kernel import ROOM
from .codec.bulk import columns_of, owned, start_position
from .codec.packing_kernel import PADDING
from .codec.unpacking import Unpacker
from .connection import uri_of
from .index.filters import Index
from .index.locate_kernel import FilterArrays, no_filter
from .reading_kernel import FUNCTIONS, NO_CHUNK, STATES, UNKNOWN, ReaderArrays
from .record.node import MAX_MOVES, RecordBatch
from .tables.schema import MAX_BLOCK_BYTES

INDEX_ATTEMPTS = 3  # to read index and records of one state while another connection commits
_BLOCK = "SELECT data FROM block WHERE id = ? AND typeof(data) = 'blob' AND length(data) <= "

FileArrays = tuple[FilterArrays, ReaderArrays]


def open_kernel_reader(path: Path) -> KernelReader | None:
    """Returns a reader for kernels, of a file that was opened and checked; None if kernels cannot read it."""
    library = libsqlite()
    try:
        return KernelReader(library, path) if library else None
    except sqlite3.Error:
        return None


class KernelReader:
    """The connection and arrays with which kernels read a file, for one thread.

    Attributes:
      version: data version of the file's state in `arrays` and `filter`, None if there is none.
      arrays: the argument of the kernels.
      filter: the filter of the same state.
    """

    def __init__(self, library: Libsqlite, path: Path) -> None:
        """Opens the file; another connection of this process must have opened and checked it.

        Raises:
          sqlite3.OperationalError: if it cannot be opened.
        """
        self._connection = ReadConnection(library, uri_of(path, "mode=ro"))
        prepare = self._connection.prepare
        self._connection.run(prepare("PRAGMA cell_size_check = ON"))
        self._connection.run(prepare("PRAGMA trusted_schema = OFF"))
        self._begin, self._end = prepare("BEGIN"), prepare("ROLLBACK")
        self._data_version = prepare("PRAGMA data_version")
        self.version: int | None = None
        self._unpacker = Unpacker()
        self._dictionaries: tuple[bytes, ...] = ()
        self.filter = no_filter()
        functions = np.zeros(FUNCTIONS, np.int64)
        functions[:] = (
            library.bind,
            library.step,
            library.blob,
            library.size,
            library.reset,
            prepare(f"{_BLOCK}{MAX_BLOCK_BYTES}"),
        )
        states = np.zeros(STATES, np.int64)
        states[UNKNOWN] = NO_CHUNK
        none = np.zeros(0, np.int64)
        self.arrays = ReaderArrays(
            starts=none,
            keys=np.zeros(0, np.uint64),
            shifts=none,
            slots=none,
            functions=functions,
            states=states,
            data=np.zeros(MAX_BLOCK_BYTES + PADDING, np.uint8),
            start=start_position(),
            moves=np.zeros(ROOM, np.uint16),
            columns=columns_of(RecordBatch.room(1, MAX_MOVES, MAX_MOVES)),
            workshop=self._unpacker.workshop,
            bench=self._unpacker.bench,
        )

    def hold(self, present_index: Callable[[], Index]) -> bool:
        """Holds the present state of the file until `end`; returns whether `arrays` belong to this state.

        Args:
          present_index: reads the index through another connection.
        """
        self._load_unknown()
        for _ in range(INDEX_ATTEMPTS):
            self._connection.run(self._begin)
            version = self._connection.run(self._data_version)  # None if SQLite cannot
            if version is None or version == self.version:
                self.version = version
                return version is not None
            self._set_index(present_index())  # of `version` if the next attempt begins the same version
            self.version = version
            self.end()
        return False

    def end(self) -> None:
        """Ends the read transaction."""
        self._connection.run(self._end)

    def close(self) -> None:
        """Closes the connection."""
        self._connection.close()

    def _set_index(self, index: Index) -> None:
        """Replaces the arrays and the filter by those of another state's index."""
        self.filter, self._dictionaries = index.filter, index.dictionaries
        self.arrays = self.arrays._replace(
            starts=owned(index.blocks.starts, np.int64),
            keys=owned(index.blocks.keys, np.uint64),
            shifts=owned(index.shifts, np.int64),
            slots=np.empty(len(index.dictionaries), np.int64),
        )
        self._name_slots()

    def _load_unknown(self) -> None:
        """Loads the dictionaries that a kernel has missed; they evict the least recently used ones."""
        chunk = int(self.arrays.states[UNKNOWN])
        self.arrays.states[UNKNOWN] = NO_CHUNK
        if 0 <= chunk < len(self._dictionaries):
            self._unpacker.slot(self._dictionaries[chunk])
            self._name_slots()

    def _name_slots(self) -> None:
        self.arrays.slots[:] = self._unpacker.slots_of(self._dictionaries)
