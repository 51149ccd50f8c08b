"""The arena: every live node and edge of a graph, in a few large arrays that kernels fill.

Memory is counted in used words, including the table, slack and free lists. The arrays reserve address space
once, and the system maps pages as they are written; only the hash table is reallocated as it grows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import chess
import numpy as np
from numpy.typing import NDArray

from ..base.errors import CapacityError
from ..jit.apart import apart
from ..position.board import POSITION_WORDS, pack
from ..position.tables import load_tables
from ..position.words import CLOCK_BITS, CLOCK_SHIFT, META, WITHOUT_CLOCK
from ..store.codec.bulk import columns_of, segment_order
from ..store.codec.layout import BLOCK
from ..store.ordered_work import shared_out, thread_count
from ..store.record import transposition_kernel
from ..store.record.node import NodeRecord, RecordBatch
from ..store.record.node_layout import CAPACITIES, CAPACITY, CLOCK_BYTE, WIDE
from ..store.sizes import SIZES
from . import arena_kernel, evict_kernel, heap_kernel, overlay_kernel, transfer_kernel
from .memory import default_budget, give_back, reserve
from .single_copies import SingleCopies

Words = NDArray[np.uint64]

MIN_TABLE = 1 << 16
TABLE_GROWTH = 1.35  # the table then takes 9.4 to 12.7 bytes a node
MAX_SLOTS = 1 << 32  # slots and block addresses have 32 bits: 32 GiB of records, 16 GiB of blocks
SPARE_SLOTS = 1 << 21  # one wave may exceed the budget
EXPORT_CHUNK = SIZES.chunk_blocks * BLOCK
NO_ENTRIES = transposition_kernel.new_entries(int(transposition_kernel.BUCKET))
LOG_STEP = 1 << 13  # words that a growing log gets beyond the need, at most
LOG_ROWS = 1 << 13  # dirty records before the log grows


@dataclass(frozen=True, slots=True)
class Saving:
    """Records that are being saved.

    Attributes:
      batches: copies of the records, in segment order.
      fresh: number of records of which the file has no version yet.
      slots: `[R]` slot | fresh << 32. words: `[R, 10]` positions, in the order of the batches.
    """

    batches: list[RecordBatch]
    fresh: int
    slots: Words
    words: Words

    def __len__(self) -> int:
        return len(self.slots)


class Arena:
    """Nodes and edges in memory. One writer; not for use from several threads at once.

    Attributes:
      before_subtracting: called before the overlay is subtracted, to add its last visits; None: no call.
    """

    def __init__(self, max_bytes: int | None = None, *, logged: bool = True) -> None:
        """Makes an empty arena.

        Args:
          max_bytes: most bytes that nodes may take; default: a large share of the machine's memory.
          logged: keep a log of dirty records, to save them; without it no record is ever dirty.
        """
        self.max_bytes = max_bytes or default_budget()
        self.tables = load_tables()
        self._spare_rows = 0
        self.before_subtracting: Callable[[], None] | None = None
        self._copies: SingleCopies | None = None
        slots = min(MAX_SLOTS, self.max_bytes // 8 + SPARE_SLOTS)
        self._memory = (reserve(slots), reserve(slots))
        self.arrays = arena_kernel.ArenaArrays(
            table=np.zeros(MIN_TABLE, np.uint64),
            records=np.frombuffer(self._memory[0], np.uint64),
            blocks=np.frombuffer(self._memory[1], np.uint32)[: min(MAX_SLOTS, 2 * slots)],
            counters=apart(arena_kernel.COUNTERS, np.int64),
            floats=np.zeros(arena_kernel.FLOATS, np.float64),
            ints=np.zeros(arena_kernel.INTS, np.int64),
            moves=np.zeros(256, np.uint16),
            overlay=np.zeros(1 << 16, np.int64),
            history=np.zeros(0, np.uint64),
            log=np.zeros(LOG_ROWS * arena_kernel.LOG_WORDS if logged else 0, np.uint64),
            entries=NO_ENTRIES,
        )
        counters = self.arrays.counters
        counters[arena_kernel.RECORD_WORDS] = 1  # slot 0 means none
        counters[arena_kernel.BLOCK_WORDS] = 1
        powers = slice(arena_kernel.POWERS, arena_kernel.POWERS + 64)
        self.arrays.floats[powers] = np.arange(64.0) ** 4
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
        """Nodes of which the file does not have the present version."""
        return int(self.counters[arena_kernel.DIRTY_NODES])

    @property
    def fresh_count(self) -> int:
        """Nodes of which the file has no version."""
        return int(self.counters[arena_kernel.FRESH_NODES])

    @property
    def bytes_used(self) -> int:
        """Bytes of table, records and blocks, including their free space."""
        c = self.counters
        words = 2 * c[arena_kernel.RECORD_WORDS] + c[arena_kernel.BLOCK_WORDS]  # of 4 bytes
        return self.arrays.table.nbytes + 4 * int(words)

    # -------------------------------------------------------------- settings
    def set_entries(self, arrays: transposition_kernel.EntryArrays | None) -> None:
        """Sets the transposition entries from which searches take proven mates; None: none."""
        self.arrays = self.arrays._replace(entries=NO_ENTRIES if arrays is None else arrays)

    def set_run(self, run: int) -> None:
        """Sets the run number for new records."""
        self.arrays.ints[arena_kernel.SESSION] = run

    def set_history(self, keys: Words) -> None:
        """Sets the Polyglot keys of the positions that stood twice in the game before the root."""
        self.arrays = self.arrays._replace(history=np.array(keys, np.uint64))

    # -------------------------------------------------------------- room
    @property
    def free_bytes(self) -> int:
        """Free bytes inside the two heaps, left by evicted records and blocks."""
        c = self.counters
        return int(8 * c[arena_kernel.FREED_RECORD_WORDS] + 4 * c[arena_kernel.FREED_WORDS])

    @property
    def log_bytes(self) -> int:
        """Bytes of the log of dirty records, without its spare rows (`reserve_log`)."""
        return 8 * (len(self.arrays.log) - arena_kernel.LOG_WORDS * self._spare_rows)

    @property
    def room_in_table(self) -> int:
        """The number of nodes at which the table must grow."""
        return int(0.85 * (len(self.arrays.table) - 64))

    def make_room(self, nodes: int, *, strict: bool = True) -> None:
        """Grows table, log and overlay until `nodes` more nodes fit.

        Raises:
          CapacityError: if `strict` and the nodes exceed the arena's byte limit.
        """
        if strict and not self.fits(nodes):
            raise self.full()
        self._grow_table(nodes)
        self.fold_overlay()
        self._grow_log(nodes)

    def expect(self, nodes: int) -> None:
        """Grows the table for `nodes` more nodes in one step, if they fit within the byte limit."""
        if nodes > 0 and self.fits(nodes):
            self._grow_table(nodes)

    def full(self) -> CapacityError:
        """Returns the error for a reached byte limit."""
        return CapacityError(
            f"the graph fills its memory: {self.max_bytes >> 20} MiB with {self.node_count} nodes"
        )

    def fits(self, nodes: int) -> bool:
        """Returns whether the arena, with a table for `nodes` more nodes, stays within its byte limit."""
        growth = 8 * max(0, self._table_for(nodes) - len(self.arrays.table))
        return self.bytes_used + growth <= self.max_bytes

    def evict(self, free_bytes: int, nodes: int, pinned: Sequence[Words] = ()) -> bool:
        """Evicts clean records until `free_bytes` are free and at most `nodes` nodes are left.

        Args:
          free_bytes: divided between records and blocks in proportion to their sizes.
          pinned: slots of records that stay, those of waves under way; 0 is none.

        Returns:
          whether both goals were reached.
        """
        with self._pinned(pinned):
            return bool(evict_kernel.evict(self.arrays, free_bytes, nodes))

    @contextmanager
    def _pinned(self, pinned: Sequence[Words]) -> Iterator[None]:
        """Protects some records, and those of the overlay, from eviction."""
        if self.has_overlay:
            evict_kernel.hold(self.arrays, True)
        for slots in pinned:
            evict_kernel.pin(self.arrays, slots, True)
        try:
            yield
        finally:
            for slots in pinned:
                evict_kernel.pin(self.arrays, slots, False)

    def shrink(self, max_bytes: int) -> None:
        """Evicts clean records at the ends of both heaps and returns the pages to the system.

        Records that cannot be evicted may keep the arena above `max_bytes`.
        """
        c, heaps = self.counters, [arena_kernel.RECORD_WORDS, arena_kernel.BLOCK_WORDS]
        now = 8 * int(c[heaps[0]]) + 4 * int(c[heaps[1]])
        share = max(0.0, 1 + (max_bytes - self.bytes_used) / now)
        evict_kernel.cut(self.arrays, *(c[heaps] * share).astype(int).tolist())
        for memory, words, size in zip(self._memory, c[heaps].tolist(), (8, 4), strict=True):
            give_back(memory, size * words)

    def reset(self) -> bool:
        """Returns all pages of both heaps to the system if no node is left; returns whether it did."""
        if self.node_count:
            return False
        c = self.counters
        c[arena_kernel.RECORD_WORDS] = c[arena_kernel.BLOCK_WORDS] = 1
        c[[arena_kernel.HAND, arena_kernel.FREED_WORDS, arena_kernel.FREED_RECORD_WORDS]] = 0
        c[arena_kernel.BLOCK_LISTS :] = 0
        for memory in self._memory:
            give_back(memory, 0)
        return True

    def reserve_log(self, rows: int, *, spare: int = 0) -> None:
        """Gives the log room for `rows` dirty records, so that it need not grow later.

        `spare` more rows cover the worst case: they take no memory pages until they are written.
        """
        self._spare_rows = 0
        self._grow_log(max(0, rows + spare - self.dirty_count))
        self._spare_rows = spare

    def _grow_log(self, nodes: int) -> None:
        log = self.arrays.log
        wanted = (self.dirty_count + nodes) * arena_kernel.LOG_WORDS
        if 0 < len(log) < wanted:
            longer = np.empty(max(wanted, min(2 * len(log), wanted + LOG_STEP)), np.uint64)
            used = self.dirty_count * arena_kernel.LOG_WORDS
            longer[:used] = log[:used]
            self.arrays = self.arrays._replace(log=longer)

    def _table_for(self, nodes: int) -> int:
        wanted = int((self.node_count + nodes) / 0.85) + 64
        size = len(self.arrays.table)
        return size if wanted <= size else max(wanted, int(TABLE_GROWTH * size))

    def _grow_table(self, nodes: int) -> None:
        size = self._table_for(nodes)
        old = self.arrays.table
        if size > len(old):
            self.arrays = self.arrays._replace(table=np.zeros(size, np.uint64))
            heap_kernel.rehash(self.arrays, old)

    def fold_overlay(self) -> None:
        """Sums the notes of each item in an overlay that is half full or more, and grows it if needed."""
        length = int(self.counters[arena_kernel.OVERLAY_LENGTH])
        overlay = self.arrays.overlay
        if 4 * length < len(overlay):
            return
        folded, self.counters[arena_kernel.OVERLAY_LENGTH] = overlay_kernel.folded(overlay, length)
        self.arrays = self.arrays._replace(overlay=folded)

    def reserve_overlay(self, notes: int) -> None:
        """Makes room for `notes` more notes in the overlay."""
        wanted = 2 * (int(self.counters[arena_kernel.OVERLAY_LENGTH]) + notes)
        if wanted > len(self.arrays.overlay):
            longer = np.zeros(2 * wanted, np.int64)
            longer[: len(self.arrays.overlay)] = self.arrays.overlay
            self.arrays = self.arrays._replace(overlay=longer)

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
            overlay_kernel.shift_overlay(self.arrays, -1)

    def add_overlay(self) -> None:
        """Adds the overlay's visits to the records again, to continue the search."""
        if self.has_overlay:
            overlay_kernel.shift_overlay(self.arrays, 1)

    def forget_overlay(self) -> None:
        """Clears the overlay at the end of its session; its visits must have been subtracted."""
        if self.has_overlay:
            evict_kernel.hold(self.arrays, False)
        self.counters[arena_kernel.OVERLAY_LENGTH] = 0

    # -------------------------------------------------------------- records
    def slot(self, board: chess.Board) -> int:
        """Returns the slot of a position's record, 0 if it is not in memory."""
        return int(heap_kernel.find_position(self.tables, self.arrays, pack(board)))

    def read(self, board: chess.Board) -> NodeRecord | None:
        """Returns a copy of a position's record, or None."""
        words = pack(board)
        slot = int(heap_kernel.find_position(self.tables, self.arrays, words))
        if not slot:
            return None
        clock = int(self.arrays.records[slot + 2]) >> 8 * CLOCK_BYTE & CLOCK_BITS  # at its evaluation
        words[META] = int(words[META]) & WITHOUT_CLOCK | clock << CLOCK_SHIFT
        if self._copies is None or self._copies.arrays is not self.arrays:
            self._copies = SingleCopies(self.arrays)
        return self._copies.record(slot, words)

    def begin_saving(self) -> Saving:
        """Returns copies of the dirty records and marks these as clean; they stay in memory until saved.

        `end_saving` or `undo_saving` must follow; records may change again meanwhile.
        """
        count, fresh = self.dirty_count, 0
        keys = np.empty(count, np.uint64)
        transfer_kernel.log_sort_keys(self.arrays, keys)
        rows = self.arrays.log[: count * arena_kernel.LOG_WORDS].reshape(count, arena_kernel.LOG_WORDS)
        order = segment_order(rows, keys)  # so that the copies need no sorting
        slots, words = np.empty(count, np.uint64), np.empty((count, POSITION_WORDS), np.uint64)
        parts = [slice(begin, begin + EXPORT_CHUNK) for begin in range(0, max(1, count), EXPORT_CHUNK)]
        for part in parts:
            flat = words[part].reshape(-1)
            fresh += int(transfer_kernel.begin_saving(self.arrays, order[part], slots[part], flat))

        def copied(part: slice) -> RecordBatch:
            return self.copy_out(slots[part].astype(np.uint32), words[part])

        batches = list(shared_out(parts, copied, min(thread_count(), len(parts))))
        transfer_kernel.empty_log(self.arrays)
        return Saving(batches, fresh, slots, words)

    def end_saving(self, saving: Saving) -> None:
        """Notes that a save has succeeded: the file has these versions of its records."""
        transfer_kernel.end_saving(self.arrays, saving.slots, saving.fresh)

    def undo_saving(self, saving: Saving) -> None:
        """Marks the records of a failed save as dirty again."""
        self._grow_log(len(saving))
        transfer_kernel.undo_saving(self.arrays, saving.slots, saving.words.reshape(-1))

    def copy_out(self, slots: NDArray[np.uint32], words: Words) -> RecordBatch:
        """Returns copies of the records at `slots`; `words`, `[R, 10]`, are their positions."""
        count = len(slots)
        code_offsets, edge_offsets = np.zeros(count + 1, np.int64), np.zeros(count + 1, np.int64)
        transfer_kernel.measure(self.arrays, slots, code_offsets, edge_offsets)
        room = RecordBatch.room(count, int(code_offsets[-1]), int(edge_offsets[-1]))
        batch = replace(room, words=words, code_offsets=code_offsets, edge_offsets=edge_offsets)
        transfer_kernel.copy_out(self.arrays, slots, columns_of(batch))
        return batch

    def load(self, batch: RecordBatch) -> int:
        """Inserts records from the file; returns the number of misfits, which are skipped (`copy_in`).

        Raises:
          CapacityError: if there is no more memory.
        """
        columns, begin, misfits = columns_of(batch), 0, 0
        while begin < len(batch):
            self.make_room(len(batch) - begin, strict=False)
            reached, bad = transfer_kernel.copy_in(self.tables, self.arrays, columns, begin)
            if reached == begin:
                raise CapacityError(f"cannot get more memory for the graph of {self.node_count} nodes")
            begin, misfits = reached, misfits + bad
        return misfits
