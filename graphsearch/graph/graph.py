"""The graph: an arena over a store. It reads, evicts, saves and knows what is dirty."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

import chess

from ..errors import CapacityError, StoreError, StoreMovedError
from ..evaluators.absent import AbsentEvaluator
from ..evaluators.factory import EvaluatorSpec, create
from ..evaluators.protocol import Evaluator
from ..store.record.node import NodeRecord
from ..store.record.provenance import UNBOUND
from ..store.record.transposition import EntryTable
from ..store.store import Store
from ..store.tables.history import RootValues
from ..store.transpositions.saved import Loaded
from ..store.upkeep.compact import tidy
from .arena import Arena, Saving
from .kept_transpositions import GraphEntries, KeptEntries
from .loading import Loader, is_due
from .memory import return_freed_memory
from .paging import Pager
from .saving import Saver, saved_elsewhere
from .summary import RootTables, root_values

Note = Callable[[Store], None]
IN_FLIGHT = "in_flight"  # row of store_info
TIDY_SHARE = 20  # closing tidies the file in one part of so many of the CPU time since it was opened,
LEAST_TIDY_SECONDS = 0.1  # and this
LOADED_AT_ONCE = 100_000  # nodes of a file that is loaded whole when it is opened: a tenth of a second


class Graph:
    """Positions and what is known about them: in memory and, if the graph has one, in a file.

    Make one with `Graph.open`. Close it, or use it in a `with` statement, so that everything is saved. One
    search at a time may run on it. One process at a time may write a file; any number may read it.

    Attributes:
      tables_meanwhile: whether a search writes the plain tables; if False, only `flush` and `close` do.
      saves_meanwhile: whether a search saves at intervals; if False, it saves only to free memory.
      reads_alone: whether nobody else writes the file, so that it may be read in order.
      in_flight: the wave that the last search had in flight when it stopped (`search.in_flight`), saved with
        everything else; None if there is none.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        store: Store | None,
        *,
        ram_bytes: int | None = None,
        owns_evaluator: bool = False,
    ) -> None:
        """Makes the graph over a store; with `owns_evaluator` it closes that too. See `open`."""
        if store and ram_bytes:
            return_freed_memory()
        self.evaluator = evaluator
        self.store = store
        if store:
            store.leaves_out = True
        self.arena = Arena(ram_bytes, logged=store is not None)
        self._reader = store.reader() if store else None
        self.pager = Pager(
            self.arena, self._reader, self.arena.max_bytes, complete=store is None or not store.node_count
        )
        self._saver = Saver(store) if store else None
        self._saving: Saving | None = None
        self._file_nodes = store.node_count if store else 0
        self.searching = threading.Lock()
        self._owns_evaluator = owns_evaluator
        self._closed = False
        self._opened = time.process_time()
        self.saved_nodes = 0
        self.tables_meanwhile = True
        self.saves_meanwhile = True
        self.reads_alone = True
        self._loader: Loader | None = None
        self._has_loaded = False
        self.in_flight = store.read_fact(IN_FLIGHT) if store else None
        self._notes: list[Note] = []
        self._tables = RootTables(self.pager.read)
        self._entries = GraphEntries(self.arena, self._saver.call if self._saver else None)

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str] | None,
        *,
        evaluator: str | EvaluatorSpec | Evaluator = "builtin",
        ram_bytes: int | None = None,
    ) -> Graph:
        """Returns the graph of a file, or an empty one. Records are read when a search needs them.

        Args:
          path: the graph file, made if it is missing; None keeps the graph in memory only.
          evaluator: a name (`evaluators.factory.NAMES`), a specification or an Evaluator. A file is bound to
            the one that it was made with. The graph closes an evaluator that it makes; the caller closes one
            that the caller passes.
          ram_bytes: most bytes that the graph may take in memory; default: 80 % of the machine's memory.

        Raises:
          EvaluatorError: if the evaluator is unknown or cannot be made.
          EvaluatorMismatchError: if the file is bound to another evaluator.
          UnfinishedError: if the file is being moved to another evaluator (`reevaluate`).
          StoreLockedError: if another process is writing the file.
          StoreError: if the file cannot be read or made.
        """
        owned = isinstance(evaluator, str | EvaluatorSpec)
        made = create(evaluator) if isinstance(evaluator, str | EvaluatorSpec) else evaluator
        try:
            store = None if path is None else Store.open(path, identity=made.identity, create=True)
            return cls.over(store, made, ram_bytes, owns_evaluator=owned)
        except BaseException:
            if owned:
                made.close()
            raise

    @classmethod
    def open_unevaluated(cls, path: str | os.PathLike[str] | None, *, ram_bytes: int | None = None) -> Graph:
        """Returns the graph of a file for work that evaluates nothing. The file's evaluator is not needed.

        A new file stays bound to no evaluator. A search on such a graph fails with an EvaluatorError at the
        first new position.

        Raises:
          UnfinishedError: as `open`.
          StoreLockedError: as `open`.
          StoreError: as `open`.
        """
        store = None if path is None else Store.open(path, create=True, unbound=True)
        return cls.over(store, AbsentEvaluator(store.identity if store else UNBOUND), ram_bytes)

    @classmethod
    def over(
        cls,
        store: Store | None,
        evaluator: Evaluator,
        ram_bytes: int | None = None,
        *,
        owns_evaluator: bool = False,
    ) -> Graph:
        """Returns the graph over an open store, which it closes; without one, in memory only. See `open`."""
        try:
            graph = cls(evaluator, store, ram_bytes=ram_bytes, owns_evaluator=owns_evaluator)
        except BaseException:
            if store:
                store.close()
            raise
        try:
            nodes = store.node_count if store else 0
            if 0 < nodes <= LOADED_AT_ONCE and graph.pager.has_room_for(nodes):
                graph.call(graph.pager.load_whole)
        except BaseException:
            graph._let_go()
            raise
        return graph

    # -------------------------------------------------------------- transposition entries
    def use_entries(self, table_bytes: int) -> EntryTable:
        """Returns the table of transposition entries: those of the file, and room for more.

        From now on they are saved with everything else that is saved. A second call returns the same table.

        Args:
          table_bytes: most memory that it takes. If the entries do not fit, the deepest are loaded.

        Raises:
          StoreError: if the file cannot be read.
        """
        self.check_open()
        return self._entries.use(table_bytes)

    @property
    def entries(self) -> EntryTable | None:
        """The table of transposition entries, None if none are in use."""
        return self._entries.kept.table if self._entries.kept else None

    @property
    def kept_entries(self) -> KeptEntries | None:
        """The table with what became of the file's entries when it was loaded, and whose values they are."""
        return self._entries.kept

    def heed_proofs(self, found: Loaded) -> None:
        """Has searches take over the mates that some entries prove, instead of those of the file's."""
        self._entries.heed(found)

    # -------------------------------------------------------------- a search
    def begin_search(self, root: chess.Board, *, lists: bool) -> None:
        """Prepares for a search of a position, which the file is to list if it `lists` it.

        Raises:
          StoreError: if the file cannot be read.
        """
        self._entries.heed_proofs()
        if lists:
            self._tables.note_root(root)

    # -------------------------------------------------------------- reading
    @property
    def problems(self) -> list[str]:
        """What was damaged in the file where it was read, and passed over."""
        return [*self.pager.problems, *self._entries.problems]

    @property
    def path(self) -> Path | None:
        """The graph's file, None if it has none."""
        return self.store.path if self.store else None

    @property
    def node_count(self) -> int:
        """Positions in the graph, in memory or not."""
        return self._file_nodes + self.arena.fresh_count if self.store else self.arena.node_count

    def read(self, board: chess.Board) -> NodeRecord | None:
        """Returns a copy of a position's record, or None if the graph does not know it."""
        return self.pager.read(board)

    def root_values(self, board: chess.Board) -> RootValues | None:
        """Returns what a root is worth now, without the draws that only this game's history makes."""
        self.arena.take_back_overlay()
        try:
            return root_values(self.pager.read, board)
        finally:
            self.arena.give_again_overlay()

    def loader(self) -> Loader | None:
        """Returns what reads the file into memory, if a search has asked for so much of it that this pays.

        Only once: what is evicted later is read back one by one.

        Raises:
          StoreError: if the file cannot be read.
        """
        if self._loader is None and self._may_load and is_due(self.pager, self._file_nodes):
            self._begin_loading()
        return self._loader

    def load_ahead(self) -> None:
        """Has `load_some` read the file before a search asks for it, if all of it fits into memory.

        Raises:
          StoreError: if the file cannot be read.
        """
        if self._loader is None and self._may_load and self.pager.has_room_for(self._file_nodes):
            self._begin_loading()

    @property
    def _may_load(self) -> bool:
        has_more = self.store is not None and not self.pager.complete
        return has_more and self.reads_alone and not self._has_loaded

    def _begin_loading(self) -> None:
        assert self.store
        self._loader = Loader(self.store.path, self.pager)

    @property
    def loading(self) -> Loader | None:
        """What reads the file into memory now, None if nothing does."""
        return self._loader

    def load_some(self, seconds: float) -> bool:
        """Reads on in order for about so many seconds; returns whether more is to come.

        Raises:
          StoreError: if the file cannot be read.
        """
        loader, more = self.loader(), False
        try:
            more = loader is not None and loader.advance(seconds)
        finally:
            if not more:
                self._end_loading()
        return more

    def _end_loading(self) -> None:
        loader, self._loader = self._loader, None
        if loader is not None:
            self._has_loaded = True
            loader.close()

    # -------------------------------------------------------------- room
    def make_room(self, nodes: int, need: int) -> None:
        """Makes room in memory for at most `nodes` nodes of `need` bytes, evicting and saving as it must.

        Raises:
          CapacityError: if there is no room to be had.
          StoreError: if the file cannot be written.
        """
        if self.pager.has_shrunk:
            self.flush()
            self.pager.start_over()
        if self.pager.make_room(nodes, need):
            return
        self.settle(wait=True)
        if self.pager.make_room(nodes, need):
            return
        self.flush()
        if self.pager.make_room(nodes, need):
            return
        if not (self.pager.start_over() and self.pager.make_room(nodes, need)):
            size = self.arena.max_bytes >> 20
            raise CapacityError(f"{size} MiB are not enough for one wave; use a smaller batch or more memory")

    # -------------------------------------------------------------- saving
    def check_open(self) -> None:
        """Raises StoreError if the graph was closed."""
        if self._closed:
            raise StoreError("the graph is closed; open it again to continue")

    def begin_saving(self, note: Note | None = None, *, tables: bool = False) -> None:
        """Starts to save what the file does not hold yet; searching may go on, and `settle` must follow.

        Args:
          note: writes what belongs to the same transaction, such as the state of a search.
          tables: write the plain tables too; else now and then.

        Raises:
          StoreError: if what was saved before failed; nothing is lost, it is tried again with the next save.
        """
        self._settle_saving(wait=True)
        if self._saver is None:
            return
        late = len(self._notes)
        notes: list[Note] = [*self._notes, _note_of_flight(self.in_flight), *([note] if note else [])]
        tables = tables or (self.tables_meanwhile and self._tables.is_due)
        self.arena.take_back_overlay()
        try:
            rows = self._tables.rows() if tables else None
            entries = self._entries.take()
            saving = self.arena.begin_saving()
        finally:
            self.arena.give_again_overlay()
        self._saving = saving

        def work(store: Store) -> None:
            store.append_parts(saving.batches, fresh=saving.fresh)
            for item in (rows, entries, *notes):
                if item:
                    item(store)
            del self._notes[:late]

        self._saver.unread = self.pager.complete
        self._saver.save(work)

    def merge_up_to(self, age: int | None) -> None:
        """Leaves segments of the file alone that are younger than an age; None: merges all again."""
        if self._saver is not None:
            self._saver.newest = age

    def note_later(self, note: Note) -> None:
        """Has something written with what is saved next."""
        self._notes.append(note)

    def save_soon(self) -> bool:
        """Starts to save in the background what is not in the file, if nothing is being saved; never waits.

        Returns:
          whether all is saved.

        Raises:
          StoreError: if the last saving or merging failed; nothing is lost, a later save may succeed.
        """
        if not self.settle(wait=False):
            return False
        if self._saver is None or not self.has_unsaved:
            return True
        self.begin_saving()
        return False

    @property
    def has_unsaved(self) -> bool:
        """Whether there is anything that the file does not hold once nothing is on its way there."""
        return bool(self.arena.dirty_count or self._notes or self._entries.has_unsaved)

    def settle(self, *, wait: bool) -> bool:
        """Returns whether nothing is being saved; with `wait` it waits for that.

        Raises:
          StoreError: if saving or merging failed; nothing is lost, a later save may succeed.
        """
        settled = self._settle_saving(wait=wait)
        if self._saver is not None and settled:
            self._saver.check()
        return settled

    def _settle_saving(self, *, wait: bool) -> bool:
        """Does what `settle` says, but leaves alone what may have gone wrong with merging."""
        saving = self._saving
        if self._saver is None or saving is None:
            return True
        try:
            if not self._saver.settled(wait=wait):
                return False
        except BaseException:
            self._saving = None
            self.arena.undo_saving(saving)
            self._entries.settle(saved=False)
            raise
        self._saving = None
        self._entries.settle(saved=True)
        self.arena.end_saving(saving)
        self.pager.file_changed()
        assert self.store
        self._file_nodes = self.store.node_count
        self.saved_nodes += len(saving)
        return True

    def flush(self, note: Note | None = None) -> int:
        """Saves what the file does not hold yet, all of it or nothing; returns how many records that was.

        Args:
          note: writes what belongs to the same transaction, such as the state of a search.

        Raises:
          StoreMovedError: if the file is gone; all is in another one then, which the error names.
          StoreError: if the file cannot be written; nothing is lost, a later flush may succeed.
        """
        if self._saver is None:
            return 0
        before = self.saved_nodes
        try:
            self._save_all(note)
        except StoreMovedError as error:
            assert self._saver is not None
            raise saved_elsewhere(error, self._saver.call, lambda: self._save_all(note)) from None
        return self.saved_nodes - before

    def _save_all(self, note: Note | None) -> None:
        self.begin_saving(note, tables=True)
        self.settle(wait=True)

    def call(self, work: Note) -> None:
        """Has something written to the file by its one writer, and waits for it; without a file, nothing."""
        if self._saver is not None:
            self._saver.call(work)

    @property
    def log_held(self) -> int:
        """Bytes of a write-ahead log that is too long because of a reader of an old state, else 0."""
        return self._saver.log_held if self._saver else 0

    def close(self) -> None:
        """Saves and closes the file. A second call does nothing.

        Raises:
          StoreError: if a search is running on it.
        """
        if not self._closed and self.searching.locked():
            raise StoreError("a search is running on this graph; stop it before closing")
        self._closed = True
        if self.store is None:
            self._let_go()
            return
        try:
            self.settle(wait=True)
            if self.has_unsaved:
                self.flush()
            with contextlib.suppress(StoreError):  # all is saved; only old versions stay for now
                seconds = LEAST_TIDY_SECONDS + (time.process_time() - self._opened) / TIDY_SHARE
                self.call(lambda store: tidy(store, seconds=seconds))
        finally:
            self._let_go()

    def _let_go(self) -> None:
        """Closes the file as it is, and the evaluator if it is the graph's own."""
        if self._owns_evaluator:
            self._owns_evaluator = False
            self.evaluator.close()
        if self.store is None:
            return
        store, self.store = self.store, None
        self._closed = True
        self._end_loading()
        if self._saver:
            self._saver.close()
        if self._reader:
            self._reader.close()
        store.close()

    def __enter__(self) -> Graph:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None or not isinstance(error, StoreError):
            self.close()
        else:  # saving has failed already: say that, not that it fails again
            self._let_go()


def _note_of_flight(in_flight: str | None) -> Note:
    """Returns what writes down the wave in flight, or that there is none."""
    return lambda store: store.write_fact(IN_FLIGHT, in_flight)
