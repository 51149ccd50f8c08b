"""Replays parsed games: finds the legal move of each word.

words      the moves of game 0 | of game 1 | ..., as parsed by `movetext_kernel`
positions  game 0 before each of its moves, and at its end | game 1 ...
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..jit.compiler import inner, kernel
from ..jit.pointers import ONE, ZERO, U, adv, ptr
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
from ..position.legality_kernel import ROOM
from ..position.words import KINGS, PAWNS, BoardTable, Position
from .movetext_layout import (
    FILE_SHIFT,
    PROMOTION_SHIFT,
    RANK_SHIFT,
    TO_SHIFT,
    WANTED,
    WING_SHIFT,
    WORD_FIELDS,
)
from .text_kernel import CASTLING_STEP

NO_MOVE = -1


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


@inner
def _play_game(
    T: BoardTable,
    words: Pointer[int64],
    count: int64,
    positions: Pointer[uint64],
    keys: Pointer[uint64],
    codes: Pointer[uint16],
    numbers: Pointer[uint8],
    moves: Pointer[uint16],
) -> int64:
    """Replays the moves of a game from its first position; returns the number of moves played."""
    for ply in range(count):
        s = adv(positions, PW * ply)
        keys[ply] = position_key(T, s)
        number = _find_move(s, moves, int64(generate_moves(T, s, moves)), words[WORD_FIELDS * ply + WANTED])
        if number == NO_MOVE or clock_of(s) + 1 >= MAX_CLOCK:
            return int64(ply)
        codes[ply], numbers[ply] = moves[number], uint8(number)
        make_move(T, s, adv(positions, PW * (ply + 1)), moves[number])
    keys[count] = position_key(T, adv(positions, PW * count))
    return count


@kernel
def play_games(
    T: NDArray[np.uint64],
    words: NDArray[np.int64],
    firsts: NDArray[np.int64],
    counts: NDArray[np.int64],
    positions: NDArray[np.uint64],
    keys: NDArray[np.uint64],
    codes: NDArray[np.uint16],
    numbers: NDArray[np.uint8],
    played: NDArray[np.int64],
) -> uint64:
    """Replays games, each up to the first word that does not match exactly one legal move.

    Args:
      T: the table of `position/tables.py`. words: int64[W * WORD_FIELDS].
      firsts, counts: int64[G], index of each game's first word, and number of words to play.
      positions: uint64[P * 10] with P the sum of counts + 1 over all games; in: the first position of each
        game, not Chess960; the others are filled. keys: uint64[P], filled.
      codes: uint16[P], numbers: uint8[P], filled: each move, and its number in canonical order; the last of
        a game is unused.
      played: int64[G], filled: number of moves played.
    """
    moves = np.zeros(ROOM, np.uint16)
    t, out, at = ptr(T, 0), ptr(moves, 0), int64(0)
    for g in range(len(firsts)):
        count = int64(counts[g])
        w = ptr(words, WORD_FIELDS * int64(firsts[g]))
        k, c, n = ptr(keys, at), ptr(codes, at), ptr(numbers, at)
        played[g] = _play_game(t, w, count, ptr(positions, PW * at), k, c, n, out)
        at += count + 1
    return U(moves[0]) & ZERO  # keeps the array alive until here
