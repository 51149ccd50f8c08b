"""A graph file that a worker cannot open, being elsewhere, or several files: its writer reads it for it.

SQLite's files cannot be read over a network while they are written, so records travel. Filters do so too,
each once. Without them a wave asks about every position that is new, and a search with `builtin` took twice
the CPU time of one beside its file (6.7 s, 3.3); with them it takes as much (3.7, 3.8).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ...errors import StoreError
from ...record.node import RecordBatch
from ...record.provenance import EvaluatorIdentity
from ...store.index.filters import filter_of
from ...store.index.locate_kernel import FilterArrays, no_filter
from ...store.reading import Reader
from ...store.sizes import SIZES, Sizes
from ...store.store import Store
from ...workers.child import Pipe
from ...workers.messages import Failure
from .messages import Find, Found, Held, Hold, Open, Opened, Rest
from .remote import SharedStore

_T = TypeVar("_T")


class FarStore(SharedStore):
    """A store without a file, whose transactions and readers are another process's.

    Attributes:
      proofs: the entries that prove mates.
    """

    def __init__(self, path: str, identity: EvaluatorIdentity, records: Pipe, reading: Pipe) -> None:
        """Takes the pipes to the process that has the file; its path is for messages."""
        self.path = Path(path)
        self.identity = identity
        self.place = None
        self.leaves_out = self._closed = False
        self._owner = os.getpid()
        self._pipe, self._batches = records, []
        self._reader = FarReader(self.path, reading)
        opened = self._reader.opened()
        self._evaluator_number, self.proofs = opened.evaluator, opened.proofs

    @property
    def parts(self) -> list[Store]:
        """None: the files are the writer's."""
        return []

    @property
    def sizes(self) -> Sizes:
        """Those of every file: this one has none of its own."""
        return SIZES

    @property
    def node_count(self) -> int:
        """One: some, unknown how many."""
        return 1

    def read_fact(self, name: str) -> str | None:
        """Returns None: facts are the writer's."""
        return None

    def left_out_error(self) -> StoreError | None:
        """Returns None: the writer tells."""
        return None

    def reader(self, *, threads: int = 2) -> Reader:
        """Returns the one reader, which stays at the state of the file that is held."""
        return self._reader

    def hold(self) -> None:
        """Takes in what was committed, as `SharedStore.hold`."""
        self._reader.hold()

    def rest(self) -> None:
        """Holds no state of the file."""
        self._reader.rest()

    def _let_go(self) -> None:
        self._reader.is_due = True

    def close(self) -> None:
        """Asks no more; the pipes are the process's."""
        self._closed = True


class FarReader(Reader):
    """Finds records by asking the process that has the file."""

    def __init__(self, path: Path, pipe: Pipe) -> None:
        self._path, self._pipe = path, pipe
        self.closed = False
        self.is_due = True
        self.problems: list[str] = []  # the writer's
        self._blooms: dict[int, NDArray[np.uint8]] = {}
        self._filter = no_filter()

    def close(self) -> None:
        """Asks no more."""
        self.closed = True

    @property
    def ram_bytes(self) -> int:
        """Bytes of the filters; the index is the writer's."""
        return sum(len(bloom) for bloom in self._blooms.values())

    def filter(self) -> FilterArrays:
        """Returns the filter of the state that is held; of the present one, if that is due."""
        if self.is_due:
            self.hold()
        return self._filter

    @property
    def reads_inside(self) -> bool:
        """No."""
        return False

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Holds nothing: the file is elsewhere."""
        yield None

    def find(
        self, words: NDArray[np.uint64], *, strict: bool = False
    ) -> tuple[NDArray[np.bool_], RecordBatch]:
        """Returns what `Reader.find` does."""
        if self.is_due:
            self.hold()
        found = self._ask(Find(words), Found)
        return found.have, found.batch

    def find_any(self, words: NDArray[np.uint64]) -> list[RecordBatch]:
        """Returns what `Reader.find_any` does."""
        batch = self.find(words)[1]
        return [batch] if len(batch) else []

    def opened(self) -> Opened:
        """Returns what the graph says of itself."""
        return self._ask(Open(), Opened)

    def hold(self) -> None:
        """Goes on to the present state of the file."""
        held = self._ask(Hold(), Held)
        known = self._blooms | held.blooms
        self._blooms = {name: known[name] for name in held.chunks.tolist()}
        self._filter = filter_of(held.firsts, held.segments, list(self._blooms.values()))
        self.is_due = False

    def rest(self) -> None:
        """Needs no state; the next question begins another one."""
        self.is_due = True
        self._say(Rest())

    def _ask(self, message: object, kind: type[_T]) -> _T:
        """Returns the reply to a message.

        Raises:
          StoreError: if the file cannot be read, or the process is gone that does so.
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
