"""Searches every position of a game, from the last to the first, until it has so many visits.

A position is searched after those that follow it in the game, so its search finds them in the graph: visits
of the played moves catch up without evaluations, with the values of searches of that size.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import chess

from ...errors import CapacityError, GraphSearchError
from ...position.board import NOT_TERMINAL, history_keys, key_text, terminal_kind
from ...search.results import Progress, SearchResult
from .sessions import SearchSettings, Session

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
