"""Kernel of the endings that evaluators know: scores that lead to the mate.

Networks score such an ending by its men and hardly by where they stand. A search that follows them does not
mate with a rook in fifty moves.
"""

from __future__ import annotations

import math

from ..jit.compiler import inner
from ..jit.pointers import adv, ctz, popc, view
from ..jit.types import Pointer, float32, float64, int64, uint16, uint64
from ..position import board_kernel as rules
from ..position.board import BISHOPS, BLACK, KINGS, KNIGHTS, PAWNS, QUEENS, ROOKS, WHITE, BoardTable, Position
from ..position.values import FAR, LEAST_MATE, MATE
from .batch_kernel import WON_RANGE

# The share of a known win that counts as drawn falls with the way that is left. It is at most 1 with two
# minor pieces, a factor less for each minor piece more (a rook counts as three, a queen as five).
MORE_MEN = 0.65
AGAINST_ROOK = 0.3  # least share of a queen against a rook, which must be won first
DRIVEN = 12  # the bare king's way to a corner; up to 7 more between the kings
MOST_WAY = DRIVEN + 7


@inner
def to_edges(square: int64) -> int64:
    """Returns how far from the centre a square is along both axes: 0 to 6, 6 in a corner."""
    file, rank = square & 7, square >> 3
    return max(3 - file, file - 4) + max(3 - rank, rank - 4)


@inner
def to_bishops_corner(s: Position, bare: int64, king: int64) -> float64:
    """Returns the share that counts as drawn with bishop and knight, 0 to 1, for about 57 plies.

    The bare king is led along an edge, out of a corner that the bishop does not attack. Scores that do not
    rise there, as the mean distance to the mate does not, won one game of nine.
    """
    file, rank = bare & 7, bare >> 3
    along = abs(7 - file - rank) if s[BISHOPS] & rules.DARK else abs(file - rank)  # 7 in the bishop's corner
    edge = max(max(3 - file, file - 4), max(3 - rank, rank - 4))
    apart = abs(file - (king & 7)) + abs(rank - (king >> 3))
    left = 36 - 1.5 * along * edge - 2 * to_edges(bare) + 1.5 * (to_edges(king) + apart)
    return min(max(left / 57, 0.0), 1.0)


@inner
def drawn_share(s: Position, bare: int64, king: int64) -> float64:
    """Returns the share of a known win that counts as drawn, 0 to 1, by the kings' squares."""
    minors = popc(s[BISHOPS] | s[KNIGHTS])
    men = 5 * popc(s[QUEENS]) + 3 * popc(s[ROOKS]) + minors
    if men == 2 and s[KNIGHTS]:
        return to_bishops_corner(s, bare, king)
    apart = max(abs((bare & 7) - (king & 7)), abs((bare >> 3) - (king >> 3)))
    way = (DRIVEN - DRIVEN * to_edges(bare) // 6 + apart) / MOST_WAY
    if popc(s[WHITE]) == popc(s[BLACK]):
        return AGAINST_ROOK + (1.0 - AGAINST_ROOK) * way
    return way * math.exp((men - 2) * math.log(MORE_MEN))


@inner
def known_score(s: Position) -> int64:
    """Returns the score of a known ending, seen by the side to move; FAR for every other position.

    It is LEAST_WON to LEAST_MATE - 1, the more the shorter the way to the mate, or the negative.
    """
    stm = rules.side_to_move(s)
    own, other = s[WHITE + stm], s[BLACK - stm]
    men, least = popc(own | other), min(popc(own), popc(other))
    against_rook = men == 4 and least == 2 and popc(s[QUEENS]) == 1 and popc(s[ROOKS]) == 1
    if least > 1 and not against_rook:
        return int64(FAR)
    loses = bool(s[ROOKS] & own) if against_rook else popc(own) == 1
    weak, strong = (own, other) if loses else (other, own)
    bare, king = ctz(s[KINGS] & weak), ctz(s[KINGS] & strong)
    if s[PAWNS] or rules.is_dead(s) or (men == 4 and popc(s[KNIGHTS]) == 2):
        return int64(FAR)
    score = LEAST_MATE - 1 - int64(drawn_share(s, bare, king) * WON_RANGE)
    return -score if loses else score


# --------------------------------------------------------------------------- two plies ahead
CHILD, REPLY, REPLIES = 0, rules.PW, 2 * rules.PW  # offsets in the work area, which needs 84 words
LOGIT_UNIT = 1000.0  # of the scores of moves: about a ply of the way
MOST_APART = 3.0  # of the logits


@inner
def best_reply(T: BoardTable, s: Position, work: Pointer[uint64]) -> int64:
    """Returns the score of a position after its best move, seen by the side to move."""
    replies, after = view(uint16, adv(work, int64(REPLIES))), adv(work, int64(REPLY))
    n, best = rules.generate_moves(T, s, replies), int64(-MATE)
    for i in range(n):
        rules.make_move(T, s, after, replies[i])
        score = known_score(after)
        best = max(best, int64(0) if score == FAR else -score)
    return best if n or rules.in_check(T, s) else int64(0)


@inner
def look_ahead(
    T: BoardTable, s: Position, moves: Pointer[uint16], n: int64, out: Pointer[float32], work: Pointer[uint64]
) -> int64:
    """Returns the score of a known ending after its best move and reply; writes the logits of its n moves."""
    best, child = int64(-MATE), adv(work, int64(CHILD))
    for i in range(n):
        rules.make_move(T, s, child, moves[i])
        score = -best_reply(T, child, work)
        out[i] = float32(score / LOGIT_UNIT)
        best = max(best, score)
    for i in range(n):
        out[i] = max(out[i], float32(best / LOGIT_UNIT - MOST_APART))
    return best
