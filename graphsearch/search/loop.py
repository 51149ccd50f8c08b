"""The search in one process: it runs waves until a limit, saves meanwhile, and resumes from the records."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable

import chess
import numpy as np

from ..base.errors import CapacityError, StoreError, UnsavedError, check_argument
from ..base.machine import cores
from ..evaluators.inside import inside
from ..graph import arena_kernel
from ..graph.graph import Graph
from ..graph.saving import Work
from ..graph.view import NodeView
from ..jit.compiler import mark_compiled
from ..store.store import Store
from . import waves_kernel
from .claims import view_in_game
from .forced import ForcedVisits
from .in_flight import search_of
from .job import BatchLimit, Control, OnProgress, SearchJob
from .mates import MateFinder, RootMates
from .params import Limits, SearchParams
from .repetition import Draws
from .results import Progress, SearchResult
from .session import LOAD_SECONDS, SaveClock, Session
from .walkers import walking_threads
from .waves import WaveRunner

LOAD_SHOWN_SECONDS = 0.25
LOADED_SOON = 1_000_000  # nodes: about a second
FIRST_SHOWN_SECONDS = 0.1  # after the start, however long the intervals are
UNLIMITED = 1 << 60
WALK_FROM_VISITS = 10_000  # or evaluations: a tenth of a second; shorter searches always have one thread
ALL_CORES_FROM_VISITS = 100_000  # or evaluations: about a second; shorter searches are repeatable by default
RESUMABLE = {"visits", "evaluations", "time", "stop", "reader"}  # reasons after which a search may be resumed


def analyze(
    graph: Graph,
    board: chess.Board,
    limits: Limits | None = None,
    params: SearchParams | None = None,
    *,
    on_progress: OnProgress | None = None,
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
      board: the position, with the game before it as move stack. Positions that occurred twice in the game
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
      mates: looks for mates during the search (`solvers.mate.beside.MateFinder`); its lines go into the
        records. None, or with `searchmoves`: the search plays the first mate that it proves.

    Raises:
      InvalidPositionError: if the position or one of `searchmoves` is not legal.
      InvalidParameterError: if another argument is of the wrong kind.
      EvaluatorError: if the evaluator fails. Earlier results are saved.
      UnsavedError: if the file cannot be written. Its `result` is the search's result.
      GraphSearchError: if another search is running on the graph.
    """
    check_argument("searchmoves", isinstance(searchmoves, Iterable), searchmoves, "chess.Moves")
    job = SearchJob(
        board=board,
        limits=Limits() if limits is None else limits,
        params=SearchParams() if params is None else params,
        searchmoves=tuple(searchmoves),
        run=run,
        lists=run is None,
        hurry=hurry,
        lines=lines,
    )
    stop = threading.Event() if stop is None else stop
    control = Control(on_progress=on_progress, interval=interval, stop=stop, pace=pace, mates=mates)
    return search(graph, job, control)


def search(graph: Graph, job: SearchJob, control: Control) -> SearchResult:
    """Runs a search, saves the graph and returns the result; `analyze` describes it, and its errors."""
    check_argument("graph", isinstance(graph, Graph), graph, "a Graph")
    with graph.held():
        return GraphSearch(graph, job, control).search()


def _threads_of(graph: Graph, limits: Limits) -> int:
    """Returns the number of threads that make visits: the number requested, but one in a short search.

    The default is all cores, but one in a search that is limited to about a second's visits or evaluations.
    """
    kernel = inside(graph.evaluator)
    least = min((n for n in (limits.visits, limits.evaluations) if n is not None), default=UNLIMITED)
    if kernel is None or least < WALK_FROM_VISITS:
        return 1
    default = cores() if least >= ALL_CORES_FROM_VISITS else 1
    return walking_threads(graph, kernel.threads or default)


