"""Computes value and priors of a position with a network.

If no side may castle and the king of the side to move is on files a to d, the kernel evaluates the mirror
image of the position, as the network does: so move ordering breaks ties alike in both.

1. The policy network gives every move a logit.
2. The SEEN_MOVES moves with the highest logits get a score: a quiescence search over the network.
3. The best of them is searched against its SEEN_REPLIES most likely replies, then the next best, until one
   stays the best. Its score is the value.
4. The priors are the softmax of a fitted sum: the logit, the move's loss against the best move, and the drop
   of its score in step 3.

An accumulator, `row_words` long, is the sum of the rows of a position's features in one side's view. A king's
move changes all features of its side's view. So an accumulator is made from that of the last board with that
king on that square: the boards of one search differ by few men. Accumulators are exact integers: an updated
one equals a fresh sum, bit for bit.

    area     a list of men | for each side's king square a board, its accumulator and the next one

A feature is the index of a row (HalfKAv2_hm): a man on its square, combined with the own king's square. In
Black's view the ranks are mirrored; in both views the files are, so that the own king stands on e to h.

    704 * bucket of the own king (32) + 64 * kind, own and theirs in turn (11; kings are one kind) + square

Maps scores to win and loss probabilities by two logistic curves with widths by phase and material.

numbers    int64, millionths: factor of scores | MAP_TERMS of the draw width | MAP_TERMS of the noise
"""

from __future__ import annotations

import math

from ...jit.compiler import inner
from ...jit.pointers import COLUMNS, ONE, ZERO, U, add_columns, add_products, adv, ctz, popc, view
from ...jit.types import Pointer, float32, float64, int16, int32, int64, uint16, uint64
from ...position.board import (
    BISHOPS,
    BLACK,
    CASTLING_BITS,
    CASTLING_SHIFT,
    EN_PASSANT_BITS,
    EN_PASSANT_SHIFT,
    KINGS,
    KNIGHTS,
    META,
    PAWNS,
    QUEENS,
    ROOKS,
    WHITE,
    BoardTable,
    Position,
)
from ...position.board_kernel import PW, generate_moves, make_move, side_to_move
from ...position.values import FAR
from .. import quiescence_kernel as quiescence
from ..batch_kernel import batch_of, chances, softmax, value_of_score
from ..builtin import evaluation_kernel as builtin
from ..builtin.evaluation_kernel import MOST_STATIC
from ..endings_kernel import evaluate_known, known_score
from . import layout


# ------------------------------------------------------------------------------ accumulators
@inner
def king_of(s: Position, side: int64) -> int64:
    """Returns the square of a side's king."""
    return ctz(s[KINGS] & s[WHITE + side])


@inner
def list_men(board: Position, other: Pointer[uint64], out: Pointer[int64]) -> int64:
    """Writes the men of `board` that `other` lacks: square | colour << 6 | kind << 7; returns how many."""
    n = int64(0)
    for kind in range(6):
        for colour in range(2):
            men = board[kind] & board[WHITE + colour] & ~(other[kind] & other[WHITE + colour])
            while men:
                out[n] = ctz(men) | (colour << 6) | (kind << 7)
                n += 1
                men &= men - ONE
    return n


BOARD_WORDS = META  # the words of a position that features depend on
GONE = 32  # offset in a list of the men that left
VIEW = 64  # offset in a list of the features of both, in a side's view
LIST_WORDS = 128
HEAD_WORDS = 16  # the board, then which accumulator is its; the accumulators are aligned to 64 bytes


@inner
def see(men: Pointer[int64], n: int64, side: int64, king: int64, out: Pointer[int64]) -> None:
    """Writes the features of n men, as `list_men` does, in the view of a side with its king on a square."""
    file = king & 7
    mirror = 7 if file < 4 else 0
    rank = (king >> 3) if side else 7 - (king >> 3)
    turn, first = mirror | 56 * side, (rank * 4 + (file ^ mirror ^ 7)) * layout.PIECE_SQUARES
    for i in range(n):
        kind, theirs = men[i] >> 7, ((men[i] >> 6) & 1) ^ side
        out[i] = first + kind * 128 + (0 if kind == KINGS else theirs * 64) + ((men[i] & 63) ^ turn)


