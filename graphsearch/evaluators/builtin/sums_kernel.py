"""Sums of the rows of both sides' views, stored for each frame of a quiescence search.

After a capture few rows differ. So a frame's sums are computed from those of the nearest lower frame that has
any, by adding and subtracting rows; a view whose king has moved to another bucket is summed from scratch. The
sums are exact integers: both ways give the same, bit for bit.

    area     rows that came, rows that left | a `Seen` for each frame | sums of each frame, White's view first
"""

from __future__ import annotations

from ...jit.compiler import inner
from ...jit.pointers import adv, as_i16, as_i64
from ...jit.types import Pointer, int8, int16, int64, uint64
from ...position.words import Position
from ..quiescence.quiescence_kernel import FRAME_WORDS, FRAMES, KEPT
from .features_kernel import MOST_FEATURES, Seen, king_rows, list_features, list_men, see, turn_of
from .layout import MOST_WIDTH, VALUE_BIAS, VALUE_ROWS, VALUE_WIDTH
from .rows_kernel import rows_of, section, sum_rows

CAME, LEFT, VIEW = 0, MOST_FEATURES, 2 * MOST_FEATURES
SEEN = 3 * MOST_FEATURES
SUMS = (SEEN + 3 * FRAMES + 7) // 8 * 8
SUMS_WORDS = SUMS + FRAMES * 2 * MOST_WIDTH // 4
MOST_CHANGES = 32  # rows; with more changes, summing all rows is as fast


@inner
def seen_at(area: Pointer[uint64], ply: int64) -> Seen:
    """Returns the `Seen` of the frame at a ply."""
    at = adv(area, SEEN + 3 * ply)
    return Seen(at[0], at[1], at[2])


@inner
def keep_seen(area: Pointer[uint64], ply: int64, seen: Seen) -> None:
    """Stores the `Seen` of the frame at a ply."""
    at = adv(area, SEEN + 3 * ply)
    at[0], at[1], at[2] = seen.attacked, seen.cheaply, seen.defended


@inner
def sums_at(weights: Pointer[int64], area: Pointer[uint64], ply: int64, side: int64) -> Pointer[int16]:
    """Returns the sums of a side's view in the frame at a ply: int16[width]."""
    return as_i16(adv(area, SUMS + (2 * ply + side) * (int64(weights[VALUE_WIDTH]) >> 2)))


@inner
def change_rows(
    width: int64,
    rows: Pointer[int8],
    base: Pointer[int16],
    came: Pointer[int64],
    n: int64,
    left: Pointer[int64],
    m: int64,
    out: Pointer[int16],
) -> None:
    """Writes `base` plus n rows and minus m rows, int16[width]; takes four rows per pass."""
    both = min(n, m) & ~1
    for j in range(0, both, 2):
        a, b = adv(rows, came[j] * width), adv(rows, came[j + 1] * width)
        c, d = adv(rows, left[j] * width), adv(rows, left[j + 1] * width)
        if j == 0:
            for i in range(width):
                out[i] = base[i] + int16(a[i]) + int16(b[i]) - int16(c[i]) - int16(d[i])
        else:
            for i in range(width):
                out[i] += int16(a[i]) + int16(b[i]) - int16(c[i]) - int16(d[i])
    if both == 0:
        for i in range(width):
            out[i] = base[i]
    for j in range(both, n):
        a = adv(rows, came[j] * width)
        for i in range(width):
            out[i] += int16(a[i])
    for j in range(both, m):
        a = adv(rows, left[j] * width)
        for i in range(width):
            out[i] -= int16(a[i])


@inner
def sum_view(
    weights: Pointer[int64], s: Position, seen: Seen, side: int64, area: Pointer[uint64], out: Pointer[int16]
) -> None:
    """Writes the sums of a side's view from scratch."""
    features = as_i64(adv(area, int64(VIEW)))
    n = list_features(s, seen, side, features)
    bias = section(weights, int64(VALUE_BIAS))
    sum_rows(int64(weights[VALUE_WIDTH]), rows_of(weights, int64(VALUE_ROWS)), bias, features, n, out)


@inner
def sum_frame(
    weights: Pointer[int64], stack: Pointer[uint64], ply: int64, seen: Seen, area: Pointer[uint64]
) -> None:
    """Writes the sums of both views of the frame at a ply; the caller then sets the frame's word `KEPT`."""
    s = adv(stack, ply * FRAME_WORDS)
    keep_seen(area, ply, seen)
    below = ply - 1
    while below >= 0 and not stack[below * FRAME_WORDS + KEPT]:
        below -= 1
    base = adv(stack, max(below, int64(0)) * FRAME_WORDS)
    came, left, view = as_i64(area), as_i64(adv(area, int64(LEFT))), as_i64(adv(area, int64(VIEW)))
    n, m = int64(0), int64(MOST_CHANGES)
    if below >= 0:
        n = list_men(s, seen, base, seen_at(area, below), False, came)
        m = list_men(base, seen_at(area, below), s, seen, False, left)
    for side in range(2):
        turn = turn_of(s, side)
        if (
            n + m < MOST_CHANGES
            and turn == turn_of(base, side)
            and king_rows(s, side, turn) == king_rows(base, side, turn)
        ):
            see(s, side, came, n, view)
            see(s, side, left, m, adv(view, n))
            change_rows(
                int64(weights[VALUE_WIDTH]),
                rows_of(weights, int64(VALUE_ROWS)),
                sums_at(weights, area, below, side),
                view,
                n,
                adv(view, n),
                m,
                sums_at(weights, area, ply, side),
            )
        else:
            sum_view(weights, s, seen, side, area, sums_at(weights, area, ply, side))
