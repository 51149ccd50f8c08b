"""From the root to the leaves: which positions a wave evaluates.

`gather_one` walks one visit; `gather_wave` sends a whole budget down level by level (`allocate.py`), in
rounds, until the batch is full or the graph justifies no more. Both leave entries and leaves in the wave.

        root  B=9            a level is probed as a whole, so that cache misses
        /  |  \\              overlap; a position that two parents reach is one
      4    3    2             in-flight node or one leaf
     / \\   |   / \\
    3  1   3  1   1
"""

from __future__ import annotations

from typing import Any

from numba import float64, int64, uint16

from .allocate import allocate, allocate_first
from .board import PW, check_hash, make_move
from .heap import find, table_index
from .jit import LOW32, ZERO, U, adv, as_u32, inner, prefetch
from .layout import (
    BLOCK_WORDS,
    NO_BLOCK,
    ROUNDS,
    WAVE_SHARE,
    block_class_of,
    entry_at,
)
from .locate import may_be_stored
from .paths import end_entry, ends_at_known, ends_by_path, locate, open_leaf, position_key
from .puct import child_visits, select
from .wave import (
    ASKED,
    CANDIDATES,
    CHECK,
    COLLISION,
    DEPTH,
    DROPPED,
    EDGE,
    ENTRIES,
    FLIGHT_FIELDS,
    FLIGHT_USED,
    IN_LEVEL,
    KIND,
    LEAF,
    LEAVES,
    LEVEL_BEGIN,
    LEVEL_END,
    MISSES,
    NODE_OR_LEAF,
    NOT_WAITING,
    ON_PATH,
    PARENT,
    ROUND,
    SLOT,
    SPLIT,
    STAGE,
    SUM,
    TERMINAL,
    VISITS_ASKED,
    check_of,
    field,
    hash_place,
    hash_put,
    in_flight,
    new_entry,
    new_flight,
    position_tag,
    set_field,
    words_of,
)

MAX_ROUNDS = 60
LARGEST_SPLIT = 224  # edges of one node
GROWN_BLOCK = 2048  # words that one node's growth may take, with room to spare


@inner
def start_at_root(W: Any, root: Any, asked: Any) -> Any:
    """Returns a new entry for the root."""
    e = new_entry(W, int64(-1), int64(0), asked, int64(0))
    s = words_of(W, e)
    for i in range(PW):
        s[i] = root[i]
    return e


@inner
def _add_child(T: Any, A: Any, W: Any, e: Any, j: Any, asked: Any) -> Any:
    """Returns the new entry behind edge `j` of entry `e`."""
    child = new_entry(W, e, j, asked, field(W, e, DEPTH) + 1)
    move = uint16(A.blocks[entry_at(A, field(W, e, SLOT), j) + 2] & 0xFFFF)
    make_move(T, words_of(W, e), words_of(W, child), move)
    return child


@inner
def _miss(W: Any, e: Any) -> None:
    """Notes that an entry's record may be in the file."""
    W.misses[W.counts[MISSES]] = e
    W.counts[MISSES] += 1


@inner
def gather_one(T: Any, A: Any, W: Any, F: Any, root: Any) -> Any:
    """Walks one visit from the root's words: plain sequential PUCT.

    Returns False if it waits for a record that may be in the file; called again, it goes on from there.
    """
    waited = W.counts[STAGE] == ON_PATH
    e = W.counts[ENTRIES] - 1 if waited else start_at_root(W, root, int64(1))
    while waited or not ends_by_path(T, A, W, e):
        s = words_of(W, e)
        rec, check = locate(T, A, s)
        set_field(W, e, SLOT, rec)
        if rec == 0:
            if not waited and may_be_stored(F, s, position_key(T, s)):
                _miss(W, e)
                W.counts[STAGE] = ON_PATH
                return False
            open_leaf(T, A, W, e, check)
            break
        waited = False
        if ends_at_known(A, W, e, int64(1)):
            break
        e = _add_child(T, A, W, e, select(T, A, s, rec), int64(1))
    W.counts[STAGE] = NOT_WAITING
    return True


@inner
def _probe_level(T: Any, A: Any, W: Any, begin: Any, end: Any) -> None:
    """Finds the record of every entry of a level by its check hash alone, memory accesses overlapped."""
    for e in range(begin, end):
        prefetch(A.table, table_index(A, position_key(T, words_of(W, e))))
    for e in range(begin, end):
        s = words_of(W, e)
        check = check_hash(s)
        s[CHECK] = check
        i = table_index(A, position_key(T, s))
        rec = int64(0)
        while True:
            word = A.table[i]
            if word == ZERO:
                break
            if (word >> U(32)) == check:
                rec = int64(word & LOW32)
                break
            i += 1
            if i == int64(A.size):
                i = int64(0)
        set_field(W, e, SLOT, rec)
        prefetch(A.records, rec)


