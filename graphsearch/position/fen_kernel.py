"""Parses many FEN and EPD lines into packed positions.

The kernel accepts a line only if python-chess certainly reads the same position and `board.check` accepts it.
The caller passes all other lines, good or bad, to `notation.read_fen_lines`, which also makes the messages.

text    line 0 \\n | line 1 \\n | ...
words   position 0 | position 1 | ...
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..jit.compiler import inner, kernel
from ..jit.pointers import ONE, ZERO, U, ctz, popc, ptr
from ..jit.types import Pointer, int64, uint8, uint64
from .board import MAX_CLOCK, MAX_MOVE_NUMBER
from .board_kernel import PW
from .castling_kernel import chess960_fields
from .legality_kernel import checkers_of, has_passed, has_taker, is_legal
from .tables import ZC, ZO
from .words import (
    BISHOPS,
    BLACK,
    CASTLING_SHIFT,
    CLOCK_SHIFT,
    EN_PASSANT_SHIFT,
    FILE_BITS,
    KEY,
    KINGS,
    KNIGHTS,
    META,
    MOST_PAWNS,
    NO_MAN,
    PAWNS,
    QUEENS,
    ROOK_FILES_SHIFT,
    ROOKS,
    STANDARD_ROOK_FILES,
    WHITE,
    BoardTable,
    Position,
)

EMPTY, READ, UNCERTAIN = 0, 1, 2  # verdicts: a blank line or a comment, a position, left to python-chess

SPACE, PLUS, DASH, SLASH, NOUGHT = b" +-/0"
RANK_ONE, UPPER_A, LOWER_A = b"1Aa"
WHITE_TURN, BLACK_TURN = b"wb"
LETTERS = tuple(b"PNBRQK")  # by kind
RIGHTS = tuple(b"KQkq")
SMALL = LOWER_A - UPPER_A
BACK_RANK = U(0xFF)
TAB, NEWLINE, RETURN, HASH, SEMICOLON = b"\t\n\r#;"
NINE, DELETE = b"9\x7f"
HMVC, FMVN = (int.from_bytes(name, "big") for name in (b"hmvc", b"fmvn"))  # EPD operations of the clocks
MOST_DIGITS = 5  # of a clock
BACK_RANKS = U(0xFF000000000000FF)


# ------------------------------------------------------------------ fields
# A reader returns `stop`, the newline, after an uncertain field, so all later fields fail too.
@inner
def _is_blank(c: uint8 | int64) -> bool:
    return c == SPACE or c == TAB or c == RETURN


@inner
def _is_digit(c: uint8) -> bool:
    return NOUGHT <= c <= NINE


@inner
def _skip_blanks(text: Pointer[uint8], at: int64) -> int64:
    while _is_blank(text[at]):
        at += 1
    return at


@inner
def _next_field(text: Pointer[uint8], at: int64, stop: int64) -> int64:
    """Returns the start of the field after one that ends at `at`; `stop` if no blank separates them."""
    return _skip_blanks(text, at) if _is_blank(text[at]) else stop


@inner
def _kind_of_letter(c: int64) -> int64:
    """Returns the kind of man of a letter in either case, NO_MAN for any other byte."""
    for kind in range(NO_MAN):
        if c == LETTERS[kind] or c == LETTERS[kind] + SMALL:
            return int64(kind)
    return int64(NO_MAN)


@inner
def _read_placement(T: BoardTable, text: Pointer[uint8], at: int64, stop: int64, s: Position) -> int64:
    rank, file, after_digit = int64(7), int64(0), False
    while True:
        c = int64(text[at])
        kind = _kind_of_letter(c)
        if kind != NO_MAN and file < 8:
            black, square = int64(c >= LOWER_A), 8 * rank + file
            s[kind] |= ONE << U(square)
            s[WHITE + black] |= ONE << U(square)
            s[KEY] ^= T[ZO + 128 * kind + 64 * (1 - black) + square]
            file += 1
            after_digit = False
        elif NOUGHT < c <= NOUGHT + 8 and not after_digit:
            file += c - NOUGHT
            after_digit = True
        elif c == SLASH and file == 8 and rank > 0:
            rank -= 1
            file = int64(0)
            after_digit = False
        else:
            return at if rank == 0 and file == 8 else stop
        at += 1


@inner
def _read_turn(text: Pointer[uint8], at: int64, stop: int64) -> tuple[int64, int64]:
    """Returns the side (0 White, 1 Black) and the end of the field."""
    black = int64(text[at] == BLACK_TURN)
    return black, at + 1 if black or text[at] == WHITE_TURN else stop


@inner
def _rook_of_letter(rooks: uint64, c: int64) -> int64:
    """Returns the file of the rook that `K`, `Q` or a file letter names; -1 if there is none.

    Args:
      rooks: bit set of the files of the side's rooks on its first rank.
      c: the letter, in upper case.
    """
    if c == RIGHTS[1] and rooks != ZERO:
        return ctz(rooks)
    found = int64(-1)
    for file in range(8):
        if (rooks >> U(file)) & ONE and (c == RIGHTS[0] or c == UPPER_A + file):
            found = int64(file)
    return found


@inner
def _read_right(s: Position, c: int64) -> tuple[int64, int64]:
    """Returns the castling right of a letter, 0..3 (-1 if uncertain), and its rook's file."""
    side = int64(c >= LOWER_A)
    letter = c - SMALL * side
    own, rank = s[WHITE + side], U(56 * side)
    kings = ((s[KINGS] & own) >> rank) & BACK_RANK
    file = _rook_of_letter(((s[ROOKS] & own) >> rank) & BACK_RANK, letter)
    if file < 0 or kings == ZERO:
        return int64(-1), file
    wing = int64(file < ctz(kings))
    if (letter == RIGHTS[0] and wing == 1) or (letter == RIGHTS[1] and wing == 0):
        return int64(-1), file
    return 2 * side + wing, file


