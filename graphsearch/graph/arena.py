"""The arena: every live node and edge of a graph, in a few large arrays that kernels fill.

Memory is counted in used words, including the table and free space. The arrays reserve address space once,
and the system maps pages as they are written; only the hash table is reallocated as it grows.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Sequence

import chess
import numpy as np
from numpy.typing import NDArray

from ..base.errors import CapacityError, InvalidParameterError
from ..base.limits import byte_count
from ..base.system import memory_bytes, release_pages, reserved
from ..position.board import CLOCK_BITS, CLOCK_SHIFT, META, POSITION_WORDS, WITHOUT_CLOCK, pack
from ..position.board_kernel import MAX_LEGAL_MOVES
from ..position.tables import load_tables
from ..store.record import NodeRecord, RecordBatch
from ..store.record_kernel import CAPACITIES, CAPACITY, CLOCK_BYTE, WIDE
from ..store.transposition_kernel import EntryArrays
from . import arena_kernel, copying_kernel

# ------------------------------------------------------------------ memory
RAM_SHARE = 0.8  # of the memory there is; a graph that needs more is saved, and its search stops
ADDRESSES_LEFT = 4  # 1 / ADDRESSES_LEFT of scarce address space is taken; kernels and libraries need the rest


def default_budget() -> int:
    """Returns the default memory of a graph, in bytes."""
    return int(RAM_SHARE * memory_bytes())


def budget_of(ram_bytes: int | str | None) -> int | None:
    """Returns the memory of a graph in bytes, from a number or a text such as `1GB`; None: the default.

    Raises:
      InvalidParameterError: if it is neither, or not above 0.
    """
    given = byte_count(ram_bytes) if isinstance(ram_bytes, str) else ram_bytes
    if given is not None and (type(given) is not int or given <= 0):
        raise InvalidParameterError(f"ram_bytes must be a number of bytes above 0, not {ram_bytes!r}")
    return given


def reserve(words: int) -> mmap.mmap:
    """Returns zeroed bytes for `words` 64-bit words whose pages are taken only when written to.

    Under a limit of address space (`ulimit -v`) it returns fewer, and leaves some free for libraries.

    Raises:
      CapacityError: if there is no address space for eight megabytes.
    """
    wanted = words
    while True:
        try:
            memory = reserved(8 * words)
        except (OSError, ValueError):
            if words < 1 << 20:
                raise CapacityError("no address space for the graph; allow more (see `ulimit -v`)") from None
            words //= 2
            continue
        if words < wanted:
            memory.close()
            memory = reserved(8 * (words // ADDRESSES_LEFT))
        return memory


# ------------------------------------------------------------------ the arena
Words = NDArray[np.uint64]

MIN_TABLE = 1 << 16
TABLE_GROWTH = 1.35  # the table then takes 9.4 to 12.7 bytes a node
REHASHED = 1 << 18  # places of a growing table between two returns of its pages
MAX_SLOTS = 1 << 32  # slots and block addresses have 32 bits: 32 GiB of records, 16 GiB of blocks
SPARE_SLOTS = 1 << 21  # one wave may exceed the budget
LOG_STEP = 1 << 13  # words that a growing log gets beyond the need, at most
LOG_ROWS = 1 << 13  # dirty records before the log grows


class Arena:
    """Nodes and edges in memory. One writer; not for use from several threads at once.

    Attributes:
      before_subtracting: called before the overlay is subtracted, to add its last visits; None: no call.
      saving: rows at the beginning of the log whose records are being saved.
      most_notes: in the overlay, of the visits under way.
    """

    def __init__(self, max_bytes: int | None = None, *, logged: bool = True) -> None:
        """Makes an empty arena.

        Args:
          max_bytes: most bytes that nodes may take; default: `default_budget`.
          logged: keep a log of dirty records, to save them; without it no record is ever dirty.
        """
        self.max_bytes = max_bytes or default_budget()
        self.tables = load_tables()
        self._later_rows = self._spare_rows = self.saving = self.most_notes = 0
        self.before_subtracting: Callable[[], None] | None = None
        self._single = RecordBatch.room(1, MAX_LEGAL_MOVES, MAX_LEGAL_MOVES)  # of `read`
        slots = min(MAX_SLOTS, self.max_bytes // 8 + SPARE_SLOTS)
        self._memory = (reserve(slots), reserve(slots))
        self._table_memory: mmap.mmap | None = None  # of all tables but the first
        self.arrays = arena_kernel.new_arrays(
            MIN_TABLE,
            np.frombuffer(self._memory[0], np.uint64),
            np.frombuffer(self._memory[1], np.uint32)[: min(MAX_SLOTS, 2 * slots)],
            LOG_ROWS * arena_kernel.LOG_WORDS if logged else 0,
        )
        counters = self.arrays.counters
        counters[arena_kernel.RECORD_WORDS] = 1  # slot 0 means none
        counters[arena_kernel.BLOCK_WORDS] = 1
        self.arrays.floats[arena_kernel.POWERS : arena_kernel.POWERS + 64] = np.arange(64.0) ** 4
        capacities = [*CAPACITIES, CAPACITIES[-1]]
        self.arrays.ints[CAPACITY : CAPACITY + 2 * WIDE] = 2 * capacities  # wide classes hold as many

    # -------------------------------------------------------------- figures
    @property
    def counters(self) -> NDArray[np.int64]:
        """The kernels' counters, by the indices of `arena_kernel`."""
        return self.arrays.counters

    @property
    def node_count(self) -> int:
        """Nodes in memory."""
        return int(self.counters[arena_kernel.NODES])

    @property
    def dirty_count(self) -> int:
        """Nodes of which neither the file nor the save under way has the present version."""
        return int(self.counters[arena_kernel.DIRTY_NODES]) - self.saving

    @property
    def bytes_used(self) -> int:
        """Bytes of table, records and blocks, including their free space."""
        c = self.counters
        words = 2 * c[arena_kernel.RECORD_WORDS] + c[arena_kernel.BLOCK_WORDS]  # of 4 bytes
        return self.arrays.table.nbytes + 4 * int(words)

    # -------------------------------------------------------------- settings
    def set_entries(self, entries: EntryArrays) -> None:
        """Sets the transposition entries from which searches take proven mates."""
        self.arrays = self.arrays.replace(entries=entries)

    def set_history(self, keys: Words) -> None:
        """Sets the Polyglot keys of the positions that stood twice in the game before the root."""
        self.arrays = self.arrays.replace(history=np.array(keys, np.uint64))

    # -------------------------------------------------------------- room
    @property
    def free_bytes(self) -> int:
        """Free bytes inside the two heaps, left by evicted records and blocks."""
        c = self.counters
        return int(8 * c[arena_kernel.FREED_RECORD_WORDS] + 4 * c[arena_kernel.FREED_WORDS])

    @property
    def log_bytes(self) -> int:
        """Bytes of the log of dirty records: rows that are reserved or in use, but no spare ones."""
        rows = len(self.arrays.log) // arena_kernel.LOG_WORDS - self._spare_rows
        used = min(rows, int(self.counters[arena_kernel.DIRTY_NODES]))
        return 8 * arena_kernel.LOG_WORDS * max(rows - self._later_rows, used)

    @property
    def room_in_table(self) -> int:
        """The number of nodes at which the table must grow."""
        return int(0.85 * (len(self.arrays.table) - 64))

    def make_room(self, nodes: int) -> None:
        """Grows table, log and overlay until `nodes` more nodes fit, even beyond the arena's byte limit."""
        self._grow_table(nodes)
        self.fold_overlay()
        self.reserve_overlay(self.most_notes)
        self.grow_log(nodes)

    def expect(self, nodes: int) -> None:
        """Grows the table for `nodes` nodes in total in one step, if they fit within the byte limit."""
        more = nodes - self.node_count
        if more > 0 and self.fits(more):
            self._grow_table(more)

    def fits(self, nodes: int) -> bool:
        """Returns whether the arena, with a table for `nodes` more nodes, stays within its byte limit."""
        growth = 8 * max(0, self._table_for(nodes) - len(self.arrays.table))
        return self.bytes_used + growth <= self.max_bytes

    def evict(self, free_bytes: int, nodes: int, pinned: Sequence[Words] = ()) -> bool:
        """Evicts clean records until `free_bytes` are free and at most `nodes` are left; returns whether.

        Args:
          free_bytes: divided between records and blocks in proportion to their sizes.
          pinned: slots of records that stay, those of waves under way; 0 is none.
        """
        if self.has_overlay:
            arena_kernel.hold(self.arrays, True)
        for slots in pinned:
            arena_kernel.pin(self.arrays, slots, True)
        try:
            return bool(arena_kernel.evict(self.arrays, free_bytes, nodes))
        finally:
            for slots in pinned:
                arena_kernel.pin(self.arrays, slots, False)

    def shrink(self, max_bytes: int) -> None:
        """Evicts clean records at the ends of both heaps and returns the pages to the system.

        Records that cannot be evicted may keep the arena above `max_bytes`.
        """
        c, heaps = self.counters, [arena_kernel.RECORD_WORDS, arena_kernel.BLOCK_WORDS]
        now = 8 * int(c[heaps[0]]) + 4 * int(c[heaps[1]])
        share = max(0.0, 1 + (max_bytes - self.bytes_used) / now)
        arena_kernel.cut(self.arrays, *(c[heaps] * share).astype(int).tolist())
        for memory, words, size in zip(self._memory, c[heaps].tolist(), (8, 4), strict=True):
            release_pages(memory, size * words)

    def reset(self) -> bool:
        """Returns all pages of both heaps to the system if no node is left; returns whether it did."""
        if self.node_count:
            return False
        c = self.counters
        c[arena_kernel.RECORD_WORDS] = c[arena_kernel.BLOCK_WORDS] = 1
        c[[arena_kernel.HAND, arena_kernel.FREED_WORDS, arena_kernel.FREED_RECORD_WORDS]] = 0
        c[arena_kernel.BLOCK_LISTS :] = 0
        for memory in self._memory:
            release_pages(memory)
        return True

    def reserve_log(self, rows: int, *, later: int = 0, spare: int = 0) -> None:
        """Gives the log room for `rows` dirty records, and for more that take no memory yet.

        Args:
          later: rows that count once they are in use. spare: rows of waves, which never count.
        """
        self._later_rows = self._spare_rows = 0
        self.grow_log(max(0, rows + later + spare - int(self.counters[arena_kernel.DIRTY_NODES])))
        self._later_rows, self._spare_rows = later, spare

    def grow_log(self, nodes: int) -> None:
        """Gives the log room for `nodes` more dirty records."""
        log, used = self.arrays.log, int(self.counters[arena_kernel.DIRTY_NODES]) * arena_kernel.LOG_WORDS
        wanted = used + nodes * arena_kernel.LOG_WORDS
        if 0 < len(log) < wanted:
            longer = np.empty(wanted + min(used, LOG_STEP), np.uint64)
            longer[:used] = log[:used]
            self.arrays = self.arrays.replace(log=longer)

    def _table_for(self, nodes: int) -> int:
        wanted = int((self.node_count + nodes) / 0.85) + 64
        size = len(self.arrays.table)
        return size if wanted <= size else max(wanted, int(TABLE_GROWTH * size))

    def _grow_table(self, nodes: int) -> None:
        size = self._table_for(nodes)
        old, memory = self.arrays.table, self._table_memory
        if size > len(old):
            try:
                self._table_memory = reserved(8 * size)
            except (OSError, ValueError):
                raise CapacityError(f"no memory for the table of {self.node_count + nodes} nodes") from None
            self.arrays = self.arrays.replace(table=np.frombuffer(self._table_memory, np.uint64))
            for begin in reversed(range(0, len(old), REHASHED)):  # the new one fills as the old one goes
                arena_kernel.rehash(self.arrays, old[begin : begin + REHASHED])
                if memory:
                    release_pages(memory, 8 * begin)

    def fold_overlay(self) -> None:
        """Sums the notes of each item in an overlay that is half full or more, and grows it if needed."""
        length = int(self.counters[arena_kernel.OVERLAY_LENGTH])
        overlay = self.arrays.overlay
        if 4 * length < len(overlay):
            return
        folded, self.counters[arena_kernel.OVERLAY_LENGTH] = arena_kernel.folded(overlay, length)
        self.arrays = self.arrays.replace(overlay=folded)

    def reserve_overlay(self, notes: int) -> None:
        """Makes room for `notes` more notes in the overlay."""
        wanted = 2 * (int(self.counters[arena_kernel.OVERLAY_LENGTH]) + notes)
        if wanted > len(self.arrays.overlay):
            longer = np.zeros(2 * wanted, np.int64)
            longer[: len(self.arrays.overlay)] = self.arrays.overlay
            self.arrays = self.arrays.replace(overlay=longer)

    # -------------------------------------------------------------- overlay
    @property
    def has_overlay(self) -> bool:
        """Whether there are visits that are never saved: draws by this game's history, or forced visits."""
        return bool(self.counters[arena_kernel.OVERLAY_LENGTH])

    def subtract_overlay(self) -> None:
        """Subtracts the overlay's visits from the records, so that these can be saved."""
        if self.before_subtracting:
            self.before_subtracting()
        if self.has_overlay:
            arena_kernel.shift_overlay(self.arrays, -1)

    def add_overlay(self) -> None:
        """Adds the overlay's visits to the records again, to continue the search."""
        if self.has_overlay:
            arena_kernel.shift_overlay(self.arrays, 1)

    def forget_overlay(self) -> None:
        """Clears the overlay at the end of its session; its visits must have been subtracted."""
        if self.has_overlay:
            arena_kernel.hold(self.arrays, False)
        self.counters[arena_kernel.OVERLAY_LENGTH] = 0

    # -------------------------------------------------------------- records
    def slot(self, board: chess.Board) -> int:
        """Returns the slot of a position's record, 0 if it is not in memory."""
        return int(arena_kernel.find_position(self.tables, self.arrays, pack(board)))

    def read(self, board: chess.Board) -> NodeRecord | None:
        """Returns a copy of a position's record, or None."""
        words = pack(board)
        slot = int(arena_kernel.find_position(self.tables, self.arrays, words))
        if not slot:
            return None
        clock = int(self.arrays.records[slot + 2]) >> 8 * CLOCK_BYTE & CLOCK_BITS  # at its evaluation
        words[META] = int(words[META]) & WITHOUT_CLOCK | clock << CLOCK_SHIFT
        single, slots = self._single, np.array([slot], np.uint32)
        single.packed[:] = words
        copying_kernel.measure(self.arrays, slots, single.code_offsets, single.edge_offsets)
        copying_kernel.copy_out(self.arrays, slots, single)
        return single.record(0)

    def copy_out(self, slots: NDArray[np.uint32], words: Words) -> RecordBatch:
        """Returns copies of the records at `slots`; `words`, `[R, 10]`, are their positions."""
        count = len(slots)
        code_offsets, edge_offsets = np.zeros(count + 1, np.int64), np.zeros(count + 1, np.int64)
        copying_kernel.measure(self.arrays, slots, code_offsets, edge_offsets)
        room = RecordBatch.room(count, int(code_offsets[-1]), int(edge_offsets[-1]))
        batch = room.replace(packed=words, code_offsets=code_offsets, edge_offsets=edge_offsets)
        copying_kernel.copy_out(self.arrays, slots, batch)
        return batch

    def list_log(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.uint32], Words]:
        """Returns the slots and the positions, `[R, 10]`, of the records in some rows of the log."""
        slots, words = np.empty(len(rows), np.uint32), np.empty((len(rows), POSITION_WORDS), np.uint64)
        copying_kernel.list_log(self.tables, self.arrays, rows, slots, words.reshape(-1))
        return slots, words

    def list_reached(self, roots: Sequence[chess.Board]) -> tuple[NDArray[np.uint32], Words]:
        """Returns the slots and the positions, `[R, 10]`, of all records whose positions can be known.

        A record does not contain its position. Moves with visits reach these from some roots, or from unsaved
        records.
        """
        _, unsaved = self.list_log(np.arange(self.counters[arena_kernel.DIRTY_NODES]))
        seeds = np.concatenate([*(pack(board) for board in roots), unsaved.ravel()])
        slots = np.empty(self.node_count, np.uint32)
        words = np.empty((self.node_count + 1, POSITION_WORDS), np.uint64)
        count = copying_kernel.list_reached(self.tables, self.arrays, seeds, slots, words.reshape(-1))
        return slots[:count], words[:count]

    def load(self, batch: RecordBatch) -> int:
        """Inserts records from the file; returns the number of misfits, which are skipped (`copy_in`).

        Raises:
          CapacityError: if there is no more memory.
        """
        begin, misfits = 0, 0
        while begin < len(batch):
            self.make_room(len(batch) - begin)
            reached, bad = copying_kernel.copy_in(self.tables, self.arrays, batch, begin)
            if reached == begin:
                raise CapacityError(f"cannot get more memory for the graph of {self.node_count} nodes")
            begin, misfits = reached, misfits + bad
        return misfits
