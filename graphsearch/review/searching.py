"""Every position of a game to so many visits: one graph, one evaluator, from the last position to the first.

A position is searched after those that follow it in the game. So its search finds them known: visits of the
moves that were played catch up without evaluations, with values that a search of that size has settled.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable

import chess

from ..errors import CapacityError, GraphSearchError
from ..graph.graph import Graph
from ..mate.beside import MateFinder
from ..position.board import NOT_TERMINAL, history_keys, key_of, terminal_kind
from ..search.loop import analyze
from ..search.params import Limits, SearchParams
from ..search.results import Progress, SearchResult
from ..store.store import Store

KIND = "review"  # of a run
UNKEPT = "review_unkept"  # the row of `store_info`
MOST_UNKEPT = 20_000  # positions that it remembers
SAVE_SECONDS = 5.0  # between two savings: what a kill costs at most
OnVisits = Callable[[int], object]


class GameSearcher:
    """Searches the positions of games.

    A position whose search ends with fewer visits in the file than it was to have is remembered, with what is
    missing: its result is proven, or visits ended in draws by repetition in this game, which no file keeps.
    So it costs nothing the next time.

    Attributes:
      searched, known: positions that were searched, and that had their visits.
      visits, evaluations: that were added.
    """

    def __init__(
        self,
        graph: Graph,
        visits: int,
        params: SearchParams,
        *,
        stop: threading.Event,
        on_visits: OnVisits | None = None,
    ) -> None:
        """Makes one; `on_visits` is called now and then with the visits that a position has got so far."""
        self._graph = graph
        self._visits = visits
        self._params = params
        self._stop = stop
        self._on_visits = on_visits
        self._run: int | None = None
        self._saved_at = time.monotonic()
        self._unkept: dict[str, int] = {}
        graph.call(self._read_unkept)
        self.searched = self.known = self.visits = self.evaluations = 0

    def search(self, board: chess.Board) -> bool:
        """Searches a position and all before it, the last one first; returns whether it came to the end.

        Args:
          board: the last position, with the game on its move stack.

        Raises:
          EvaluatorError, StoreError: as `analyze`. What was found is saved then, or when the graph is closed.
          CapacityError: if the memory of the graph is too small.
        """
        walk = board.copy()
        while not self._stop.is_set():
            self._one(walk)
            if not walk.move_stack:
                return not self._stop.is_set()
            walk.pop()
        return False

    def finish(self) -> None:
        """Writes down the end of the run, if anything was searched."""
        if self._run is not None:
            self._graph.flush(self._note(finished=True))

    # ---------------------------------------------------------- one position
    def _one(self, board: chess.Board) -> None:
        missing = self._missing(board)
        if missing <= 0:
            self.known += 1
            return
        if not board.move_stack:
            self._graph.begin_search(board, lists=True)  # a game's first position is a root of the file
        self.searched += 1
        self._check(board, self._analyzed(board, missing))
        if time.monotonic() - self._saved_at >= SAVE_SECONDS:
            self._graph.note_later(self._note(finished=False))
            self._graph.save_soon()
            self._saved_at = time.monotonic()

    def _analyzed(self, board: chess.Board, missing: int) -> SearchResult:
        def show(now: Progress) -> None:
            if self._on_visits:
                self._on_visits(self._visits - missing + now.new_visits)

        result = analyze(
            self._graph,
            board,
            Limits(visits=missing),
            self._params,
            on_progress=show if self._on_visits else None,
            stop=self._stop,
            hurry=True,
            lines=0,
            run=self._begun(),
            mates=MateFinder(visits=missing),
        )
        self.visits += result.new_visits
        self.evaluations += result.evaluations
        return result

    def _check(self, board: chess.Board, result: SearchResult) -> None:
        """Remembers what a search that is done leaves missing.

        Raises:
          CapacityError, GraphSearchError: if it ended for a reason that keeps all others from going on.
        """
        if result.stop_reason == "memory":
            raise CapacityError("the memory of the graph is full; a larger --ram holds more")
        if result.stop_reason == "reader":
            raise GraphSearchError(
                "another program is reading an old state of the file, which keeps its write-ahead log"
                " growing; close that program, and repeat the command to resume"
            )
        record = self._graph.read(board)
        assert record is not None, "a search records its root"
        if result.stop_reason != "stop" and record.visits < self._visits:
            self._unkept[_name(board)] = self._visits - record.visits

    def _missing(self, board: chess.Board) -> int:
        """Returns the visits that a position is still to get; none if the rules or a proof decide it."""
        if terminal_kind(board) != NOT_TERMINAL:
            return 0
        record = self._graph.read(board)
        if record is None:
            return self._visits
        bounds = record.bounds_at(board.halfmove_clock)
        if bounds[0] == bounds[1] and any(edge.bounds == bounds for edge in record.edges):
            return 0
        missing = self._visits - record.visits
        return missing - self._unkept.get(_name(board), 0) if missing > 0 and self._unkept else missing

    # ---------------------------------------------------------- the file
    def _begun(self) -> int:
        """Returns the number of the run, which begins with the first search."""
        if self._run is None:

            def begin(store: Store) -> None:
                limits = Limits(visits=self._visits).as_dict()
                self._run = store.begin_run("", limits, self._params.as_dict(), kind=KIND)

            self._graph.call(begin)
        assert self._run is not None
        return self._run

    def _note(self, *, finished: bool) -> Callable[[Store], None]:
        """Returns what writes down how far the run is, and what is not kept."""
        run, visits, evaluations = self._begun(), self.visits, self.evaluations
        kept = dict(list(self._unkept.items())[-MOST_UNKEPT:])

        def write(store: Store) -> None:
            (store.finish_run if finished else store.update_run)(run, visits, evaluations)
            if kept:
                store.write_fact(UNKEPT, json.dumps(kept))

        return write

    def _read_unkept(self, store: Store) -> None:
        try:
            found = json.loads(store.read_fact(UNKEPT) or "{}")
        except ValueError:
            found = None
        if isinstance(found, dict):
            self._unkept = {name: n for name, n in found.items() if isinstance(n, int)}


def _name(board: chess.Board) -> str:
    """Returns a name of a position and of those that a return to makes a draw in its game."""
    past = sorted(int(key) for key in history_keys(board))
    return hashlib.sha256(f"{key_of(board)} {past}".encode()).hexdigest()[:16]
