"""Reads records from the file into memory, within a budget: single ones, those of a wave, or all in order.

The arena evicts only records that were saved, so the file has the last version of every other record. Which
records are in memory never changes the results of a search.

The whole file is loaded with all cores, for a search that needs much of it:

    file       portion | portion | portion ...           in the order of the file: 1 us of CPU a record
    threads       decode    decode    decode
    search     waves | enter | enter | waves | enter     only the search's thread touches the arena

A single read costs about 6 times as much per record; 60 times where kernels cannot do it. A search begins
with single reads. After some it loads the file if all of them, those to come included, would cost more, if it
fits into half of the budget, and if the rest of it takes less than half of the search's time. Records in
memory are newer than those of the file, and stay. The first eviction ends the loading, because an older
version of an evicted record could be loaded.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import chess
import numpy as np

from ..base.errors import CapacityError, CorruptRecordError
from ..position.board import POSITION_WORDS, after, legal_moves, pack
from ..store.index_kernel import FilterArrays, no_filter
from ..store.reading import FileArrays, Reader
from ..store.reading_kernel import BUDGET, NO_CHUNK, UNKNOWN
from ..store.record import NodeRecord, RecordBatch, identities
from ..store.segment import Portion
from ..store.store import Store
from .arena import Arena, Words
from .copying_kernel import BYTES_PER_NODE, READ_INSIDE, bring

AT_ONCE = 256  # positions of `records_below` that are read from the file together
FREE_SHARE = 64  # an eviction frees at least 1 / FREE_SHARE of the budget
OVER_SHARE = 16  # memory may exceed the budget by 1 / OVER_SHARE
LEAST_BYTES = 1 << 20
LEAST_SINGLE_READS = 2048  # 20 ms of CPU; their rate tells how many more there will be
READ_COST, PYTHON_READ_COST = 6, 60  # of a single read: records that are loaded in order at the same cost
WAVES_SHARE = 8  # waves count for at most 1 / WAVES_SHARE of the budget; larger ones are too large for it


class Pager:
    """Moves records between an arena and its file."""

    def __init__(self, arena: Arena, reader: Reader | None, ram_bytes: int, *, complete: bool) -> None:
        """Makes a pager.

        The caller sets `reserved`, the bytes for copies of records that are being saved, `working`, the bytes
        for waves, and `under_way`, one array per wave: the records at these slots stay in memory.

        Args:
          reader: None without a file: then nothing can be evicted.
          ram_bytes: for arena, log of dirty records, index, filters, copies and waves.
          complete: whether the arena has all records of the file.
        """
        self.arena = arena
        self._reader = reader
        self._ram_bytes = ram_bytes
        self.complete = complete
        self._no_filter = no_filter()
        self._filter: FilterArrays | None = None
        self._index_bytes = 0
        self.reserved = self.working = 0
        self._passed = 0  # most bytes by which a wave has exceeded the budget; the next may need them again
        self.under_way: tuple[Words, ...] = ()
        self._python_reads = 0  # records read in Python
        self.evictions = 0  # number of times that records were evicted
        self.misfits = 0

    @property
    def budget(self) -> int:
        """Bytes that nodes may take: the budget minus all else that it covers."""
        if self._reader is None:
            return self._ram_bytes
        waves = min(self.working, self._ram_bytes // WAVES_SHARE)
        beside = self.arena.log_bytes + self._index_bytes + self.reserved + waves
        return max(LEAST_BYTES, self._ram_bytes - beside)

    @property
    def read_back(self) -> int:
        """Records read from the file one by one so far, without those loaded in order."""
        return self._python_reads + (self._reader.read_inside if self._reader else 0)

    @property
    def problems(self) -> list[str]:
        """Descriptions of damaged parts of the file."""
        return list(self._reader.problems) if self._reader else []

    def filter(self) -> FilterArrays:
        """Returns the filters of the file; empty ones if memory has all its records."""
        if self.complete or self._reader is None:
            return self._no_filter
        if self._filter is None:
            self._set_filter(self._reader.filter())
        assert self._filter is not None
        return self._filter

    def _set_filter(self, found: FilterArrays) -> None:
        if found is not self._filter:
            assert self._reader is not None
            self._filter, self._index_bytes = found, self._reader.ram_bytes

    def loads(self, nodes: int, more: float) -> bool:
        """Returns whether to load a file of `nodes` records, rather than make `more` single reads."""
        if self.complete or self._reader is None:
            return False
        reads, cost = self.read_back, READ_COST if self._reader.kernels_read else PYTHON_READ_COST
        return reads > LEAST_SINGLE_READS and cost * (reads + more) > nodes

    def has_room_for(self, nodes: int) -> bool:
        """Returns whether `nodes` nodes take at most half of the budget."""
        return nodes * BYTES_PER_NODE <= self.budget // 2

    def enter(self, batch: RecordBatch) -> None:
        """Inserts records of the file that are not in memory; raises CapacityError without room."""
        self.misfits += self.arena.load(batch)

    def file_changed(self) -> None:
        """Drops the filters of the file's old state, after a save."""
        self._filter = None

    # -------------------------------------------------------------- reading
    @contextmanager
    def reading(self, threads: int = 1) -> Iterator[Sequence[FileArrays | None]]:
        """Yields a state of the file for `copying_kernel.bring` on each thread, or None as `file_arrays`.

        They evict nothing, so the arena must have room.

        Raises:
          StoreError: if the file cannot be read.
        """
        if self.complete or self._reader is None:
            yield [None] * threads
            return
        with self._reader.file_arrays(threads) as held:
            for one in filter(None, held):
                one[1].states[BUDGET] = self.arena.max_bytes
                self._set_filter(one[0])
            yield held

    def bring(self, words: Words, pinned: Words) -> None:
        """Inserts the records of some positions, `[R, 10]`, if the file has them; those `pinned` stay.

        Raises:
          StoreError: if the file cannot be read.
        """
        if not (len(words) <= READ_INSIDE and self._bring_inside(words, pinned)):
            self._bring_by_threads(words, pinned)

    def _bring_inside(self, words: Words, pinned: Words) -> bool:
        """Inserts the records with one kernel; returns False if it cannot."""
        if self._reader is None:
            return False
        self.make_room(len(words), len(words) * BYTES_PER_NODE, pinned=pinned)
        flat, which = np.ascontiguousarray(words).reshape(-1), np.arange(len(words))
        for _ in range(1 + len(words)):  # each try may lack the dictionaries of one chunk
            with self.reading() as (held,):
                if held is None:
                    return False
                count = np.array([len(words)])
                arena = self.arena
                if bring(arena.tables, arena.arrays, *held, flat, POSITION_WORDS, which, count, 0):
                    return True
            if held[1].states[UNKNOWN] == NO_CHUNK:
                break
        return False

    def _bring_by_threads(self, words: Words, pinned: Words) -> None:
        assert self._reader is not None
        _, batch = self._reader.find(words)
        self._python_reads += len(batch)
        self.make_room(len(batch), len(batch) * BYTES_PER_NODE, pinned=pinned)
        self.enter(batch)

    def read(self, board: chess.Board) -> NodeRecord | None:
        """Returns a copy of a position's record from memory or the file, or None."""
        record = self.arena.read(board)
        if record is not None or self.complete or self._reader is None:
            return record
        _, batch = self._reader.find(pack(board).reshape(1, POSITION_WORDS))
        return batch.record(0) if len(batch) else None

    def records_below(self, board: chess.Board, most: int, *, least: int = 1) -> RecordBatch:
        """Returns at most `most` records of the file below a position, along edges with `least` visits.

        The most visited come first.

        Raises:
          StoreError: if the file cannot be read.
        """
        assert self._reader is not None
        heap: list[tuple[int, int, chess.Board, chess.Move | None]] = [(0, 0, board, None)]
        met, batches, count, number = set[bytes](), [RecordBatch.empty(0, 0, 0)], 0, 0
        while heap and count < most:
            boards, words = list[chess.Board](), list[Words]()
            while heap and len(boards) < min(AT_ONCE, most - count):
                _, _, at, move = heapq.heappop(heap)
                if move is not None:
                    at = after(at, move)
                packed = pack(at)
                if (name := identities(packed.reshape(1, -1)).tobytes()) not in met:
                    met.add(name)
                    boards.append(at)
                    words.append(packed)
            if not boards:
                break
            have, found = self._reader.find(np.array(words))
            batches.append(found)
            count += len(found)
            for i, place in enumerate(np.nonzero(have)[0].tolist()):
                record, moves = found.record(i), legal_moves(boards[place])
                for edge, k in zip(record.edges, record.order, strict=False):
                    if edge.n - edge.r >= least:
                        number += 1
                        heapq.heappush(heap, (-edge.n, number, boards[place], moves[k]))
        return RecordBatch.concat(batches)

    # -------------------------------------------------------------- room
    def make_room(self, nodes: int, need: int, pinned: Words | None = None) -> bool:
        """Makes room for at most `nodes` nodes of `need` bytes in total; evicts if the budget requires it.

        Returns False if it could not evict enough; the caller must save first.

        Args:
          pinned: slots of a wave that is being gathered: its records stay too, and memory may exceed the
            budget for a moment.

        Raises:
          CapacityError: if there is no file to evict to.
        """
        arena = self.arena
        arena.max_bytes = self.budget
        room = arena.fits(nodes)
        if room and arena.bytes_used + need - arena.free_bytes <= arena.max_bytes:
            arena.make_room(nodes)
            return True
        if self._reader is None:
            used = f"{arena.max_bytes >> 20} MiB with {arena.node_count} nodes"
            raise CapacityError(f"the graph fills its memory: {used}")
        self.complete = False
        self.evictions += 1
        over = max(0, arena.bytes_used - arena.max_bytes)  # free words between the used ones
        free = max(need, arena.max_bytes // FREE_SHARE) + over
        staying = self.under_way if pinned is None else (*self.under_way, pinned)
        enough = arena.evict(free, arena.room_in_table - nodes, staying)
        if enough or pinned is not None:
            arena.make_room(nodes)
        if pinned is not None:
            self._passed = max(self._passed, arena.bytes_used + need - arena.free_bytes - arena.max_bytes)
        return enough

    @property
    def must_shrink(self) -> bool:
        """Whether nodes take much more than the budget allows, so that `shrink` is due.

        Eviction frees words between others; only `shrink`, with no wave under way, returns memory. Excess
        that a wave needed does not count: the next wave would take it again.
        """
        if self._reader is None or self.under_way:
            return False
        over = self.arena.bytes_used - self.budget
        return over > self.budget // OVER_SHARE + self._passed and not self.arena.has_overlay

    def shrink(self) -> None:
        """Returns memory to the system until a part of the budget is free; everything must be saved."""
        self.complete = False
        self.evictions += 1
        self.arena.shrink(self.budget - self.budget // OVER_SHARE)
        if self.must_shrink:
            self.start_over()

    def start_over(self) -> bool:
        """Evicts all records that it can; if none is left, returns all pages and True."""
        self.complete = False
        self.evictions += 1
        self.arena.evict(1 << 62, 0, self.under_way)
        return self.arena.reset()


# ------------------------------------------------------------------ the whole file
class Loader:
    """Loads a file into memory, some records at each `advance`.

    Attributes:
      done, total: records read so far, and in the file. waits: whether it waits for a longer search.
    """

    def __init__(self, path: Path, pager: Pager) -> None:
        """Opens the file; `close` must follow. Raises StoreError if it cannot be read."""
        self._pager = pager
        self._store = Store.open(path, read_only=True)
        self.done, self.total = 0, self._store.node_count
        self._evictions = pager.evictions
        self._spent, self.waits = 0.0, False
        self._batches: Iterator[RecordBatch] = self._store.portions(Portion.records)
        self._is_sound = True

    def advance(self, seconds: float, left: float) -> bool:
        """Loads records for about `seconds`; returns whether there are more; raises StoreError.

        It waits for another search if the rest would take more than half of the time `left` to this one.
        """
        self.waits = 2 * self._spent * (self.total - self.done) >= left * max(1, self.done)
        if self.waits:
            return True
        end = time.monotonic() + seconds
        self._spent += seconds
        if self.done:  # it goes on
            self._pager.arena.expect(self.total)
        while time.monotonic() < end:
            if self._pager.evictions != self._evictions:
                return False
            try:
                batch = next(self._batches, None)
            except CorruptRecordError:
                if not self._is_sound:  # a scan could not pass it either
                    return False
                # records already loaded are skipped; single reads will report the damaged ones
                self._batches = self._store.scan(on_corrupt=lambda _: None)
                self._is_sound, self.done = False, 0
                continue
            if batch is None:
                self._pager.complete = self._is_sound
                return False
            self.done = min(self.total, self.done + len(batch))
            try:
                self._pager.enter(batch)
            except CapacityError:
                return False
        return True

    def close(self) -> None:
        """Stops the threads and closes the file."""
        if isinstance(self._batches, Generator):
            self._batches.close()
        self._store.close()
