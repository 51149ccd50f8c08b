"""Saving: copies of dirty records, and the writer thread, which merges while there is nothing to save.

    search   | waves | copy          | waves ...                    | settle | waves
    writer           | encode, write | encode, COMMIT | merge step | merge step ...

The search copies the records itself, so that a save is one state of the graph. Few copies exist at once:
threads encode some while others are made, and the search waits if they are slower.

All writes to the file go through this module, so that the file has one writer. Transposition entries are
saved with the records, and the searched roots with the most visited positions, for SQLite tools that cannot
read records.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise

import chess
import numpy as np

from ..base.answer import Answer
from ..base.errors import StoreError
from ..evaluators.builtin.evaluator import BuiltinEvaluator
from ..position.board import after, fen_of, key_text
from ..store import entries
from ..store.entries import PLACE_BYTES, EntryTable, Places, depths
from ..store.file import LOG_BYTES, LONGEST_LOG_BYTES
from ..store.merging import Rules
from ..store.ranking import best_move, node_mean
from ..store.record import RecordBatch
from ..store.store import Store
from ..store.tables.history import PV_MOVES, RootValues
from ..store.tables.top import Shown, rows_of
from . import copying_kernel
from .arena import Arena
from .arena_kernel import FRESH_NODES
from .copying_kernel import BYTES_PER_NODE
from .view import Reader, lines_of

# ------------------------------------------------------------------ transposition entries
Write = Callable[[Store], None]
Call = Callable[[Write], None]  # runs a function on the file's thread, and waits for it


@dataclass(frozen=True, slots=True)
class EntryReport(Answer):
    """Report on the loading of a file's entries.

    Attributes:
      loaded: entries in memory. left_out: entries for which the table had no room; the deepest are in memory.
      ignored: entries of another evaluation; the next rewrite of the file's entries drops them.
      problems: damaged pieces, which are skipped, one line each.
    """

    loaded: int = 0
    left_out: int = 0
    ignored: int = 0
    problems: list[str] = field(default_factory=list)


class GraphEntries:
    """The entries in use by one graph: none, only those that prove mates, or all; for the searching thread.

    Attributes:
      table: all entries; None if they are not in use. report: on their loading.
      proofs: the entries whose mates searches use, all or only the proofs; None without any.
      evaluation: digest of the evaluator of the entries; empty if they are not in use.
      problems: damaged pieces, skipped, found when only the proofs were loaded.
    """

    def __init__(self, arena: Arena, call: Call | None) -> None:
        """Starts with no entries in use; `call` runs a function on the file's thread; None: no file."""
        self._arena = arena
        self._call = call
        self._uses_proofs = False
        self._saving: Places | None = None
        self.table: EntryTable | None = None
        self.proofs: EntryTable | None = None
        self.report = EntryReport()
        self.evaluation = ""
        self.problems: list[str] = []

    def use(self, table_bytes: int) -> EntryTable:
        """Returns the table of all entries; see `Graph.use_entries`."""
        if self.table is None:
            table, self.evaluation = EntryTable(table_bytes), BuiltinEvaluator().identity.digest
            if self._call:
                self._call(lambda store: self._load(store, table))
            self.table = self.proofs = table
            self._arena.set_entries(table.arrays)
        return self.table

    def _load(self, store: Store, table: EntryTable) -> None:
        """Inserts a file's entries of this evaluation into a table."""
        found = entries.load(store, self.evaluation)
        order = np.argsort(depths(found.data), kind="stable")  # if the table is full, the last ones stay
        table.enter(found.keys[order], found.data[order])
        self.report = EntryReport(table.count, len(order) - table.count, found.ignored, found.problems)

    def load_proofs(self) -> None:
        """Makes searches use the mates that the file's entries prove; raises StoreError."""
        if self._call and self.table is None and not self._uses_proofs:
            self._call(self._use_proofs)

    def _use_proofs(self, store: Store) -> None:
        self._uses_proofs = True
        found = entries.load(store)
        self.problems += found.problems
        if len(found.keys):
            table = EntryTable(2 * len(found.keys) * PLACE_BYTES)
            table.enter(found.keys, found.data)
            self.proofs = table
            self._arena.set_entries(table.arrays)

    # -------------------------------------------------------------- saving
    @property
    def has_unsaved(self) -> bool:
        """Whether there are entries that the file does not hold, including those of a running save."""
        return self._saving is not None or (self.table is not None and self.table.dirty_count > 0)

    def take_unsaved(self) -> Write | None:
        """Returns a function that writes the unsaved entries, if any; `end_save` must follow."""
        self.end_save(saved=False)
        if self.table is None or not self.table.dirty_count:
            return None
        self._saving, keys, data = self.table.take_dirty()
        return lambda store: entries.append(store, keys, data, self.evaluation)

    def end_save(self, *, saved: bool) -> None:
        """Ends the save of `take_unsaved`; if it failed, its entries count as unsaved again."""
        saving, self._saving = self._saving, None
        if self.table is not None and saving is not None and not saved:
            self.table.touch_again(saving)


# ------------------------------------------------------------------ records
Work = Callable[[Store], object]

