"""Kernel of `builtin`: V by quiescence over the value network, P by the policy network.

The input features are men on squares, by the own king's square, and attacked or undefended men. A feature is
the index of a row of weights. The rows of features are 8-bit, their sums and other rows 16-bit. Each side has
a view of the board: in Black's the ranks are mirrored, in both the files are, so that the own king is on a to
d.

    man    64 * (kind, plus 6 for the other side's) + square
    every man has the row 768 * (bucket of the own king) + man
    and the row THREATS_AT + 768 * state + man if it has a state

    state  0 undefended; 1, 2 attacked; 3, 4 attacked by a lesser man: undefended, defended

Each frame of a quiescence search has the sums of the rows of both sides' views. After a capture few rows
differ. So a frame's sums are computed from those of the nearest lower frame that has any, by adding and
subtracting rows; a view whose king has moved to another bucket is summed from scratch. The sums are exact
integers: both ways give the same, bit for bit.

    area     rows that came, rows that left | a `Seen` for each frame | sums of each frame, White's view first

The policy network makes one pass over the position, then computes one logit for each legal move.

    logit = hidden . (row of piece and from-square + row of piece and to-square + row of class) + class's bias

Moves share the products with rows of from-squares and of classes, so each is computed once.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ...jit.compiler import inner
from ...jit.pointers import COLUMNS, ONE, ZERO, U, add_columns, add_products, adv, ctz, dot, popc, view
from ...jit.types import Pointer, float32, float64, int8, int16, int32, int64, uint16, uint64
from ...position import board_kernel as rules
from ...position.board import (
    BISHOPS,
    BLACK,
    KINGS,
    KNIGHTS,
    PAWNS,
    QUEENS,
    ROOKS,
    WHITE,
    BoardTable,
    Position,
)
from ...position.tables import BE, KI, KN, PA, RE
from ...position.values import FAR, LEAST_WON
from .. import quiescence_kernel as quiescence
from ..batch_kernel import batch_of, chances, softmax, value_of_score
from ..endings_kernel import evaluate_known, known_score
from . import layout


# --------------------------------------------------------------------------- rows of weights
@inner
def section(weights: Pointer[int64], name: int64) -> Pointer[int16]:
    """Returns a section of the weights as int16; `name`: its word in the header."""
    return view(int16, adv(weights, int64(weights[name])))


@inner
def add_rows(
    width: int64,
    rows: Pointer[int8],
    base: Pointer[int16],
    listed: Pointer[int64],
    n: int64,
    m: int64,
    out: Pointer[int16],
) -> None:
    """Writes `base` plus the first n listed rows minus the m rows behind them, int16[width]."""
    for at in range(0, width, COLUMNS):
        add_columns(adv(rows, at), width, adv(base, at), listed, n, m, adv(out, at))


@inner
def activate(width: int64, sums: Pointer[int16], out: Pointer[int16]) -> None:
    """Writes the squares of the sums, clipped to 0..FULL first."""
    for i in range(width):
        x = min(max(sums[i], int16(0)), int16(layout.FULL))
        out[i] = int16(x * x)


# ---------------------------------------------------------------------------------- features
MOST_FEATURES = 128  # of a view: two for each of 64 men; legal positions have at most 32 men
BUCKETS = np.array(layout.BUCKET_OF_KING, np.int64)


@inner
def pawn_attacks(pawns: uint64, side: int64) -> uint64:
    """Returns the squares that pawns of a side attack."""
    if side == 0:
        return ((pawns & ~rules.FILE_A) << U(7)) | ((pawns & ~rules.FILE_H) << U(9))
    return ((pawns & ~rules.FILE_A) >> U(9)) | ((pawns & ~rules.FILE_H) >> U(7))


class Attacks(NamedTuple):
    """Squares that a side attacks: with pawns; with pawns and minor pieces; with rooks, too; with all men."""

    pawns: uint64
    minors: uint64
    rooks: uint64
    every: uint64


@inner
def attacks_from(T: BoardTable, kind: int64, square: int64, occupied: uint64) -> uint64:
    """Returns the squares that a piece attacks from a square; none for a king."""
    if kind == KNIGHTS:
        return T[KN + square]
    if kind == KINGS:
        return ZERO
    lines = ZERO
    if kind != ROOKS:
        lines = rules.bishop_attacks(T, square, occupied)
    return lines if kind == BISHOPS else lines | rules.rook_attacks(T, square, occupied)


@inner
def attacks_by(T: BoardTable, s: Position, side: int64, kind: int64) -> uint64:
    """Returns the squares that the pieces of a kind of one side attack."""
    occupied, men, out = s[WHITE] | s[BLACK], s[kind] & s[WHITE + side], ZERO
    while men:
        out |= attacks_from(T, kind, ctz(men), occupied)
        men &= men - ONE
    return out


@inner
def attacks_of(T: BoardTable, s: Position, side: int64) -> Attacks:
    """Returns the `Attacks` of a side."""
    us = s[WHITE + side]
    pawns = pawn_attacks(s[PAWNS] & us, side)
    minors = pawns | attacks_by(T, s, side, int64(KNIGHTS)) | attacks_by(T, s, side, int64(BISHOPS))
    rooks = minors | attacks_by(T, s, side, int64(ROOKS))
    every = rooks | attacks_by(T, s, side, int64(QUEENS)) | T[KI + ctz(s[KINGS] & us)]
    return Attacks(pawns, minors, rooks, every)


@inner
def threats_to(attacks: Attacks, kind: int64) -> uint64:
    """Returns the squares where a lesser man attacks a man of a kind; for a king, all attacked squares."""
    if kind == PAWNS:
        return ZERO
    if kind <= BISHOPS:
        return attacks.pawns
    if kind == ROOKS:
        return attacks.minors
    return attacks.rooks if kind == QUEENS else attacks.every


@inner
def turn_of(s: Position, side: int64) -> int64:
    """Returns the XOR mask from squares to a side's view."""
    return 56 * side ^ (7 if ctz(s[KINGS] & s[WHITE + side]) & 4 else 0)


