"""A search session over many positions of one graph file, or of a graph in memory; here or on workers."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import chess

from ...base.errors import CapacityError, GraphSearchError, InputFileError
from ...evaluators.factory import EvaluatorSpec
from ...evaluators.protocol import Evaluator
from ...graph.graph import Graph
from ...position.board import NOT_TERMINAL, history_keys, key_text, terminal_kind
from ...search.detached import STOP_SECONDS, Searches, open_searches
from ...search.job import Control, SearchJob
from ...search.params import Limits, SearchParams
from ...search.results import Progress, SearchResult
from ...solvers.mate.beside import MateFinder
from ...store.store import Store

KIND = "review"  # of a run
UNKEPT, SPENT = "review_unkept", "set_spent"  # rows of `store_info`
WAIT_SECONDS = 0.5  # for workers, between two looks at `stop`
SAVE_SECONDS = 5.0  # between two saves of a file: a kill loses at most this

OnProgress = Callable[[Progress], None]
Spent = tuple[int, int, int | None, int | None]  # as `outside.Spent`
_Fact = TypeVar("_Fact")
Tag = TypeVar("Tag")


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchSettings:
    """The settings of all searches.

    Attributes:
      limits: of each position; its earlier visits count, earlier evaluations and time do not.
      stop: ends the running search. note: called with notes for the user. kind: of the run.
      interval: seconds between two progress calls, in this process.
      workers, pool: processes that search, as for `search.detached.open_searches`.
    """

    limits: Limits
    params: SearchParams
    stop: threading.Event
    note: Callable[[str], None]
    kind: str = KIND
    interval: float = 0.5
    workers: int | None = None
    pool: str | None = None


@contextmanager
def open_session(
    path: Path | None, evaluator: Evaluator | EvaluatorSpec, work: SearchSettings, *, ram_bytes: int | None
) -> Iterator[Session]:
    """Yields the session of a graph file, or of a graph in memory.

    `book.review.review` describes the arguments.
    """
    with open_searches(
        path,
        evaluator,
        Control(stop=work.stop, interval=work.interval),
        ram_bytes=ram_bytes,
        workers=work.workers,
        pool=work.pool,
    ) as (graph, searches):
        yield Session(graph, searches, work)


class Session:
    """Searches positions, all in one run.

    Attributes:
      searches: what searches the graph. read: returns the record of a position.
      unkept: visits that positions lack and cannot get, by `name_of` them; and marks of positions that had
        their evaluations or time.
      spent: work on positions of sets, by `name_of` them.
    """

    def __init__(self, graph: Graph, searches: Searches[Any], work: SearchSettings) -> None:
        self._graph, self.searches, self._work = graph, searches, work
        self.read = graph.read
        self.unkept: dict[str, int] = {}
        self.spent: dict[str, Spent] = {}
        self._run: int | None = None
        self._visits = self._evaluations = 0
        self._saved_at = time.monotonic()
        if graph.store:
            graph.call(self._read_facts)

    def _read_facts(self, store: Store) -> None:
        self.unkept, self.spent = read_facts(store)

    def start(self, tag: object, board: chess.Board, limits: Limits) -> None:
        """Starts the search of a position; the first one of a game becomes a root in the graph's list."""
        if not board.move_stack:
            self._graph.begin_search(board, lists=True)
        job = SearchJob(
            board=board,
            limits=limits,
            params=self._work.params,
            run=self._begun(),
            lists=False,
            lines=0,
            mates=MateFinder.within,
        )
        self.searches.start(tag, job)

    def count(self, result: SearchResult) -> None:
        """Adds a search to the run, and saves from time to time."""
        self._visits += result.new_visits
        self._evaluations += result.evaluations
        if self._run is not None and time.monotonic() - self._saved_at >= SAVE_SECONDS:
            self._graph.note_later(self._note(finished=False))
            self._graph.save_soon()
            self._saved_at = time.monotonic()

    def finish(self) -> None:
        """Saves all records and ends the run, if anything was searched."""
        if self._run is not None:
            self._graph.flush(self._note(finished=True))

    def _begun(self) -> int | None:
        """Returns the number of the run, and begins it at the first search; None without a file."""
        if self._run is None and self._graph.store:
            self._graph.call(self._begin)
        return self._run

    def _begin(self, store: Store) -> None:
        self._run = _begin_run(store, self._work)

    def _note(self, *, finished: bool) -> Callable[[Store], None]:
        """Returns a function that writes the state of the run, and the visits that no record keeps."""
        run, visits, evaluations = self._run, self._visits, self._evaluations
        unkept, spent = dict(self.unkept), dict(self.spent)
        assert run is not None

        def write(store: Store) -> None:
            (store.finish_run if finished else store.update_run)(run, visits, evaluations)
            _write_facts(store, unkept, spent)

        return write


def _begin_run(store: Store, work: SearchSettings) -> int:
    return store.begin_run("", work.limits.as_dict(), work.params.as_dict(), kind=work.kind)


def _write_facts(store: Store, unkept: dict[str, int], spent: dict[str, Spent]) -> None:
    from ...base.outside import MOST_MARKS

    for name, found in ((UNKEPT, unkept), (SPENT, spent)):
        if found:
            store.write_fact(name, json.dumps(dict(list(found.items())[-MOST_MARKS:])))