@inner
def _read_castling(text: Pointer[uint8], at: int64, stop: int64, s: Position) -> tuple[int64, int64]:
    """Returns the rights of a field such as `Kq`, `HAha` or `-`, and its end; sets the rook files in META."""
    rights = int64(0)
    if text[at] == DASH:
        return rights, at + 1
    before = int64(0)
    while not _is_blank(text[at]):
        right, file = _read_right(s, int64(text[at]))
        if right < 0 or (rights >> right) & 1 or right >> 1 < before:
            return rights, stop
        rights |= 1 << right
        before = right >> 1
        s[META] |= U(file ^ ((STANDARD_ROOK_FILES >> (FILE_BITS * right)) & 7)) << U(
            ROOK_FILES_SHIFT + FILE_BITS * right
        )
        at += 1
    return rights, at if rights else stop


@inner
def _read_square(text: Pointer[uint8], at: int64) -> tuple[int64, int64]:
    """Returns the square of a field such as `e3` (-1 for `-`) and its end (-1 if uncertain)."""
    square, end = int64(-1), int64(-1)
    if text[at] == DASH:
        end = at + 1
    elif 0 <= int64(text[at]) - LOWER_A < 8 and 0 <= int64(text[at + 1]) - RANK_ONE < 8:
        square = int64(text[at]) - LOWER_A + 8 * (int64(text[at + 1]) - RANK_ONE)
        end = at + 2
    return square, end if end >= 0 and (_is_blank(text[end]) or text[end] == NEWLINE) else int64(-1)


@inner
def _read_digits(text: Pointer[uint8], at: int64) -> tuple[int64, int64]:
    """Returns the number at `at` and its end; reads at most MOST_DIGITS digits."""
    value, most = int64(0), at + MOST_DIGITS
    while at < most and _is_digit(text[at]):
        value = 10 * value + int64(text[at]) - NOUGHT
        at += 1
    return value, at


@inner
def _read_clock(text: Pointer[uint8], at: int64, missing: int64) -> tuple[int64, int64]:
    """Returns the number in the next field and its end; -1 and the field's start if it is no plain number.

    Returns `missing` at the end of the line.
    """
    begin = _skip_blanks(text, at)
    if text[begin] == NEWLINE:
        return missing, begin
    value, end = _read_digits(text, begin)
    if end > begin and (_is_blank(text[end]) or text[end] == NEWLINE):
        return value, end
    return int64(-1), begin


# ------------------------------------------------------------------ after the first four fields
@inner
def _read_operand(text: Pointer[uint8], at: int64) -> tuple[int64, int64]:
    """Returns the operand of an EPD operation, such as ` 12;`, and its end; -1 for any other text."""
    begin = _skip_blanks(text, at)
    value, end = _read_digits(text, begin)
    if at < begin < end and text[end] == SEMICOLON:
        return value, end + 1
    return int64(-1), at


@inner
def _read_operations(text: Pointer[uint8], at: int64) -> tuple[int64, int64]:
    """Returns halfmove clock and move number from the rest of the line's operations; -1 if uncertain."""
    clock, number = int64(0), int64(1)
    complete, word, before = False, int64(0), int64(SPACE)  # the last four bytes, and the one before them
    while text[at] != NEWLINE:
        c = int64(text[at])
        if c >= DELETE or (c < SPACE and not _is_blank(c)):  # perhaps white space to Python
            return int64(-1), int64(-1)
        complete |= c == SEMICOLON
        before, word = word >> 24, (word << 8 | c) & 0xFFFFFFFF
        at += 1
        if word == HMVC or word == FMVN:
            value, at = _read_operand(text, at)
            if value < 0 or not (before == 0 or before == SEMICOLON or _is_blank(before)):
                return int64(-1), int64(-1)
            if word == HMVC:
                clock = value
            else:
                number = value
            complete, word = True, int64(SEMICOLON)
    return (clock, number) if complete else (int64(-1), int64(-1))


