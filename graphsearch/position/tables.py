"""Constant tables of the kernels: one `uint64` array for chess, with the offsets below."""

from __future__ import annotations

from functools import cache

import chess
import chess.polyglot
import numpy as np

from .board import Words, clock_term

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
CR = ZC + 16  # mask of the castling rights that survive a move from or to a square [64]
AT = CR + 64  # slider attacks, rooks then bishops
ROOK_ENTRIES, BISHOP_ENTRIES = 102_400, 5_248  # sum of 2 ** popcount(mask)
CT = AT + ROOK_ENTRIES + BISHOP_ENTRIES  # clock terms of the key [256]
TABLE_WORDS = CT + 256


def _words(digits: str) -> tuple[int, ...]:
    return tuple(int(word, 16) for word in digits.split())


# Magic multipliers of the slider attack tables, by square from a1. Found by a random search of ours (three
# xorshift words ANDed, kept when no two occupancies with different attacks collide in `64 - popcount(mask)`
# bits); `_fill_sliders` checks them each time.
_ROOK_MAGICS = _words("""
    9080001184204004 00C01008A0004000 0500081100C12000 4700090084203000 9200060068210410 0080020014000980
    00801A0001005080 0900018021450002 3000800220400480 2000400042201000 2201001020010940 8000801000800800
    09010008020C1100 0602001012000884 0441002402000100 0140800244802100 9220608000C00090 0090054000C82000
    0001010010406001 4801848018003000 0404050010080100 0001010006040008 0900040048900621 000102000A81004C
    1C0440008004208C 1020100340042040 8D02002200348040 0000080080100080 1084240080080280 14890C0080020080
    0081284400223001 0100884600108114 0002400020800880 0002814000802000 0020806000801004 800A002112004008
    02C2800400800803 0040800400800200 08408A2804000110 040280C582000104 0080044460044004 6200A01000404001
    0101002000450010 408A00C008120020 0201002800110004 2002008084008002 0813000600110004 0801000040810002
    A001014024800500 02C0A08240090100 0C0A20001106C100 00A8000880100480 200908020C008080 020200504804C200
    01010042000C1100 000580010000D080 0400209201048042 4A01015080400721 0702091020010045 0888100100082045
    0013001004080023 C022000425081002 C201000200008401 C0000510E4440082
""")
_BISHOP_MAGICS = _words("""
    0020425028410042 0984113802108100 0004080200410020 100C040080000200 000A021020001101 4503042045800022
    002A020202413080 8002018044108404 4090481010828900 000020022C052024 8000060A1202000A 4200040400800036
    0111011040001201 8028115008220049 4880084802301000 6800910421010822 05108404100A8800 8028000408009400
    08080904080C1010 2020203202024200 80840012010C0080 B00D001080600A02 400CC02404040404 0000204606120650
    0006200008485000 0808064008220804 4808040088022020 906C0C0008009010 0810030000200800 300301040200C104
    0001460004008400 2000806012020610 01100808000C1050 2048040C8006082D 3001402820100240 0040020082280080
    104408020008A008 2520440040228800 401000C208008210 0008009880A86200 49010D2020043044 A0004F1018001048
    50A0382088001000 008801A011000808 1218202008800100 1090200800240641 0010040284090082 A00302040C484101
    0000943420048008 2008420084200000 022C414200900000 01200006C2020001 12020090C2088002 0001340508020A0A
    0119121084010202 0390410200820101 2010114802082004 200C090280842002 31200005008E9040 2000110001228800
    2800000C40292208 004441CA02282200 0810100410040040 01401000B1010120
""")


@cache
def load_tables() -> Words:
    """Returns the table, `uint64[TABLE_WORDS]`, read-only; built once per process (some 40 ms)."""
    table, words = np.zeros(TABLE_WORDS, np.uint64), chess.polyglot.POLYGLOT_RANDOM_ARRAY
    _fill_leapers_and_lines(table)
    table[ZO : ZO + 781] = words
    for rights in range(16):
        for bit in range(4):
            if rights >> bit & 1:
                table[ZC + rights] ^= np.uint64(words[768 + bit])
    table[CT : CT + 256] = [clock_term(clock) for clock in range(256)]
    table[CR : CR + 64] = 15
    for square, kept in ((0, 13), (7, 14), (4, 12), (56, 7), (63, 11), (60, 3)):
        table[CR + square] = kept
    offset = _fill_sliders(table, RM, AT, _ROOK_MAGICS, (chess.BB_RANK_ATTACKS, chess.BB_FILE_ATTACKS))
    offset = _fill_sliders(table, BM, offset, _BISHOP_MAGICS, (chess.BB_DIAG_ATTACKS,))
    assert offset == CT
    table.flags.writeable = False
    return table


def _fill_leapers_and_lines(table: Words) -> None:
    table[KN : KN + 64] = chess.BB_KNIGHT_ATTACKS
    table[KI : KI + 64] = chess.BB_KING_ATTACKS
    table[PA : PA + 64] = chess.BB_PAWN_ATTACKS[chess.WHITE]
    table[PA + 64 : PA + 128] = chess.BB_PAWN_ATTACKS[chess.BLACK]
    lines = np.array(chess.BB_RAYS, np.uint64)
    above = np.uint64(chess.BB_ALL) << np.arange(64, dtype=np.uint64)  # each square and those after it
    inside = lines & (above[:, None] ^ above)  # with the lower of both squares
    table[BT:LN], table[LN:RM] = (inside & inside - np.uint64(1)).reshape(-1), lines.reshape(-1)
    table[RE:BE] = [chess.BB_RANK_ATTACKS[a][0] | chess.BB_FILE_ATTACKS[a][0] for a in range(64)]
    table[BE:ZO] = [chess.BB_DIAG_ATTACKS[a][0] for a in range(64)]


def _fill_sliders(
    table: Words, base: int, offset: int, magics: tuple[int, ...], lines: tuple[list[dict[int, int]], ...]
) -> int:
    """Fills the magics and attacks of one piece; returns the offset after its attacks.

    Args:
      lines: python-chess's attacks by square and occupied squares of a line.
    """
    for square, magic in enumerate(magics):
        occupancies = attacks = np.zeros(1, np.uint64)
        for line in lines:
            both = line[square], line[square].values()
            occupied, attacked = (np.fromiter(part, np.uint64) for part in both)
            occupancies = np.bitwise_or.outer(occupancies, occupied).reshape(-1)
            attacks = np.bitwise_or.outer(attacks, attacked).reshape(-1)
        mask = int(np.bitwise_or.reduce(occupancies))
        shift = 64 - mask.bit_count()
        slots = offset + ((occupancies * np.uint64(magic)) >> np.uint64(shift)).astype(np.int64)
        table[slots] = attacks
        assert np.array_equal(table[slots], attacks), "a magic multiplier collides"
        table[base + 4 * square : base + 4 * square + 4] = (mask, magic, shift, offset)
        offset += len(occupancies)
    return offset
