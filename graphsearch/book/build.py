"""Building a book: search the next leaf, add the moves that its windows admit, and repeat.

    queue -> urgent leaves \\
    policy -> next leaf ----> search -> record -> decisions, values -> rows -> file

Records reach the file with or before the rows that follow from them, so a build can be resumed after any
end. Workers, if there are any, search several leaves at once (`search.detached`).
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial

import chess

from ..base.errors import GraphSearchError, InvalidParameterError
from ..evaluators.protocol import Evaluator
from ..graph.graph import Graph
from ..position.board import board_of
from ..position.lines import numbered
from ..position.notation import board_from_fen
from ..search.detached import STOP_SECONDS, Searches, open_searches
from ..search.job import Control, SearchJob
from ..search.params import Limits, SearchParams
from ..search.results import SearchResult
from ..solvers.mate.beside import MateFinder
from ..store.store import Store
from ..store.tables.games import games_by_move
from . import queue, rows
from .build_report import BuildProgress, BuildReport, Counts, OnProgress, leaves, searches_left, size
from .config import BookConfig, BuildLimits, Resources
from .growth import Growth, Roots
from .queue import QueueItem
from .requests import Requests
from .tree import LEAF, BookLine, BookTree, order_of

SHOW_SECONDS = 0.5
LINE_SECONDS = 0.1  # between two reports when a new line begins: its search may take long
ESTIMATE_SECONDS = 5.0  # between two estimates of the remaining time
SAVE_SECONDS = 5.0  # between two saves: a kill loses at most this, and the running search
POLL_SECONDS = 1.0  # between two reads of the queue
VISITS_PER_EVALUATION = 20  # ends a search that finds little left to evaluate
UNFINISHED = ("time", "stop", "memory", "reader")  # stop reasons of a search before its limit
COMPLETE, STOPPED, TIME, EVALUATIONS, FAILED = "complete", "stop", "time", "evaluations", "failed"


def build(
    path: str | os.PathLike[str],
    config: BookConfig,
    *,
    limits: BuildLimits | None = None,
    resources: Resources | None = None,
    evaluator: Evaluator | None = None,
    stop: threading.Event | None = None,
    on_progress: OnProgress | None = None,
) -> BuildReport:
    """Builds a book until a limit, saves it, and returns a report.

    Args:
      path: the graph file, created if missing.
      limits: when to end; default: when nothing is left to search.
      resources: default: this process, with the memory that the machine has.
      evaluator: replaces the configured one, in this process only; the caller closes it.
      stop: set it, from any thread or a signal handler, to save and return.
      on_progress: called about twice a second.

    Raises:
      InvalidParameterError: for a wrong time or pool, before any file changes.
      EvaluatorError: if the evaluator fails; all results until then are saved.
      EvaluatorMismatchError: if the file is bound to another evaluator.
      StoreLockedError: if another process is writing the file.
      StoreError: if it cannot be read or written.
    """
    stop, limits, resources = stop or threading.Event(), limits or BuildLimits(), resources or Resources()
    if limits.seconds is not None and not limits.seconds > 0:
        raise InvalidParameterError(f"time must be a number of seconds above 0, not {limits.seconds}")
    with ExitStack() as stack:
        graph, searches = stack.enter_context(
            open_searches(
                path,
                evaluator or config.evaluator,
                Control(stop=stop),
                ram_bytes=resources.ram_bytes,
                workers=resources.workers,
                pool=resources.pool,
            )
        )
        started = list[rows.Started]()
        graph.call(lambda store: started.append(rows.start(store, config)))
        tables = stack.enter_context(Store.open(path, read_only=True))
        out_of_time = stack.enter_context(_stopped_after(limits.seconds, stop))
        return Builder(
            tables,
            config,
            started[0],
            graph,
            searches,
            limits=limits,
            stop=stop,
            out_of_time=out_of_time,
            on_progress=on_progress,
        ).build()


@contextlib.contextmanager
def _stopped_after(seconds: float | None, stop: threading.Event) -> Iterator[threading.Event]:
    """Sets `stop` after some seconds, None: never; yields an event that is set then too.

    A build that has been stopped already is not out of time.
    """
    out_of_time = threading.Event()

    def end() -> None:
        if not stop.is_set():
            out_of_time.set()
            stop.set()

    timer = threading.Timer(seconds or 0.0, end)
    timer.daemon = True
    if seconds is not None:
        timer.start()
    try:
        yield out_of_time
    finally:
        timer.cancel()


class Builder:
    """One build on an open graph.

    Attributes:
      counts: of this build. began: its start, by `time.monotonic`.
    """

    def __init__(
        self,
        tables: Store,
        config: BookConfig,
        started: rows.Started,
        graph: Graph,
        searches: Searches[BookLine],
        *,
        limits: BuildLimits,
        stop: threading.Event,
        out_of_time: threading.Event,
        on_progress: OnProgress | None,
    ) -> None:
        """Begins a build; `out_of_time` is set when the time limit has set `stop`."""
        self._tables = tables
        self.config = config
        self._started = started
        self._graph, self._searches = graph, searches
        self._limits = limits
        self._stop = stop
        self._out_of_time = out_of_time
        self.began = self._saved_at = time.monotonic()
        self._polled_at = 0.0
        self.counts = Counts()
        self.tree = BookTree(config.expansion.value, order_of(config.expansion))
        games_of = partial(games_by_move, self._tables)
        self.growth = Growth(config, self.tree, started.book_run, graph.read, games_of)
        self.requests = Requests(self.tree, self.growth, config)
        self.roots = Roots(self.tree, self.growth)
        self._progress = ProgressReporter(self, on_progress)

    # -------------------------------------------------------------- loop
    def build(self) -> BuildReport:
        """Builds until a limit, and returns a report; saves the results however the build ends."""
        self._load()
        self._save(wait=True)
        try:
            ended = self._loop()
        except BaseException:
            with contextlib.suppress(GraphSearchError):  # the first failure is the one to report
                self._finish(FAILED)
            raise
        self._finish(ended)
        return self._report(ended)

    def _loop(self) -> str:
        while not self._stop.is_set():
            self._poll()
            ended = self._start_searches()
            if not self._searches.running:
                if ended == EVALUATIONS or not self._limits.forever:
                    return ended
                self._progress.waiting()
                self._stop.wait(POLL_SECONDS)
            for line, result in self._searches.finished(SHOW_SECONDS):
                self._learn(line, result)
            if time.monotonic() - self._saved_at >= SAVE_SECONDS:
                self._save(wait=False)
            self._progress.show("building")
        for line, result in self._searches.stop(STOP_SECONDS):
            self._learn(line, result)
        return TIME if self._out_of_time.is_set() else STOPPED

    def _start_searches(self) -> str:
        """Starts as many searches as there is room for; returns why there are no more to start."""
        while self._searches.room:
            if not self._may_search():
                return EVALUATIONS
            line = self.requests.next_line() or self.tree.next_line()
            if line is None:
                return COMPLETE
            self._progress.searching(line)
            position = self.tree.positions[line.keys[-1]]
            self.tree.take(position.key)
            self._searches.start(line, self._job(board_from_fen(position.fen)))
        return ""

    def _finish(self, ended: str) -> None:
        """Writes the end of this build; the book loses a search that was stopped, the graph keeps it."""
        costs = self.tree.costs()
        priorities = [(key, cost) for key, cost in costs.items() if self.tree.positions[key].state == LEAF]
        book, counts = self._started.book, self._numbers()
        self._note_rows()
        self._graph.note_later(lambda store: rows.write_priorities(store, book, priorities))
        self._graph.note_later(lambda store: rows.write_run(store, self._started, counts, ended))
        self._graph.flush()

    # -------------------------------------------------------------- loading
    def _load(self) -> None:
        """Reads the book, applies the configuration to it, and adds its roots."""
        tree = self.tree
        roots = rows.load(self._tables, self._started.book, tree)
        self.roots.worth |= rows.last_worth(self._tables, self._started.book)
        self._progress.report("loading")
        for key, fen, origin in roots:
            if origin.startswith("queue") and key in tree.positions:
                self.roots.enter(board_of(fen), origin)
        for root in self.config.roots:
            self.roots.enter(root.board.copy(stack=False), root.origin)
        for position in tree.positions.values():
            self.growth.fit_ply(position)
        tree.update(tree.positions)
        is_whole = True
        if rows.may_decide_otherwise(self._tables, self._started, self.config):
            is_whole = self.growth.redecide_all(self._continue_check)
        if is_whole:  # else the next build checks it all
            self._graph.note_later(lambda store: rows.write_config(store, self._started.book, self.config))
        self.growth.set_apart()
        tree.unsettled.clear()
        self._note_roots()

    def _continue_check(self) -> bool:
        """Reports the progress of the check; returns False if the build was stopped."""
        self._progress.show("checking")
        return not self._stop.is_set()

    def _note_roots(self) -> None:
        found = self.roots.rows()
        self._graph.note_later(lambda store: rows.write_roots(store.connection, self._started.book, found))

    # -------------------------------------------------------------- the queue
    def _poll(self) -> None:
        """Reads new queue items every `POLL_SECONDS`, and advances the lines of all items."""
        now = time.monotonic()
        if now - self._polled_at >= POLL_SECONDS:
            self._polled_at = now
            items = queue.waiting(self._tables, self.config.name)
            self.requests.keep({item.id for item in items})
            for item in items:
                self._enter(item)
        for item, state, note in self.requests.advance():
            self._graph.note_later(partial(_set_state, item.id, state, note))

    def _enter(self, item: QueueItem) -> None:
        """Accepts an item; its first position becomes a root if no position of its line is in the book."""
        if self.requests.knows(item):
            return
        board = self.requests.take(item)
        if board is None or board.ply() >= self.config.max_ply:
            return
        self.roots.enter(board, f"queue {item.id}")
        self._note_roots()

    # -------------------------------------------------------------- searching
    def _may_search(self) -> bool:
        limit, each = self._limits.evaluations, self.config.leaf.evaluations or self.config.leaf.visits or 1
        running = len(self._searches.running)
        if limit is None or not self.counts.searched + running:
            return True
        return self.counts.evaluations + each * (running + 1) <= limit

    def _learn(self, line: BookLine, result: SearchResult) -> None:
        """Adds the search of the last position of a line to the book unless it was stopped."""
        position = self.tree.positions[line.keys[-1]]
        self.tree.release(position.key)
        self.counts.visits += result.new_visits
        self.counts.evaluations += result.evaluations
        if result.stop_reason in UNFINISHED:
            return
        board = board_from_fen(position.fen)
        record = self._graph.read(board)
        if record is None:
            raise GraphSearchError(f"a search of {position.fen} left no record")
        position.searches += 1
        self.counts.searched += 1
        self.tree.count_visit(line)
        self.growth.learn(position, board, record)
        self.requests.searched(position.key)

    def _job(self, board: chess.Board) -> SearchJob:
        """Returns the search of a position within the limits of a leaf."""
        leaf = self.config.leaf
        visits = leaf.visits
        if visits is None and leaf.evaluations is not None:
            visits = VISITS_PER_EVALUATION * leaf.evaluations
        return SearchJob(
            board=board,
            limits=Limits(visits=visits, evaluations=leaf.evaluations),
            params=SearchParams.from_options(f"{name}={text}" for name, text in leaf.params.items()),
            run=self._started.run,
            lists=False,
            mates=MateFinder.within,
        )

    # -------------------------------------------------------------- saving
    def _save(self, *, wait: bool) -> None:
        self._note_rows()
        counts = self._numbers()
        self._graph.note_later(lambda store: rows.write_run(store, self._started, counts, None))
        if wait:
            self._graph.flush()
        else:
            self._graph.save_soon()
        self._saved_at = time.monotonic()

    def _note_rows(self) -> None:
        """Writes changed rows with the next transaction."""
        tree = self.tree
        changed = tree.changed | {key for k in tree.changed for key in tree.positions[k].parents}
        positions, moves = rows.position_rows(tree, self._started.book, changed)
        tree.changed.clear()
        roots = self.roots.changes(self.counts.searched)
        started = self._started
        self._graph.note_later(lambda store: rows.write_positions(store.connection, positions, moves))
        self._graph.note_later(lambda store: rows.write_history(store, started, roots))

    def _numbers(self) -> tuple[int, int, int, int, float]:
        counts, seconds = self.counts, time.monotonic() - self.began
        return self.growth.added, counts.searched, counts.visits, counts.evaluations, seconds

    def _report(self, ended: str) -> BuildReport:
        counts = self.counts
        return BuildReport(
            book=self.config.name,
            ended=ended,
            positions=size(self.tree),
            leaves=leaves(self.tree),
            searched=counts.searched,
            added=self.growth.added,
            visits=counts.visits,
            evaluations=counts.evaluations,
            seconds=time.monotonic() - self.began,
            roots=self.roots.values(),
        )


def _set_state(number: int, state: queue.State, note: str, store: Store) -> None:
    queue.set_state(store, number, state, note)


class ProgressReporter:
    """Reports the progress of one build."""

    def __init__(self, build: Builder, on_progress: OnProgress | None) -> None:
        self._build, self._tree = build, build.tree
        self._shown_at = build.began
        self._on_progress = on_progress
        self._line = ""
        self._ply = 0
        self._estimate: tuple[float, float | None] = (0.0, None)

    def searching(self, line: BookLine) -> None:
        """Sets the line being searched, and reports it."""
        positions = self._tree.positions
        position = positions[line.keys[-1]]
        self._line = numbered(line.sans, positions[line.keys[0]].ply) or position.fen
        self._ply = position.ply
        self.show("building", LINE_SECONDS)

    def waiting(self) -> None:
        """Sets the message that nothing is left to search."""
        self._line = "nothing left to search; waiting for the queue"

    def show(self, stage: str, after: float = SHOW_SECONDS) -> None:
        """Reports the progress, unless the last report was less than `after` seconds ago."""
        if time.monotonic() - self._shown_at >= after:
            self._shown_at = time.monotonic()
            self.report(stage)

    def report(self, stage: str) -> None:
        """Reports the progress."""
        if self._on_progress is None:
            return
        seconds, counts = time.monotonic() - self._build.began, self._build.counts
        self._on_progress(
            BuildProgress(
                stage=stage,
                seconds=seconds,
                searched=counts.searched,
                added=self._build.growth.added,
                visits=counts.visits,
                evaluations=counts.evaluations,
                positions=size(self._tree),
                leaves=leaves(self._tree),
                waiting=self._build.requests.waiting,
                line=self._line,
                ply=self._ply,
                left=self._left(seconds),
            )
        )

    def _left(self, seconds: float) -> float | None:
        """Returns the estimated seconds until nothing is left to search; None if unknown."""
        at, found = self._estimate
        if seconds - at > ESTIMATE_SECONDS or not at:
            searched, max_ply = self._build.counts.searched, self._build.config.max_ply
            found = searches_left(self._tree, max_ply) * seconds / searched if searched else None
            self._estimate = (seconds, found)
        return found
