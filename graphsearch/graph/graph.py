"""The graph: an arena over a store, which reads, evicts and saves records."""

from __future__ import annotations

import contextlib
import math
import os
import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import NoReturn

import chess
import numpy as np

from ..base.errors import CapacityError, GraphSearchError, StoreError, StoreMovedError
from ..base.system import return_freed_memory
from ..evaluators.factory import EvaluatorSpec, create
from ..evaluators.protocol import AbsentEvaluator, Evaluator, accepted
from ..store.apart import ApartMoves
from ..store.entries import EntryTable
from ..store.file import copy_database, copy_elsewhere
from ..store.provenance import FIRST_EVALUATOR, UNBOUND, UNSETTLED
from ..store.record import NodeRecord, RecordBatch
from ..store.rewrite import tidy
from ..store.store import MAX_BATCH, Store
from ..store.tables.history import RootValues
from ..store.tables.rows import insert, write_row
from ..store.union import add_records
from .arena import MAX_SLOTS, Arena, budget_of
from .arena_kernel import FRESH_NODES, VISITS
from .reading import Loader, Pager
from .saving import (
    CLOSED,
    COPIED_AT_ONCE,
    LEAST_STEP_BLOCKS,
    MADE_AHEAD,
    DirtyRecords,
    GraphEntries,
    RootTables,
    Saver,
    Work,
    flush_nodes,
    root_values,
)

TIDY_SHARE = 20  # `close` tidies the file for 1 / TIDY_SHARE of the CPU time since it was opened,
LEAST_TIDY_SECONDS = 0.1  # plus this
REFRESHED_NODES = 30_000  # `close` refreshes a file of at most so many: a tenth of a second,
VISITS_PER_NODE = 6  # plus one for so many visits: a twentieth of their time with `builtin`
LEAST_NODE_BYTES = 64  # of a node in memory, with its place in the table
LOADED_AT_ONCE = 100_000  # nodes of the largest file that `open` loads completely: a tenth of a second
COPY_BYTES = 320  # of the copy of a node, its position and its encoding
COPIES = 2 * MADE_AHEAD * COPIED_AT_ONCE  # most that exist at once
MERGED_BYTES = 18_000  # of a block in a merge step, which decodes, merges and encodes: 15 to 19 MB for 1,024
RESERVED_PARTS = 4  # at most one of so many parts of a budget is reserved for both


