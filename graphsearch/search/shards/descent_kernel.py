"""The descent of a wave at one shard: level by level, it passes entries on and sorts children by owner.

    order   e1 e4 e2 ...   entries of the level whose positions this shard owns, by the number of their
              |             first visit: the order of the search in one process, whatever the shards
              v
    wave    .. | children   own ones make the next level | others go to their owners (AWAY) | draws of the
                            path end here, because the path is known here

A child's number is its parent's number plus the visits of the children before it. So the numbers of a level
differ, and sorting by them needs no communication.
"""

from __future__ import annotations

from ...graph.arena_kernel import ArenaArrays, ArenaPointers, pointers
from ...jit.calls import Bound
from ...jit.compiler import inlined, inner, kernel
from ...jit.pointers import adv, ptr
from ...jit.types import int64
from ...position.board import Words
from ...position.words import BoardTable
from ...store.index.locate_kernel import FilterArrays, FilterPointers, filter_pointers
from .. import wave_kernel as wave
from ..backup_kernel import is_over
from ..gatherers.flow_kernel import pass_on, share_of
from ..gatherers.levels_kernel import admit_in_order, end_at_record, level_passer, spent_over, start_round
from ..paths_kernel import ends_by_path, locate
from ..wave_kernel import (
    WaveArrays,
    WavePointers,
    field,
    is_arrival,
    set_field,
    size_hash,
    wave_pointers,
    words_of,
)
from ..waves_kernel import begin_wave, has_space
from . import messages_kernel as m
from .arrivals_kernel import arrive, count_words_received
from .connections_kernel import finish_step, open_step
from .messages_kernel import ShardArrays, ShardPointers

NUMBER_BITS, DEPTH_BITS = 31, 9  # of a candidate's key: its place; the first one of a round is largest
PLACE_BITS = NUMBER_BITS + DEPTH_BITS
MOST_ASKED, LAST_PLACE = (1 << 23) - 1, (1 << PLACE_BITS) - 1
EVERY_LEAF = 1 << 60  # a target that is never reached


@kernel
def begin(A: ArenaArrays, W: WaveArrays, B: WaveArrays, X: ShardArrays, target: int64) -> bool:
    """Empties the wave for a batch of `target` leaves; returns False if the arena has no space for one.

    `B` is the wave that is in flight before it, or an empty one.
    """
    Ap, Wp = pointers(A), wave_pointers(W, B)
    if not has_space(Ap, target + Wp.before_counts[wave.LEAVES]):
        return False
    begin_wave(Ap, Wp, int64(target))
    size_hash(Wp, target)
    heads = ptr(X.heads, 0)
    for depth in range(len(X.heads)):
        heads[depth] = -1
    return True


@kernel
def begin_round(
    T: Words, A: ArenaArrays, W: WaveArrays, B: WaveArrays, F: FilterArrays, X: ShardArrays, E: Bound
) -> None:
    """Begins a round; the root's owner puts the visits at the root."""
    Wp, Xp = wave_pointers(W, B), m.shard_pointers(X)
    Wp.counts[wave.ROUND_BEGIN] = Wp.counts[wave.ENTRIES]
    Xp.counts[m.ORDERED] = 0
    Xp.counts[m.LEVEL] = 0
    Xp.counts[m.STAGE] = m.LOOKS_UP
    if Xp.counts[m.OWN] == Xp.counts[m.LEADER]:
        start_round(Wp, Xp.root, Xp.counts[m.BUDGET], int64(0))
        Xp.order[0] = Wp.counts[wave.ROUND_BEGIN]
        Xp.counts[m.ORDERED] = 1


@inlined
def _entry_at(X: ShardPointers, i: int64) -> int64:
    return X.order[i]


@inlined
def _end_at_record(T: BoardTable, A: ArenaPointers, W: WavePointers, e: int64) -> int64:
    """Ends an entry as `end_at_record`; the sender of an arrival knows the visits over its edge."""
    arrived = is_arrival(W, e)
    spent = field(W, field(W, e, wave.PARENT), m.SPENT) if arrived else spent_over(A, W, e)
    return end_at_record(T, A, W, e, spent)


@inlined
def _pass_on(T: BoardTable, A: ArenaPointers, W: WavePointers, e: int64) -> None:
    """Splits an entry's visits as `pass_on`, and numbers its children by their first visits."""
    first = W.counts[wave.ENTRIES]
    pass_on(T, A, W, e)
    number = W.shares[e]
    for child in range(first, W.counts[wave.ENTRIES]):
        W.shares[child] = number
        number += field(W, child, wave.ASKED)


@inner
def _list_candidate(T: BoardTable, A: ArenaPointers, W: WavePointers, e: int64, X: ShardPointers) -> None:
    """Lists an entry with an unknown position as a candidate, with its sort key."""
    n = W.counts[wave.CANDIDATES]
    place = (field(W, e, wave.DEPTH) << NUMBER_BITS) | W.shares[e]
    W.candidates[n] = (min(field(W, e, wave.ASKED), int64(MOST_ASKED)) << PLACE_BITS) | (LAST_PLACE - place)
    X.candidates[n] = e
    W.counts[wave.CANDIDATES] = n + 1


_look_up_level, _pass_level = level_passer(_entry_at, _end_at_record, _list_candidate, _pass_on)


