"""The search: it runs waves until a limit, saves meanwhile, and resumes from the records."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from typing import Any

import chess
import numpy as np
from numpy.typing import NDArray

from ..base.errors import CapacityError, StoreError, UnsavedError
from ..base.system import cores
from ..evaluators.inside import inside, purpose_of
from ..evaluators.protocol import LINE_PLIES
from ..graph import arena_kernel
from ..graph.arena_kernel import OVERLAY_EDGE_BITS, OVERLAY_SLOT_SHIFT
from ..graph.graph import Graph
from ..graph.saving import Work
from ..graph.view import NodeView
from ..jit.compiler import mark_compiled
from ..position.board import (
    NOT_TERMINAL,
    after,
    fen_of,
    game_before,
    history_keys,
    is_over_by_clock,
    key_text,
    legal_moves,
    pack,
    terminal_kind,
)
from ..position.openings import opening_of
from ..store.ranking import node_mean
from ..store.record import NodeRecord
from ..store.store import Store
from ..store.tables import history
from .job import BatchLimit, Control, Finding, OnProgress, SearchClock, SearchJob
from .params import Limits, SearchParams
from .puct import exploration_term, fpu, least_decided, openness
from .repetition import Draws, view_in_game
from .results import Counts, Progress, SearchResult, TableLine
from .visit_kernel import is_root_decided, set_listed, set_params
from .waves import WaveRunner, walking_threads

FLUSH_SECONDS = 30.0  # between two saves: a node that changes in both intervals is written twice
END_CPU_SECONDS, NODE_CPU_SECONDS = 0.1, 5e-7  # from the last visit to the end; more for each changed node
LOAD_SECONDS = 0.05  # of reading the file in order, between two slices of the search
IDLE_VISITS, IDLE_VISITS_PER_NODE = 1_000_000, 100  # without an evaluation: nothing is left to find
VISITS_PER_EVALUATION = 100  # beside IDLE_VISITS, of a limit of evaluations: hardly anything is left
UNLIMITED = 1 << 60
WALK_FROM_VISITS = 10_000  # or evaluations: a tenth of a second; shorter searches always have one thread
ALL_CORES_FROM_VISITS = 100_000  # or evaluations: about a second; shorter searches are repeatable by default


def analyze(
    graph: Graph,
    board: chess.Board,
    limits: Limits | None = None,
    params: SearchParams | None = None,
    *,
    on_progress: OnProgress | None = None,
    interval: float = 0.5,
    stop: threading.Event | None = None,
    searchmoves: Iterable[chess.Move] | None = None,
    pace: BatchLimit | None = None,
    hurry: bool = False,
    lines: int | None = None,
    run: int | None = None,
    mates: Finding | None = None,
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
      mates: makes what looks for mates during the search, such as `solvers.mate.beside.MateFinder`; its lines
        go into the records. None, or with `searchmoves`: the search plays the first mate that it proves.

    Raises:
      InvalidPositionError: if the position or one of `searchmoves` is not legal.
      InvalidParameterError: if limits, parameters or `searchmoves` are of another class.
      EvaluatorError: if the evaluator fails. Earlier results are saved.
      UnsavedError: if the file cannot be written. Its `result` is the search's result.
      GraphSearchError: if another search is running on the graph.
    """
    job = SearchJob(
        board=board,
        limits=Limits() if limits is None else limits,
        params=SearchParams() if params is None else params,
        searchmoves=tuple(searchmoves or ()),
        run=run,
        lists=run is None,
        hurry=hurry,
        lines=lines,
        mates=mates,
    )
    stop = threading.Event() if stop is None else stop
    return search(graph, job, Control(on_progress=on_progress, interval=interval, stop=stop, pace=pace))


def search(graph: Graph, job: SearchJob, control: Control) -> SearchResult:
    """Runs a search as `analyze` describes it."""
    with graph.held():
        return GraphSearch(graph, job, control).search()


