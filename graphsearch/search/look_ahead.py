"""Reads the records that waves wait for, and predicts and reads those of the next visits.

A look-ahead makes further visits as a search would and then drops them; only the memory's content changes.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..graph import arena_kernel
from ..graph.graph import Graph
from ..position.board import Words
from . import wave_kernel as wave
from . import waves_kernel

ROUNDS = 4  # during an evaluation, each with half the visits of the one before
# When a lone path waits for a record, the look-ahead makes SCOUT_VISITS visits and reads their records
# together, at most once every SCOUT_EVERY visits.
SCOUT_VISITS, SCOUT_EVERY = 512, 128


class LookAhead:
    """Reads records for the waves of one root."""

    def __init__(self, graph: Graph, root: Words) -> None:
        """Creates a look-ahead that has read nothing yet; `root` is a packed position."""
        self._graph, self._arena, self._root = graph, graph.arena, root
        self._scout: wave.WaveArrays | None = None  # created when a lone path meets a record in the file
        self._scouted_at = -SCOUT_VISITS

    def bring(self, w: wave.WaveArrays, *, is_path: bool) -> None:
        """Reads the records that a wave waits for; for a lone path also those of the next paths."""
        pager = self._graph.pager
        pager.bring(wave.missing_positions(w), wave.slots_of(w))
        visits = int(self._arena.counters[arena_kernel.VISITS])
        if is_path and not pager.kernels_read and visits >= self._scouted_at + SCOUT_EVERY:
            self._scouted_at = visits
            if self._scout is None:
                self._scout = wave.new_wave(SCOUT_VISITS)
            self._walk(self._scout, SCOUT_VISITS, rounds=1, staying=wave.slots_of(w))

    def beside(self, w: wave.WaveArrays, is_over: Callable[[], bool]) -> None:
        """Reads the records of the wave after a gathered one, until the evaluation `is_over`.

        It makes as many further visits as this wave asked for, then half as many, and so on.
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
        """Makes further visits from a wave, reads the records they meet, and drops the visits.

        Args:
          staying: slots of records that must stay in memory; if given, it begins with an empty wave.
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
