"""Search sessions of a review: over a graph file, or over the shards of a cluster."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import chess

from ...errors import CapacityError, GraphSearchError, InputFileError, InvalidParameterError
from ...evaluators.factory import EvaluatorSpec, create
from ...evaluators.protocol import Evaluator
from ...graph.graph import Graph
from ...position.board import NOT_TERMINAL, history_keys, key_text, terminal_kind
from ...search.job import Control, SearchJob
from ...search.loop import analyze
from ...search.params import Limits, SearchParams
from ...search.results import Progress, SearchResult
from ...search.shards.master import Shards, searching
from ...search.shards.store import open_to_write
from ...solvers.mate.beside import MateFinder
from ...store.sharded.files import open_to_read
from ...store.sharded.manifest import is_sharded
from ...store.store import Store

KIND = "review"  # of a run
UNKEPT = "review_unkept"  # the row of `store_info`
MOST_UNKEPT = 20_000  # of positions
SAVE_SECONDS = 5.0  # between two saves of a file: the most that a kill costs

OnProgress = Callable[[Progress], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchSettings:
    """The settings of all searches.

    Attributes:
      visits: wanted for each position. stop: ends the running search.
      note: called with notes for the user.
    """

    visits: int
    params: SearchParams
    stop: threading.Event
    note: Callable[[str], None]


@contextmanager
def open_session(
    path: Path, evaluator: Evaluator | EvaluatorSpec, work: SearchSettings, *, ram_bytes: int | None
) -> Iterator[Session]:
    """Yields the session of a review; `book.review.review` describes the arguments."""
    with ExitStack() as stack:
        if is_sharded(path):
            if not isinstance(evaluator, EvaluatorSpec):
                raise InvalidParameterError(
                    f"{path} is a cluster, and each of its shards makes an evaluator: give an EvaluatorSpec"
                )
            yield ClusterSession(stack, path, evaluator, work, ram_bytes)
            return
        if isinstance(evaluator, EvaluatorSpec):
            evaluator = stack.enter_context(closing(create(evaluator)))
        yield GraphSession(
            stack.enter_context(Graph.open(path, evaluator=evaluator, ram_bytes=ram_bytes)), work
        )


class GraphSession:
    """Searches positions in this process, all in one run.

    Attributes:
      unkept: visits that positions lack and cannot get, by `_name` of the positions.
    """

    def __init__(self, graph: Graph, work: SearchSettings) -> None:
        self._graph, self._work = graph, work
        self.read = graph.read
        self.unkept: dict[str, int] = {}
        self._run: int | None = None
        self._visits = self._evaluations = 0
        self._saved_at = time.monotonic()
        graph.call(lambda store: self.unkept.update(_read_unkept(store)))

    def search(self, board: chess.Board, visits: int, on_progress: OnProgress | None) -> SearchResult:
        """Adds visits to a position; the first position of a game becomes a root in the graph's list."""
        if not board.move_stack:
            self._graph.begin_search(board, lists=True)
        result = analyze(
            self._graph,
            board,
            Limits(visits=visits),
            self._work.params,
            on_progress=on_progress,
            stop=self._work.stop,
            hurry=True,
            lines=0,
            run=self._begun(),
            mates=MateFinder(visits=visits),
        )
        self._visits += result.new_visits
        self._evaluations += result.evaluations
        if time.monotonic() - self._saved_at >= SAVE_SECONDS:
            self._graph.note_later(self._note(finished=False))
            self._graph.save_soon()
            self._saved_at = time.monotonic()
        return result

    def finish(self) -> None:
        """Saves all records and ends the run, if anything was searched."""
        if self._run is not None:
            self._graph.flush(self._note(finished=True))

    def _begun(self) -> int:
        """Returns the number of the run, which begins with the first search."""
        if self._run is None:
            self._graph.call(self._begin)
        assert self._run is not None
        return self._run

    def _begin(self, store: Store) -> None:
        self._run = _begin_run(store, self._work)

    def _note(self, *, finished: bool) -> Callable[[Store], None]:
        """Returns a function that writes the state of the run, and the visits that no record keeps."""
        run, visits, evaluations, unkept = self._begun(), self._visits, self._evaluations, dict(self.unkept)

        def write(store: Store) -> None:
            (store.finish_run if finished else store.update_run)(run, visits, evaluations)
            _write_unkept(store, unkept)

        return write


