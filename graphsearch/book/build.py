"""Building a book: search the next leaf, take in what its windows admit, and so on, for as long as one likes.

    queue -> urgent leaves \\
    policy -> next leaf ----> desk (searches) -> record -> decisions, values -> rows -> file

Records and rows reach the file in the same transactions, so whatever ends a build leaves a book that goes on.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial

from ..errors import GraphSearchError, InvalidParameterError
from ..evaluators.factory import create
from ..evaluators.protocol import Evaluator
from ..position.board import board_of
from ..store.sharded.files import open_to_read
from ..store.store import Store
from ..store.tables import games
from ..workers.launcher import LOCAL
from . import queue, rows
from .config import BookConfig
from .desk import Desk, Outcome, Task
from .growth import Growth
from .local import LocalDesk
from .order import order_of
from .positions import LEAF, BookLine, Position
from .queue import QueueItem
from .report import BuildReport, Counts, OnProgress
from .requests import Requests
from .roots import Roots
from .starting import check_pool, cluster_for, crew_of, start
from .telling import Telling, leaves, size
from .tree import BookTree

SAVE_SECONDS = 5.0  # between two savings: what a kill costs at most, beside the searches that run
POLL_SECONDS = 1.0  # between two looks at the queue
WAIT_SECONDS = 0.2  # for workers, so that a signal is answered soon
VISITS_PER_EVALUATION = 20  # of a search: where there is little left to evaluate it ends all the same
DRAIN_SECONDS = 60.0  # for workers that end their waves when a build is stopped
COMPLETE, STOPPED, TIME, EVALUATIONS, FAILED = "complete", "stop", "time", "evaluations", "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildLimits:
    """When a build ends, beside when nothing is left to search.

    Attributes:
      seconds: of wall time.
      evaluations: no search begins that might go beyond so many; there is at least one.
      forever: when nothing is left, wait for the queue.
    """

    seconds: float | None = None
    evaluations: int | None = None
    forever: bool = False


def build(
    path: str | os.PathLike[str],
    config: BookConfig,
    *,
    limits: BuildLimits | None = None,
    workers: int = 1,
    pool: str | None = None,
    shards: int | None = None,
    ram_bytes: int | None = None,
    evaluator: Evaluator | None = None,
    stop: threading.Event | None = None,
    on_progress: OnProgress | None = None,
) -> BuildReport:
    """Builds on a book, and returns what that did; all of it is in the file.

    Args:
      path: the graph file, made if it is missing.
      limits: when to end; without any, when nothing is left to search.
      workers: processes that search; 1: this one. pool: where: `local`, `ray` or `ray:ADDRESS`.
      shards: of the cluster that `path` is the folder of, made if it is missing; None: as it is, or a file.
      ram_bytes: most memory of the graph, of all workers together.
      evaluator: instead of that of the configuration, in this process alone; the caller closes it.
      stop: set it, from any thread or a signal handler, to save and return.
      on_progress: called about twice a second.

    Raises:
      InvalidParameterError: for a time, a pool or a number of shards that is none; no file is touched then.
      EvaluatorError: if the evaluator fails; what was found until then is saved.
      EvaluatorMismatchError: if the file is bound to another one.
      StoreLockedError: if another process is writing the file.
      StoreError: if it cannot be read or written.
    """
    stop, limits = stop or threading.Event(), limits or BuildLimits()
    if limits.seconds is not None and not limits.seconds > 0:
        raise InvalidParameterError(f"time must be a number of seconds above 0, not {limits.seconds}")
    check_pool(pool, config)
    with ExitStack() as stack:
        stack.enter_context(cluster_for(path, shards, evaluator, config))
        if evaluator is None and (workers > 1 or pool not in (None, LOCAL)):
            started, crew = crew_of(path, config, workers, pool, ram_bytes)
            return build_at(path, config, started, crew, limits=limits, stop=stop, on_progress=on_progress)
        made = evaluator or stack.enter_context(closing(create(config.evaluator)))
        started = start(path, made, config, workers)
        desk = LocalDesk(path, made, run=started.run, ram_bytes=ram_bytes, stop=stop)
        return build_at(path, config, started, desk, limits=limits, stop=stop, on_progress=on_progress)


def build_at(
    path: str | os.PathLike[str],
    config: BookConfig,
    started: rows.Started,
    desk: Desk,
    *,
    limits: BuildLimits,
    stop: threading.Event,
    on_progress: OnProgress | None = None,
) -> BuildReport:
    """Builds with a desk, which is closed at the end."""
    timer, out_of_time = None, threading.Event()
    if limits.seconds is not None:
        timer = threading.Timer(limits.seconds, _end_of_time, (out_of_time, stop))
        timer.daemon = True
        timer.start()
    try:
        with open_to_read(path) as tables:
            return _Build(
                tables,
                config,
                started,
                desk,
                limits=limits,
                stop=stop,
                out_of_time=out_of_time,
                on_progress=on_progress,
            ).build()
    finally:
        if timer:
            timer.cancel()
        desk.close()


def _end_of_time(out_of_time: threading.Event, stop: threading.Event) -> None:
    """Stops a build whose time is over, unless somebody has stopped it already."""
    if not stop.is_set():
        out_of_time.set()
        stop.set()


class _Build:
    """One build, on an open desk."""

    def __init__(
        self,
        tables: Store,
        config: BookConfig,
        started: rows.Started,
        desk: Desk,
        *,
        limits: BuildLimits,
        stop: threading.Event,
        out_of_time: threading.Event,
        on_progress: OnProgress | None,
    ) -> None:
        """Begins; `out_of_time` says when `stop` is set that the time is over."""
        self._tables = tables
        self._config = config
        self._started = started
        self._desk = desk
        self._limits = limits
        self._stop = stop
        self._out_of_time = out_of_time
        self._began = self._saved_at = time.monotonic()
        self._polled_at = 0.0
        self._counts = Counts()
        self._lines: dict[str, BookLine] = {}
        self.tree = BookTree(config.expansion.value, order_of(config.expansion))
        self.growth = Growth(config, self.tree, started.book_run, desk.read, self._games)
        self.requests = Requests(self.tree, self.growth, config)
        self.roots = Roots(self.tree, self.growth)
        self._telling = Telling(
            self.tree,
            self.growth,
            self.requests,
            self._counts,
            max_ply=config.max_ply,
            began=self._began,
            on_progress=on_progress,
        )

    # -------------------------------------------------------------- the whole
    def build(self) -> BuildReport:
        """Builds until it ends; what was found is saved whatever ends it."""
        self._load()
        self._save(wait=True)
        try:
            ended = self._loop()
        except BaseException:
            with contextlib.suppress(GraphSearchError):  # what has failed already is the error to tell
                self._finish(FAILED)
            raise
        self._finish(ended)
        return self._report(ended)

    def _loop(self) -> str:
        while True:
            if self._stop.is_set():
                self._drain()
                return TIME if self._out_of_time.is_set() else STOPPED
            self._poll()
            has_room = self._hand_out()
            if not self._desk.open_tasks:
                if not has_room:
                    return EVALUATIONS
                if not self._limits.forever:
                    return COMPLETE
                self._telling.waiting()
                self._stop.wait(POLL_SECONDS)
            for outcome in self._desk.finished(WAIT_SECONDS):
                self._take(outcome)
            if time.monotonic() - self._saved_at >= SAVE_SECONDS:
                self._save(wait=False)
            self._telling.show("building")

    def _drain(self) -> None:
        """Takes in what the searches that run have found when they end."""
        self._desk.stop()
        end = time.monotonic() + DRAIN_SECONDS
        while self._desk.open_tasks and time.monotonic() < end:
            for outcome in self._desk.finished(WAIT_SECONDS):
                self._take(outcome)

    def _finish(self, ended: str) -> None:
        """Writes the end of this build; what searches still run is lost to the book, not to the graph."""
        costs = self.tree.costs()
        priorities = [(key, cost) for key, cost in costs.items() if self.tree.positions[key].state == LEAF]
        book, counts = self._started.book, self._numbers()
        self._note_rows()
        self._desk.note(lambda store: rows.write_priorities(store, book, priorities))
        self._desk.note(lambda store: rows.write_run(store, self._started, counts, ended))
        self._desk.save(wait=True)

    # -------------------------------------------------------------- beginning
    def _load(self) -> None:
        """Reads the book, brings it in line with the configuration, and enters its roots."""
        tree = self.tree
        rows.load(self._tables, self._started.book, tree)
        self.roots.worth |= rows.last_worth(self._tables, self._started.book)
        self._telling.say("loading")
        for key, fen, origin in rows.roots(self._tables, self._started.book):
            if origin.startswith("queue") and key in tree.positions:
                self.roots.enter(board_of(fen), origin)
        for root in self._config.roots:
            self.roots.enter(root.board.copy(stack=False), root.origin)
        for position in tree.positions.values():
            self.growth.fit_ply(position)
        tree.update(tree.positions)
        is_whole = True
        if rows.may_decide_otherwise(self._tables, self._started, self._config):
            is_whole = self.growth.redecide_all(self._shows_and_goes_on)
        if is_whole:  # else the next build checks it all
            self._desk.note(lambda store: rows.write_config(store, self._started.book, self._config))
        self.growth.set_apart()
        tree.unsettled.clear()
        self._note_roots()

    def _shows_and_goes_on(self) -> bool:
        """Tells how far the check is; returns whether nobody has stopped it."""
        self._telling.show("checking")
        return not self._stop.is_set()

    def _note_roots(self) -> None:
        found = self.roots.rows()
        self._desk.note(lambda store: rows.write_roots(store, self._started.book, found))

    # -------------------------------------------------------------- the queue
    def _poll(self) -> None:
        """Looks for what was put into the queue, now and then, and goes on with what came from it."""
        now = time.monotonic()
        if now - self._polled_at >= POLL_SECONDS:
            self._polled_at = now
            items = queue.waiting(self._tables, self._config.name)
            self.requests.keep({item.id for item in items})
            for item in items:
                self._enter(item)
        for item, state, note in self.requests.advance():
            self._desk.note(partial(_set_state, item.id, state, note))

    def _enter(self, item: QueueItem) -> None:
        """Takes up an item; a line that meets the book nowhere begins a root of its own."""
        if self.requests.knows(item):
            return
        board = self.requests.take(item)
        if board is None or board.ply() >= self._config.max_ply:
            return
        self.roots.enter(board, f"queue {item.id}")
        self._note_roots()

    # -------------------------------------------------------------- searching
    def _hand_out(self) -> bool:
        """Gives the desk what it has room for; returns whether the limit of evaluations lets it have more."""
        while self._desk.open_tasks < self._desk.capacity:
            if not self._may_search():
                return False
            line = self.requests.next_line() or self.tree.next_line()
            if line is None:
                return True
            key = line.keys[-1]
            self._lines[key] = line
            self.tree.lease(key, leased=True)
            self._desk.submit(self._task(self.tree.positions[key]))
            self._telling.searching(line)
        return True

    def _may_search(self) -> bool:
        limit, each = self._limits.evaluations, self._config.leaf.evaluations or self._config.leaf.visits or 1
        if limit is None or not (self._counts.searched or self._desk.open_tasks):
            return True
        return self._counts.evaluations + each * (self._desk.open_tasks + 1) <= limit

    def _task(self, position: Position) -> Task:
        leaf = self._config.leaf
        visits = leaf.visits
        if visits is None and leaf.evaluations is not None:
            visits = VISITS_PER_EVALUATION * leaf.evaluations
        return Task(
            position.key, position.fen, evaluations=leaf.evaluations, visits=visits, params=leaf.params
        )

    def _take(self, outcome: Outcome) -> None:
        """Takes in what a search found."""
        key = outcome.task.key
        position, line = self.tree.positions[key], self._lines.pop(key)
        self._counts.visits += outcome.visits
        self._counts.evaluations += outcome.evaluations
        if outcome.error:  # stays leased: it is not tried again in this run
            self._counts.failed[position.fen] = outcome.error
            self.requests.give_up(key, outcome.error)
            return
        if outcome.is_whole:
            board = board_of(position.fen)
            record = self._desk.read(board)
            if record is None:
                raise GraphSearchError(f"a search of {position.fen} left no record")
            position.searches += 1
            self._counts.searched += 1
            self.tree.count_visit(line)
            self.growth.learn(position, board, record)
            self.requests.searched(key)
        self.tree.lease(key, leased=False)

    def _games(self, key: str) -> Mapping[str, int]:
        found = games.counts(self._tables, [key]).get(key, [])
        return {move.move: move.games for move in found}

    # -------------------------------------------------------------- saving
    def _save(self, *, wait: bool) -> None:
        self._note_rows()
        counts = self._numbers()
        self._desk.note(lambda store: rows.write_run(store, self._started, counts, None))
        self._desk.save(wait=wait)
        self._saved_at = time.monotonic()

    def _note_rows(self) -> None:
        """Has the rows of what has changed written with what is saved next."""
        tree = self.tree
        changed = tree.changed | {key for k in tree.changed for key in tree.positions[k].parents}
        positions, moves = rows.position_rows(tree, self._started.book, changed)
        tree.changed.clear()
        roots = self.roots.changes(self._counts.searched)
        started = self._started
        self._desk.note(lambda store: rows.write_positions(store, positions, moves))
        self._desk.note(lambda store: rows.write_history(store, started, roots))

    def _numbers(self) -> tuple[int, int, int, int, float]:
        counts, seconds = self._counts, time.monotonic() - self._began
        return self.growth.added, counts.searched, counts.visits, counts.evaluations, seconds

    def _report(self, ended: str) -> BuildReport:
        counts = self._counts
        return BuildReport(
            book=self._config.name,
            ended=ended,
            positions=size(self.tree),
            leaves=leaves(self.tree),
            searched=counts.searched,
            added=self.growth.added,
            visits=counts.visits,
            evaluations=counts.evaluations,
            seconds=time.monotonic() - self._began,
            failed=tuple(counts.failed.items()),
            roots=self.roots.values(),
        )


def _set_state(number: int, state: queue.State, note: str, store: Store) -> None:
    """Writes what became of an item of the queue."""
    queue.set_state(store, number, state, note)
