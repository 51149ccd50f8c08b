"""Runs the waves of one root: slices of visits inside the kernels, or one wave after the other.

    visits    visit | visit | visit | ...              batches of 1, an evaluator inside the kernels; also in
              visit | visit | visit | ...              several threads
    waves     gather | evaluate | back up | ...        a kernel calls the steps of each wave, or Python, if
                                                       other threads evaluate
    overlap   gather 2 | back up 1 | gather 3 | ...    the next wave is gathered while other threads evaluate
              1 -------|- 2 -----------|- 3 -- ...     one (Overlap)

An evaluator inside the kernels has several threads, which the calling thread helps; any other has one thread,
and only its waves overlap. The waves and their order do not depend on the number or speed of these threads.
Only the calling thread accesses the arena, the others see the leaves; except in visits by several threads,
which share the arena by the locks of `graph/arena_kernel.py`, while Python waits.

A gather that meets positions that may be in the file but are not in memory waits, and continues when they
have been read.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..base.errors import CapacityError
from ..base.system import address_of_yield
from ..evaluators.inside import BatchArrays, Filler, inside
from ..evaluators.protocol import LINE_PLIES, UNIFORM, Evaluator, Lines, PositionBatch
from ..evaluators.protocol import answer as ask
from ..graph import arena_kernel
from ..graph.arena_kernel import (
    COUNTERS,
    FIRST_ROW,
    TURNS,
    ArenaArrays,
    merge_counters,
    new_guards,
    of_thread,
)
from ..graph.graph import Graph
from ..jit.compiler import Bound, bind
from ..jit.types import apart
from ..position.board import CLOCK_BITS, CLOCK_SHIFT, KEY, META, POSITION_WORDS, Words
from ..store.reading import FileArrays
from ..store.record import flags_of
from . import gather_kernel, visit_kernel
from . import wave_kernel as wave

# ------------------------------------------------------------------ leaves
THREAD_FROM = 16  # leaves of the smallest batch that is worth a thread
LEAST_OVERLAP = 2  # leaves of a wave that overlaps: behind a single path no other could see it
# Python takes .3 ms for a wave that other threads evaluate: as long as the fastest evaluator for 32 leaves.
MANY_LEAVES = 32  # of a wave: from here on several threads of an evaluator inside the kernels evaluate it
NEVER = 1 << 60


class LeafEvaluation:
    """Evaluates the leaves of one search's waves.

    Attributes:
      kernel: the evaluator if it is inside the kernels, else None.
      answered: leaves last evaluated at once, or by a slice of waves, and their seconds.
    """

    def __init__(self, evaluator: Evaluator, game: Sequence[NDArray[np.uint64]]) -> None:
        """`game`: packed positions before the root, the latest first, for an evaluator that wants lines."""
        self.kernel = inside(evaluator)
        self.answered = (0, 0.0)
        self._evaluator = evaluator
        self._game = np.concatenate([*game, np.zeros(POSITION_WORDS, np.uint64)]).reshape(-1, POSITION_WORDS)
        self._fillers: dict[int, Filler] = {}
        self._thread: ThreadPoolExecutor | None = None

    @property
    def is_uniform(self) -> bool:
        """Whether the evaluator is `uniform`, so that there is nothing to wait for."""
        return self._evaluator.kernel_kind == UNIFORM

    def run_visits(
        self,
        on: visit_kernel.SearchArrays,
        held: FileArrays | None,
        evaluator: int,
        left: NDArray[np.int64],
    ) -> int:
        """Makes visits, in waves of one leaf, within the limits in `left`; returns the caller's next task.

        Args:
          held: the file, if kernels can read it. evaluator: its number in records.
        """
        bringing = visit_kernel.NOT_BOUND
        if held:
            on = on._replace(F=held[0])
            bringing = visit_kernel.bring_wave(on, held[1])
        return int(visit_kernel.run_visits(*on, bringing, self.bound(on.W), evaluator, left))

    def bound(self, w: wave.WaveArrays) -> Bound:
        """Returns the evaluator's kernel for the leaves of a wave, for kernels that call it."""
        return visit_kernel.NOT_BOUND if self.is_uniform else self.filler(w).call

    @property
    def many(self) -> int:
        """The least leaves of a wave that several threads evaluate, with an evaluator inside the kernels."""
        has_threads = self.kernel is not None and self.kernel.team.count > 1
        return MANY_LEAVES if has_threads and not self.is_uniform else NEVER

    def filler(self, w: wave.WaveArrays) -> Filler:
        """Returns the evaluator's work on the leaves of a wave, which the caller keeps alive."""
        assert self.kernel is not None
        found = self._fillers.get(id(w.values))
        return found or self._fillers.setdefault(id(w.values), Filler(self.kernel, leaves_of(w)))

    def begin(self, w: wave.WaveArrays, leaves: int) -> Future[None]:
        """Starts asking an evaluator outside the kernels about the leaves of a wave, in another thread."""
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "graphsearch-evaluator")
        return self._thread.submit(self._ask, w, leaves)

    def evaluate(self, w: wave.WaveArrays, leaves: int) -> None:
        """Evaluates the leaves of a wave with all threads; raises `EvaluatorError` if that fails."""
        if self.kernel is None:
            self._ask(w, leaves)
            return
        task = self.filler(w).begin(leaves)
        try:
            task.result()
        except BaseException:
            task.cancel()
            raise

    def close(self) -> None:
        """Ends the thread of an evaluator outside the kernels."""
        if self._thread:
            self._thread.shutdown(wait=True, cancel_futures=True)  # an evaluator has one caller at a time

    def _ask(self, w: wave.WaveArrays, leaves: int) -> None:
        offsets = w.offsets[: leaves + 1]
        count = int(offsets[-1])
        batch = PositionBatch(
            w.leaf_words[: 10 * leaves].reshape(leaves, 10).copy(),
            w.moves[:count].copy(),
            offsets.copy(),
            self._lines(w, leaves) if self._evaluator.wants_lines else None,
        )
        begin = time.perf_counter()
        answer = ask(self._evaluator, batch)
        self.answered = leaves, time.perf_counter() - begin
        w.priors[:count] = answer.priors
        w.values[0 : 2 * leaves : 2] = answer.v
        w.values[1 : 2 * leaves : 2] = answer.wdl[:, 1]
        w.leaf_flags[:leaves] = wave.UNPROVEN_FLAGS if answer.bounds is None else flags_of(answer.bounds)

    def _lines(self, w: wave.WaveArrays, leaves: int) -> Lines:
        """Returns the lines to the leaves: each by the path that reached it first, then the game before."""
        entries = int(w.counts[wave.ENTRIES])
        rows = w.words.reshape(-1, wave.ENTRY_WORDS)[:entries]
        words = np.concatenate([rows[:, :POSITION_WORDS], self._game])
        unknown = len(words) - 1
        before = np.minimum(np.arange(1, len(words) + 1), unknown)
        before[:entries] = rows[:, wave.PARENT].view(np.int64)
        before[before < 0] = entries
        clocks = (words[:, META] >> np.uint64(CLOCK_SHIFT) & np.uint64(CLOCK_BITS)).astype(np.int64)
        path = [w.leaf_entry[:leaves]]
        while len(path) < LINE_PLIES:
            path.append(before[path[-1]])
        line = np.stack(path, axis=1)
        most = int(clocks[line].max())
        for _ in range(most):
            path.append(before[path[-1]])
        keys = words[:, KEY][np.stack(path, axis=1)]
        repeated = np.zeros(line.shape, bool)
        for back in range(4, most + 1, 2):
            repeated |= (back <= clocks[line]) & (keys[:, back : back + LINE_PLIES] == keys[:, :LINE_PLIES])
        return Lines(words[line], repeated & (line != unknown))


