"""The search: waves until a limit, saved as it goes, resumed from whatever the graph already knows."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import chess
import chess.polyglot
import numpy as np
from numpy.typing import NDArray

from .errors import CapacityError, EvaluatorError, GraphSearchError, StoreError, UnsavedError
from .evaluators import Evaluation, PositionBatch, checked
from .graph import Graph
from .kernels import evaluation, layout, run, wave
from .kernels.jit import mark_compiled
from .kernels.kinds import EXTERNAL
from .params import Limits, SearchParams
from .position import NOT_TERMINAL, key_of, pack, terminal_kind
from .query import NodeView, view
from .store import Store

FIRST_FLUSH_SECONDS, FLUSH_SECONDS = 1.0, 30.0  # between two saves; doubled from the first to the second
FLUSH_NODES = 200_000  # dirty nodes; saving them takes under a second
SLICE_SECONDS = 0.03  # how long kernels run before the loop looks up
UNLIMITED = 1 << 60
EVALUATOR_NUMBER = 1  # of the one evaluator that a file is bound to; 0 is the rules (terminal records)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a search is: what it added, and by `visits` (root N) and `nodes` what the graph holds now."""

    seconds: float
    visits: int
    new_visits: int
    evaluations: int
    catch_ups: int
    collisions: int
    nodes: int
    depth: int
    seldepth: int
    visits_per_s: float
    evaluations_per_s: float
    viewer: Callable[[int | None], NodeView]

    def node(self, multipv: int | None = None) -> NodeView:
        """Returns the root as it is now, with lines for the best `multipv` moves (None: all)."""
        return self.viewer(multipv)


@dataclass(frozen=True, slots=True)
class SearchResult:
    """What a search found and added.

    Attributes:
      position: FEN. key: the graph's key. store: the file, None for memory only.
      visits: root N now. new_visits, evaluations, catch_ups, collisions: what this search added.
      depth: mean plies of a visit. seldepth: most plies. seconds: wall time, saving included.
      bestmove: the most visited move; None if the game is over.
      node: the root with all its moves. nodes: positions in the graph. saved_nodes: records written.
      stop_reason: `visits`, `evaluations`, `time`, `stop`, `memory` or `finished` (no moves).
      unkept_visits: visits that ended in a draw by this game's repetitions: counted here, not in the file.
    """

    position: str
    key: int
    store: str | None
    visits: int
    new_visits: int
    evaluations: int
    catch_ups: int
    collisions: int
    depth: int
    seldepth: int
    seconds: float
    bestmove: chess.Move | None
    node: NodeView
    nodes: int
    saved_nodes: int
    stop_reason: str
    unkept_visits: int

    def as_dict(self) -> dict[str, Any]:
        """Returns the JSON object of `graphsearch analyze`."""
        return {
            "position": self.position,
            "key": f"{self.key:016x}",
            "store": self.store,
            "visits": self.visits,
            "new_visits": self.new_visits,
            "evaluations": self.evaluations,
            "catch_ups": self.catch_ups,
            "collisions": self.collisions,
            "depth": self.depth,
            "seldepth": self.seldepth,
            "seconds": self.seconds,
            "bestmove": self.bestmove.uci() if self.bestmove else None,
            "moves": [move.as_dict() for move in self.node.moves],
        }


def search(
    graph: Graph,
    board: chess.Board,
    limits: Limits | None = None,
    params: SearchParams | None = None,
    *,
    on_progress: Callable[[Progress], None] | None = None,
    interval: float = 0.5,
    stop: threading.Event | None = None,
) -> SearchResult:
    """Searches a position and returns what is known about it then; all of it is saved.

    Args:
      graph: what is known already is the start; limits count what is added.
      board: the position, with its game as move stack: positions that stood twice in it count as draws.
      limits: when to stop; without any, only `stop` ends it.
      params: search parameters; default: `SearchParams()`.
      on_progress: called about every `interval` seconds, and once at the end.
      interval: seconds between two calls.
      stop: set it, from any thread or a signal handler, to finish the wave, save and return.

    Raises:
      InvalidPositionError: if the position is not legal.
      EvaluatorError: if the evaluator fails; what was found until then is saved.
      UnsavedError: if the file cannot be written; its `result` is what was found.
      GraphSearchError: if another search is running on the graph.
    """
    graph.check_open()
    if not graph.searching.acquire(blocking=False):
        raise GraphSearchError("a search is running on this graph already; one at a time")
    try:
        session = _Session(
            graph, board, limits or Limits(), params or SearchParams(), stop or threading.Event()
        )
        return session.run(on_progress, interval)
    finally:
        graph.searching.release()