@inner
def king_rows(s: Position, side: int64, turn: int64) -> int64:
    """Returns the first row of the bucket of a side's king; `turn`: `turn_of` the side."""
    square = ctz(s[KINGS] & s[WHITE + side]) ^ turn
    return int64(layout.BOARD_FEATURES * BUCKETS[(square >> 3) * 4 + (square & 3)])


class Seen(NamedTuple):
    """Squares of both sides' men that are attacked, attacked by a lesser man, defended."""

    attacked: uint64
    cheaply: uint64
    defended: uint64


@inner
def seen_of(s: Position, white: Attacks, black: Attacks) -> Seen:
    """Returns the `Seen` of a position from the attacks of both sides."""
    cheaply = ZERO
    for kind in range(6):
        cheaply |= s[kind] & (s[WHITE] & threats_to(black, kind) | s[BLACK] & threats_to(white, kind))
    return Seen(
        s[WHITE] & black.every | s[BLACK] & white.every,
        cheaply,
        s[WHITE] & white.every | s[BLACK] & black.every,
    )


@inner
def list_men(
    s: Position, seen: Seen, other: Position, other_seen: Seen, every: bool, out: Pointer[int64]
) -> int64:
    """Writes the features of a position that `other` lacks, or all (`every`); returns their number.

    Args:
      out: int64[MOST_FEATURES] out: square | colour << 6 | kind << 7 | (1 + state, or 0 for the man) << 10.
    """
    changed = seen.attacked ^ other_seen.attacked
    changed |= (seen.cheaply ^ other_seen.cheaply) | (seen.defended ^ other_seen.defended)
    n = int64(0)
    for kind in range(6):
        for colour in range(2):
            known = ZERO if every else other[kind] & other[WHITE + colour]
            men = s[kind] & s[WHITE + colour] & (~known | changed)
            while men:
                square = ctz(men)
                men &= men - ONE
                man = square | colour << 6 | kind << 7
                if not known >> U(square) & ONE:
                    out[n] = man
                    n += 1
                attacked = (seen.attacked >> U(square) & ONE) + (seen.cheaply >> U(square) & ONE)
                state = int64(attacked << ONE | (seen.defended >> U(square) & ONE))
                if state != 1:  # defended only: no row
                    out[n] = man | (state if state else int64(1)) << 10
                    n += 1
    return n


