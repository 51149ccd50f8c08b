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
from ...graph.heap_kernel import table_index
from ...jit.calls import Bound
from ...jit.compiler import inlined, inner, kernel
from ...jit.pointers import adv, prefetch, ptr
from ...jit.types import int64
from ...position.board import Words
from ...position.board_kernel import position_key
from ...position.words import BoardTable
from ...store.index.locate_kernel import FilterArrays, FilterPointers, filter_pointers
from ...store.record.node_kernel import prefetch_block
from .. import wave_kernel as wave
from ..backup_kernel import is_over
from ..gatherers.flow_kernel import pass_on, share_of
from ..gatherers.levels_kernel import (
    GOES_ON,
    LARGEST_SPLIT,
    PART_OF_LEVEL,
    UNKNOWN,
    admit,
    find_misses,
    goes_on_from,
    has_room,
    list_miss,
    prefetch_place,
    probe_entry,
    start_round,
    visits_over,
)
from ..paths_kernel import completed_over, ends_by_path, locate
from ..wave_kernel import (
    WaveArrays,
    WavePointers,
    field,
    set_field,
    size_hash,
    wave_pointers,
    words_of,
)
from ..waves_kernel import begin_wave, has_space
from . import messages_kernel as m
from .arrivals_kernel import arrive, words_that_came
from .lines_kernel import open_step, talk
from .messages_kernel import ShardArrays, ShardPointers

NUMBER_BITS, DEPTH_BITS = 31, 9  # of a candidate's key: its place; the first one of a round is largest
PLACE_BITS = NUMBER_BITS + DEPTH_BITS
MOST_ASKED, LAST_PLACE = (1 << 23) - 1, (1 << PLACE_BITS) - 1
AHEAD, PREFETCHED = 8, 8
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


@inner
def _probe_part(
    T: BoardTable, A: ArenaPointers, W: WavePointers, X: ShardPointers, begin: int64, end: int64
) -> None:
    """Looks up some entries of a level in memory, with overlapping accesses."""
    for i in range(begin, end):
        prefetch(A.table, table_index(A, position_key(T, words_of(W, X.order[i]))))
    for i in range(begin, end):
        probe_entry(T, A, W, X.order[i])


@inlined
def spent_over(A: ArenaPointers, W: WavePointers, e: int64) -> int64:
    """Returns the visits of the edge that leads to an entry, those in flight included."""
    if m.is_arrival(W, e):
        return field(W, field(W, e, wave.PARENT), m.SPENT)
    return completed_over(A, W, e) + visits_over(W, e)


@inner
def _number_children(W: WavePointers, e: int64, first: int64) -> None:
    """Numbers the children of an entry, the newest entries from `first` on, by their first visits."""
    number = W.shares[e]
    for child in range(first, W.counts[wave.ENTRIES]):
        W.shares[child] = number
        number += field(W, child, wave.ASKED)


@inner
def _list_candidate(W: WavePointers, X: ShardPointers, e: int64) -> None:
    """Lists an entry with an unknown position as a candidate, with its sort key."""
    n = W.counts[wave.CANDIDATES]
    place = (field(W, e, wave.DEPTH) << NUMBER_BITS) | W.shares[e]
    W.candidates[n] = (min(field(W, e, wave.ASKED), int64(MOST_ASKED)) << PLACE_BITS) | (LAST_PLACE - place)
    X.candidates[n] = e
    W.counts[wave.CANDIDATES] = n + 1


@inner
def _pass_part(
    T: BoardTable, A: ArenaPointers, W: WavePointers, X: ShardPointers, begin: int64, end: int64
) -> None:
    """Ends the entries of a part of a level or splits their visits over the next one."""
    for i in range(begin, min(end, begin + AHEAD)):
        prefetch_block(A, field(W, X.order[i], wave.SLOT))
    for i in range(begin, end):
        if i + AHEAD < end:
            prefetch_block(A, field(W, X.order[i + AHEAD], wave.SLOT))
        e = X.order[i]
        state = goes_on_from(T, A, W, e, spent_over(A, W, e))
        if state == UNKNOWN:
            _list_candidate(W, X, e)
        elif state == GOES_ON:
            if has_room(A, W, LARGEST_SPLIT):
                first = W.counts[wave.ENTRIES]
                pass_on(T, A, W, e)
                _number_children(W, e, first)
            else:
                set_field(W, e, wave.KIND, wave.DROPPED)


