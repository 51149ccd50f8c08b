"""Computes a network's input planes from positions, and priors from its logits.

The same in numpy steps would cost a batch of one a third of a small network's time, because each network run
evicts them from the CPU cache. `planes.py` and `policy.py` define the numbers.
"""

from __future__ import annotations

from math import exp

import numpy as np
from numpy.typing import NDArray

from ...jit.compiler import inner, kernel
from ...jit.pointers import ONE, ZERO, U, adv, ctz, ptr
from ...jit.types import Pointer, float32, float64, int64, uint8, uint64
from ...position.board_kernel import PW, clock_of, en_passant_of, side_to_move
from ...position.castling_kernel import has_right, is_chess960, rook_square
from ...position.words import KINGS, META, WHITE, Position
from .layout import (
    AUXILIARY,
    CODES,
    PLACE_BITS,
    PLANES,
    PLIES,
    PLY_PLANES,
    POLICY_SIZE,
    REPETITION,
    SQUARES,
    THEIRS,
)

KING_HOME, MIRROR = 4, 56  # e1; XOR mask that mirrors the ranks


# ------------------------------------------------------------------ planes
@inner
def _fill(planes: Pointer[float32], plane: int64, value: float32) -> None:
    for square in range(SQUARES):
        planes[plane * SQUARES + square] = value


@inner
def _show_men(s: Position, black: int64, planes: Pointer[float32]) -> None:
    """Sets the twelve planes of a position's men, zeros before, in the view of Black or White."""
    flip = MIRROR * black
    for plane in range(REPETITION):
        left = s[plane % THEIRS] & s[WHITE + (black ^ (plane // THEIRS))]
        while left:
            planes[plane * SQUARES + (int64(ctz(left)) ^ flip)] = float32(1.0)
            left &= left - ONE


@inner
def _undo_push(s: Position, black: int64, planes: Pointer[float32]) -> None:
    """Moves a pawn that may be captured en passant back to its start square, as in the previous position."""
    square = en_passant_of(s) - 1
    if square < 0:
        return
    side = side_to_move(s)
    ahead = int64(8) if side == 0 else int64(-8)
    flip = MIRROR * black
    pawns = int64(0) if side != black else int64(THEIRS * SQUARES)
    planes[pawns + ((square - ahead) ^ flip)] = float32(0.0)
    planes[pawns + ((square + ahead) ^ flip)] = float32(1.0)


@inner
def _is_start(s: Position, start: Position) -> bool:
    for i in range(META):
        if s[i] != start[i]:
            return False
    return (s[META] ^ start[META]) & U(PLACE_BITS) == ZERO


@inner
def _show_line(
    line: Pointer[uint64], repeated: Pointer[uint8], plies: int64, start: Position, planes: Pointer[float32]
) -> None:
    """Sets the planes of all plies: the known ones, then copies of the oldest (see `planes.py`)."""
    black = side_to_move(line)
    known = int64(1)
    while known < plies and adv(line, known * PW)[KINGS] != ZERO:
        known += 1
    oldest = adv(line, (known - 1) * PW)
    shown = int64(PLIES)
    if known < PLIES and _is_start(oldest, start):
        shown = known
    for ply in range(shown):
        at = adv(planes, ply * PLY_PLANES * SQUARES)
        if ply < known:
            _show_men(adv(line, ply * PW), black, at)
            if repeated[ply] != 0:
                _fill(at, int64(REPETITION), float32(1.0))
        else:
            _show_men(oldest, black, at)
            _undo_push(oldest, black, at)


@inner
def _show_castling(s: Position, black: int64, rooks: int64, planes: Pointer[float32]) -> None:
    for i in range(4):  # our O-O-O and O-O, then theirs; META has K Q k q
        right = ((i // 2) ^ black) * 2 + (1 - i % 2)
        if not has_right(s, right):
            continue
        if rooks:
            square = rook_square(s[META], right) ^ (MIRROR * black)
            planes[(i % 2) * SQUARES + square] = float32(1.0)
        else:
            _fill(planes, int64(i), float32(1.0))


@inner
def _show_rest(s: Position, rooks: int64, planes: Pointer[float32]) -> None:
    """Sets the auxiliary planes; `planes` points to the first of them."""
    black = side_to_move(s)
    _show_castling(s, black, rooks, planes)
    if black:
        _fill(planes, int64(4), float32(1.0))
    _fill(planes, int64(5), float32(clock_of(s)))
    _fill(planes, int64(7), float32(1.0))


@kernel
def fill_planes(
    words: NDArray[np.uint64],
    repeated: NDArray[np.uint8],
    plies: int64,
    start: NDArray[np.uint64],
    rooks: int64,
    planes: NDArray[np.float32],
) -> None:
    """Sets the planes of positions.

    Args:
      words: `[B * plies * 10]` uint64: each position, then the previous ones, as in `Lines`.
      repeated: `[B * plies]` uint8, 0 or 1. start: `[10]` uint64, the start position.
      rooks: 1 for planes of the rooks that may castle, 0 for constant planes of the rights.
      planes: `[B * 112 * 64]` float32 in and out, zeros before.
    """
    for i in range(len(repeated) // plies):
        line, at = ptr(words, i * plies * PW), ptr(planes, i * PLANES * SQUARES)
        _show_line(line, ptr(repeated, i * plies), plies, ptr(start, 0), at)
        _show_rest(line, rooks, adv(at, AUXILIARY * SQUARES))


# ------------------------------------------------------------------ moves
@inner
def _part(s: Position) -> int64:
    """Returns the offset of a position's part of the table: by side, and by whether its king is at home."""
    black = side_to_move(s)
    home = U(KING_HOME + MIRROR * black)
    at_home = s[KINGS] & s[WHITE + black] & (ONE << home) != ZERO
    return (2 * black + int64(at_home and not is_chess960(s))) * CODES


@kernel
def list_outputs(
    words: NDArray[np.uint64],
    moves: NDArray[np.uint16],
    offsets: NDArray[np.int64],
    table: NDArray[np.int64],
    outputs: NDArray[np.int64],
) -> None:
    """Writes the output index of every move of a batch, `[M]` int64; other arguments as in `fill_priors`."""
    for i in range(len(offsets) - 1):
        part = _part(ptr(words, i * PW))
        for j in range(offsets[i], offsets[i + 1]):
            outputs[j] = table[part + moves[j]]


@kernel
def fill_priors(
    words: NDArray[np.uint64],
    moves: NDArray[np.uint16],
    offsets: NDArray[np.int64],
    table: NDArray[np.int64],
    logits: NDArray[np.float32],
    temperature: float64,
    priors: NDArray[np.float32],
) -> None:
    """Writes the softmax of `logits / temperature` over each position's moves.

    Args:
      words: `[B * 10]` uint64. moves, offsets: of the batch.
      table: `[4 * CODES]` int64, outputs by move code (`policy.outputs_of_codes`).
      logits: `[B * 1858]` float32.
      priors: `[M]` float32 out.
    """
    for i in range(len(offsets) - 1):
        begin, end = offsets[i], offsets[i + 1]
        part, row = _part(ptr(words, i * PW)), i * POLICY_SIZE
        most = float32(-3.4e38)
        for j in range(begin, end):
            priors[j] = logits[row + table[part + moves[j]]]
            most = max(most, priors[j])
        total = 0.0
        for j in range(begin, end):
            power = exp((float64(priors[j]) - float64(most)) / temperature)
            priors[j] = float32(power)
            total += power
        for j in range(begin, end):
            priors[j] = float32(float64(priors[j]) / total)