@inner
def _prefetch_block(A: Any, rec: Any) -> None:
    if rec and block_class_of(A, rec) != NO_BLOCK:
        block = int64(as_u32(adv(A.records, rec + 1))[0])
        prefetch(A.blocks, block)
        prefetch(A.blocks, block + 16)


@inner
def _visits_over(W: Any, e: Any) -> Any:
    """Returns the visits in flight over an entry's edge, its own included."""
    parent = field(W, e, PARENT)
    if parent < 0:
        return field(W, e, ASKED)
    return in_flight(W, field(W, parent, NODE_OR_LEAF), field(W, e, EDGE))


@inner
def _goes_on(T: Any, A: Any, W: Any, e: Any) -> Any:
    """Ends an entry where its path ends, or returns True if it is a node to pass on from."""
    if ends_by_path(T, A, W, e):
        return False
    rec = field(W, e, SLOT)
    if rec == 0 or A.records[rec] != position_key(T, words_of(W, e)):
        rec = find(A, position_key(T, words_of(W, e)), check_of(W, e))
        set_field(W, e, SLOT, rec)
    if rec == 0:
        W.candidates[W.counts[CANDIDATES]] = (min(field(W, e, ASKED), int64(0x7FFFFFFF)) << 32) | (
            0xFFFFFFFF - e
        )
        W.counts[CANDIDATES] += 1
        return False
    return not ends_at_known(A, W, e, _visits_over(W, e))


@inner
def _flight_of(T: Any, W: Any, e: Any) -> Any:
    """Returns the in-flight node of an entry's position, new if this wave has not been there."""
    tag = position_tag(position_key(T, words_of(W, e)), check_of(W, e))
    place = hash_place(W, tag)
    if W.hash_keys[place] == ZERO:
        hash_put(W, place, tag, new_flight(W))
    return W.hash_items[place]


@inner
def _pass_on(T: Any, A: Any, W: Any, e: Any) -> None:
    """Splits an entry's visits over its node's edges and adds an entry for each edge that gets some."""
    s = words_of(W, e)
    rec = field(W, e, SLOT)
    node = _flight_of(T, W, e)
    set_field(W, e, NODE_OR_LEAF, node)
    asked = field(W, e, ASKED)
    if asked == 1 and W.nodes[node * FLIGHT_FIELDS + SUM] == 0:
        _add_child(T, A, W, e, allocate_first(T, A, W, s, rec, node), int64(1))
        return
    m = allocate(T, A, W, s, rec, node, asked)
    for j in range(m):
        k = W.counts[SPLIT + j]
        if k:
            _add_child(T, A, W, e, int64(j), k)


@inner
def _has_room(A: Any, W: Any) -> Any:
    """Returns whether one more node can be passed on from."""
    if (
        W.counts[ENTRIES] + LARGEST_SPLIT >= W.capacity
        or W.counts[FLIGHT_USED] + LARGEST_SPLIT >= W.flight_capacity
    ):
        return False
    return A.counters[BLOCK_WORDS] + GROWN_BLOCK < A.block_limit


@inner
def _list_misses(T: Any, A: Any, W: Any, F: Any, begin: Any, end: Any) -> Any:
    """Lists the entries of a probed level whose records may be in the file; returns how many there are."""
    W.counts[MISSES] = 0
    if F.count == 0:
        return int64(0)
    for e in range(begin, end):
        key = position_key(T, words_of(W, e))
        rec = field(W, e, SLOT)
        if rec == 0 or A.records[rec] != key:
            rec = find(A, key, check_of(W, e))
            set_field(W, e, SLOT, rec)
            if rec == 0 and may_be_stored(F, words_of(W, e), key):
                _miss(W, int64(e))
    return W.counts[MISSES]


@inner
def _find_misses(T: Any, A: Any, W: Any) -> None:
    """Looks again for the records of a level that were missing."""
    for i in range(W.counts[MISSES]):
        e = W.misses[i]
        set_field(W, e, SLOT, find(A, position_key(T, words_of(W, e)), check_of(W, e)))
    W.counts[MISSES] = 0


@inner
def _pass_level(T: Any, A: Any, W: Any, begin: Any, end: Any) -> None:
    """Ends the entries of a level or splits their visits over the next one."""
    for e in range(begin, min(end, begin + 8)):
        _prefetch_block(A, field(W, e, SLOT))
    for e in range(begin, end):
        if e + 8 < end:
            _prefetch_block(A, field(W, e + 8, SLOT))
        if _goes_on(T, A, W, e):
            if _has_room(A, W):
                _pass_on(T, A, W, e)
            else:
                set_field(W, e, KIND, DROPPED)


