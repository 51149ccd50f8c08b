"""Threads that walk alone: each makes visits of one root, one at a time; all share one arena.

    turns      begin 3,000 ------------------------ 0    join: Python reads, makes room, saves, merges counts
    thread 0   visit | visit | visit | visit | ..
    thread 1   visit | visit | visit | visit | ..  `graph/guards_kernel.py` keeps their records apart

Python waits while they walk. A thread that needs Python stops in the middle of its visit; its notes stay.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from ..graph.arena_kernel import COUNTERS, INTS
from ..graph.graph import Graph
from ..graph.guards_kernel import FIRST_ROW, TURNS, ThreadArrays, merge_counters, new_guards
from ..jit.apart import apart
from ..position.board import Words
from ..store.kernel_reader import FileArrays
from . import wave_kernel as wave
from . import waves_kernel
from .leaves import LeafEvaluation

MOST_THREADS = 128  # a note counts them in 8 bits
WALK_FROM = 64  # visits that are worth starting threads
SPARE_SHARE = 3  # at most 1/3 of the block addresses may be kept free for visits under way
ANY = 1 << 60


def walking_threads(graph: Graph, wanted: int) -> int:
    """Returns the number of threads to use, at most `wanted`: each needs addresses for its longest visit."""
    room = len(graph.arena.arrays.blocks) // SPARE_SHARE // waves_kernel.SPARE_BLOCK_WORDS
    return max(1, min(wanted, MOST_THREADS, room))


class Walkers:
    """The threads of one search."""

    def __init__(
        self,
        graph: Graph,
        root: Words,
        leaves: LeafEvaluation,
        evaluator: int,
        first: wave.WaveArrays,
        count: int,
    ) -> None:
        """Begins with nothing under way.

        Args:
          evaluator: number of the leaves' evaluator in records. first: a wave of one visit, for one of the
            threads. count: of threads.
        """
        self._graph, self._root, self._leaves, self._evaluator = graph, root, leaves, evaluator
        self._waves = [first, *(wave.new_wave(1) for _ in range(count - 1))]
        self._guards = new_guards(count)
        self._threads = [
            ThreadArrays(
                self._guards, apart(COUNTERS, np.int64), apart(INTS, np.int64), apart(256, np.uint16)
            )
            for _ in self._waves
        ]
        self._codes = [0] * count
        self._held: FileArrays | None = None  # the file, while threads walk

    @property
    def turns(self) -> int:
        """The number of visits left to begin."""
        return max(0, int(self._guards[TURNS]))

    @turns.setter
    def turns(self, turns: int) -> None:
        self._guards[TURNS] = turns

    def walk(self, turns: int, serve: Callable[[wave.WaveArrays, int], None], until: float) -> None:
        """Makes `turns` visits with all threads; fewer if serving requests lasts until `until` (monotonic).

        Args:
          serve: serves a wave's request, NO_SPACE or NO_RECORDS as of `waves_kernel.gather`.

        Raises:
          BaseException: an exception of `serve` or of a thread; afterwards nothing is under way.
        """
        pager, self.turns = self._graph.pager, turns
        try:
            while asks := self._run():
                waiting = (w for w in self._waves if w.counts[wave.STAGE] != wave.NOT_WAITING)
                pager.under_way = tuple(wave.slots_of(w) for w in waiting)
                for w, code in asks:
                    serve(w, code)
                if time.monotonic() > until:
                    self.turns = 0
        except BaseException:
            for w in self._waves:  # its visits leave no trace
                wave.drop_leaves(w)
            self._guards[FIRST_ROW:] = 0
            self.turns = 0
            raise
        finally:
            pager.under_way = ()

    def _run(self) -> list[tuple[wave.WaveArrays, int]]:
        """Runs the threads until no turns are left or one has a request; returns (wave, request) pairs."""
        kernel, arena = self._leaves.kernel, self._graph.arena
        assert kernel is not None
        with self._graph.pager.reading() as held:
            self._held = held
            for thread in self._threads:
                thread.ints[:] = arena.arrays.ints
            job = kernel.team.begin(self._walk, len(self._waves))
            try:
                job.result()
            except BaseException:
                self._join(job.cancel)
                raise
            finally:
                for thread in self._threads:
                    merge_counters(arena.counters, thread.counters)
        asks = [(w, code) for w, code in zip(self._waves, self._codes, strict=True) if code]
        return [(w, code) for w, code in asks if self.turns or code == waves_kernel.NO_RECORDS]

    def _join(self, wait: Callable[[], None]) -> None:
        """Ends the turns and waits for all threads, even after Ctrl-C: they write records."""
        while True:
            self.turns = 0
            try:
                return wait()
            except KeyboardInterrupt:
                continue

    def _walk(self, number: int, thread: int) -> None:
        """Makes visits with one of the waves until no turns are left, or the caller has to act."""
        arena, w, own = self._graph.arena, self._waves[number], self._threads[number]
        filters = self._held[0] if self._held else self._graph.pager.filter()
        on = waves_kernel.SearchArrays(arena.tables, arena.arrays, w, w, filters, self._root)
        is_uniform, bringing = self._leaves.is_uniform, waves_kernel.NOT_BOUND
        evaluating = waves_kernel.NOT_BOUND if is_uniform else self._leaves.filler(w).call.bound
        if self._held:
            bringing = waves_kernel.bring_wave(on, self._held[1], own)
        self._codes[number] = waves_kernel.run_lone(
            on, evaluating, self._evaluator, waves_kernel.new_limits(ANY, ANY, ANY), bringing, own
        )
        if self._codes[number]:
            self.turns = 0
