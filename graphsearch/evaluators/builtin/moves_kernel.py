"""What the policy network sees of a move: where it leaves, where it goes, and what kind of move it is."""

from __future__ import annotations

from ...jit.compiler import inner
from ...jit.pointers import ONE, ZERO, U
from ...jit.types import Pointer, int64, uint16, uint64
from ...position.board_kernel import (
    bishop_attacks,
    from_square,
    in_check,
    make_move,
    man_at,
    promotion_of,
    rook_attacks,
    side_to_move,
    to_square,
)
from ...position.mates_kernel import CheckMasks, may_check
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
from .layout import KINDS_OF_MOVES

CHECK, CAPTURE, EXCHANGE, PROMOTION, THREAT = 1, 2, 4, 12, 28  # as they are added up in a kind of move


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
    """Returns whether the man that moves newly attacks what is worth more than it, or an undefended piece.

    Args:
      kind: of the man. theirs: the squares that the other side attacks.
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
    """Returns what kind a move is: check + 2 capture + (4 exchange class + 28 threat, or 4 promotion + 8).

    Args:
      theirs: the squares that the other side attacks. masks: `check_masks` of the position.
      child: room for a position. gains: room for an exchange.
    """
    captures = (s[BLACK - side_to_move(s)] >> U(to_square(m))) & ONE
    out = int64(captures) * CAPTURE + int64(gives_check(T, s, m, masks, child)) * CHECK
    if promotion_of(m):
        return out + PROMOTION + 4 * (promotion_of(m) - 1)
    out += THREAT * int64(threatens(T, s, m, mover_of(s, m), theirs))
    return out + EXCHANGE * exchange_class(T, s, m, theirs, gains)


@inner
def class_of(kind: int64, piece: int64) -> int64:
    """Returns the class of a kind of move by a piece."""
    return piece * KINDS_OF_MOVES + kind


@inner
def mover_of(s: Position, m: uint16) -> int64:
    """Returns the kind of the man that moves."""
    return man_at(s, from_square(m))
