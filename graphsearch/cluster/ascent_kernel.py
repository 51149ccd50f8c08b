"""One level of the way up, at one shard: answers are heard, edges take them, and other shards are told.

    owner of a child   arrival: DONE visits, its record  --- row --->   stub   owner of the parent
                                                                         |
                                                          the edge counts them and takes the value

Within a level nothing depends on the order but what one edge takes twice; entries are applied from the last
to the first, as in one process.
"""

from __future__ import annotations

from typing import Any

from numpy import int64

from ..graph import arena_kernel as arena
from ..graph.arena_kernel import overlay_item, pointers
from ..jit.compiler import inlined, inner, kernel
from ..jit.pointers import LOW32, adv, ptr
from ..search import wave_kernel as wave
from ..search.backup_kernel import ask_for, entry_backer, expand, refresh_if_stale, take_here, take_told
from ..search.flight_kernel import land
from ..search.wave_kernel import field, set_field, wave_pointers, words_of
from .descent_kernel import clear_sizes, is_full
from .messages_kernel import (
    FIRST,
    HEADER_WORDS,
    KNOWN,
    LEVEL,
    OWN,
    SENDER,
    SETTLES,
    SHARDS,
    TOLD,
    UNKEPT,
    UP_WORDS,
    high_of,
    is_arrival,
    low_of,
    open_messages,
    shard_pointers,
    told_to,
    write_answer,
)


@inlined
def _take(A: Any, W: Any, e: Any, edge: Any, stride: Any, resets: Any) -> None:
    """Sets the value of an edge from the entry's record, or from what another shard has told."""
    if field(W, e, wave.KIND) == wave.AWAY:
        take_told(A, edge, stride, told_to(W, e), resets)
    else:
        take_here(A, W, e, edge, stride, resets)


@inner
def _remember(A: Any, W: Any, e: Any, drawn: Any, visits: Any) -> None:
    """Notes the edges of visits that only this game's history made draws, as far as this shard has them.

    `drawn`: 1 if the edge of `e` itself leads to the draw. What lies above an arrival its sender is told.
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
def _remember_draw(A: Any, W: Any, e: Any) -> None:
    _remember(A, W, e, int64(1), int64(1))


_back_up_entry = entry_backer(_take, _remember_draw)


@inlined
def _waits(W: Any, e: Any, settles: Any) -> Any:
    """Returns whether visits of an entry are to be counted now."""
    return field(W, e, wave.DONE) != 0 and not (settles and field(W, e, wave.KIND) == wave.LEAF)


@inner
def _hear_from(A: Any, W: Any, X: Any, sender: Any) -> None:
    """Notes at stubs what another shard has told."""
    for at in range(X.begins[sender] + HEADER_WORDS, X.begins[sender + 1], UP_WORDS):
        row = adv(X.inbox, at)
        e = low_of(row[0])
        set_field(W, e, wave.DONE, high_of(row[0]))
        s = words_of(W, e)
        s[TOLD] = row[1]
        s[KNOWN] = row[2] & LOW32
        unkept = high_of(row[2])
        if unkept:
            _remember(A, W, e, int64(0), unkept)


@inner
def _apply(T: Any, A: Any, W: Any, level: Any, first: Any, settles: Any) -> None:
    """Applies the entries of a level, from `first` on, to the edges that lead to them."""
    e = W.heads[level]
    while e >= first:
        ask_for(A, W, e)  # the next of a level is, as a rule, the entry before
        if _waits(W, e, settles):
            if settles:
                parent, done = field(W, e, wave.PARENT), field(W, e, wave.DONE)
                land(W, field(W, parent, wave.NODE_OR_LEAF), field(W, e, wave.EDGE), done)
            _back_up_entry(T, A, W, e)
            if settles:
                set_field(W, e, wave.DONE, int64(0))
        e = field(W, e, wave.NEXT)


@inner
def _measure(W: Any, X: Any, level: Any, first: Any, settles: Any) -> None:
    """Measures what other shards are to be told of a level's arrivals."""
    clear_sizes(X)
    e = X.heads[level]
    while e >= first:
        if _waits(W, e, settles):
            X.sizes[field(W, field(W, e, wave.PARENT), SENDER)] += UP_WORDS
        e = field(W, e, wave.NEXT)


