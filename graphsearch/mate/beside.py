"""The prover beside a best-first search: a mate before it begins, a shorter one once its root is proven.

A search looks where the evaluator sees most; of two mates it proves the one that it comes by first. So before
it begins the prover settles mates in two, for either side, and in a decided position looks for longer ones.
After a proof it goes on until no shorter mate is left.
"""

from __future__ import annotations

import threading

import chess

from ..errors import CapacityError
from ..graph.graph import Graph
from ..graph.lines import learn_line
from .limits import MateLimits
from .session import find_mate

AT_LEAST = 2  # moves of mates that are always settled
DECIDED = 0.5  # |Q| from which longer ones are likely
DECIDED_SHARE, OPEN_SHARE, SHARE_AFTER = 0.4, 0.03, 0.1  # of the search's time
VISITS_PER_VISIT = 4  # of the prover in a decided position: a visit of a search takes some ten times as long
VISITS = 250_000  # of the prover where nothing is set: about a second
MOST_SECONDS = 30.0  # of the prover, however long the search is
LEAST_SECONDS = 0.05  # of a search; with less the prover would take a large part of it
SETTLING_VISITS = 20_000  # that settling mates in two may take
SETTLING_BYTES, TABLE_BYTES = 1 << 18, 1 << 26  # of the prover's table
TRIAL = "kbK5/pp6/1P6/8/8/8/8/R7 w - - 0 1"  # a mate in two: a search of it compiles all that a finder needs


def compile_kernels() -> None:
    """Compiles what a finder needs, and what takes its line into a graph, which is then thrown away."""
    board = chess.Board(TRIAL)
    with Graph.open(None) as graph:
        learn_line(graph, board, find_mate(board, MateLimits(moves=AT_LEAST)).pv)


class MateFinder:
    """Looks for mates on behalf of one search."""

    def __init__(self, *, seconds: float | None = None, visits: int | None = None) -> None:
        """Makes one for a search of so many seconds and visits; None: without such a limit."""
        self._seconds = seconds
        self._visits = visits
        self._is_shortest = False

    def before(self, board: chess.Board, q: float, stop: threading.Event) -> tuple[chess.Move, ...]:
        """Returns the line of a mate in a position that is still open, for either side; nothing without one.

        Args:
          q: of the position, as far as it is known.
          stop: ends the search for it.
        """
        if self._seconds and self._seconds < LEAST_SECONDS:
            return ()
        limits = MateLimits(visits=SETTLING_VISITS, seconds=self._share(DECIDED_SHARE), moves=AT_LEAST)
        line = self._line(board, limits, stop, SETTLING_BYTES)
        longer = self._longer(decided=abs(q) >= DECIDED)
        return line if line or longer is None else self._line(board, longer, stop, TABLE_BYTES)

    def _longer(self, *, decided: bool) -> MateLimits | None:
        """Returns the limits of looking for longer mates, None not to look."""
        seconds = self._share(DECIDED_SHARE if decided else OPEN_SHARE)
        if self._seconds and not self._visits:
            return MateLimits(seconds=seconds)
        visits = VISITS_PER_VISIT * self._visits if self._visits else VISITS
        return MateLimits(visits=visits, seconds=seconds) if decided else None

    def after(self, board: chess.Board, mate: int | None, stop: threading.Event) -> tuple[chess.Move, ...]:
        """Returns the line of a shorter mate than the one that is proven; where the side to move is mated, of
        its longest defence.

        Args:
          mate: moves of the mate that is proven, negative if it is suffered; None: unknown.
        """
        most = None if mate is None else mate - 1 if mate > 0 else -mate
        if most == 0 or self._is_shortest:
            return ()
        visits = None if self._seconds else VISITS
        limits = MateLimits(visits=visits, seconds=self._share(SHARE_AFTER), moves=most)
        return self._line(board, limits, stop, TABLE_BYTES)

    def _share(self, share: float) -> float | None:
        return min(share * self._seconds, MOST_SECONDS) if self._seconds else None

    def _line(
        self, board: chess.Board, limits: MateLimits, stop: threading.Event, table_bytes: int
    ) -> tuple[chess.Move, ...]:
        try:
            result = find_mate(board, limits, stop=stop, table_bytes=table_bytes)
        except CapacityError:  # the table lost its proof
            return ()
        self._is_shortest = result.shortest
        return result.pv
