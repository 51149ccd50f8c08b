"""Computes value and priors of a position with a network.

If no side may castle and the king of the side to move is on files a to d, the kernel evaluates the mirror
image of the position, as the network does: so move ordering breaks ties alike in both.

1. The policy network gives every move a logit.
2. The SEEN_MOVES moves with the highest logits get a score: a quiescence search over the network.
3. The best of them is searched against its SEEN_REPLIES most likely replies, then the next best, until one
   stays the best. Its score is the value.
4. The priors are the softmax of a fitted sum: the logit, the move's loss against the best move, and the drop
   of its score in step 3.
"""

from __future__ import annotations

import math

from ...jit.compiler import inner
from ...jit.pointers import ZERO, U, adv, as_f32, as_i64, as_u16, ctz
from ...jit.types import Pointer, float32, float64, int64, uint16, uint64
from ...position.board_kernel import PW, generate_moves, make_move, side_to_move
from ...position.scores import FAR
from ...position.words import (
    CASTLING_BITS,
    CASTLING_SHIFT,
    EN_PASSANT_BITS,
    EN_PASSANT_SHIFT,
    KINGS,
    META,
    WHITE,
    BoardTable,
    Position,
)
from ..batch_kernel import batch_of, softmax, value_of_score
from ..builtin.features_kernel import MOST_FEATURES, attacks_of, list_features, seen_of
from ..builtin.policy_kernel import WORK_WORDS, write_logits
from ..quiescence.captures_kernel import BIAS, flip_move
from ..quiescence.quiescence_kernel import (
    COUNT,
    FRAME_WORDS,
    KEPT,
    LIST,
    NEXT,
    STACK_WORDS,
    copy_words,
    take_best,
)
from .layout import (
    FITTED_AT,
    LIMIT,
    MAP_AT,
    POLICY_CHANCES,
    POLICY_DROP,
    POLICY_LOGITS,
    POLICY_NETWORK_AT,
    POLICY_PAWNS,
    POLICY_UNSEEN,
    RISE,
    SCALAR_UNIT,
    SEEN_MOVES,
    SEEN_REPLIES,
    VERIFIED_MOVES,
)
from .quiescence_kernel import area_words, search
from .value_map_kernel import chances_of

LOSS_LIMIT = 1200  # priors cut larger losses to this, in thousandths of a pawn
UNSEEN, DROP_AT, DROP_MASK = ZERO, U(32), U(0xFFFFFFFF)
LOGIT_UNIT = 1000.0  # scale of logits stored as integers
LOGIT_BIAS = 1 << 30  # makes them unsigned, in 32 bits
HALF_LICHESS = 0.00368208 / 2 / 10  # per thousandth of a pawn; 2 / (1 + exp(-x)) - 1 = tanh(x / 2)
FLIP_1, FLIP_2, FLIP_4 = U(0x5555555555555555), U(0x3333333333333333), U(0x0F0F0F0F0F0F0F0F)
SEEN_AT = U(32)  # shift of the logit in a word; below it the squares, seen by the side to move, and the index

# Offsets in the policy area: features, logits, the policy network's work area
OWN, RAW, WORK = 0, MOST_FEATURES, MOST_FEATURES + 128
POLICY_WORDS = WORK + WORK_WORDS

# Offsets in the work area: the search's stack, the order of the moves, the policy area, the order of the
# replies, the replies, the moves, each move's score and drop, each move's logit; last the search's area,
# whose size depends on the width
ORDER = STACK_WORDS
POLICY = ORDER + FRAME_WORDS
REPLY_ORDER = POLICY + POLICY_WORDS
REPLIES = REPLY_ORDER + FRAME_WORDS
ROOT_MOVES = REPLIES + 64
SCORES = ROOT_MOVES + 64
LOGITS = SCORES + 256
AREA = (LOGITS + 256 + 7) // 8 * 8


def scratch_words(width: int) -> int:
    """Returns the number of words in the work area for networks of a width."""
    return AREA + area_words(width)


@inner
def order_by_policy(
    T: BoardTable,
    weights: Pointer[int64],
    s: Position,
    moves: Pointer[uint16],
    n: int64,
    order: Pointer[uint64],
    area: Pointer[uint64],
) -> None:
    """Fills the list of `order` with a word per move: logit, squares, index; `area`: uint64[POLICY_WORDS]."""
    stm = side_to_move(s)
    white, black = attacks_of(T, s, int64(0)), attacks_of(T, s, int64(1))
    own, logits = as_i64(adv(area, int64(OWN))), as_f32(adv(area, int64(RAW)))
    listed = list_features(s, seen_of(s, white, black), stm, own)
    theirs = white.every if stm else black.every
    network, work = adv(weights, weights[POLICY_NETWORK_AT]), adv(area, int64(WORK))
    write_logits(T, network, s, moves, n, theirs, own, listed, work, logits)
    for i in range(n):
        seen = U(int64(logits[i] * LOGIT_UNIT) + LOGIT_BIAS)
        order[LIST + i] = (seen << SEEN_AT) | (U(flip_move(moves[i], stm)) << U(16)) | U(i)
    order[NEXT] = ZERO
    order[COUNT] = U(n)