CLOSED = "the graph is closed; open it again to continue"

FLUSH_NODES, FLUSH_SHARE = 1 << 19, 4  # dirty nodes that are saved at once, or 1 / FLUSH_SHARE of all nodes,
MOST_FLUSH_NODES = 1 << 21  # but no more
FLUSH_PARTS = 8  # 1 / FLUSH_PARTS of the nodes that the budget has room for, if these are fewer
LEAST_STEP_BLOCKS = 256  # 25 ms of a free core; steps of 64 blocks take four times as long per record
COPIED_AT_ONCE, MADE_AHEAD = 8192, 3  # records of a batch, some 1.3 MB; batches that wait for a thread
MERGING_LOG_BYTES = 256 << 20  # merging pauses while a reader of an old state keeps a longer log


def flush_nodes(budget: int, nodes: int) -> int:
    """Returns the number of dirty nodes at which a save is due, for a budget in bytes and a graph of `nodes`.

    More is better, since a node that changes several times between two saves is written once. But each takes
    some 60 bytes for log and order, which nodes read from the file then lack, and all of them take a pause.

    >>> flush_nodes(64_000_000, 0), flush_nodes(512_000_000, 0), flush_nodes(20_000_000_000, 0)
    (57142, 457142, 524288)
    >>> flush_nodes(20_000_000_000, 4_000_000), flush_nodes(20_000_000_000, 10**9)
    (1000000, 2097152)
    """
    wanted = min(MOST_FLUSH_NODES, max(FLUSH_NODES, nodes // FLUSH_SHARE))
    return max(1, min(wanted, budget // (BYTES_PER_NODE * FLUSH_PARTS)))


class DirtyRecords:
    """The dirty records of an arena while they are saved; `end` must follow.

    Attributes:
      fresh: number of records of which the file has no version yet.
    """

    def __init__(self, arena: Arena) -> None:
        """Begins with no copies; `copies` makes them."""
        self._arena, self._count = arena, arena.dirty_count
        self.fresh = int(arena.counters[FRESH_NODES])
        self._made: queue.SimpleQueue[RecordBatch | None] = queue.SimpleQueue()  # None: no more
        self._room = threading.Semaphore(MADE_AHEAD)
        arena.saving = self._count

    def __len__(self) -> int:
        return self._count

    def copies(self) -> Iterator[RecordBatch]:
        """Yields copies of the records, and marks these as clean; each batch sorts after all earlier ones."""
        arena, count, ends = self._arena, self._count, [0]
        keys = np.empty(count, np.uint64)
        copying_kernel.begin_save(arena.tables, arena.arrays, keys)
        order = np.argsort(keys)
        while ends[-1] < count:
            end = min(ends[-1] + COPIED_AT_ONCE, count)
            while end < count and keys[order[end]] == keys[order[end - 1]]:
                end += 1
            ends.append(end)
        del keys  # half of the memory, while the copies need some
        for begin, end in pairwise(ends):
            yield arena.copy_out(*arena.list_log(order[begin:end]))

    def copy(self, outcome: Future[None]) -> None:
        """Makes all copies for `batches`, unless the save ends before; meanwhile nothing may change."""
        outcome.add_done_callback(lambda _: self._room.release(1 + self._count))
        try:
            for batch in self.copies():
                self._room.acquire()
                if outcome.done():
                    return
                self._made.put(batch)
        finally:
            self._made.put(None)

    def batches(self) -> Iterator[RecordBatch]:
        """Yields the copies while `copy` makes them in another thread.

        Raises:
          StoreError: if `copy` was interrupted.
        """
        copied = 0
        while copied < self._count:
            batch = self._made.get()
            if batch is None:
                raise StoreError("the save was broken off")
            self._room.release()
            copied += len(batch)
            yield batch

    def end(self, *, saved: bool) -> None:
        """Notes whether the file has these versions of the records; if not, they are dirty again."""
        copying_kernel.end_save(self._arena.arrays, len(self), saved)
        self._arena.saving = 0


class Saver:
    """The writer thread of a store. One other thread may call its methods.

    Attributes:
      unread: whether the graph has the whole file in memory, or soon will (`Rules.unread`).
      most_blocks: of a merge step.
    """

    def __init__(self, store: Store, *, unread: bool = False) -> None:
        self.unread = unread
        self.most_blocks = store.catalog.sizes.step_blocks
        self._store = store
        self._jobs: queue.SimpleQueue[tuple[Work, Future[None]] | None] = queue.SimpleQueue()
        self._error: Exception | None = None  # of merging
        self._merging = threading.Event()  # set by a save: without saves there is no merging
        self._log_bytes, self._log_held = 0, False
        self._thread = threading.Thread(target=self._loop, name="graphsearch-writer", daemon=True)
        self._thread.start()

    # ---------------------------------------------------------- for the search
    @property
    def log_held(self) -> int:
        """Bytes of the write-ahead log if a reader of an old state keeps it too long, else 0."""
        return self._log_bytes if self._log_held and self._log_bytes > LONGEST_LOG_BYTES else 0

    def save(self, work: Work) -> Future[None]:
        """Starts `work` in a transaction on the writer thread; returns its outcome."""

        def in_transaction(store: Store) -> None:
            with store.transaction():
                work(store)
            self._merging.set()

        return self._give(in_transaction)

    def _give(self, work: Work) -> Future[None]:
        outcome: Future[None] = Future()
        self._jobs.put((work, outcome))
        return outcome

    def check_open(self) -> None:
        """Raises StoreError if the thread was closed: its caller would wait forever."""
        if not self._thread.is_alive():
            raise StoreError(CLOSED)

    def check(self) -> None:
        """Raises the error that stopped merging, usually a StoreError, once; merging may then continue."""
        error, self._error = self._error, None
        if error:
            self._merging.set()
            raise error

    def call(self, work: Work) -> None:
        """Runs `work` on the writer thread and waits for it; `work` opens a transaction if it needs one."""
        self.check_open()
        self._give(work).result()

    def close(self) -> None:
        """Ends the thread after its current step; the next session continues the merges."""
        if self._thread.is_alive():
            self._jobs.put(None)
            self._thread.join()

    # ---------------------------------------------------------- the thread
    def _loop(self) -> None:
        while True:
            is_held = self._log_held and self._log_bytes > MERGING_LOG_BYTES
            try:
                job = self._jobs.get(block=is_held or not self._merging.is_set())
            except queue.Empty:
                self._merge()
                continue
            if job is None:
                return
            work, outcome = job
            failure: BaseException | None = None
            try:
                work(self._store)
            except BaseException as error:  # the waiting thread raises it again
                failure = error
            self._checkpoint()
            if failure:
                outcome.set_exception(failure)
            else:
                outcome.set_result(None)

    def _merge(self) -> None:
        """Does one merge step; if it is the last or fails, merging waits for the next save or `check`."""
        try:
            if not self._store.merge_step(Rules(unread=self.unread, lazy=True, blocks=self.most_blocks)):
                self._merging.clear()
        except Exception as error:  # the thread must survive: other threads wait for its jobs
            self._error = error
            self._merging.clear()
        self._checkpoint()

    def _checkpoint(self) -> None:
        try:
            self._log_bytes, self._log_held = self._store.checkpoint(over=LOG_BYTES)
        except Exception as error:
            self._error = error


# ------------------------------------------------------------------ plain tables
TABLES_SECONDS = 10.0  # between two updates during a search
TABLE_ROOTS = 4  # last roots for which the tables are written: hundredths of a second each
TOP_NODES = 100  # positions kept
TOP_SHARE = 200  # a move is followed if its N is at least the root's N divided by this


class RootTables:
    """The rows of one graph: the searched roots, and the most visited positions below them."""

    def __init__(self) -> None:
        self._roots: dict[str, chess.Board] = {}
        self._written_at = 0.0

    def note_root(self, board: chess.Board) -> None:
        """Notes a searched position, which the file will list by the given FEN."""
        key = key_text(board)
        self._roots.pop(key, None)
        self._roots[key] = board.copy(stack=False)

    def roots(self) -> list[chess.Board]:
        """Returns the searched positions."""
        return list(self._roots.values())

    @property
    def is_due(self) -> bool:
        """Whether the last rows are older than TABLES_SECONDS."""
        return time.monotonic() - self._written_at > TABLES_SECONDS

    def rows(self) -> Callable[[Store], None]:
        """Returns a function that writes the rows of what the file has then."""
        self._written_at = time.monotonic()
        boards = self.roots()

        def write(store: Store) -> None:
            for board, record in zip(boards, store.read_all(boards), strict=True):
                if record:
                    store.record_root(key_text(board), fen_of(board), record.visits)
            for board in boards[-TABLE_ROOTS:]:
                store.write_top(top_rows(store, board))

        return write


def root_values(read: Reader, root: chess.Board) -> RootValues | None:
    """Returns the present values of a root, None if its record is missing."""
    record = read(root)
    if record is None:
        return None
    best = best_move(record, root)
    line = lines_of(partial(map, read), root, [best], plies=PV_MOVES)[0] if best else ()
    q, draw = node_mean(record)
    return RootValues(
        key=key_text(root),
        n=record.visits,
        q=q,
        draw=draw,
        best_move=best.uci() if best else None,
        pv=" ".join(move.uci() for move in line) if best else None,
    )


def top_rows(store: Store, root: chess.Board) -> list[Shown]:
    """Returns the most visited positions below a root, as `top_position` and `top_edge` have them."""
    found: dict[str, Shown] = {}
    least = 0
    queue: list[tuple[chess.Board, str]] = [(root, "")]
    while queue and (room := TOP_NODES - len(found)) > 0:
        some, queue = queue[:room], queue[room:]
        boards = [after(board, chess.Move.from_uci(move)) if move else board for board, move in some]
        for board, record in zip(boards, store.read_all(boards), strict=True):
            key = key_text(board)
            if record is None or key in found:
                continue
            least = least or max(2, record.visits // TOP_SHARE)
            shown = found[key] = rows_of(fen_of(board), record)
            queue.extend((board, move) for move, row in shown.moves.items() if row["n"] >= least)
    return list(found.values())
