"""The policy network: one pass over the position, then one logit for each legal move.

    logit = hidden . (row of what the move leaves + row of where it goes + row of its class) + class's bias

The products with rows of what is left and of classes are shared by moves, and computed once.
"""

from __future__ import annotations

from ...jit.compiler import inner
from ...jit.pointers import adv, as_f32, as_i16, as_i64
from ...jit.types import Pointer, float32, float64, int16, int64, uint16, uint64
from ...position.board_kernel import from_square, landing_of, side_to_move
from ...position.mates_kernel import check_masks
from ...position.words import BoardTable, Position
from .features_kernel import turn_of
from .layout import (
    CLASS,
    CLASS_BIAS,
    CLASSES,
    FROM,
    MOST_WIDTH,
    POLICY_BIAS,
    POLICY_ROWS,
    POLICY_WIDTH,
    TO,
)
from .moves_kernel import class_of, kind_of_move, mover_of, place_of
from .value_kernel import activate, dot, section, sum_rows

UNKNOWN = 1 << 62  # a product that was not needed yet

# words of the work area: a child, an exchange, products of classes, the hidden layer
CHILD, GAINS, PRODUCTS = 0, 16, 48
HIDDEN = PRODUCTS + CLASSES
WORK_WORDS = HIDDEN + MOST_WIDTH // 4


@inner
def hidden_layer(weights: Pointer[int64], features: Pointer[int64], n: int64, hidden: Pointer[int16]) -> None:
    """Writes the network's view of a position: int16[width]."""
    width = int64(weights[POLICY_WIDTH])
    rows, bias = section(weights, int64(POLICY_ROWS)), section(weights, int64(POLICY_BIAS))
    sum_rows(width, rows, bias, features, n, hidden)
    activate(width, hidden)


@inner
def product(weights: Pointer[int64], name: int64, i: int64, hidden: Pointer[int16]) -> int64:
    """Returns the product of the hidden layer with row i of a section, int64."""
    width = int64(weights[POLICY_WIDTH])
    return int64(dot(width, hidden, adv(section(weights, name), i * width)))


@inner
def class_product(
    weights: Pointer[int64], i: int64, hidden: Pointer[int16], products: Pointer[int64]
) -> int64:
    """Returns the product with the row of a class, computed when it is first asked for."""
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
    hidden_layer(weights, features, seen, hidden)
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
        if from_square(m) != start:  # the moves of a piece stand together
            start = from_square(m)
            left = product(weights, int64(FROM), place_of(piece, start, turn), hidden)
        kind = kind_of_move(T, s, m, theirs, masks, adv(work, int64(CHILD)), adv(work, int64(GAINS)))
        at = class_of(kind, piece)
        total = left + class_product(weights, at, hidden, products)
        total += product(weights, int64(TO), place_of(piece, landing_of(s, m), turn), hidden)
        logits[i] = float32(float64(plain[at]) + unit * float64(total))
