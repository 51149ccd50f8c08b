"""An entry of a Polyglot book: 16 bytes, big-endian: key u64, move u16, weight u16, learn u32."""

from __future__ import annotations

import struct

ENTRY = struct.Struct(">QHHI")
MAX_WEIGHT = (1 << 16) - 1

assert ENTRY.size == 16


def raw_move(code: int, *, castling: bool) -> int:
    """Returns the 16 bits of a move: to | from << 6 | promotion << 12; castling as the king taking his rook.

    Args:
      code: as `position.encode_move`.

    >>> raw_move(4 | 6 << 6, castling=True) == 7 | 4 << 6
    True
    """
    origin, target = code & 63, code >> 6 & 63
    if castling:
        target = (origin & ~7) + (7 if target > origin else 0)
    return target | origin << 6 | code & 7 << 12
