"""Accumulators: the sums of the rows of a position's features, one sum for each side's view.

A position has two accumulators, White's view first, each `row_words` long. They are exact integers: an
accumulator updated move by move equals a fresh sum, bit for bit.

A king's move changes all features of its side's view. `refresh_view` then starts from the last board with
that king on that square, and its accumulator: the boards of one search differ by few men.

    area     2 lists of men | each ply's accumulators | a board and an accumulator for each side's king square

A feature is the index of a row (HalfKAv2_hm): a man on its square, combined with the own king's square. In
Black's view the ranks are mirrored; in both views the files are, so that the own king stands on e to h.

    704 * bucket of the own king (32) + 64 * kind, own and theirs in turn (11; kings are one kind) + square
"""

from __future__ import annotations

from ...jit.compiler import inlined, inner
from ...jit.pointers import ONE, ZERO, U, adv, as_i16, as_i32, as_i64, ctz
from ...jit.types import Pointer, int64, uint64
from ...position.words import KINGS, META, WHITE, Position
from ..quiescence.quiescence_kernel import FRAME_WORDS, FRAMES, KEPT
from .layout import EMPTY_BOARD, NOTHING, PIECE_SQUARES, ROW_WORDS, ROWS_AT, STACKS, WIDTH


@inlined
def king_of(s: Position, side: int64) -> int64:
    """Returns the square of a side's king."""
    return ctz(s[KINGS] & s[WHITE + side])


@inlined
def view_of(king: int64, side: int64) -> tuple[int64, int64]:
    """Returns the view of a side by its king's square: the XOR mask for squares, and the first feature."""
    file = king & 7
    mirror = 7 if file < 4 else 0
    rank = (king >> 3) if side else 7 - (king >> 3)
    return mirror | (56 * side), (rank * 4 + (file ^ mirror ^ 7)) * PIECE_SQUARES


@inlined
def feature_of(man: int64, side: int64, turn: int64, first: int64) -> int64:
    """Returns the feature of a man in a side's view.

    Args:
      man: square | colour << 6 | kind << 7.
      turn, first: the side's `view_of`.
    """
    kind = man >> 7
    theirs = ((man >> 6) & 1) ^ side
    return first + kind * 128 + (0 if kind == KINGS else theirs * 64) + ((man & 63) ^ turn)


@inner
def list_men(board: Position, other: Pointer[uint64], out: Pointer[int64]) -> int64:
    """Writes the men of `board` that `other` does not have on the same squares; returns their number.

    Args:
      board, other: positions; only the first 8 words are read.
      out: int64[32] out: square | colour << 6 | kind << 7 of each.
    """
    n = int64(0)
    for kind in range(6):
        for colour in range(2):
            men = board[kind] & board[WHITE + colour] & ~(other[kind] & other[WHITE + colour])
            while men:
                out[n] = ctz(men) | (colour << 6) | (kind << 7)
                n += 1
                men &= men - ONE
    return n


BOARD_WORDS = META  # the words of a position that features depend on
GONE = 32  # offset in a list of the men that left
LIST_WORDS = 64
LISTS_WORDS = 2 * LIST_WORDS  # one for `refresh_view`, one for `accumulate`
SEEN = U(1)  # KEPT of a frame with valid accumulators


@inner
def row_at(weights: Pointer[int64], feature: int64) -> Pointer[int64]:
    """Returns a feature's row."""
    return adv(weights, weights[ROWS_AT] + feature * weights[ROW_WORDS])


@inner
def move_row(
    width: int64, out: Pointer[int64], base: Pointer[int64], more: Pointer[int64], less: Pointer[int64]
) -> None:
    """Writes `base` plus one row and minus one row; most moves need just this."""
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
    """Writes `base` plus two rows and minus two rows."""
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
    """Adds two rows to an accumulator and subtracts two.

    It is separate from `start_rows` because with `out` as `base` the compiler does not vectorize the loop.
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
    """Returns the row of man i of n in a side's view; for i >= n, the row of zeros."""
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
    """Writes a side's accumulator of a position: `base`, plus the men that came, minus those that left.

    Args:
      out, base: two different accumulators.
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
    """Copies an accumulator or a row."""
    for i in range(weights[ROW_WORDS]):
        target[i] = source[i]


@inner
def refresh_view(
    weights: Pointer[int64], out: Pointer[int64], s: Position, side: int64, area: Pointer[uint64]
) -> None:
    """Writes a side's accumulator of a position, from the last one with its king on that square."""
    words = int64(weights[ROW_WORDS])
    at = LISTS_WORDS + FRAMES * 2 * words + (side * 64 + king_of(s, side)) * (BOARD_WORDS + words)
    board = adv(area, at)
    kept = as_i64(adv(board, int64(BOARD_WORDS)))
    if board[KINGS] == ZERO:  # first use: start from the empty board
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
    """Computes missing accumulators of the frame at a ply, from the nearest lower frame that has them."""
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
