"""The packed position: its ten words, and the bit fields of META. Does not import Numba.

A position is `uint64[10]`; `schema/node_record.md` is its reference. Square 0 is a1, 7 is h1, 63 is h8.

    word  0-5  squares of pawns, knights, bishops, rooks, queens, kings of both sides
          6-7  squares of White's and of Black's men: word `WHITE + side`, 0 for White
          8    META: bit 0 Black to move | 1-4 castling K Q k q | 5-11 en passant square + 1, 0 if no pawn
               stands ready to capture | 12-19 halfmove clock, at most 255 | 20 Chess960: a castling right
               is not standard | 21-32 files of the rooks of K Q k q, each XOR the standard one, 0 without
               the right; all 0 unless Chess960
          9    KEY: the Polyglot key

A kind of man has the number of its word, also in promotions.
"""

from __future__ import annotations

from typing import TypeAlias

from ..jit.types import Pointer, uint64

Position: TypeAlias = Pointer[uint64]  # these ten words
BoardTable: TypeAlias = Pointer[uint64]  # [TABLE_WORDS], `tables.py`

PAWNS, KNIGHTS, BISHOPS, ROOKS, QUEENS, KINGS, WHITE, BLACK, META, KEY = range(10)
NO_MAN = 6  # of an empty square

BLACK_TO_MOVE = 1
CASTLING_SHIFT, CASTLING_BITS = 1, 15
EN_PASSANT_SHIFT, EN_PASSANT_BITS = 5, 127
CLOCK_SHIFT, CLOCK_BITS = 12, 255
CHESS960_SHIFT, CHESS960_BITS = 20, (1 << 13) - 1  # the bit, and the four files
CHESS960 = 1 << CHESS960_SHIFT
ROOK_FILES_SHIFT, FILE_BITS = CHESS960_SHIFT + 1, 3  # of each of the four
STANDARD_ROOK_FILES = 7 | 0 << 3 | 7 << 6 | 0 << 9  # K Q k q
META_BITS = CHESS960_SHIFT + 13  # the bits above are 0
KING_FILE = 4  # of standard castling
WITHOUT_CLOCK = ((1 << META_BITS) - 1) & ~(CLOCK_BITS << CLOCK_SHIFT)


MOST_PAWNS = 8  # of a side
