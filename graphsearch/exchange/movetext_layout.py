"""Layout of the movetext parser's arrays: indices and bit fields, without a dependency on Numba."""

from __future__ import annotations

READING, ENDED, MORE, ODD = 0, 1, 2, 3  # states of the parser: running; and the reasons for stopping
AT, LINE, LINE_BEGIN, BLANK, EMPTY, STATUS, WORDS, GAMES, CURSOR = range(9)  # indices of `cursor`
MOST_TEXT, MOST_HEADERS, MOST_MOVES, MOST_LINE, DEEPEST, LIMITS = range(6)  # indices of `limits`

# of a game: start and end of its text, number of its first line, index of its first move and number of moves,
# result, then for each header the start of its value, -1 if the game does not have it, and its length
PLACE, END, FIRST_LINE, FIRST, MOVES, RESULT, HEADERS = range(7)
NAMES = (
    *("Event", "Site", "Date", "UTCDate", "Round", "White", "Black", "WhiteElo", "BlackElo", "Result", "ECO"),
    *("FEN", "SetUp", "Variant"),
)
GAME_FIELDS = HEADERS + 2 * len(NAMES)
BEGIN, SIZE, WORD_LINE, WANTED, WORD_FIELDS = range(5)  # of a move; WANTED: the parsed move

# WANTED: bits 0-2 kind of piece | 3-6 file from + 1 | 7-10 rank from + 1 | 11-16 square to | 17-19 promotion
# | 20-21 wing of castling + 1; 0 where the text has no such part
FILE_SHIFT, RANK_SHIFT, TO_SHIFT, PROMOTION_SHIFT, WING_SHIFT = 3, 7, 11, 17, 20
WHITE_WINS, DRAW, BLACK_WINS, NO_RESULT, NO_WORD = 0, 1, 2, 3, -1
