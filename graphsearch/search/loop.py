"""The search: waves until a limit, saved on the way, resumed from the graph's records."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import replace

import chess
import numpy as np

from ..errors import CapacityError, GraphSearchError, InvalidPositionError, StoreError, UnsavedError
from ..evaluators.inside import inside
from ..evaluators.lines import LINE_PLIES
from ..graph import arena_kernel
from ..graph.graph import Graph
from ..graph.saving import flush_nodes
from ..graph.view import NodeView
from ..jit.compiler import mark_compiled
from ..position.board import (
    NOT_TERMINAL,
    fen_of,
    game_before,
    history_keys,
    key_text,
    legal_moves,
    pack,
    settled,
    terminal_kind,
)
from ..position.notation import read_uci
from ..store.store import Store
from ..store.tables import history
from . import waves_kernel
from .claims import view_in_game
from .forced import ForcedVisits
from .in_flight import search_of
from .mates import MateFinder, RootMates
from .params import Limits, SearchParams
from .results import Progress, SearchResult
from .settings import set_listed, set_params
from .waves import WaveRunner

FIRST_FLUSH_SECONDS, FLUSH_SECONDS = 10.0, 30.0  # between two saves: the first time, and at most
FLUSH_GROWTH = 3  # from one interval to the next: what changes in both is written twice
COPY_BYTES = 200  # of a node while it is written: its copy, and the sort order
MERGE_BYTES = 60_000_000  # of a merge step: the decompressors, and memory that the C library keeps
RESERVED_PARTS = 3  # a budget is at least so many times the memory reserved for both
LOAD_SECONDS = 0.05  # of reading the file in order, between two checks of the clock
LOAD_SHOWN_SECONDS = 0.25
LOADED_SOON = 1_000_000  # nodes: about a second
FIRST_SHOWN_SECONDS = 0.1  # from the beginning, however long the intervals are
UNLIMITED = 1 << 60
BatchLimit = Callable[[int, float], int]
GOES_ON = {"visits", "evaluations", "time", "stop", "reader"}  # reasons after which a search may be resumed
IDLE_VISITS, IDLE_VISITS_PER_NODE = 1_000_000, 100  # without an evaluation: then nothing is left to find


def analyze(
    graph: Graph,
    board: chess.Board,
    limits: Limits | None = None,
    params: SearchParams | None = None,
    *,
    on_progress: Callable[[Progress], None] | None = None,
    interval: float = 0.5,
    stop: threading.Event | None = None,
    searchmoves: Iterable[chess.Move] = (),
    pace: BatchLimit | None = None,
    hurry: bool = False,
    lines: int | None = None,
    run: int | None = None,
    mates: MateFinder | None = None,
) -> SearchResult:
    """Searches a position, saves the graph and returns the result.

    Args:
      graph: the graph that the search continues; limits count additions to it.
      board: the position, with the game before it as move stack. Positions that stood twice in the game
        count as draws.
      limits: when to stop; without any, only `stop` ends the search.
      params: search parameters; default: `SearchParams()`.
      on_progress: called soon after the beginning, then about every `interval` seconds, and once at the end.
      interval: seconds between two calls.
      stop: set it, from any thread or a signal handler, to finish the wave, save and return.
      searchmoves: search only these moves of the position; default: all moves, or the best ones if tablebases
        know them. The other moves keep their visits from earlier searches. The result counts the visits of
        these moves; the graph does not keep them on the position's edges, unless tablebases list the same
        moves, but keeps everything found below them.
      pace: called before each wave, or slice of waves, with the number of leaves last evaluated and their
        seconds (0, 0.0 at first); returns the most leaves of the next waves.
      hurry: return before everything is saved, if nothing has been unsaved for long. The caller must then
        call `Graph.save_soon`, `begin_saving` or `close`.
      lines: how many of the best moves get a line in the result; None: all, or one in a hurry.
      run: number of a run of the file that the caller has begun and will finish. The search is part of it,
        and its root is not listed in the file. None: the search is a run of its own.
      mates: looks for mates beside the search (`solvers.mate.beside.MateFinder`); its lines go into the
        records. None, or with `searchmoves`: the search plays the first mate that it proves.

    Raises:
      InvalidPositionError: if the position or one of `searchmoves` is not legal.
      EvaluatorError: if the evaluator fails. Earlier results are saved.
      UnsavedError: if the file cannot be written. Its `result` is the search's result.
      GraphSearchError: if another search is running on the graph.
    """
    graph.check_open()
    if not graph.searching.acquire(blocking=False):
        raise GraphSearchError("another search is running on this graph; run one at a time")
    try:
        board = settled(board)
        listed, best = _legal(board, searchmoves), frozenset(moves_of_tables(graph, board))
        session = _Session(
            graph,
            board,
            limits=limits or Limits(),
            params=params or SearchParams(),
            stop=stop or threading.Event(),
            listed=listed or best,
            forces=bool(listed) and listed != best and len(listed) < board.legal_moves.count(),
            pace=pace,
            hurry=hurry,
            lines=1 if hurry and lines is None else lines,
            joined=run,
            mates=mates,
        )
        return session.search(on_progress, interval)
    finally:
        graph.searching.release()


def _legal(board: chess.Board, moves: Iterable[chess.Move]) -> frozenset[chess.Move]:
    """Returns moves in the position's own notation; castling may be given in either form.

    Raises:
      InvalidPositionError: if one is not legal.
    """
    try:
        found = frozenset(read_uci(board, move.uci()) for move in moves)
    except ValueError as error:
        raise InvalidPositionError(f"not a legal move: {error}") from None
    if chess.Move.null() in found:
        raise InvalidPositionError(f"a null move is not a legal move of {fen_of(board)}")
    return found


def moves_of_tables(graph: Graph, board: chess.Board) -> list[chess.Move]:
    """Returns the best moves of a position that the evaluator's tablebases know; empty if they do not."""
    return graph.evaluator.best_moves(board) or []


