"""The records of a graph file, as its store offers them to who reads."""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

import chess
import numpy as np
from numpy.typing import NDArray

from ..deadline import check_time
from ..errors import StoreError
from ..position.board import pack
from . import order, scanning
from .file import sql_errors
from .index import lookup
from .index.catalog import Catalog
from .record.node import NodeRecord, RecordBatch
from .segments import OnCorrupt

if TYPE_CHECKING:
    from .reading import Reader


class StoredRecords(ABC):
    """What a store reads of its records, through a connection that it has."""

    path: Path
    _connection: sqlite3.Connection
    _catalog: Catalog
    _readers: list[Reader]

    @abstractmethod
    def snapshot(self) -> AbstractContextManager[None]:
        """Holds one state of the file for a reader; the writer's own state cannot change under it."""

    @abstractmethod
    def _check_open(self) -> None:
        """Raises StoreError if the store is closed."""

    def scan(self, *, on_corrupt: OnCorrupt | None = None) -> Iterator[RecordBatch]:
        """Yields every record once, its newest version, in batches of some 16,000 in the order of segments.

        Args:
          on_corrupt: called for each damaged block, which is then left out; without it the scan raises.

        Raises:
          CorruptRecordError: naming file, segment and block.
          StoreError: if this store is written to meanwhile.
        """
        self._check_open()
        with sql_errors(self.path, "read it"), self.snapshot():
            generation = self._catalog.generation
            for batch in scanning.scan(self._connection, self._catalog, on_corrupt):
                check_time()
                yield batch
                if self._catalog.generation != generation:
                    raise StoreError(f"{self.path} was written to during a scan; start the scan again")

    def portion(self, start: int = 0) -> tuple[RecordBatch, int | None]:
        """Returns some 16,000 records from a sort key on, newest versions, in order; and the key after them.

        Begin with 0 and pass on the key until it is None: that is a scan which lets the file be written
        between two portions. Records that are new or dropped meanwhile are met or not.

        Raises:
          CorruptRecordError: naming file, segment and block.
        """
        found = self.fetch_portion(start)
        return found.records(), found.following

    def fetch_portion(self, start: int = 0) -> scanning.Portion:
        """Returns what `portion` does, to be decoded by another thread."""
        self._check_open()
        with sql_errors(self.path, "read it"), self.snapshot():
            return scanning.fetch_portion(self._connection, self._catalog, start)

    def read(self, board: chess.Board) -> NodeRecord | None:
        """Returns the record of a position, or None; without Numba."""
        self._check_open()
        check_time()
        words = pack(board)
        with sql_errors(self.path, "read it"), self.snapshot():
            return lookup.read_one(self._connection, self._catalog, words)

    def may_hold(self, words: NDArray[np.uint64], keys: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Returns which positions the file may hold, `[K]`: by filters alone, without Numba; about 0.5 % err.

        Args:
          words: `[K, 10]` packed positions; their clocks and keys are not read.
          keys: `[K]` their keys in the graph.
        """
        self._check_open()
        with sql_errors(self.path, "read it"), self.snapshot():
            return lookup.may_be_stored(self._catalog, order.sort_keys(words), keys)

    def lookup(self, words: NDArray[np.uint64]) -> tuple[NDArray[np.bool_], RecordBatch]:
        """Returns which packed positions (`[K, 10]`) have a record, and the records of those, in order.

        What an open transaction has written does not count yet.

        Raises:
          CorruptRecordError: naming file, segment and block.
        """
        from .reading import Reader

        self._check_open()
        with Reader(self.path, self._catalog.indexes, sizes=self._catalog.sizes) as reader:
            return reader.find(words, strict=True)

    def reader(self, *, threads: int = 2) -> Reader:
        """Returns a reader of batches with a connection of its own, for another thread than the writer's.

        It sees what is committed. Close it; closing the store does so too.

        Args:
          threads: how many may work on a large batch, that of the caller included.
        """
        from .reading import Reader

        self._check_open()
        self._catalog.indexes.keep_blooms = True
        reader = Reader(self.path, self._catalog.indexes, threads, sizes=self._catalog.sizes)
        self._readers = [*(r for r in self._readers if not r.closed), reader]
        return reader
