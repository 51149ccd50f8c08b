"""Parses regular games of PGN text in batches, with the same result as `GameReader`.

text    game 0 | game 1 | ... | an odd game, or one without its end in the buffer
games   fields of game 0 | of game 1 | ...
words   fields of the first move of game 0 | of the second | ... | of the first move of game 1 | ...

A regular game begins with headers, ends with a result at the end of a line, and has only plain ASCII words
in between, and comments and variations, which are skipped. `GameReader` parses all other (odd) games and
reports their errors.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..jit.compiler import inner, kernel
from ..jit.pointers import ptr
from ..jit.types import Pointer, int64, uint8
from ..position.writing_kernel import DASH, LOWER_A, NOUGHT, PLUS, SPACE, UPPER_A
from .move_words_kernel import NINE, SEMICOLON, is_end_of_word, read_word
from .movetext_layout import (
    AT,
    BLANK,
    DEEPEST,
    EMPTY,
    END,
    ENDED,
    FIRST,
    FIRST_LINE,
    GAME_FIELDS,
    GAMES,
    HEADERS,
    LINE,
    LINE_BEGIN,
    MORE,
    MOST_HEADERS,
    MOST_LINE,
    MOST_MOVES,
    MOST_TEXT,
    MOVES,
    NAMES,
    NO_WORD,
    ODD,
    PLACE,
    READING,
    RESULT,
    STATUS,
    WORDS,
)
from .pgn_kernel import BEGINS, BRACKET, CLOSES, ENDS, HASH, NEWLINE, OPENS, PERCENT
from .text_kernel import EQUALS

PACKED_NAMES = tuple(int.from_bytes(name.encode(), "little") for name in NAMES)  # of eight letters at most
TAB, RETURN, OPEN_BRACKET, BACKSLASH, QUOTE = b'\t\r[\\"'
UPPER_Z, LOWER_Z, UNDERSCORE, COLON, DELETE = b"Zz_:\x7f"


# ------------------------------------------------------------------ lines
@inner
def _is_blank(c: int64) -> bool:
    return c == SPACE or c == TAB


@inner
def _end_line(text: Pointer[uint8], cursor: Pointer[int64], limits: Pointer[int64]) -> None:
    """Skips the end of a line; a carriage return alone is odd."""
    if text[cursor[AT]] == RETURN:
        cursor[AT] += 1
    if text[cursor[AT]] != NEWLINE or cursor[AT] - cursor[LINE_BEGIN] >= limits[MOST_LINE]:
        cursor[STATUS] = ODD
    cursor[AT] += 1
    cursor[LINE] += 1
    cursor[LINE_BEGIN] = cursor[AT]
    cursor[BLANK], cursor[EMPTY] = cursor[EMPTY], 1


@inner
def _skip_line(text: Pointer[uint8], size: int64, cursor: Pointer[int64], limits: Pointer[int64]) -> None:
    """Skips the rest of a line and its end."""
    while cursor[AT] < size and text[cursor[AT]] != NEWLINE and text[cursor[AT]] != RETURN:
        cursor[AT] += 1
    if cursor[AT] + 1 >= size:
        cursor[STATUS] = MORE
    else:
        _end_line(text, cursor, limits)


@inner
def _skip_escaped(text: Pointer[uint8], size: int64, cursor: Pointer[int64], limits: Pointer[int64]) -> None:
    """Skips a line that begins with a percent sign; keeps BLANK, the state of the line before it."""
    blank = cursor[BLANK]
    _skip_line(text, size, cursor, limits)
    cursor[BLANK] = blank


@inner
def _ends_line(text: Pointer[uint8], size: int64, cursor: Pointer[int64], limits: Pointer[int64]) -> bool:
    """Skips blanks and the end of a line; sets the status and returns False if it finds anything else."""
    while _is_blank(int64(text[cursor[AT]])):
        cursor[AT] += 1
    if cursor[AT] + 1 >= size:
        cursor[STATUS] = MORE
        return False
    if text[cursor[AT]] != NEWLINE and text[cursor[AT]] != RETURN:
        cursor[STATUS] = ODD
        return False
    _end_line(text, cursor, limits)
    return cursor[STATUS] == READING


@inner
def _find_game(text: Pointer[uint8], size: int64, cursor: Pointer[int64], limits: Pointer[int64]) -> None:
    """Skips blank and escaped lines up to the headers of a game; anything else is odd."""
    while cursor[STATUS] == READING:
        begin, line = cursor[AT], cursor[LINE]
        c = int64(text[begin])
        if begin >= size:
            cursor[STATUS] = MORE
        elif c == OPEN_BRACKET:
            return
        elif c == PERCENT:
            _skip_escaped(text, size, cursor, limits)
        else:
            _ends_line(text, size, cursor, limits)
        if cursor[STATUS] != READING:
            cursor[AT], cursor[LINE] = begin, line


# ------------------------------------------------------------------ headers
@inner
def _is_name_letter(c: int64) -> bool:
    if NOUGHT <= c <= NINE or UPPER_A <= c <= UPPER_Z or LOWER_A <= c <= LOWER_Z:
        return True
    return c == UNDERSCORE or c == PLUS or c == HASH or c == EQUALS or c == COLON or c == DASH


@inner
def _read_name(text: Pointer[uint8], cursor: Pointer[int64]) -> int64:
    """Skips a bracket, a header's name and a quote; returns the name packed in 8 bytes, 0 if it is longer."""
    at, packed = cursor[AT] + 1, int64(0)
    begin = at
    while _is_name_letter(int64(text[at])):
        if at - begin < 8:
            packed |= int64(text[at]) << (8 * (at - begin))
        at += 1
    end, first = at, int64(text[begin])
    while _is_blank(int64(text[at])):
        at += 1
    plain = NOUGHT <= first <= NINE or UPPER_A <= first <= UPPER_Z or LOWER_A <= first <= LOWER_Z
    if not plain or at == end or text[at] != QUOTE:
        cursor[STATUS] = ODD
    cursor[AT] = at + 1
    return packed if end - begin <= 8 else int64(0)