@inner
def change_view(
    weights: Pointer[int64],
    out: Pointer[int64],
    base: Pointer[int64],
    s: Position,
    side: int64,
    men: Pointer[int64],
    come: int64,
    gone: int64,
) -> None:
    """Writes a side's accumulator of a position: another, `base`, plus men that came, minus those that left.

    Args:
      men: int64[LIST_WORDS]: `come` men at its beginning, `gone` men at GONE.
    """
    listed, king = adv(men, VIEW), king_of(s, side)
    see(men, come, side, king, listed)
    see(adv(men, GONE), gone, side, king, adv(listed, come))
    width, words = int64(weights[layout.WIDTH]), int64(weights[layout.ROW_WORDS])
    rows = adv(weights, int64(weights[layout.ROWS_AT]))
    for at in range(0, width >> 2, COLUMNS >> 2):
        part, first, last = view(int16, adv(rows, at)), view(int16, adv(base, at)), view(int16, adv(out, at))
        add_columns(part, 4 * words, first, listed, come, gone, last)
    material, at = view(int32, adv(rows, width >> 2)), width >> 2
    start, end = view(int32, adv(base, at)), view(int32, adv(out, at))
    add_columns(material, 2 * words, start, listed, come, gone, end)


@inner
def accumulator_of(
    weights: Pointer[int64], s: Position, side: int64, area: Pointer[uint64]
) -> Pointer[int64]:
    """Returns a side's accumulator of a position, from that of the last with its king on that square."""
    words = int64(weights[layout.ROW_WORDS])
    board = adv(area, LIST_WORDS + (side * 64 + king_of(s, side)) * (HEAD_WORDS + 2 * words))
    latest = int64(board[BOARD_WORDS])
    both = view(int64, adv(board, int64(HEAD_WORDS)))
    kept, out = adv(both, latest * words), adv(both, (1 - latest) * words)
    if board[KINGS] == ZERO:  # first use: start from the empty board
        empty = adv(weights, weights[layout.ROWS_AT] + layout.EMPTY_BOARD * words)
        for i in range(words):
            kept[i] = empty[i]
    men = view(int64, area)
    come, gone = list_men(s, board, men), list_men(board, s, adv(men, GONE))
    change_view(weights, out, kept, s, side, men, come, gone)
    for i in range(BOARD_WORDS):
        board[i] = s[i]
    board[BOARD_WORDS] = U(1 - latest)
    return out


# ------------------------------------------------------------------------------------ layers
MOST = 127  # the largest clipped value
MOST_BITS = 7
WEIGHT_BITS = 6
SQUARE_MOST = 1 << 13  # its square fits in 32 bits and is clipped anyway
OUTPUT_SCALE = 16
SKIPPED, SKIPPED_UNIT = 600 * OUTPUT_SCALE, MOST << WEIGHT_BITS  # scale of the first layer's last sum
# offsets in the work area, in words; last the inputs, int16[width + 2]
SUMS = 0  # int32[FIRST]
SECOND_INPUT = SUMS + layout.FIRST // 2  # int16[SECOND_INPUTS + 2]
SECOND_SUMS = SECOND_INPUT + layout.SECOND_INPUTS // 4 + 8  # int32[SECOND]
INPUTS = SECOND_SUMS + layout.SECOND // 2


def work_words(width: int) -> int:
    """Returns the number of words in the work area."""
    return INPUTS + width // 4 + 1


@inner
def activate(half: int64, accumulator: Pointer[int16], out: Pointer[int16]) -> None:
    """Writes the clipped products of an accumulator's halves, int16[half] in 0..126."""
    for j in range(half):
        a = min(max(accumulator[j], int16(0)), int16(MOST))
        b = min(max(accumulator[j + half], int16(0)), int16(MOST))
        out[j] = int16(int16(a * b) >> int16(MOST_BITS))


