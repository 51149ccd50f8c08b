"""The store of a worker that cannot open the graph file: the writer reads it for the worker.

SQLite's files cannot be read over a network while they are written, so records are sent. Filters are sent
too, each once. Without them a wave asks for every new position, and a search with `builtin` took twice the
CPU time of one beside its file (6.7 s, 3.3 s); with them it takes as much (3.7 s, 3.8 s).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ...errors import StoreError
from ...store.index.filters import filter_of
from ...store.index.locate_kernel import FilterArrays, no_filter
from ...store.reading import Reader
from ...store.record.node import RecordBatch
from ...store.record.provenance import EvaluatorIdentity
from ...store.sizes import SIZES, Sizes
from ...store.store import Store
from ...workers.child import Pipe
from ...workers.messages import Failure
from .messages import DropSnapshot, Find, Found, Open, Opened, Snapshot, TakeSnapshot
from .worker_store import WorkerStore

_T = TypeVar("_T")


class RemoteStore(WorkerStore):
    """A store without a file: another process reads and writes for it.

    Attributes:
      proofs: the transposition entries that prove mates.
    """

    def __init__(self, path: str, identity: EvaluatorIdentity, records: Pipe, reading: Pipe) -> None:
        """Takes the pipes to the process that has the file; the path is for messages."""
        self.path = Path(path)
        self.identity = identity
        self.place = None
        self.leaves_out = self._closed = False
        self._owner = os.getpid()
        self._pipe, self._batches = records, []
        self._reader = RemoteReader(self.path, reading)
        opened = self._reader.opened()
        self._evaluator_number, self.proofs = opened.evaluator, opened.proofs

    @property
    def parts(self) -> list[Store]:
        """An empty list: the writer has the files."""
        return []

    @property
    def sizes(self) -> Sizes:
        """The default sizes."""
        return SIZES

    @property
    def node_count(self) -> int:
        """One, for a number that is unknown but not 0."""
        return 1

    def read_fact(self, name: str) -> str | None:
        """Returns None: the writer has the facts."""
        return None

    def left_out_error(self) -> StoreError | None:
        """Returns None: the writer reports it."""
        return None

    def reader(self, *, threads: int = 2) -> Reader:
        """Returns the only reader, which reads the snapshot."""
        return self._reader

    def take_snapshot(self) -> None:
        """Moves the reader to the present state of the file."""
        self._reader.take_snapshot()

    def drop_snapshot(self) -> None:
        """Releases the snapshot."""
        self._reader.drop_snapshot()

    def _let_go(self) -> None:
        self._reader.is_stale = True

    def close(self) -> None:
        """Marks the store as closed; the process closes the pipes."""
        self._closed = True


class RemoteReader(Reader):
    """Reads records from the process that has the file."""

    may_read_inside = False

    def __init__(self, path: Path, pipe: Pipe) -> None:
        self._path, self._pipe = path, pipe
        self.closed = False
        self.is_stale = True
        self.problems: list[str] = []  # the writer reports them
        self._blooms: dict[int, NDArray[np.uint8]] = {}
        self._filter = no_filter()

    def close(self) -> None:
        """Marks the reader as closed."""
        self.closed = True

    @property
    def ram_bytes(self) -> int:
        """Bytes of the filters; the writer has the index."""
        return sum(len(bloom) for bloom in self._blooms.values())

    def filter(self) -> FilterArrays:
        """Returns the filter of the snapshot, of a new one if it is stale."""
        if self.is_stale:
            self.take_snapshot()
        return self._filter

    def find(
        self, words: NDArray[np.uint64], *, strict: bool = False
    ) -> tuple[NDArray[np.bool_], RecordBatch]:
        """As `Reader.find`."""
        if self.is_stale:
            self.take_snapshot()
        found = self._ask(Find(words), Found)
        return found.have, found.batch

    def find_any(self, words: NDArray[np.uint64]) -> list[RecordBatch]:
        """As `Reader.find_any`."""
        batch = self.find(words)[1]
        return [batch] if len(batch) else []

    def opened(self) -> Opened:
        """Returns facts of the whole graph."""
        return self._ask(Open(), Opened)

    def take_snapshot(self) -> None:
        """Moves to the present state of the file."""
        held = self._ask(TakeSnapshot(), Snapshot)
        known = self._blooms | held.blooms
        self._blooms = {name: known[name] for name in held.chunks.tolist()}
        self._filter = filter_of(held.firsts, held.segments, list(self._blooms.values()))
        self.is_stale = False

    def drop_snapshot(self) -> None:
        """Releases the snapshot; the next question takes a new one."""
        self.is_stale = True
        self._say(DropSnapshot())

    def _ask(self, message: object, kind: type[_T]) -> _T:
        """Returns the reply to a message.

        Raises:
          StoreError: if the file cannot be read, or the process that reads it has ended.
        """
        self._say(message)
        try:
            reply = self._pipe.recv()
        except (OSError, EOFError) as error:
            raise self._gone() from error
        if isinstance(reply, Failure):
            raise reply.as_error()
        assert isinstance(reply, kind)
        return reply

    def _say(self, message: object) -> None:
        try:
            self._pipe.send(message)
        except OSError as error:
            raise self._gone() from error

    def _gone(self) -> StoreError:
        return StoreError(f"{self._path}: the process that reads it is gone")
