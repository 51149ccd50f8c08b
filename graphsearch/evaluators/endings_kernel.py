"""Kernel of the endings that evaluators know: scores that lead to the mate.

Networks score such an ending by its men and hardly by where they stand. A search that follows them does not
mate with a rook in fifty moves.
"""

from __future__ import annotations

from ..jit.compiler import inner
from ..jit.pointers import U, adv, bytes_at, ctz, popc, view
from ..jit.types import Pointer, float32, float64, int64, uint16, uint64
from ..position import board_kernel as rules
from ..position.board import BISHOPS, BLACK, KINGS, KNIGHTS, PAWNS, QUEENS, ROOKS, WHITE, BoardTable, Position
from ..position.values import FAR, LEAST_MATE, MATE
from .batch_kernel import WON_RANGE, softmax, value_of_score

# The share of a known win that counts as drawn falls with the way that is left. It is at most 1 with two
# minor pieces, a factor less for each minor piece more (a rook counts as three, a queen as five).
MORE_MEN, WITH_ROOK = 0.65, 0.12  # with a rook so little that the search trades into such an ending
AGAINST_ROOK, MOST_AGAINST_ROOK = 0.1, 0.5  # shares of a queen against a rook, which must be won first
WITH_PAWN = 0.6  # of these shares, with a pawn that will be a queen
DRIVEN, MOST_WAY = 12, 19  # the bare king's way to a corner; with up to 7 more between the kings


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
    return way if men == 2 else way * WITH_ROOK * MORE_MEN ** (men - 3)


# squares of the weak king in the table of queen against rook; places of this table and of both; largest entry
KING_PLACES, QUEEN_PLACES, PLACES, MOST_PLIES = 10, 20 * 64**3, 21 * 64**3, 63


@inner
def place_of(s: Position, weak: uint64, strong: uint64, loses: bool) -> int64:
    """Returns a position's place in the tables of queen against rook and of a pawn (`tools/endings.py`).

        uint8[side to move: queen, rook][king of the rook: 10][other king][rook][queen]
        uint8[side to move: pawn, bare king][bare king: 32][other king][pawn]

    An entry is the number of plies to the win of the rook, promotion or mate, plus one; 0 if none is forced.
    The board is turned: the weak king is on a1, b1, b2, c1, ... d4; with a pawn, White's, on files a to d.
    """
    king = ctz(s[KINGS] & weak)
    turn = 7 if king & 4 else 0
    if s[PAWNS]:
        turn |= 56 if strong == s[BLACK] else 0
        place = QUEEN_PLACES >> 12 | 32 * int64(loses) | ((king ^ turn) >> 3) * 4 | (king ^ turn) & 3
        return (place << 6 | ctz(s[KINGS] & strong) ^ turn) << 6 | ctz(s[PAWNS]) ^ turn
    turn |= 56 if king & 32 else 0
    file, rank = (king ^ turn) & 7, (king ^ turn) >> 3
    place = KING_PLACES * int64(loses) + max(file, rank) * (max(file, rank) + 1) // 2 + min(file, rank)
    for men in (s[KINGS] & strong, s[ROOKS], s[QUEENS]):
        square = ctz(men) ^ turn
        place = place << 6 | ((square & 7) << 3 | square >> 3 if rank > file else square)
    return place


@inner
def holds_corner(s: Position, king: int64, up: int64) -> bool:
    """Returns whether a bare king draws in a corner of rook's pawns; `up`: 56 for White, 0 for Black."""
    first, last = s[PAWNS] & rules.FILE_A, s[PAWNS] & rules.FILE_H
    if s[KNIGHTS] | s[ROOKS] | s[QUEENS] or (first and last) or s[PAWNS] != first | last:
        return False
    corner = up | (7 if last else 0)
    attacking = rules.DARK if rules.DARK >> U(corner) & U(1) else ~rules.DARK
    is_near = abs((king & 7) - (corner & 7)) < 2 and abs((king >> 3) - (corner >> 3)) < 2
    return is_near and not s[BISHOPS] & attacking


