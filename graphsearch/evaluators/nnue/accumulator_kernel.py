"""Accumulators: the sums of the rows of all features, one for each side's view.

The accumulators of a position are two, White's view first, each `row_words` long. They are exact integers:
what is updated move by move equals what is summed anew, bit for bit.

Behind a king's move the side's view is another one. `refresh_view` then begins with the board that it saw the
last time with that king on that square, and its accumulator: boards of one search differ by few men.

    area     2 lists of men | each ply's accumulators | for each king's square a board, an accumulator
"""

from __future__ import annotations

from ...jit.compiler import inner
from ...jit.pointers import ZERO, U, adv, as_i16, as_i32, as_i64
from ...jit.types import Pointer, int64, uint64
from ...position.words import KINGS, META, Position
from ..quiescence.quiescence_kernel import FRAME_WORDS, FRAMES, KEPT
from .features_kernel import feature_of, king_of, list_men, view_of
from .layout import EMPTY_BOARD, NOTHING, ROW_WORDS, ROWS_AT, STACKS, WIDTH

BOARD_WORDS = META  # what features depend on
GONE = 32  # where in a list the men that left begin
LIST_WORDS = 64
LISTS_WORDS = 2 * LIST_WORDS  # of `refresh_view` and `accumulate`
SEEN = U(1)  # of a frame: its accumulators are there


@inner
def row_at(weights: Pointer[int64], feature: int64) -> Pointer[int64]:
    """Returns a feature's row."""
    return adv(weights, weights[ROWS_AT] + feature * weights[ROW_WORDS])


@inner
def move_row(
    width: int64, out: Pointer[int64], base: Pointer[int64], more: Pointer[int64], less: Pointer[int64]
) -> None:
    """Writes another accumulator plus a row and minus a row: what most moves are."""
    o, b, m, n = as_i16(out), as_i16(base), as_i16(more), as_i16(less)
    for i in range(width):
        o[i] = b[i] + m[i] - n[i]
    at = width >> 2
    p, c, q, r = as_i32(adv(out, at)), as_i32(adv(base, at)), as_i32(adv(more, at)), as_i32(adv(less, at))
    for i in range(STACKS):
        p[i] = c[i] + q[i] - r[i]


@inner
def start_rows(
    width: int64,
    out: Pointer[int64],
    base: Pointer[int64],
    more: Pointer[int64],
    more2: Pointer[int64],
    less: Pointer[int64],
    less2: Pointer[int64],
) -> None:
    """Writes another accumulator plus two rows and minus two rows."""
    o, b = as_i16(out), as_i16(base)
    m, m2, n, n2 = as_i16(more), as_i16(more2), as_i16(less), as_i16(less2)
    for i in range(width):
        o[i] = b[i] + m[i] + m2[i] - n[i] - n2[i]
    at = width >> 2
    p, c = as_i32(adv(out, at)), as_i32(adv(base, at))
    q, q2, r, r2 = (
        as_i32(adv(more, at)),
        as_i32(adv(more2, at)),
        as_i32(adv(less, at)),
        as_i32(adv(less2, at)),
    )
    for i in range(STACKS):
        p[i] = c[i] + q[i] + q2[i] - r[i] - r2[i]


@inner
def add_rows(
    width: int64,
    out: Pointer[int64],
    more: Pointer[int64],
    more2: Pointer[int64],
    less: Pointer[int64],
    less2: Pointer[int64],
) -> None:
    """Adds two rows to an accumulator and takes two away.

    Not `start_rows` with `out` for `base`: where the two overlap, the compiler's code uses no vectors.
    """
    o = as_i16(out)
    m, m2, n, n2 = as_i16(more), as_i16(more2), as_i16(less), as_i16(less2)
    for i in range(width):
        o[i] += m[i] + m2[i] - n[i] - n2[i]
    at = width >> 2
    p = as_i32(adv(out, at))
    q, q2, r, r2 = (
        as_i32(adv(more, at)),
        as_i32(adv(more2, at)),
        as_i32(adv(less, at)),
        as_i32(adv(less2, at)),
    )
    for i in range(STACKS):
        p[i] += q[i] + q2[i] - r[i] - r2[i]


