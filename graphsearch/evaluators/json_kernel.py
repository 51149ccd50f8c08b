"""Writes lines of JSON for many positions, as `json.dumps` does."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..jit.compiler import inner, kernel
from ..jit.pointers import as_i64, ptr
from ..jit.types import Pointer, float64, int64, uint8, uint16, uint64
from ..position.board_kernel import PW, from_square, promotion_of, to_square
from ..position.writing_kernel import (
    LETTERS,
    SMALL,
    SPACE,
    write_fen,
    write_float,
    write_integer,
    write_square,
)

GAP, QUOTE, COLON, COMMA = b'|":,'


@inner
def _copy(form: Pointer[uint8], place: int64, out: Pointer[uint8], at: int64) -> tuple[int64, int64]:
    """Copies the form up to its next gap; returns the next offsets in the form and in the text."""
    while form[place] != GAP:
        out[at] = form[place]
        place += 1
        at += 1
    return place + 1, at


@inner
def _sort(moves: Pointer[uint16], priors: Pointer[float64], begin: int64, end: int64) -> None:
    for i in range(begin + 1, end):
        move, prior, k = moves[i], priors[i], int64(i)
        while k > begin and priors[k - 1] < prior:
            moves[k], priors[k] = moves[k - 1], priors[k - 1]
            k -= 1
        moves[k], priors[k] = move, prior


@inner
def _write_move(move: uint16, out: Pointer[uint8], at: int64) -> int64:
    at = write_square(to_square(move), out, write_square(from_square(move), out, at))
    if promotion_of(move):
        out[at] = LETTERS[promotion_of(move)] + SMALL
        at += 1
    return at


@inner
def _write_priors(
    powers: Pointer[uint64],
    moves: Pointer[uint16],
    priors: Pointer[float64],
    begin: int64,
    end: int64,
    out: Pointer[uint8],
    at: int64,
) -> int64:
    """Writes `"e2e4": 0.25, ...`; returns its end."""
    for i in range(begin, end):
        if i > begin:
            out[at] = COMMA
            out[at + 1] = SPACE
            at += 2
        out[at] = QUOTE
        at = _write_move(moves[i], out, at + 1)
        out[at] = QUOTE
        out[at + 1] = COLON
        out[at + 2] = SPACE
        at = write_float(powers, as_i64(priors)[i], out, at + 3)
    return at


@kernel
def write_lines(
    powers: NDArray[np.uint64],
    form: NDArray[np.uint8],
    words: NDArray[np.uint64],
    numbers: NDArray[np.int64],
    values: NDArray[np.float64],
    scores: NDArray[np.int64],
    offsets: NDArray[np.int64],
    moves: NDArray[np.uint16],
    priors: NDArray[np.float64],
    out: NDArray[np.uint8],
) -> int64:
    """Writes a line for each position; returns the number of bytes.

    Args:
      powers: `load_powers()`. form: uint8, a line with seven gaps, and one after its end.
      words: `[10 B]` uint64. numbers: `[B]` int64, fullmove numbers.
      values: `[4 B]` float64, win, draw, loss and Q. scores: `[B]` int64, centipawns.
      offsets: `[B + 1]` int64, start of each position's moves.
      moves: `[M]` uint16, priors: `[M]` float64; both are sorted in place by prior.
      out: uint8 out, the text.
    """
    at, text = int64(0), ptr(out, 0)
    F, P, V = ptr(form, 0), ptr(powers, 0), as_i64(ptr(values, 0))
    for b in range(len(numbers)):
        place, at = _copy(F, int64(0), text, at)
        place, at = _copy(F, place, text, write_fen(ptr(words, int64(b) * PW), numbers[b], text, at))
        for i in range(4):
            place, at = _copy(F, place, text, write_float(P, V[4 * b + i], text, at))
        place, at = _copy(F, place, text, write_integer(scores[b], text, at))
        begin, end = offsets[b], offsets[b + 1]
        _sort(ptr(moves, 0), ptr(priors, 0), begin, end)
        at = _write_priors(P, ptr(moves, 0), ptr(priors, 0), begin, end, text, at)
        place, at = _copy(F, place, text, at)
    return at
