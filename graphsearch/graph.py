"""The graph: an arena over a store. It loads, reads, saves and knows what is dirty."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

import chess

from .arena import Arena
from .errors import StoreError
from .evaluators import Evaluator, create
from .position import key_of
from .record import NodeRecord
from .store import Store
from .summary import top_rows

Progress = Callable[[int, int], None]


class Graph:
    """Positions and what is known about them, in memory and, if it has one, in a file.

    Make one with `Graph.open`; close it, or use it in a `with` statement, so that all of it is saved.
    One search at a time; one process writes a file, any number may read it.
    """

    def __init__(self, evaluator: Evaluator, store: Store | None, *, ram_bytes: int | None = None) -> None:
        self.evaluator = evaluator
        self.store = store
        self.arena = Arena(ram_bytes, logged=store is not None)
        self.arena.set_temperature(evaluator.temperature)
        self.misfits = 0
        self.searching = threading.Lock()
        self._closed = False
        self.saved_nodes = 0
        self._roots: dict[str, chess.Board] = {}

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str] | None,
        *,
        evaluator: str | Evaluator = "builtin",
        on_progress: Progress | None = None,
        ram_bytes: int | None = None,
    ) -> Graph:
        """Returns the graph of a file, loaded, or an empty one.

        Args:
          path: the graph file, made if it is missing; None keeps the graph in memory only.
          evaluator: a name (`evaluators.NAMES`) or an Evaluator; a file is bound to the one it was made with.
          on_progress: called with (records loaded, records in the file).
          ram_bytes: most bytes that nodes may take; default: 80 % of the machine's memory.

        Raises:
          EvaluatorError: if the evaluator is unknown.
          EvaluatorMismatchError: if the file is bound to another one.
          StoreLockedError: if another process is writing the file.
          StoreError: if the file cannot be read or made.
          CapacityError: if it does not fit in memory.
        """
        chosen = create(evaluator) if isinstance(evaluator, str) else evaluator
        if path is None:
            return cls(chosen, None, ram_bytes=ram_bytes)
        store = Store.open(path, identity=chosen.identity, create=True)
        try:
            graph = cls(chosen, store, ram_bytes=ram_bytes)
            graph._load(on_progress)
        except BaseException:
            store.close()
            raise
        return graph

    def _load(self, on_progress: Progress | None) -> None:
        assert self.store is not None
        total = self.store.node_count
        loaded = 0
        for batch in self.store.scan():
            self.misfits += self.arena.load(batch)
            loaded += len(batch)
            if on_progress:
                on_progress(loaded, total)

    # -------------------------------------------------------------- reading
    @property
    def path(self) -> Path | None:
        """The graph's file, None if it has none."""
        return self.store.path if self.store else None

    @property
    def node_count(self) -> int:
        """Positions in the graph."""
        return self.arena.node_count

    def read(self, board: chess.Board) -> NodeRecord | None:
        """Returns a copy of a position's record, or None if the graph does not know it."""
        return self.arena.read(board)

    # -------------------------------------------------------------- saving
    def check_open(self) -> None:
        """Raises StoreError if the graph was closed."""
        if self._closed:
            raise StoreError("the graph is closed; open it again to search on")

    def note_root(self, board: chess.Board) -> None:
        """Notes a position that is searched, to list it in the file by the FEN that was asked for."""
        self._roots[f"{key_of(board):016x}"] = board.copy(stack=False)

    def flush(self, note: Callable[[Store], None] | None = None) -> int:
        """Saves what the file does not hold yet, all of it or nothing; returns how many records that was.

        Args:
          note: writes what belongs to the same transaction, such as the state of a search.

        Raises:
          StoreError: if the file cannot be written; nothing is lost, a later flush may succeed.
        """
        if self.store is None:
            return 0
        saved = self.arena.dirty_count
        self.arena.take_back_overlay()
        try:
            with self.store.transaction():
                for batch, fresh in self.arena.export_dirty():
                    self.store.append(batch, fresh=fresh)
                self._write_tables(note)
            self.arena.make_clean()
        finally:
            self.arena.give_again_overlay()
        while self.store.merge_step():
            pass
        self.saved_nodes += saved
        return saved

    def _write_tables(self, note: Callable[[Store], None] | None) -> None:
        assert self.store is not None
        for key, board in self._roots.items():
            record = self.read(board)
            if record is not None:
                self.store.record_root(key, board.fen(), record.visits)
                self.store.write_top(*top_rows(self.read, board))
        if note:
            note(self.store)

    def close(self) -> None:
        """Saves and closes the file. A second call does nothing.

        Raises:
          StoreError: if a search is running on it.
        """
        if not self._closed and self.searching.locked():
            raise StoreError("a search is running on this graph; stop it before closing")
        self._closed = True
        if self.store is None:
            return
        store = self.store
        try:
            if self.arena.dirty_count:
                self.flush()
            with contextlib.suppress(StoreError):  # all is saved; only old versions stay for now
                store.tidy()
        finally:
            self.store = None
            store.close()

    def __enter__(self) -> Graph:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None or not isinstance(error, StoreError):
            self.close()
        elif self.store is not None:  # saving has failed already: say that, not that it fails again
            self.store.close()
            self.store = None
