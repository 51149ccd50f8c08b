"""Building a book: search the next leaf, add the moves that its windows admit, and repeat.

    queue -> urgent leaves \\
    policy -> next leaf ----> search -> record -> decisions, values -> rows -> file

Records reach the file with or before the rows that follow from them, so a build can be resumed after any
end. Workers, if there are any, search several leaves at once (`search.detached`).
"""

from __future__ import annotations

import contextlib
import math
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

import chess

from ..base.answer import Answer
from ..base.errors import GraphSearchError, InvalidParameterError, InvalidPositionError
from ..evaluators.protocol import Evaluator
from ..graph.graph import Graph
from ..position.board import board_of, check, key_text
from ..position.notation import board_from_fen, numbered
from ..search.detached import STOP_SECONDS, Searches, open_searches
from ..search.job import Control, SearchJob
from ..search.params import Limits, SearchParams
from ..search.results import SearchResult
from ..solvers.mate.beside import MateFinder
from ..store.store import Store
from ..store.tables import history
from ..store.tables.games import games_by_move
from . import queue, rows
from .config import BookConfig, BuildSettings
from .growth import Growth, Roots, RootValue
from .queue import QueueItem, State
from .tree import APART, END, LEAF, BookLine, BookTree

SHOW_SECONDS = 0.5
LINE_SECONDS = 0.1  # between two reports when a new line begins: its search may take long
SAVE_SECONDS = 5.0  # between two saves: a kill loses at most this, and the running search
POLL_SECONDS = 1.0  # between two reads of the queue
LEAST_SECONDS = 0.001  # of a search
VISITS_PER_EVALUATION = 20  # ends a search that finds little left to evaluate
UNFINISHED = ("time", "stop", "memory", "reader")  # stop reasons of a search before its limit
RUN_COLUMNS = ("searched", "visits", "evaluations", "seconds")
COMPLETE, STOPPED, TIME, EVALUATIONS, FAILED = "complete", "stop", "time", "evaluations", "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildReport(Answer):
    """A build so far, or at its end.

    Attributes:
      ended: `complete`, `stop`, `time` or `evaluations`; while it runs `loading`, `checking` or `building`.
      positions, leaves: of the book now, without those in the state `apart`.
      searched, added: positions, by this build. visits, evaluations, seconds: of this build.
      waiting: unfinished items of the queue.
      line: the line being searched, in SAN. ply: of its last position.
    """

    json_keys = "book ended positions leaves searched added visits evaluations seconds roots"

    book: str
    ended: str
    roots: tuple[RootValue, ...]
    positions: int
    leaves: int
    searched: int
    added: int
    visits: int
    evaluations: int
    seconds: float
    waiting: int
    line: str
    ply: int


OnProgress = Callable[[BuildReport], None]


# ------------------------------------------------------------------ the queue
DONE: State = "done"
REFUSED: State = "refused"
Ending = tuple[QueueItem, State, str]  # an item, its state, a note for the user


@dataclass(slots=True)
class _Line:
    """An accepted item: one more key than moves, the place of the next position, searched positions."""

    item: QueueItem
    keys: list[str]
    moves: list[str]
    place: int = 0
    searched: int = 0

    @property
    def key(self) -> str:
        """The next position."""
        return self.keys[self.place]


