"""The backup of a wave at one shard: answers arrive, update edges, and go on to other shards.

    owner of a child   arrival: DONE visits, its record  --- row --->   stub   owner of the parent
                                                                         |
                                                          the edge counts them and takes the value

Within a level the order matters only for repeated updates of one edge; entries are applied from the last to
the first, as in one process.
"""

from __future__ import annotations

from ...graph import arena_kernel as arena
from ...graph.arena_kernel import ArenaArrays, ArenaPointers, pointers
from ...jit.calls import Bound
from ...jit.compiler import inlined, inner, kernel
from ...jit.pointers import LOW32, adv, ptr
from ...jit.types import int64
from ...position.board import Words
from ...position.words import BoardTable
from ...store.index.locate_kernel import FilterArrays
from .. import wave_kernel as wave
from ..backup_kernel import (
    add_to_overlay,
    ask_for,
    complete_roots,
    entry_backer,
    expand,
    refresh_if_stale,
    set_from_child,
    set_from_record,
)
from ..flight_kernel import land
from ..wave_kernel import WaveArrays, WavePointers, field, is_arrival, set_field, wave_pointers, words_of
from . import messages_kernel as m
from .connections_kernel import finish_step, open_step
from .messages_kernel import ShardArrays, ShardPointers


@inlined
def _set_from_child(
    A: ArenaPointers, W: WavePointers, e: int64, edge: int64, stride: int64, resets: bool
) -> None:
    """Updates an edge from the entry's record, or from another shard's answer."""
    if field(W, e, wave.KIND) == wave.AWAY:
        set_from_child(A, edge, stride, m.summary_from_owner(W, e), resets)
    else:
        set_from_record(A, W, e, edge, stride, resets)


@inner
def _add_to_overlay(A: ArenaPointers, W: WavePointers, e: int64, drawn: int64, visits: int64) -> None:
    """Adds this shard's edges as `add_to_overlay`; the answer of an arrival has its sender add the rest."""
    first = add_to_overlay(A, W, e, drawn, visits)
    if is_arrival(W, first):
        ghost = field(W, first, wave.PARENT)
        set_field(W, ghost, m.UNKEPT, field(W, ghost, m.UNKEPT) + visits)


_back_up_entry = entry_backer(_set_from_child, _add_to_overlay)


@inlined
def _waits(W: WavePointers, e: int64, settles: int64) -> bool:
    """Returns whether an entry has visits to count now."""
    return field(W, e, wave.DONE) != 0 and not (settles and field(W, e, wave.KIND) == wave.LEAF)


@inner
def _read_answers_from(A: ArenaPointers, W: WavePointers, X: ShardPointers, sender: int64) -> None:
    """Writes the answers of another shard to their stubs."""
    rows, words = m.rows_from(X, sender)
    for at in range(0, words, m.UP_WORDS):
        row = adv(rows, at)
        e = m.low_of(row[0])
        set_field(W, e, wave.DONE, m.high_of(row[0]))
        s = words_of(W, e)
        s[m.ANSWER] = row[1]
        s[m.KNOWN] = row[2] & LOW32
        unkept = m.high_of(row[2])
        if unkept:
            _add_to_overlay(A, W, e, int64(0), unkept)


@inner
def _read_answers(A: ArenaPointers, W: WavePointers, X: ShardPointers) -> None:
    """Writes the answers of all other shards to their stubs."""
    for sender in range(X.counts[m.SHARDS]):
        if sender != X.counts[m.OWN]:
            _read_answers_from(A, W, X, int64(sender))


@inner
def _count_notes_received(A: ArenaPointers, X: ShardPointers) -> int64:
    """Returns the number of overlay notes that all messages may need, for draws by the game's history."""
    rows_that_note = int64(0)
    if A.history_size:
        for sender in range(X.counts[m.SHARDS]):
            if sender != X.counts[m.OWN]:
                rows, words = m.rows_from(X, int64(sender))
                for at in range(0, words, m.UP_WORDS):
                    rows_that_note += int64(m.high_of(rows[at + 2]) != 0)
    return rows_that_note * wave.MAX_PLIES


@inner
def _apply(
    T: BoardTable, A: ArenaPointers, W: WavePointers, level: int64, first: int64, settles: int64
) -> None:
    """Applies the entries of a level, from `first` on, to the edges that lead to them."""
    e = W.heads[level]
    while e >= first:
        ask_for(A, W, e)  # the next entry of a level is usually e - 1
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
    m.clear_sizes(X)
    e = X.heads[level]
    while e >= first:
        if _waits(W, e, settles):
            X.sizes[field(W, field(W, e, wave.PARENT), m.SENDER)] += m.UP_WORDS
        e = field(W, e, wave.NEXT)


