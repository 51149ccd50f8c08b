"""Parses the words of movetext: moves in SAN and its common variants, move numbers, and results."""

from __future__ import annotations

from ..jit.compiler import inner
from ..jit.pointers import adv
from ..jit.types import Pointer, int64, uint8
from ..position.writing_kernel import DASH, LOWER_A, NOUGHT, PLUS, RANK_ONE, SLASH, SPACE
from .movetext_layout import (
    AT,
    BEGIN,
    BLACK_WINS,
    DRAW,
    FILE_SHIFT,
    LINE,
    NO_RESULT,
    NO_WORD,
    ODD,
    PROMOTION_SHIFT,
    RANK_SHIFT,
    SIZE,
    STATUS,
    TO_SHIFT,
    WANTED,
    WHITE_WINS,
    WING_SHIFT,
    WORD_FIELDS,
    WORD_LINE,
    WORDS,
)
from .pgn_kernel import BEGINS, CLOSES, DOLLAR, ENDS, HASH, OPENS
from .text_kernel import CASTLES, EQUALS, POINT

SEMICOLON, STAR, BANG, QUESTION, NINE, EIGHT, LAST_FILE, LOWER_X, LOWER_E, LOWER_P = b";*!?98hxep"
PIECES, PROMOTIONS = tuple(b"NBRQK"), tuple(b"nbrqk")
ONE_DIGIT, TWO_DIGIT = b"12"


@inner
def _is_file(c: int64) -> bool:
    return LOWER_A <= c <= LAST_FILE


@inner
def _is_rank(c: int64) -> bool:
    return RANK_ONE <= c <= EIGHT


@inner
def _read_castling(text: Pointer[uint8], at: int64) -> tuple[int64, int64]:
    """Returns the castling move at `at` in the encoding of WANTED, and its end; 0 if there is none."""
    c = text[at]
    if (c != CASTLES and c != NOUGHT) or text[at + 1] != DASH or text[at + 2] != c:
        return int64(0), at
    if text[at + 3] == DASH and text[at + 4] == c:
        return int64(2 << WING_SHIFT), at + 5
    return int64(1 << WING_SHIFT), at + 3


@inner
def _read_promotion(text: Pointer[uint8], at: int64) -> tuple[int64, int64]:
    """Returns the promotion piece at `at`, 0 if there is none, and its end."""
    letter = at + 1 if text[at] == EQUALS else at
    for i in range(len(PIECES)):
        if text[letter] == PIECES[i] or text[letter] == PROMOTIONS[i]:
            return int64(i + 1), letter + 1
    return int64(0), at


@inner
def _read_move(text: Pointer[uint8], at: int64) -> tuple[int64, int64]:
    """Returns the move at `at` in the encoding of WANTED, and its end; -1 if there is none."""
    wing, end = _read_castling(text, at)
    if wing:
        return wing, end
    kind = int64(0)
    for i in range(len(PIECES)):
        kind = int64(i + 1) if text[at] == PIECES[i] else kind
    at += 1 if kind else 0
    file, rank, begin = int64(0), int64(0), at
    if _is_file(int64(text[at])):
        file = int64(text[at]) - LOWER_A + 1
        at += 1
    if _is_rank(int64(text[at])):
        rank = int64(text[at]) - RANK_ONE + 1
        at += 1
    if text[at] == LOWER_X or text[at] == DASH:
        at += 1
    if _is_file(int64(text[at])) and _is_rank(int64(text[at + 1])):
        to = int64(text[at]) - LOWER_A + 8 * (int64(text[at + 1]) - RANK_ONE)
        at += 2
    elif at == begin + 2 and file and rank:
        to, file, rank = file - 1 + 8 * (rank - 1), int64(0), int64(0)
    else:
        return int64(-1), begin
    promotion, at = _read_promotion(text, at)
    place = (file << FILE_SHIFT) | (rank << RANK_SHIFT) | (to << TO_SHIFT)
    return kind | place | (promotion << PROMOTION_SHIFT), at


@inner
def _skip_number(text: Pointer[uint8], at: int64) -> int64:
    """Returns the end of a move number with its dots; castling written with zeros is no number."""
    if text[at] == NOUGHT and text[at + 1] == DASH:
        return at
    while NOUGHT <= text[at] <= NINE:
        at += 1
    while text[at] == POINT:
        at += 1
    return at


@inner
def _skip_marks(text: Pointer[uint8], at: int64) -> int64:
    """Returns the end of `e.p.`, check signs and annotation glyphs after a move."""
    if text[at] == LOWER_E:
        second = at + 2 if text[at + 1] == POINT else at + 1
        if text[second] == LOWER_P:
            at = second + 2 if text[second + 1] == POINT else second + 1
    while text[at] == PLUS or text[at] == HASH:
        at += 1
    while True:
        if text[at] == BANG or text[at] == QUESTION:
            at += 1
        elif text[at] == DOLLAR and NOUGHT <= text[at + 1] <= NINE:
            at += 2
            while NOUGHT <= text[at] <= NINE:
                at += 1
        else:
            return at


@inner
def _result_of(text: Pointer[uint8], begin: int64, end: int64) -> int64:
    """Returns the game result that a word denotes, NO_WORD if none."""
    first, second, third, size = int64(text[begin]), text[begin + 1], text[begin + 2], end - begin
    if size == 1 and first == STAR:
        return int64(NO_RESULT)
    if (
        size == 3
        and second == DASH
        and first + third == NOUGHT + ONE_DIGIT
        and (first == NOUGHT or third == NOUGHT)
    ):
        return int64(BLACK_WINS if first == NOUGHT else WHITE_WINS)
    half = first == ONE_DIGIT and second == SLASH and third == TWO_DIGIT
    again = text[begin + 4] == ONE_DIGIT and text[begin + 5] == SLASH and text[begin + 6] == TWO_DIGIT
    if half and (size == 3 or (size == 7 and text[begin + 3] == DASH and again)):
        return int64(DRAW)
    return int64(NO_WORD)


@inner
def is_end_of_word(c: int64) -> bool:
    """Returns whether a character ends the word before it."""
    if c <= SPACE:
        return True
    return c == OPENS or c == CLOSES or c == BEGINS or c == ENDS or c == SEMICOLON


@inner
def read_word(text: Pointer[uint8], cursor: Pointer[int64], words: Pointer[int64]) -> int64:
    """Parses a word of the main line; returns its game result, or NO_WORD for any other word."""
    begin = end = cursor[AT]
    while not is_end_of_word(int64(text[end])):
        end += 1
    cursor[AT] = end
    result = _result_of(text, begin, end)
    if result != NO_WORD:
        return result
    start = _skip_number(text, begin)
    wanted, stop = _read_move(text, start)
    if _skip_marks(text, stop if wanted >= 0 else start) != end:
        cursor[STATUS] = ODD
    elif wanted >= 0:
        word = adv(words, WORD_FIELDS * cursor[WORDS])
        word[BEGIN], word[SIZE], word[WORD_LINE], word[WANTED] = start, stop - start, cursor[LINE], wanted
        cursor[WORDS] += 1
    return int64(NO_WORD)
