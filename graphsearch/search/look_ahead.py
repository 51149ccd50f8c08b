"""Reads records that waves wait for, and those of visits to come, as far as they can be predicted.

A look-ahead walks visits on as a search would and then forgets them: only the memory's content changes.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..graph import arena_kernel
from ..graph.graph import Graph
from ..position.board import Words
from . import wave_kernel as wave
from . import waves_kernel

ROUNDS = 4  # beside an evaluation, each of half the visits of the one before
# A path that waits for a record has this many visits walked ahead, whose records are then read together; not
# more often than after so many visits.
SCOUT_VISITS, SCOUT_EVERY = 512, 128


class LookAhead:
    """Reads records for the waves of one root."""

    def __init__(self, graph: Graph, root: Words) -> None:
        """Reads nothing yet; `root` is a packed position."""
        self._graph, self._arena, self._root = graph, graph.arena, root
        self._scout: wave.WaveArrays | None = None  # once a lone path has met a record that is in the file
        self._scouted_at = -SCOUT_VISITS

    def bring(self, w: wave.WaveArrays, *, is_path: bool) -> None:
        """Reads the records that a wave waits for; for a lone path also those of the next paths."""
        pager = self._graph.pager
        pager.bring(wave.missing_positions(w), wave.slots_of(w))
        visits = int(self._arena.counters[arena_kernel.VISITS])
        if is_path and not pager.reads_inside and visits >= self._scouted_at + SCOUT_EVERY:
            self._scouted_at = visits
            self._send_scout(w)

    def _send_scout(self, waiting: wave.WaveArrays) -> None:
        """Reads the records of the next visits, level by level."""
        if self._scout is None:
            self._scout = wave.new_wave(SCOUT_VISITS)
        self._walk(self._scout, SCOUT_VISITS, rounds=1, staying=wave.slots_of(waiting))

    def beside(self, w: wave.WaveArrays, is_over: Callable[[], bool]) -> None:
        """Reads the records of the wave behind a gathered one, until its evaluation `is_over`.

        It walks the same number of visits on from this wave's, then half as many, and so on.
        """
        self._walk(w, int(w.counts[wave.VISITS_ASKED]), rounds=ROUNDS, is_over=is_over)

    def _walk(
        self,
        w: wave.WaveArrays,
        visits: int,
        *,
        rounds: int,
        is_over: Callable[[], bool] = lambda: False,
        staying: Words | None = None,
    ) -> None:
        """Walks visits on from a wave, reads the records they meet, and forgets the visits.

        Args:
          staying: slots of records that must stay in memory; then it begins with an empty wave.
        """
        arena, pager = self._arena, self._graph.pager
        counted = arena.counters[arena_kernel.COUNTED].copy()
        if staying is not None:
            waves_kernel.begin_look_ahead(arena.arrays, w, visits)
        entries = int(w.counts[wave.ENTRIES])
        try:
            while rounds and not is_over() and arena.has_room_for_blocks(waves_kernel.SPARE_BLOCK_WORDS):
                if waves_kernel.look_ahead(arena.tables, arena.arrays, w, pager.filter(), self._root, visits):
                    rounds, visits = rounds - 1, visits // 2
                else:
                    met = wave.slots_of(w)
                    met = met if staying is None else np.concatenate([staying, met])
                    pager.bring(wave.missing_positions(w), met)
        finally:
            waves_kernel.end_look_ahead(w, entries)
            arena.counters[arena_kernel.COUNTED] = counted