@inner
def score_of(scratch: Pointer[uint64], i: int64) -> int64:
    """Returns the score of a searched move before its replies, seen by the side to move."""
    return int64(scratch[SCORES + i] & DROP_MASK) - BIAS


@inner
def drop_of(scratch: Pointer[uint64], i: int64) -> int64:
    """Returns the drop of a move's score after the search of its replies, at least 0."""
    return max(int64(scratch[SCORES + i] >> DROP_AT) - 1, int64(0))


@inner
def index_in(word: uint64) -> int64:
    """Returns the index of the move in a word of an order."""
    return int64(word & U(0xFFFF))


@inner
def score_below(
    T: BoardTable,
    weights: Pointer[int64],
    stack: Pointer[uint64],
    ply: int64,
    move: uint16,
    alpha: int64,
    beta: int64,
) -> int64:
    """Returns the quiescence score after a move of the frame at a ply, seen by the side that makes it."""
    child = adv(stack, (ply + 1) * FRAME_WORDS)
    make_move(T, adv(stack, ply * FRAME_WORDS), child, move)
    child[KEPT] = ZERO
    return -search(T, weights, stack, adv(stack, AREA), ply + 1, -beta, -alpha, int64(0), False)


@inner
def score_moves(
    T: BoardTable, weights: Pointer[int64], moves: Pointer[uint16], n: int64, scratch: Pointer[uint64]
) -> int64:
    """Writes the logits of all moves and the scores of the likeliest ones; returns the best score.

    Scores more than LIMIT below the best are upper bounds.
    """
    order = adv(scratch, ORDER)
    order_by_policy(T, weights, scratch, moves, n, order, adv(scratch, POLICY))
    for k in range(n):
        scratch[LOGITS + k] = order[LIST + k] >> SEEN_AT
        scratch[SCORES + k] = UNSEEN
    best = int64(-FAR)
    for _ in range(min(n, weights[SEEN_MOVES])):
        at = index_in(take_best(order))
        score = score_below(T, weights, scratch, int64(0), moves[at], best - weights[LIMIT], int64(FAR))
        scratch[SCORES + at] = U(score + BIAS)
        best = max(best, score)
    return best


@inner
def refuted(
    T: BoardTable, weights: Pointer[int64], move: uint16, first: int64, least: int64, scratch: Pointer[uint64]
) -> int64:
    """Returns the score of a move after its likeliest replies; only a bound if it is `least` or below.

    Args:
      first: the move's score before the replies; the result is at most RISE above it.
    """
    order, replies = adv(scratch, REPLY_ORDER), as_u16(adv(scratch, REPLIES))
    child = adv(scratch, FRAME_WORDS)
    make_move(T, scratch, child, move)
    child[KEPT] = ZERO
    n = generate_moves(T, child, replies)
    order_by_policy(T, weights, child, replies, n, order, adv(scratch, POLICY))
    score = first if n == 0 else first + weights[RISE]
    for _ in range(min(n, weights[SEEN_REPLIES])):
        if score <= least:
            break
        reply = replies[index_in(take_best(order))]
        score = min(score, -score_below(T, weights, scratch, int64(1), reply, -score, -least))
    return score


@inner
def best_unverified(scratch: Pointer[uint64]) -> int64:
    """Returns the index of the best-scored move with unsearched replies, -1 if there is none.

    Of equal moves it returns the first in the order, so a position and its mirror image are searched alike.
    """
    order = adv(scratch, ORDER)
    best, at = ZERO, int64(-1)
    for j in range(int64(order[NEXT])):
        i = index_in(order[LIST + j])
        word = scratch[SCORES + i]
        if word <= DROP_MASK and word > best:
            best, at = word, i
    return at


@inner
def verify_best(
    T: BoardTable, weights: Pointer[int64], moves: Pointer[uint16], scratch: Pointer[uint64]
) -> int64:
    """Searches the replies to the best moves until one stays the best; returns its score.

    A score rises by at most RISE; a drop of more than LIMIT is only a bound.
    """
    top = int64(-FAR)
    for _ in range(weights[VERIFIED_MOVES]):
        i = best_unverified(scratch)
        if i < 0 or score_of(scratch, i) <= top:
            break
        first = score_of(scratch, i)
        score = refuted(T, weights, moves[i], first, max(top, first - weights[LIMIT]), scratch)
        scratch[SCORES + i] |= U(max(first - score, int64(0)) + 1) << DROP_AT
        top = max(top, score)
    return top