class GraphSearch(Session):
    """A search in one process."""

    def __init__(self, graph: Graph, job: SearchJob, control: Control) -> None:
        super().__init__(graph, job, batch=graph.evaluator.batch_size)
        best = frozenset(graph.evaluator.best_moves(job.board) or ())
        asked = frozenset(job.searchmoves)
        self._control = control
        self._listed = asked or best  # at the root; empty: all
        self._draws = (Draws.of(job.board) if len(self.past) else Draws()).among(self._listed)
        self._forces = bool(asked) and asked != best and len(asked) < job.board.legal_moves.count()
        batch, overlap = self.params.minibatch_size, bool(self.params.overlap)
        self._runner = WaveRunner(
            graph, self.root, batch, overlap=overlap, game=self.game, threads=_threads_of(graph, job.limits)
        )
        before = np.concatenate([self.past, *self.game])
        moves = sorted(move.uci() for move in self._listed)
        self._name = search_of(self.root, before, moves=moves, params=self.params.as_dict())
        self._clock = SaveClock(graph, self._runner.most_nodes, job.save_seconds)
        self._run = job.run  # in the file, None until it is inserted
        self._rests_until = 0.0  # nothing is loaded before this time
        finder = control.mates if not self._listed and not self._is_over else None
        self._mates = RootMates(finder, graph, job.board, control.stop) if finder else None

    # ---------------------------------------------------------- the loop
    def search(self) -> SearchResult:
        """Runs the search; see `analyze`."""
        self._begin()
        unsaved: StoreError | None = None
        node: NodeView | None = None
        try:
            try:
                if self.graph.read(self.board) is None:  # there is always a result, whatever the limits
                    self._runner.step(1, UNLIMITED)
                    self._runner.finish()
                self._restrict()
                if self._mates and not self._is_proven():
                    self._mates.find(doubtful=len(self.past) > 0)
                self._resume()  # last: the leaves of a wave in flight must stay unknown
                self._loop()
                self._runner.finish(resumable=self.reason in RESUMABLE)
                if self._mates and self._is_proven():
                    self._show()
                    self._mates.shorten(self._view(0))
            except StoreError as error:
                unsaved = error
            hurried = 1 if self.job.hurry and self.job.lines is None else self.job.lines
            node = self._in_game(hurried)  # with the draws by this game's history, which are not saved
            self._show()
        finally:
            unsaved = self._end() or unsaved
        result = SearchResult.of(
            self.board,
            node,
            self.counts(),
            store=str(self.graph.path) if self.graph.path else None,
            nodes=self.graph.node_count,
            seconds=self.seconds,
            stop_reason=self.reason or "stop",
            problems=self.graph.problems,
        )
        if unsaved is None:
            return result
        raise UnsavedError(str(unsaved), result) from unsaved

    def _begin(self) -> None:
        self.begin(lists=self.job.lists)
        if self._run is None and not self.job.hurry:  # in a hurry, the first save inserts it
            self.graph.call(self._insert_run)
        elif self.graph.log_held:  # of the last save: the reader may have gone since
            self.graph.call(lambda store: None)
        self.arena.set_run(self._run or 0)

    def _insert_run(self, store: Store) -> None:
        self._run = self.begin_run(store)

    def _restrict(self) -> None:
        """Marks the edges that this search may take at the root, if not all; resumes its forced visits."""
        if not self._listed:
            return
        edges = self.list_edges(frozenset(move.uci() for move in self._listed))
        if self._forces:
            self.graph.note_apart(self.board, self._listed)
            counted = self.arena.counters.copy()
            self.forced = ForcedVisits(self.graph, self.board)
            self.forced.catch_up(self._runner, edges, self.job.params)
            free = [arena_kernel.VISITS, arena_kernel.CATCH_UPS, arena_kernel.TERMINALS, arena_kernel.PLIES]
            self.arena.counters[free] = counted[free]  # they do not count towards the limits

    def _resume(self) -> None:
        """Resumes the wave that this search had in flight when it stopped; any other search drops it."""
        kept, self.graph.in_flight = self.graph.in_flight, None
        if kept:
            self._runner.resume(kept, self._name)

    def _loop(self) -> None:
        interval, pace = self._control.interval, self._control.pace
        shown = self.started - interval + min(interval, FIRST_SHOWN_SECONDS)
        while not self._finished():
            if pace:
                self._runner.most_leaves = pace(*self._runner.answered)
            try:
                visits = self.added(arena_kernel.VISITS)
                self._runner.step(*self._left(), self._mates.pause(visits) if self._mates else None)
                if self._mates and self._mates.look(self.added(arena_kernel.VISITS)):
                    self._runner.finish(resumable=False)  # with nothing in flight, the line is learned
                    self._mates.learn()
            except CapacityError:
                self.reason = "memory"
                return
            self._save_if_due()
            self._control.on_slice()
            if time.monotonic() - shown >= interval:
                self._show()
                shown = time.monotonic()
            if self.graph.loader():
                self._load()

    def _left(self) -> tuple[int, int]:
        """Returns the visits and the evaluations that the limits leave."""
        limits = self.job.limits
        visits = UNLIMITED if limits.visits is None else limits.visits - self.added(arena_kernel.VISITS)
        if limits.evaluations is None:
            return visits, UNLIMITED
        return visits, limits.evaluations - self.added(arena_kernel.EVALUATIONS)

    def _load(self) -> None:
        """Reads the file into memory: a small file at once, a large one for half of the time, between waves.

        A short search of a large file thus does not wait for all of it.
        """
        began, shown = time.monotonic(), 0.0
        if began < self._rests_until:
            return
        while self.graph.load_some(LOAD_SECONDS) and self.may_wait():
            loading = self.graph.loading
            is_long = loading is not None and loading.total - loading.done > LOADED_SOON
            if self._control.stop.is_set() or self._control.pace or is_long:
                break
            self._control.on_slice()
            if time.monotonic() - shown >= LOAD_SHOWN_SECONDS:
                self._show()
                shown = time.monotonic()
        loading = self.graph.loading
        if loading and loading.total - loading.done > LOADED_SOON:
            now = time.monotonic()
            self._rests_until = now + (now - began)

    def _finished(self) -> bool:
        """Returns whether the search must stop, and stores the reason."""
        self.reason = self.why_stop(
            self.added(arena_kernel.VISITS),
            self.added(arena_kernel.EVALUATIONS),
            nodes=self.graph.node_count,
            stops=self._control.stop.is_set(),
            is_held=bool(self.graph.log_held),
            is_decided=self._is_proven(),
        )
        return bool(self.reason)

    def _is_proven(self) -> bool:
        """Returns whether the root's result is proven, and with it a move that leads to it."""
        return bool(waves_kernel.is_root_decided(self.arena.tables, self.arena.arrays, self.root))

    # ---------------------------------------------------------- saving
    def _save_if_due(self) -> None:
        """Starts a background save when it is due; waits only if too much is unsaved."""
        if self.graph.store is None:
            return
        dirty = self.arena.dirty_count
        if not self.graph.settle(wait=dirty > 2 * self._clock.nodes):
            return
        if dirty >= self._clock.nodes or self._clock.is_due():
            self.graph.in_flight = self._runner.in_flight(self._name)
            self.graph.begin_saving(self._noted(finished=False))
            self.graph.in_flight = None  # the next wave changes it
            self._clock.begin()

    def _noted(self, *, finished: bool) -> Work:
        """Returns a callback that writes the state of this run and its root; none for a caller's run."""
        if self.job.run is not None:
            return lambda store: None
        counts = self.counts()
        write = self.state_of_run(counts.visits, counts.evaluations, finished=finished, depth=counts.depth)

        def note(store: Store) -> None:
            if self._run is None:
                self._insert_run(store)
            assert self._run is not None
            write(store, self._run)

        return note

    def _end(self) -> StoreError | None:
        """Saves everything, and takes back the forced visits; returns the error if saving failed."""
        self.graph.in_flight = self._runner.in_flight(self._name)
        try:
            if self.graph.store and self.job.hurry and self.job.run is None:
                self.graph.note_later(self._noted(finished=True))
            elif self.graph.store and not self.job.hurry:
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
            self._runner.close()
            self.end()
        return None

    # ---------------------------------------------------------- reporting
    def _show(self) -> None:
        if self._control.on_progress:
            self._control.on_progress(self._progress())

    def _progress(self) -> Progress:
        counts, graph = self.counts(), self.graph
        record = graph.read(self.board)
        return Progress(
            seconds=self.seconds,
            visits=record.visits if record else 0,
            new_visits=counts.visits,
            evaluations=counts.evaluations,
            catch_ups=counts.catch_ups,
            collisions=counts.collisions,
            nodes=graph.node_count,
            stored=graph.store is not None,
            resident=self.arena.node_count,
            ram_bytes=self.arena.bytes_used,
            read_back=counts.read_back,
            written=counts.saved,
            depth=counts.depth,
            seldepth=counts.seldepth,
            loaded=(graph.loading.done, graph.loading.total) if graph.loading else None,
            viewer=self._in_game,
        )

    def _in_game(self, lines: int | None) -> NodeView:
        return self._draws.shown(self._view(lines))

    def _view(self, lines: int | None) -> NodeView:
        first = self._listed or (self._mates.first if self._mates else ())
        node = view_in_game(self.graph.read, self.board, self.past, lines=lines, first=first)
        assert node is not None, "the first wave records the root"
        return node