@inner
def _list_next_level(T: BoardTable, A: ArenaPointers, W: WavePointers, X: ShardPointers) -> None:
    """Lists the children that this shard owns as the next level, and measures the messages to the others."""
    m.clear_sizes(X)
    n = int64(0)
    rows = int64(0)
    for e in range(X.counts[m.FIRST_CHILD], W.counts[wave.ENTRIES]):
        if ends_by_path(T, A, W, int64(e)):
            continue
        owner = m.owner_of(T, X, words_of(W, e))
        if owner == X.counts[m.OWN]:
            X.order[n] = e
            n += 1
        else:
            set_field(W, e, wave.KIND, wave.AWAY)
            set_field(W, e, wave.NODE_OR_LEAF, owner)
            X.sizes[owner] += m.row_words(W, X, e)
            X.spare[rows] = e
            rows += 1
    X.counts[m.ORDERED] = n
    X.counts[m.ROWS] = rows
    X.counts[m.MORE] = n + rows
    X.tallies[m.T_ROWS] += rows


@inner
def _count_level(W: WavePointers, X: ShardPointers) -> None:
    """Adds a level to the tallies of entries and visits."""
    X.tallies[m.T_ENTRIES] += X.counts[m.ORDERED]
    for i in range(X.counts[m.ORDERED]):
        X.tallies[m.T_VISITS] += field(W, X.order[i], wave.ASKED)


@inner
def _write_rows(A: ArenaPointers, W: WavePointers, X: ShardPointers) -> None:
    """Writes the rows of the children of a level that other shards own."""
    for i in range(X.counts[m.ROWS]):
        e = X.spare[i]
        owner = field(W, e, wave.NODE_OR_LEAF)
        X.places[owner] += m.write_row(W, X, e, spent_over(A, W, e), adv(X.out, X.places[owner]))


@inner
def _descend(
    T: BoardTable, A: ArenaPointers, W: WavePointers, F: FilterPointers, X: ShardPointers, E: Bound
) -> int64:
    """Continues a round; returns THROUGH when no shard has a next level, else the reason for waiting."""
    counts = X.counts
    while True:
        if counts[m.STAGE] == m.ARRIVES:
            counts[m.WANTED] = counts[m.GHOSTS] + count_words_received(X)
            if counts[m.WANTED] > counts[m.PLACES]:
                return int64(m.NO_GHOSTS)
            arrive(W, X)
            counts[m.STAGE] = m.LOOKS_UP
        elif counts[m.STAGE] == m.LOOKS_UP:
            _count_level(W, X)
            counts[m.STAGE] = m.PASSES
            counts[m.PROBED] = int64(F.segment_count > 0)
            if _look_up_level(T, A, W, F, X, int64(0), counts[m.ORDERED]):
                return int64(m.NO_RECORDS)
        elif counts[m.STAGE] == m.PASSES:
            counts[m.FIRST_CHILD] = W.counts[wave.ENTRIES]
            _pass_level(T, A, W, X, int64(0), counts[m.ORDERED], counts[m.PROBED] != 0)
            _list_next_level(T, A, W, X)
            counts[m.STAGE] = m.WRITES
        elif counts[m.STAGE] == m.WRITES:
            if not open_step(A, W, X):
                return int64(m.OUT_IS_SMALL)
            _write_rows(A, W, X)
            counts[m.STAGE] = m.EXCHANGES
        else:
            code = finish_step(X, E)
            if code != m.THROUGH or counts[m.TOTALS + m.H_MORE] == 0:
                return code
            counts[m.LEVEL] += 1
            counts[m.STAGE] = m.ARRIVES


@kernel
def descend(
    T: Words, A: ArenaArrays, W: WaveArrays, B: WaveArrays, F: FilterArrays, X: ShardArrays, E: Bound
) -> None:
    """Sends the visits of a round down, level by level; `CODE` is the state.

    Unless that is THROUGH, call it again when the awaited message has arrived.
    """
    Tp, Ap, Wp, Fp, Xp = ptr(T, 0), pointers(A), wave_pointers(W, B), filter_pointers(F), m.shard_pointers(X)
    Xp.counts[m.CODE] = _descend(Tp, Ap, Wp, Fp, Xp, E)


@kernel
def admit_part(
    T: Words, A: ArenaArrays, W: WaveArrays, B: WaveArrays, F: FilterArrays, X: ShardArrays, E: Bound
) -> None:
    """Makes leaves of some candidates, in order; of none if the batch is no longer open.

    A candidate with a position that became known meanwhile ends as a collision or at its record.
    """
    Tp, Ap, Wp, Xp = ptr(T, 0), pointers(A), wave_pointers(W, B), m.shard_pointers(X)
    target = int64(EVERY_LEAF) if Xp.counts[m.IS_OPEN] else int64(0)
    admit_in_order(Tp, Ap, Wp, Xp.candidates, Xp.counts[m.BEGIN], Xp.counts[m.END], target)


@kernel
def root_state(T: Words, A: ArenaArrays, root: Words) -> tuple[bool, int64, bool]:
    """Returns (whether the root is known, visits that may be in flight below it, whether it is decided)."""
    Ap, s = pointers(A), ptr(root, 0)
    rec = locate(ptr(T, 0), Ap, s)[0]
    if rec == 0:
        return False, int64(1), False
    return True, share_of(Ap, rec), is_over(Ap, rec, s)
