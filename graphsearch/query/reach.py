"""Whether one position can be reached from another, and a lower bound of the plies.

Only captures and pawn moves cannot be undone, so they prune the most.
"""

from __future__ import annotations

import chess

_FILES = chess.BB_FILES
_UP_TO = [sum(chess.BB_RANKS[: r + 1]) for r in range(8)]  # ranks 1 to r + 1
_DOWN_TO = [sum(chess.BB_RANKS[r:]) for r in range(8)]


Men = tuple[
    int, int, int, int, int, int, int
]  # of one side: pawns, knights, bishops, rooks, queens, kings, all


def _men(board: chess.Board, color: chess.Color) -> Men:
    own = board.occupied_co[color]
    return (
        board.pawns & own,
        board.knights & own,
        board.bishops & own,
        board.rooks & own,
        board.queens & own,
        board.kings & own,
        own,
    )


class Target:
    """A position to be reached."""

    def __init__(self, board: chess.Board) -> None:
        self._white = _men(board, chess.WHITE)
        self._black = _men(board, chess.BLACK)
        self._turn = board.turn
        self._rights = board.clean_castling_rights()
        self._pawns: dict[tuple[int, bool, bool], bool] = {}

    def plies_from(self, board: chess.Board) -> int | None:
        """Returns a lower bound of the plies from a position; None: it cannot be reached.

        >>> start, later = chess.Board(), chess.Board()
        >>> for san in ("e4", "e5", "Nf3"):
        ...     _ = later.push_san(san)
        >>> Target(later).plies_from(start), Target(start).plies_from(later)
        (3, None)
        """
        if self._rights & ~board.castling_rights:
            return None
        white, black = _men(board, chess.WHITE), _men(board, chess.BLACK)
        taken_black = black[6].bit_count() - self._black[6].bit_count()
        taken_white = white[6].bit_count() - self._white[6].bit_count()
        if taken_black < 0 or taken_white < 0:
            return None
        if not self._pawns_can(white[0], chess.WHITE, taken_black > 0):
            return None
        if not self._pawns_can(black[0], chess.BLACK, taken_white > 0):
            return None
        by_white, by_black = _moves_needed(white, self._white), _moves_needed(black, self._black)
        if by_white is None or by_black is None:
            return None
        first, second = (by_white, by_black) if board.turn == chess.WHITE else (by_black, by_white)
        plies = max(2 * first - 1, 2 * second, 0)
        return plies + ((plies + (board.turn != self._turn)) & 1)

    def _pawns_can(self, pawns: int, color: chess.Color, captures: bool) -> bool:
        """Returns whether pawns that only move forward, and change files only by captures, can get there."""
        known = self._pawns.get((pawns, color, captures))
        if known is None:
            goal = (self._white if color == chess.WHITE else self._black)[0]
            known = _reach(pawns, goal, _UP_TO if color == chess.WHITE else _DOWN_TO, captures)
            self._pawns[pawns, color, captures] = known
        return known


def _moves_needed(now: Men, goal: Men) -> int | None:
    """Returns a lower bound of a side's moves."""
    promotions = now[0].bit_count() - goal[0].bit_count()
    missing = [(b & ~a).bit_count() for a, b in zip(now[:6], goal[:6], strict=True)]
    made = sum(max(0, b.bit_count() - a.bit_count()) for a, b in zip(now[1:6], goal[1:6], strict=True))
    if promotions < made:
        return None
    castling = missing[5] and missing[3]  # king and rook by one move
    return sum(missing) - bool(castling)


def _reach(pawns: int, goal: int, behind: list[int], captures: bool) -> bool:
    parts = (chess.BB_ALL,) if captures else _FILES
    return all(
        (goal & part & ranks).bit_count() <= (pawns & part & ranks).bit_count()
        for part in parts
        for ranks in behind
    )
