"""How full a wave is, and what gathering it takes: one wave of each gatherer on the same graph.

    grow (batch 1) -> make room -> copy -> | one wave | put back | timed waves | put back | whole waves | ...

A gather may change the graph a little (visits that end at terminals are backed up in it), so all that is in
use of the arena is copied before and put back after: every gatherer meets the same graph. Gathers are timed
as they come in a search, wave after wave, with everything between them but a real evaluation: the leaves get
the answers of `uniform`, so that the graph is as warm in the processor's caches as a search keeps it.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass

import chess

from ...evaluators.inside import Filler
from ...evaluators.uniform import UniformEvaluator
from ...graph import arena_kernel
from ...graph.arena import Arena
from ...graph.graph import Graph
from ...position.board import pack
from ...search import waves_kernel
from ...search.leaves import leaves_of
from ...search.loop import UNLIMITED, analyze
from ...search.params import Limits, SearchParams
from ...search.settings import set_params
from ...search.waves import BYTES_PER_LEAF, FIRST_EVALUATOR, WaveRunner
from .plan import Effort

MOST_VISITS = 100  # for each evaluation: where the game tree ends, only visits are left
SPEED_SECONDS, SPEED_RUNS = 0.04, 9  # whole waves are timed for so long, or so often
TIMED_POSITIONS, MOST_TIMED = 8192, 64  # gathers are timed until so many positions, in at most so many waves
GROWN_SHARE = 4  # each time they add at most one part of so many of the graph, or one wave


@dataclass(frozen=True, slots=True)
class Filled:
    """One wave, and what it took.

    Attributes:
      positions, rounds, collisions: of one wave.
      gather_us: CPU time of a gather for each position, the median of waves in a row; None if all their
        visits ended at known results.
      visits_per_s: of whole waves, in wall time; None if they were too large to be timed.
    """

    positions: int
    rounds: int
    collisions: int
    gather_us: float | None
    visits_per_s: float | None


class Snapshot:
    """A copy of what is in use of an arena; for graphs without a file."""

    def __init__(self, arena: Arena) -> None:
        self._arena = arena
        self._arrays = arena.arrays
        arrays, counters = arena.arrays, arena.counters
        parts = (
            arrays.table,
            arrays.records[: counters[arena_kernel.RECORD_WORDS]],
            arrays.blocks[: counters[arena_kernel.BLOCK_WORDS]],
            arrays.counters,
            arrays.floats,
            arrays.ints,
        )
        self._parts = [(part, part.copy()) for part in parts]

    def put_back(self) -> None:
        """Makes the arena what it was, its parameters included."""
        for part, copy in self._parts:
            part[:] = copy
        self._arena.arrays = self._arrays


def grow(graph: Graph, board: chess.Board, nodes: int) -> None:
    """Searches on one by one until the graph has so many nodes, or the game tree ends."""
    wanted = nodes - graph.node_count
    if wanted > 0:
        limits = Limits(evaluations=wanted, visits=MOST_VISITS * nodes)
        analyze(graph, board, limits, SearchParams(minibatch_size=1))


def fill(
    graph: Graph, board: chess.Board, effort: Effort, batches: tuple[int, ...], gatherers: tuple[str, ...]
) -> Iterator[tuple[str, int, Filled]]:
    """Yields (gatherer, batch, what one wave is); the graph stays as it is."""
    for batch in batches:
        for gather in gatherers:
            yield gather, batch, _Wave(graph, board, effort, gather, batch).measured()


class _Wave:
    """Waves of one gatherer and batch on one graph."""

    def __init__(self, graph: Graph, board: chess.Board, effort: Effort, gather: str, batch: int) -> None:
        self._graph = graph
        self._arena = graph.arena
        self._effort = effort
        self._batch = batch
        self._runner = WaveRunner(graph, pack(board), batch)
        self._timed_waves = max(effort.repeats, min(MOST_TIMED, TIMED_POSITIONS // batch))
        timed = max(
            (self._timed_waves + 2) * batch, 2 * effort.timed
        )  # nodes: the table must not grow while the clock runs
        graph.make_room(self._runner.most_nodes + timed, timed * BYTES_PER_LEAF)
        self._snapshot = Snapshot(graph.arena)
        self._params = SearchParams(gather=gather, minibatch_size=batch, overlap=0)

    def measured(self) -> Filled:
        """Returns what a wave is."""
        effort = self._effort
        set_params(self._arena, self._params)
        try:
            positions, rounds, collisions = self._counted()
            gather_us = self._timed()
            rate = self._rate(max(1, positions)) if positions <= effort.largest_wave else None
        finally:
            self._runner.close()
        return Filled(positions, rounds, collisions, gather_us, rate)

    def _gather(self) -> int:
        """Gathers one wave and drops it; returns its positions."""
        positions = self._runner.gather()
        self._runner.drop()
        return positions

    def _put_back(self) -> None:
        self._snapshot.put_back()
        set_params(self._arena, self._params)

    def _counted(self) -> tuple[int, int, int]:
        before = self._arena.counters.copy()
        positions = self._gather()
        added = self._arena.counters - before
        self._put_back()
        return positions, int(added[arena_kernel.ROUNDS]), int(added[arena_kernel.COLLISIONS])

    def _timed(self) -> float | None:
        """Returns the CPU time of a gather for each position; the first wave takes memory for the others."""
        found = [self._timed_wave() for _ in range(1 + self._timed_waves)][1:]
        self._put_back()
        spent = [1e6 * seconds / positions for seconds, positions in found if positions]
        return statistics.median(spent) if spent else None

    def _timed_wave(self) -> tuple[float, int]:
        """Returns the CPU time and the positions of one gather; the wave is completed as with `uniform`."""
        arena, wave = self._arena, self._runner.wave
        begin = time.process_time()
        positions = self._runner.gather()
        spent = time.process_time() - begin
        Filler(UniformEvaluator(), leaves_of(wave)).begin(positions).result()
        waves_kernel.complete(arena.tables, arena.arrays, wave, FIRST_EVALUATOR)
        return spent, positions

    def _rate(self, positions: int) -> float:
        """Returns visits per second of whole waves, the median of some runs on the same graph."""
        waves = max(1, min(self._effort.timed, self._graph.node_count // GROWN_SHARE) // positions)
        rates: list[float] = []
        spent = 0.0
        while spent < SPEED_SECONDS and len(rates) < SPEED_RUNS:
            visits, seconds = self._waves(waves * positions)
            rates.append(visits / seconds)
            spent += seconds
        return statistics.median(rates)

    def _waves(self, evaluations: int) -> tuple[int, float]:
        """Returns the visits and the seconds of waves of so many evaluations in all."""
        before = self._arena.counters.copy()
        counters = self._arena.counters
        begin = time.perf_counter()
        evaluated = visits = 0
        while evaluated < evaluations and visits < MOST_VISITS * evaluations:
            self._runner.step(UNLIMITED, evaluations - evaluated)
            evaluated = int(counters[arena_kernel.EVALUATIONS] - before[arena_kernel.EVALUATIONS])
            visits = int(counters[arena_kernel.VISITS] - before[arena_kernel.VISITS])
        seconds = time.perf_counter() - begin
        self._put_back()
        return visits, seconds