def _threads_of(graph: Graph, limits: Limits) -> int:
    """Returns the number of threads that make visits: one in a short search, else by default all cores."""
    kernel = inside(graph.evaluator)
    least = min((n for n in (limits.visits, limits.evaluations) if n is not None), default=UNLIMITED)
    if kernel is None or least < WALK_FROM_VISITS:
        return 1
    default = cores() if least >= ALL_CORES_FROM_VISITS else 1
    return walking_threads(graph, kernel.threads or default)


class GraphSearch:
    """One search of one root on one graph.

    Attributes:
      root, past: packed root; keys of the positions before it that occurred twice.
      params: with a batch size in place of AUTO.
      reason: why the search has ended; empty before that.
      forced: the forced visits; None if there are none, or none yet.
    """

    def __init__(self, graph: Graph, job: SearchJob, control: Control) -> None:
        self.graph, self.arena, self.job, self.board = graph, graph.arena, job, job.board
        self.root, self.past = pack(self.board), history_keys(self.board)
        graph.evaluator.heed(control.stop)
        self.params = job.params.with_batch(graph.evaluator.batch_size)
        set_params(self.arena.arrays, self.params)  # before waves are made: it decides which of them overlap
        game = game_before(self.board, LINE_PLIES - 1) if graph.evaluator.wants_lines else []
        self.reason = ""
        self.forced: ForcedVisits | None = None
        self._clock = SearchClock(job.limits, control)
        self._before = self.arena.counters.copy()
        self._saved_before, self._read_before = graph.saved_nodes, graph.pager.read_back
        self._found_at = 0, int(self._before[arena_kernel.VISITS])  # evaluations, visits at the latest one
        self._is_over = terminal_kind(self.board) != NOT_TERMINAL or is_over_by_clock(self.board)
        best = frozenset(graph.evaluator.best_moves(job.board) or ())
        is_all = len({*job.searchmoves}) == job.board.legal_moves.count()
        asked = frozenset(() if is_all and not best else job.searchmoves)  # all moves: as without a list
        self._control = control
        self._listed = asked or best  # at the root; empty: all
        self._by_tables = bool(best) and not asked  # they know the answer: one visit for each listed move
        self._draws = Draws.of(job.board, self._listed)
        self._forces = bool(asked) and asked != best and not is_all
        batch, overlap = self.params.minibatch_size, bool(self.params.overlap)
        self._runner = WaveRunner(
            graph, self.root, batch, overlap=overlap, game=game, threads=_threads_of(graph, job.limits)
        )
        graph.reserve_saves(self._runner.most_nodes)
        self._saved_at, self._unsaved = time.monotonic(), 0  # dirty nodes that could not be saved then
        self._run = job.run  # in the file, None until it is inserted
        self._reserved = 0  # the number of a run that the next save inserts
        self._mates: Any = None
        if job.mates and not self._listed and not self._is_over:
            self._mates = job.mates(graph, job.board, job.limits, control.stop)

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
                self._loop()
                self._runner.finish()
                if self._mates and self._is_proven():
                    self._show()
                    self._mates.shorten(self._view(0))
            except StoreError as error:
                unsaved = error
            self.graph.leave_lost_file()
            hurried = 1 if self.job.hurry and self.job.lines is None else self.job.lines
            node = self._in_game(hurried)  # with the draws by this game's history, which are not saved
            self._show()
        finally:
            unsaved = self._end() or unsaved
        result = SearchResult(
            **asdict(self.counts()),
            position=fen_of(self.board),
            key=key_text(self.board),
            opening=opening_of(self.board),
            node=node,
            store=str(self.graph.path) if self.graph.path else None,
            nodes=self.graph.node_count,
            stop_reason=self.reason or "stop",
            evaluator=self.graph.evaluator.identity.describe(),
            parameters={k: "inf" if v == float("inf") else v for k, v in self.params.as_dict().items()},
            tablebase=self._table_line(node),
            problems=self.graph.problems,
        )
        if unsaved is None:
            return result
        raise UnsavedError(str(unsaved), result) from unsaved

    def _table_line(self, node: NodeView) -> TableLine | None:
        """Returns the answer of tables to the root, with a line that begins with its best move."""
        if not self._by_tables:
            return None
        found = self.graph.evaluator.best_line(self.board, node.moves[0].move if node.moves else None)
        return None if found is None else TableLine(found[0], tuple(found[1]))

    def _begin(self) -> None:
        self.graph.begin_search(self.board, lists=self.job.lists)
        self.arena.set_history(self.past)
        self.arena.counters[arena_kernel.SELDEPTH] = 0
        if self._run is None and not self.job.hurry:
            self.graph.call(self._insert_run)
        elif self.graph.log_held:  # of the last save: the reader may have gone since
            self.graph.call(lambda store: None)
        if self._run is None and self.graph.store:  # in a hurry: the next save inserts the run
            self._reserved = self.graph.store.reserve_run()
            self.graph.note_later(self._insert_run)
        self.arena.arrays.ints[arena_kernel.RUN] = self._run or self._reserved

    def _insert_run(self, store: Store) -> None:
        if self._run is None:
            limits, params = self.job.limits.as_dict(), self.job.params.as_dict()
            self._run = store.begin_run(fen_of(self.board), limits, params, run=self._reserved or None)

    def _restrict(self) -> None:
        """Marks the edges that this search may take at the root; resumes its forced visits."""
        if not self._listed:
            return
        record = self.graph.read(self.board)
        assert record is not None, "the first wave records the root"
        legal = legal_moves(self.board)
        edges = [k for k, i in enumerate(record.order) if legal[i] in self._listed]
        set_listed(self.arena.arrays, edges)
        if self._forces:
            self.graph.note_apart(self.board, self._listed)
            counted = self.arena.counters.copy()
            self.forced = ForcedVisits(self.graph, self.board)
            self.forced.catch_up(self._runner, edges, self.job.params)
            free = [arena_kernel.VISITS, arena_kernel.CATCH_UPS, arena_kernel.TERMINALS, arena_kernel.PLIES]
            self.arena.counters[free] = counted[free]  # they do not count towards the limits

    def _loop(self) -> None:
        pace = self._control.pace
        while not self._finished():
            if pace:
                self._runner.most_leaves = pace(*self._runner.leaves.answered)
            try:
                visits = self.added(arena_kernel.VISITS)
                self._runner.step(*self._left(), self._mates.pause(visits) if self._mates else None)
                if self._mates and self._mates.look(self.added(arena_kernel.VISITS)):
                    self._runner.finish()  # with nothing in flight, the line is learned
                    self._mates.learn()
            except CapacityError:
                self.reason = "memory"
                return
            self._save_if_due()
            self._control.on_slice()
            self._clock.tell(self._progress)
            self.graph.load_some(LOAD_SECONDS, self._clock.left, self._reads_left())

    def _reads_left(self) -> float:
        """Returns the single reads up to the limits of visits and evaluations, at the rate so far."""
        counters = arena_kernel.VISITS, arena_kernel.EVALUATIONS
        rest = min(left / max(1, self.added(one)) for left, one in zip(self._left(), counters, strict=True))
        return rest * (self.graph.pager.read_back - self._read_before)

    def _left(self) -> tuple[int, int]:
        """Returns the visits and the evaluations that the limits leave."""
        limits = self.job.limits
        visits = UNLIMITED if limits.visits is None else limits.visits - self.added(arena_kernel.VISITS)
        if self._by_tables:
            visits = min(visits, max(1, self._untried()))
        if limits.evaluations is None:
            return visits, UNLIMITED
        return visits, limits.evaluations - self.added(arena_kernel.EVALUATIONS)

    # ---------------------------------------------------------- limits
    def _finished(self) -> bool:
        """Returns whether the search must stop, and stores the reason."""
        visits, evaluations = self.added(arena_kernel.VISITS), self.added(arena_kernel.EVALUATIONS)
        reasons = {
            "reader": bool(self.graph.log_held),  # it keeps the file's log from being reused
            "finished": self._is_over,
            "tablebase": self._by_tables and not self._untried(),
            "proven": self._is_proven(),
            "exhausted": self._is_exhausted(evaluations),
        }
        ahead = 0.0 if self.job.hurry else END_CPU_SECONDS + NODE_CPU_SECONDS * self.arena.dirty_count
        reached = self._clock.reached(ahead, visits=visits, evaluations=evaluations)
        self.reason = reached or next((reason for reason, holds in reasons.items() if holds), "")
        return bool(self.reason)

    def _untried(self) -> int:
        """Returns how many of the listed moves have no visit yet; 0 once there were as many visits."""
        record, legal = self.graph.read(self.board), legal_moves(self.board)
        if record is None or self.added(arena_kernel.VISITS) > len(self._listed):
            return 0
        tried = {legal[i] for i, edge in zip(record.order, record.edges, strict=False) if edge.n}
        return len(self._listed - tried)

    def _is_proven(self) -> bool:
        """Returns whether the root's result is proven, and with it a move that leads to it."""
        return bool(is_root_decided(self.arena.tables, self.arena.arrays, self.root))

    def _is_exhausted(self, evaluations: int) -> bool:
        """Returns whether so many visits in a row found nothing to evaluate that no later one will.

        A limit of evaluations also bounds all visits: the last ones of an endgame are found ever more slowly.
        """
        most = self.job.limits.evaluations
        if most is not None and self.added(arena_kernel.VISITS) > IDLE_VISITS + VISITS_PER_EVALUATION * most:
            return True
        visits = int(self.arena.counters[arena_kernel.VISITS])
        if evaluations != self._found_at[0]:
            self._found_at = evaluations, visits
        idle = visits - self._found_at[1]
        return idle > IDLE_VISITS and idle > IDLE_VISITS_PER_NODE * self.graph.node_count

    # ---------------------------------------------------------- saving
    def _save_if_due(self) -> None:
        """Starts a background save when it is due; waits only if too much is unsaved."""
        if self.graph.store is None:
            return
        dirty, most = self.arena.dirty_count, self.graph.most_unsaved
        try:
            # the log has no room for more (`Graph.reserve_saves`)
            if not self.graph.settle(wait=dirty + self.arena.saving > 3 * most):
                return
            if dirty - self._unsaved >= most or time.monotonic() - self._saved_at >= FLUSH_SECONDS:
                self.graph.begin_saving(self._noted(finished=False))
                self._saved_at, self._unsaved = time.monotonic(), 0
        except StoreError as error:
            if self._control.on_unsaved is None:
                raise
            self._control.on_unsaved(error)
            self.graph.leave_lost_file()
            self._saved_at, self._unsaved = time.monotonic(), self.arena.dirty_count

    def _noted(self, *, finished: bool) -> Work:
        """Returns a callback that writes the state of this run, unless a caller's, and the root's value."""
        if self.job.run is not None:
            return lambda store: None
        counts = self.counts()
        values = self.graph.root_values(self.board) if self.job.lists else None

        def note(store: Store) -> None:
            self._insert_run(store)
            assert self._run is not None
            store.update_run(self._run, counts.new_visits, counts.evaluations, finished=finished)
            if values:
                history.write(store, self._run, replace(values, depth=counts.depth))

        return note

    def _end(self) -> StoreError | None:
        """Saves everything and takes back the forced visits; returns an error of saving."""
        try:
            if self.graph.store and self.job.hurry and self.job.run is None:
                self.graph.note_later(self._noted(finished=True))
            elif self.graph.store and not self.job.hurry:
                self.graph.flush(self._noted(finished=True))
                if lost := self.graph.store.left_out_error():
                    return lost
            mark_compiled()
            mark_compiled(purpose_of(self.graph.evaluator))
        except StoreError as error:
            return error
        finally:
            self._runner.close()
            set_listed(self.arena.arrays, None)
            self.arena.subtract_overlay()  # of visits that are never saved
            self.arena.forget_overlay()
            if self.forced:
                self.forced.end()
            self.arena.set_history(np.zeros(0, np.uint64))
        return None

    # ---------------------------------------------------------- counts
    def added(self, counter: int) -> int:
        """Returns the increase of an arena counter since the search began."""
        return int(self.arena.counters[counter] - self._before[counter])

    def counts(self) -> Counts:
        """Returns the additions so far."""
        return Counts(
            new_visits=self.added(arena_kernel.VISITS),
            evaluations=self.added(arena_kernel.EVALUATIONS),
            catch_ups=self.added(arena_kernel.CATCH_UPS),
            collisions=self.added(arena_kernel.COLLISIONS),
            unkept_visits=self.added(arena_kernel.HISTORY_DRAWS),
            plies=self.added(arena_kernel.PLIES),
            seldepth=int(self.arena.counters[arena_kernel.SELDEPTH]),
            saved_nodes=self.graph.saved_nodes - self._saved_before,
            read_back=self.graph.pager.read_back - self._read_before,
            seconds=self._clock.seconds,
        )

    # ---------------------------------------------------------- reporting
    def _show(self) -> None:
        if self._control.on_progress:
            self._control.on_progress(self._progress())

    def _progress(self) -> Progress:
        graph, loader = self.graph, self.graph.loading
        record = graph.read(self.board)
        return Progress(
            **asdict(self.counts()),
            visits=record.visits if record else 0,
            nodes=graph.node_count,
            stored=graph.store is not None,
            resident=self.arena.node_count,
            ram_bytes=self.arena.bytes_used,
            loaded=(loader.done, loader.total) if loader and not loader.waits else None,
            node=self._in_game,
        )

    def _in_game(self, multipv: int | None = None) -> NodeView:
        return self._draws.shown(self._view(multipv))

    def _view(self, lines: int | None) -> NodeView:
        first = self._listed or (self._mates.first if self._mates else ())
        node = view_in_game(self.graph.read, self.board, self.past, lines=lines, first=first)
        assert node is not None, "the first wave records the root"
        return node