class _Session:
    """One search of one root; `analyze` describes its arguments.

    Attributes:
      listed: the moves that it may take at the root; empty: all.
      forced: the visits of its root that are not saved; None if it forces none, or not yet.
      joined: the caller's run of the file, None if the search is a run of its own.
      run_id: number of the run in the file, None until it is inserted.
    """

    def __init__(
        self,
        graph: Graph,
        board: chess.Board,
        *,
        limits: Limits,
        params: SearchParams,
        stop: threading.Event,
        listed: frozenset[chess.Move],
        forces: bool,
        pace: BatchLimit | None,
        hurry: bool,
        lines: int | None,
        joined: int | None,
        mates: MateFinder | None,
    ) -> None:
        self.graph = graph
        self.board = board
        self.limits = limits
        self.params = params
        self.stop = stop
        self.listed = listed
        self.forces = forces
        self.forced: ForcedVisits | None = None
        self.pace = pace
        self.hurry = hurry
        self.lines = lines
        self.joined = joined
        self.root = pack(board)
        self.past = history_keys(board)
        self.arena = graph.arena
        filled = params.with_batch(graph.evaluator.batch_size)
        set_params(self.arena, filled)  # first: it decides which waves overlap
        overlap = bool(params.overlap)
        game = game_before(board, LINE_PLIES - 1) if graph.evaluator.wants_lines else ()
        self.runner = WaveRunner(graph, self.root, filled.minibatch_size, overlap=overlap, game=game)
        moves = sorted(move.uci() for move in listed)
        before = np.concatenate([self.past, *game])
        self.name = search_of(self.root, before, moves=moves, params=filled.as_dict())
        self.run_id = joined
        self.started = time.monotonic()
        self.last_flush = self.started
        self.flush_seconds = FIRST_FLUSH_SECONDS
        self.before = self.arena.counters.copy()
        self.saved_before = graph.saved_nodes
        graph.pager.reserved = 0
        self.flush_nodes = flush_nodes(graph.pager.budget)
        self.is_over = terminal_kind(board) != NOT_TERMINAL
        if graph.store:
            self.arena.reserve_log(2 * self.flush_nodes, spare=self.runner.most_nodes)
            wanted = COPY_BYTES * self.flush_nodes + MERGE_BYTES
            graph.pager.reserved = min(wanted, graph.pager.budget // RESERVED_PARTS)
        self.read_before = graph.pager.read_back
        self.evaluated = self.evaluated_at = 0
        self.stop_reason = ""
        self.rests_until = 0.0  # nothing is loaded before
        asked = mates if not listed and not self.is_over else None
        self.mates = RootMates(asked, graph, board, stop) if asked else None

    # ---------------------------------------------------------- the loop
    def search(self, on_progress: Callable[[Progress], None] | None, interval: float) -> SearchResult:
        self._begin()
        unsaved: StoreError | None = None
        node: NodeView | None = None
        try:
            try:
                self._know_root()
                self._restrict()
                if self.mates:
                    self.mates.find(self._view(0))
                self._resume()  # after that: the leaves of a wave in flight must stay unknown
                self._loop(on_progress, interval)
                self.runner.finish(goes_on=self.stop_reason in GOES_ON)
                if self.mates and self._is_proven():
                    if on_progress:
                        on_progress(self.progress())
                    self.mates.shorten(self._view(0))
            except StoreError as error:
                unsaved = error
            node = self._view(self.lines)  # with the draws by this game's history, which are not saved
            if on_progress:
                on_progress(self.progress())
        finally:
            unsaved = self._end() or unsaved
        result = self._result(node)
        if unsaved is None:
            return result
        raise UnsavedError(str(unsaved), result) from unsaved

    def _know_root(self) -> None:
        """Evaluates the root if it is new, whatever the limits: there is always a result."""
        if self.graph.read(self.board) is None:
            self.runner.step(1, UNLIMITED)
            self.runner.finish()

    def _resume(self) -> None:
        """Resumes the wave that this search had in flight when it stopped; any other search drops it."""
        kept, self.graph.in_flight = self.graph.in_flight, None
        if kept:
            self.runner.resume(kept, self.name)

    def _restrict(self) -> None:
        """Marks the edges that this search may take at the root, if not all; resumes its forced visits."""
        if not self.listed:
            return
        record = self.graph.read(self.board)
        assert record is not None, "the first wave records the root"
        moves = legal_moves(self.board)
        edges = [k for k, i in enumerate(record.order) if moves[i] in self.listed]
        set_listed(self.arena, edges)
        if self.forces:
            counted = self.arena.counters.copy()
            self.forced = ForcedVisits(self.graph, self.board)
            self.forced.catch_up(self.runner, edges, self.params)
            free = [arena_kernel.VISITS, arena_kernel.CATCH_UPS, arena_kernel.TERMINALS, arena_kernel.PLIES]
            self.arena.counters[free] = counted[free]  # they do not count towards the limits

    def _begin(self) -> None:
        self.graph.begin_search(self.board, lists=self.joined is None)
        self.arena.set_history(self.past)
        self.arena.counters[arena_kernel.SELDEPTH] = 0
        if self.joined is None and self.graph.store and not self.hurry:
            self.graph.call(self._begin_run)
        self.arena.set_run(self.run_id or 0)

    def _begin_run(self, store: Store) -> None:
        """Inserts this run into the file; in a hurry that waits for its first save."""
        self.run_id = store.begin_run(fen_of(self.board), self.limits.as_dict(), self.params.as_dict())

    def _loop(self, on_progress: Callable[[Progress], None] | None, interval: float) -> None:
        shown = self.started - interval + min(interval, FIRST_SHOWN_SECONDS)
        while not self._finished():
            if self.pace:
                self.runner.most_leaves = self.pace(*self.runner.answered)
            try:
                self.runner.step(self._visits_left(), self._evaluations_left(), self._pause())
                self._look_for_mates()
            except CapacityError:
                self.stop_reason = "memory"
                return
            self._save_if_due()
            now = time.monotonic()
            if on_progress and now - shown >= interval:
                on_progress(self.progress())
                shown = now
            if self.graph.loader():
                self._load(on_progress)

    def _load(self, on_progress: Callable[[Progress], None] | None) -> None:
        """Reads the file into memory: whole if the search has the time, else a while between its waves.

        Under a clock a reading that takes long has half of the time.
        """
        began, shown = time.monotonic(), 0.0
        if began < self.rests_until:
            return
        while self.graph.load_some(LOAD_SECONDS) and self._may_wait():
            now = time.monotonic()
            if on_progress and now - shown >= LOAD_SHOWN_SECONDS:
                on_progress(self.progress())
                shown = now
        loading = self.graph.loading
        if self.pace and loading and loading.total - loading.done > LOADED_SOON:
            now = time.monotonic()
            self.rests_until = now + (now - began)

    def _may_wait(self) -> bool:
        """Returns whether the search may wait for the file: with a time limit, for half of it."""
        if self.stop.is_set() or self.pace:
            return False
        limit = self.limits.seconds
        return limit is None or time.monotonic() - self.started < limit / 2

    def _pause(self) -> int:
        """Returns the visits after which a slice of waves ends for the mate finder."""
        pause = self.mates.pause(self._added(arena_kernel.VISITS)) if self.mates else None
        return UNLIMITED if pause is None else pause

    def _look_for_mates(self) -> None:
        """Continues the mate finder; its line is learned when nothing is in flight."""
        if self.mates and self.mates.look(self._added(arena_kernel.VISITS)):
            self.runner.finish(goes_on=False)
            self.mates.learn()

    def _finished(self) -> bool:
        """Returns whether a limit is reached, and stores which."""
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
        elif self.is_over:
            self.stop_reason = "finished"
        elif self._is_proven():
            self.stop_reason = "proven"
        elif self._is_exhausted():
            self.stop_reason = "exhausted"
        return bool(self.stop_reason)

    def _is_proven(self) -> bool:
        """Returns whether the root's result is proven, and with it a move that leads to it."""
        return bool(waves_kernel.is_root_decided(self.arena.tables, self.arena.arrays, self.root))

    def _is_exhausted(self) -> bool:
        """Returns whether so many visits in a row found nothing to evaluate that no more will."""
        evaluations, visits = self._added(arena_kernel.EVALUATIONS), self._added(arena_kernel.VISITS)
        if evaluations != self.evaluated:
            self.evaluated, self.evaluated_at = evaluations, visits
        idle = visits - self.evaluated_at
        return idle > IDLE_VISITS and idle > IDLE_VISITS_PER_NODE * self.graph.node_count

    def _visits_left(self) -> int:
        return (
            UNLIMITED if self.limits.visits is None else self.limits.visits - self._added(arena_kernel.VISITS)
        )

    def _evaluations_left(self) -> int:
        limit = self.limits.evaluations
        return UNLIMITED if limit is None else limit - self._added(arena_kernel.EVALUATIONS)

    def _added(self, counter: int) -> int:
        return int(self.arena.counters[counter] - self.before[counter])

    # ---------------------------------------------------------- saving
    def _save_if_due(self) -> None:
        """Starts a background save when it is due; waits only if too much is unsaved."""
        if self.graph.store is None:
            return
        dirty = self.arena.dirty_count
        if not self.graph.settle(wait=dirty > 2 * self.flush_nodes):
            return
        now = time.monotonic()
        is_late = self.graph.saves_meanwhile and now - self.last_flush >= self.flush_seconds
        if dirty >= self.flush_nodes or is_late:
            self.graph.in_flight = self.runner.in_flight(self.name)
            self.graph.begin_saving(self._noted(finished=False))
            self.graph.in_flight = None  # the next wave changes it
            self.last_flush = now
            self.flush_seconds = min(FLUSH_GROWTH * self.flush_seconds, FLUSH_SECONDS)

    def _noted(self, *, finished: bool) -> Callable[[Store], None]:
        """Returns a callback that writes the state of this run and its root; none for a caller's run."""
        visits, evaluations = self._added(arena_kernel.VISITS), self._added(arena_kernel.EVALUATIONS)
        values = self.graph.root_values(self.board) if self.joined is None else None
        depth = self._depth()

        def note(store: Store) -> None:
            if self.joined is not None:
                return
            if self.run_id is None:
                self._begin_run(store)
            assert self.run_id is not None
            update = store.finish_run if finished else store.update_run
            update(self.run_id, visits, evaluations)
            if values:
                history.write(store, self.run_id, replace(values, depth=depth))

        return note

    def _end(self) -> StoreError | None:
        """Saves everything, and takes back the forced visits; returns the error if saving failed."""
        self.graph.in_flight = self.runner.in_flight(self.name)
        try:
            if self.graph.store and self.hurry and self.joined is None:
                self.graph.note_later(self._noted(finished=True))
            elif self.graph.store and not self.hurry:
                self.graph.flush(self._noted(finished=True))
                lost = self.graph.store.left_out_error()
                if lost:
                    return lost
            mark_compiled()
            if kernel := inside(self.graph.evaluator):
                mark_compiled(kernel.purpose)
        except StoreError as error:
            return error
        finally:
            self.runner.close()
            set_listed(self.arena, None)
            self.arena.take_back_overlay()
            self.arena.forget_overlay()
            if self.forced:
                self.forced.end()
            self.arena.set_history(np.zeros(0, np.uint64))
        return None

    # ---------------------------------------------------------- reporting
    def progress(self) -> Progress:
        seconds = time.monotonic() - self.started
        visits = self._added(arena_kernel.VISITS)
        evaluations = self._added(arena_kernel.EVALUATIONS)
        record = self.graph.read(self.board)
        return Progress(
            seconds=seconds,
            visits=record.visits if record else 0,
            new_visits=visits,
            evaluations=evaluations,
            catch_ups=self._added(arena_kernel.CATCH_UPS),
            collisions=self._added(arena_kernel.COLLISIONS),
            nodes=self.graph.node_count,
            stored=self.graph.store is not None,
            resident=self.arena.node_count,
            ram_bytes=self.arena.bytes_used,
            read_back=self.graph.pager.read_back - self.read_before,
            written=self.graph.saved_nodes - self.saved_before,
            depth=self._depth(),
            seldepth=int(self.arena.counters[arena_kernel.SELDEPTH]),
            visits_per_s=visits / seconds if seconds else 0.0,
            evaluations_per_s=evaluations / seconds if seconds else 0.0,
            loaded=(self.graph.loading.done, self.graph.loading.total) if self.graph.loading else None,
            viewer=self._view,
        )

    def _depth(self) -> int:
        """Returns the mean plies of the visits so far."""
        visits = self._added(arena_kernel.VISITS)
        return round(self._added(arena_kernel.PLIES) / visits) if visits else 0

    def _view(self, lines: int | None) -> NodeView:
        first = self.listed or (self.mates.first if self.mates else ())
        node = view_in_game(self.graph.read, self.board, self.past, lines=lines, first=first)
        assert node is not None, "the first wave records the root"
        return node

    def _result(self, node: NodeView | None) -> SearchResult:
        assert node is not None
        p = self.progress()
        return SearchResult(
            position=fen_of(self.board),
            key=key_text(self.board),
            store=str(self.graph.path) if self.graph.path else None,
            visits=node.visits,
            new_visits=p.new_visits,
            evaluations=p.evaluations,
            catch_ups=p.catch_ups,
            collisions=p.collisions,
            depth=p.depth,
            seldepth=p.seldepth,
            seconds=p.seconds,
            bestmove=node.moves[0].move if node.moves else None,
            node=node,
            nodes=p.nodes,
            saved_nodes=self.graph.saved_nodes - self.saved_before,
            stop_reason=self.stop_reason or "stop",
            unkept_visits=self._added(arena_kernel.HISTORY_DRAWS),
            read_back=p.read_back,
            problems=self.graph.problems,
        )
