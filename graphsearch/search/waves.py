"""Runs waves: inside the kernels, or step by step around an evaluator in other threads.

    kernels   gather | evaluate | back up | gather | ...             small waves, a slice of them at a time
    overlap   gather 2 | back up 1 | gather 3 | back up 2 | ...      while other threads evaluate a wave
              1 -------|- 2 -----------|- 3 -----------|-- ...       (Overlap)
    alone     gather | evaluate | back up | ...                     without Overlap

An evaluator inside the kernels has several threads, which the calling thread helps when idle; any other has
one thread. The waves, and the order in which they are gathered and backed up, do not depend on the number of
threads, nor on their speed.

A gather that meets positions that may be in the file but are not in memory waits at that level, and continues
when they have been read. Other threads access only the leaves; only the calling thread accesses the arena,
unless several threads walk (`walkers.py`).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..base.errors import CapacityError
from ..graph import arena_kernel
from ..graph.graph import Graph
from . import param_layout as layout
from . import wave_kernel as wave
from . import waves_kernel
from .gatherers import others_kernel
from .leaves import OVERLAP_FROM, Answer, LeafEvaluation
from .params import FLOW
from .walkers import WALK_FROM, Walkers

SLICE_SECONDS = 0.03  # of a slice of waves inside the kernels
FIRST_LEAVES = 64  # of the first slice: at most a few milliseconds
BYTES_PER_LEAF = 600  # memory of a wave for each leaf: its record, its parents' blocks, records read back
# Python takes .3 ms for a wave that other threads evaluate: as long as the fastest evaluator for 32 leaves.
MANY_LEAVES = 32  # of a wave that does not overlap: from here on several threads evaluate it
QUIET_EVERY = 64  # overlapped waves until one lands with nothing in flight: then memory can be put in order


@dataclass(frozen=True, slots=True)
class _Flying:
    """A gathered wave that is being evaluated."""

    wave: wave.WaveArrays
    leaves: int
    answer: Answer


class WaveRunner:
    """Runs the waves of one root on one graph."""

    def __init__(
        self,
        graph: Graph,
        root: NDArray[np.uint64],
        batch: int,
        *,
        overlap: bool = False,
        game: Sequence[NDArray[np.uint64]] = (),
        threads: int = 1,
    ) -> None:
        """Creates the working memory for waves of up to `batch` leaves; `root` is a packed position.

        Args:
          overlap: gather the next wave while one is being evaluated, where that pays.
          game: packed positions before the root, the latest first, for an evaluator that wants lines.
          threads: number of threads that walk, with batches of 1 and an evaluator inside the kernels.
        """
        self._graph, self._arena = graph, graph.arena
        self._evaluator = graph.evaluator_number
        self._root, self._batch = root, batch
        self._leaves = LeafEvaluation(graph.evaluator, game)
        self._inside = self._leaves.kernel is not None
        self.most_leaves = batch  # of the next wave, if fewer than a batch
        self._overlap = overlap
        self.wave = wave.new_wave(batch)
        self._spare: wave.WaveArrays | None = None  # created for a second wave
        self._wave_bytes = int(sum(array.nbytes for array in self.wave))
        self._most_entries = self._flown = 0
        self._nothing = wave.new_wave(1)
        self._flying: _Flying | None = None
        first = max(1, FIRST_LEAVES // batch)
        self._waves_per_slice, self._visits_at_room = first if self._have_room(first) else 1, -1
        self._threads = threads if self._inside and batch == 1 else 1
        walks = graph, root, self._leaves, self._evaluator, self.wave
        self._walkers = Walkers(*walks, self._threads) if self._threads > 1 else None

    def close(self) -> None:
        """Drops the waves in flight and ends the thread of an evaluator outside the kernels."""
        self._leaves.close(self._flying.answer if self._flying else None)
        self._keep(None)

    @property
    def answered(self) -> tuple[int, float]:
        """The number of leaves last evaluated at once, or by a slice of waves, and their seconds."""
        return self._leaves.answered

    def step(self, visits: int, evaluations: int, pause: int | None = None) -> None:
        """Runs a wave, or about 30 ms of waves, until the first wave that reaches one of the limits.

        It also returns at the first complete wave after `pause` visits; `pause` changes no wave.

        With overlap the visits of a wave are completed by the next step, or by `finish`.

        Raises:
          CapacityError: if there is no memory left, or a count has reached its limit.
          EvaluatorError: if the evaluator fails; the waves in flight are dropped.
          StoreError: if the file cannot be read, or not written when memory has to be freed.
        """
        if self._flying or (self._overlaps and not self._inside):
            self._overlapped_wave(visits, evaluations)
        elif self._runs_inside:
            self._slice(visits if pause is None else min(visits, pause), evaluations)
        else:
            self.make_room(1)
            self._lone_wave()
        if self._arena.counters[arena_kernel.OVERFLOWS]:
            raise CapacityError("a visit count has reached 2**32 - 1")

    def finish(self) -> None:
        """Waits for the wave in flight and completes it.

        Raises:
          EvaluatorError: if the evaluator fails; the wave in flight is dropped.
        """
        if self._flying:
            self._land(self._flying)

    @property
    def _overlaps(self) -> bool:
        """Whether waves overlap; with an evaluator inside the kernels, once the graph is large enough."""
        flows = not self._inside or self._scheme == FLOW
        return flows and self._overlap and self._leaves.may_overlap(self._batch)

    @property
    def _target(self) -> int:
        """The most leaves of the next wave."""
        return min(self._batch, self.most_leaves)

    @property
    def _may_fly(self) -> bool:
        """Whether the next wave of an evaluator inside the kernels is to overlap if another can follow it."""
        return self._inside and self._overlaps and self._target >= OVERLAP_FROM

    @property
    def _runs_inside(self) -> bool:
        flows = self._batch == 1 or self._scheme == FLOW
        return flows and self._inside

    @property
    def _scheme(self) -> int:
        return int(self._arena.arrays.ints[layout.SCHEME])

    # ---------------------------------------------------------- room
    @property
    def most_nodes(self) -> int:
        """The most nodes that the waves under way may create or change."""
        return (self._threads + self._overlaps) * wave.entries_for(self._batch)

    def make_room(self, waves: int = 1) -> None:
        """Makes room in memory for so many more waves; raises `CapacityError` if there is not enough."""
        taken = [self.wave, self._spare] if self._spare else [self.wave]
        self._most_entries = max(self._most_entries, *(int(w.counts[wave.ENTRIES]) for w in taken), 0)
        # only the entries that were ever filled occupy pages
        filled = len(taken) * self._wave_bytes * self._most_entries // len(self.wave.candidates)
        self._graph.pager.working = filled
        self._graph.make_room(self.most_nodes, waves * self._batch * BYTES_PER_LEAF)

    def _have_room(self, waves: int) -> bool:
        """Returns whether the records of so many waves take only a small part of the memory."""
        return waves * self._batch * BYTES_PER_LEAF < self._graph.pager.budget // 16

    def _make_more_room(self) -> None:
        """Grows the arena; fails if no visit was completed since it last grew, which then did not help."""
        visits = int(self._arena.counters[arena_kernel.VISITS])
        self.make_room(1)
        if visits == self._visits_at_room:
            raise CapacityError(f"cannot get more memory for the graph of {self._graph.node_count} nodes")
        self._visits_at_room = visits

    def _serve(self, w: wave.WaveArrays, code: int) -> None:
        """Serves a kernel's request: makes room, or reads records."""
        if code == waves_kernel.NO_SPACE:
            self._make_more_room()
        else:
            self._graph.pager.bring(wave.missing_positions(w), wave.slots_of(w))

    # ---------------------------------------------------------- inside the kernels
    def _slice(self, visits: int, evaluations: int) -> None:
        """Runs a slice of waves inside the kernels: as many as take about 30 ms."""
        self.make_room(self._waves_per_slice)
        turns = min(visits, evaluations, self._waves_per_slice)
        begin, known = time.monotonic(), int(self._arena.counters[arena_kernel.EVALUATIONS])
        if self._walkers and turns >= WALK_FROM:
            self._walkers.walk(turns, self._serve, begin + SLICE_SECONDS)
        elif not self._run_slice(visits, evaluations, begin):
            return
        spent = time.monotonic() - begin
        self._leaves.answered = int(self._arena.counters[arena_kernel.EVALUATIONS]) - known, spent
        if spent < SLICE_SECONDS / 2 and self._have_room(2 * self._waves_per_slice):
            self._waves_per_slice *= 2
        elif spent > SLICE_SECONDS:
            self._waves_per_slice = max(1, self._waves_per_slice // 2)

    def _run_slice(self, visits: int, evaluations: int, begin: float) -> bool:
        """Runs a slice in this thread; returns False if its last wave overlaps with the next."""
        many = MANY_LEAVES if self._leaves.has_helpers else waves_kernel.ANY_NUMBER
        left = waves_kernel.new_limits(
            visits, evaluations, self._waves_per_slice, many=many, overlaps=self._may_fly
        )
        while code := self._run_waves(left):
            if code == waves_kernel.CAN_BE_FOLLOWED:
                self._flown = 1
                self._send_off(self.wave, int(self.wave.counts[wave.LEAVES]))
                return False
            if code == waves_kernel.MANY_LEAVES:
                self._many_leaves(left)
            else:
                self._serve(self.wave, code)
            if time.monotonic() - begin > SLICE_SECONDS:  # reading took time that was not foreseen
                left[waves_kernel.WAVES] = min(left[waves_kernel.WAVES], 1)
        return True

    def _run_waves(self, left: NDArray[np.int64]) -> int:
        """Runs waves inside the kernels, within the limits in `left`; returns the kernels' request."""
        alone = self._leaves.is_uniform and self._batch == 1
        evaluating = waves_kernel.NOT_BOUND if alone else self._leaves.filler(self.wave).call.bound
        with self._graph.pager.reading() as held:
            on = self._arrays(self.wave, self._nothing)
            bringing = waves_kernel.NOT_BOUND
            if held:
                on = on._replace(F=held[0])
                bringing = waves_kernel.bring_wave(on, held[1])
            return waves_kernel.run_waves(on, evaluating, self._evaluator, self._target, left, bringing)

    def _arrays(self, w: wave.WaveArrays, before: wave.WaveArrays) -> waves_kernel.SearchArrays:
        arena, filters = self._arena, self._graph.pager.filter()
        return waves_kernel.SearchArrays(arena.tables, arena.arrays, w, before, filters, self._root)

    def _many_leaves(self, left: NDArray[np.int64]) -> None:
        """Evaluates the gathered wave with several threads, and completes it."""
        leaves = int(self.wave.counts[wave.LEAVES])
        self._leaves.evaluate(self.wave, leaves)
        left[:3] -= [self._complete(self.wave), leaves, 1]
        if self.wave.counts[wave.DECIDED]:
            left[waves_kernel.WAVES] = 0

    # ---------------------------------------------------------- one wave
    def visit_known(self) -> None:
        """Makes one visit, with nothing in flight, that the caller expects to need no evaluation.

        Batches of 1 make it even with an evaluation, by the kernel of all their visits: compiling another one
        in a game would cost several moves. Larger waves drop a visit that needs an evaluation.
        """
        self.make_room(1)
        if self._batch == 1 and self._runs_inside:
            self._run_slice(1, 1, time.monotonic())
        elif self._gather(self.wave, self._nothing, 1):
            self.drop()
        else:
            self._complete(self.wave)

    def gather(self) -> int:
        """Gathers one wave into `wave`, with nothing else in flight; returns the number of its leaves.

        There must be room for it. Visits without an evaluation are completed at once. Call `evaluate` or
        `drop` next.
        """
        return self._gather(self.wave, self._nothing, self._target)

    def drop(self) -> None:
        """Drops the gathered wave: its leaves are not evaluated, and no visit stays in flight."""
        wave.drop_leaves(self.wave)

    def _gather(self, w: wave.WaveArrays, before: wave.WaveArrays, target: int) -> int:
        flows = self._batch == 1 or self._scheme == FLOW
        kernel = waves_kernel.gather if flows else others_kernel.gather_otherwise
        while True:
            leaves = kernel(*self._arrays(w, before), target)
            if leaves >= 0:
                return int(leaves)
            self._serve(w, int(leaves))

    def _complete(self, w: wave.WaveArrays) -> int:
        return int(waves_kernel.complete(self._arena.tables, self._arena.arrays, w, self._evaluator))

    def _lone_wave(self) -> None:
        """Gathers, evaluates and completes a wave."""
        if leaves := self.gather():
            self._leaves.evaluate(self.wave, leaves)
        self._complete(self.wave)

    # ---------------------------------------------------------- waves that overlap
    def _overlapped_wave(self, visits: int, evaluations: int) -> None:
        """Gathers the wave behind the one in flight, lands that, and sends the new one off within limits.

        If the wave in flight reaches a limit, the new one is dropped; its visits without an evaluation count.
        """
        flying = self._flying
        self._flown = self._flown + 1 if flying else 1
        if flying is None:
            self._first_wave()
            return
        reached = int(self._arena.counters[arena_kernel.VISITS]) + visits
        then = self._gather_behind(flying.wave) if self._flown % QUIET_EVERY else None
        left = min(reached - int(self._arena.counters[arena_kernel.VISITS]), evaluations)
        self._land(flying, then if left > flying.leaves else None)

    def _first_wave(self) -> None:
        """Gathers a wave with nothing in flight and sends it off."""
        self.make_room(1)
        if self.most_leaves == 1:  # a single path: a wave behind it could not see it
            self._lone_wave()
            return
        leaves = self.gather()
        if leaves:
            self._send_off(self.wave, leaves)
        else:
            self._complete(self.wave)  # one visit that needed no evaluation

    def _gather_behind(self, before: wave.WaveArrays) -> tuple[wave.WaveArrays, int] | None:
        """Gathers the next wave with the one before in flight; returns it and its leaves.

        Returns None without leaves or room.
        """
        try:
            self.make_room(1)
        except CapacityError:
            return None
        if self._spare is None:
            self._spare = wave.new_wave(self._batch)
        w = self._spare if before is self.wave else self.wave
        leaves = self._gather(w, before, self._target)
        return (w, leaves) if leaves else None

    def _send_off(self, w: wave.WaveArrays, leaves: int) -> None:
        """Starts the evaluation of a gathered wave in other threads."""
        self._keep(_Flying(w, leaves, self._leaves.begin(w, leaves)))

    def _land(self, flying: _Flying, then: tuple[wave.WaveArrays, int] | None = None) -> None:
        """Waits for the wave in flight, sends the next one off, then completes the first."""
        self._keep(None)
        self._leaves.receive(flying.answer)
        if then:
            self._send_off(*then)
        self._complete(flying.wave)

    def _keep(self, flying: _Flying | None) -> None:
        """Stores the wave in flight; its records stay in memory."""
        self._flying = flying
        self._graph.pager.under_way = (wave.slots_of(flying.wave),) if flying else ()