@inner
def see(s: Position, side: int64, features: Pointer[int64], n: int64, out: Pointer[int64]) -> None:
    """Writes the rows of n features from `list_men` in a side's view; `out` may be `features`."""
    turn = turn_of(s, side)
    first = king_rows(s, side, turn)
    for i in range(n):
        word = features[i]
        theirs = ((word >> 6) & 1) ^ side
        man = 64 * ((word >> 7) & 7) + 384 * theirs + ((word & 63) ^ turn)
        state = word >> 10
        out[i] = man + (layout.THREATS_AT + layout.BOARD_FEATURES * (state - 1) if state else first)


@inner
def list_features(s: Position, seen: Seen, side: int64, out: Pointer[int64]) -> int64:
    """Writes the rows of a side's view, int64[MOST_FEATURES]; returns their number."""
    n = list_men(s, seen, s, seen, True, out)
    see(s, side, out, n, out)
    return n


# --------------------------------------------------------------------------- sums of a frame
CAME, LEFT, VIEW, WHOLE = range(0, 4 * MOST_FEATURES, MOST_FEATURES)
SEEN = 4 * MOST_FEATURES
SUMS = (SEEN + 3 * quiescence.FRAMES + 7) // 8 * 8
SUMS_WORDS = SUMS + quiescence.FRAMES * 2 * layout.MOST_WIDTH // 4
MOST_CHANGES = 32  # rows; with more changes, summing all rows is as fast


@inner
def sums_at(weights: Pointer[int64], area: Pointer[uint64], ply: int64, side: int64) -> Pointer[int16]:
    """Returns the sums of a side's view in the frame at a ply: int16[width]."""
    return view(int16, adv(area, SUMS + (2 * ply + side) * (int64(weights[layout.VALUE_WIDTH]) >> 2)))


@inner
def sum_frame(
    weights: Pointer[int64], stack: Pointer[uint64], ply: int64, seen: Seen, area: Pointer[uint64]
) -> None:
    """Writes the sums of both views of the frame at a ply; the caller then sets the frame's word `KEPT`."""
    s, kept = adv(stack, ply * quiescence.FRAME_WORDS), adv(area, SEEN + 3 * ply)
    kept[0], kept[1], kept[2] = seen.attacked, seen.cheaply, seen.defended
    below = ply - 1
    while below >= 0 and not stack[below * quiescence.FRAME_WORDS + quiescence.KEPT]:
        below -= 1
    base = adv(stack, max(below, int64(0)) * quiescence.FRAME_WORDS)
    came, left = view(int64, area), view(int64, adv(area, int64(LEFT)))
    in_view, whole = view(int64, adv(area, int64(VIEW))), view(int64, adv(area, int64(WHOLE)))
    n, m, listed = int64(0), int64(MOST_CHANGES), int64(0)
    if below >= 0:
        at = adv(area, SEEN + 3 * below)
        known = Seen(at[0], at[1], at[2])
        n = list_men(s, seen, base, known, False, came)
        m = list_men(base, known, s, seen, False, left)
    width, rows = int64(weights[layout.VALUE_WIDTH]), view(int8, section(weights, int64(layout.VALUE_ROWS)))
    for side in range(2):
        turn, out = turn_of(s, side), sums_at(weights, area, ply, side)
        if (
            n + m < MOST_CHANGES
            and turn == turn_of(base, side)
            and king_rows(s, side, turn) == king_rows(base, side, turn)
        ):
            see(s, side, came, n, in_view)
            see(s, side, left, m, adv(in_view, n))
            add_rows(width, rows, sums_at(weights, area, below, side), in_view, n, m, out)
        else:
            if listed == 0:
                listed = list_men(s, seen, s, seen, True, whole)
            see(s, side, whole, listed, in_view)
            bias = section(weights, int64(layout.VALUE_BIAS))
            add_rows(width, rows, bias, in_view, listed, int64(0), out)


# ------------------------------------------------------------------------- the value network
FIRST_OUTPUTS = layout.FIRST + layout.OUTPUTS
# offsets in the work area, in words: the hidden layer of both views and a pair of zeros, sums of the first
# layer, then the layers of FIRST and SECOND
FIRST_SUMS = 2 * layout.MOST_WIDTH // 4 + 8
FIRST_AT = FIRST_SUMS + layout.FIRST // 2
SECOND_AT = FIRST_AT + (FIRST_OUTPUTS + 1) // 2
VALUE_WORDS = SECOND_AT + layout.SECOND // 2


