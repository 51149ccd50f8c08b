"""A wave's way up, at one shard: answers arrive, update edges, and go on to other shards.

    owner of a child   arrival: DONE visits, its record  --- row --->   stub   owner of the parent
                                                                         |
                                                          the edge counts them and takes the value

Within a level the order matters only to repeated updates of one edge; entries are applied from the last to
the first, as in one process.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...graph import arena_kernel as arena
from ...graph.arena_kernel import ArenaArrays, ArenaPointers, overlay_item, pointers
from ...jit.calls import Bound
from ...jit.compiler import inlined, inner, kernel
from ...jit.pointers import LOW32, adv, ptr
from ...jit.types import int64
from ...position.words import BoardTable
from ...store.index.locate_kernel import FilterArrays
from .. import wave_kernel as wave
from ..backup_kernel import ask_for, entry_backer, expand, refresh_if_stale, set_from_child, take_here
from ..flight_kernel import land
from ..wave_kernel import WaveArrays, WavePointers, field, set_field, wave_pointers, words_of
from .lines_kernel import open_step, talk
from .messages_kernel import (
    APPLIES,
    CODE,
    FIRST,
    HEARS,
    KNOWN,
    LEADER,
    LEVEL,
    NO_NOTES,
    OUT_IS_SMALL,
    OWN,
    SENDER,
    SETTLES,
    SHARDS,
    STAGE,
    TALKS,
    THROUGH,
    TOLD,
    UNKEPT,
    UP_WORDS,
    WANTED,
    WRITES,
    ShardArrays,
    ShardPointers,
    clear_sizes,
    high_of,
    is_arrival,
    low_of,
    rows_from,
    shard_pointers,
    summary_from_owner,
    write_answer,
)


@inlined
def _take(A: ArenaPointers, W: WavePointers, e: int64, edge: int64, stride: int64, resets: bool) -> None:
    """Updates an edge from the entry's record, or from another shard's answer."""
    if field(W, e, wave.KIND) == wave.AWAY:
        set_from_child(A, edge, stride, summary_from_owner(W, e), resets)
    else:
        take_here(A, W, e, edge, stride, resets)


@inner
def _remember(A: ArenaPointers, W: WavePointers, e: int64, drawn: int64, visits: int64) -> None:
    """Adds the edges of visits that only this game's history made draws to the overlay, as far as this shard
    has them.

    `drawn`: 1 if the edge of `e` itself leads to the draw. The part above an arrival is sent to its sender.
    """
    a = int64(e)
    while not is_arrival(W, a) and field(W, a, wave.PARENT) >= 0:
        parent = field(W, a, wave.PARENT)
        i = A.counters[arena.OVERLAY_LENGTH]
        A.overlay[2 * i] = overlay_item(field(W, parent, wave.SLOT), field(W, a, wave.EDGE), drawn)
        A.overlay[2 * i + 1] = visits
        A.counters[arena.OVERLAY_LENGTH] = i + 1
        drawn = int64(0)
        a = parent
    if is_arrival(W, a):
        ghost = field(W, a, wave.PARENT)
        set_field(W, ghost, UNKEPT, field(W, ghost, UNKEPT) + visits)


@inlined
def _remember_draw(A: ArenaPointers, W: WavePointers, e: int64) -> None:
    _remember(A, W, e, int64(1), int64(1))


_back_up_entry = entry_backer(_take, _remember_draw)


@inlined
def _waits(W: WavePointers, e: int64, settles: int64) -> bool:
    """Returns whether visits of an entry are to be counted now."""
    return field(W, e, wave.DONE) != 0 and not (settles and field(W, e, wave.KIND) == wave.LEAF)


@inner
def _hear_from(A: ArenaPointers, W: WavePointers, X: ShardPointers, sender: int64) -> None:
    """Writes the answers of another shard to their stubs."""
    rows, words = rows_from(X, sender)
    for at in range(0, words, UP_WORDS):
        row = adv(rows, at)
        e = low_of(row[0])
        set_field(W, e, wave.DONE, high_of(row[0]))
        s = words_of(W, e)
        s[TOLD] = row[1]
        s[KNOWN] = row[2] & LOW32
        unkept = high_of(row[2])
        if unkept:
            _remember(A, W, e, int64(0), unkept)


@inner
def _hear(A: ArenaPointers, W: WavePointers, X: ShardPointers) -> None:
    """Writes the answers of all other shards to their stubs."""
    for sender in range(X.counts[SHARDS]):
        if sender != X.counts[OWN]:
            _hear_from(A, W, X, int64(sender))


@inner
def _notes_that_came(A: ArenaPointers, X: ShardPointers) -> int64:
    """Returns the overlay notes that all messages may need: for visits made draws by the game alone."""
    rows_that_note = int64(0)
    if A.history_size:
        for sender in range(X.counts[SHARDS]):
            if sender != X.counts[OWN]:
                rows, words = rows_from(X, int64(sender))
                for at in range(0, words, UP_WORDS):
                    rows_that_note += int64(high_of(rows[at + 2]) != 0)
    return rows_that_note * wave.MAX_PLIES


@inner
def _apply(
    T: BoardTable, A: ArenaPointers, W: WavePointers, level: int64, first: int64, settles: int64
) -> None:
    """Applies the entries of a level, from `first` on, to the edges that lead to them."""
    e = W.heads[level]
    while e >= first:
        ask_for(A, W, e)  # the next of a level is usually the entry before
        if _waits(W, e, settles):
            if settles:
                parent, done = field(W, e, wave.PARENT), field(W, e, wave.DONE)
                land(W, field(W, parent, wave.NODE_OR_LEAF), field(W, e, wave.EDGE), done)
            _back_up_entry(T, A, W, e)
            if settles:
                set_field(W, e, wave.DONE, int64(0))
        e = field(W, e, wave.NEXT)


@inner
def _measure(W: WavePointers, X: ShardPointers, level: int64, first: int64, settles: int64) -> None:
    """Measures the answers for a level's arrivals."""
    clear_sizes(X)
    e = X.heads[level]
    while e >= first:
        if _waits(W, e, settles):
            X.sizes[field(W, field(W, e, wave.PARENT), SENDER)] += UP_WORDS
        e = field(W, e, wave.NEXT)


