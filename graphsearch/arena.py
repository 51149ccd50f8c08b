"""The arena: every live node and edge of a graph, in a few large arrays that kernels fill.

Memory is counted as used words (table, records, blocks, slack and free lists included). The arrays reserve
address space once and take pages as nodes come; only the hash table is replaced as it grows.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator

import chess
import numpy as np
from numpy.typing import NDArray

from .errors import CapacityError
from .kernels import heap, layout, puct, run, transfer
from .kernels.tables import load_tables
from .params import SearchParams
from .position import MAX_CLOCK, POSITION_WORDS, pack
from .record import NodeRecord, RecordBatch

Words = NDArray[np.uint64]

MIN_TABLE = 1 << 16
TABLE_GROWTH = 1.35  # the table then takes 9.4 to 12.7 bytes a node
MAX_SLOTS = 1 << 32  # slots and block addresses are 32 bits: 32 GiB of records, 16 GiB of blocks
RAM_SHARE = 0.8  # of the machine's memory; a graph that needs more stops, saved
EXPORT_CHUNK = 1 << 17
LOG_ROWS = 1 << 16  # dirty records before the log grows: 5.5 MiB


class Arena:
    """Nodes and edges in memory. One writer; not for use from several threads at once."""

    def __init__(self, max_bytes: int | None = None, *, logged: bool = True) -> None:
        """Makes an empty arena.

        Args:
          max_bytes: most bytes that nodes may take; default: a large share of the machine's memory.
          logged: keep a log of dirty records, to save them; without it nothing is ever dirty.
        """
        self.max_bytes = max_bytes or int(RAM_SHARE * _physical_bytes())
        self.tables = load_tables()
        slots = min(MAX_SLOTS, self.max_bytes // 8 + 4096)
        self.arrays = layout.ArenaArrays(
            table=np.zeros(MIN_TABLE, np.uint64),
            records=_reserve(slots).view(np.uint64),
            blocks=_reserve(slots).view(np.uint32)[: min(MAX_SLOTS, 2 * slots)],
            counters=np.zeros(layout.COUNTERS, np.int64),
            floats=np.zeros(layout.FLOATS, np.float64),
            ints=np.zeros(layout.INTS, np.int64),
            moves=np.zeros(256, np.uint16),
            overlay=np.zeros(1 << 16, np.int64),
            history=np.zeros(0, np.uint64),
            log=np.zeros(LOG_ROWS * layout.LOG_WORDS if logged else 0, np.uint64),
        )
        counters = self.arrays.counters
        counters[layout.RECORD_WORDS] = 1  # slot 0 means none
        counters[layout.BLOCK_WORDS] = 1
        self.arrays.floats[layout.POWERS : layout.POWERS + 64] = np.arange(64, dtype=np.float64) ** 4
        self.arrays.ints[layout.CAPACITY : layout.CAPACITY + 2 * layout.WIDE] = _capacities()
        self.set_params(SearchParams())
        self.set_temperature(1.0)

    # -------------------------------------------------------------- figures
    @property
    def counters(self) -> NDArray[np.int64]:
        """The kernels' counters, by the indices of `kernels.layout`."""
        return self.arrays.counters  # type: ignore[no-any-return]

    @property
    def node_count(self) -> int:
        """Nodes in memory."""
        return int(self.counters[layout.NODES])

    @property
    def dirty_count(self) -> int:
        """Nodes that the file does not hold as they are."""
        return int(self.counters[layout.DIRTY_NODES])

    @property
    def bytes_used(self) -> int:
        """Bytes of table, records and blocks, with everything in them that is free."""
        c = self.counters
        return int(self.arrays.table.nbytes + 8 * c[layout.RECORD_WORDS] + 4 * c[layout.BLOCK_WORDS])

    # -------------------------------------------------------------- settings
    def set_params(self, params: SearchParams) -> None:
        """Makes the kernels search with `params`."""
        p = self.arrays.floats
        p[layout.CPUCT] = params.cpuct
        p[layout.CPUCT_BASE] = params.cpuct_base
        p[layout.CPUCT_FACTOR] = params.cpuct_factor
        p[layout.FPU_VALUE] = params.fpu_value
        p[layout.CATCH_UP_RATIO] = params.catch_up_ratio
        p[layout.WAVE_SHARE] = params.max_wave_share
        puct.fill_exploration(p)

    def set_temperature(self, temperature: float) -> None:
        """Sets the policy temperature of evaluators inside the kernels."""
        self.arrays.floats[layout.TEMPERATURE] = temperature

    def set_history(self, keys: Words) -> None:
        """Sets the Polyglot keys of the positions that stood twice in the game before the root."""
        self.arrays = self.arrays._replace(history=np.array(keys, np.uint64))

    # -------------------------------------------------------------- room
    def make_room(self, nodes: int) -> None:
        """Grows the table until `nodes` more fit.

        Raises:
          CapacityError: if the arena's byte limit stands in the way.
        """
        wanted = int((self.node_count + nodes) / 0.85) + 64
        if wanted > len(self.arrays.table):
            self._grow_table(max(wanted, int(TABLE_GROWTH * len(self.arrays.table))))
        if self.bytes_used > self.max_bytes:
            raise CapacityError(
                f"the graph fills its memory: {self.max_bytes >> 20} MiB with {self.node_count} nodes"
            )
        self.fold_overlay()
        self._grow_log(nodes)

    def _grow_log(self, nodes: int) -> None:
        log = self.arrays.log
        wanted = (self.dirty_count + nodes) * layout.LOG_WORDS
        if 0 < len(log) < wanted:
            longer = np.empty(max(wanted, 2 * len(log)), np.uint64)
            longer[: len(log)] = log
            self.arrays = self.arrays._replace(log=longer)

    def _grow_table(self, size: int) -> None:
        old = self.arrays.table
        self.arrays = self.arrays._replace(table=np.zeros(size, np.uint64))
        heap.rehash(self.arrays, old)

    def fold_overlay(self) -> None:
        """Sums up the notes on visits drawn by the game's history, with more room if they need it."""
        length = int(self.counters[layout.OVERLAY_LENGTH])
        overlay = self.arrays.overlay
        if 4 * length < len(overlay):
            return
        items, inverse = np.unique(overlay[0 : 2 * length : 2], return_inverse=True)
        sums = np.zeros(len(items), np.int64)
        np.add.at(sums, inverse, overlay[1 : 2 * length : 2])
        folded = np.zeros(max(len(overlay), 8 * len(items)), np.int64)
        folded[0 : 2 * len(items) : 2] = items
        folded[1 : 2 * len(items) : 2] = sums
        self.counters[layout.OVERLAY_LENGTH] = len(items)
        self.arrays = self.arrays._replace(overlay=folded)

    # -------------------------------------------------------------- overlay
    def take_back_overlay(self) -> None:
        """Takes the visits that only this game's history made draws out of the records."""
        if self.counters[layout.OVERLAY_LENGTH]:
            run.shift_overlay(self.arrays, -1)

    def give_again_overlay(self) -> None:
        """Puts them back, to search on."""
        if self.counters[layout.OVERLAY_LENGTH]:
            run.shift_overlay(self.arrays, 1)

    def forget_overlay(self) -> None:
        """Ends the session of a game's history; its visits must have been taken back."""
        self.counters[layout.OVERLAY_LENGTH] = 0

    # -------------------------------------------------------------- records
    def slot(self, board: chess.Board) -> int:
        """Returns the slot of a position's record, 0 if it is not in memory."""
        return int(heap.find_position(self.tables, self.arrays, pack(board)))

    def read(self, board: chess.Board) -> NodeRecord | None:
        """Returns a copy of a position's record, or None."""
        words = pack(board)
        slot = int(heap.find_position(self.tables, self.arrays, words))
        if not slot:
            return None
        clock = int(self.arrays.records[slot + 2]) >> 32 & MAX_CLOCK  # the one it was evaluated with
        words[8] = int(words[8]) & ~(MAX_CLOCK << 12) | clock << 12
        return self._copy_out(np.array([slot], np.uint32), words.reshape(1, POSITION_WORDS)).record(0)

    def export_dirty(self, *, chunk: int = EXPORT_CHUNK) -> Iterator[tuple[RecordBatch, int]]:
        """Yields the dirty records in chunks, each with how many are in no version in the file."""
        count = self.dirty_count
        for begin in range(0, count, chunk):
            slots = np.zeros(min(chunk, count - begin), np.uint32)
            words = np.zeros(len(slots) * POSITION_WORDS, np.uint64)
            fresh = transfer.list_dirty(self.arrays, begin, slots, words)
            yield self._copy_out(slots, words.reshape(-1, POSITION_WORDS)), int(fresh)

    def make_clean(self) -> None:
        """Notes that every dirty record is saved."""
        transfer.make_clean(self.arrays)

    def _copy_out(self, slots: NDArray[np.uint32], words: Words) -> RecordBatch:
        count = len(slots)
        code_offsets, edge_offsets = _i64(count + 1), _i64(count + 1)
        transfer.measure(self.arrays, slots, code_offsets, edge_offsets)
        edges = int(edge_offsets[-1])
        batch = RecordBatch(
            words,
            np.zeros(count, np.float32),
            np.zeros(count, np.uint16),
            np.zeros(count, np.uint8),
            np.zeros(count, np.uint8),
            code_offsets,
            np.zeros(int(code_offsets[-1]), np.uint8),
            edge_offsets,
            np.zeros(edges, np.uint32),
            np.zeros(edges, np.uint32),
            np.zeros(edges, np.float32),
            np.zeros(edges, np.uint16),
        )
        transfer.copy_out(self.arrays, slots, _columns(batch))
        return batch

    def load(self, batch: RecordBatch) -> int:
        """Enters records from the file; returns how many were left out because their P fit no legal moves."""
        words = np.ascontiguousarray(batch.words).reshape(-1)
        columns = _columns(batch)
        begin, misfits = 0, 0
        while begin < len(batch):
            self.make_room(len(batch) - begin)
            reached, bad = transfer.copy_in(self.tables, self.arrays, words, columns, begin)
            if reached == begin:
                raise CapacityError(f"no more memory can be had for the graph of {self.node_count} nodes")
            begin, misfits = reached, misfits + bad
        return misfits