def leaves_of(w: wave.WaveArrays) -> BatchArrays:
    """Returns the leaves of a wave as the arrays of a batch kernel."""
    return BatchArrays(w.leaf_words, w.moves, w.offsets, w.values, w.priors)


# ------------------------------------------------------------------ threads
MOST_THREADS = 128  # a note counts them in 8 bits
WALK_FROM = 64  # visits that are worth starting threads
SPARE_SHARE = 3  # at most 1/3 of the block addresses may be kept free for visits under way


def walking_threads(graph: Graph, wanted: int) -> int:
    """Returns the number of threads to use, at most `wanted`: each needs addresses for its longest visit."""
    room = len(graph.arena.arrays.blocks) // SPARE_SHARE // wave.SPARE_BLOCK_WORDS
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
          evaluator: its number in records. first: the wave of one of the threads. count: of threads.
        """
        self._graph, self._root, self._leaves, self._evaluator = graph, root, leaves, evaluator
        self._waves = [first, *(wave.new_wave(1) for _ in range(count - 1))]
        self._guards = new_guards(count, address_of_yield())
        self._counters = [apart(COUNTERS, np.int64) for _ in self._waves]
        self._arenas: list[ArenaArrays] = []  # of each thread, while they walk
        self._codes = [0] * count
        self._held: Sequence[FileArrays | None] = ()  # the file, for each thread, while they walk

    def walk(self, turns: int, serve: Callable[[wave.WaveArrays, int], None], until: float) -> None:
        """Makes `turns` visits with all threads; fewer if requests are served until `until` (perf_counter).

        After an exception of a thread or of `serve`, which serves a wave's request, nothing is under way.
        """
        pager, self._guards[TURNS] = self._graph.pager, turns
        try:
            while asks := self._run():
                waiting = (w for w in self._waves if w.counts[wave.STAGE] != wave.NOT_WAITING)
                pager.under_way = tuple(wave.slots_of(w) for w in waiting)
                for w, code in asks:
                    serve(w, code)
                if time.perf_counter() > until:
                    self._guards[TURNS] = 0
        except BaseException:
            for w in self._waves:  # its visits leave no trace
                wave.drop_leaves(w)
            self._guards[FIRST_ROW:] = 0
            self._guards[TURNS] = 0
            raise
        finally:
            pager.under_way = ()

    def _run(self) -> list[tuple[wave.WaveArrays, int]]:
        """Runs the threads until no turns are left or one has a request; returns (wave, request) pairs."""
        kernel, arena = self._leaves.kernel, self._graph.arena
        assert kernel is not None
        with self._graph.pager.reading(len(self._waves)) as held:
            self._held = held
            self._arenas = [of_thread(arena.arrays, self._guards, own) for own in self._counters]
            job = kernel.team.begin(self._walk, len(self._waves))
            try:
                job.result()
            except BaseException:
                self._join(job.cancel)
                raise
            finally:
                for own in self._counters:
                    merge_counters(arena.counters, own)
        asks = [(w, code) for w, code in zip(self._waves, self._codes, strict=True) if code]
        return [(w, code) for w, code in asks if self._guards[TURNS] > 0 or code == visit_kernel.NO_RECORDS]

    def _join(self, wait: Callable[[], None]) -> None:
        """Ends the turns and waits for all threads, even after Ctrl-C: they write records."""
        while True:
            self._guards[TURNS] = 0
            try:
                return wait()
            except KeyboardInterrupt:
                continue

    def _walk(self, number: int) -> None:
        """Makes visits with one of the waves until no turns are left, or the caller has to act."""
        tables, filters = self._graph.arena.tables, self._graph.pager.filter()
        arrays = tables, self._arenas[number], self._waves[number], filters, self._root
        on, left = visit_kernel.SearchArrays(*arrays), visit_kernel.new_limits(NEVER, NEVER, NEVER)
        self._codes[number] = self._leaves.run_visits(on, self._held[number], self._evaluator, left)
        if self._codes[number]:
            self._guards[TURNS] = 0


# ------------------------------------------------------------------ waves
SLICE_SECONDS = 0.03  # of a slice of waves with an evaluator inside the kernels
FIRST_VISITS = 64  # of the first slice: at most a few milliseconds
BYTES_PER_LEAF = 600  # memory of a wave for each leaf: its record, its parents' blocks, records read back
ONE_VISIT = 0  # in place of a wave's target
QUIET_EVERY = 64  # overlapped waves until one lands with nothing in flight: then memory can be put in order


@dataclass(frozen=True, slots=True)
class _Flying:
    """A gathered wave that is being evaluated."""

    wave: wave.WaveArrays
    leaves: int
    answer: Future[None]


class WaveRunner:
    """Runs the waves of one root on one graph.

    Attributes:
      wave: the wave that is gathered first.
      leaves: what evaluates their leaves.
      most_leaves: of the next wave, if fewer than a batch.
      most_nodes: the most nodes that the waves under way may create or change.
    """

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
          game: as for `LeafEvaluation`. threads: of visits, with batches of 1 inside the kernels.
        """
        self._graph, self._arena = graph, graph.arena
        self._evaluator = graph.evaluator_number
        self._root, self._batch = root, batch
        self.leaves = LeafEvaluation(graph.evaluator, game)
        self._inside = self.leaves.kernel is not None
        self._is_single = self._inside and batch == 1
        self._overlaps = overlap and not self._inside and batch >= THREAD_FROM
        self._threads = threads if self._is_single else 1
        self.most_leaves = batch
        self.most_nodes = (self._threads + self._overlaps) * wave.entries_for(batch)
        self._arena.most_notes = self._threads * visit_kernel.OVERLAY_PER_WAVE
        self.wave = wave.new_wave(batch)
        self._spare: wave.WaveArrays | None = None  # created for a second wave
        self._wave_bytes = wave.bytes_of(self.wave)
        self._most_entries = self._flown = 0
        self._flying: _Flying | None = None
        first = max(1, FIRST_VISITS // batch)
        self._waves_per_slice = first if self._have_room(first) else 1
        self._visits_at_room = -1
        walks = graph, root, self.leaves, self._evaluator, self.wave
        self._walkers = Walkers(*walks, self._threads) if self._threads > 1 else None

    def close(self) -> None:
        """Drops the waves in flight and ends the thread of an evaluator outside the kernels."""
        self.leaves.close()
        self._keep(None)

    def step(self, visits: int, evaluations: int, pause: int | None = None) -> None:
        """Runs a wave, or about 30 ms of waves inside the kernels, until the first that reaches a limit.

        It also returns at the first complete wave after `pause` visits, which changes no wave. With overlap
        the visits of a wave are completed by the next step, or by `finish`.

        Raises:
          CapacityError: if there is no memory left, or a count has reached its limit.
          EvaluatorError: if the evaluator fails; the waves in flight are dropped.
          StoreError: if the file cannot be read, or not written when memory has to be freed.
        """
        counters = self._arena.counters
        before = int(counters[arena_kernel.VISITS])
        if self._flying:
            self._follow(self._flying, visits, evaluations)
        elif self._inside:
            self._run_slice(visits if pause is None else min(visits, pause), evaluations)
        else:
            self._run_wave()
        if counters[arena_kernel.VISITS] == before and not self._flying and not self._is_single:
            self.visit_alone()  # positions on a cycle refused each other's visits, and would do so again
        if counters[arena_kernel.OVERFLOWS]:
            raise CapacityError("a visit count has reached 2**32 - 1")

    def finish(self) -> None:
        """Waits for the wave in flight and completes it.

        Raises:
          EvaluatorError: if the evaluator fails; the wave in flight is dropped.
        """
        if self._flying:
            self._land(self._flying)

    @property
    def _target(self) -> int:
        """The most leaves of the next wave."""
        return min(self._batch, self.most_leaves)

    # ---------------------------------------------------------- one wave after the other
    def _run_wave(self) -> None:
        """Gathers a wave with nothing in flight; sends it off, or evaluates and completes it."""
        self.make_room(1)
        leaves = self.gather()
        if leaves and self._overlaps and self._target >= LEAST_OVERLAP:
            self._flown = 1
            self._send_off(self.wave, leaves)
            return
        if leaves:
            self.leaves.evaluate(self.wave, leaves)
        self._complete(self.wave)

    def gather(self) -> int:
        """Gathers one wave into `wave`, with nothing in flight and room made; returns its leaves.

        Visits without an evaluation are completed at once.
        """
        return self._gather(self.wave, self._target)

    def drop(self) -> None:
        """Drops the gathered wave: its leaves are not evaluated, and no visit stays in flight."""
        wave.drop_leaves(self.wave)

    def visit_alone(self, *, is_known: bool = False) -> None:
        """Makes one visit with nothing in flight; `is_known`: one that needs no evaluation, as is expected.

        Batches of 1 make it even if it needs one, by the kernel of all their visits: compiling another one in
        a game would cost several moves. Larger waves drop it then.
        """
        self.make_room(1)
        if self._is_single:
            self._run_alone(1, 1)
        elif (leaves := self._gather(self.wave, ONE_VISIT)) and is_known:
            self.drop()
        else:
            if leaves:
                self.leaves.evaluate(self.wave, leaves)
            self._complete(self.wave)

    def _gather(self, w: wave.WaveArrays, target: int) -> int:
        kernel, arguments = self._gatherer(w, target)
        while (leaves := int(kernel(*arguments))) < 0:
            self._serve(w, leaves)
            kernel, arguments = self._gatherer(w, target)
        return leaves

    def _gatherer(self, w: wave.WaveArrays, target: int) -> tuple[Callable[..., int], tuple[Any, ...]]:
        """Returns the kernel that gathers a wave, and its arguments."""
        on = self._arrays(w)
        if target == ONE_VISIT or self._batch == 1:
            return visit_kernel.gather_one, on
        return gather_kernel.gather, (*on, target)

    def _complete(self, w: wave.WaveArrays) -> int:
        return int(visit_kernel.complete(self._arena.tables, self._arena.arrays, w, self._evaluator))

    def _arrays(self, w: wave.WaveArrays) -> visit_kernel.SearchArrays:
        arena, filters = self._arena, self._graph.pager.filter()
        return visit_kernel.SearchArrays(arena.tables, arena.arrays, w, filters, self._root)

    # ---------------------------------------------------------- waves inside the kernels
    def _run_slice(self, visits: int, evaluations: int) -> None:
        """Runs a slice of waves: as many as take about 30 ms."""
        self.make_room(self._waves_per_slice)
        turns = min(visits, evaluations, self._waves_per_slice)
        begin, counters = time.perf_counter(), self._arena.counters
        known, done = int(counters[arena_kernel.EVALUATIONS]), int(counters[arena_kernel.VISITS])
        if self._walkers and turns >= WALK_FROM:
            self._walkers.walk(turns, self._serve, begin + SLICE_SECONDS)
            if counters[arena_kernel.VISITS] == done:  # no thread had space
                self._make_more_room()
        else:
            self._run_alone(visits, evaluations)
        spent = time.perf_counter() - begin
        self.leaves.answered = int(counters[arena_kernel.EVALUATIONS]) - known, spent
        is_whole = counters[arena_kernel.VISITS] - done >= turns  # no thread had to ask for anything
        if is_whole and spent < SLICE_SECONDS / 2 and self._have_room(2 * self._waves_per_slice):
            self._waves_per_slice *= 2
        elif spent > SLICE_SECONDS:
            self._waves_per_slice = max(1, self._waves_per_slice // 2)

    def _run_alone(self, visits: int, evaluations: int) -> None:
        """Runs a slice in this thread; others help to evaluate waves of many leaves."""
        w, until = self.wave, time.perf_counter() + SLICE_SECONDS
        left = visit_kernel.new_limits(visits, evaluations, self._waves_per_slice, self.leaves.many)
        while code := self._run_kernel(w, left):
            if code > 0:
                self.leaves.evaluate(w, code)
                left[: visit_kernel.MANY] -= self._complete(w), code, 1
                if w.counts[wave.DECIDED]:
                    return
            else:
                self._serve(w, code)
            if time.perf_counter() > until:  # the caller's part took time that was not foreseen
                left[visit_kernel.WAVES] = min(left[visit_kernel.WAVES], 1)

    def _run_kernel(self, w: wave.WaveArrays, left: NDArray[np.int64]) -> int:
        """Runs waves inside a kernel, within the limits in `left`; returns the caller's next task."""
        if self._is_single:
            with self._graph.pager.reading() as (held,):
                return self.leaves.run_visits(self._arrays(w), held, self._evaluator, left)
        kernel, arguments = self._gatherer(w, self._target)
        gathering = bind(kernel, *arguments)
        completing = bind(visit_kernel.complete, *arguments[:3], self._evaluator)
        return int(gather_kernel.run_waves(w, gathering, self.leaves.bound(w), completing, left))

    # ---------------------------------------------------------- waves that overlap
    def _follow(self, flying: _Flying, visits: int, evaluations: int) -> None:
        """Gathers the wave behind the one in flight, lands that, and sends the new one off within limits.

        If the wave in flight reaches a limit, the new one is dropped; its visits without an evaluation count.
        """
        self._flown += 1
        reached = int(self._arena.counters[arena_kernel.VISITS]) + visits
        then = self._gather_behind(flying.wave) if self._flown % QUIET_EVERY else None
        left = min(reached - int(self._arena.counters[arena_kernel.VISITS]), evaluations)
        self._land(flying, then if left > flying.leaves else None)

    def _gather_behind(self, before: wave.WaveArrays) -> tuple[wave.WaveArrays, int] | None:
        """Returns the next wave, gathered with one in flight, and its leaves; None without leaves or room."""
        try:
            self.make_room(1)
        except CapacityError:
            return None
        if self._spare is None:
            self._spare = wave.new_wave(self._batch)
        w = self._spare if before is self.wave else self.wave
        leaves = self._gather(wave.behind(w, before), self._target)
        return (w, leaves) if leaves else None

    def _send_off(self, w: wave.WaveArrays, leaves: int) -> None:
        """Starts the evaluation of a gathered wave in other threads."""
        self._keep(_Flying(w, leaves, self.leaves.begin(w, leaves)))

    def _land(self, flying: _Flying, then: tuple[wave.WaveArrays, int] | None = None) -> None:
        """Waits for the wave in flight, sends the next one off, then completes the first."""
        self._keep(None)
        flying.answer.result()
        if then:
            self._send_off(*then)
        self._complete(flying.wave)

    def _keep(self, flying: _Flying | None) -> None:
        """Stores the wave in flight; its records stay in memory."""
        self._flying = flying
        self._graph.pager.under_way = (wave.slots_of(flying.wave),) if flying else ()

    # ---------------------------------------------------------- room
    def make_room(self, waves: int = 1) -> None:
        """Makes room for so many more waves; raises `CapacityError` if there is not enough."""
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
        """Grows the arena; fails if no visit was completed since it last grew."""
        visits = int(self._arena.counters[arena_kernel.VISITS])
        self.make_room(1)
        if visits == self._visits_at_room:
            raise CapacityError(f"cannot get more memory for the graph of {self._graph.node_count} nodes")
        self._visits_at_room = visits

    def _serve(self, w: wave.WaveArrays, code: int) -> None:
        """Serves a kernel's request: makes room, or reads records."""
        if code == visit_kernel.NO_SPACE:
            self._make_more_room()
        else:
            self._graph.pager.bring(wave.missing_positions(w), wave.slots_of(w))