@inner
def _sort_out(T: BoardTable, A: ArenaPointers, W: WavePointers, X: ShardPointers) -> None:
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
def _look_up(T: BoardTable, A: ArenaPointers, W: WavePointers, F: FilterPointers, X: ShardPointers) -> int64:
    """Looks up a level if the file may hold some of its records; returns the number that it may hold."""
    X.counts[m.PROBED] = int64(F.segment_count > 0)
    W.counts[wave.MISSES] = 0
    if F.segment_count > 0:
        _probe_part(T, A, W, X, int64(0), X.counts[m.ORDERED])
        for i in range(X.counts[m.ORDERED]):
            list_miss(T, A, W, F, X.order[i])
    return W.counts[wave.MISSES]


@inner
def _count_level(W: WavePointers, X: ShardPointers) -> None:
    """Adds a level to the tallies of entries and visits."""
    X.tallies[m.T_ENTRIES] += X.counts[m.ORDERED]
    for i in range(X.counts[m.ORDERED]):
        X.tallies[m.T_VISITS] += field(W, X.order[i], wave.ASKED)


@inner
def _pass_level(T: BoardTable, A: ArenaPointers, W: WavePointers, X: ShardPointers) -> None:
    """Passes the visits of a level on to the next one."""
    count = X.counts[m.ORDERED]
    X.counts[m.FIRST_CHILD] = W.counts[wave.ENTRIES]
    if X.counts[m.PROBED]:
        find_misses(T, A, W)
    for first in range(0, count, PART_OF_LEVEL):
        last = min(count, first + PART_OF_LEVEL)
        if not X.counts[m.PROBED]:  # part by part: prefetched memory is still in the cache
            _probe_part(T, A, W, X, int64(first), int64(last))
        _pass_part(T, A, W, X, int64(first), int64(last))


@inner
def _write_rows(A: ArenaPointers, W: WavePointers, X: ShardPointers) -> None:
    """Writes the rows of the children of a level that other shards own."""
    for i in range(X.counts[m.ROWS]):
        e = X.spare[i]
        owner = field(W, e, wave.NODE_OR_LEAF)
        spent = completed_over(A, W, e) + visits_over(W, e)
        X.places[owner] += m.write_row(W, X, e, spent, adv(X.out, X.places[owner]))


@inner
def _descend(
    T: BoardTable, A: ArenaPointers, W: WavePointers, F: FilterPointers, X: ShardPointers, E: Bound
) -> int64:
    """Continues a round; returns THROUGH when no shard has a next level, else the reason for waiting."""
    counts = X.counts
    while True:
        if counts[m.STAGE] == m.ARRIVES:
            counts[m.WANTED] = counts[m.GHOSTS] + words_that_came(X)
            if counts[m.WANTED] > counts[m.PLACES]:
                return int64(m.NO_GHOSTS)
            arrive(W, X)
            counts[m.STAGE] = m.LOOKS_UP
        elif counts[m.STAGE] == m.LOOKS_UP:
            _count_level(W, X)
            counts[m.STAGE] = m.PASSES
            if _look_up(T, A, W, F, X):
                return int64(m.NO_RECORDS)
        elif counts[m.STAGE] == m.PASSES:
            _pass_level(T, A, W, X)
            _sort_out(T, A, W, X)
            counts[m.STAGE] = m.WRITES
        elif counts[m.STAGE] == m.WRITES:
            if not open_step(A, W, X):
                return int64(m.OUT_IS_SMALL)
            _write_rows(A, W, X)
            counts[m.STAGE] = m.TALKS
        else:
            code = talk(X, E)
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
    begin, end = Xp.counts[m.BEGIN], Xp.counts[m.END]
    target = int64(EVERY_LEAF) if Xp.counts[m.IS_OPEN] else int64(0)
    for i in range(begin, end):
        if i + 2 * PREFETCHED < end:
            e = Xp.candidates[i + 2 * PREFETCHED]
            prefetch(Wp.words, e * wave.ENTRY_WORDS)
            prefetch(Wp.words, e * wave.ENTRY_WORDS + wave.CHECK)
        if i + PREFETCHED < end:
            prefetch_place(Tp, Ap, Wp, Xp.candidates[i + PREFETCHED])
        admit(Tp, Ap, Wp, Xp.candidates[i], target)


@kernel
def root_state(T: Words, A: ArenaArrays, root: Words) -> tuple[bool, int64, bool]:
    """Returns (whether the root is known, visits that may be in flight below it, whether it is decided)."""
    Ap, s = pointers(A), ptr(root, 0)
    rec = locate(ptr(T, 0), Ap, s)[0]
    if rec == 0:
        return False, int64(1), False
    return True, share_of(Ap, rec), is_over(Ap, rec, s)