class Value(NamedTuple):
    """The network's outputs in the unit of `layout.SCORE_UNIT`, seen by the side to move."""

    score: float64
    draw_width: float64
    noise: float64


@inner
def clipped(x: float32) -> float32:
    """Returns x limited to 0..1."""
    return min(max(x, float32(0)), float32(1))


@inner
def network_value(
    weights: Pointer[int64], own: Pointer[int16], other: Pointer[int16], men: int64, work: Pointer[uint64]
) -> Value:
    """Returns the `Value` of a position with so many men from the sums of both views, int16[width]."""
    width, hidden = int64(weights[layout.VALUE_WIDTH]), view(int16, work)
    activate(width, own, hidden)
    activate(width, other, adv(hidden, width))
    hidden[2 * width], hidden[2 * width + 1] = int16(0), int16(0)
    stack = min((men - 1) // layout.MEN_PER_STACK, int64(layout.STACKS - 1))
    # the first layer, then the linear part
    first, second = view(float32, adv(work, int64(FIRST_AT))), view(float32, adv(work, int64(SECOND_AT)))
    sums, pairs = view(int32, adv(work, int64(FIRST_SUMS))), section(weights, int64(layout.VALUE_PAIRS))
    for k in range(layout.FIRST):
        sums[k] = int32(0)
    add_products(sums, hidden, adv(pairs, stack * 2 * width * layout.FIRST), width)
    rows = adv(section(weights, int64(layout.VALUE_FIRST)), stack * FIRST_OUTPUTS * 2 * width)
    plain = view(float32, adv(weights, int64(weights[layout.VALUE_FIRST_PLAIN])))
    for k in range(FIRST_OUTPUTS):
        at = stack * FIRST_OUTPUTS + k
        total = sums[k] if k < layout.FIRST else dot(2 * width, hidden, adv(rows, k * 2 * width))
        first[k] = plain[at] + plain[layout.STACKS * FIRST_OUTPUTS + at] * float32(total)
    # the layers of FIRST and SECOND, whose outputs add to the linear part
    middle = view(float32, adv(weights, int64(weights[layout.VALUE_SECOND])))
    middle = adv(middle, stack * (2 * layout.FIRST + 1) * layout.SECOND)
    last = adv(
        view(float32, adv(weights, int64(weights[layout.VALUE_LAST]))), stack * layout.SECOND * layout.OUTPUTS
    )
    for j in range(layout.SECOND):
        second[j] = middle[2 * layout.FIRST * layout.SECOND + j]
    for i in range(layout.FIRST):
        x = clipped(first[i])
        if x == float32(0):
            continue
        a, b = adv(middle, i * layout.SECOND), adv(middle, (layout.FIRST + i) * layout.SECOND)
        for j in range(layout.SECOND):
            second[j] += x * a[j] + x * x * b[j]
    for j in range(layout.SECOND):
        x = clipped(second[j])
        for k in range(layout.OUTPUTS):
            first[layout.FIRST + k] += x * last[j * layout.OUTPUTS + k]
    return Value(
        float64(first[layout.FIRST]),
        math.exp(min(max(float64(first[layout.FIRST + 1]), layout.WIDTH_RANGE[0]), layout.WIDTH_RANGE[1])),
        math.exp(min(max(float64(first[layout.FIRST + 2]), layout.NOISE_RANGE[0]), layout.NOISE_RANGE[1])),
    )


# ------------------------------------------------------------------------ the policy network
CHECK, CAPTURE, EXCHANGE, PROMOTION, THREAT = 1, 2, 4, 12, 28  # addends of `kind_of_move`


@inner
def place_of(kind: int64, square: int64, turn: int64) -> int64:
    """Returns the index of a kind of piece on a square in PLACES, in the mover's view."""
    return kind * 64 + (square ^ turn)


@inner
def threatens(T: BoardTable, s: Position, m: uint16, kind: int64, theirs: uint64) -> bool:
    """Returns whether a moving man of a kind newly attacks a greater man, or a piece not on `theirs`."""
    worth = s[QUEENS] if kind != QUEENS else ZERO
    if kind < ROOKS:
        worth |= s[ROOKS]
    pieces = s[KNIGHTS] | s[BISHOPS] | s[ROOKS] | s[QUEENS]
    worth |= pieces if kind == PAWNS else pieces & ~theirs
    worth &= s[BLACK - rules.side_to_move(s)]
    if not worth:
        return False
    start, target, occupied = rules.from_square(m), rules.to_square(m), s[WHITE] | s[BLACK]
    if kind == PAWNS:
        pawns = PA + 64 * rules.side_to_move(s)
        return (T[pawns + target] & ~T[pawns + start] & worth) != ZERO
    if kind != KNIGHTS:
        worth &= (T[RE + target] if kind != BISHOPS else ZERO) | (T[BE + target] if kind != ROOKS else ZERO)
    if worth:
        worth &= attacks_from(T, kind, target, occupied & ~(ONE << U(start)))
    return worth != ZERO and worth & ~attacks_from(T, kind, start, occupied) != ZERO


@inner
def kind_of_move(
    T: BoardTable,
    s: Position,
    m: uint16,
    theirs: uint64,
    masks: rules.CheckMasks,
    child: Position,
    gains: Pointer[uint64],
) -> int64:
    """Returns the kind of a move: check + 2 capture + (4 exchange class + 28 threat, or 4 promotion + 8).

    The class of an exchange is 0 if it loses, 1 if it is even, 2 if it wins.

    Args:
      theirs: the squares that the other side attacks. child, gains: scratch for a position and an exchange.
    """
    captures = (s[BLACK - rules.side_to_move(s)] >> U(rules.to_square(m))) & ONE
    out = int64(captures) * CAPTURE
    if rules.may_check(s, masks, m):
        rules.make_move(T, s, child, m)
        out += int64(rules.in_check(T, child)) * CHECK
    if rules.promotion_of(m):
        return out + PROMOTION + 4 * (rules.promotion_of(m) - 1)
    out += THREAT * int64(threatens(T, s, m, rules.man_at(s, rules.from_square(m)), theirs))
    won = int64(0)
    if quiescence.capture_gain(s, m) != 0 or (theirs >> U(rules.to_square(m))) & ONE:
        won = quiescence.exchange(T, s, m, gains)
    return out + EXCHANGE * (int64(0) if won < 0 else (int64(2) if won > 0 else int64(1)))


UNKNOWN = 1 << 62  # a product that is not computed yet

# offsets in the work area, in words: a child, an exchange, products of classes, the hidden layer, its sums
CHILD, GAINS, PRODUCTS = 0, 16, 48
HIDDEN = PRODUCTS + layout.CLASSES
POLICY_SUMS = HIDDEN + layout.MOST_WIDTH // 4
WORK_WORDS = POLICY_SUMS + layout.MOST_WIDTH // 4


@inner
def product(weights: Pointer[int64], name: int64, i: int64, hidden: Pointer[int16]) -> int64:
    """Returns the product of the hidden layer with row i of a section, int64."""
    width = int64(weights[layout.POLICY_WIDTH])
    return int64(dot(width, hidden, adv(section(weights, name), i * width)))


@inner
def write_logits(
    T: BoardTable,
    weights: Pointer[int64],
    s: Position,
    moves: Pointer[uint16],
    n: int64,
    theirs: uint64,
    features: Pointer[int64],
    seen: int64,
    work: Pointer[uint64],
    logits: Pointer[float32],
) -> None:
    """Writes the logits of n legal moves.

    Args:
      theirs: the squares that the other side attacks. features: of the mover's view, int64[seen].
      work: uint64[WORK_WORDS].
    """
    width = int64(weights[layout.POLICY_WIDTH])
    hidden, sums = view(int16, adv(work, int64(HIDDEN))), view(int16, adv(work, int64(POLICY_SUMS)))
    rows, bias = section(weights, int64(layout.POLICY_ROWS)), section(weights, int64(layout.POLICY_BIAS))
    add_rows(width, view(int8, rows), bias, features, seen, int64(0), sums)
    activate(width, sums, hidden)
    plain = view(float32, adv(weights, int64(weights[layout.CLASS_BIAS])))
    unit = float64(plain[layout.CLASSES])
    products = view(int64, adv(work, int64(PRODUCTS)))
    for i in range(layout.CLASSES):
        products[i] = UNKNOWN
    masks = rules.check_masks(T, s)
    turn = turn_of(s, rules.side_to_move(s))
    start, left = int64(-1), int64(0)
    for i in range(n):
        m = moves[i]
        piece = rules.man_at(s, rules.from_square(m))
        if rules.from_square(m) != start:  # the moves of one piece are mostly adjacent
            start = rules.from_square(m)
            left = product(weights, int64(layout.FROM), place_of(piece, start, turn), hidden)
        kind = kind_of_move(T, s, m, theirs, masks, adv(work, int64(CHILD)), adv(work, int64(GAINS)))
        at = piece * layout.KINDS_OF_MOVES + kind
        if products[at] == UNKNOWN:
            products[at] = product(weights, int64(layout.CLASS), at, hidden)
        total = left + products[at]
        total += product(weights, int64(layout.TO), place_of(piece, rules.landing_of(s, m), turn), hidden)
        logits[i] = float32(float64(plain[at]) + unit * float64(total))


# ---------------------------------------------------------------------------- the evaluation
MOST_STATIC = LEAST_WON - 1

# offsets in the area, in words: sums of the frames, work area of the value network, that of the policy
# network, its features
WORK = SUMS_WORDS
POLICY = WORK + VALUE_WORDS
FEATURES = POLICY + WORK_WORDS
AREA_WORDS = FEATURES + MOST_FEATURES
SCRATCH_WORDS = quiescence.STACK_WORDS + AREA_WORDS


@inner
def value_at(
    weights: Pointer[int64], stack: Pointer[uint64], ply: int64, seen: Seen, area: Pointer[uint64]
) -> Value:
    """Returns the `Value` of a frame's position; keeps its sums in `area`, its score in the frame."""
    s = adv(stack, ply * quiescence.FRAME_WORDS)
    stm = rules.side_to_move(s)
    sum_frame(weights, stack, ply, seen, area)
    own, other = sums_at(weights, area, ply, stm), sums_at(weights, area, ply, 1 - stm)
    value = network_value(weights, own, other, popc(s[WHITE] | s[BLACK]), adv(area, int64(WORK)))
    score = known_score(s, weights[layout.ENDINGS])
    if score == FAR:
        score = int64(min(max(value.score * layout.SCORE_UNIT, float(-MOST_STATIC)), float(MOST_STATIC)))
    quiescence.put(s, quiescence.KEPT, score)
    return value


@inner
def static_at(
    T: BoardTable, weights: Pointer[int64], stack: Pointer[uint64], ply: int64, area: Pointer[uint64]
) -> int64:
    """Returns the score of the position in a frame, computed once per frame."""
    s = adv(stack, ply * quiescence.FRAME_WORDS)
    if not s[quiescence.KEPT]:
        seen = seen_of(s, attacks_of(T, s, int64(0)), attacks_of(T, s, int64(1)))
        value_at(weights, stack, ply, seen, area)
    return quiescence.get(s, quiescence.KEPT)


search = quiescence.quiescence_over(static_at)


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
    """Returns Q and the draw probability of a position, and writes its priors: see `batch_of`."""
    if known_score(s, weights[layout.ENDINGS]) != FAR:
        return evaluate_known(T, s, n, weights[layout.ENDINGS], priors, scratch)
    stack, area = scratch, adv(scratch, int64(quiescence.STACK_WORDS))
    white, black = attacks_of(T, s, int64(0)), attacks_of(T, s, int64(1))
    stm, seen = rules.side_to_move(s), seen_of(s, white, black)
    features = view(int64, adv(area, int64(FEATURES)))
    listed = list_features(s, seen, stm, features)
    theirs = white.every if stm else black.every
    write_logits(T, weights, s, moves, n, theirs, features, listed, adv(area, int64(POLICY)), priors)
    for i in range(rules.PW):
        stack[i] = s[i]
    value = value_at(weights, stack, int64(0), seen, area)
    score = search(T, weights, stack, area, int64(0), int64(-FAR), int64(FAR))
    win, loss = chances(score / layout.SCORE_UNIT, value.draw_width, value.noise)
    # the more open a position, the more moves deserve a look
    level, decided = layout.TEMPERATURES
    temperature = level + (decided - level) * (win - loss) * (win - loss)
    for i in range(n):
        priors[i] = float32(float64(priors[i]) / temperature)
    softmax(priors, n)
    return value_of_score(win, loss, score)


evaluate_batch = batch_of(evaluate_position)
