"""Reads games of PGN text, many at once, as far as they are certain: `GameReader` would read the same.

text    game 0 | game 1 | ... | an odd game, or one whose end is not at hand
games   fields of game 0 | of game 1 | ...
words   fields of the first move of game 0 | of the second | ... | of the first move of game 1 | ...

A game is certain that begins with headers, ends with a result at the end of a line, and has nothing in
between but plain ASCII words, and comments and variations, which are skipped. All others go to `GameReader`,
which has the messages.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..jit.compiler import inner, kernel
from ..jit.pointers import adv, ptr
from ..jit.types import Pointer, int64, uint8
from ..position.writing_kernel import DASH, LOWER_A, NOUGHT, PLUS, RANK_ONE, SLASH, SPACE, UPPER_A
from .pgn_kernel import BEGINS, BRACKET, CLOSES, DOLLAR, ENDS, HASH, NEWLINE, OPENS, PERCENT
from .text_kernel import CASTLES, EQUALS, POINT

READING, ENDED, MORE, ODD = 0, 1, 2, 3  # states of the reader: at work; and why it stopped
AT, LINE, LINE_BEGIN, BLANK, EMPTY, STATUS, WORDS, GAMES, CURSOR = range(9)  # numbers of `cursor`
MOST_TEXT, MOST_HEADERS, MOST_MOVES, MOST_LINE, DEEPEST, LIMITS = range(6)  # numbers of `limits`

# of a game: where its lines begin and end, the number of the first, its first move and how many it has, its
# result, then of each header where the value begins, -1 if the game does not have it, and how long that is
PLACE, END, FIRST_LINE, FIRST, MOVES, RESULT, HEADERS = range(7)
NAMES = (
    *("Event", "Site", "Date", "UTCDate", "Round", "White", "Black", "WhiteElo", "BlackElo", "Result", "ECO"),
    *("FEN", "SetUp", "Variant"),
)
GAME_FIELDS = HEADERS + 2 * len(NAMES)
BEGIN, SIZE, WORD_LINE, WANTED, WORD_FIELDS = range(5)  # of a move; `WANTED` says which one it is

# WANTED: bits 0-2 kind of man | 3-6 file from + 1 | 7-10 rank from + 1 | 11-16 square to | 17-19 promotion
# | 20-21 wing of castling + 1; a number that is not given is 0
FILE_SHIFT, RANK_SHIFT, TO_SHIFT, PROMOTION_SHIFT, WING_SHIFT = 3, 7, 11, 17, 20
WHITE_WINS, DRAW, BLACK_WINS, NO_RESULT, NO_WORD = 0, 1, 2, 3, -1

PACKED_NAMES = tuple(
    int.from_bytes(name.encode(), "little") for name in NAMES
)  # the longest has eight letters
TAB, RETURN, SEMICOLON, OPEN_BRACKET, BACKSLASH, QUOTE, STAR, BANG, QUESTION, NINE = b'\t\r;[\\"*!?9'
EIGHT, LAST_FILE, UPPER_Z, LOWER_Z, LOWER_X, LOWER_E, LOWER_P, UNDERSCORE, COLON, DELETE = b"8hZzxep_:\x7f"
PIECES, PROMOTIONS = tuple(b"NBRQK"), tuple(b"nbrqk")
ONE_DIGIT, TWO_DIGIT = b"12"


# ------------------------------------------------------------------ lines
@inner
def _is_blank(c: int64) -> bool:
    return c == SPACE or c == TAB


@inner
def _end_line(text: Pointer[uint8], cursor: Pointer[int64], limits: Pointer[int64]) -> None:
    """Passes the end of a line; a carriage return alone is odd."""
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
    """Passes what is left of a line, and its end."""
    while cursor[AT] < size and text[cursor[AT]] != NEWLINE and text[cursor[AT]] != RETURN:
        cursor[AT] += 1
    if cursor[AT] + 1 >= size:
        cursor[STATUS] = MORE
    else:
        _end_line(text, cursor, limits)


@inner
def _skip_escaped(text: Pointer[uint8], size: int64, cursor: Pointer[int64], limits: Pointer[int64]) -> None:
    """Passes a line that begins with a percent sign; whether the line before it was blank still counts."""
    blank = cursor[BLANK]
    _skip_line(text, size, cursor, limits)
    cursor[BLANK] = blank


@inner
def _ends_line(text: Pointer[uint8], size: int64, cursor: Pointer[int64], limits: Pointer[int64]) -> bool:
    """Passes blanks and the end of a line; returns False, with a status, if anything else stands there."""
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
    """Passes blank and escaped lines up to the headers of a game; anything else there is odd."""
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
    """Passes a bracket, the name of a header and a quote; returns the name in a word, 0 for a longer one."""
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
    """Reads a line with one header whose value has neither quotes nor escapes."""
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
    """Reads the headers of a game, up to its first line of moves; headers after a blank line are odd."""
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


# ------------------------------------------------------------------ words
@inner
def _is_file(c: int64) -> bool:
    return LOWER_A <= c <= LAST_FILE


@inner
def _is_rank(c: int64) -> bool:
    return RANK_ONE <= c <= EIGHT


@inner
def _read_castling(text: Pointer[uint8], at: int64) -> tuple[int64, int64]:
    """Returns which castling stands here, as WANTED, and where it ends; 0 if none does."""
    c = text[at]
    if (c != CASTLES and c != NOUGHT) or text[at + 1] != DASH or text[at + 2] != c:
        return int64(0), at
    if text[at + 3] == DASH and text[at + 4] == c:
        return int64(2 << WING_SHIFT), at + 5
    return int64(1 << WING_SHIFT), at + 3


@inner
def _read_promotion(text: Pointer[uint8], at: int64) -> tuple[int64, int64]:
    """Returns the man that a pawn becomes, 0 if none is named, and where that ends."""
    letter = at + 1 if text[at] == EQUALS else at
    for i in range(len(PIECES)):
        if text[letter] == PIECES[i] or text[letter] == PROMOTIONS[i]:
            return int64(i + 1), letter + 1
    return int64(0), at


@inner
def _read_move(text: Pointer[uint8], at: int64) -> tuple[int64, int64]:
    """Returns the move that stands here, as WANTED, and where it ends; -1 if none does."""
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
    """Returns where a move number ends, with its points; castling in noughts is none."""
    if text[at] == NOUGHT and text[at + 1] == DASH:
        return at
    while NOUGHT <= text[at] <= NINE:
        at += 1
    while text[at] == POINT:
        at += 1
    return at


@inner
def _skip_marks(text: Pointer[uint8], at: int64) -> int64:
    """Returns where `e.p.`, signs of check and glyphs behind a move end."""
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
    """Returns the result that a word is, NO_WORD if it is none."""
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
def _is_end_of_word(c: int64) -> bool:
    if c <= SPACE:
        return True
    return c == OPENS or c == CLOSES or c == BEGINS or c == ENDS or c == SEMICOLON


@inner
def _read_word(text: Pointer[uint8], cursor: Pointer[int64], words: Pointer[int64]) -> int64:
    """Reads a word of the main line; returns the result that it is, NO_WORD for any other."""
    begin = end = cursor[AT]
    while not _is_end_of_word(int64(text[end])):
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


# ------------------------------------------------------------------ movetext
@inner
def _skip_comment(text: Pointer[uint8], size: int64, cursor: Pointer[int64], limits: Pointer[int64]) -> None:
    """Passes a comment in braces; a header after a blank line in it is odd: the comment may not end."""
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
    """Passes what is no word; returns how deep in variations the text is behind it, -1 if it is a word."""
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
    """Returns whether a line of movetext begins with what may be the headers of the next game."""
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
    """Reads the moves of a game up to its result."""
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
                while not _is_end_of_word(int64(text[cursor[AT]])):
                    cursor[AT] += 1
            elif now < 0 and cursor[WORDS] - game[FIRST] >= limits[MOST_MOVES]:
                cursor[STATUS] = ODD
            elif now < 0:
                game[RESULT] = _read_word(text, cursor, words)
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
    """Reads one game; the status says whether it is certain."""
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
    """Reads certain games until there is no room, or something odd, or the end of the text.

    Args:
      text: uint8[size + 8], zeros at the end. limits: int64[LIMITS].
      games: int64[G * GAME_FIELDS], filled; room for G games.
      words: int64[W * WORD_FIELDS], filled; room for a third of the bytes of the text, and one more.
      cursor: int64[CURSOR]; AT and LINE of the begin of a line, moved behind the last certain game; GAMES
        and WORDS are counted; STATUS says why the reading stopped: ENDED for no more room.
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