@inner
def first_layer(width: int64, stack: Pointer[int64], work: Pointer[int64]) -> None:
    """Writes the first layer's sums, and the second one's inputs: sums squared, then plain, all clipped."""
    bias = view(int32, adv(stack, int64(layout.FIRST_BIAS)))
    weights = view(int16, adv(stack, int64(layout.FIRST_WEIGHTS)))
    inputs, sums = view(int16, adv(work, int64(INPUTS))), view(int32, adv(work, int64(SUMS)))
    out = view(int16, adv(work, int64(SECOND_INPUT)))
    for r in range(layout.FIRST):
        sums[r] = bias[r]
    add_products(sums, inputs, weights, width >> 1)
    for r in range(layout.FIRST - 1):
        size = min(abs(sums[r]), int32(SQUARE_MOST))
        out[r] = int16(min(int32(int32(size * size) >> int32(2 * WEIGHT_BITS + MOST_BITS)), int32(MOST)))
        out[r + layout.FIRST - 1] = clipped(sums[r])
    for r in range(2 * (layout.FIRST - 1), layout.SECOND_INPUTS):
        out[r] = int16(0)


@inner
def clipped(total: int32) -> int16:
    """Returns the next layer's input for a layer's sum: scaled and clipped to 0..127."""
    return int16(min(max(int32(total >> int32(WEIGHT_BITS)), int32(0)), int32(MOST)))


@inner
def whole(a: int64, b: int64) -> int64:
    """Returns a / b rounded towards 0, as in C; b > 0."""
    return a // b if a >= 0 else -(-a // b)