@inner
def _begins_with_operation(text: Pointer[uint8], at: int64) -> bool:
    """Returns whether neither of the next two words can be a clock: an opcode, then no lone number."""
    if text[at] < UPPER_A:
        return False
    while text[at] != NEWLINE and not _is_blank(text[at]):
        at += 1
    at = _skip_blanks(text, at)
    c = text[at]
    if not (_is_digit(c) or c == PLUS or c == DASH):
        return True
    while text[at + 1] != NEWLINE and not _is_blank(text[at + 1]):
        at += 1
    return not _is_digit(text[at])


@inner
def _read_rest(text: Pointer[uint8], at: int64) -> tuple[int64, int64]:
    """Returns halfmove clock and move number from the text after the en passant field; -1 if uncertain."""
    clock, at = _read_clock(text, at, int64(0))
    number, at = _read_clock(text, at, int64(1))
    at = _skip_blanks(text, at)
    if text[at] == NEWLINE:
        return clock, number
    named_clock, named_number = _read_operations(text, at)
    if clock < 0:
        return (named_clock, named_number) if _begins_with_operation(text, at) else (int64(-1), int64(-1))
    return (clock, number) if named_clock >= 0 else (int64(-1), int64(-1))


# ------------------------------------------------------------------ lines
@inner
def _may_have(s: Position, own: uint64) -> bool:
    pawns = popc(s[PAWNS] & own) + max(0, popc(s[QUEENS] & own) - 1)
    for kind in (KNIGHTS, BISHOPS, ROOKS):
        pawns += max(0, popc(s[kind] & own) - 2)
    return popc(s[KINGS] & own) == 1 and pawns <= MOST_PAWNS


@inner
def _accept(T: BoardTable, s: Position, square: int64) -> bool:
    """Returns whether a position is certainly legal; then adds the en passant `square` (-1: none) to it.

    Double check, and check together with an en passant square, may be impossible: python-chess decides those.
    """
    if s[PAWNS] & BACK_RANKS or not (_may_have(s, s[WHITE]) and _may_have(s, s[BLACK])):
        return False
    checkers = checkers_of(T, s)
    if not is_legal(T, s) or checkers & (checkers - ONE):
        return False
    if square < 0:
        return True
    if checkers or not has_passed(s, square):
        return False
    if has_taker(T, s, square):
        s[META] |= U(square + 1) << U(EN_PASSANT_SHIFT)
        s[KEY] ^= T[ZO + 772 + (square & 7)]
    return True


@inner
def _read_line(
    T: BoardTable, text: Pointer[uint8], at: int64, stop: int64, s: Position, numbers: Pointer[int64]
) -> int64:
    """Returns the verdict on the line up to `stop`; for READ, fills `s` and the move number `numbers[0]`."""
    at = _skip_blanks(text, at)
    if at == stop or text[at] == HASH:
        return int64(EMPTY)
    at = _read_placement(T, text, at, stop, s)
    black, at = _read_turn(text, _next_field(text, at, stop), stop)
    rights, at = _read_castling(text, _next_field(text, at, stop), stop, s)
    square, at = _read_square(text, _next_field(text, at, stop))
    if at < 0:
        return int64(UNCERTAIN)
    clock, number = _read_rest(text, at)
    if not (0 <= clock <= MAX_CLOCK and 0 <= number <= MAX_MOVE_NUMBER):
        return int64(UNCERTAIN)
    s[META] |= U(black | rights << CASTLING_SHIFT | clock << CLOCK_SHIFT)
    s[META] |= chess960_fields(s, rights)
    s[KEY] ^= T[ZC + rights] ^ (ZERO if black else T[ZO + 780])
    numbers[0] = max(number, int64(1))
    return int64(READ) if _accept(T, s, square) else int64(UNCERTAIN)


@kernel
def read_fens(
    T: NDArray[np.uint64],
    text: NDArray[np.uint8],
    longest: int64,
    words: NDArray[np.uint64],
    numbers: NDArray[np.int64],
    verdicts: NDArray[np.uint8],
) -> None:
    """Parses lines of FEN and EPD.

    Args:
      T: the table of `tables.py`. text: uint8, as many lines as there are verdicts; each ends in a newline.
      longest: most bytes of a line; longer lines are UNCERTAIN.
      words: `[10 B]` uint64 in and out: zeros, then the position of each line that is READ.
      numbers: `[B]` int64 out, their fullmove numbers.
      verdicts: `[B]` uint8 out: EMPTY (blank, or a comment), READ or UNCERTAIN.
    """
    at, lines = int64(0), ptr(text, 0)
    for i in range(len(verdicts)):
        end = at
        while lines[end] != NEWLINE:
            end += 1
        verdicts[i] = UNCERTAIN
        if end - at <= longest:
            s, number = ptr(words, int64(i) * PW), ptr(numbers, i)
            verdicts[i] = _read_line(ptr(T, 0), lines, at, end, s, number)
        at = end + 1
