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

from .errors import CapacityError, GraphSearchError, StoreError, UnsavedError
from .graph import Graph
from .kernels import layout
from .kernels.jit import mark_compiled
from .paging import BYTES_PER_NODE
from .params import Limits, SearchParams
from .position import NOT_TERMINAL, key_of, pack, terminal_kind
from .query import NodeView, view
from .store import Store
from .waves import WaveRunner

FIRST_FLUSH_SECONDS, FLUSH_SECONDS = 1.0, 30.0  # between two saves; doubled from the first to the second
FLUSH_NODES = 65_536  # dirty nodes that are saved at once, at most
COPY_BYTES = 300  # of a node while it is written: the copy, and what it is put together in
MERGE_BYTES = 60_000_000  # of a merge step, the decompressors, and what the C library keeps
RESERVED_PARTS = 3  # a budget is at least so many times what is set aside for both
FLUSH_PARTS = 8  # a budget holds so many times what is saved at once
UNLIMITED = 1 << 60
IDLE_VISITS, IDLE_VISITS_PER_NODE = 1_000_000, 100  # without an evaluation: then nothing is left to find


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a search is: what it added, and by `visits` (root N) and `nodes` what the graph holds now.

    With a file (`stored`), `resident` nodes are in memory, which take `ram_bytes`; `read_back` records were
    read from the file, `written` ones saved to it.
    """

    seconds: float
    visits: int
    new_visits: int
    evaluations: int
    catch_ups: int
    collisions: int
    nodes: int
    stored: bool
    resident: int
    ram_bytes: int
    read_back: int
    written: int
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
      bestmove: a certain win, else the most visited move; None if the game is over.
      node: the root with all its moves. nodes: positions in the graph. saved_nodes: records written.
      stop_reason: `visits`, `evaluations`, `time`, `stop`, `memory`, `reader` (another program keeps
        the file's log from being reused), `exhausted` (every position that it goes to is known) or
        `finished` (no moves).
      unkept_visits: visits that ended in a draw by this game's repetitions: counted here, not in the file.
      read_back: records read from the file. problems: what was found damaged in it and passed over.
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
    read_back: int
    problems: list[str]

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
        overlap = bool(params.overlap)
        self.runner = WaveRunner(graph, self.root, params.minibatch_size, overlap=overlap)
        self.run_id: int | None = None
        self.started = time.monotonic()
        self.last_flush = self.started
        self.flush_seconds = FIRST_FLUSH_SECONDS
        self.before = self.arena.counters.copy()
        self.saved_before = graph.saved_nodes
        graph.pager.reserved = 0
        self.flush_nodes = max(1, min(FLUSH_NODES, graph.pager.budget // (BYTES_PER_NODE * FLUSH_PARTS)))
        self.finished = terminal_kind(board) != NOT_TERMINAL
        if graph.store:
            self.arena.reserve_log(2 * self.flush_nodes + self.runner.most_nodes)
            wanted = COPY_BYTES * self.flush_nodes + MERGE_BYTES
            graph.pager.reserved = min(wanted, graph.pager.budget // RESERVED_PARTS)
        self.read_before = graph.pager.read_back
        self.evaluated = self.evaluated_at = 0
        self.stop_reason = ""

    # ---------------------------------------------------------- the loop
    def run(self, on_progress: Callable[[Progress], None] | None, interval: float) -> SearchResult:
        self._begin()
        unsaved: StoreError | None = None
        node: NodeView | None = None
        try:
            try:
                self._know_root()
                self._loop(on_progress, interval)
                self.runner.finish()
            except StoreError as error:
                unsaved = error
            node = self._view(None)  # with the draws by this game's history, which are not kept
            if on_progress:
                on_progress(self.progress())
        finally:
            unsaved = self._end() or unsaved
        result = self._result(node)
        if unsaved is None:
            return result
        failure = UnsavedError(str(unsaved))
        failure.result = result
        raise failure from unsaved

    def _know_root(self) -> None:
        """Evaluates the root if it is new, whatever the limits: there is always something to show."""
        if self.graph.read(self.board) is None:
            self.runner.step(1, UNLIMITED)
            self.runner.finish()

    def _begin(self) -> None:
        self.arena.set_params(self.params)
        self.arena.set_history(history_keys(self.board))
        self.arena.counters[layout.SELDEPTH] = 0
        self.graph.note_root(self.board)
        if self.graph.store:
            self.graph.call(self._begin_run)
        self.arena.set_run(self.run_id or 0)

    def _begin_run(self, store: Store) -> None:
        self.run_id = store.begin_run(self.board.fen(), self.limits.as_dict(), self.params.as_dict())

    def _loop(self, on_progress: Callable[[Progress], None] | None, interval: float) -> None:
        shown = self.started
        while not self._finished():
            try:
                self.runner.step(self._visits_left(), self._evaluations_left())
            except CapacityError:
                self.stop_reason = "memory"
                return
            self._save_if_due()
            now = time.monotonic()
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
        elif self.graph.log_held:
            self.stop_reason = "reader"
        elif self.finished:
            self.stop_reason = "finished"
        elif self._is_exhausted():
            self.stop_reason = "exhausted"
        return bool(self.stop_reason)

    def _is_exhausted(self) -> bool:
        """Returns whether so many visits in a row found nothing to evaluate that no more will."""
        evaluations, visits = self._added(layout.EVALUATIONS), self._added(layout.VISITS)
        if evaluations != self.evaluated:
            self.evaluated, self.evaluated_at = evaluations, visits
        idle = visits - self.evaluated_at
        return idle > IDLE_VISITS and idle > IDLE_VISITS_PER_NODE * self.graph.node_count

    def _visits_left(self) -> int:
        return UNLIMITED if self.limits.visits is None else self.limits.visits - self._added(layout.VISITS)

    def _evaluations_left(self) -> int:
        limit = self.limits.evaluations
        return UNLIMITED if limit is None else limit - self._added(layout.EVALUATIONS)

    def _added(self, counter: int) -> int:
        return int(self.arena.counters[counter] - self.before[counter])

    # ---------------------------------------------------------- saving
    def _save_if_due(self) -> None:
        """Starts to save in the background when it is time; waits only if too much has piled up."""
        if self.graph.store is None:
            return
        dirty = self.arena.dirty_count
        if not self.graph.settle(wait=dirty > 2 * self.flush_nodes):
            return
        now = time.monotonic()
        if dirty >= self.flush_nodes or now - self.last_flush >= self.flush_seconds:
            self.graph.begin_saving(self._noted(finished=False))
            self.last_flush = now
            self.flush_seconds = min(2 * self.flush_seconds, FLUSH_SECONDS)

    def _noted(self, *, finished: bool) -> Callable[[Store], None]:
        """Returns what writes down the state of this run."""
        assert self.run_id is not None
        run, visits, evaluations = self.run_id, self._added(layout.VISITS), self._added(layout.EVALUATIONS)
        if finished:
            return lambda store: store.finish_run(run, visits, evaluations)
        return lambda store: store.update_run(run, visits, evaluations)

    def _end(self) -> StoreError | None:
        """Saves all, and takes back what only this game's history made a draw; returns why saving failed."""
        try:
            if self.graph.store:
                self.graph.flush(self._noted(finished=True))
            mark_compiled()
        except StoreError as error:
            return error
        finally:
            self.runner.close()
            self.arena.take_back_overlay()
            self.arena.forget_overlay()
            self.arena.set_history(np.zeros(0, np.uint64))
        return None

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
            self.graph.node_count,
            self.graph.store is not None,
            self.arena.node_count,
            self.arena.bytes_used,
            self.graph.pager.read_back - self.read_before,
            self.graph.saved_nodes - self.saved_before,
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
            p.read_back,
            self.graph.pager.problems,
        )