# ------------------------------------------------------------------ forced visits
EdgeCounts = NDArray[np.int64]  # [E, 2]: n and r of a root's edges, in descending P
PART = 64  # an edge catches up in steps of 1/64 of the root's visits


class ForcedVisits:
    """The visits over root edges in a search of some moves only; they are never saved.

        n of an edge in memory   = visits by PUCT + forced visits
        n of an edge in the file = visits by PUCT

    They are noted in the arena's overlay, and subtracted before every save. The children's records keep their
    results: a later search of all moves catches up with them without evaluations, as far as PUCT selects that
    move. Create it when the root is known, before the first visit over its edges; call `end` afterwards.
    """

    def __init__(self, graph: Graph, board: chess.Board) -> None:
        """Begins to count forced visits."""
        self._graph, self._board = graph, board
        self._arena = graph.arena
        self._before = _counts(self.record())
        self._arena.before_subtracting = self._note

    def end(self) -> None:
        """Stops counting; the visits so far must have been subtracted."""
        self._arena.before_subtracting = None

    def record(self) -> NodeRecord:
        """Returns the root's record with the forced visits."""
        record = self._graph.read(self._board)
        assert record is not None, "the first wave records the root"
        return record

    # ---------------------------------------------------------- notes
    def _note(self) -> None:
        """Adds new forced visits to the overlay; a root that is not in memory has none."""
        slot = self._arena.slot(self._board)
        if not slot:
            return
        record = self.record()
        extra = _counts(record) - self._kept(record) - self._noted(slot)
        for edge, (n, r) in enumerate(extra.tolist()):
            self._append(slot, edge, 0, n - r)
            self._append(slot, edge, 1, r)

    def _kept(self, record: NodeRecord) -> EdgeCounts:
        """Returns the counts that the file may hold; one visit carries the proof of a new move."""
        kept = self._before.copy()
        for k, edge in enumerate(record.edges):
            if edge.proof and kept[k, 0] == kept[k, 1]:
                kept[k, 0] += 1
        return kept

    def _noted(self, slot: int) -> EdgeCounts:
        """Returns the root's visits in the overlay, forced or drawn by this game's history."""
        noted = np.zeros_like(self._before)
        length = int(self._arena.counters[arena_kernel.OVERLAY_LENGTH])
        items, visits = self._arena.arrays.overlay[: 2 * length].reshape(-1, 2).T
        here = items >> OVERLAY_SLOT_SHIFT == slot
        edges = items[here] >> 1 & OVERLAY_EDGE_BITS
        np.add.at(noted[:, 0], edges, visits[here])
        np.add.at(noted[:, 1], edges, visits[here] * (items[here] & 1))
        return noted

    def _append(self, slot: int, edge: int, drawn: int, visits: int) -> None:
        if visits:
            self._arena.reserve_overlay(1)
            i = int(self._arena.counters[arena_kernel.OVERLAY_LENGTH])
            item = slot << OVERLAY_SLOT_SHIFT | edge << 1 | drawn
            self._arena.arrays.overlay[2 * i : 2 * i + 2] = item, visits
            self._arena.counters[arena_kernel.OVERLAY_LENGTH] = i + 1

    # ---------------------------------------------------------- resuming
    def catch_up(self, runner: WaveRunner, listed: Sequence[int], params: SearchParams) -> None:
        """Resumes a search of the same moves: forces again the visits that need no evaluation.

        They follow PUCT's order, so a move that another search has explored gets no more than its share.

        Args:
          listed: edges of the root that the search may take, in descending P.
        """
        rooms = {k: room for k in listed if (room := self._catch_up_once(runner, k, params))}
        set_listed(self._arena.arrays, listed)
        if not rooms:
            return
        record = self.record()
        added = _caught_up(record, listed, rooms, params) - _counts(record)[:, 0]
        self._arena.subtract_overlay()
        slot = self._arena.slot(self._board)
        for edge, visits in enumerate(added.tolist()):
            self._append(slot, edge, 0, visits)
        self._arena.add_overlay()

    def _catch_up_once(self, runner: WaveRunner, edge: int, params: SearchParams) -> int:
        """Makes one visit of an edge if it can catch up; returns the n that it can catch up to, or 0."""
        record = self.record()
        n = record.edges[edge].n if edge < len(record.edges) else 0
        known = self._graph.read(after(self._board, legal_moves(self._board)[record.order[edge]]))
        reach = int(known.visits / params.catch_up_ratio) if known else 0
        if reach <= n + 1:
            return 0
        set_listed(self._arena.arrays, [edge])
        before = self._arena.counters.copy()
        runner.visit_alone(is_known=True)
        added = self._arena.counters - before
        is_caught_up = added[arena_kernel.CATCH_UPS] == added[arena_kernel.PLIES] == 1
        return reach if is_caught_up else 0


