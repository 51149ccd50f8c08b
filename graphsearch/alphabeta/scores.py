"""Values of searches of fixed depth as people read them. Pure, without Numba."""

from __future__ import annotations

MATE = 100_000  # MATE - n mates in n plies, as in kernels/evaluation_search.py
LEAST_MATE = MATE - 1000  # as in kernels/entries.py
FAR = 200_000  # beyond every value


def mate_moves(value: int) -> int | None:
    """Returns the moves to mate of a value, negative if the side to move is mated; None if it is no mate.

    >>> mate_moves(99_995), mate_moves(-99_996), mate_moves(-100_000), mate_moves(310)
    (3, -2, 0, None)
    """
    if abs(value) < LEAST_MATE:
        return None
    moves = (MATE - abs(value) + 1) // 2
    return moves if value > 0 else -moves


def centipawns(value: int) -> int | None:
    """Returns the centipawns of a value in thousandths of a pawn, None if it is a mate.

    >>> centipawns(314), centipawns(-5), centipawns(99_999)
    (31, 0, None)
    """
    return None if abs(value) >= LEAST_MATE else round(value / 10)
