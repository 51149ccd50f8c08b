"""The built-in evaluator: value and priors of a position from one ply of moves and quiescence below each.

The value is that of the best move. A prior is the softmax of a fitted linear score: how far the move's value
lies below the best, and what can be seen of the move itself (squares, exchange, checks, threats).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy import float32, int64

from ...jit.compiler import inner, kernel
from ...jit.pointers import ZERO, U, adv, ptr
from ...position.board_kernel import PW, in_check, make_move
from ...position.scores import FAR, MATE
from ..batch_kernel import temper
from ..output_kernel import value_of, write_softmax
from ..quiescence.captures_kernel import BIAS, capture_gain, order_key
from ..quiescence.quiescence_kernel import COUNT, FRAME_WORDS, LIST, NEXT, take_best
from .layout import OFFSETS, SCALAR_UNIT, VERIFIED_MOVES, VERIFIED_PLIES
from .moves_kernel import move_terms
from .quiescence_kernel import SEARCH_WORDS, quiescence
from .terms_kernel import INFO_WORDS, PHASE_MAX, phase_of, static_packed, tapered

MOVE_LOSS = OFFSETS["move_loss"]
SCORE_FACTOR = np.int64(OFFSETS["score_factor"])
MOVE_VALUE = OFFSETS["move_value"]

LOSS_STEP, LOSS_BINS = 50, 24
# Scores further below the best are not told apart; twice the limit takes a quarter more time for the same Q.
LOSS_LIMIT = LOSS_STEP * LOSS_BINS
VERIFIED = U(1 << 32)  # marks the score of a move that was searched again
VERIFY_MARGIN = 400  # below the best score, within which moves are searched again
HALF_LICHESS = 0.00368208 / 2 / 10  # per thousandth of a pawn; 2 / (1 + exp(-x)) - 1 = tanh(x / 2)
MISSED_MATE = 0.5
SUM_BIAS = 1 << 40  # makes fitted sums unsigned

GAINS_WORDS = 32  # of one exchange
# The work area: root frame, search below it, attacks of both sides, an exchange, and for each move its
# score and the sum of its terms.
ROOT = 0
SEARCH = ROOT + FRAME_WORDS
INFO = SEARCH + SEARCH_WORDS
SCORES = INFO + 2 * INFO_WORDS + GAINS_WORDS
SUMS = SCORES + 256
EVALUATION_SCRATCH_WORDS = SUMS + 256


@inner
def chances(score: Any) -> Any:
    """Returns a value in [-1, 1] of a score, as gentle as people's results: lichess's curve.

    Q of `wdl_of` would not tell moves of a won position apart.
    """
    return math.tanh(score * HALF_LICHESS)


@inner
def lost_chances(best: Any, loss: Any) -> Any:
    """Returns what a loss of score means in chances: `MISSED_MATE` where only the best move mates."""
    if best > MATE // 2 and loss == LOSS_LIMIT:
        return MISSED_MATE
    return chances(best) - chances(best - loss)


@inner
def order_moves(s: Any, moves: Any, n: Any, root: Any) -> Any:
    """Fills the root frame's list: for each move its order, above its index."""
    for i in range(n):
        root[LIST + i] = order_key(s, moves[i], capture_gain(s, moves[i])) | U(i)
    root[NEXT] = ZERO
    root[COUNT] = U(n)


@inner
def score_of(scratch: Any, i: Any) -> Any:
    """Returns the score of a move, seen by the side to move."""
    return int64(scratch[SCORES + i] & ~VERIFIED) - BIAS


@inner
def first_scores(T: Any, weights: Any, s: Any, moves: Any, n: Any, scratch: Any) -> Any:
    """Fills each move's score from quiescence below it, and the sum of its terms.

    Scores more than LOSS_LIMIT below the best are only bounds, at most that good.
    """
    root, search = adv(scratch, ROOT), adv(scratch, SEARCH)
    static_packed(T, weights, s, adv(scratch, INFO))
    order_moves(s, moves, n, root)
    evades = in_check(T, s)
    best = int64(-FAR)
    for _ in range(n):
        i = int64(take_best(root) & U(0xFFFF))
        make_move(T, s, search, moves[i])
        score = -quiescence(T, weights, search, int64(-FAR), LOSS_LIMIT - best, int64(0))
        best = max(best, score)
        scratch[SCORES + i] = U(score + BIAS)
        packed = move_terms(T, weights, s, moves[i], adv(scratch, INFO), in_check(T, search), evades)
        scratch[SUMS + i] = U(tapered(s, packed) + SUM_BIAS)


@inner
def best_unverified(root: Any, n: Any, scratch: Any) -> Any:
    """Returns the index of the best move not yet searched again, the first in the root's order; or -1."""
    best, at = ZERO, int64(-1)
    for j in range(n):
        i = int64(root[LIST + j] & U(0xFFFF))
        word = scratch[SCORES + i]
        if word < VERIFIED and word > best:
            best, at = word, i
    return at


