"""What is wrong with records, in bulk: the rules of `record.problems`, and chess itself."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ...position.values import D_SCALE
from ...record.node import RecordBatch, problems

Mask = NDArray[np.bool_]
U64s = NDArray[np.uint64]

_ONE = np.uint64(1)
_CASTLING = (  # bit of the meta word, colour, king's square, rook's square
    (1, 6, 4, 7),
    (2, 6, 4, 0),
    (3, 7, 60, 63),
    (4, 7, 60, 56),
)
_NOT_A, _NOT_H = np.uint64(0xFEFEFEFEFEFEFEFE), np.uint64(0x7F7F7F7F7F7F7F7F)


def unsound(batch: RecordBatch) -> Iterator[tuple[int, str]]:
    """Yields each record that breaks a rule, with what is wrong."""
    for i in np.nonzero(_suspicious(batch))[0].tolist():
        found = problems(batch.record(i))
        if found:
            yield i, "; ".join(found)
    yield from _illegal(batch)


def _suspicious(batch: RecordBatch) -> Mask:
    """Returns which records to look at one by one: all that break a rule of `problems`."""
    flags = batch.flags.astype(np.int64)
    lower, upper = (flags >> 2 & 3) - 1, (flags >> 4 & 3) - 1
    moves, edges = np.diff(batch.code_offsets), np.diff(batch.edge_offsets)
    terminal = (flags & 3) > 0
    bad = (lower > upper) | (np.maximum(lower, upper) > 1) | (terminal == (moves > 0)) | (edges > moves)
    bad |= _bad_value(batch.v, batch.d)
    idle = batch.n == batch.r
    bad_edge = (batch.r > batch.n) | _bad_value(batch.q, batch.edge_d)  # a proof, too: looked at more closely
    bad_edge |= idle & ((batch.q != 0) | (batch.edge_d != 0))
    bad[_owners(batch)[bad_edge]] = True
    return np.asarray(bad, bool)


def _owners(batch: RecordBatch) -> NDArray[np.int64]:
    """Returns the record that each edge belongs to."""
    return np.repeat(np.arange(len(batch)), np.diff(batch.edge_offsets))


def _bad_value(q: NDArray[np.float32], d: NDArray[np.uint16]) -> Mask:
    wide = np.abs(q.astype(np.float64))
    return ~((wide <= 1.0) & (d <= D_SCALE * (1.0 - wide) + 1))


def _illegal(batch: RecordBatch) -> Iterator[tuple[int, str]]:
    from ...position.legality_kernel import EXPOSED, examine
    from ..codec.bulk import board_tables, owned

    moves, kinds = np.zeros(len(batch), np.int16), np.zeros(len(batch), np.uint8)
    words = owned(batch.words, np.uint64)
    examine(board_tables(), words.reshape(-1), moves, kinds)
    codes, terminal = np.diff(batch.code_offsets), batch.flags & 3
    expected = np.where(kinds == 0, moves, 0)
    for i in np.nonzero((kinds == EXPOSED) | _bad_meta(words))[0].tolist():
        yield i, "its position is illegal"
    for i in np.nonzero((kinds < EXPOSED) & (kinds != terminal))[0].tolist():
        yield i, f"it is marked as terminal kind {terminal[i]}, the position is of kind {kinds[i]}"
    for i in np.nonzero((kinds < EXPOSED) & (kinds == terminal) & (codes != expected))[0].tolist():
        yield i, f"it has {codes[i]} priors for {expected[i]} legal moves"


def _bad_meta(words: U64s) -> Mask:
    """Returns where castling rights or the en-passant square do not fit the men."""
    bad = np.zeros(len(words), bool)
    for bit, side, king, rook in _CASTLING:
        home = words[:, 5] & words[:, side] & np.uint64(1 << king)
        corner = words[:, 3] & words[:, side] & np.uint64(1 << rook)
        bad |= ((words[:, 8] >> np.uint64(bit) & _ONE) > 0) & ((home == 0) | (corner == 0))
    ep = words[:, 8] >> np.uint64(5) & np.uint64(127)
    black = words[:, 8] & _ONE
    for side, rank in ((0, 5), (1, 2)):
        here = np.nonzero((ep > 0) & (black == side))[0]
        bad[here] |= _bad_ep(words[here], ep[here] - _ONE, side, rank)
    return bad


def _bad_ep(words: U64s, square: U64s, side: int, rank: int) -> Mask:
    """Returns where no pawn has just passed the square, or none of the side to move can take it."""
    own, other = words[:, 6 + side] & words[:, 0], words[:, 7 - side] & words[:, 0]
    target = _ONE << square
    if side == 0:
        passed, origin = target >> np.uint64(8), target << np.uint64(8)
    else:
        passed, origin = target << np.uint64(8), target >> np.uint64(8)
    takers = ((passed & _NOT_A) >> _ONE) | ((passed & _NOT_H) << _ONE)
    men = words[:, 6] | words[:, 7]
    off_rank = square >> np.uint64(3) != rank
    no_move = (other & passed == 0) | (men & (target | origin) != 0)
    return np.asarray(off_rank | no_move | (own & takers == 0), bool)