def _columns(batch: RecordBatch) -> tuple[NDArray[np.generic], ...]:
    columns = (
        batch.v,
        batch.d,
        batch.evaluator,
        batch.flags,
        batch.code_offsets,
        batch.codes,
        batch.edge_offsets,
        batch.n,
        batch.r,
        batch.q,
        batch.edge_d,
    )
    return tuple(_writable(column) for column in columns)


def _writable(column: NDArray[np.generic]) -> NDArray[np.generic]:
    """Returns the column, copied if it is read-only: Numba would compile another variant for it."""
    return column if column.flags.writeable and column.flags.c_contiguous else column.copy()


def _capacities() -> list[int]:
    narrow = [*layout.CAPACITIES, layout.CAPACITIES[-1]]
    return narrow * 2  # wide classes hold as many


def _i64(n: int) -> NDArray[np.int64]:
    return np.zeros(n, np.int64)


def _physical_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _reserve(words: int) -> NDArray[np.uint8]:
    """Returns zeroed bytes for `words` 64-bit words whose pages are taken only when written to."""
    while True:
        try:
            flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0x4000)
            memory = mmap.mmap(-1, 8 * words, flags=flags)
        except (OSError, ValueError):
            if words < 1 << 20:
                raise CapacityError("no address space for the graph") from None
            words //= 2
            continue
        if hasattr(mmap, "MADV_HUGEPAGE"):
            memory.madvise(mmap.MADV_HUGEPAGE)
        return np.frombuffer(memory, np.uint8)