@inner
def output(
    weights: Pointer[int64], ours: Pointer[int64], theirs: Pointer[int64], i: int64, work: Pointer[int64]
) -> int64:
    """Returns the output of stack i for the accumulators of the side to move and the other, in its own unit.

    Args:
      work: int64[work_words(width)], zeros before the first call.
    """
    width = int64(weights[layout.WIDTH])
    stack = adv(weights, int64(weights[layout.STACKS_AT]) + i * int64(weights[layout.LAYER_WORDS]))
    inputs = view(int16, adv(work, int64(INPUTS)))
    activate(width >> 1, view(int16, ours), inputs)
    activate(width >> 1, view(int16, theirs), adv(inputs, width >> 1))
    first_layer(width, stack, work)
    skipped = whole(
        int64(view(int32, adv(work, int64(SUMS)))[layout.FIRST - 1]) * SKIPPED, int64(SKIPPED_UNIT)
    )
    at = (width >> 1) + i
    material = whole(int64(view(int32, ours)[at]) - int64(view(int32, theirs)[at]), int64(2))
    bias, rows = view(int32, adv(stack, int64(layout.SECOND_BIAS))), adv(stack, int64(layout.SECOND_WEIGHTS))
    last = view(int16, adv(stack, int64(layout.LAST_WEIGHTS)))
    second = view(int16, adv(work, int64(SECOND_INPUT)))
    sums = view(int32, adv(work, int64(SECOND_SUMS)))
    for r in range(layout.SECOND):
        sums[r] = bias[r]
    for r in range(0, layout.SECOND, layout.FIRST):
        group = adv(view(int16, rows), r * layout.SECOND_INPUTS)
        add_products(adv(sums, r), second, group, int64(layout.SECOND_INPUTS // 2))
    total = int32(0)
    for r in range(layout.SECOND):
        total += int32(clipped(sums[r])) * int32(last[r])
    return whole(material + total + int64(stack[layout.LAST_BIAS]) + skipped, int64(OUTPUT_SCALE))


# ----------------------------------------------------------------------------------- chances
DRAW_WIDTH, NOISE = int64(1), int64(1 + layout.MAP_TERMS)
QUEEN_SIDE = U(0x0F0F0F0F0F0F0F0F)  # files a to d
DARK = U(0xAA55AA55AA55AA55)  # squares
PHASE_MAX = 24  # 4 knights and bishops each 1, 4 rooks 2, 2 queens 4


@inner
def map_exponent(numbers: Pointer[int64], s: Position, score: int64) -> float64:
    """Returns the logarithm of one width of the value map: a fitted sum of MAP_TERMS over phase and material.

    The sign of the score selects the strong side, whose pawns are a term.
    """
    stm = side_to_move(s)
    strong = s[PAWNS] & s[WHITE + (stm if score > 0 else 1 - stm)]
    pieces, bishops = s[KNIGHTS] | s[BISHOPS] | s[QUEENS], s[BISHOPS]
    phase = popc(s[KNIGHTS] | bishops) + 2 * popc(s[ROOKS]) + 4 * popc(s[QUEENS])
    u = min(PHASE_MAX, phase) / PHASE_MAX - 0.5
    out = numbers[0] + numbers[1] * u + numbers[2] * u * u
    out += numbers[3] * (popc(s[PAWNS]) / 8.0 - 1.0) + numbers[4] * (popc(strong) / 4.0 - 1.0)
    if s[QUEENS]:
        out += numbers[5]
    if popc(bishops) == 2 and popc(bishops & s[WHITE]) == 1 and popc(bishops & DARK) == 1:  # opposite
        out += numbers[6]
    if not pieces:
        out += numbers[7] if s[ROOKS] else numbers[8]
    if s[PAWNS] & QUEEN_SIDE and s[PAWNS] & ~QUEEN_SIDE:
        out += numbers[9]
    return layout.SCALAR_UNIT * out


# -------------------------------------------------------------------------------- quiescence


def area_words(width: int) -> int:
    """Returns the number of words of a network's search area, which follows its stack."""
    return LIST_WORDS + 2 * 64 * (HEAD_WORDS + 2 * layout.row_words(width)) + work_words(width)


@inner
def work_at(weights: Pointer[int64], area: Pointer[uint64]) -> Pointer[int64]:
    """Returns the work area of the layers; after `static_at` it has the first layer's sums."""
    return view(int64, adv(area, LIST_WORDS + 2 * 64 * (HEAD_WORDS + 2 * int64(weights[layout.ROW_WORDS]))))


@inner
def network_score(
    weights: Pointer[int64], stack: Pointer[uint64], ply: int64, area: Pointer[uint64]
) -> int64:
    """Returns the network's score of a frame's position in thousandths of a pawn, for the side to move."""
    frame = adv(stack, ply * quiescence.FRAME_WORDS)
    stm = side_to_move(frame)
    value = output(
        weights,
        accumulator_of(weights, frame, stm, area),
        accumulator_of(weights, frame, 1 - stm, area),
        (popc(frame[WHITE] | frame[BLACK]) - 1) // layout.MEN_PER_STACK,
        work_at(weights, area),
    )
    return value * 1000 // int64(weights[layout.PAWN])


@inner
def static_at(
    T: BoardTable, weights: Pointer[int64], stack: Pointer[uint64], ply: int64, area: Pointer[uint64]
) -> int64:
    """Returns `network_score` of a frame's position, or its `known_score`; adds to the accumulators."""
    score = network_score(weights, stack, ply, area)
    known = known_score(adv(stack, ply * quiescence.FRAME_WORDS), weights[layout.ENDINGS])
    return known if known != FAR else min(max(score, int64(-MOST_STATIC)), int64(MOST_STATIC))


search = quiescence.quiescence_over(static_at)


# ---------------------------------------------------------------------------- the evaluation
LOSS_LIMIT = 1200  # priors cut larger losses to this, in thousandths of a pawn
UNSEEN, UNVERIFIED = int64(-FAR), int64(-1)  # score and drop of moves without
LOGIT_UNIT = 1000.0  # scale of logits stored as integers
LOGIT_BIAS = 1 << 30  # makes them unsigned, in 32 bits
HALF_LICHESS = 0.00368208 / 2 / 10  # per thousandth of a pawn; 2 / (1 + exp(-x)) - 1 = tanh(x / 2)
FLIP_1, FLIP_2, FLIP_4 = U(0x5555555555555555), U(0x3333333333333333), U(0x0F0F0F0F0F0F0F0F)
SEEN_AT = U(32)  # shift of the logit in a word; below it the squares, seen by the side to move, and the index

# Offsets in the policy area: features, logits, the policy network's work area
OWN, RAW, WORK = 0, builtin.MOST_FEATURES, builtin.MOST_FEATURES + 128
POLICY_WORDS = WORK + builtin.WORK_WORDS

# Offsets in the work area: the search's stack, the order of the moves, the policy area, the order of the
# replies, the replies, the moves, each move's score, drop and logit; last the search's area, whose size
# depends on the width
ORDER = quiescence.STACK_WORDS
POLICY = ORDER + quiescence.FRAME_WORDS
REPLY_ORDER = POLICY + POLICY_WORDS
REPLIES = REPLY_ORDER + quiescence.FRAME_WORDS
ROOT_MOVES = REPLIES + 64
SCORES = ROOT_MOVES + 64
DROPS = SCORES + 256
LOGITS = DROPS + 256
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
    white, black = builtin.attacks_of(T, s, int64(0)), builtin.attacks_of(T, s, int64(1))
    own, logits = view(int64, adv(area, int64(OWN))), view(float32, adv(area, int64(RAW)))
    listed = builtin.list_features(s, builtin.seen_of(s, white, black), stm, own)
    theirs = white.every if stm else black.every
    network, work = adv(weights, weights[layout.POLICY_NETWORK_AT]), adv(area, int64(WORK))
    builtin.write_logits(T, network, s, moves, n, theirs, own, listed, work, logits)
    for i in range(n):
        seen = U(int64(logits[i] * LOGIT_UNIT) + LOGIT_BIAS)
        order[quiescence.LIST + i] = (
            (seen << SEEN_AT) | (U(quiescence.flip_move(moves[i], stm)) << U(16)) | U(i)
        )
    order[quiescence.NEXT] = ZERO
    order[quiescence.COUNT] = U(n)


@inner
def scores_of(scratch: Pointer[uint64]) -> Pointer[int64]:
    """Returns the scores of the moves before their replies, int64[256], seen by the side to move."""
    return view(int64, adv(scratch, int64(SCORES)))


@inner
def drops_of(scratch: Pointer[uint64]) -> Pointer[int64]:
    """Returns the drops of the moves' scores by the search of their replies, int64[256], at least 0."""
    return view(int64, adv(scratch, int64(DROPS)))


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
    child = adv(stack, (ply + 1) * quiescence.FRAME_WORDS)
    make_move(T, adv(stack, ply * quiescence.FRAME_WORDS), child, move)
    return -search(T, weights, stack, adv(stack, AREA), ply + 1, -beta, -alpha)


@inner
def score_moves(
    T: BoardTable, weights: Pointer[int64], moves: Pointer[uint16], n: int64, scratch: Pointer[uint64]
) -> int64:
    """Writes all logits and the scores of the likeliest moves; returns the best score.

    Scores more than LIMIT below it are upper bounds.
    """
    order, scores, drops = adv(scratch, ORDER), scores_of(scratch), drops_of(scratch)
    order_by_policy(T, weights, scratch, moves, n, order, adv(scratch, POLICY))
    for k in range(n):
        scratch[LOGITS + k] = order[quiescence.LIST + k] >> SEEN_AT
        scores[k], drops[k] = UNSEEN, UNVERIFIED
    best = int64(-FAR)
    for _ in range(min(n, weights[layout.SEEN_MOVES])):
        at = index_in(quiescence.take_best(order))
        score = score_below(
            T, weights, scratch, int64(0), moves[at], best - weights[layout.LIMIT], int64(FAR)
        )
        scores[at] = score
        best = max(best, score)
    return best


@inner
def refuted(
    T: BoardTable, weights: Pointer[int64], move: uint16, first: int64, least: int64, scratch: Pointer[uint64]
) -> int64:
    """Returns the score of a move after its likeliest replies, at most RISE above `first`, that before them.

    It is only a bound if it is `least` or below.
    """
    order, replies = adv(scratch, REPLY_ORDER), view(uint16, adv(scratch, REPLIES))
    child = adv(scratch, quiescence.FRAME_WORDS)
    make_move(T, scratch, child, move)
    n = generate_moves(T, child, replies)
    order_by_policy(T, weights, child, replies, n, order, adv(scratch, POLICY))
    score = first if n == 0 else first + weights[layout.RISE]
    for _ in range(min(n, weights[layout.SEEN_REPLIES])):
        if score <= least:
            break
        reply = replies[index_in(quiescence.take_best(order))]
        score = min(score, -score_below(T, weights, scratch, int64(1), reply, -score, -least))
    return score


@inner
def best_unverified(scratch: Pointer[uint64]) -> int64:
    """Returns the index of the best-scored move with unsearched replies, -1 if there is none.

    Of equal moves it returns the first in the order, so a position and its mirror image are searched alike.
    """
    order, scores, drops = adv(scratch, ORDER), scores_of(scratch), drops_of(scratch)
    best, at = UNSEEN, int64(-1)
    for j in range(int64(order[quiescence.NEXT])):
        i = index_in(order[quiescence.LIST + j])
        if drops[i] == UNVERIFIED and scores[i] > best:
            best, at = scores[i], i
    return at


@inner
def verify_best(
    T: BoardTable, weights: Pointer[int64], moves: Pointer[uint16], scratch: Pointer[uint64]
) -> int64:
    """Searches the replies to the best moves until one stays the best; returns its score.

    A score rises by at most RISE; a drop of more than LIMIT is only a bound.
    """
    top, scores, drops = int64(-FAR), scores_of(scratch), drops_of(scratch)
    for _ in range(weights[layout.VERIFIED_MOVES]):
        i = best_unverified(scratch)
        if i < 0 or scores[i] <= top:
            break
        first = scores[i]
        score = refuted(T, weights, moves[i], first, max(top, first - weights[layout.LIMIT]), scratch)
        drops[i] = max(first - score, int64(0))
        top = max(top, score)
    return top


@inner
def flip_files(squares: uint64) -> uint64:
    """Returns a bitboard with the files mirrored: reverses the bits of each byte."""
    out = ((squares >> U(1)) & FLIP_1) | ((squares & FLIP_1) << U(1))
    out = ((out >> U(2)) & FLIP_2) | ((out & FLIP_2) << U(2))
    return ((out >> U(4)) & FLIP_4) | ((out & FLIP_4) << U(4))


@inner
def write_root(s: Position, moves: Pointer[uint16], n: int64, scratch: Pointer[uint64]) -> Pointer[uint16]:
    """Writes a position and its moves into the work area, mirrored if its king's file asks for it.

    Returns the moves there. The key is not mirrored; nothing here reads it.
    """
    seen = view(uint16, adv(scratch, ROOT_MOVES))
    quiescence.copy_words(s, scratch, PW)
    flip = int64(0)
    king = king_of(s, side_to_move(s))
    if king & 7 < 4 and (s[META] >> U(CASTLING_SHIFT)) & U(CASTLING_BITS) == ZERO:
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
def lichess_chances(score: int64) -> float64:
    """Returns the result in [-1, 1] of a score by lichess's curve, which distinguishes won positions."""
    return math.tanh(score * HALF_LICHESS)


@inner
def logit_of(fitted: Pointer[int64], scratch: Pointer[uint64], i: int64, best: int64) -> float64:
    """Returns the logit of a move's prior; `best`: the best score before replies."""
    total = fitted[layout.POLICY_LOGITS] * (int64(scratch[LOGITS + i]) - LOGIT_BIAS) / LOGIT_UNIT
    score = scores_of(scratch)[i]
    if score == UNSEEN:
        return layout.SCALAR_UNIT * (total - fitted[layout.POLICY_UNSEEN])
    loss = min(best - score, int64(LOSS_LIMIT))
    drop = min(max(drops_of(scratch)[i], int64(0)), int64(LOSS_LIMIT))
    lost = fitted[layout.POLICY_CHANCES] * (lichess_chances(best) - lichess_chances(best - loss))
    return layout.SCALAR_UNIT * (
        total - lost - 0.001 * (fitted[layout.POLICY_PAWNS] * loss + fitted[layout.POLICY_DROP] * drop)
    )


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
    """Returns Q and the draw probability of a position, and writes its priors: see `batch_of`.

    Args:
      scratch: uint64[scratch_words(width)], zeros before the first call; always used with the same weights.
    """
    if known_score(s, weights[layout.ENDINGS]) != FAR:
        return evaluate_known(T, s, n, weights[layout.ENDINGS], priors, adv(scratch, int64(REPLY_ORDER)))
    fitted = adv(weights, weights[layout.FITTED_AT])
    seen = write_root(s, moves, n, scratch)
    best = score_moves(T, weights, seen, n, scratch)
    score = verify_best(T, weights, seen, scratch)
    for i in range(n):
        priors[i] = float32(logit_of(fitted, scratch, i, best))
    softmax(priors, n)
    numbers = adv(fitted, int64(layout.MAP_AT))
    draw_width = math.exp(map_exponent(adv(numbers, DRAW_WIDTH), s, score))
    noise = math.exp(map_exponent(adv(numbers, NOISE), s, score))
    win, loss = chances(score * 0.001 * layout.SCALAR_UNIT * numbers[0], draw_width, noise)
    return value_of_score(win, loss, score)


evaluate_batch = batch_of(evaluate_position)
