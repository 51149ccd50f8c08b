"""Turns the received rows of a level into entries, and sorts the level by its visits.

An arrival is an entry of the wave like any other; its ancestors are ghosts (`messages_kernel.py`).
"""

from __future__ import annotations

from ...jit.compiler import inner
from ...jit.pointers import U, adv
from ...jit.types import Pointer, int64, uint64
from ...position.words import KEY, META
from .. import wave_kernel as wave
from ..wave_kernel import WavePointers, field, new_entry, set_field, words_of
from . import messages_kernel as m
from .messages_kernel import ShardPointers


@inner
def _ghost(W: WavePointers, X: ShardPointers, parent: int64, at: Pointer[uint64], step: int64) -> int64:
    e = X.counts[m.GHOSTS]
    X.counts[m.GHOSTS] = e + 1
    set_field(W, e, wave.PARENT, parent)
    set_field(W, e, wave.KIND, wave.GHOST)
    set_field(W, e, m.UNKEPT, int64(0))
    set_field(W, e, wave.SLOT, int64(0))  # there is no record, and prefetching ahead must see that
    s = words_of(W, e)
    s[KEY] = at[0]
    if step == m.WHOLE:
        s[META] = at[1]
        m.unpack_men(adv(at, 2), s)
    return e


@inner
def _trail(W: WavePointers, X: ShardPointers, row: Pointer[uint64], sender: int64) -> int64:
    """Creates the ghosts before an arrival; returns the latest one."""
    length, step = m.trail_of(row), X.counts[m.TRAIL]
    a = int64(-1)
    if length == 0:  # the row has no trail; this position is never read
        a = _ghost(W, X, a, row, int64(m.KEY_ONLY))
    for back in range(length):
        a = _ghost(W, X, a, adv(row, m.DOWN_WORDS + step * (length - 1 - back)), step)
    set_field(W, a, m.SENDER, sender)
    set_field(W, a, m.STUB, m.low_of(row[1]))
    set_field(W, a, m.SPENT, m.high_of(row[1]))
    return a


@inner
def _arrive(W: WavePointers, X: ShardPointers, row: Pointer[uint64], sender: int64, depth: int64) -> int64:
    """Returns the new entry of a row that another shard has sent."""
    ghost = _trail(W, X, row, sender)
    e = new_entry(W, ghost, int64(0), m.high_of(row[0]), depth)
    W.heads[depth] = field(W, e, wave.NEXT)
    set_field(W, e, wave.NEXT, X.heads[depth])
    X.heads[depth] = e
    s = words_of(W, e)
    m.unpack_men(adv(row, m.MEN), s)
    s[META] = row[2] & U((1 << m.TRAIL_SHIFT) - 1)
    s[KEY] = row[m.ROW_KEY]
    W.shares[e] = m.low_of(row[0])
    return e


@inner
def count_words_received(X: ShardPointers) -> int64:
    """Returns the words of all rows of the last step: an upper bound on the number of their ghosts."""
    words = int64(0)
    for sender in range(X.counts[m.SHARDS]):
        if sender != X.counts[m.OWN]:
            words += m.rows_from(X, int64(sender))[1]
    return words


@inner
def _arrive_from(W: WavePointers, X: ShardPointers, sender: int64) -> None:
    """Makes entries of the rows that another shard has sent; there must be room for their ghosts.

    If there is no room for an entry, its visits are dropped.
    """
    rows, words = m.rows_from(X, sender)
    at = int64(0)
    while at < words and W.counts[wave.ENTRIES] + 1 < W.capacity:
        row = adv(rows, at)
        X.order[X.counts[m.ORDERED]] = _arrive(W, X, row, sender, X.counts[m.LEVEL])
        X.counts[m.ORDERED] += 1
        at += m.DOWN_WORDS + X.counts[m.TRAIL] * m.trail_of(row)


@inner
def arrive(W: WavePointers, X: ShardPointers) -> None:
    """Makes entries of all received rows of a level, and sorts the level by its visits."""
    own = X.counts[m.ORDERED]
    for sender in range(X.counts[m.SHARDS]):
        if sender != X.counts[m.OWN]:
            _arrive_from(W, X, int64(sender))
    if X.counts[m.ORDERED] > own:
        sort_level(W, X)


@inner
def _merge_runs(W: WavePointers, a: Pointer[int64], b: Pointer[int64], n: int64) -> int64:
    """Merges pairs of neighbouring runs of `a` into `b`; returns the number of runs in `b`."""
    runs = int64(0)
    begin = int64(0)
    while begin < n:
        middle = _end_of_run(W, a, begin, n)
        end = _end_of_run(W, a, middle, n) if middle < n else int64(n)
        i = begin
        j = middle
        for k in range(begin, end):
            if j == end or (i < middle and W.shares[a[i]] <= W.shares[a[j]]):
                b[k] = a[i]
                i += 1
            else:
                b[k] = a[j]
                j += 1
        begin = end
        runs += 1
    return runs


@inner
def _end_of_run(W: WavePointers, a: Pointer[int64], begin: int64, n: int64) -> int64:
    """Returns the end of the sorted run from `begin` on."""
    end = begin + 1
    while end < n and W.shares[a[end - 1]] < W.shares[a[end]]:
        end += 1
    return end


@inner
def sort_level(W: WavePointers, X: ShardPointers) -> None:
    """Sorts the level by the numbers of its visits: each shard has sent a sorted run."""
    n = X.counts[m.ORDERED]
    runs = int64(2)
    while runs > 1:
        _merge_runs(W, X.order, X.spare, n)
        runs = _merge_runs(W, X.spare, X.order, n)