class Requests:
    """The items of the queue that a build has accepted, and the lines of the unfinished ones."""

    def __init__(self, tree: BookTree, growth: Growth, max_ply: int) -> None:
        self.lines: list[_Line] = []
        self._tree, self._growth, self._max_ply = tree, growth, max_ply
        self._taken: set[int] = set()
        self._endings: list[Ending] = []

    def take(self, items: Sequence[QueueItem]) -> Iterator[tuple[QueueItem, chess.Board]]:
        """Accepts or refuses the new ones of the waiting items, and forgets those that wait no more.

        A line starts at its first position in the book. If it has none, its first position must become a
        root: it is yielded with the item.
        """
        waiting = {item.id for item in items}
        self.lines = [line for line in self.lines if line.item.id in waiting]
        for item in items:
            if item.id in self._taken:
                continue
            self._taken.add(item.id)
            try:
                boards = list(item.boards())
                check(boards[0])
            except (ValueError, InvalidPositionError) as error:
                self._endings.append((item, REFUSED, f"it cannot be read: {error}"))
                continue
            keys = [key_text(board) for board in boards]
            first = next((i for i, key in enumerate(keys) if key in self._tree.positions), None)
            line = _Line(item, keys[first or 0 :], list(item.moves[first or 0 :]))
            self.lines.append(line)
            for key, move in zip(line.keys, line.moves, strict=False):
                self._growth.wanted.setdefault(key, set()).add(move)
            if first is None:
                yield item, boards[0]

    def next_line(self) -> BookLine | None:
        """Returns the line to the next position that the queue asks for, None if there is none now."""
        positions = self._tree.positions
        for line in self.lines:
            if line.key in positions and line.key not in self._tree.taken:
                steps = zip(line.keys[: line.place], line.moves, strict=False)
                moves = [positions[key].moves[move] for key, move in steps]
                return BookLine.of(line.keys[: line.place + 1], moves)
        return None

    def searched(self, key: str) -> None:
        """Counts a search of a position."""
        for line in self.lines:
            line.searched += line.key == key

    def advance(self) -> list[Ending]:
        """Advances every line past its searched positions; returns the finished items."""
        endings, going = self._endings, []
        for line in self.lines:
            if ending := self._advance(line):
                endings.append((line.item, *ending))
            else:
                going.append(line)
        self.lines, self._endings = going, []
        return endings

    def _advance(self, line: _Line) -> tuple[State, str] | None:
        """Advances a line to the next position to search; returns state and note if it has ended."""
        while True:
            position, left = self._tree.positions.get(line.key), line.moves[line.place :]
            if position is None:
                return REFUSED, f"ply {self._max_ply} is the last of the book (max_ply)"
            if position.state == END and left and not line.searched:
                if position.ply < self._max_ply:
                    return REFUSED, f"the game is decided in {position.fen}"
                return REFUSED, f"it continues after ply {self._max_ply}, the last of the book (max_ply)"
            if position.state == END or (line.searched and not left and position.state != LEAF):
                plural = "" if line.searched == 1 else "s"
                return DONE, f"{line.searched} position{plural} searched"
            if position.state == LEAF or not left:  # one that is already in the book is searched once more
                return None
            if left[0] not in position.moves:
                self._growth.redecide(position)
                self._growth.settle()
            if position.state == LEAF:  # the file has lost its record
                return None
            if left[0] not in position.moves:
                san = board_of(position.fen).san(chess.Move.from_uci(left[0]))
                return REFUSED, f"{san} is excluded by the configuration in {position.fen}"
            line.place += 1