@inner
def _read_header(
    text: Pointer[uint8], size: int64, cursor: Pointer[int64], limits: Pointer[int64], game: Pointer[int64]
) -> None:
    """Parses a line with one header; quotes or escapes in its value are odd."""
    name = _read_name(text, cursor)
    begin = at = cursor[AT]
    while (
        text[at] != QUOTE
        and text[at] != BACKSLASH
        and text[at] != NEWLINE
        and text[at] != RETURN
        and at < size
    ):
        at += 1
    cursor[AT] = at + 2
    if at + 2 >= size:
        cursor[STATUS] = MORE
    elif text[at] != QUOTE or text[at + 1] != BRACKET or cursor[STATUS] != READING:
        cursor[STATUS] = ODD
    elif _ends_line(text, size, cursor, limits):
        for i in range(len(PACKED_NAMES)):
            if name == PACKED_NAMES[i] and game[HEADERS + 2 * i] < 0:
                game[HEADERS + 2 * i] = begin
                game[HEADERS + 2 * i + 1] = at - begin


@inner
def _read_headers(
    text: Pointer[uint8], size: int64, cursor: Pointer[int64], limits: Pointer[int64], game: Pointer[int64]
) -> None:
    """Parses the headers of a game up to its first line of moves; headers after a blank line are odd."""
    begin, blank = cursor[AT], False
    while cursor[STATUS] == READING:
        c = int64(text[cursor[AT]])
        if cursor[AT] >= size:
            cursor[STATUS] = MORE
        elif c == OPEN_BRACKET:
            _read_header(text, size, cursor, limits, game)
            if blank or cursor[AT] - begin > limits[MOST_HEADERS]:
                cursor[STATUS] = ODD
        elif c == PERCENT:
            _skip_escaped(text, size, cursor, limits)
        elif c == NEWLINE or c == RETURN:
            _skip_line(text, size, cursor, limits)
            blank = True
        else:
            return


# ------------------------------------------------------------------ movetext
@inner
def _skip_comment(text: Pointer[uint8], size: int64, cursor: Pointer[int64], limits: Pointer[int64]) -> None:
    """Skips a comment in braces; a header after a blank line in it is odd, as the comment may be unclosed."""
    cursor[AT] += 1
    while cursor[STATUS] == READING:
        c = int64(text[cursor[AT]])
        if cursor[AT] + 1 >= size:
            cursor[STATUS] = MORE
        elif c == ENDS:
            cursor[AT] += 1
            cursor[EMPTY] = 0
            return
        elif c == NEWLINE or c == RETURN:
            _end_line(text, cursor, limits)
            if text[cursor[AT]] == OPEN_BRACKET and cursor[BLANK]:
                cursor[STATUS] = ODD
        else:
            cursor[EMPTY] &= int64(_is_blank(c))
            cursor[AT] += 1
            if c < SPACE and c != TAB:
                cursor[STATUS] = ODD


