"""Running waves: inside the kernels, or step by step around an evaluator that is not one.

    kernels   gather | evaluate | back up | gather | ...             a slice of waves at a time
    outside   gather | evaluate ------------------ | back up | ...
                       look ahead: read what the next wave needs     while the evaluator is at work

A gather that meets positions which the file may hold and memory does not waits at that level, and goes on
when they have been read.
"""

from __future__ import annotations

import time
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from .errors import CapacityError, EvaluatorError, GraphSearchError
from .evaluators import Evaluation, PositionBatch, checked
from .graph import Graph
from .kernels import evaluation, layout, run, wave
from .kernels.kinds import BUILTIN, EXTERNAL

SLICE_SECONDS = 0.03  # how long kernels run before the loop looks up
EVALUATOR_NUMBER = 1  # of the one evaluator that a file is bound to; 0 is the rules (terminal records)
BYTES_PER_LEAF = 600  # what a wave takes for each leaf: its record, its parents' blocks, records read back
LOOK_AHEAD_ROUNDS = 4  # each of half the visits of the one before
LOOK_AHEAD_FROM = 16  # leaves of a batch that make it worth a thread

_NO_WEIGHTS = np.zeros(1, np.int64)


class WaveRunner:
    """Waves of one root on one graph."""

    def __init__(self, graph: Graph, root: NDArray[np.uint64], batch: int) -> None:
        """Makes the working memory for waves of up to `batch` leaves; `root` is a packed position."""
        self._graph = graph
        self._arena = graph.arena
        self._root = root
        self._batch = batch
        self._wave = wave.new_wave(batch, evaluation.EVALUATION_SCRATCH_WORDS)
        self._waves_per_slice = 1
        self._visits_at_room = -1
        self._thread: ThreadPoolExecutor | None = None

    def close(self) -> None:
        """Ends the thread of the evaluator."""
        if self._thread:
            self._thread.shutdown(wait=False)

    def step(self, visits: int, evaluations: int) -> None:
        """Runs a wave, or some 30 ms of them, of at most so many visits and evaluations.

        Raises:
          CapacityError: if there is no memory left, or a count has reached its limit.
          EvaluatorError: if the evaluator fails; the wave is dropped.
          StoreError: if the file cannot be read, or not written when memory has to be freed.
        """
        kind = self._graph.evaluator.kernel_kind
        if kind == EXTERNAL or (kind == BUILTIN and self._looks_ahead):
            self._make_room(1)
            self._outside_wave(visits, evaluations)
        else:
            self._slice(visits, evaluations)
        if self._arena.counters[layout.OVERFLOWS]:
            raise CapacityError("a visit count has reached 2**32 - 1")

    # ---------------------------------------------------------- room
    @property
    def most_nodes(self) -> int:
        """The most nodes that a wave may make or change."""
        return wave.ENTRIES_PER_LEAF * self._batch + wave.SPARE_ENTRIES

    def _make_room(self, waves: int) -> None:
        self._graph.make_room(self.most_nodes, waves * self._batch * BYTES_PER_LEAF)

    def _make_more_room(self) -> None:
        """Lets the arena grow; fails if nothing was searched since it last did: that did not help then."""
        visits = int(self._arena.counters[layout.VISITS])
        self._make_room(1)
        if visits == self._visits_at_room:
            raise CapacityError(f"no more memory can be had for the graph of {self._graph.node_count} nodes")
        self._visits_at_room = visits

    def _serve(self, code: int) -> None:
        """Does what a kernel returned for: makes room, or reads records."""
        if code == run.NO_SPACE:
            self._make_more_room()
        else:
            self._graph.pager.bring(self._wave)

    # ---------------------------------------------------------- inside the kernels
    def _slice(self, visits: int, evaluations: int) -> None:
        """Runs a slice of waves inside the kernels, as many as take some 30 ms."""
        evaluator, pager = self._graph.evaluator, self._graph.pager
        weights = getattr(evaluator, "weights", _NO_WEIGHTS)
        self._make_room(self._waves_per_slice)
        left = np.array([visits, evaluations, self._waves_per_slice], np.int64)
        begin = time.monotonic()
        while code := run.run(
            self._arena.tables,
            self._arena.arrays,
            self._wave,
            pager.filter(),
            self._root,
            weights,
            evaluator.kernel_kind,
            EVALUATOR_NUMBER,
            self._batch,
            left,
        ):
            self._serve(int(code))
        spent = time.monotonic() - begin
        if spent < SLICE_SECONDS / 2 and self._may_lengthen():
            self._waves_per_slice *= 2
        elif spent > SLICE_SECONDS:
            self._waves_per_slice = max(1, self._waves_per_slice // 2)

    def _may_lengthen(self) -> bool:
        """Returns whether a slice twice as long takes a small part of the memory."""
        return 2 * self._waves_per_slice * self._batch * BYTES_PER_LEAF < self._graph.pager.budget // 16

    # ---------------------------------------------------------- around an evaluator
    def _outside_wave(self, visits: int, evaluations: int) -> None:
        """Gathers a wave, has its leaves evaluated outside, and completes it."""
        target = min(self._batch, visits, evaluations)
        leaves = self._gather(target, visits)
        if leaves:
            self._evaluate(leaves)
        run.complete(self._arena.tables, self._arena.arrays, self._wave, EVALUATOR_NUMBER)

    def _gather(self, target: int, visits: int) -> int:
        arena, pager = self._arena, self._graph.pager
        while True:
            leaves = run.gather(
                arena.tables, arena.arrays, self._wave, pager.filter(), self._root, target, visits
            )
            if leaves >= 0:
                return int(leaves)
            self._serve(int(leaves))

    def _evaluate(self, leaves: int) -> None:
        """Fills in what the evaluator says of the leaves, reading ahead meanwhile if that pays."""
        evaluate = self._by_kernel if self._graph.evaluator.kernel_kind == BUILTIN else self._by_call
        if not self._looks_ahead:
            evaluate(leaves)
            return
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "graphsearch-evaluator")
        answer = self._thread.submit(evaluate, leaves)
        self._look_ahead(answer)
        answer.result()

    def _by_kernel(self, leaves: int) -> None:
        evaluator = self._graph.evaluator
        weights = getattr(evaluator, "weights", _NO_WEIGHTS)
        kind, temperature = evaluator.kernel_kind, float(self._arena.arrays.floats[layout.TEMPERATURE])
        run.evaluate(self._arena.tables, self._wave, weights, kind, temperature)

    def _by_call(self, leaves: int) -> None:
        w = self._wave
        offsets = w.offsets[: leaves + 1]
        count = int(offsets[-1])
        batch = PositionBatch(
            w.leaf_words[: 10 * leaves].reshape(leaves, 10).copy(), w.moves[:count].copy(), offsets.copy()
        )
        answer = self._answer(batch)
        w.priors[:count] = answer.priors
        w.values[0 : 2 * leaves : 2] = answer.wdl[:, 0] - answer.wdl[:, 2]
        w.values[1 : 2 * leaves : 2] = answer.wdl[:, 1]

    def _answer(self, batch: PositionBatch) -> Evaluation:
        """Returns the evaluator's checked answer; what goes wrong in it is an EvaluatorError."""
        try:
            return checked(batch, self._graph.evaluator.evaluate(batch))
        except GraphSearchError:
            raise
        except Exception as error:
            raise EvaluatorError(f"the evaluator failed: {type(error).__name__}: {error}") from error

    # ---------------------------------------------------------- looking ahead
    @property
    def _looks_ahead(self) -> bool:
        """Whether records have to be read, for batches that are worth a thread."""
        return self._batch >= LOOK_AHEAD_FROM and not self._graph.pager.complete

    def _look_ahead(self, answer: Future[None]) -> None:
        """Reads what the next wave will need, as far as that can be told before this one is evaluated.

        It walks the same number of visits on from this wave's, then forgets them: only memory changes.
        """
        arena, w, pager = self._arena, self._wave, self._graph.pager
        entries, budget = int(w.counts[wave.ENTRIES]), int(w.counts[wave.VISITS_ASKED])
        counted = arena.counters[layout.COUNTED].copy()
        rounds = LOOK_AHEAD_ROUNDS
        try:
            while not answer.done() and arena.has_spare_room():
                if not run.look_ahead(arena.tables, arena.arrays, w, pager.filter(), self._root, budget):
                    pager.bring(w)
                elif rounds := rounds - 1:
                    budget //= 2
                else:
                    break
        finally:
            run.end_look_ahead(w, entries)
            arena.counters[layout.COUNTED] = counted