@inner
def _tell(
    A: ArenaPointers, W: WavePointers, X: ShardPointers, level: int64, first: int64, settles: int64
) -> None:
    """Writes the answers for a level's arrivals."""
    e = X.heads[level]
    while e >= first:
        ask_for(A, W, e)
        if _waits(W, e, settles):
            sender = field(W, field(W, e, wave.PARENT), SENDER)
            write_answer(A, W, e, adv(X.out, X.places[sender]))
            X.places[sender] += UP_WORDS
            if settles:
                set_field(W, e, wave.DONE, int64(0))
        e = field(W, e, wave.NEXT)


@inner
def _ascend(T: BoardTable, A: ArenaPointers, W: WavePointers, X: ShardPointers, E: Bound) -> int64:
    """Continues the way up; returns THROUGH when the root's edges are done, else the reason for waiting."""
    counts = X.counts
    first, settles = counts[FIRST], counts[SETTLES]
    while True:
        level = counts[LEVEL]
        if counts[STAGE] == APPLIES:
            _apply(T, A, W, level, first, settles)
            if level <= 1:
                return int64(THROUGH)
            _measure(W, X, level - 1, first, settles)
            counts[STAGE] = WRITES
        elif counts[STAGE] == WRITES:
            if not open_step(A, W, X):
                return int64(OUT_IS_SMALL)
            _tell(A, W, X, level - 1, first, settles)
            counts[STAGE] = TALKS
        elif counts[STAGE] == TALKS:
            code = talk(X, E)
            if code != THROUGH:
                return code
            counts[LEVEL] = level - 1
            counts[STAGE] = HEARS
        else:
            counts[WANTED] = _notes_that_came(A, X)
            if A.counters[arena.OVERLAY_LENGTH] + counts[WANTED] > A.overlay_size:
                return int64(NO_NOTES)
            _hear(A, W, X)
            counts[STAGE] = APPLIES


@kernel
def ascend(
    T: NDArray[np.uint64],
    A: ArenaArrays,
    W: WaveArrays,
    B: WaveArrays,
    F: FilterArrays,
    X: ShardArrays,
    E: Bound,
) -> None:
    """Backs visits up, from the level `LEVEL` to the root; `CODE` is the state.

    With `SETTLES` only visits without an evaluation go up; they are counted and taken out of flight. Unless
    the code is THROUGH, call it again when the awaited message has arrived.
    """
    Ap, Wp, Xp = pointers(A), wave_pointers(W, B), shard_pointers(X)
    Xp.counts[CODE] = _ascend(ptr(T, 0), Ap, Wp, Xp, E)


@kernel
def end_round(
    T: NDArray[np.uint64],
    A: ArenaArrays,
    W: WaveArrays,
    B: WaveArrays,
    F: FilterArrays,
    X: ShardArrays,
    E: Bound,
) -> None:
    """Counts the visits of a round without an evaluation at the root, and forgets its candidates."""
    Ap, Wp, Xp = pointers(A), wave_pointers(W, B), shard_pointers(X)
    Wp.counts[wave.CANDIDATES] = 0
    Wp.counts[wave.ENDED] = 0
    Wp.counts[wave.PATH_DRAWN] = 0
    if Xp.counts[OWN] == Xp.counts[LEADER]:
        e = Wp.counts[wave.ROUND_BEGIN]
        done = field(Wp, e, wave.DONE)
        if done and field(Wp, e, wave.KIND) != wave.LEAF:
            Wp.counts[wave.EARLY] += done
            Ap.counters[arena.VISITS] += done
            refresh_if_stale(Ap, field(Wp, e, wave.SLOT))
            set_field(Wp, e, wave.DONE, int64(0))


@kernel
def make_records(T: NDArray[np.uint64], A: ArenaArrays, W: WaveArrays, evaluator: int64) -> None:
    """Makes a record of every evaluated leaf."""
    expand(ptr(T, 0), pointers(A), wave_pointers(W, W), evaluator)


@kernel
def end_wave(A: ArenaArrays, W: WaveArrays) -> int64:
    """Completes the visits of a wave at its root; returns their number. Elsewhere there are none."""
    Ap, Wp = pointers(A), wave_pointers(W, W)
    completed = int64(0)
    e = Wp.heads[0]
    while e >= 0:
        completed += field(Wp, e, wave.DONE)
        if field(Wp, e, wave.SLOT):
            refresh_if_stale(Ap, field(Wp, e, wave.SLOT))
        e = field(Wp, e, wave.NEXT)
    Ap.counters[arena.VISITS] += completed
    return completed + Wp.counts[wave.EARLY]