@inner
def known_score(s: Position, ways: int64) -> int64:
    """Returns the score of a known ending, seen by the side to move; FAR for every other position.

    It is LEAST_WON to LEAST_MATE - 1, the more the shorter the way to the mate, or the negative, or 0:
    drawn. `ways`: the address of `endings_table` of the built-in evaluator.
    """
    stm = rules.side_to_move(s)
    own, other = s[WHITE + stm], s[BLACK - stm]
    men, least = popc(own | other), min(popc(own), popc(other))
    against_rook = men == 4 and least == 2 and popc(s[QUEENS]) == 1 and popc(s[ROOKS]) == 1
    if least > 1 and not against_rook:
        return int64(FAR)
    loses = bool(s[ROOKS] & own) if against_rook else popc(own) == 1
    weak, strong = (own, other) if loses else (other, own)
    king = ctz(s[KINGS] & weak)
    if against_rook or (s[PAWNS] and men == 3):  # in a table
        left = bytes_at(ways, int64(PLACES))[place_of(s, weak, strong, loses)]
        if not left:
            return int64(0)
        share = AGAINST_ROOK + (MOST_AGAINST_ROOK - AGAINST_ROOK) * left / MOST_PLIES
        share *= 1.0 if against_rook else WITH_PAWN
    elif s[PAWNS]:
        return int64(0) if holds_corner(s, king, 56 if strong == s[WHITE] else 0) else int64(FAR)
    elif rules.is_dead(s) or (men == 4 and popc(s[KNIGHTS]) == 2):
        return int64(FAR)
    else:
        share = drawn_share(s, king, ctz(s[KINGS] & strong))
    score = LEAST_MATE - 1 - int64(share * WON_RANGE)
    return -score if loses else score


# --------------------------------------------------------------------------- two plies ahead
CHILD, AFTER, REPLIES, MOVES = 0, rules.PW, 2 * rules.PW, 84  # offsets in the work area of 148 words
LOGIT_UNIT = 1000.0  # of the scores of moves: about a ply of the way
MOST_APART = 3.0  # of the logits


@inner
def see_ahead(T: BoardTable, s: Position, ways: int64, out: Pointer[float32], work: Pointer[uint64]) -> int64:
    """Returns the score of a known ending after its best move and reply; writes the logits of its moves."""
    best, child, after = int64(-MATE), adv(work, int64(CHILD)), adv(work, int64(AFTER))
    moves, replies = view(uint16, adv(work, int64(MOVES))), view(uint16, adv(work, int64(REPLIES)))
    n = rules.generate_moves(T, s, moves)
    for i in range(n):
        rules.make_move(T, s, child, moves[i])
        if popc(child[WHITE]) == popc(child[BLACK]) or child[PAWNS]:  # drawn, or an entry: needs no replies
            score = known_score(child, ways)
            least = int64(0) if score == FAR else -score
        else:
            least = int64(MATE)
            for k in range(rules.generate_moves(T, child, replies)):
                rules.make_move(T, child, after, replies[k])
                score = known_score(after, ways)
                least = min(least, int64(0) if score == FAR else score)
            if least == MATE and not rules.in_check(T, child):
                least = int64(0)
        out[i] = float32(least / LOGIT_UNIT)
        best = max(best, least)
    for i in range(n):
        out[i] = max(out[i], float32(best / LOGIT_UNIT - MOST_APART))
    return best


@inner
def evaluate_known(
    T: BoardTable, s: Position, n: int64, ways: int64, priors: Pointer[float32], work: Pointer[uint64]
) -> tuple[float32, float32]:
    """Returns Q and the draw probability of a known ending, and writes its n priors."""
    score = see_ahead(T, s, ways, priors, work)
    softmax(priors, n)
    return value_of_score(float64(score > 0), float64(score < 0), score)