@inner
def _round(T: Any, A: Any, W: Any, F: Any) -> Any:
    """Sends the visits of a level down to candidates, level by level.

    Returns False if a level waits for records from the file; called again, it goes on with that level.
    """
    counts = W.counts
    while counts[LEVEL_BEGIN] < counts[LEVEL_END]:
        begin, end = counts[LEVEL_BEGIN], counts[LEVEL_END]
        if counts[STAGE] == IN_LEVEL:
            _find_misses(T, A, W)
            counts[STAGE] = NOT_WAITING
        else:
            _probe_level(T, A, W, begin, end)
            if _list_misses(T, A, W, F, begin, end):
                counts[STAGE] = IN_LEVEL
                return False
        _pass_level(T, A, W, begin, end)
        counts[LEVEL_BEGIN] = end
        counts[LEVEL_END] = counts[ENTRIES]
    return True


@inner
def _start_round(W: Any, root: Any, budget: Any) -> None:
    W.counts[LEVEL_BEGIN] = start_at_root(W, root, budget)
    W.counts[LEVEL_END] = W.counts[LEVEL_BEGIN] + 1


@inner
def _sift(keys: Any, i: Any, n: Any) -> None:
    """Restores the min-heap below place `i`."""
    while True:
        child = 2 * i + 1
        if child >= n:
            return
        if child + 1 < n and keys[child + 1] < keys[child]:
            child += 1
        if keys[i] <= keys[child]:
            return
        keys[i], keys[child] = keys[child], keys[i]
        i = child


@inner
def sort_descending(keys: Any, n: Any) -> None:
    """Sorts n distinct integers in place, largest first (heapsort)."""
    for i in range(n // 2 - 1, -1, -1):
        _sift(keys, int64(i), n)
    for last in range(n - 1, 0, -1):
        keys[0], keys[last] = keys[last], keys[0]
        _sift(keys, int64(0), int64(last))


@inner
def _admit_one(T: Any, A: Any, W: Any, e: Any, target: Any) -> None:
    key = position_key(T, words_of(W, e))
    check = check_of(W, e)
    tag = position_tag(key, check)
    place = hash_place(W, tag)
    if W.hash_keys[place] != ZERO:
        end_entry(A, W, e, COLLISION, int64(0))
        return
    rec = find(A, key, check)
    if rec:  # a terminal that an earlier candidate recorded
        set_field(W, e, SLOT, rec)
        end_entry(A, W, e, TERMINAL, int64(1))
    elif W.counts[LEAVES] < target:
        if open_leaf(T, A, W, e, check) == LEAF:
            hash_put(W, place, tag, -1 - field(W, e, NODE_OR_LEAF))
    else:
        set_field(W, e, KIND, DROPPED)


@inner
def _admit(T: Any, A: Any, W: Any, target: Any) -> None:
    """Makes leaves of the candidates, those with most visits first, until the batch is full.

    Breadth-first admission would favour shallow leaves over wanted ones.
    """
    n = W.counts[CANDIDATES]
    if W.counts[LEAVES] + n > target:
        sort_descending(W.candidates, n)
    for i in range(n):
        _admit_one(T, A, W, int64(0xFFFFFFFF) - (W.candidates[i] & 0xFFFFFFFF), target)
    W.counts[CANDIDATES] = 0


@inner
def _next_budget(W: Any, target: Any, allowed: Any) -> Any:
    """Returns the visits of the next round.

    What the batch lacks, at least half of what was asked for, within `allowed`.
    """
    asked = W.counts[VISITS_ASKED]
    budget = max(target - W.counts[LEAVES], asked // 2)
    return min(budget, allowed - asked)


@inner
def gather_wave(T: Any, A: Any, W: Any, F: Any, root: Any, root_rec: Any, target: Any, limit: Any) -> Any:
    """Fills a batch of up to `target` leaves.

    Asking for at most `limit` visits and a share of the root's N. Returns False if it waits for records from
    the file; called again with the same arguments, it goes on where it was.
    """
    share = int64(A.floats[WAVE_SHARE] * float64(child_visits(A, root_rec) + 1))
    allowed = min(max(int64(1), share), limit)
    while W.counts[ROUND] < MAX_ROUNDS:
        if W.counts[STAGE] != IN_LEVEL:
            budget = _next_budget(W, target, allowed)
            if budget <= 0 or W.counts[LEAVES] >= target or not _has_room(A, W):
                break
            W.counts[VISITS_ASKED] += budget
            A.counters[ROUNDS] += 1
            _start_round(W, root, budget)
        if not _round(T, A, W, F):
            return False
        _admit(T, A, W, target)
        W.counts[ROUND] += 1
    return True


@inner
def gather_ahead(T: Any, A: Any, W: Any, F: Any, root: Any, budget: Any) -> Any:
    """Sends visits down as the next wave would, the leaves of this one in flight; nothing is admitted.

    It is there to have the next wave's records read while this one is evaluated. Returns False if it waits
    for them.
    """
    if W.counts[STAGE] != IN_LEVEL:
        if not _has_room(A, W):
            return True
        _start_round(W, root, budget)
    return _round(T, A, W, F)
