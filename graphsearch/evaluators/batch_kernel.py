"""Common parts of all evaluators' batch kernels (`inside.BatchKernel`): probabilities, priors, bare kings.

Against a bare king, or with a queen against a rook, scores lead to the mate. Networks score such an ending by
its men and hardly by where they stand. A search that follows them does not mate with a rook in fifty moves.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ..jit.compiler import inner, kernel
from ..jit.pointers import ctz, popc, ptr
from ..jit.types import Pointer, float32, float64, int64, uint16, uint64
from ..position.board import BISHOPS, KINGS, KNIGHTS, PAWNS, QUEENS, ROOKS, WHITE, BoardTable, Position
from ..position.board_kernel import DARK, PW, is_dead, side_to_move
from ..position.values import LEAST_MATE, LEAST_WON

# --------------------------------------------------------------- endings against a bare king
# The share of such an ending that counts as drawn: at most so much with two minor pieces, a factor less for
# each minor piece more (a rook counts as three, a queen as five). It falls with the way that is left: up to
# DRIVEN for the bare king's way to the corner, up to 7 for the way between the kings. With .15 a search of
# 1,000 evaluations does not mate with two bishops, with .4 one of 5,000 visits not with bishop and knight.
MOST_DRAWN, MORE_MEN = 0.85, 0.65
AGAINST_ROOK = 0.3  # least share of a queen against a rook, which must be won first
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
def bare_king_score(s: Position) -> int64:
    """Returns the score of a position without pawns where one side can mate a king alone, or with a rook.

    It is 0 for other positions, else LEAST_WON to LEAST_MATE - 1 or the negative. Its size rises as the bare
    king nears a corner, against bishop and knight one of the bishop's colour, and as the kings come near.
    """
    stm = side_to_move(s)
    own, other = s[WHITE + stm], s[WHITE + 1 - stm]
    alike = popc(own) == 2 and popc(other) == 2
    is_queen_against_rook = alike and popc(s[QUEENS]) == 1 and popc(s[ROOKS]) == 1
    loses = popc(own) == 1 or (is_queen_against_rook and popc(s[ROOKS] & own) == 1)
    if s[PAWNS] or not (is_queen_against_rook or loses or popc(other) == 1) or is_dead(s):
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
    if is_queen_against_rook:
        share = AGAINST_ROOK + (1.0 - AGAINST_ROOK) * way / MOST_WAY
    score = LEAST_MATE - 1 - int64(share * WON_RANGE)
    return -score if loses else score


# ------------------------------------------------------------------------- values and priors
EvaluatePosition = Callable[
    [BoardTable, Pointer[int64], Position, Pointer[uint16], int64, Pointer[float32], Pointer[uint64]],
    tuple[float32, float32],
]

BEGIN, END = -2, -1  # indices of a batch kernel's arguments `begin` and `end`
# largest share of a won position that counts as drawn, and the score at which it has fallen to 1 / e of this
MOST_DOUBT, DOUBT_LENGTH = 0.15, 6650.0  # thousandths of a pawn
LOGIT_FLOOR = 14.0  # largest distance to the best logit; keeps every prior well above 0


@inner
def sigmoid(x: float64) -> float64:
    """Returns the logistic function, in float64; limits x to +-60."""
    return 1.0 / (1.0 + math.exp(-min(max(x, -60.0), 60.0)))


@inner
def chances(score: float64, draw_width: float64, noise: float64) -> tuple[float64, float64]:
    """Returns the win and loss probability of a score, by two logistic curves."""
    return sigmoid((score - draw_width) / noise), sigmoid((-score - draw_width) / noise)


@inner
def value_of(win: float64, loss: float64) -> tuple[float32, float32]:
    """Returns Q (win - loss, in [-1, 1]) and the draw probability (in [0, 1 - |Q|]), float32."""
    q = float32(win - loss)
    return q, min(max(float32(1.0 - win - loss), float32(0.0)), float32(1.0) - abs(q))


@inner
def value_of_score(win: float64, loss: float64, score: int64) -> tuple[float32, float32]:
    """Returns `value_of` the probabilities, with a share of a won position, not of a mate, counted as drawn.

    The share falls with the score, in thousandths of a pawn. Without it the win probability is near 1 in all
    won positions, and a search that cannot distinguish them wins few of them.
    """
    if abs(score) >= LEAST_MATE:
        return value_of(win, loss)
    if abs(score) >= LEAST_WON:
        won = 1.0 - MOST_DRAWN * float64(LEAST_MATE - 1 - abs(score)) / WON_RANGE
        return value_of(won, 0.0) if score > 0 else value_of(0.0, won)
    certain = 1.0 - MOST_DOUBT * (win - loss) ** 2 * math.exp(-abs(score) / DOUBT_LENGTH)
    return value_of(win * certain, loss) if win > loss else value_of(win, loss * certain)


@inner
def softmax(logits: Pointer[float32], n: int64) -> None:
    """Turns n logits, float32, into priors, in place."""
    top = logits[0]
    for i in range(1, n):
        top = max(top, logits[i])
    # Summing in the order of the moves keeps this deterministic; float64 makes a colour flip agree to 1e-7.
    total = 0.0
    for i in range(n):
        weight = math.exp(max(float64(logits[i]) - float64(top), -LOGIT_FLOOR))
        logits[i] = float32(weight)
        total += weight
    for i in range(n):
        logits[i] = float32(float64(logits[i]) / total)


@inner
def temper(priors: Pointer[float32], n: int64, temperature: float64) -> None:
    """Flattens (temperature above 1) or sharpens n priors in place: P ** (1 / temperature), normalised."""
    if temperature == 1.0:
        return
    total = 0.0
    for j in range(n):
        priors[j] = float32(float64(priors[j]) ** (1.0 / temperature))
        total += float64(priors[j])
    for j in range(n):
        priors[j] = float32(float64(priors[j]) / total)


def batch_of(evaluate_position: EvaluatePosition) -> Callable[..., None]:
    """Returns the kernel `evaluate_batch` (see `inside.BatchKernel`) for the calling module.

    Args:
      evaluate_position: an inner function of (T, weights, s, moves, n, priors, scratch). It returns Q and the
        draw probability, as `value_of` does, and writes the n > 0 priors, each above 0, which sum to 1.
    """

    def evaluate_batch(
        T: NDArray[np.uint64],
        weights: NDArray[np.int64],
        positions: NDArray[np.uint64],
        moves: NDArray[np.uint16],
        offsets: NDArray[np.int64],
        values: NDArray[np.float32],
        priors: NDArray[np.float32],
        scratch: NDArray[np.uint64],
        temperature: float64,
        begin: int64,
        end: int64,
    ) -> None:
        for b in range(begin, end):
            at = offsets[b]
            n = offsets[b + 1] - at
            s, p = ptr(positions, b * PW), ptr(priors, at)
            q, d = evaluate_position(ptr(T, 0), ptr(weights, 0), s, ptr(moves, at), n, p, ptr(scratch, 0))
            values[2 * b] = q
            values[2 * b + 1] = d
            temper(p, n, temperature)

    # the cache of compiled code has module and name as its key
    evaluate_batch.__module__ = evaluate_position.__module__
    evaluate_batch.__qualname__ = "evaluate_batch"
    return kernel(evaluate_batch)