def _counts(record: NodeRecord) -> EdgeCounts:
    counts = np.zeros((len(record.codes), 2), np.int64)
    for k, edge in enumerate(record.edges):
        counts[k] = edge.n, edge.r
    return counts


def _caught_up(
    record: NodeRecord, listed: Sequence[int], rooms: dict[int, int], params: SearchParams
) -> NDArray[np.int64]:
    """Returns n of each edge when PUCT, restricted to the listed edges, first selects one without room.

    Args:
      rooms: the largest n to which each edge can catch up.
    """
    counts = _counts(record)
    n: NDArray[np.int64] = counts[:, 0].copy()
    r, prior = counts[:, 1], np.array(record.priors)[record.order]
    q = np.zeros(len(n))
    q[: len(record.edges)] = [edge.q for edge in record.edges]
    mean = node_mean(record)[0]
    opened = openness(mean, least_decided(params.decided_from))
    unvisited = fpu(mean, params.fpu_value, float(prior[n > 0].sum()))
    while True:
        spent = int(n.sum())
        value = np.where(n > 0, (n - r) * q / np.maximum(n, 1), unvisited)
        term = opened * exploration_term(spent, params.cpuct, params.cpuct_base, params.cpuct_factor)
        best = listed[int(np.argmax((value + term * prior / (1 + n))[listed]))]
        room = rooms.get(best, 0) - int(n[best])
        if room <= 0:
            return n
        n[best] += min(room, max(1, spent // PART))
