"""Searches many positions of one graph file, or of a graph in memory, in one run; here or on workers."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, TypeVar

import chess
from pydantic import Field, TypeAdapter

from ...base.errors import CapacityError, GraphSearchError
from ...evaluators.factory import EvaluatorSpec
from ...evaluators.protocol import Evaluator
from ...exchange.importing import Problem
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
MOST_MARKS = 20_000  # of positions
_Count = Annotated[int, Field(ge=0, lt=1 << 53, strict=True)]
_Name = Annotated[str, Field(min_length=1, max_length=4096)]
_MARKS = TypeAdapter(Annotated[dict[_Name, _Count], Field(max_length=MOST_MARKS)])
# of one position of a set: evaluations and milliseconds spent on it, and both when its best move became right
_Spent = tuple[_Count, _Count, _Count | None, _Count | None]
_SPENT = TypeAdapter(Annotated[dict[_Name, _Spent], Field(max_length=MOST_MARKS)])
Tag = TypeVar("Tag")


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchSettings:
    """The settings of all searches.

    Attributes:
      limits: of each position; its earlier visits count, earlier evaluations and time do not.
      kind: of the run. interval: seconds between two progress calls, in this process.
      workers, pool: processes that search, as for `search.detached.open_searches`; None: this one.
    """

    limits: Limits
    params: SearchParams = field(default_factory=SearchParams)
    kind: str = KIND
    interval: float = 0.5
    workers: int | None = None
    pool: str | None = None


@dataclass(slots=True, kw_only=True)
class Work:
    """The work of one call.

    Attributes:
      searched, known: numbers of positions that got visits, and of those with nothing left to do.
      problems: parts of the input that were left out. notes: for the user, one line each.
    """

    searched: int = 0
    known: int = 0
    new_visits: int = 0
    evaluations: int = 0
    seconds: float = 0.0
    stopped: bool = False
    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@contextmanager
def open_session(
    path: Path | None,
    evaluator: Evaluator | EvaluatorSpec,
    settings: SearchSettings,
    stop: threading.Event,
    work: Work,
    *,
    ram_bytes: int | None,
) -> Iterator[Session]:
    """Yields the session of a graph file, or of a graph in memory; as `book.review.review`."""
    with open_searches(
        path,
        evaluator,
        Control(stop=stop, interval=settings.interval),
        ram_bytes=ram_bytes,
        workers=settings.workers,
        pool=settings.pool,
    ) as (graph, searches):
        yield Session(graph, searches, settings, stop, work)


class Session:
    """Searches positions, each until it has reached one of the limits, all in one run.

    If a position still has too few visits in the file after its search, the session stores the number of
    missing visits: the result is proven, or visits ended in draws by repetition in this game, which no file
    keeps. A position that used up its evaluations or its time gets a mark. The next call searches neither
    again.

    Attributes:
      unkept: these visits and marks; spent: work on positions of sets; both by `name_of` the position.
    """

    def __init__(
        self,
        graph: Graph,
        searches: Searches[Any],
        settings: SearchSettings,
        stop: threading.Event,
        work: Work | None = None,
    ) -> None:
        """Creates a session; `stop` ends the running search."""
        self._graph, self._searches, self._settings, self._stop = graph, searches, settings, stop
        self.read, self.work = graph.read, work or Work()
        self.unkept: dict[str, int] = {}
        self.spent: dict[str, Spent] = {}
        self._run: int | None = None
        self._saved_at = time.monotonic()
        if graph.store:
            graph.call(self._read_facts)

    def run(
        self, positions: Iterable[tuple[Tag, chess.Board]], *, on_progress: OnProgress | None = None
    ) -> Iterator[tuple[Tag, SearchResult | None]]:
        """Searches positions, with workers several at once, and yields each when it is done.

        Args:
          positions: each with a tag for the caller, and with the game before it on its move stack.

        Yields:
          The tag and the result; None if nothing was left to do.

        Raises:
          EvaluatorError, StoreError: as `analyze`; results are saved then, or when the session closes.
          CapacityError: if the memory of the graph is too small.
        """
        waiting, searches = iter(positions), self._searches
        searches.control = replace(searches.control, on_progress=on_progress)
        following: tuple[Tag, chess.Board] | None = None
        while not self._stop.is_set():
            while searches.room and (following := following or next(waiting, None)) is not None:
                tag, board = following
                if any(key_text(other) == key_text(board) for _, other in searches.running):
                    break  # a worker searches it, perhaps in another game
                if (limits := self._left(board)) is None:
                    self.work.known += 1
                    yield tag, None
                else:
                    self.work.searched += 1
                    self._start((tag, board), board, limits)
                following = None
            if not searches.running:
                return
            yield from self._counted(searches.finished(WAIT_SECONDS))
        yield from self._counted(searches.stop(STOP_SECONDS))

    def _start(self, tag: object, board: chess.Board, limits: Limits) -> None:
        """Starts the search of a position; the first one of a game becomes a root in the graph's list."""
        if not board.move_stack:
            self._graph.begin_search(board, lists=True)
        if self._run is None and self._graph.store:
            self._graph.call(self._begin)
        job = SearchJob(
            board=board,
            limits=limits,
            params=self._settings.params,
            run=self._run,
            lists=False,
            lines=0,
            mates=MateFinder,
        )
        self._searches.start(tag, job)

    def _begin(self, store: Store) -> None:
        limits, params = self._settings.limits.as_dict(), self._settings.params.as_dict()
        self._run = store.begin_run("", limits, params, kind=self._settings.kind)

    def _counted(
        self, found: Iterator[tuple[tuple[Tag, chess.Board], SearchResult]]
    ) -> Iterator[tuple[Tag, SearchResult]]:
        """Adds searches to the run, and saves from time to time."""
        for (tag, board), result in found:
            self.work.new_visits += result.new_visits
            self.work.evaluations += result.evaluations
            if self._run is not None and time.monotonic() - self._saved_at >= SAVE_SECONDS:
                self._graph.note_later(self._note(finished=False))
                self._graph.save_soon()
                self._saved_at = time.monotonic()
            self._check(board, result)
            yield tag, result

    # -------------------------------------------------------------- saving
    def finish(self) -> None:
        """Saves all records and ends the run, if anything was searched."""
        if self._run is not None:
            self._graph.flush(self._note(finished=True))

    def _note(self, *, finished: bool) -> Callable[[Store], None]:
        """Returns a function that writes the state of the run, and the facts."""
        run, visits, evaluations = self._run, self.work.new_visits, self.work.evaluations
        facts = {
            name: json.dumps(dict(list(found.items())[-MOST_MARKS:]))
            for name, found in ((UNKEPT, self.unkept), (SPENT, self.spent))
            if found
        }
        assert run is not None

        def write(store: Store) -> None:
            store.update_run(run, visits, evaluations, finished=finished)
            for name, text in facts.items():
                store.write_fact(name, text)

        return write

    def _read_facts(self, store: Store) -> None:
        """Reads the facts; none if unreadable."""
        self.unkept, self.spent = _fact(store, UNKEPT, _MARKS), _fact(store, SPENT, _SPENT)

    # -------------------------------------------------------------- what is left to do
    def _check(self, board: chess.Board, result: SearchResult) -> None:
        """Marks a position if its search has finished with fewer visits than wanted."""
        if result.stop_reason == "memory":
            raise CapacityError("the memory of the graph is full; a larger --ram holds more")
        if result.stop_reason == "reader":
            raise GraphSearchError(
                "another program is reading an old state of the file, which keeps its write-ahead log"
                " growing; close that program, and repeat the command to resume"
            )
        record = self.read(board)
        assert record is not None, "a search records its root"
        wanted = self._settings.limits.visits
        if result.stop_reason in ("evaluations", "time"):
            self.unkept[self._mark(board)] = 1
        elif result.stop_reason != "stop" and wanted is not None and record.visits < wanted:
            self.unkept[name_of(board)] = wanted - record.visits

    def _mark(self, board: chess.Board) -> str:
        """Returns the name of a position that has used up its evaluations or its time under these limits."""
        return name_of(board, f"{self._settings.limits.evaluations} {self._settings.limits.seconds}")

    def _left(self, board: chess.Board) -> Limits | None:
        """Returns the remaining limits; None if none remain, or the rules or a proof decide the position."""
        limits, unkept = self._settings.limits, self.unkept
        if terminal_kind(board) != NOT_TERMINAL or self._mark(board) in unkept:
            return None
        record = self.read(board)
        if record is None:
            return limits
        bounds = record.bounds_at(board.halfmove_clock)
        if bounds[0] == bounds[1] and any(edge.bounds == bounds for edge in record.edges):
            return None
        if limits.visits is None:
            return limits
        missing = limits.visits - record.visits - unkept.get(name_of(board), 0)
        return replace(limits, visits=missing) if missing > 0 else None


def _fact(store: Store, name: str, kind: TypeAdapter[_Fact]) -> _Fact:
    try:
        return kind.validate_json(store.read_fact(name) or "{}")
    except ValueError:  # another program may have written it
        return kind.validate_json("{}")


def before(board: chess.Board) -> Iterator[chess.Board]:
    """Yields a position and all before it, the last one first; the game is on its move stack."""
    walk = board.copy()
    while True:
        yield walk.copy()
        if not walk.move_stack:
            return
        walk.pop()


def name_of(board: chess.Board, more: str = "") -> str:
    """Returns a digest of a position, the earlier positions whose repetition is a draw, and a text."""
    past = sorted(int(key) for key in history_keys(board))
    text = f"{key_text(board)} {past}{more}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]