def read_facts(store: Store) -> tuple[dict[str, int], dict[str, Spent]]:
    """Returns the visits that no record keeps, and the work on positions of sets; empty if unreadable."""
    from ...base.outside import Marks, SpentByPosition

    return _read_fact(store, UNKEPT, Marks), _read_fact(store, SPENT, SpentByPosition)


def _read_fact(store: Store, name: str, kind: type[_Fact]) -> _Fact:
    from ...base.outside import declared

    try:
        return declared(kind, store.read_fact(name) or "{}")
    except InputFileError:
        return declared(kind, "{}")


def before(board: chess.Board) -> Iterator[chess.Board]:
    """Yields a position and all before it, the last one first; the game is on its move stack."""
    walk = board.copy()
    while True:
        yield walk.copy()
        if not walk.move_stack:
            return
        walk.pop()


class PositionSearcher:
    """Searches positions, each until it has reached one of the limits.

    If a position still has too few visits in the file after its search, the session stores the number of
    missing visits: the result is proven, or visits ended in draws by repetition in this game, which no file
    keeps. A position that used up its evaluations or its time gets a mark. The next call searches neither
    again.

    Attributes:
      searched, known: numbers of positions searched now, and of positions with nothing left to do.
      visits, evaluations: added.
    """

    def __init__(
        self, session: Session, work: SearchSettings, *, on_progress: OnProgress | None = None
    ) -> None:
        """`on_progress`: called regularly with the progress of a position, in this process."""
        session.searches.control = replace(session.searches.control, on_progress=on_progress)
        self._session = session
        self._limits = work.limits
        self._stop = work.stop
        self.searched = self.known = self.visits = self.evaluations = 0

    def run(self, positions: Iterable[tuple[Tag, chess.Board]]) -> Iterator[tuple[Tag, SearchResult | None]]:
        """Searches positions, with workers several at once, and yields each when it is done.

        Args:
          positions: each with a tag for the caller, and with the game before it on its move stack.

        Yields:
          The tag and the result; None if nothing was left to do.

        Raises:
          EvaluatorError, StoreError: as `analyze`; results are saved then, or when the session closes.
          CapacityError: if the memory of the graph is too small.
        """
        waiting, searches = iter(positions), self._session.searches
        following: tuple[Tag, chess.Board] | None = None
        while not self._stop.is_set():
            while searches.room and (following := following or next(waiting, None)) is not None:
                tag, board = following
                if self._is_running(board):
                    break
                if (limits := self._left(board)) is None:
                    self.known += 1
                    yield tag, None
                else:
                    self.searched += 1
                    self._session.start((tag, board), board, limits)
                following = None
            if not searches.running:
                return
            yield from self._counted(searches.finished(WAIT_SECONDS))
        yield from self._counted(searches.stop(STOP_SECONDS))

    def _is_running(self, board: chess.Board) -> bool:
        """Returns whether a worker searches the position, perhaps in another game."""
        key = key_text(board)
        return any(key_text(other) == key for _, other in self._session.searches.running)

    def _counted(
        self, found: Iterator[tuple[tuple[Tag, chess.Board], SearchResult]]
    ) -> Iterator[tuple[Tag, SearchResult]]:
        for (tag, board), result in found:
            self._session.count(result)
            self.visits += result.new_visits
            self.evaluations += result.evaluations
            self._check(board, result)
            yield tag, result

    def _check(self, board: chess.Board, result: SearchResult) -> None:
        """Marks a position if its search has finished with fewer visits than wanted."""
        if result.stop_reason == "memory":
            raise CapacityError("the memory of the graph is full; a larger --ram holds more")
        if result.stop_reason == "reader":
            raise GraphSearchError(
                "another program is reading an old state of the file, which keeps its write-ahead log"
                " growing; close that program, and repeat the command to resume"
            )
        record = self._session.read(board)
        assert record is not None, "a search records its root"
        wanted = self._limits.visits
        if result.stop_reason in ("evaluations", "time"):
            self._session.unkept[self._mark(board)] = 1
        elif result.stop_reason != "stop" and wanted is not None and record.visits < wanted:
            self._session.unkept[name_of(board)] = wanted - record.visits

    def _mark(self, board: chess.Board) -> str:
        """Returns the name of a position that has used up its evaluations or its time under these limits."""
        return name_of(board, f"{self._limits.evaluations} {self._limits.seconds}")

    def _left(self, board: chess.Board) -> Limits | None:
        """Returns the remaining limits; None if none remain, or the rules or a proof decide the position."""
        limits, unkept = self._limits, self._session.unkept
        if terminal_kind(board) != NOT_TERMINAL or self._mark(board) in unkept:
            return None
        record = self._session.read(board)
        if record is None:
            return limits
        bounds = record.bounds_at(board.halfmove_clock)
        if bounds[0] == bounds[1] and any(edge.bounds == bounds for edge in record.edges):
            return None
        if limits.visits is None:
            return limits
        missing = limits.visits - record.visits - unkept.get(name_of(board), 0)
        return replace(limits, visits=missing) if missing > 0 else None


def name_of(board: chess.Board, more: str = "") -> str:
    """Returns a digest of a position, the earlier positions whose repetition is a draw, and a text."""
    past = sorted(int(key) for key in history_keys(board))
    text = f"{key_text(board)} {past}{more}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]
