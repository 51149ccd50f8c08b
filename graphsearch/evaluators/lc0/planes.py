"""A network's input from packed positions, in each of lc0's forms.

Eight plies are shown, the latest first. Where the line by which a position was reached is not known, or not
asked for, the plies before it are filled from the oldest position that is, as lc0 does
(`--history-fill=fen_only`): each repeats that position, before the double pawn push where an en-passant
square names one; before the start position there is nothing.

Everything is seen by the side to move of the latest position: with Black to move the ranks are mirrored,
files stay. INPUT_CLASSICAL_112_PLANE:
0-103 eight plies of 13 (our P N B R Q K, their P N B R Q K, repetition), 104 our O-O-O, 105 our O-O,
106 their O-O-O, 107 their O-O, 108 ones if Black moves, 109 the halfmove clock, 110 zeros, 111 ones.

    INPUT_112_WITH_CASTLING_PLANE    104 and 105 have the rooks of both sides that may castle on the a-side
                                     and on the h-side, so that Chess960 is seen; 106 and 107 are zeros
    INPUT_112_WITH_CANONICALIZATION  besides: 108 has the file of en passant on the 8th rank; only plies that
                                     may repeat are shown; without rights to castle the board is turned so
                                     that our king stands on the files e-h, without pawns also on the ranks
                                     1-4, and there below the diagonal from h1 to e4
    ..._HECTOPLIES                   besides: 109 is the halfmove clock by 100
    ..._V2                           besides: of the plies before the position, only repetitions are shown
    ..._ARMAGEDDON                   besides: 110 has ones if Black moves

Where a board was turned, so are the moves of its policy.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import chess
import numpy as np
from numpy.typing import NDArray

from ...position.board import pack
from ...position.words import (
    BLACK_TO_MOVE,
    CASTLING_BITS,
    CASTLING_SHIFT,
    CLOCK_BITS,
    CLOCK_SHIFT,
    EN_PASSANT_BITS,
    EN_PASSANT_SHIFT,
    KINGS,
    META,
)
from ..lines import Lines
from .form import CLASSICAL_INPUT
from .layout import AUXILIARY, PLANES, PLIES, PLY_PLANES, POLICY_SIZE, THEIRS
from .policy import policy_moves

HISTORY_FILL = "fen_only"  # lc0's name for what these planes say of the past that is not known

_START = pack(chess.Board())


def input_planes(
    words: NDArray[np.uint64], dtype: Any = np.float32, *, lines: Lines | None = None, rooks: bool = False
) -> NDArray[Any]:
    """Returns the planes of packed positions, `[B, 112, 8, 8]` of `dtype`: rank, then file; a1 comes first.

    Every plane but the clock's holds 0 and 1.

    Args:
      words: `[B, 10]` uint64 packed positions.
      dtype: the network's own, float32 or float16.
      lines: by which they were reached, for a network that is to see them.
      rooks: with castling planes.
    """
    from .network_kernel import fill_planes

    planes = np.zeros((len(words), PLANES, 8, 8), np.float32)
    if lines is None:
        shown, repeated, plies = words, np.zeros(len(words), np.uint8), 1
    else:
        shown, repeated, plies = lines.words, lines.repeated.view(np.uint8), PLIES
    fill_planes(
        np.ascontiguousarray(shown).reshape(-1),
        repeated.reshape(-1),
        plies,
        _START,
        int(rooks),
        planes.reshape(-1),
    )
    return planes.astype(dtype, copy=False)


_FIRST_CANONICAL, _FIRST_HECTOPLIES = 3, 4  # numbers of inputs
_REPEATS_ONLY, _ARMAGEDDON = (5, 133), (132, 133)
FLIP, MIRROR, TRANSPOSE = 1, 2, 4  # bits of a transform, done in this order

Planes = NDArray[Any]
Transforms = NDArray[np.int64]


def planes_and_transforms(
    words: NDArray[np.uint64], kind: int, dtype: Any = np.float32, *, lines: Lines | None = None
) -> tuple[Planes, Transforms | None]:
    """Returns the planes of packed positions as `input_planes` does, and how each board was turned.

    Args:
      words: `[B, 10]` uint64 packed positions.
      kind: of input, a number of `form.INPUTS`.
      dtype: the network's own, float32 or float16.
      lines: by which they were reached, for a network that is to see them.

    Returns:
      Planes `[B, 112, 8, 8]`, and `[B]` bits of FLIP, MIRROR and TRANSPOSE, None where no board was turned.
    """
    if kind == CLASSICAL_INPUT:
        return input_planes(words, dtype, lines=lines), None
    planes = input_planes(words, np.float32, lines=lines, rooks=True)
    latest = words[:, META].astype(np.int64)
    transforms = None
    if kind >= _FIRST_CANONICAL:
        _show_en_passant(planes, latest)
        history = lines.words if lines else words[:, None]
        repeated = lines.repeated if lines else np.zeros((len(words), 1), bool)
        _mask_plies(planes, history, repeated, repeats_only=kind in _REPEATS_ONLY)
        transforms = _turn(planes, latest)
    if kind >= _FIRST_HECTOPLIES:
        planes[:, AUXILIARY + 5] /= 100
    if kind in _ARMAGEDDON:
        planes[:, AUXILIARY + 6] = (latest & BLACK_TO_MOVE)[:, None, None]
    return planes.astype(dtype, copy=False), transforms


def _show_en_passant(planes: Planes, latest: NDArray[np.int64]) -> None:
    planes[:, AUXILIARY + 4] = 0
    square = (latest >> EN_PASSANT_SHIFT & EN_PASSANT_BITS) - 1
    rows = np.flatnonzero(square >= 0)
    planes[rows, AUXILIARY + 4, 7, square[rows] % 8] = 1


def _mask_plies(
    planes: Planes, history: NDArray[np.uint64], repeated: NDArray[np.bool_], *, repeats_only: bool
) -> None:
    """Clears the plies before the last irreversible move; with `repeats_only`, keeps repetitions alone.

    A capture, a pawn move, a lost castling right and a chance of en passant are irreversible. Plies before
    the oldest known one repeat that.
    """
    known = (history[:, :, KINGS] != 0).sum(axis=1)
    at = np.minimum(np.arange(PLIES)[None], known[:, None] - 1)
    meta = np.take_along_axis(history[:, :, META], at, axis=1).astype(np.int64)
    same_rights = (meta ^ meta[:, :1]) >> CASTLING_SHIFT & CASTLING_BITS == 0
    no_capture = meta >> EN_PASSANT_SHIFT & EN_PASSANT_BITS == 0
    no_capture[:, 0] = True
    goes_on = np.ones_like(same_rights)
    goes_on[:, 1:] = (meta >> CLOCK_SHIFT & CLOCK_BITS != 0)[:, :-1]
    shown = np.logical_and.accumulate(same_rights & no_capture & goes_on, axis=1)
    plies = planes[:, :AUXILIARY].reshape(len(planes), PLIES, PLY_PLANES, 8, 8)
    if repeats_only:
        again = np.zeros_like(shown)
        again[:, : repeated.shape[1]] = repeated
        again[:, 0] = True
        shown &= again & (np.arange(PLIES)[None] < known[:, None])
        order = np.argsort(~shown, axis=1, kind="stable")  # those that are shown come first
        plies[:] = np.take_along_axis(plies, order[:, :, None, None, None], axis=1)
        shown = np.take_along_axis(shown, order, axis=1)
    plies *= shown[:, :, None, None, None]


# ------------------------------------------------------------------ turning
def _turn(planes: Planes, latest: NDArray[np.int64]) -> Transforms:
    transforms = np.array(
        [
            0 if meta >> CASTLING_SHIFT & CASTLING_BITS else _transform(men)
            for meta, men in zip(latest.tolist(), planes[:, : PLY_PLANES - 1], strict=True)
        ],
        np.int64,
    )
    last = AUXILIARY + 5  # the planes from here on are even
    for transform in np.unique(transforms[transforms != 0]).tolist():
        rows = transforms == transform
        planes[rows, :last] = _turned(planes[rows, :last], transform)
    return transforms


def _turned(boards: Planes, transform: int) -> Planes:
    """Returns boards `[..., 8, 8]` turned: files from right to left, ranks upside down, then across h1-a8."""
    if transform & FLIP:
        boards = boards[..., ::-1]
    if transform & MIRROR:
        boards = boards[..., ::-1, :]
    if transform & TRANSPOSE:
        boards = np.swapaxes(boards, -1, -2)[..., ::-1, ::-1]
    return boards


def _transform(men: Planes) -> int:
    rank, file = (int(i[0]) for i in np.nonzero(men[THEIRS - 1]))
    transform = FLIP if file < 4 else 0
    if men[0].any() or men[THEIRS].any():
        return transform
    transform |= MIRROR if rank > 3 else 0
    above = min(rank, 7 - rank) - min(file, 7 - file)  # of the diagonal, once the king is on e1-h4
    if above > 0 or (above == 0 and _is_larger(men, transform)):
        transform |= TRANSPOSE
    return transform


def _is_larger(men: Planes, transform: int) -> bool:
    """Returns whether a board is a larger number than across the diagonal: all men, ours, then by kind."""
    kings, queens, rooks, bishops, knights = (men[i] + men[i + THEIRS] for i in (5, 4, 3, 2, 1))
    for board in (men.sum(axis=0), men[:THEIRS].sum(axis=0), kings, queens, rooks, knights, bishops):
        one, other = (_number(_turned(board, t)) for t in (transform, transform | TRANSPOSE))
        if one != other:
            return one > other
    return False


def _number(board: Planes) -> int:
    """Returns a board as a number: a1 is its lowest bit."""
    return int.from_bytes(np.packbits(board.reshape(-1) > 0, bitorder="little").tobytes(), "little")


# ------------------------------------------------------------------ policies
def turned_back(policy: NDArray[np.float32], transforms: Transforms | None) -> NDArray[np.float32]:
    """Returns logits `[B, 1858]` of boards as they stand, from those of turned ones."""
    if transforms is None or not transforms.any():
        return policy
    found: NDArray[np.float32] = np.take_along_axis(policy, turned_outputs()[transforms], axis=1)
    return found


@cache
def turned_outputs() -> NDArray[np.int64]:
    """Returns by transform which output each of the 1858 moves is on a turned board, `[8, 1858]`.

    A promotion is never turned but by FLIP; where it would be, any output stands for it.
    """
    places = {move: output for output, move in enumerate(policy_moves())}
    table = np.zeros((8, POLICY_SIZE), np.int64)
    for transform in range(8):
        squares = _turned(np.arange(64).reshape(8, 8), transform).reshape(-1)
        to = np.argsort(squares)  # where each square has gone
        for (a, b, letter), output in places.items():
            table[transform, output] = places.get((int(to[a]), int(to[b]), letter), 0)
    return table
