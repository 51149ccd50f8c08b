"""Endings against a bare king: scores that lead to the mate.

Networks score such an ending by its men and hardly by where they stand. A search that follows them does not
mate with a rook in fifty moves.
"""

from __future__ import annotations

import math

from ..jit.compiler import inner
from ..jit.pointers import ctz, popc
from ..jit.types import float64, int64
from ..position.board_kernel import DARK, is_dead, side_to_move
from ..position.scores import LEAST_MATE, LEAST_WON
from ..position.words import BISHOPS, KINGS, KNIGHTS, PAWNS, QUEENS, ROOKS, WHITE, Position

# The share of such an ending that counts as drawn: at most so much with two minor pieces, a factor less for
# each minor piece more (a rook counts as three, a queen as five). With .15 a search of 1,000 evaluations
# does not mate with two bishops. It falls with the way that is left: up to DRIVEN for the bare
# king's way to the corner, up to 7 for the way between the kings.
MOST_DRAWN, MORE_MEN = 0.4, 0.65
DRIVEN = 12
MOST_WAY = DRIVEN + 7
WON_RANGE = LEAST_MATE - LEAST_WON - 1


@inner
def to_edges(square: int64) -> int64:
    """Returns how far from the centre a square is along both axes: 0 to 6, 6 in a corner."""
    file, rank = square & 7, square >> 3
    return max(3 - file, file - 4) + max(3 - rank, rank - 4)


@inner
def to_corner(square: int64, dark: bool) -> int64:
    """Returns how near to a corner of a colour a square is: 0 to 7, 7 in the corner."""
    file, rank = square & 7, square >> 3
    return abs(7 - file - rank) if dark else abs(file - rank)


@inner
def distance(a: int64, b: int64) -> int64:
    """Returns the number of moves that a king needs from one square to another."""
    return max(abs((a & 7) - (b & 7)), abs((a >> 3) - (b >> 3)))


@inner
def drawn_share(score: int64) -> float64:
    """Returns the share of `bare_king_score` that counts as drawn, in [0, MOST_DRAWN]."""
    return MOST_DRAWN * float64(LEAST_MATE - 1 - abs(score)) / WON_RANGE


@inner
def bare_king_score(s: Position) -> int64:
    """Returns the score of a position without pawns where one side has a king alone and the other can mate.

    Its size is from LEAST_WON to LEAST_MATE - 1, its sign that of the side to move; 0 for other positions. It
    rises as the bare king nears a corner, against bishop and knight one of the bishop's colour, and as the
    other king comes near.
    """
    stm = side_to_move(s)
    own, other = s[WHITE + stm], s[WHITE + 1 - stm]
    loses = popc(own) == 1
    if s[PAWNS] or not (loses or popc(other) == 1) or is_dead(s):
        return int64(0)
    minors = popc(s[BISHOPS] | s[KNIGHTS])
    if not (s[QUEENS] | s[ROOKS] | s[BISHOPS]) and minors == 2:
        return int64(0)  # two knights
    weak, strong = (own, other) if loses else (other, own)
    king = ctz(s[KINGS] & weak)
    men = 5 * popc(s[QUEENS]) + 3 * popc(s[ROOKS]) + minors
    if men == 2 and s[KNIGHTS]:
        driven = DRIVEN * to_corner(king, bool(s[BISHOPS] & DARK)) // 7
    else:
        driven = DRIVEN * to_edges(king) // 6
    way = DRIVEN - driven + distance(king, ctz(s[KINGS] & strong))
    share = way / MOST_WAY * math.exp((men - 2) * math.log(MORE_MEN))
    score = LEAST_MATE - 1 - int64(share * WON_RANGE)
    return -score if loses else score
