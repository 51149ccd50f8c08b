"""Castling, in Chess960 too: the fields in META, and the moves.

A position is Chess960 here if a king or rook that may castle is not on its standard square. Its META has the
CHESS960 bit and the files of the rooks (`words.py`). All castling in it is written as king takes rook, also
for a side with king and rook on their standard squares.
"""

from __future__ import annotations

from ..jit.compiler import inner
from ..jit.pointers import ONE, ZERO, U, ctz
from ..jit.types import Pointer, int64, uint16, uint64
from .attacks_kernel import is_attacked
from .tables import BT
from .words import (
    BLACK,
    CASTLING_BITS,
    CASTLING_SHIFT,
    CHESS960,
    CHESS960_SHIFT,
    FILE_BITS,
    KING_FILE,
    KINGS,
    META,
    ROOK_FILES_SHIFT,
    ROOKS,
    STANDARD_ROOK_FILES,
    WHITE,
    BoardTable,
    Position,
)

KING_TO, ROOK_TO = (6, 2), (5, 3)  # files on which castling ends, on the king's and on the queen's side


@inner
def is_chess960(s: Position) -> bool:
    """Returns whether castling is not standard in a position."""
    return s[META] & U(CHESS960) != ZERO


@inner
def has_right(s: Position, right: int64) -> bool:
    """Returns whether a position has a castling right; 0..3 are K Q k q."""
    return (s[META] >> U(CASTLING_SHIFT + right)) & ONE != ZERO


@inner
def rook_square(meta: uint64, right: int64) -> int64:
    """Returns the square of the rook of a castling right that `meta` has."""
    files = int64(meta >> U(ROOK_FILES_SHIFT)) ^ STANDARD_ROOK_FILES
    return ((files >> (FILE_BITS * right)) & 7) + 56 * (right >> 1)


@inner
def chess960_fields(s: Position, rights: int64) -> uint64:
    """Returns META's Chess960 bit and rook files for these castling rights; 0 if they are standard."""
    found, other = int64(0), False
    for right in range(4):
        if (rights >> right) & 1:
            file = int64(s[META] >> U(ROOK_FILES_SHIFT + FILE_BITS * right)) & 7
            home = ONE << U(KING_FILE + 56 * (right >> 1))
            found |= file << (1 + FILE_BITS * right)
            other = other or file != 0 or s[KINGS] & s[WHITE + (right >> 1)] & home == ZERO
    return U(found | 1) << U(CHESS960_SHIFT) if other else ZERO


@inner
def castle(
    T: BoardTable, c: Position, key: uint64, us: int64, ours: int64, king: int64, rook: int64
) -> uint64:
    """Moves a king that stands on its rook's square, and the rook, to their castled squares; returns the key.

    The caller has removed both from their side's men.
    """
    wing = int64(0) if rook > king else int64(1)
    king_to, rook_to = (rook & 56) + KING_TO[wing], (rook & 56) + ROOK_TO[wing]
    c[us] |= (ONE << U(king_to)) | (ONE << U(rook_to))
    c[KINGS] ^= (ONE << U(rook)) ^ (ONE << U(king_to))
    c[ROOKS] ^= (ONE << U(rook)) ^ (ONE << U(rook_to))
    key ^= T[ours + 128 * KINGS + rook] ^ T[ours + 128 * KINGS + king_to]
    return key ^ T[ours + 128 * ROOKS + rook] ^ T[ours + 128 * ROOKS + rook_to]


@inner
def kept_rights(meta: uint64, kind: int64, f: int64, t: int64) -> int64:
    """Returns the castling rights left after a move, in a Chess960 position."""
    rights = int64(meta >> U(CASTLING_SHIFT)) & CASTLING_BITS
    kept = rights & ~(3 << (2 * int64(meta & ONE))) if kind == KINGS else rights
    for right in range(4):
        square = rook_square(meta, int64(right))
        if f == square or t == square:
            kept &= ~(1 << right)
    return kept


@inner
def _may_castle(T: BoardTable, s: Position, king: int64, rook: int64, wing: int64, stm: int64) -> bool:
    """Returns whether a king, not in check, may castle with a rook: no man between, no square attacked."""
    occupied = s[WHITE] | s[BLACK]
    king_to, rook_to = (king & 56) + KING_TO[wing], (king & 56) + ROOK_TO[wing]
    targets = (ONE << U(king_to)) | (ONE << U(rook_to))
    others = occupied & ~((ONE << U(king)) | (ONE << U(rook)))
    if others & (T[BT + king * 64 + king_to] | T[BT + rook * 64 + rook_to] | targets):
        return False
    steps, without_king = T[BT + king * 64 + king_to], occupied & ~(ONE << U(king))
    while steps:
        if is_attacked(T, s, ctz(steps), without_king, stm):
            return False
        steps &= steps - ONE
    return not is_attacked(T, s, king_to, others | (ONE << U(rook_to)), stm)


@inner
def emit_castling(
    T: BoardTable, s: Position, out: Pointer[uint16], n: int64, king: int64, stm: int64
) -> int64:
    """Appends the castling moves of a king that is not in check to `out`; returns the new count."""
    for wing in range(2):
        right = 2 * stm + wing
        if has_right(s, right):
            rook = rook_square(s[META], right)
            if _may_castle(T, s, king, rook, wing, stm):
                target = rook if is_chess960(s) else (king & 56) + KING_TO[wing]
                out[n] = uint16(king | (target << 6))
                n += 1
    return n
