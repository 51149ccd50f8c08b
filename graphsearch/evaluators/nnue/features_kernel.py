"""What a network sees of a position: HalfKAv2_hm, every man on its square, by the own king's square.

Each side has its view: Black's mirrors the ranks, and both mirror the files so that the own king stands on e
to h. A feature is the index of a row:

    704 * bucket of the own king (32) + 64 * kind, own and theirs in turn (11; kings are one kind) + square
"""

from __future__ import annotations

from ...jit.compiler import inlined, inner
from ...jit.pointers import ONE, ctz
from ...jit.types import Pointer, int64, uint64
from ...position.words import KINGS, WHITE, Position
from .layout import PIECE_SQUARES


@inlined
def king_of(s: Position, side: int64) -> int64:
    """Returns the square of a side's king."""
    return ctz(s[KINGS] & s[WHITE + side])


@inlined
def view_of(king: int64, side: int64) -> tuple[int64, int64]:
    """Returns how a side with its king there sees: what to XOR squares with, and its first feature."""
    file = king & 7
    mirror = 7 if file < 4 else 0
    rank = (king >> 3) if side else 7 - (king >> 3)
    return mirror | (56 * side), (rank * 4 + (file ^ mirror ^ 7)) * PIECE_SQUARES


@inlined
def feature_of(man: int64, side: int64, turn: int64, first: int64) -> int64:
    """Returns the feature of a man in a side's view; `man` is square | colour << 6 | kind << 7."""
    kind = man >> 7
    theirs = ((man >> 6) & 1) ^ side
    return first + kind * 128 + (0 if kind == KINGS else theirs * 64) + ((man & 63) ^ turn)


@inner
def list_men(board: Position, other: Pointer[uint64], out: Pointer[int64]) -> int64:
    """Writes the men of a board that another one has not on the same square; returns how many.

    Args:
      board, other: positions, of which the first 8 words count.
      out: int64[32] out: square | colour << 6 | kind << 7 of each.
    """
    n = int64(0)
    for kind in range(6):
        for colour in range(2):
            men = board[kind] & board[WHITE + colour] & ~(other[kind] & other[WHITE + colour])
            while men:
                out[n] = ctz(men) | (colour << 6) | (kind << 7)
                n += 1
                men &= men - ONE
    return n