def history_keys(board: chess.Board) -> NDArray[np.uint64]:
    """Returns the Polyglot keys of positions that stood twice or more before the last position of a game.

    Only what came after the last irreversible move can return.

    >>> board = chess.Board()
    >>> for san in "Nf3 Nf6 Ng1 Ng8 Nf3 Nf6 Ng1".split():
    ...     _ = board.push_san(san)
    >>> len(history_keys(board))  # the start position, and those after Nf3 and Nf3 Nf6
    3
    """
    game = board.copy()
    counts: Counter[int] = Counter()
    while game.move_stack and game.halfmove_clock:
        game.pop()
        counts[chess.polyglot.zobrist_hash(game)] += 1
    return np.array([key for key, count in counts.items() if count >= 2], np.uint64)


class _Session:
    """One search of one root."""

    def __init__(
        self, graph: Graph, board: chess.Board, limits: Limits, params: SearchParams, stop: threading.Event
    ) -> None:
        self.graph = graph
        self.board = board
        self.limits = limits
        self.params = params
        self.stop = stop
        self.root = pack(board)
        self.arena = graph.arena
        self.wave = wave.new_wave(params.minibatch_size, evaluation.EVALUATION_SCRATCH_WORDS)
        self.waves_per_slice = 1
        self.run_id: int | None = None
        self.started = time.monotonic()
        self.last_flush = self.started
        self.flush_seconds = FIRST_FLUSH_SECONDS
        self.before = self.arena.counters.copy()
        self.saved_before = graph.saved_nodes
        self.stop_reason = ""
        self.visits_at_room = -1

    # ---------------------------------------------------------- the loop
    def run(self, on_progress: Callable[[Progress], None] | None, interval: float) -> SearchResult:
        self._begin()
        unsaved: StoreError | None = None
        node: NodeView | None = None
        try:
            try:
                self._know_root()
                self._loop(on_progress, interval)
            except StoreError as error:
                unsaved = error
            node = self._view(None)  # with the draws by this game's history, which are not kept
            if on_progress:
                on_progress(self.progress())
        finally:
            unsaved = self._end(save=unsaved is None) or unsaved
        result = self._result(node)
        if unsaved is None:
            return result
        failure = UnsavedError(str(unsaved))
        failure.result = result
        raise failure from unsaved

    def _know_root(self) -> None:
        """Evaluates the root if it is new, whatever the limits: there is always something to show."""
        if not self.arena.slot(self.board):
            self._step(visits=1)

    def _begin(self) -> None:
        self.arena.set_params(self.params)
        self.arena.set_history(history_keys(self.board))
        self.arena.counters[layout.SELDEPTH] = 0
        self.graph.note_root(self.board)
        if self.graph.store:
            self.run_id = self.graph.store.begin_run(
                self.board.fen(), self.limits.as_dict(), self.params.as_dict()
            )

    def _loop(self, on_progress: Callable[[Progress], None] | None, interval: float) -> None:
        shown = self.started
        while not self._finished():
            try:
                self._step()
            except CapacityError:
                self.stop_reason = "memory"
                return
            now = time.monotonic()
            if self._flush_due(now):
                self.graph.flush(self._note_run)
                self.last_flush = time.monotonic()
                self.flush_seconds = min(2 * self.flush_seconds, FLUSH_SECONDS)
            if on_progress and now - shown >= interval:
                on_progress(self.progress())
                shown = now

    def _finished(self) -> bool:
        """Returns whether a limit is reached, and notes which."""
        if self._visits_left() <= 0:
            self.stop_reason = "visits"
        elif self._evaluations_left() <= 0:
            self.stop_reason = "evaluations"
        elif self.limits.seconds is not None and time.monotonic() - self.started >= self.limits.seconds:
            self.stop_reason = "time"
        elif self.stop.is_set():
            self.stop_reason = "stop"
        elif terminal_kind(self.board) != NOT_TERMINAL and self.arena.slot(self.board):
            self.stop_reason = "finished"
        return bool(self.stop_reason)

    def _visits_left(self) -> int:
        return UNLIMITED if self.limits.visits is None else self.limits.visits - self._added(layout.VISITS)

    def _evaluations_left(self) -> int:
        limit = self.limits.evaluations
        return UNLIMITED if limit is None else limit - self._added(layout.EVALUATIONS)

    def _added(self, counter: int) -> int:
        return int(self.arena.counters[counter] - self.before[counter])

    # ---------------------------------------------------------- waves
    def _step(self, visits: int | None = None) -> None:
        visits = visits or self._visits_left()
        if self.graph.evaluator.kernel_kind == EXTERNAL:
            self._external_wave(visits)
        else:
            self._kernel_waves(visits)
        if self.arena.counters[layout.OVERFLOWS]:
            raise CapacityError("a visit count has reached 2**32 - 1")

    def _make_room(self) -> None:
        """Lets the arena grow; fails if nothing was searched since it last did: that did not help then."""
        visits = int(self.arena.counters[layout.VISITS])
        self.arena.make_room(wave.ENTRIES_PER_LEAF * self.params.minibatch_size + wave.SPARE_ENTRIES)
        if visits == self.visits_at_room:
            raise CapacityError(f"no more memory can be had for the graph of {self.arena.node_count} nodes")
        self.visits_at_room = visits

    def _kernel_waves(self, visits: int) -> None:
        """Runs a slice of waves inside the kernels, as many as take some 30 ms."""
        evaluator = self.graph.evaluator
        weights = getattr(evaluator, "weights", _NO_WEIGHTS)
        left = np.array([visits, self._evaluations_left(), self.waves_per_slice], np.int64)
        begin = time.monotonic()
        batch = self.params.minibatch_size
        while (
            run.run(
                self.arena.tables,
                self.arena.arrays,
                self.wave,
                self.root,
                weights,
                evaluator.kernel_kind,
                EVALUATOR_NUMBER,
                batch,
                left,
            )
            == run.NEEDS_SPACE
        ):
            self._make_room()
        spent = time.monotonic() - begin
        if spent < SLICE_SECONDS / 2:
            self.waves_per_slice *= 2
        elif spent > SLICE_SECONDS:
            self.waves_per_slice = max(1, self.waves_per_slice // 2)

    def _external_wave(self, visits: int) -> None:
        """Gathers a wave, has its leaves evaluated outside, and completes it."""
        target = min(self.params.minibatch_size, visits, self._evaluations_left())
        tables, arrays = self.arena.tables, self.arena.arrays
        while (leaves := run.gather(tables, arrays, self.wave, self.root, target, visits)) < 0:
            self._make_room()
            arrays = self.arena.arrays
        if leaves:
            self._evaluate(int(leaves))
        run.complete(tables, arrays, self.wave, EVALUATOR_NUMBER)

    def _evaluate(self, leaves: int) -> None:
        w = self.wave
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
            return checked(batch, self.graph.evaluator.evaluate(batch))
        except GraphSearchError:
            raise
        except Exception as error:
            raise EvaluatorError(f"the evaluator failed: {type(error).__name__}: {error}") from error

    # ---------------------------------------------------------- saving
    def _flush_due(self, now: float) -> bool:
        if self.graph.store is None:
            return False
        return self.arena.dirty_count >= FLUSH_NODES or now - self.last_flush >= self.flush_seconds

    def _note_run(self, store: Store) -> None:
        assert self.run_id is not None
        store.update_run(self.run_id, self._added(layout.VISITS), self._added(layout.EVALUATIONS))

    def _end(self, *, save: bool) -> StoreError | None:
        """Saves all, and takes back what only this game's history made a draw; returns why saving failed."""
        try:
            if self.graph.store and save:
                self.graph.flush(self._note_end)
            mark_compiled()
        except StoreError as error:
            return error
        finally:
            self.arena.take_back_overlay()
            self.arena.forget_overlay()
            self.arena.set_history(np.zeros(0, np.uint64))
        return None

    def _note_end(self, store: Store) -> None:
        assert self.run_id is not None
        store.finish_run(self.run_id, self._added(layout.VISITS), self._added(layout.EVALUATIONS))

    # ---------------------------------------------------------- reporting
    def progress(self) -> Progress:
        seconds = time.monotonic() - self.started
        visits = self._added(layout.VISITS)
        evaluations = self._added(layout.EVALUATIONS)
        record = self.graph.read(self.board)
        return Progress(
            seconds,
            record.visits if record else 0,
            visits,
            evaluations,
            self._added(layout.CATCH_UPS),
            self._added(layout.COLLISIONS),
            self.arena.node_count,
            round(self._added(layout.PLIES) / visits) if visits else 0,
            int(self.arena.counters[layout.SELDEPTH]),
            visits / seconds if seconds else 0.0,
            evaluations / seconds if seconds else 0.0,
            self._view,
        )

    def _view(self, lines: int | None) -> NodeView:
        node = view(self.graph.read, self.board, lines=lines)
        assert node is not None, "the first wave records the root"
        return node

    def _result(self, node: NodeView | None) -> SearchResult:
        assert node is not None
        p = self.progress()
        return SearchResult(
            self.board.fen(),
            key_of(self.board),
            str(self.graph.path) if self.graph.path else None,
            node.visits,
            p.new_visits,
            p.evaluations,
            p.catch_ups,
            p.collisions,
            p.depth,
            p.seldepth,
            p.seconds,
            node.moves[0].move if node.moves else None,
            node,
            p.nodes,
            self.graph.saved_nodes - self.saved_before,
            self.stop_reason or "stop",
            self._added(layout.HISTORY_DRAWS),
        )


_NO_WEIGHTS = np.zeros(1, np.int64)