@inner
def _tell(A: Any, W: Any, X: Any, level: Any, first: Any, settles: Any) -> None:
    """Writes what other shards are told of a level's arrivals, if the messages fit."""
    if not open_messages(W, X, is_full(A, W)):
        return
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


@kernel
def ascend(T: Any, A: Any, W: Any, X: Any) -> None:
    """Applies a level of which all was heard, or has to come from nobody; tells of the level above it.

    If only what needed no evaluation goes up, it is counted and out of flight then.
    """
    Tp, Ap, Wp, Xp = ptr(T, 0), pointers(A), wave_pointers(W, W), shard_pointers(X)
    level, first, settles = Xp.counts[LEVEL], Xp.counts[FIRST], Xp.counts[SETTLES]
    _apply(Tp, Ap, Wp, level, first, settles)
    if level > 1:
        _measure(Wp, Xp, level - 1, first, settles)
        _tell(Ap, Wp, Xp, level - 1, first, settles)


@kernel
def tell(A: Any, W: Any, X: Any) -> None:
    """Writes what `ascend` had no room for."""
    Ap, Wp, Xp = pointers(A), wave_pointers(W, W), shard_pointers(X)
    _tell(Ap, Wp, Xp, Xp.counts[LEVEL] - 1, Xp.counts[FIRST], Xp.counts[SETTLES])


@kernel
def hear(A: Any, W: Any, X: Any) -> None:
    """Notes at stubs what all other shards have told."""
    Ap, Wp, Xp = pointers(A), wave_pointers(W, W), shard_pointers(X)
    for sender in range(Xp.counts[SHARDS]):
        if sender != Xp.counts[OWN]:
            _hear_from(Ap, Wp, Xp, int64(sender))


@inner
def unkept_in(X: Any, sender: Any) -> Any:
    """Returns how many rows of a message tell of visits that the graph does not keep."""
    count = int64(0)
    for at in range(X.begins[sender] + HEADER_WORDS, X.begins[sender + 1], UP_WORDS):
        count += int64(high_of(X.inbox[at + 2]) != 0)
    return count


@kernel
def count_unkept(X: Any) -> Any:
    """Returns how many rows of all messages tell of visits that the graph does not keep."""
    Xp = shard_pointers(X)
    count = int64(0)
    for sender in range(Xp.counts[SHARDS]):
        if sender != Xp.counts[OWN]:
            count += unkept_in(Xp, int64(sender))
    return count


@kernel
def end_round(A: Any, W: Any, is_root_here: Any) -> None:
    """Counts at the root what a round has completed without an evaluation, and forgets its candidates."""
    Ap, Wp = pointers(A), wave_pointers(W, W)
    Wp.counts[wave.CANDIDATES] = 0
    Wp.counts[wave.ENDED] = 0
    Wp.counts[wave.PATH_DRAWN] = 0
    if is_root_here:
        e = Wp.counts[wave.ROUND_BEGIN]
        done = field(Wp, e, wave.DONE)
        if done and field(Wp, e, wave.KIND) != wave.LEAF:
            Wp.counts[wave.EARLY] += done
            Ap.counters[arena.VISITS] += done
            refresh_if_stale(Ap, field(Wp, e, wave.SLOT))
            set_field(Wp, e, wave.DONE, int64(0))


@kernel
def make_records(T: Any, A: Any, W: Any, evaluator: Any) -> None:
    """Makes a record of every evaluated leaf."""
    expand(ptr(T, 0), pointers(A), wave_pointers(W, W), evaluator)


@kernel
def end_wave(A: Any, W: Any) -> Any:
    """Completes the visits of a wave at its root; returns how many there were. Elsewhere there are none."""
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
