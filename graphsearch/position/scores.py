"""Scores of alpha-beta searches: thousandths of a pawn, and mates by their plies. Does not import Numba.

Quiescence, fixed-depth searches, transposition entries and their rows in the file share this scale.
"""

from __future__ import annotations

MATE = 100_000  # a lost position with no move, negated; MATE - n mates in n plies
LEAST_MATE = MATE - 1000  # scores from here on are forced mates
LEAST_WON = 50_000  # from here on: won against a bare king (`evaluators.batch_kernel`)
FAR = 200_000  # beyond every score


def mate_moves(value: int) -> int | None:
    """Returns the number of moves to mate of a score, negative if the side to move is mated; None if no mate.

    >>> mate_moves(99_995), mate_moves(-99_996), mate_moves(-100_000), mate_moves(310)
    (3, -2, 0, None)
    """
    if abs(value) < LEAST_MATE:
        return None
    moves = (MATE - abs(value) + 1) // 2
    return moves if value > 0 else -moves


def centipawns(value: int) -> int | None:
    """Returns the centipawns of a score in thousandths of a pawn, None if it is a mate.

    >>> centipawns(314), centipawns(-5), centipawns(99_999)
    (31, 0, None)
    """
    return None if abs(value) >= LEAST_MATE else round(value / 10)
