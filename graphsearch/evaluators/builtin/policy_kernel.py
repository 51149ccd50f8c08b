"""The policy network: one pass over the position, then one logit for each legal move.

    logit = hidden . (row of piece and from-square + row of piece and to-square + row of class) + class's bias

Moves share the products with rows of from-squares and of classes, so each is computed once.
"""

from __future__ import annotations

from ...jit.compiler import inner
from ...jit.pointers import ONE, ZERO, U, adv, as_f32, as_i16, as_i64
from ...jit.types import Pointer, float32, float64, int16, int64, uint16, uint64
from ...position.attacks_kernel import bishop_attacks, man_at, rook_attacks
from ...position.board_kernel import (
    from_square,
    in_check,
    landing_of,
    make_move,
    promotion_of,
    side_to_move,
    to_square,
)
from ...position.mates_kernel import CheckMasks, check_masks, may_check
from ...position.tables import KN, PA
from ...position.words import (
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
from ..quiescence.captures_kernel import capture_gain, exchange
from .features_kernel import turn_of
from .layout import (
    CLASS,
    CLASS_BIAS,
    CLASSES,
    FROM,
    KINDS_OF_MOVES,
    MOST_WIDTH,
    POLICY_BIAS,
    POLICY_ROWS,
    POLICY_WIDTH,
    TO,
)
from .rows_kernel import activate, dot, rows_of, section, sum_rows

CHECK, CAPTURE, EXCHANGE, PROMOTION, THREAT = 1, 2, 4, 12, 28  # addends of `kind_of_move`


@inner
def place_of(kind: int64, square: int64, turn: int64) -> int64:
    """Returns the index of a kind of piece on a square in PLACES, in the mover's view."""
    return kind * 64 + (square ^ turn)


@inner
def exchange_class(T: BoardTable, s: Position, m: uint16, theirs: uint64, gains: Pointer[uint64]) -> int64:
    """Returns 0 if the exchange on the target square loses, 1 if it is even, 2 if it wins.

    Args:
      theirs: the squares that the other side attacks. gains: scratch for an exchange.
    """
    if capture_gain(s, m) == 0 and not (theirs >> U(to_square(m))) & ONE:
        return int64(1)
    won = exchange(T, s, m, gains)
    return int64(0) if won < 0 else (int64(2) if won > 0 else int64(1))


@inner
def gives_check(T: BoardTable, s: Position, m: uint16, masks: CheckMasks, child: Position) -> bool:
    """Returns whether a move gives check; `masks`: `check_masks` of the position, `child`: scratch."""
    if not may_check(s, masks, m):
        return False
    make_move(T, s, child, m)
    return in_check(T, child)


@inner
def attacks_from(T: BoardTable, s: Position, kind: int64, square: int64, occupied: uint64) -> uint64:
    """Returns the squares that a man of the side to move attacks from a square; none for a king."""
    if kind == PAWNS:
        return T[PA + 64 * side_to_move(s) + square]
    if kind == KNIGHTS:
        return T[KN + square]
    if kind == KINGS:
        return ZERO
    lines = ZERO
    if kind != ROOKS:
        lines = bishop_attacks(T, square, occupied)
    return lines if kind == BISHOPS else lines | rook_attacks(T, square, occupied)


@inner
def threatens(T: BoardTable, s: Position, m: uint16, kind: int64, theirs: uint64) -> bool:
    """Returns whether the moving man newly attacks a greater man, or an undefended piece.

    Args:
      kind: of the moving man. theirs: the squares that the other side attacks.
    """
    worth = s[QUEENS] if kind != QUEENS else ZERO
    if kind < ROOKS:
        worth |= s[ROOKS]
    pieces = s[KNIGHTS] | s[BISHOPS] | s[ROOKS] | s[QUEENS]
    worth |= pieces if kind == PAWNS else pieces & ~theirs
    worth &= s[BLACK - side_to_move(s)]
    if not worth:
        return False
    occupied = s[WHITE] | s[BLACK]
    before = attacks_from(T, s, kind, from_square(m), occupied)
    after = attacks_from(T, s, kind, to_square(m), occupied & ~(ONE << U(from_square(m))))
    return (after & ~before & worth) != ZERO


@inner
def kind_of_move(
    T: BoardTable,
    s: Position,
    m: uint16,
    theirs: uint64,
    masks: CheckMasks,
    child: Position,
    gains: Pointer[uint64],
) -> int64:
    """Returns the kind of a move: check + 2 capture + (4 exchange class + 28 threat, or 4 promotion + 8).

    Args:
      theirs: the squares that the other side attacks. masks: `check_masks` of the position.
      child: scratch for a position. gains: scratch for an exchange.
    """
    captures = (s[BLACK - side_to_move(s)] >> U(to_square(m))) & ONE
    out = int64(captures) * CAPTURE + int64(gives_check(T, s, m, masks, child)) * CHECK
    if promotion_of(m):
        return out + PROMOTION + 4 * (promotion_of(m) - 1)
    out += THREAT * int64(threatens(T, s, m, mover_of(s, m), theirs))
    return out + EXCHANGE * exchange_class(T, s, m, theirs, gains)


@inner
def class_of(kind: int64, piece: int64) -> int64:
    """Returns the class of a kind of move by a kind of piece."""
    return piece * KINDS_OF_MOVES + kind


@inner
def mover_of(s: Position, m: uint16) -> int64:
    """Returns the kind of the moving man."""
    return man_at(s, from_square(m))


UNKNOWN = 1 << 62  # a product that is not computed yet

# offsets in the work area, in words: a child, an exchange, products of classes, the hidden layer, its sums
CHILD, GAINS, PRODUCTS = 0, 16, 48
HIDDEN = PRODUCTS + CLASSES
SUMS = HIDDEN + MOST_WIDTH // 4
WORK_WORDS = SUMS + MOST_WIDTH // 4


@inner
def hidden_layer(
    weights: Pointer[int64],
    features: Pointer[int64],
    n: int64,
    sums: Pointer[int16],
    hidden: Pointer[int16],
) -> None:
    """Writes the hidden layer of a position, and its sums: int16[width] each."""
    width = int64(weights[POLICY_WIDTH])
    rows, bias = rows_of(weights, int64(POLICY_ROWS)), section(weights, int64(POLICY_BIAS))
    sum_rows(width, rows, bias, features, n, sums)
    activate(width, sums, hidden)


@inner
def product(weights: Pointer[int64], name: int64, i: int64, hidden: Pointer[int16]) -> int64:
    """Returns the product of the hidden layer with row i of a section, int64."""
    width = int64(weights[POLICY_WIDTH])
    return int64(dot(width, hidden, adv(section(weights, name), i * width)))


@inner
def class_product(
    weights: Pointer[int64], i: int64, hidden: Pointer[int16], products: Pointer[int64]
) -> int64:
    """Returns the product with the row of class i; computes it on first use."""
    if products[i] == UNKNOWN:
        products[i] = product(weights, int64(CLASS), i, hidden)
    return products[i]


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
      theirs: the squares that the other side attacks.
      features: of the mover's view, int64[seen].
      work: uint64[WORK_WORDS]. logits: float32[n] out.
    """
    hidden = as_i16(adv(work, int64(HIDDEN)))
    hidden_layer(weights, features, seen, as_i16(adv(work, int64(SUMS))), hidden)
    plain = as_f32(adv(weights, int64(weights[CLASS_BIAS])))
    unit = float64(plain[CLASSES])
    products = as_i64(adv(work, int64(PRODUCTS)))
    for i in range(CLASSES):
        products[i] = UNKNOWN
    masks = check_masks(T, s)
    turn = turn_of(s, side_to_move(s))
    start, left = int64(-1), int64(0)
    for i in range(n):
        m = moves[i]
        piece = mover_of(s, m)
        if from_square(m) != start:  # the moves of one piece are mostly adjacent
            start = from_square(m)
            left = product(weights, int64(FROM), place_of(piece, start, turn), hidden)
        kind = kind_of_move(T, s, m, theirs, masks, adv(work, int64(CHILD)), adv(work, int64(GAINS)))
        at = class_of(kind, piece)
        total = left + class_product(weights, at, hidden, products)
        total += product(weights, int64(TO), place_of(piece, landing_of(s, m), turn), hidden)
        logits[i] = float32(float64(plain[at]) + unit * float64(total))