@inner
def _pass_sign(
    text: Pointer[uint8], size: int64, cursor: Pointer[int64], limits: Pointer[int64], depth: int64
) -> int64:
    """Skips a character or comment outside words; returns the variation depth after it, -1 at a word."""
    c = int64(text[cursor[AT]])
    if c == NEWLINE or c == RETURN:
        _end_line(text, cursor, limits)
        return depth
    if _is_blank(c):
        cursor[AT] += 1
        return depth
    cursor[EMPTY] = 0
    if c == BEGINS:
        _skip_comment(text, size, cursor, limits)
    elif c == SEMICOLON:
        _skip_line(text, size, cursor, limits)
    elif c == OPENS and depth < limits[DEEPEST]:
        depth += 1
        cursor[AT] += 1
    elif c == CLOSES and depth > 0:
        depth -= 1
        cursor[AT] += 1
    elif c <= SPACE or c == OPENS or c == CLOSES or c == ENDS or (depth == 0 and c >= DELETE):
        cursor[STATUS] = ODD
    else:
        return int64(-1)
    return depth


@inner
def _begins_odd_line(text: Pointer[uint8], cursor: Pointer[int64], depth: int64) -> bool:
    """Returns whether a line of movetext begins with a bracket that may open the next game's headers."""
    at_begin = cursor[AT] == cursor[LINE_BEGIN]
    return at_begin and text[cursor[AT]] == OPEN_BRACKET and (depth == 0 or cursor[BLANK] != 0)


@inner
def _read_moves(
    text: Pointer[uint8],
    size: int64,
    cursor: Pointer[int64],
    limits: Pointer[int64],
    game: Pointer[int64],
    words: Pointer[int64],
) -> None:
    """Parses the moves of a game up to its result."""
    depth = int64(0)
    while cursor[STATUS] == READING:
        if cursor[AT] + 1 >= size:
            cursor[STATUS] = MORE
        elif _begins_odd_line(text, cursor, depth):
            cursor[STATUS] = ODD
        elif cursor[AT] == cursor[LINE_BEGIN] and text[cursor[AT]] == PERCENT:
            _skip_escaped(text, size, cursor, limits)
        else:
            now = _pass_sign(text, size, cursor, limits, depth)
            depth = depth if now < 0 else now
            if now < 0 and depth:
                while not is_end_of_word(int64(text[cursor[AT]])):
                    cursor[AT] += 1
            elif now < 0 and cursor[WORDS] - game[FIRST] >= limits[MOST_MOVES]:
                cursor[STATUS] = ODD
            elif now < 0:
                game[RESULT] = read_word(text, cursor, words)
                if game[RESULT] != NO_WORD and _ends_line(text, size, cursor, limits):
                    cursor[STATUS] = ENDED


@inner
def _read_game(
    text: Pointer[uint8],
    size: int64,
    cursor: Pointer[int64],
    limits: Pointer[int64],
    game: Pointer[int64],
    words: Pointer[int64],
) -> None:
    """Parses one game; sets the status to ENDED if it is regular."""
    for i in range(HEADERS, GAME_FIELDS):
        game[i] = -1
    game[PLACE], game[FIRST_LINE], game[FIRST] = cursor[AT], cursor[LINE], cursor[WORDS]
    _read_headers(text, size, cursor, limits, game)
    if cursor[STATUS] == READING:
        _read_moves(text, size, cursor, limits, game, words)
    game[END], game[MOVES] = cursor[AT], cursor[WORDS] - game[FIRST]
    if cursor[STATUS] == ENDED and game[END] - game[PLACE] > limits[MOST_TEXT]:
        cursor[STATUS] = ODD


@kernel
def read_games(
    text: NDArray[np.uint8],
    size: int64,
    limits: NDArray[np.int64],
    games: NDArray[np.int64],
    words: NDArray[np.int64],
    cursor: NDArray[np.int64],
) -> None:
    """Parses regular games until the room is full, a game is odd, or the text ends.

    Args:
      text: uint8[size + 8], the last 8 zero. limits: int64[LIMITS].
      games: int64[G * GAME_FIELDS], filled; room for G games.
      words: int64[W * WORD_FIELDS], filled; W is at least size // 3 + 1.
      cursor: int64[CURSOR]; in: AT and LINE of the start of a line; out: AT and LINE after the last regular
        game, GAMES and WORDS parsed, and STATUS, the reason for stopping (ENDED: no more room).
    """
    t, c, m, w = ptr(text, 0), ptr(cursor, 0), ptr(limits, 0), ptr(words, 0)
    room = len(games) // GAME_FIELDS
    c[GAMES], c[WORDS], c[STATUS] = 0, 0, ENDED
    while c[GAMES] < room and c[STATUS] == ENDED:
        c[STATUS] = READING
        c[LINE_BEGIN], c[BLANK], c[EMPTY] = c[AT], 1, 1
        _find_game(t, size, c, m)
        begin, line, count = c[AT], c[LINE], c[WORDS]
        if c[STATUS] == READING:
            _read_game(t, size, c, m, ptr(games, GAME_FIELDS * c[GAMES]), w)
        if c[STATUS] == ENDED:
            c[GAMES] += 1
        else:
            c[AT], c[LINE], c[WORDS] = begin, line, count
