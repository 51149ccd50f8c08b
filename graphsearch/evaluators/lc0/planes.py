"""A network's input from packed positions: lc0's INPUT_CLASSICAL_112_PLANE.

Eight plies are shown, the latest first. Where the line by which a position was reached is not known, or not
asked for, the plies before it are filled from the oldest position that is, as lc0 does
(`--history-fill=fen_only`): each repeats that position, before the double pawn push where an en-passant
square names one; before the start position there is nothing.

Everything is seen by the side to move of the latest position: with Black to move the ranks are mirrored,
files stay. Planes:
0-103 eight plies of 13 (our P N B R Q K, their P N B R Q K, repetition), 104 our O-O-O, 105 our O-O,
106 their O-O-O, 107 their O-O, 108 ones if Black moves, 109 the halfmove clock, 110 zeros, 111 ones.

A plane is first a mask of 64 bits, as a bitboard: bit 0 is a1.
"""

from __future__ import annotations

from typing import Any

import chess
import numpy as np
from numpy.typing import NDArray

from ...position.board import pack
from ...position.words import CLOCK_BITS, CLOCK_SHIFT, EN_PASSANT_BITS, EN_PASSANT_SHIFT, KINGS, META, WHITE
from ..lines import LINE_PLIES, Lines

HISTORY_FILL = "fen_only"  # lc0's name for what these planes say of the past that is not known

PLIES, PLY_PLANES = LINE_PLIES, 13  # 6 kinds of our pieces, 6 of theirs, repetition
AUXILIARY = PLIES * PLY_PLANES  # 104, where castling, side, clock and constants begin
PLANES = AUXILIARY + 8
OUR_PAWNS, THEIR_PAWNS, REPETITION = 0, 6, 12  # planes of a ply

_ALL, _NONE = np.uint64((1 << 64) - 1), np.uint64(0)
_ONE, _BLACK, _PLACE_BITS = (
    np.uint64(1),
    np.uint64(1),
    np.uint64(0xFFF),
)  # of META: side, castling, en passant
_CASTLING_BITS = np.array([[2, 1, 4, 3], [4, 3, 2, 1]], np.uint64)  # of META, for planes 104-107; by side
_EN_PASSANT = np.uint64(EN_PASSANT_SHIFT), np.uint64(EN_PASSANT_BITS)
_CLOCK = np.uint64(CLOCK_SHIFT), np.uint64(CLOCK_BITS)
# what a double push has changed, on the a-file: XOR with it undoes that
_OUR_PUSH, _THEIR_PUSH = np.uint64(1 << 8 | 1 << 24), np.uint64(1 << 48 | 1 << 32)
_START = pack(chess.Board())

Words = NDArray[np.uint64]


def input_planes(words: Words, dtype: Any = np.float32, *, lines: Lines | None = None) -> NDArray[Any]:
    """Returns the planes of packed positions, `[B, 112, 8, 8]` of `dtype`: rank, then file; a1 comes first.

    Every plane but the clock's holds 0 and 1.

    Args:
      words: `[B, 10]` uint64 packed positions.
      dtype: the network's own, float32 or float16.
      lines: by which they were reached, for a network that is to see them.
    """
    masks = np.empty((len(words), PLANES), np.uint64)
    black = black_moves(words)
    plies = masks[:, :AUXILIARY].reshape(-1, PLIES, PLY_PLANES)
    if lines is None:
        _fill_from_position(plies, words, black)
    else:
        _fill_from_line(plies, lines, black)
    _fill_auxiliary(masks[:, AUXILIARY:], words[:, META], black)
    squares = np.unpackbits(masks.astype("<u8", copy=False).view(np.uint8), axis=1, bitorder="little")
    planes = squares.reshape(-1, PLANES, 8, 8).astype(dtype)
    planes[:, AUXILIARY + 5] = _bits(words[:, META], _CLOCK)[:, None, None]
    return planes


def black_moves(words: Words) -> NDArray[np.bool_]:
    """Returns which packed positions have Black to move, `[B]`."""
    return (words[:, META] & _BLACK).astype(np.bool_)


def _bits(meta: Words, place: tuple[np.uint64, np.uint64]) -> Words:
    """Returns a field of META words."""
    shift, mask = place
    return meta >> shift & mask


def _men(words: Words, black: NDArray[np.bool_]) -> Words:
    """Returns the twelve masks of men of positions `[..., 10]`, seen by Black where `black`, `[..., 12]`."""
    black = black[..., None]
    kinds, colours = words[..., :WHITE], words[..., WHITE:META]
    ours = np.where(black, colours[..., 1:], colours[..., :1])
    men = np.concatenate([kinds & ours, kinds & ~ours], axis=-1)
    return np.where(black, men.byteswap(), men)  # a rank is a byte


def _fill_from_position(plies: Words, words: Words, black: NDArray[np.bool_]) -> None:
    """Writes the plies of positions of which only they themselves are known."""
    plies[:, :, :REPETITION] = _men(words, black)[:, None]
    plies[:, :, REPETITION] = _NONE
    _fill_before(plies[:, 1:], THEIR_PAWNS, _THEIR_PUSH, words)


def _fill_before(plies: Words, pawns: int, push: np.uint64, oldest: Words) -> None:
    """Changes plies that repeat the oldest positions known to what can be said of the time before these.

    Args:
      plies: `[B, P, 13]`. oldest: `[B, 10]`.
      pawns: the plane of those that may have made a double push. push: what that changes.
    """
    squares = _bits(oldest[:, META], _EN_PASSANT)  # en-passant square + 1, 0 for none
    pushed = np.where(squares != _NONE, push << ((squares - _ONE) & np.uint64(7)), _NONE)
    plies[:, :, pawns] ^= pushed[:, None]
    plies[_are_start(oldest)] = _NONE


def _fill_from_line(plies: Words, lines: Lines, black: NDArray[np.bool_]) -> None:
    """Writes the plies of positions as far as their lines are known, and fills up the rest."""
    known = (lines.words[:, :, KINGS] != _NONE).sum(axis=1)
    rows = np.arange(len(known))
    shown = np.minimum(np.arange(PLIES), known[:, None] - 1)
    words = lines.words[rows[:, None], shown]
    plies[:, :, :REPETITION] = _men(words, np.broadcast_to(black[:, None], shown.shape))
    plies[:, :, REPETITION] = np.where(lines.repeated, _ALL, _NONE)
    for count in np.unique(known[known < PLIES]):
        short = np.nonzero(known == count)[0]
        filled = plies[short, count:]
        pawns, push = (THEIR_PAWNS, _THEIR_PUSH) if count & 1 else (OUR_PAWNS, _OUR_PUSH)
        _fill_before(filled, pawns, push, words[short, -1])
        plies[short, count:] = filled


def _are_start(words: Words) -> NDArray[np.bool_]:
    """Returns which positions are the start position, whatever the clock says, `[B]`."""
    pieces = (words[:, :META] == _START[:META]).all(axis=1)
    same: NDArray[np.bool_] = pieces & ((words[:, META] & _PLACE_BITS) == (_START[META] & _PLACE_BITS))
    return same


def _fill_auxiliary(masks: Words, meta: Words, black: NDArray[np.bool_]) -> None:
    """Writes the masks of planes 104 to 111, `[B, 8]`; the clock's is left empty."""
    masks[:, 4:] = (_NONE, _NONE, _NONE, _ALL)
    masks[:, :4] = (meta[:, None] >> _CASTLING_BITS[black.astype(np.intp)] & _ONE) * _ALL
    masks[:, 4] = black * _ALL