@inner
def row_of_man(
    weights: Pointer[int64], men: Pointer[int64], i: int64, n: int64, side: int64, turn: int64, first: int64
) -> Pointer[int64]:
    """Returns the row of man i of n in a side's view, and behind the last one the row that adds nothing."""
    return row_at(weights, feature_of(men[i], side, turn, first) if i < n else int64(NOTHING))


@inner
def change_view(
    weights: Pointer[int64],
    out: Pointer[int64],
    base: Pointer[int64],
    s: Position,
    side: int64,
    men: Pointer[int64],
    come: int64,
    gone: int64,
) -> None:
    """Writes a side's accumulator of a position: that of another one, the men that came and those that left.

    Args:
      out, base: accumulators, not the same one.
      men: int64[LIST_WORDS]: `come` men at its beginning, `gone` men at GONE.
    """
    turn, first = view_of(king_of(s, side), side)
    left = adv(men, GONE)
    i = int64(0)
    if come == 1 and gone == 1:
        more = row_of_man(weights, men, i, come, side, turn, first)
        move_row(weights[WIDTH], out, base, more, row_of_man(weights, left, i, gone, side, turn, first))
        return
    while i == 0 or i < come or i < gone:
        more = row_of_man(weights, men, i, come, side, turn, first)
        more2 = row_of_man(weights, men, i + 1, come, side, turn, first)
        less = row_of_man(weights, left, i, gone, side, turn, first)
        less2 = row_of_man(weights, left, i + 1, gone, side, turn, first)
        if i == 0:
            start_rows(weights[WIDTH], out, base, more, more2, less, less2)
        else:
            add_rows(weights[WIDTH], out, more, more2, less, less2)
        i += 2


@inner
def copy_row(weights: Pointer[int64], source: Pointer[int64], target: Pointer[int64]) -> None:
    """Copies an accumulator."""
    for i in range(weights[ROW_WORDS]):
        target[i] = source[i]


@inner
def refresh_view(
    weights: Pointer[int64], out: Pointer[int64], s: Position, side: int64, area: Pointer[uint64]
) -> None:
    """Writes a side's accumulator of a position, from the last one with its king there."""
    words = int64(weights[ROW_WORDS])
    at = LISTS_WORDS + FRAMES * 2 * words + (side * 64 + king_of(s, side)) * (BOARD_WORDS + words)
    board = adv(area, at)
    kept = as_i64(adv(board, int64(BOARD_WORDS)))
    if board[KINGS] == ZERO:  # the first time: an empty board
        copy_row(weights, row_at(weights, int64(EMPTY_BOARD)), kept)
    men = as_i64(area)
    come, gone = list_men(s, board, men), list_men(board, s, adv(men, GONE))
    change_view(weights, out, kept, s, side, men, come, gone)
    copy_row(weights, out, kept)
    for i in range(BOARD_WORDS):
        board[i] = s[i]


@inner
def accumulator_at(weights: Pointer[int64], area: Pointer[uint64], ply: int64, side: int64) -> Pointer[int64]:
    """Returns a side's accumulator of the frame at a ply."""
    return as_i64(adv(area, LISTS_WORDS + (2 * ply + side) * int64(weights[ROW_WORDS])))


@inner
def accumulate(weights: Pointer[int64], stack: Pointer[uint64], ply: int64, area: Pointer[uint64]) -> None:
    """Makes the accumulators of the frame at a ply, if they are missing, from the nearest frame below."""
    below = ply
    while below >= 0 and stack[below * FRAME_WORDS + KEPT] != SEEN:
        below -= 1
    if below == ply:
        return
    s, base = adv(stack, ply * FRAME_WORDS), adv(stack, max(below, int64(0)) * FRAME_WORDS)
    men = as_i64(adv(area, int64(LIST_WORDS)))
    come, gone = list_men(s, base, men), list_men(base, s, adv(men, GONE))
    for side in range(2):
        out = accumulator_at(weights, area, ply, side)
        if below >= 0 and king_of(s, side) == king_of(base, side):
            change_view(weights, out, accumulator_at(weights, area, below, side), s, side, men, come, gone)
        else:
            refresh_view(weights, out, s, side, area)
    s[KEPT] = SEEN
