"""Replays regular games of PGN text in batches: finds the legal move of each word.

text       ... e4 e5 2. Nf3! ... the moves of the next game ...
positions  game 0 before each of its moves, and at its end | game 1 ... (odd games have none)

The text of a game has the words of its main line only (`pgn_import.main_line`), which fit exactly one legal
move each, or are move numbers or glyphs. All other games are odd, and `chess.pgn` reads them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..jit.compiler import inner, kernel
from ..jit.pointers import ONE, ZERO, U, adv, ptr, zeros
from ..jit.types import Pointer, int64, uint8, uint16, uint64
from ..position.board import MAX_CLOCK
from ..position.board_kernel import (
    PW,
    clock_of,
    from_square,
    generate_moves,
    make_move,
    position_key,
    promotion_of,
    to_square,
)
from ..position.rules_kernel import ROOM
from ..position.words import KINGS, PAWNS, BoardTable, Position

BEGIN, END, MOST_MOVES, INPUTS = range(4)  # fields of a game, in: its text; plies
ODD = -1

# a parsed move: bits 0-2 kind of piece | 3-6 file from + 1 | 7-10 rank from + 1 | 11-16 square to
# | 17-19 promotion | 20-21 wing of castling + 1; 0 where the text has no such part
FILE_SHIFT, RANK_SHIFT, TO_SHIFT, PROMOTION_SHIFT, WING_SHIFT = 3, 7, 11, 17, 20
NO_MOVE = -1
CASTLING_STEP = 2  # files that a king moves in castling only

SPACE, DASH, NOUGHT, RANK_ONE, LOWER_A = b" -01a"
NINE, EIGHT, LAST_FILE, LOWER_X, CASTLES, EQUALS, POINT = b"98hxO=."
PIECES, PROMOTIONS = tuple(b"NBRQK"), tuple(b"nbrqk")


# ------------------------------------------------------------------ words
@inner
def _is_file(c: int64) -> bool:
    return LOWER_A <= c <= LAST_FILE


@inner
def _is_rank(c: int64) -> bool:
    return RANK_ONE <= c <= EIGHT


@inner
def _read_castling(text: Pointer[uint8], at: int64) -> tuple[int64, int64]:
    """Returns the castling move at `at`, and its end; 0 if there is none."""
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
    """Returns the parsed move at `at`, and its end; NO_MOVE if there is none."""
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
        return int64(NO_MOVE), begin
    promotion, at = _read_promotion(text, at)
    place = (file << FILE_SHIFT) | (rank << RANK_SHIFT) | (to << TO_SHIFT)
    return kind | place | (promotion << PROMOTION_SHIFT), at


@inner
def _skip_number(text: Pointer[uint8], at: int64) -> int64:
    """Returns the end of a move number with its dots; no number begins with a nought, as castling may."""
    if text[at] == NOUGHT:
        return at
    while NOUGHT <= text[at] <= NINE:
        at += 1
    while text[at] == POINT:
        at += 1
    return at


# ------------------------------------------------------------------ moves
@inner
def _castling_wing(s: Position, m: int64) -> int64:
    """Returns 1 for castling king-side, 2 queen-side, 0 for another move; not for Chess960."""
    step = to_square(m) - from_square(m)
    if (s[KINGS] >> U(from_square(m))) & ONE == ZERO or abs(step) != CASTLING_STEP:
        return int64(0)
    return int64(1) if step > 0 else int64(2)


@inner
def _fits(s: Position, m: int64, wanted: int64) -> bool:
    """Returns whether a legal move matches a parsed word (`wanted`)."""
    wing = wanted >> WING_SHIFT
    if wing or _castling_wing(s, m):
        return wing == _castling_wing(s, m)
    origin, kind = from_square(m), wanted & 7
    file, rank = (wanted >> FILE_SHIFT) & 15, (wanted >> RANK_SHIFT) & 15
    if to_square(m) != (wanted >> TO_SHIFT) & 63 or promotion_of(m) != (wanted >> PROMOTION_SHIFT) & 7:
        return False
    if kind == PAWNS and not file:
        file = (to_square(m) & 7) + 1
    if (file and origin & 7 != file - 1) or (rank and origin >> 3 != rank - 1):
        return False
    return (s[kind] >> U(origin)) & ONE != ZERO


@inner
def _find_move(s: Position, moves: Pointer[uint16], count: int64, wanted: int64) -> int64:
    """Returns the index of the only legal move that matches a word; NO_MOVE if none or several match."""
    found = int64(NO_MOVE)
    if (
        wanted & 7 == PAWNS
        and not wanted >> WING_SHIFT
        and (wanted >> FILE_SHIFT) & 15
        and (wanted >> RANK_SHIFT) & 15
    ):
        return found  # two squares without a letter may be a move of any piece
    for i in range(count):
        if _fits(s, int64(moves[i]), wanted):
            if found != NO_MOVE:
                return int64(NO_MOVE)
            found = int64(i)
    return found


# ------------------------------------------------------------------ games
@inner
def _replay_game(
    T: BoardTable,
    text: Pointer[uint8],
    game: Pointer[int64],
    positions: Pointer[uint64],
    keys: Pointer[uint64],
    codes: Pointer[uint16],
    numbers: Pointer[uint8],
    moves: Pointer[uint16],
) -> int64:
    """Replays a game from its first position; returns the number of its moves, ODD if it is odd."""
    at, ply = game[BEGIN], int64(0)
    keys[0] = position_key(T, positions)
    while at < game[END] and ply < game[MOST_MOVES]:
        wanted, _ = _read_move(text, _skip_number(text, at))
        if wanted != NO_MOVE:
            s = adv(positions, PW * ply)
            number = _find_move(s, moves, int64(generate_moves(T, s, moves)), wanted)
            if number == NO_MOVE or clock_of(s) + 1 >= MAX_CLOCK:
                return int64(ODD)
            codes[ply], numbers[ply] = moves[number], uint8(number)
            make_move(T, s, adv(positions, PW * (ply + 1)), moves[number])
            ply += 1
            keys[ply] = position_key(T, adv(positions, PW * ply))
        while text[at] > SPACE:
            at += 1
        at += 1
    return ply


@kernel
def replay_games(
    T: NDArray[np.uint64],
    text: NDArray[np.uint8],
    starts: NDArray[np.uint64],
    games: NDArray[np.int64],
    found: NDArray[np.int64],
    positions: NDArray[np.uint64],
    keys: NDArray[np.uint64],
    codes: NDArray[np.uint16],
    numbers: NDArray[np.uint8],
) -> None:
    """Replays games; an odd one takes no room in the arrays.

    Args:
      T: the table of `position/tables.py`. text: with 8 zero bytes at the end.
      starts: uint64[G * 10], first positions, not Chess960. games: int64[G * INPUTS].
      found: int64[G], filled: number of positions of each game, 0 of an odd one.
      positions: uint64[P * 10], filled; P is at least the sum of size of the text // 2 + 2 of all games.
      keys: uint64[P], filled.
      codes: uint16[P], numbers: uint8[P], filled: each move, and its number in canonical order; the last of
        a game is unused.
    """
    t, x, listed, at = ptr(T, 0), ptr(text, 0), zeros(uint16, ROOM), int64(0)
    for g in range(len(games) // INPUTS):
        game = ptr(games, INPUTS * g)
        first, start = ptr(positions, PW * at), ptr(starts, PW * g)
        for i in range(PW):
            first[i] = start[i]
        k, c, n = ptr(keys, at), ptr(codes, at), ptr(numbers, at)
        found[g] = _replay_game(t, x, game, first, k, c, n, listed) + 1
        at += found[g]
