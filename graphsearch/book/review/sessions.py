"""A search session over many positions of one graph file, or of a graph in memory."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import chess

from ...base.errors import CapacityError, GraphSearchError, InputFileError
from ...evaluators.factory import EvaluatorSpec, create
from ...evaluators.protocol import Evaluator
from ...graph.graph import Graph
from ...position.board import NOT_TERMINAL, history_keys, key_text, terminal_kind
from ...search.job import nothing
from ...search.loop import analyze
from ...search.params import Limits, SearchParams
from ...search.results import Progress, SearchResult
from ...solvers.mate.beside import MateFinder
from ...store.store import Store

KIND = "review"  # of a run
UNKEPT, SPENT = "review_unkept", "set_spent"  # rows of `store_info`
SAVE_SECONDS = 5.0  # between two saves of a file: a kill loses at most this

OnProgress = Callable[[Progress], None]
Spent = tuple[int, int, int | None, int | None]  # as `outside.Spent`
_Fact = TypeVar("_Fact")


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchSettings:
    """The settings of all searches.

    Attributes:
      limits: of each position; its earlier visits count, earlier evaluations and time do not.
      stop: ends the running search. note: called with notes for the user. kind: of the run.
      interval: seconds between two progress calls.
    """

    limits: Limits
    params: SearchParams
    stop: threading.Event
    note: Callable[[str], None]
    kind: str = KIND
    interval: float = 0.5


@contextmanager
def open_session(
    path: Path | None, evaluator: Evaluator | EvaluatorSpec, work: SearchSettings, *, ram_bytes: int | None
) -> Iterator[Session]:
    """Yields the session of a graph file, or of a graph in memory.

    `book.review.review` describes the arguments.
    """
    with ExitStack() as stack:
        if isinstance(evaluator, EvaluatorSpec):
            evaluator = stack.enter_context(closing(create(evaluator)))
        yield Session(stack.enter_context(Graph.open(path, evaluator=evaluator, ram_bytes=ram_bytes)), work)


class Session:
    """Searches positions in this process, all in one run.

    Attributes:
      unkept: visits that positions lack and cannot get, by `name_of` them; and marks of positions that had
        their evaluations or time.
      spent: work on positions of sets, by `name_of` them.
    """

    def __init__(self, graph: Graph, work: SearchSettings) -> None:
        self._graph, self._work = graph, work
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

    def search(self, board: chess.Board, limits: Limits, on_progress: OnProgress | None) -> SearchResult:
        """Searches a position; the first position of a game becomes a root in the graph's list."""
        if not board.move_stack:
            self._graph.begin_search(board, lists=True)
        result = analyze(
            self._graph,
            board,
            limits,
            self._work.params,
            on_progress=on_progress,
            interval=self._work.interval,
            stop=self._work.stop,
            hurry=True,
            lines=0,
            run=self._begun(),
            mates=MateFinder(seconds=limits.seconds, visits=limits.visits or limits.evaluations),
        )
        self._visits += result.new_visits
        self._evaluations += result.evaluations
        if self._run is not None and time.monotonic() - self._saved_at >= SAVE_SECONDS:
            self._graph.note_later(self._note(finished=False))
            self._graph.save_soon()
            self._saved_at = time.monotonic()
        return result

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


class GameSearcher:
    """Searches positions, alone or as games, each until it has reached one of the limits.

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
        """`on_progress`: called regularly with the progress of a position."""
        self._session = session
        self._limits = work.limits
        self._stop = work.stop
        self._on_progress = on_progress
        self.searched = self.known = self.visits = self.evaluations = 0

    def search(self, board: chess.Board, on_ply: Callable[[int], object] = nothing) -> bool:
        """Searches a position and all before it, the last one first; returns False if it was stopped.

        Args:
          board: the last position, with the game on its move stack.
          on_ply: called with the ply of each position before its search.

        Raises:
          EvaluatorError, StoreError: as `analyze`; results are saved then, or when the session closes.
          CapacityError: if the memory of the graph is too small.
        """
        walk = board.copy()
        while not self._stop.is_set():
            on_ply(len(walk.move_stack))
            self.search_one(walk)
            if not walk.move_stack:
                return not self._stop.is_set()
            walk.pop()
        return False

    # ---------------------------------------------------------- one position
    def search_one(self, board: chess.Board) -> SearchResult | None:
        """Searches one position; returns None if nothing was left to do."""
        limits = self._left(board)
        if limits is None:
            self.known += 1
            return None
        self.searched += 1
        result = self._session.search(board, limits, self._on_progress)
        self.visits += result.new_visits
        self.evaluations += result.evaluations
        self._check(board, result)
        return result

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
