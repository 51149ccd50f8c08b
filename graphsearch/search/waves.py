"""Running waves: inside the kernels, or step by step around an evaluator that is not one.

    kernels   gather | evaluate | back up | gather | ...             a slice of waves at a time
    outside   gather 2 | back up 1 | gather 3 | back up 2 | ...      while the evaluator, in a thread of
              1 -------|- 2 -----------|- 3 -----------|-- ...       its own, has a wave (Overlap)
    alone     gather | evaluate ------------------ | back up | ...
                       look ahead: read what the next wave needs     while the evaluator is at work

A gather that meets positions which the file may hold and memory does not waits at that level, and goes on
when they have been read. Only this module's caller touches the arena; the evaluator's thread sees copies.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..errors import CapacityError
from ..evaluators.asking import answer as ask
from ..evaluators.inside import BatchArrays, inside
from ..evaluators.kinds import UNIFORM
from ..evaluators.lines import Lines
from ..evaluators.protocol import PositionBatch
from ..graph import arena_kernel
from ..graph.graph import Graph
from ..jit.calls import Bound
from ..jit.compiler import bind
from ..record.node import flags_of
from . import layout, lines_kernel, waves_kernel
from . import wave_kernel as wave
from .gatherers import others_kernel
from .in_flight import InFlight, plies_of, put_together
from .params import FLOW
from .waves_kernel import SPARE_BLOCK_WORDS

SLICE_SECONDS = 0.03  # how long kernels run before the loop looks up
FIRST_EVALUATOR = 1  # number of the evaluator of a graph without a file; 0 is the rules (terminal records)
BYTES_PER_LEAF = 600  # what a wave takes for each leaf: its record, its parents' blocks, records read back
LOOK_AHEAD_ROUNDS = 4  # each of half the visits of the one before
THREAD_FROM = 16  # leaves of a batch that make a thread worth it
QUIET_EVERY = (
    64  # overlapped waves before one after which nothing is in flight: then memory can be put in order
)


@dataclass(frozen=True, slots=True)
class _Flying:
    """A gathered wave that is being evaluated; without an `answer` it is kept for the next step."""

    wave: wave.WaveArrays
    leaves: int
    answer: Future[None] | None


class WaveRunner:
    """Waves of one root on one graph."""

    def __init__(
        self,
        graph: Graph,
        root: NDArray[np.uint64],
        batch: int,
        *,
        overlap: bool = False,
        game: Sequence[NDArray[np.uint64]] = (),
    ) -> None:
        """Makes the working memory for waves of up to `batch` leaves; `root` is a packed position.

        Args:
          overlap: gather the next wave while an evaluator outside the kernels has one.
          game: packed positions before the root, the latest first, for an evaluator that wants lines.
        """
        self._graph = graph
        self._arena = graph.arena
        self._evaluator = graph.store.evaluator_number if graph.store else FIRST_EVALUATOR
        self._root = root
        self._game = np.concatenate([*game, np.zeros(1, np.uint64)])  # never empty: kernels point to it
        self._game_length = len(game)
        self._batch = batch
        self._inside = inside(graph.evaluator)
        self.most_leaves = batch  # of the next wave, if fewer than a batch
        self.answered = (0, 0.0)  # leaves last evaluated at once, or by a slice of waves, and the seconds
        self._overlaps = overlap and batch >= THREAD_FROM and self._inside is None
        self.wave = wave.new_wave(batch)
        self._spare = wave.new_wave(batch) if self._overlaps else None
        self._evaluating = self._bound() if self._inside else None
        self._wave_bytes = int(sum(array.nbytes for array in self.wave))
        self._most_entries = 0
        self._nothing = wave.new_wave(1)
        self._flying: _Flying | None = None
        self._flown = 0
        self._waves_per_slice = 1
        self._visits_at_room = -1
        self._thread: ThreadPoolExecutor | None = None

    def _bound(self) -> Bound:
        """Returns the evaluator's batch kernel, bound to the wave and to working memory."""
        assert self._inside is not None
        kernel = self._inside.batch_kernel
        self._scratch = kernel.new_scratch()  # bound by its address
        return bind(kernel.call, *self._inside.arguments(leaves_of(self.wave), self._scratch), 0, 0)

    def close(self) -> None:
        """Drops what is in flight and ends the thread of the evaluator."""
        self._keep(None)
        if self._thread:
            self._thread.shutdown(wait=True, cancel_futures=True)  # an evaluator has one caller at a time

    def step(self, visits: int, evaluations: int) -> None:
        """Runs a wave, or some 30 ms of them, the last being the first that reaches one of the limits.

        With overlap the visits of a wave are completed by the next step, or by `finish`.

        Raises:
          CapacityError: if there is no memory left, or a count has reached its limit.
          EvaluatorError: if the evaluator fails; what was in flight is dropped.
          StoreError: if the file cannot be read, or not written when memory has to be freed.
        """
        if self._overlaps:
            self._overlapped_wave(visits, evaluations)
        elif self._runs_inside:
            self._slice(visits, evaluations)
        else:
            self.make_room(1)
            self._lone_wave()
        if self._arena.counters[arena_kernel.OVERFLOWS]:
            raise CapacityError("a visit count has reached 2**32 - 1")

    def finish(self, *, goes_on: bool = True) -> None:
        """Completes what is being evaluated.

        Args:
          goes_on: gather behind it what a search without a stop would have gathered, as `in_flight` tells;
            else nothing is in flight afterwards.

        Raises:
          EvaluatorError: if the evaluator fails; what was in flight is dropped.
        """
        flying = self._flying
        if flying and goes_on and flying.answer:
            self._overlapped_wave(0, 0)
        elif flying and not goes_on:
            self._send_off(flying)
            self._land()
        if self._flying:
            self._arena.counters[arena_kernel.PLIES] -= plies_of(self._flying.wave)  # counted when completed

    def in_flight(self, search: str) -> str | None:
        """Returns the wave in flight of the search `search`, as `resume` takes it; None if there is none."""
        flying = self._flying
        return InFlight.of(flying.wave, search=search, waves=self._flown).text() if flying else None

    def resume(self, text: str, search: str) -> None:
        """Takes up what the same search had in flight; if it was another, or the graph changed, nothing."""
        found = InFlight.parse(text, most=len(self.wave.candidates)) if self._overlaps else None
        if found is None or found.search != search or found.leaves > self._batch:
            return
        self.make_room(1)
        if put_together(self._graph, self.wave, self._root, found):
            self._keep(_Flying(self.wave, found.leaves, None))
            self._flown = found.waves
        else:
            self.drop()

    @property
    def _runs_inside(self) -> bool:
        flows = self._batch == 1 or self._scheme == FLOW
        return flows and self._inside is not None and (self._is_uniform or not self._looks_ahead)

    @property
    def _is_uniform(self) -> bool:
        return self._graph.evaluator.kernel_kind == UNIFORM

    @property
    def _scheme(self) -> int:
        return int(self._arena.arrays.ints[layout.SCHEME])

    # ---------------------------------------------------------- room
    @property
    def most_nodes(self) -> int:
        """The most nodes that the waves under way may make or change."""
        return (1 + self._overlaps) * (wave.ENTRIES_PER_LEAF * self._batch + wave.SPARE_ENTRIES)

    def make_room(self, waves: int = 1) -> None:
        """Makes room in memory for so many more waves.

        Raises:
          CapacityError: if there is none to be had.
          StoreError: if the file cannot be written.
        """
        self._graph.pager.working = self._working_bytes
        self._graph.make_room(self.most_nodes, waves * self._batch * BYTES_PER_LEAF)

    @property
    def _working_bytes(self) -> int:
        """Bytes of the waves that pages were taken for: the share of their entries that was ever filled."""
        waves = [self.wave, self._spare] if self._spare else [self.wave]
        self._most_entries = max(self._most_entries, *(int(w.counts[wave.ENTRIES]) for w in waves), 0)
        return len(waves) * self._wave_bytes * self._most_entries // len(self.wave.candidates)

    def _make_more_room(self) -> None:
        """Lets the arena grow; fails if nothing was searched since it last did: that did not help then."""
        visits = int(self._arena.counters[arena_kernel.VISITS])
        self.make_room(1)
        if visits == self._visits_at_room:
            raise CapacityError(f"cannot get more memory for the graph of {self._graph.node_count} nodes")
        self._visits_at_room = visits

    def _serve(self, w: wave.WaveArrays, code: int) -> None:
        """Does what a kernel returned for: makes room, or reads records."""
        if code == waves_kernel.NO_SPACE:
            self._make_more_room()
        else:
            self._bring(w)

    def _bring(self, w: wave.WaveArrays) -> None:
        """Reads the records that a wave waits for."""
        self._graph.pager.bring(wave.missing_positions(w), wave.slots_of(w))

    # ---------------------------------------------------------- inside the kernels
    def _slice(self, visits: int, evaluations: int) -> None:
        """Runs a slice of waves inside the kernels, as many as take some 30 ms."""
        assert self._evaluating is not None
        pager = self._graph.pager
        self.make_room(self._waves_per_slice)
        left = np.array([visits, evaluations, self._waves_per_slice], np.int64)
        batch = min(self._batch, self.most_leaves)
        begin = time.monotonic()
        while code := waves_kernel.run_waves(
            self._arena.tables,
            self._arena.arrays,
            self.wave,
            self._nothing,
            pager.filter(),
            self._root,
            self._evaluating,
            self._evaluator,
            batch,
            left,
            is_uniform=self._is_uniform,
        ):
            self._serve(self.wave, int(code))
            if time.monotonic() - begin > SLICE_SECONDS:
                left[2] = min(left[2], 1)  # what had to be read was not foreseen
        spent = time.monotonic() - begin
        self.answered = evaluations - int(left[1]), spent
        if spent < SLICE_SECONDS / 2 and self._may_lengthen():
            self._waves_per_slice *= 2
        elif spent > SLICE_SECONDS:
            self._waves_per_slice = max(1, self._waves_per_slice // 2)

    def _may_lengthen(self) -> bool:
        """Returns whether a slice twice as long takes a small part of the memory."""
        return 2 * self._waves_per_slice * self._batch * BYTES_PER_LEAF < self._graph.pager.budget // 16

    # ---------------------------------------------------------- one wave
    def gather(self) -> int:
        """Gathers one wave into `wave`, with nothing else in flight; returns the number of its leaves.

        There must be room for it. What needs no evaluation is completed at once. `drop` must follow.
        """
        return self._gather(self.wave, self._nothing)

    def drop(self) -> None:
        """Forgets the gathered wave: its leaves were never asked for, and no visit is in flight."""
        self.wave.counts[[wave.STAGE, wave.LEAVES]] = wave.NOT_WAITING, 0

    def _gather(self, w: wave.WaveArrays, before: wave.WaveArrays) -> int:
        arena, pager = self._arena, self._graph.pager
        kernel = (
            waves_kernel.gather
            if self._batch == 1 or self._scheme == FLOW
            else others_kernel.gather_otherwise
        )
        target = min(self._batch, self.most_leaves)
        while True:
            leaves = kernel(arena.tables, arena.arrays, w, before, pager.filter(), self._root, target)
            if leaves >= 0:
                return int(leaves)
            self._serve(w, int(leaves))

    def _complete(self, w: wave.WaveArrays) -> None:
        waves_kernel.complete(self._arena.tables, self._arena.arrays, w, self._evaluator)

    def _lone_wave(self) -> None:
        """Gathers a wave, has its leaves evaluated, and completes it."""
        leaves = self.gather()
        if leaves:
            self._evaluate(leaves)
        self._complete(self.wave)

    # ---------------------------------------------------------- waves that overlap
    def _overlapped_wave(self, visits: int, evaluations: int) -> None:
        """Gathers the wave behind the one in flight, lands that one, and sends this one off within limits."""
        flying = self._flying
        self._flown = self._flown + 1 if flying else 1
        if flying is None:
            self._first_wave()
            return
        self._send_off(flying)
        reached = int(self._arena.counters[arena_kernel.VISITS]) + visits
        then = self._gather_behind(flying.wave) if self._flown % QUIET_EVERY else None
        left = min(reached - int(self._arena.counters[arena_kernel.VISITS]), evaluations)
        self._land(then, sends=left > flying.leaves)

    def _first_wave(self) -> None:
        """Gathers a wave with nothing in flight and sends it off."""
        self.make_room(1)
        if self.most_leaves == 1:  # a single path, which no wave behind it could see
            self._lone_wave()
            return
        leaves = self.gather()
        if leaves:
            self._send_off(_Flying(self.wave, leaves, None))
        else:
            self._complete(self.wave)  # one visit that needed no evaluation

    def _gather_behind(self, before: wave.WaveArrays) -> _Flying | None:
        """Returns the next wave, gathered with the one before in flight; None without leaves, or room."""
        try:
            self.make_room(1)
        except CapacityError:
            return None
        assert self._spare is not None
        w = self._spare if before is self.wave else self.wave
        leaves = self._gather(w, before)
        return _Flying(w, leaves, None) if leaves else None

    def _send_off(self, flying: _Flying) -> None:
        """Has a gathered wave evaluated by the thread, unless it is already."""
        if flying.answer is None:
            if self._thread is None:
                self._thread = ThreadPoolExecutor(1, "graphsearch-evaluator")
            flying = replace(flying, answer=self._thread.submit(self._by_call, flying.wave, flying.leaves))
        self._keep(flying)

    def _land(self, then: _Flying | None = None, *, sends: bool = False) -> None:
        """Waits for the wave in flight, sends the next one off or keeps it, then completes the first."""
        flying = self._flying
        assert flying is not None
        assert flying.answer is not None
        self._keep(None)
        flying.answer.result()
        if then is not None and sends:
            self._send_off(then)
        elif then is not None:
            self._keep(then)
        self._complete(flying.wave)

    def _keep(self, flying: _Flying | None) -> None:
        """Notes which wave is in flight: its records stay in memory."""
        self._flying = flying
        self._graph.pager.under_way = (wave.slots_of(flying.wave),) if flying else ()

    # ---------------------------------------------------------- evaluating
    def _evaluate(self, leaves: int) -> None:
        """Fills in what the evaluator says of the leaves, reading ahead meanwhile if that pays."""
        evaluate = self._by_kernel if self._inside else self._by_call
        if not self._looks_ahead:
            evaluate(self.wave, leaves)
            return
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "graphsearch-evaluator")
        answer = self._thread.submit(evaluate, self.wave, leaves)
        self._look_ahead(answer)
        answer.result()

    def _by_kernel(self, w: wave.WaveArrays, leaves: int) -> None:
        assert self._inside is not None
        begin = time.monotonic()
        self._inside.fill(leaves_of(w), leaves)
        self.answered = leaves, time.monotonic() - begin

    def _by_call(self, w: wave.WaveArrays, leaves: int) -> None:
        offsets = w.offsets[: leaves + 1]
        count = int(offsets[-1])
        batch = PositionBatch(
            w.leaf_words[: 10 * leaves].reshape(leaves, 10).copy(),
            w.moves[:count].copy(),
            offsets.copy(),
            self._lines(w, leaves) if self._graph.evaluator.wants_lines else None,
        )
        begin = time.monotonic()
        answer = ask(self._graph.evaluator, batch)
        self.answered = leaves, time.monotonic() - begin
        w.priors[:count] = answer.priors
        w.values[0 : 2 * leaves : 2] = answer.wdl[:, 0] - answer.wdl[:, 2]
        w.values[1 : 2 * leaves : 2] = answer.wdl[:, 1]
        w.leaf_flags[:leaves] = wave.UNPROVEN_FLAGS if answer.bounds is None else flags_of(answer.bounds)

    def _lines(self, w: wave.WaveArrays, leaves: int) -> Lines:
        lines = Lines.unknown(leaves)
        words, repeated = lines.words.reshape(-1), lines.repeated.reshape(-1)
        lines_kernel.trace_lines(
            w.entries, w.leaf_entry, leaves, self._game, self._game_length, words, repeated
        )
        return lines

    # ---------------------------------------------------------- looking ahead
    @property
    def _looks_ahead(self) -> bool:
        """Whether records have to be read, for batches that are worth a thread."""
        return self._batch >= THREAD_FROM and not self._graph.pager.complete

    def _look_ahead(self, answer: Future[None]) -> None:
        """Reads what the next wave will need, as far as that can be told before this one is evaluated.

        It walks the same number of visits on from this wave's, then forgets them: only memory changes.
        """
        arena, w, pager = self._arena, self.wave, self._graph.pager
        entries, budget = int(w.counts[wave.ENTRIES]), int(w.counts[wave.VISITS_ASKED])
        counted = arena.counters[arena_kernel.COUNTED].copy()
        rounds = LOOK_AHEAD_ROUNDS
        try:
            while not answer.done() and arena.has_room_for_blocks(SPARE_BLOCK_WORDS):
                if not waves_kernel.look_ahead(
                    arena.tables, arena.arrays, w, pager.filter(), self._root, budget
                ):
                    self._bring(w)
                elif rounds := rounds - 1:
                    budget //= 2
                else:
                    break
        finally:
            waves_kernel.end_look_ahead(w, entries)
            arena.counters[arena_kernel.COUNTED] = counted


def leaves_of(w: wave.WaveArrays) -> BatchArrays:
    """Returns the leaves of a wave as a batch kernel takes them."""
    return BatchArrays(w.leaf_words, w.moves, w.offsets, w.values, w.priors)