@inner
def _write_answers(
    A: ArenaPointers, W: WavePointers, X: ShardPointers, level: int64, first: int64, settles: int64
) -> None:
    """Writes the answers for a level's arrivals."""
    e = X.heads[level]
    while e >= first:
        ask_for(A, W, e)
        if _waits(W, e, settles):
            sender = field(W, field(W, e, wave.PARENT), m.SENDER)
            m.write_answer(A, W, e, adv(X.out, X.places[sender]))
            X.places[sender] += m.UP_WORDS
            if settles:
                set_field(W, e, wave.DONE, int64(0))
        e = field(W, e, wave.NEXT)


@inner
def _ascend(T: BoardTable, A: ArenaPointers, W: WavePointers, X: ShardPointers, E: Bound) -> int64:
    """Continues the backup; returns THROUGH when the root's edges are done, else the reason for waiting."""
    counts = X.counts
    first, settles = counts[m.FIRST], counts[m.SETTLES]
    while True:
        level = counts[m.LEVEL]
        if counts[m.STAGE] == m.APPLIES:
            _apply(T, A, W, level, first, settles)
            if level <= 1:
                return int64(m.THROUGH)
            _measure(W, X, level - 1, first, settles)
            counts[m.STAGE] = m.WRITES
        elif counts[m.STAGE] == m.WRITES:
            if not open_step(A, W, X):
                return int64(m.OUT_IS_SMALL)
            _write_answers(A, W, X, level - 1, first, settles)
            counts[m.STAGE] = m.EXCHANGES
        elif counts[m.STAGE] == m.EXCHANGES:
            code = finish_step(X, E)
            if code != m.THROUGH:
                return code
            counts[m.LEVEL] = level - 1
            counts[m.STAGE] = m.READS
        else:
            counts[m.WANTED] = _count_notes_received(A, X)
            if A.counters[arena.OVERLAY_LENGTH] + counts[m.WANTED] > A.overlay_size:
                return int64(m.NO_NOTES)
            _read_answers(A, W, X)
            counts[m.STAGE] = m.APPLIES


@kernel
def ascend(
    T: Words, A: ArenaArrays, W: WaveArrays, B: WaveArrays, F: FilterArrays, X: ShardArrays, E: Bound
) -> None:
    """Backs visits up, from the level `LEVEL` to the root; `CODE` is the state.

    With `SETTLES` only visits without an evaluation go up; they are counted and taken out of flight. Unless
    the code is THROUGH, call it again when the awaited message has arrived.
    """
    Ap, Wp, Xp = pointers(A), wave_pointers(W, B), m.shard_pointers(X)
    Xp.counts[m.CODE] = _ascend(ptr(T, 0), Ap, Wp, Xp, E)


@kernel
def end_round(
    T: Words, A: ArenaArrays, W: WaveArrays, B: WaveArrays, F: FilterArrays, X: ShardArrays, E: Bound
) -> None:
    """Counts a round's visits without an evaluation at the root, and drops its candidates."""
    Ap, Wp, Xp = pointers(A), wave_pointers(W, B), m.shard_pointers(X)
    Wp.counts[wave.CANDIDATES] = 0
    Wp.counts[wave.ENDED] = 0
    Wp.counts[wave.PATH_DRAWN] = 0
    if Xp.counts[m.OWN] == Xp.counts[m.LEADER]:
        e = Wp.counts[wave.ROUND_BEGIN]
        done = field(Wp, e, wave.DONE)
        if done and field(Wp, e, wave.KIND) != wave.LEAF:
            Wp.counts[wave.EARLY] += done
            Ap.counters[arena.VISITS] += done
            refresh_if_stale(Ap, field(Wp, e, wave.SLOT))
            set_field(Wp, e, wave.DONE, int64(0))


@kernel
def make_records(T: Words, A: ArenaArrays, W: WaveArrays, evaluator: int64) -> None:
    """Creates a record for every evaluated leaf."""
    expand(ptr(T, 0), pointers(A), wave_pointers(W, W), evaluator)


@kernel
def end_wave(A: ArenaArrays, W: WaveArrays) -> int64:
    """Completes the visits of a wave at its root; returns their number, 0 at other shards."""
    return complete_roots(pointers(A), wave_pointers(W, W))