@inner
def verify_best(T: Any, weights: Any, s: Any, moves: Any, n: Any, scratch: Any) -> Any:
    """Searches the moves that look best again, deeper, as the words behind the weights say.

    On the reference positions six moves one ply deeper raise the correlation of Q from 0.943 to 0.966 and
    halve the speed; three moves two plies deeper give 0.968 at a third of that speed. See
    `tools/measure_evaluators.py` for what pays at equal time.
    """
    search = adv(scratch, SEARCH)
    top = int64(-FAR)
    for _ in range(weights[VERIFIED_MOVES]):
        i = best_unverified(adv(scratch, ROOT), n, scratch)
        if i < 0 or score_of(scratch, i) + VERIFY_MARGIN <= top:
            break
        make_move(T, s, search, moves[i])
        score = -quiescence(
            T, weights, search, int64(-FAR), VERIFY_MARGIN - top, int64(weights[VERIFIED_PLIES])
        )
        top = max(top, score)
        scratch[SCORES + i] = U(score + BIAS) | VERIFIED


@inner
def search_moves(T: Any, weights: Any, s: Any, moves: Any, n: Any, scratch: Any) -> Any:
    """Fills each move's score and the sum of its terms; returns the best score, seen by the side to move."""
    first_scores(T, weights, s, moves, n, scratch)
    verify_best(T, weights, s, moves, n, scratch)
    best = int64(-FAR)
    for i in range(n):
        best = max(best, score_of(scratch, i))
    return best


@inner
def loss_bin(scratch: Any, i: Any, loss: Any) -> Any:
    """Returns the term of a loss of score."""
    row = LOSS_BINS if scratch[SCORES + i] >= VERIFIED else 0
    return row + min(loss // LOSS_STEP, LOSS_BINS - 1)


@inner
def move_logit(weights: Any, s: Any, best: Any, loss: Any, total: Any, phase: Any) -> Any:
    """Returns the logit of a move from what it loses and the sum of its terms."""
    mix = phase / PHASE_MAX
    per_q = weights[MOVE_VALUE] + mix * (weights[MOVE_VALUE + 1] - weights[MOVE_VALUE])
    per_pawn = weights[MOVE_VALUE + 2] + mix * (weights[MOVE_VALUE + 3] - weights[MOVE_VALUE + 2])
    return total / (1000.0 * PHASE_MAX) - SCALAR_UNIT * (
        per_q * lost_chances(best, loss) + per_pawn * loss * 0.001
    )


@inner
def write_priors(weights: Any, s: Any, n: Any, best: Any, phase: Any, priors: Any, scratch: Any) -> Any:
    """Writes the softmax of the moves' logits."""
    top = -1e30
    for i in range(n):
        loss = min(best - score_of(scratch, i), LOSS_LIMIT)
        terms = (
            int64(scratch[SUMS + i]) - SUM_BIAS + tapered(s, weights[MOVE_LOSS + loss_bin(scratch, i, loss)])
        )
        logit = move_logit(weights, s, best, loss, terms, phase)
        priors[i] = float32(logit)
        top = max(top, logit)
    write_softmax(priors, n, top)


@inner
def evaluate_position(T: Any, weights: Any, s: Any, moves: Any, n: Any, priors: Any, scratch: Any) -> Any:
    """Returns Q (win - loss, in [-1, 1]) and the chance of a draw (in [0, 1 - |Q|]); writes the priors.

    Args:
      T: the board's table.
      weights: int64[WEIGHT_COUNT], the fitted weights.
      s: the position, 10 words.
      moves: its legal moves in the generator's order, uint16[n].
      n: their number, > 0.
      priors: float32[n] out; sums to 1, each above 0.
      scratch: uint64[EVALUATION_SCRATCH_WORDS], holds everything temporary.
    """
    phase = phase_of(s)
    best = search_moves(T, weights, s, moves, n, scratch)
    write_priors(weights, s, n, best, phase, priors, scratch)
    return value_of(adv(weights, SCORE_FACTOR), s, best)


@kernel
def evaluate_batch(
    T: Any,
    weights: Any,
    positions: Any,
    moves: Any,
    offsets: Any,
    values: Any,
    priors: Any,
    scratch: Any,
    temperature: Any,
    begin: Any,
    end: Any,
) -> None:
    """Evaluates positions, as `BatchKernel` says."""
    for b in range(begin, end):
        at = offsets[b]
        n = offsets[b + 1] - at
        q, d = evaluate_position(
            ptr(T, 0),
            ptr(weights, 0),
            ptr(positions, b * PW),
            ptr(moves, at),
            n,
            ptr(priors, at),
            ptr(scratch, 0),
        )
        values[2 * b] = q
        values[2 * b + 1] = d
        temper(ptr(priors, at), n, temperature)