def build(
    path: str | os.PathLike[str],
    config: BookConfig,
    *,
    settings: BuildSettings | None = None,
    evaluator: Evaluator | None = None,
    stop: threading.Event | None = None,
    on_progress: OnProgress | None = None,
) -> BuildReport:
    """Builds a book in a graph file, new or not, until a limit, saves it, and returns a report.

    Args:
      settings: default: until nothing is left to search, in this process.
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
    stop, settings = stop or threading.Event(), settings or BuildSettings()
    if settings.seconds is not None and not settings.seconds > 0:
        raise InvalidParameterError(f"time must be a number of seconds above 0, not {settings.seconds}")
    with open_searches(
        path,
        evaluator or config.evaluator,
        Control(stop=stop),
        ram_bytes=settings.ram_bytes,
        workers=settings.workers,
        pool=settings.pool,
    ) as (graph, searches):
        started = list[rows.Started]()
        graph.call(lambda store: started.append(rows.start(store, config)))
        with Store.open(path, read_only=True) as tables:
            return Builder(tables, config, started[0], graph, searches, settings, stop, on_progress).build()


@dataclass(slots=True)
class Builder:
    """One build on an open graph."""

    tables: Store
    config: BookConfig
    started: rows.Started
    graph: Graph
    searches: Searches[BookLine]
    settings: BuildSettings
    stop: threading.Event
    on_progress: OnProgress | None
    tree: BookTree = field(init=False)
    growth: Growth = field(init=False)
    requests: Requests = field(init=False)
    roots: Roots = field(init=False)
    began: float = field(default_factory=time.monotonic)
    saved_at: float = field(default_factory=time.monotonic)
    polled_at: float = 0.0
    shown_at: float = field(default_factory=time.monotonic)
    searched: int = 0
    visits: int = 0
    evaluations: int = 0
    line: str = ""  # being searched
    ply: int = 0

    def __post_init__(self) -> None:
        self.tree = BookTree(self.config.expansion)
        games_of = partial(games_by_move, self.tables)
        self.growth = Growth(self.config, self.tree, self.started.book_run, self.graph.read, games_of)
        self.requests = Requests(self.tree, self.growth, self.config.max_ply)
        self.roots = Roots(self.tree, self.growth)

    # -------------------------------------------------------------- loop
    def build(self) -> BuildReport:
        """Builds until a limit, and returns a report; saves the results however the build ends."""
        self._load()
        self._save()
        try:
            ended = self._loop()
        except BaseException:
            with contextlib.suppress(GraphSearchError):  # the first failure is the one to report
                self._save(FAILED)
            raise
        self._save(ended)
        return self._report(ended)

    def _loop(self) -> str:
        while not self._must_end:
            self._poll()
            ended = self._start_searches()
            if not self.searches.running:
                if ended == EVALUATIONS or not self.settings.forever:
                    return ended
                self.line = "nothing left to search; waiting for the queue"
                self.stop.wait(POLL_SECONDS)
            for line, result in self.searches.finished(SHOW_SECONDS):
                self._learn(line, result)
            if time.monotonic() - self.saved_at >= SAVE_SECONDS:
                self._save(wait=False)
            self._show("building")
        for line, result in self.searches.stop(STOP_SECONDS):
            self._learn(line, result)
        return STOPPED if self.stop.is_set() else TIME

    @property
    def _seconds_left(self) -> float:
        """The time until the limit; infinite without one."""
        return (self.settings.seconds or math.inf) + self.began - time.monotonic()

    @property
    def _must_end(self) -> bool:
        return self.stop.is_set() or self._seconds_left <= 0.0

    def _start_searches(self) -> str:
        """Starts as many searches as there is room for; returns why there are no more to start."""
        while self.searches.room:
            if not self._may_search():
                return EVALUATIONS
            line = self.requests.next_line() or self.tree.next_line()
            if line is None:
                return COMPLETE
            first, position = (self.tree.positions[line.keys[place]] for place in (0, -1))
            self.line, self.ply = numbered(line.sans, first.ply) or position.fen, position.ply
            self._show("building", LINE_SECONDS)
            self.tree.take(position.key)
            self.searches.start(line, self._job(board_from_fen(position.fen)))
        return ""

    # -------------------------------------------------------------- loading
    def _load(self) -> None:
        """Reads the book, applies the configuration to it, and adds its roots."""
        tree = self.tree
        with self.tables.reading() as connection:
            roots = rows.read_tree(connection, self.started.book, tree)
        self.roots.worth |= rows.last_worth(self.tables, self.started.book)
        self._show("loading", 0.0)
        for key, fen, origin in roots:
            if origin.startswith("queue") and key in tree.positions:
                self.roots.enter(board_of(fen), origin)
        for root in self.config.roots:
            self.roots.enter(root.board.copy(stack=False), root.origin)
        for position in tree.positions.values():
            self.growth.fit_ply(position)
        tree.update(tree.positions)
        is_whole = True
        if rows.may_decide_otherwise(self.tables, self.started, self.config):
            is_whole = self.growth.redecide_all(self._continue_check)
        if is_whole:  # else the next build checks it all
            self.graph.note_later(lambda store: rows.write_config(store, self.started.book, self.config))
        self.growth.set_apart()
        tree.unsettled.clear()
        self._note_roots()

    def _continue_check(self) -> bool:
        """Reports the progress of the check; returns False if the build has to end."""
        self._show("checking")
        return not self._must_end

    def _note_roots(self) -> None:
        found = self.roots.rows()
        self.graph.note_later(lambda store: rows.write_roots(store.connection, self.started.book, found))

    # -------------------------------------------------------------- the queue
    def _poll(self) -> None:
        """Reads new queue items every `POLL_SECONDS`, and advances the lines of all items."""
        now = time.monotonic()
        if now - self.polled_at >= POLL_SECONDS:
            self.polled_at = now
            for item, board in self.requests.take(queue.waiting(self.tables, self.config.name)):
                if board.ply() < self.config.max_ply:
                    self.roots.enter(board, f"queue {item.id}")
                    self._note_roots()
        for item, state, note in self.requests.advance():
            self.graph.note_later(partial(queue.end, number=item.id, state=state, note=note))

    # -------------------------------------------------------------- searching
    def _may_search(self) -> bool:
        limit, each = self.settings.evaluations, self.config.leaf.evaluations or self.config.leaf.visits or 1
        running = len(self.searches.running)
        if limit is None or not self.searched + running:
            return True
        return self.evaluations + each * (running + 1) <= limit

    def _learn(self, line: BookLine, result: SearchResult) -> None:
        """Adds the search of the last position of a line to the book unless it was stopped."""
        position = self.tree.positions[line.keys[-1]]
        self.tree.release(position.key)
        self.visits += result.new_visits
        self.evaluations += result.evaluations
        if result.stop_reason in UNFINISHED:
            return
        board = board_from_fen(position.fen)
        record = self.graph.read(board)
        if record is None:
            raise GraphSearchError(f"a search of {position.fen} left no record")
        position.searches += 1
        self.searched += 1
        self.growth.learn(position, board, record)
        self.requests.searched(position.key)

    def _job(self, board: chess.Board) -> SearchJob:
        """Returns the search of a position within the limits of a leaf and the rest of the time."""
        leaf = self.config.leaf
        visits = leaf.visits
        if visits is None and leaf.evaluations is not None:
            visits = VISITS_PER_EVALUATION * leaf.evaluations
        seconds = max(self._seconds_left, LEAST_SECONDS) if self.settings.seconds else None
        return SearchJob(
            board=board,
            limits=Limits(visits=visits, evaluations=leaf.evaluations, seconds=seconds),
            params=SearchParams.from_options(f"{name}={text}" for name, text in leaf.params.items()),
            run=self.started.run,
            lists=False,
            mates=MateFinder,
        )

    # -------------------------------------------------------------- saving
    def _save(self, ended: str | None = None, *, wait: bool = True) -> None:
        """Writes what has changed in the book, and the numbers of this build.

        `ended`: why the build has ended, None while it runs. `wait`: until the file has it.
        """
        tree, started, report = self.tree, self.started, self._report("")
        numbers = {"positions": report.added} | {name: getattr(report, name) for name in RUN_COLUMNS}
        changed = tree.changed | {key for k in tree.changed for key in tree.positions[k].parents}
        positions, moves = rows.position_rows(tree, started.book, changed)
        tree.changed.clear()
        roots = self.roots.changes(self.searched)
        leaves = tree.leaf_costs() if ended else {}

        def write(store: Store) -> None:
            rows.write_positions(store.connection, positions, moves)
            for root in roots:
                history.write(store, started.run, root, started.book)
            if ended:
                rows.write_priorities(store, started.book, leaves)
            rows.write_run(store, started, numbers, ended)

        self.graph.note_later(write)
        (self.graph.flush if wait else self.graph.save_soon)()
        self.saved_at = time.monotonic()

    # -------------------------------------------------------------- reports
    def _report(self, ended: str) -> BuildReport:
        states = Counter(position.state for position in self.tree.positions.values())
        return BuildReport(
            book=self.config.name,
            ended=ended,
            roots=self.roots.values(),
            positions=states.total() - states[APART],
            leaves=states[LEAF],
            searched=self.searched,
            added=self.growth.added,
            visits=self.visits,
            evaluations=self.evaluations,
            seconds=time.monotonic() - self.began,
            waiting=len(self.requests.lines),
            line=self.line,
            ply=self.ply,
        )

    def _show(self, stage: str, after: float = SHOW_SECONDS) -> None:
        """Reports the progress, unless the last report was less than `after` seconds ago."""
        if self.on_progress and time.monotonic() - self.shown_at >= after:
            self.shown_at = time.monotonic()
            self.on_progress(self._report(stage))
