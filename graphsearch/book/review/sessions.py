"""Search sessions of a review: over a graph file, or over the shards of a cluster."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import chess

from ...errors import InputFileError, InvalidParameterError
from ...evaluators.factory import EvaluatorSpec, create
from ...evaluators.protocol import Evaluator
from ...graph.graph import Graph
from ...search.loop import analyze
from ...search.params import Limits, SearchParams
from ...search.results import Progress, SearchResult
from ...search.shards.master import searching
from ...search.shards.shards import Shards
from ...search.shards.store import open_to_write
from ...solvers.mate.beside import MateFinder
from ...store.record.node import NodeRecord
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


class Session(Protocol):
    """Searches positions, all in one run.

    Attributes:
      unkept: visits that positions lack and cannot get, by `searching._name` of the positions.
    """

    unkept: dict[str, int]

    def read(self, board: chess.Board) -> NodeRecord | None:
        """Returns the record of a position."""

    def search(self, board: chess.Board, visits: int, on_progress: OnProgress | None) -> SearchResult:
        """Adds visits to a position; the first position of a game becomes a root in the graph's list."""

    def finish(self) -> None:
        """Saves all records and ends the run, if anything was searched."""


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
            yield _ClusterSession(stack, path, evaluator, work, ram_bytes)
            return
        if isinstance(evaluator, EvaluatorSpec):
            evaluator = stack.enter_context(closing(create(evaluator)))
        yield _GraphSession(
            stack.enter_context(Graph.open(path, evaluator=evaluator, ram_bytes=ram_bytes)), work
        )


class _GraphSession:
    """Searches in this process."""

    def __init__(self, graph: Graph, work: SearchSettings) -> None:
        self._graph, self._work = graph, work
        self.read = graph.read
        self.unkept: dict[str, int] = {}
        self._run: int | None = None
        self._visits = self._evaluations = 0
        self._saved_at = time.monotonic()
        graph.call(lambda store: self.unkept.update(_read_unkept(store)))

    def search(self, board: chess.Board, visits: int, on_progress: OnProgress | None) -> SearchResult:
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


class _ClusterSession:
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
        found = self._started().analyze(
            board,
            Limits(visits=visits),
            self._work.params,
            run=self._run,
            lists=not board.move_stack,
            on_progress=on_progress,
            stop=self._work.stop,
        )
        return found.result

    def finish(self) -> None:
        if self._shards is not None:
            self._searching.close()
            with open_to_write(self._folder) as store, store.transaction():
                _write_unkept(store, self.unkept)

    def _started(self) -> Shards:
        if self._shards is None:
            with open_to_write(self._folder) as store, store.transaction():
                self._run = _begin_run(store, self._work)
            self._shards = self._searching.enter_context(
                searching(
                    self._folder,
                    evaluator=self._spec,
                    pool=self._spec.pool,
                    ram_bytes=self._ram_bytes,
                    on_loss=self._work.note,
                )
            )
        return self._shards


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