class Graph:
    """Positions with their evaluations and visits, in memory and, if the graph has one, in a file.

    Make one with `Graph.open`. Close it, or use it in a `with` statement, so that everything is saved. One
    search at a time may run on it. One process at a time may write a file; any number may read it.

    Attributes:
      evaluator: evaluates new positions.
      evaluator_number: its number in records.
      loading: the active loader of the file, or None.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        store: Store | None,
        *,
        ram_bytes: int | None = None,
        owns_evaluator: bool = False,
        logged: bool = False,
    ) -> None:
        """Makes the graph over a store; `logged`: note changes without a file too, for `changed_records`."""
        if store and ram_bytes:
            return_freed_memory()
        self.store = store
        self.arena = Arena(ram_bytes, logged=logged or store is not None)
        self._reader = store.reader() if store else None
        self.pager = Pager(
            self.arena, self._reader, self.arena.max_bytes, complete=store is None or not store.node_count
        )
        self._file_nodes = store.node_count if store else 0
        self._saver = Saver(store, unread=self._is_unread) if store else None
        self._saving: tuple[DirtyRecords, Future[None]] | None = None  # the save under way
        self.saved_nodes = 0  # records saved so far
        self._save_budget = self.pager.budget
        self.tables_meanwhile = True  # whether a search writes the plain tables, not only `flush` and `close`
        self._notes: list[Work] = []
        self.apart = ApartMoves.of(store, self.pager.read) if store else ApartMoves(self.pager.read)
        self._tables = RootTables()
        self.entries = GraphEntries(self.arena, self._saver.call if self._saver else None)
        self.evaluator = evaluator
        self.evaluator_number = store.evaluator_number if store else FIRST_EVALUATOR
        self.searching = threading.Lock()
        self._owns_evaluator = owns_evaluator
        self._closed = False
        self._opened = time.process_time()
        self._process = os.getpid()
        self.loading: Loader | None = None
        self._has_loaded = False

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str] | None,
        *,
        evaluator: str | EvaluatorSpec | Evaluator = "builtin",
        ram_bytes: int | str | None = None,
    ) -> Graph:
        """Returns the graph of a file, or an empty one. Records are read when a search needs them.

        Args:
          path: the graph file, made if it is missing; None keeps the graph in memory only.
          evaluator: a name (`evaluators.factory.NAMES`), a specification or an Evaluator. A file is bound to
            the one that it was made with. The graph closes an evaluator that it makes; the caller closes one
            that the caller passes.
          ram_bytes: most memory of the graph, in bytes or as `1GB`; default: 80 % of the machine's memory.

        Raises:
          EvaluatorError: if the evaluator is unknown or cannot be made.
          EvaluatorMismatchError: if the file is bound to another evaluator.
          InvalidParameterError: if `ram_bytes` is no size above 0.
          UnfinishedError: if the file is being moved to another evaluator (`reevaluate`).
          StoreLockedError: if another process is writing the file.
          StoreError: if the file cannot be read or made.
        """
        budget = budget_of(ram_bytes)
        owned = isinstance(evaluator, str | EvaluatorSpec)
        made = create(evaluator) if isinstance(evaluator, str | EvaluatorSpec) else accepted(evaluator)
        try:
            store = None if path is None else Store.open(path, identity=made.identity, create=True)
            return cls.over(store, made, budget, owns_evaluator=owned)
        except BaseException:
            if owned:
                made.close()
            raise

    @classmethod
    def open_unevaluated(
        cls, path: str | os.PathLike[str] | None, *, ram_bytes: int | str | None = None
    ) -> Graph:
        """Returns the graph of a file for work that evaluates nothing. The file's evaluator is not needed.

        A new file stays bound to no evaluator. A search on such a graph fails with an EvaluatorError at the
        first new position.

        Raises:
          InvalidParameterError, UnfinishedError, StoreLockedError, StoreError: as `open`.
        """
        budget = budget_of(ram_bytes)
        store = None if path is None else Store.open(path, create=True, unbound=True)
        return cls.over(store, AbsentEvaluator(store.identity if store else UNBOUND), budget)

    @classmethod
    def detached(
        cls, evaluator: Evaluator, known: RecordBatch, number: int, ram_bytes: int | None = None
    ) -> Graph:
        """Returns a graph in memory with the `known` records of another; `changed_records` has its changes.

        `number`: of the evaluator, in these records.
        """
        graph = cls(evaluator, None, ram_bytes=ram_bytes, logged=True)
        graph.evaluator_number = number
        graph.arena.reserve_log(0, spare=graph.arena.max_bytes // LEAST_NODE_BYTES)
        graph.pager.enter(known)
        return graph

    @classmethod
    def over(
        cls,
        store: Store | None,
        evaluator: Evaluator,
        ram_bytes: int | None = None,
        *,
        owns_evaluator: bool = False,
        in_file: bool = False,
    ) -> Graph:
        """Returns a graph over an open store, which it will close; without a store, in memory only.

        With `in_file` it is not searched: records stay in the file, to which `add_records` adds.
        """
        try:
            graph = cls(evaluator, store, ram_bytes=ram_bytes, owns_evaluator=owns_evaluator)
        except BaseException:
            if store:
                store.close()
            raise
        try:
            nodes = graph._file_nodes
            is_soon_loaded = nodes <= LOADED_AT_ONCE and graph.pager.has_room_for(nodes)
            if in_file:
                graph.pager.complete = False
            elif nodes and is_soon_loaded:
                graph.load_ahead()
                graph.load_some(math.inf)
        except BaseException:
            graph._release()
            raise
        return graph

    # -------------------------------------------------------------- transposition entries
    def use_entries(self, table_bytes: int) -> EntryTable:
        """Returns the table of transposition entries, which every save includes from now on.

        Args:
          table_bytes: most memory of the table. If the file's entries do not fit, the deepest are loaded.

        Raises:
          StoreError: if the file cannot be read.
        """
        self.check_open()
        return self.entries.use(table_bytes)

    # -------------------------------------------------------------- a search
    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Keeps other searches and `close` away from the graph for one search.

        Raises:
          GraphSearchError: if another search is running, or, as a StoreError, if the graph was closed.
        """
        if not self.searching.acquire(blocking=False):
            raise GraphSearchError("another search is running on this graph; run one at a time")
        try:
            self.check_open()
            yield
        finally:
            self.searching.release()

    def begin_search(self, root: chess.Board, *, lists: bool) -> None:
        """Prepares the search of a root, and lists it in the file if `lists`; raises StoreError."""
        self.entries.load_proofs()
        if lists:
            self._tables.note_root(root)

    # -------------------------------------------------------------- reading
    @property
    def problems(self) -> list[str]:
        """Descriptions of damaged parts of the file that were skipped."""
        return [*self.pager.problems, *self.entries.problems]

    @property
    def path(self) -> Path | None:
        """The graph's file, None if it has none."""
        return self.store.path if self.store else None

    @property
    def node_count(self) -> int:
        """Positions in the graph, in memory or not."""
        if self.store is None:
            return self.arena.node_count
        return self._file_nodes + int(self.arena.counters[FRESH_NODES])

    def read(self, board: chess.Board) -> NodeRecord | None:
        """Returns a copy of a position's record, or None if the graph does not know it.

        It knows the positions after moves that were searched apart (`NodeRecord.known`).
        """
        return self.apart.read(board)

    def root_values(self, board: chess.Board) -> RootValues | None:
        """Returns the values of a root, without the draws that only this game's history makes."""
        self.arena.subtract_overlay()
        try:
            return root_values(self.read, board)
        finally:
            self.arena.add_overlay()

    def load_ahead(self) -> None:
        """Makes `load_some` read the file before a search needs it, once, if all of it fits into memory.

        Raises:
          StoreError: if the file cannot be read.
        """
        may_load = self.loading is None and not self._has_loaded and not self.pager.complete
        if may_load and self.store is not None and self.pager.has_room_for(self._file_nodes):
            self.loading = Loader(self.store.path, self.pager)

    def load_some(self, seconds: float, left: float = math.inf, reads: float = math.inf) -> bool:
        """Continues to load the file for about `seconds`, or begins if it pays; returns whether more is left.

        `left`: seconds of the search that are left. `reads`: single reads that it will make in them.

        Raises:
          StoreError: if the file cannot be read.
        """
        if self.loading is None and self.pager.loads(self._file_nodes, reads):
            self.load_ahead()
        loader, more = self.loading, False
        try:
            more = loader is not None and loader.advance(seconds, left)
        finally:
            if not more:
                self._end_loading()
        return more

    def _end_loading(self) -> None:
        loader, self.loading = self.loading, None
        if loader is not None:
            self._has_loaded = True
            loader.close()

    # -------------------------------------------------------------- room
    def make_room(self, nodes: int, need: int) -> None:
        """Makes room for at most `nodes` nodes of `need` bytes; evicts and saves if necessary.

        Raises:
          CapacityError: if the memory is too small, or, as a StoreError, if the file cannot be written.
        """
        if self.pager.must_shrink:
            self.flush()
            self.pager.shrink()
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
    def begin_saving(self, note: Work | None = None, *, tables: bool = False) -> None:
        """Starts to save all unsaved changes; the search may continue, and `settle` must follow.

        Args:
          note: called in the same transaction. tables: write the plain tables too; else only if they are due.

        Raises:
          StoreError: if the previous save failed; nothing is lost, the next save retries it. Or if closed.
        """
        self._settle_saving(wait=True)
        if self._saver is None:
            return
        self._saver.check_open()
        late, notes = len(self._notes), [*self._notes, *([note] if note else [])]
        tables = tables or (self.tables_meanwhile and self._tables.is_due)
        self._saver.unread = self._is_unread
        self.arena.subtract_overlay()
        try:
            rows = self._tables.rows() if tables else None
            entries = self.entries.take_unsaved()
            saving = DirtyRecords(self.arena)

            def work(store: Store) -> None:
                store.append_batches(saving.batches(), len(saving), fresh=saving.fresh)
                for item in (rows, entries, *notes):
                    if item:
                        item(store)
                del self._notes[:late]

            self._saving = saving, self._saver.save(work)
            saving.copy(self._saving[1])
        finally:
            self.arena.add_overlay()

    @property
    def _is_unread(self) -> bool:
        """Whether the whole file is in memory, or will be once a search needs much of it."""
        return self.pager.complete or self.pager.has_room_for(self._file_nodes)

    def reserve_saves(self, most_nodes: int) -> None:
        """Reserves memory for saves, and `most_nodes` of waves."""
        self.pager.reserved = 0
        self._save_budget = budget = self.pager.budget
        if self._saver and self.store:
            nodes, largest = flush_nodes(budget, 0), flush_nodes(budget, MAX_SLOTS)
            # of a save under way, and new ones
            self.arena.reserve_log(3 * nodes, later=3 * (largest - nodes), spare=most_nodes)
            most, copies = budget // RESERVED_PARTS, COPY_BYTES * min(nodes, COPIES)
            blocks = max(LEAST_STEP_BLOCKS, (most - copies) // MERGED_BYTES)
            self._saver.most_blocks = min(self.store.catalog.sizes.step_blocks, blocks)
            self.pager.reserved = min(most, copies + MERGED_BYTES * self._saver.most_blocks)

    @property
    def most_unsaved(self) -> int:
        """The number of changed nodes at which a save is due."""
        return flush_nodes(self._save_budget, self.node_count)

    def note_later(self, note: Work) -> None:
        """Makes the next save call `note` in its transaction."""
        self._notes.append(note)

    def add_records(self, batch: RecordBatch) -> None:
        """Merges records into the file by the rule of `store merge`, in one transaction with pending notes.

        Raises:
          StoreError: if the file cannot be written; a later save may succeed.
        """
        if len(batch):
            self.note_later(lambda store: add_records(store, batch))
        self.begin_saving()
        self.settle(wait=True)

    def changed_records(self) -> RecordBatch:
        """Returns the records that were made or changed, of a graph in memory that logs them."""
        self.arena.subtract_overlay()
        saving = DirtyRecords(self.arena)
        batches = list(saving.copies())
        saving.end(saved=True)
        self.arena.add_overlay()
        return RecordBatch.concat(batches)

    def note_apart(self, board: chess.Board, moves: Iterable[chess.Move]) -> None:
        """Notes that moves of a position are searched apart; the next save writes it."""
        new = self.apart.add(board, moves)

        def write(store: Store) -> None:
            insert(store.connection, "searched_apart", ("key", "move"), new, otherwise="IGNORE")
            store.write_fact(UNSETTLED, "1")

        if self.store:
            self.note_later(write)

    def save_soon(self) -> bool:
        """Starts to save unsaved changes unless a save is running; never waits; returns whether all is saved.

        Raises:
          StoreError: if the last save or merge failed; nothing is lost, a later save may succeed.
        """
        if not self.settle(wait=False):
            return False
        if self._saver and self.has_unsaved:
            self.begin_saving()
            return False
        return True

    @property
    def has_unsaved(self) -> bool:
        """Whether there are unsaved changes, beside those of a running save."""
        return bool(self.arena.dirty_count or self._notes or self.entries.has_unsaved)

    def settle(self, *, wait: bool) -> bool:
        """Returns whether no save is running; with `wait` it waits. Raises StoreError as `save_soon` does."""
        if not self._settle_saving(wait=wait):
            return False
        if self._saver:
            self._saver.check()
        return True

    def _settle_saving(self, *, wait: bool) -> bool:
        """Does the same as `settle`, but does not raise errors of merging."""
        if self._saving is None:
            return True
        saving, outcome = self._saving
        if not (wait or outcome.done()):
            return False
        error = outcome.exception()  # waits for its end
        self._saving = None
        self.entries.end_save(saved=error is None)
        saving.end(saved=error is None)
        if error:
            raise error
        self.pager.file_changed()
        assert self.store
        self._file_nodes = self.store.node_count
        self.saved_nodes += len(saving)
        return True

    def flush(self, note: Work | None = None) -> int:
        """Saves all unsaved changes and calls `note`, in one transaction; returns the records saved.

        Raises:
          StoreMovedError: if the file is gone; everything is then saved in a new file, which the error names.
          StoreError: if the file cannot be written; nothing is lost, a later flush may succeed.
        """
        if self._saver is None:
            return 0
        before = self.saved_nodes
        try:
            try:
                self._save_all(note)
            finally:
                self._check_place()  # a file that went explains any other error
        except StoreMovedError as error:
            raise self._saved_elsewhere(error, note) from None
        return self.saved_nodes - before

    def leave_lost_file(self) -> None:
        """Reads no more from the file if another one was copied over it; the next save reports this."""
        with contextlib.suppress(StoreError):
            self._check_place()

    def _check_place(self) -> None:
        """Raises StoreMovedError if the file went; then nothing is read from an overwritten one any more."""
        place = self.store.place if self.store else None
        if place is None:
            return
        try:
            place.check()
        except StoreMovedError:
            self.pager.complete = self.pager.complete or place.overwritten
            raise

    def _save_all(self, note: Work | None) -> None:
        self.begin_saving(note, tables=True)
        self.settle(wait=True)

    def _saved_elsewhere(self, moved: StoreMovedError, note: Work | None) -> StoreMovedError:
        """Saves everything although the file is gone, and copies it; returns an error that names the copy."""
        store = self.store
        assert store
        assert store.place
        if store.place.overwritten:
            saved, copy = "what was in memory", copy_elsewhere(store.path, partial(self._write_anew, note))
        else:
            copies: list[Path] = []
            store.place.given_up = True
            self._save_all(note)
            connection = store.connection
            self.call(lambda _: copies.append(copy_elsewhere(store.path, partial(copy_database, connection))))
            saved, copy = "everything up to now", copies[0]
        return StoreMovedError(f"{moved}; {saved} is saved in {copy}; continue with that file")

    def _write_anew(self, note: Work | None, path: Path) -> None:
        """Writes the records in memory whose positions are known to a new file (`Arena.list_reached`)."""
        old = self.store
        assert old
        identity = old.identity if old.is_bound else None
        self.arena.subtract_overlay()
        try:
            rows, entries = self._tables.rows(), self.entries.take_unsaved()
            slots, words = self.arena.list_reached(self._tables.roots())
            with Store.open(path, identity=identity, create=True, unbound=identity is None) as new:
                for row in old.begun.values():
                    with new.writing() as connection:
                        write_row(connection, "run", row | {"evaluator": new.evaluator_number})
                for begin in range(0, len(slots), MAX_BATCH):
                    part = slice(begin, begin + MAX_BATCH)
                    batch = self.arena.copy_out(slots[part], words[part])
                    by_evaluator = batch.evaluator == self.evaluator_number
                    batch.evaluator[:] = np.where(by_evaluator, new.evaluator_number, 0)
                    is_unlisted = ~np.isin(batch.run, list(old.begun))  # by the new file
                    batch.run[is_unlisted] = 0
                    new.append(batch, fresh=len(batch))
                for item in (rows, entries, *self._notes, note):
                    if item:
                        with contextlib.suppress(StoreError), new.transaction():
                            item(new)
        finally:
            self.entries.end_save(saved=False)
            self.arena.add_overlay()

    def call(self, work: Work) -> None:
        """Runs `work` on the writer thread and waits for it; does nothing without a file."""
        if self._saver:
            self._saver.call(work)

    @property
    def log_held(self) -> int:
        """Bytes of the write-ahead log if a reader of an old state keeps it too long, else 0."""
        return self._saver.log_held if self._saver else 0

    # -------------------------------------------------------------- closing
    def check_open(self) -> None:
        """Raises StoreError if the graph was closed, or its file opened before a fork."""
        if self._closed:
            raise StoreError(CLOSED)
        if self._is_of_parent:
            raise StoreError(f"{self.path} was opened before a fork; open it again in this process")

    @property
    def _is_of_parent(self) -> bool:
        """Whether this process was forked from the one that has the file open and writes it."""
        return self.store is not None and os.getpid() != self._process

    def close(self) -> None:
        """Saves and closes the file. A second call does nothing, nor does one in a forked child.

        Raises:
          StoreError: if a search is running on it.
        """
        if self._closed or self._is_of_parent:
            return
        if not self.searching.acquire(blocking=False):
            raise StoreError("a search is running on this graph; stop it before closing")
        self._closed = True
        try:
            self._save_and_close()
        finally:
            self.searching.release()

    def _save_and_close(self) -> None:
        if self.store is None:
            self._release()
            return
        self.store.announce_end()
        try:
            self.settle(wait=True)
            if self.has_unsaved:
                self.flush()
            with contextlib.suppress(StoreError):  # everything is saved; tidying can wait
                seconds = LEAST_TIDY_SECONDS + (time.process_time() - self._opened) / TIDY_SHARE
                visits = int(self.arena.counters[VISITS])
                self.call(lambda store: _leave_tidy(store, seconds, visits))
        except BaseException:
            self._release()
            raise
        self._release()

    def _release(self) -> None:
        """Closes the file, and the evaluator if the graph owns it."""
        if self._is_of_parent:
            return
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

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        """Refuses `pickle` and `copy`: they would copy the whole reserved address space."""
        raise TypeError("a Graph cannot be pickled or copied; open its file with Graph.open instead")

    def __repr__(self) -> str:
        """Returns the file or `closed`, the number of positions and the evaluator."""
        place = "closed" if self._closed else self.path or "in memory"
        return f"<Graph {place}: {self.node_count:,} nodes, {self.evaluator.identity.describe()}>"

    def __enter__(self) -> Graph:
        self.check_open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None or not isinstance(error, StoreError):
            self.close()
        else:  # saving has failed already: report that error, not a second one
            self._release()


def _leave_tidy(store: Store, seconds: float, visits: int) -> None:
    """Brings values up to date if they must be, and tidies the file for some CPU seconds.

    `visits`, made since it was opened, decide alone whether it is too large for a refresh: results must not
    depend on the speed of the machine.
    """
    if store.read_fact(UNSETTLED) is not None:
        from .sweeps.refresh import refresh_if_due  # rare, and a hundredth of a second to import

        refresh_if_due(store, REFRESHED_NODES + visits // VISITS_PER_NODE)
    tidy(store, seconds=seconds)