class ClusterSession:
    """Searches with the shards of a cluster, which start with the first position that lacks visits."""

    def __init__(
        self, stack: ExitStack, folder: Path, spec: EvaluatorSpec, work: SearchSettings, ram_bytes: int | None
    ) -> None:
        self._folder, self._spec, self._work, self._ram_bytes = folder, spec, work, ram_bytes
        self._files = stack.enter_context(closing(open_to_read(folder)))
        self._searching = stack.enter_context(ExitStack())
        self._shards: Shards | None = None
        self._run = 0
        self.read = self._files.read
        self.unkept = _read_unkept(self._files)

    def search(self, board: chess.Board, visits: int, on_progress: OnProgress | None) -> SearchResult:
        """Adds visits to a position, as `GraphSession.search`."""
        shards, work = self._started(), self._work
        limits, lists = Limits(visits=visits), not board.move_stack
        job = SearchJob(board=board, limits=limits, params=work.params, run=self._run, lists=lists)
        return shards.search(job, Control(on_progress=on_progress, stop=work.stop, on_loss=work.note)).result

    def finish(self) -> None:
        """Saves all records and ends the run, if anything was searched."""
        if self._shards is not None:
            self._searching.close()
            with open_to_write(self._folder) as store, store.transaction():
                _write_unkept(store, self.unkept)

    def _started(self) -> Shards:
        if self._shards is None:
            with open_to_write(self._folder) as store, store.transaction():
                self._run = _begin_run(store, self._work)
            self._shards = self._searching.enter_context(
                searching(self._folder, evaluator=self._spec, pool=self._spec.pool, ram_bytes=self._ram_bytes)
            )
        return self._shards


Session = GraphSession | ClusterSession


def _begin_run(store: Store, work: SearchSettings) -> int:
    """Returns the number of a new run of a review."""
    return store.begin_run("", Limits(visits=work.visits).as_dict(), work.params.as_dict(), kind=KIND)


def _write_unkept(store: Store, unkept: dict[str, int]) -> None:
    if unkept:
        store.write_fact(UNKEPT, json.dumps(dict(list(unkept.items())[-MOST_UNKEPT:])))


def _read_unkept(store: Store) -> dict[str, int]:
    from ...outside import Counts, declared

    try:
        return declared(Counts, store.read_fact(UNKEPT) or "{}")
    except InputFileError:
        return {}


OnVisits = Callable[[int], object]


class GameSearcher:
    """Searches the positions of games.

    If the file has fewer visits of a position after its search than wanted, the number of missing visits is
    stored: its result is proven, or visits ended in draws by repetition in this game, which no file keeps. So
    the position costs nothing the next time.

    Attributes:
      searched, known: numbers of positions that were searched, and that had their visits.
      visits, evaluations: added.
    """

    def __init__(self, session: Session, work: SearchSettings, *, on_visits: OnVisits | None = None) -> None:
        """Takes the session; `on_visits` is called now and then with the visits of the position so far."""
        self._session = session
        self._visits = work.visits
        self._stop = work.stop
        self._on_visits = on_visits
        self.searched = self.known = self.visits = self.evaluations = 0

    def search(self, board: chess.Board) -> bool:
        """Searches a position and all before it, the last one first; returns False if it was stopped.

        Args:
          board: the last position, with the game on its move stack.

        Raises:
          EvaluatorError, StoreError: as `analyze`. What was found is saved then, or when the session is
            closed.
          CapacityError: if the memory of the graph is too small.
        """
        walk = board.copy()
        while not self._stop.is_set():
            self._one(walk)
            if not walk.move_stack:
                return not self._stop.is_set()
            walk.pop()
        return False

    # ---------------------------------------------------------- one position
    def _one(self, board: chess.Board) -> None:
        missing = self._missing(board)
        if missing <= 0:
            self.known += 1
            return
        self.searched += 1
        self._check(board, self._analyzed(board, missing))

    def _analyzed(self, board: chess.Board, missing: int) -> SearchResult:
        def show(now: Progress) -> None:
            if self._on_visits:
                self._on_visits(self._visits - missing + now.new_visits)

        result = self._session.search(board, missing, show if self._on_visits else None)
        self.visits += result.new_visits
        self.evaluations += result.evaluations
        if self._on_visits:
            self._on_visits(self._visits)
        return result

    def _check(self, board: chess.Board, result: SearchResult) -> None:
        """Stores the number of visits that a finished search has left missing.

        Raises:
          CapacityError, GraphSearchError: if it ended for a reason that stops all searches.
        """
        if result.stop_reason == "memory":
            raise CapacityError("the memory of the graph is full; a larger --ram holds more")
        if result.stop_reason == "reader":
            raise GraphSearchError(
                "another program is reading an old state of the file, which keeps its write-ahead log"
                " growing; close that program, and repeat the command to resume"
            )
        record = self._session.read(board)
        assert record is not None, "a search records its root"
        if result.stop_reason != "stop" and record.visits < self._visits:
            self._session.unkept[_name(board)] = self._visits - record.visits

    def _missing(self, board: chess.Board) -> int:
        """Returns the missing visits of a position; 0 if the rules or a proof decide it."""
        if terminal_kind(board) != NOT_TERMINAL:
            return 0
        record = self._session.read(board)
        if record is None:
            return self._visits
        bounds = record.bounds_at(board.halfmove_clock)
        if bounds[0] == bounds[1] and any(edge.bounds == bounds for edge in record.edges):
            return 0
        missing, unkept = self._visits - record.visits, self._session.unkept
        return missing - unkept.get(_name(board), 0) if missing > 0 and unkept else missing


def _name(board: chess.Board) -> str:
    """Returns a digest of a position and of the earlier ones whose repetition is a draw."""
    past = sorted(int(key) for key in history_keys(board))
    return hashlib.sha256(f"{key_text(board)} {past}".encode()).hexdigest()[:16]
