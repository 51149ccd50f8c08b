"""Where the readers of movetext keep what they read: numbers of their arrays. Without Numba."""

from __future__ import annotations

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
