"""The constant table that every board kernel reads: one `uint64` array, addressed by the offsets below."""

from __future__ import annotations

from functools import cache

import chess
import chess.polyglot
import numpy as np
from numpy.typing import NDArray

from .board import clock_term
from .magics import BISHOP_MAGICS, ROOK_MAGICS

KN = 0  # knight attacks [64]
KI = KN + 64  # king attacks [64]
PA = KI + 64  # pawn attacks [2][64], White first
BT = PA + 2 * 64  # squares strictly between two squares [64][64]
LN = BT + 64 * 64  # the whole line through two squares [64][64], 0 if none
RM = LN + 64 * 64  # rook magics [64][4]: mask, multiplier, shift, offset of attacks
BM = RM + 64 * 4  # bishop magics
RE = BM + 64 * 4  # rook attacks on the empty board [64]
BE = RE + 64  # bishop attacks on the empty board [64]
ZO = BE + 64  # Polyglot's 781 random words, then 3 spare
ZC = ZO + 784  # XOR of the castling words by rights [16]
CR = ZC + 16  # castling rights kept when a square is left or entered [64]
AT = CR + 64  # slider attacks, rooks then bishops
ROOK_ENTRIES, BISHOP_ENTRIES = 102_400, 5_248  # sum of 2 ** popcount(mask)
CT = AT + ROOK_ENTRIES + BISHOP_ENTRIES  # clock terms of the key [256]
TABLE_WORDS = CT + 256

_ROOK_STEPS = ((1, 0), (-1, 0), (0, 1), (0, -1))
_BISHOP_STEPS = ((1, 1), (1, -1), (-1, 1), (-1, -1))

Words = NDArray[np.uint64]


@cache
def load_tables() -> Words:
    """Returns the table, `uint64[TABLE_WORDS]`, built once per process (some 40 ms)."""
    table = np.zeros(TABLE_WORDS, np.uint64)
    _fill_leapers_and_lines(table)
    _fill_hash_words(table)
    table[CR : CR + 64] = 15
    for square, kept in ((0, 13), (7, 14), (4, 12), (56, 7), (63, 11), (60, 3)):
        table[CR + square] = kept
    offset = _fill_sliders(table, RM, AT, ROOK_MAGICS, _ROOK_STEPS)
    offset = _fill_sliders(table, BM, offset, BISHOP_MAGICS, _BISHOP_STEPS)
    assert offset == CT
    table.flags.writeable = False
    return table


def _fill_leapers_and_lines(table: Words) -> None:
    table[KN : KN + 64] = chess.BB_KNIGHT_ATTACKS
    table[KI : KI + 64] = chess.BB_KING_ATTACKS
    table[PA : PA + 64] = chess.BB_PAWN_ATTACKS[chess.WHITE]
    table[PA + 64 : PA + 128] = chess.BB_PAWN_ATTACKS[chess.BLACK]
    for a in range(64):
        table[BT + a * 64 : BT + a * 64 + 64] = [chess.between(a, b) if a != b else 0 for b in range(64)]
        table[LN + a * 64 : LN + a * 64 + 64] = chess.BB_RAYS[a]
        table[RE + a] = chess.BB_RANK_ATTACKS[a][0] | chess.BB_FILE_ATTACKS[a][0]
        table[BE + a] = chess.BB_DIAG_ATTACKS[a][0]


def _fill_hash_words(table: Words) -> None:
    words = chess.polyglot.POLYGLOT_RANDOM_ARRAY
    table[ZO : ZO + 781] = words
    for rights in range(16):
        for bit in range(4):
            if rights >> bit & 1:
                table[ZC + rights] ^= np.uint64(words[768 + bit])
    table[CT : CT + 256] = [clock_term(clock) for clock in range(256)]


def _fill_sliders(
    table: Words, base: int, offset: int, magics: tuple[int, ...], steps: tuple[tuple[int, int], ...]
) -> int:
    """Fills the attacks of one kind of slider; returns the offset after them."""
    for square, magic in enumerate(magics):
        mask = _relevant_squares(square, steps)
        occupancies = _subsets(mask)
        attacks = _attacks(square, occupancies, steps)
        shift = np.uint64(64 - mask.bit_count())
        slots = offset + ((occupancies * np.uint64(magic)) >> shift).astype(np.int64)
        table[slots] = attacks
        assert np.array_equal(table[slots], attacks), "a magic multiplier collides"
        table[base + 4 * square : base + 4 * square + 4] = (mask, magic, int(shift), offset)
        offset += len(occupancies)
    return offset


def _ray(square: int, step: tuple[int, int]) -> list[int]:
    """Returns the squares from a square to the edge, in order."""
    rank, file = square // 8 + step[0], square % 8 + step[1]
    squares = []
    while 0 <= rank < 8 and 0 <= file < 8:
        squares.append(rank * 8 + file)
        rank, file = rank + step[0], file + step[1]
    return squares


def _relevant_squares(square: int, steps: tuple[tuple[int, int], ...]) -> int:
    """Returns the squares whose occupation matters: every ray without its last square."""
    return sum(1 << s for step in steps for s in _ray(square, step)[:-1])


def _subsets(mask: int) -> Words:
    """Returns all subsets of a mask, `uint64[2 ** popcount]`."""
    squares = [s for s in range(64) if mask >> s & 1]
    numbers = np.arange(1 << len(squares), dtype=np.uint64)
    result = np.zeros(len(numbers), np.uint64)
    for bit, s in enumerate(squares):
        result |= ((numbers >> np.uint64(bit)) & np.uint64(1)) << np.uint64(s)
    return result


def _attacks(square: int, occupancies: Words, steps: tuple[tuple[int, int], ...]) -> Words:
    """Returns the attacked squares for each occupancy."""
    result = np.zeros(len(occupancies), np.uint64)
    for step in steps:
        open_ray = np.ones(len(occupancies), bool)
        for s in _ray(square, step):
            bit = np.uint64(1 << s)
            result |= np.where(open_ray, bit, np.uint64(0))
            open_ray &= (occupancies & bit) == 0
    return result