@inner
def flip_files(squares: uint64) -> uint64:
    """Returns a bitboard with the files mirrored: reverses the bits of each byte."""
    out = ((squares >> U(1)) & FLIP_1) | ((squares & FLIP_1) << U(1))
    out = ((out >> U(2)) & FLIP_2) | ((out & FLIP_2) << U(2))
    return ((out >> U(4)) & FLIP_4) | ((out & FLIP_4) << U(4))


@inner
def is_mirrored(s: Position) -> bool:
    """Returns whether the kernel evaluates the mirror image of a position instead."""
    king = ctz(s[KINGS] & s[WHITE + side_to_move(s)])
    return king & 7 < 4 and (s[META] >> U(CASTLING_SHIFT)) & U(CASTLING_BITS) == ZERO


@inner
def write_root(s: Position, moves: Pointer[uint16], n: int64, scratch: Pointer[uint64]) -> Pointer[uint16]:
    """Writes a position and its moves into the work area, mirrored if `is_mirrored`; returns the moves.

    It copies the key unchanged; nothing here reads it.
    """
    seen = as_u16(adv(scratch, ROOT_MOVES))
    copy_words(s, scratch, PW)
    flip = int64(0)
    if is_mirrored(s):
        flip = int64(7)
        for k in range(META):
            scratch[k] = flip_files(s[k])
        ep = (s[META] >> U(EN_PASSANT_SHIFT)) & U(EN_PASSANT_BITS)
        if ep != ZERO:
            there = (ep - U(1) ^ U(7)) + U(1)
            scratch[META] = s[META] ^ (ep ^ there) << U(EN_PASSANT_SHIFT)
    for i in range(n):
        seen[i] = uint16(moves[i] ^ (flip | flip << 6))
    return seen


@inner
def search_moves(
    T: BoardTable,
    weights: Pointer[int64],
    s: Position,
    moves: Pointer[uint16],
    n: int64,
    scratch: Pointer[uint64],
) -> tuple[int64, int64]:
    """Writes each move's logit and score; returns the position's score and the best score before replies."""
    seen = write_root(s, moves, n, scratch)
    scratch[KEPT] = ZERO
    best = score_moves(T, weights, seen, n, scratch)
    return verify_best(T, weights, seen, scratch), best


@inner
def chances(score: int64) -> float64:
    """Returns the expected result in [-1, 1] of a score, by lichess's curve, fitted to human games.

    The value map's Q would hardly distinguish the moves of a won position.
    """
    return math.tanh(score * HALF_LICHESS)


@inner
def logit_of(fitted: Pointer[int64], scratch: Pointer[uint64], i: int64, best: int64) -> float64:
    """Returns the logit of a move's prior; `best`: the best score before replies."""
    total = fitted[POLICY_LOGITS] * (int64(scratch[LOGITS + i]) - LOGIT_BIAS) / LOGIT_UNIT
    if scratch[SCORES + i] == UNSEEN:
        return SCALAR_UNIT * (total - fitted[POLICY_UNSEEN])
    loss = min(best - score_of(scratch, i), int64(LOSS_LIMIT))
    drop = min(drop_of(scratch, i), int64(LOSS_LIMIT))
    lost = fitted[POLICY_CHANCES] * (chances(best) - chances(best - loss))
    return SCALAR_UNIT * (total - lost - 0.001 * (fitted[POLICY_PAWNS] * loss + fitted[POLICY_DROP] * drop))


@inner
def write_priors(
    fitted: Pointer[int64], n: int64, best: int64, priors: Pointer[float32], scratch: Pointer[uint64]
) -> None:
    """Writes the softmax of the moves' logits."""
    for i in range(n):
        priors[i] = float32(logit_of(fitted, scratch, i, best))
    softmax(priors, n)


@inner
def evaluate_position(
    T: BoardTable,
    weights: Pointer[int64],
    s: Position,
    moves: Pointer[uint16],
    n: int64,
    priors: Pointer[float32],
    scratch: Pointer[uint64],
) -> tuple[float32, float32]:
    """Returns Q and the draw probability, as `value_of_score` does; writes the priors.

    Args:
      T: the board's table.
      weights: int64, a network packed as in `layout`.
      s: the position, 10 words.
      moves: its legal moves in the generator's order, uint16[n].
      n: their number, > 0.
      priors: float32[n] out; sums to 1, each above 0.
      scratch: uint64[scratch_words(width)], zeros before the first call; always used with the same weights.
    """
    fitted = adv(weights, weights[FITTED_AT])
    score, best = search_moves(T, weights, s, moves, n, scratch)
    write_priors(fitted, n, best, priors, scratch)
    win, loss = chances_of(adv(fitted, int64(MAP_AT)), s, score)
    return value_of_score(win, loss, score)


evaluate_batch = batch_of(evaluate_position)
