"""What the policy network sees of a move: where it leaves, where it goes, and what kind of move it is."""

from __future__ import annotations

from ...jit.compiler import inner
from ...jit.pointers import ONE, U
from ...jit.types import Pointer, int64, uint16, uint64
from ...position.board_kernel import (
    from_square,
    in_check,
    make_move,
    man_at,
    promotion_of,
    side_to_move,
    to_square,
)
from ...position.mates_kernel import CheckMasks, may_check
from ...position.words import BLACK, BoardTable, Position
from ..quiescence.captures_kernel import capture_gain, exchange
from .layout import KINDS_OF_MOVES

CHECK, CAPTURE, EXCHANGE, PROMOTION = 1, 2, 4, 12  # as they are added up in a kind of move


@inner
def place_of(kind: int64, square: int64, turn: int64) -> int64:
    """Returns the number of a kind of piece on a square, in the mover's view."""
    return kind * 64 + (square ^ turn)


@inner
def exchange_class(T: BoardTable, s: Position, m: uint16, theirs: uint64, gains: Pointer[uint64]) -> int64:
    """Returns 0 if the exchange on the target square loses, 1 if it is even, 2 if it wins.

    `theirs`: the squares that the other side attacks.
    """
    if capture_gain(s, m) == 0 and not (theirs >> U(to_square(m))) & ONE:
        return int64(1)
    won = exchange(T, s, m, gains)
    return int64(0) if won < 0 else (int64(2) if won > 0 else int64(1))


@inner
def gives_check(T: BoardTable, s: Position, m: uint16, masks: CheckMasks, child: Position) -> bool:
    """Returns whether a move gives check; `masks`: `check_masks` of the position, `child`: 10 words."""
    if not may_check(s, masks, m):
        return False
    make_move(T, s, child, m)
    return in_check(T, child)


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
    """Returns what kind a move is: check + 2 capture + 4 exchange class, or 12 + 4 (promotion - 1) for that.

    Args:
      theirs: the squares that the other side attacks. masks: `check_masks` of the position.
      child: room for a position. gains: room for an exchange.
    """
    captures = (s[BLACK - side_to_move(s)] >> U(to_square(m))) & ONE
    out = int64(captures) * CAPTURE + int64(gives_check(T, s, m, masks, child)) * CHECK
    if promotion_of(m):
        return out + PROMOTION + 4 * (promotion_of(m) - 1)
    return out + EXCHANGE * exchange_class(T, s, m, theirs, gains)


@inner
def class_of(kind: int64, piece: int64) -> int64:
    """Returns the class of a kind of move by a piece."""
    return piece * KINDS_OF_MOVES + kind


@inner
def mover_of(s: Position, m: uint16) -> int64:
    """Returns the kind of the man that moves."""
    return man_at(s, from_square(m))
