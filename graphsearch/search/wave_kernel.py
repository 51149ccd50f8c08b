"""The working memory of one wave: entries (edge traversals), leaves, and visits in flight.

An entry is one arrival at a position over one edge; the first of every round is the root. Entries keep
(parent entry, number of the edge), never addresses: blocks move when they grow. Visits in flight live here
and not in the records, so a wave that is dropped (evaluator error, Ctrl-C) leaves no trace.

Entry (20 words of 64 bits): 0-9 position | 10 parent entry, -1 none | 11 number of the edge in the parent's
block | 12 kind | 13 depth | 14 next entry of the same depth, -1 none | 15 in-flight node, or leaf | 16 visits
asked for | 17 visits done | 18 slot of the record, 0 unknown | 19 check hash
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..jit.apart import apart
from ..jit.compiler import inlined, inner
from ..jit.pointers import ONE, ZERO, U, adv, as_i64, ptr
from ..jit.types import Pointer, float32, float64, int64, uint8, uint16, uint64
from ..position.board import POSITION_WORDS
from ..store.record.node_layout import flags_with

ENTRY_WORDS = 20
# (typed, as the kinds are: as literals each would compile another variant of their callers)
PARENT, EDGE, KIND, DEPTH, NEXT, NODE_OR_LEAF, ASKED, DONE, SLOT, CHECK = (
    int64(place) for place in range(POSITION_WORDS, ENTRY_WORDS)
)

NOT_THERE = 1 << 62
MAX_PLIES = 500  # visits deeper than this end at the value known there

# kinds of an entry
NODE, LEAF, TERMINAL, PATH_DRAW, CATCH_UP, COLLISION, HISTORY_DRAW, TOO_DEEP, DROPPED = (
    int64(kind) for kind in range(9)
)

# in-flight node (5 words): first of its counts | number of counts | visits in flight in all
# | the one edge of its only visits while it has no counts | the same position's node in the wave before, -1
# none
FLIGHT_FIELDS = 5
AT, ROOM, SUM, SINGLE, OTHER = 0, 1, 2, 3, 4

# `counts`; from SPLIT on, visits given to the edges of the node at hand; from GIVEN on, those of all parts
ENTRIES, LEAVES, NODES_IN_FLIGHT, FLIGHT_USED, HASHED, VISITS_ASKED, CANDIDATES, DEEPEST = range(8)
SPLIT = 8
STAGE, MISSES, LEVEL_BEGIN, LEVEL_END, TARGET, ALLOWED, ROUND = 264, 265, 266, 267, 268, 269, 270
# entries that ended with visits to be counted since the last `settle` | visits that were counted without an
# evaluation | collisions that are still allowed: events, visits | visits that one descent stands for | first
# entry of the round | collisions since the last leaf | places of the hash table in use less one | most of
# them filled before the wave ends | of the entries that ended, draws of the path | whether nothing is left to
# prove at the root, since the last `complete` | visits that nodes have not taken, because of their share
(
    ENDED,
    EARLY,
    EVENTS_LEFT,
    COLLISIONS_LEFT,
    MULTIVISIT,
    ROUND_BEGIN,
    IN_VAIN,
    HASH_MASK,
    HASH_ROOM,
    PATH_DRAWN,
    DECIDED,
    RETURNED,
) = range(271, 283)
GIVEN = SPLIT + 256 + 24
COUNTS = GIVEN + 256
# where a gather that waits for records from the file resumes
NOT_WAITING, AT_ROOT, ON_PATH, IN_LEVEL = 0, 1, 2, 3
# `floats`: scratch columns by edge: b, c P, 1 + n + in flight | its part of the collisions
# (`budget`)
BASE, GAIN, MASS, PART = 0, 256, 512, 768
MOVES_PER_LEAF = 256
UNPROVEN_FLAGS = flags_with(-1, 1)  # of a record that is not terminal
PLACES_PER_LEAF, LEAST_PLACES = 16, 4096  # of the hash table; a leaf and the nodes above it take 2 to 5
ENTRIES_PER_LEAF = 16  # waves need 2 to 6, those with many collisions more; one that runs out of them ends
SPARE_ENTRIES = 4 * (MAX_PLIES + 2)


class WaveArrays(NamedTuple):
    """Arrays of a wave, which the search owns; E entries, L leaves."""

    entries: NDArray[np.uint64]  # [E * ENTRY_WORDS]
    heads: NDArray[np.int64]  # [MAX_PLIES + 2] last entry of each depth, -1 none
    candidates: NDArray[np.int64]  # [E] entries that wait to become leaves, with their visits (`flow`)
    misses: NDArray[np.int64]  # [E] entries whose records may be in the file
    leaf_entry: NDArray[np.int64]  # [L] entry of each leaf
    leaf_words: NDArray[np.uint64]  # [L * 10] position of each leaf
    offsets: NDArray[np.int64]  # [L + 1] into moves and priors
    moves: NDArray[np.uint16]  # [L * MOVES_PER_LEAF], canonical order
    priors: NDArray[np.float32]  # [L * MOVES_PER_LEAF], sum to 1 over a leaf
    values: NDArray[np.float32]  # [L * 2]: q in [-1, 1] and draw probability in [0, 1] of the evaluation
    leaf_flags: NDArray[np.uint8]  # [L] of their records; UNPROVEN_FLAGS unless an evaluator writes others
    hash: NDArray[np.uint64]  # [2 * power of two]: tag, 0 for none; in-flight node, or -1 - leaf
    hash_used: NDArray[np.int64]  # filled places
    nodes: NDArray[np.int64]  # [E * FLIGHT_FIELDS]
    flight: NDArray[np.int64]  # visits in flight by edge
    shares: NDArray[np.int64]  # [E]: collisions allowed below an entry (`budget`)
    floats: NDArray[np.float64]  # [1024] scratch
    counts: NDArray[np.int64]  # [COUNTS]


class WavePointers(NamedTuple):
    """Pointers to the arrays, in the same order, and the limits that are checked."""

    words: Pointer[uint64]  # the array `entries`
    entries: Pointer[int64]  # the same memory
    heads: Pointer[int64]
    candidates: Pointer[int64]
    misses: Pointer[int64]
    leaf_entry: Pointer[int64]
    leaf_words: Pointer[uint64]
    offsets: Pointer[int64]
    moves: Pointer[uint16]
    priors: Pointer[float32]
    values: Pointer[float32]
    leaf_flags: Pointer[uint8]
    hash: Pointer[uint64]
    hash_items: Pointer[int64]  # the same memory
    hash_used: Pointer[int64]
    nodes: Pointer[int64]
    flight: Pointer[int64]
    shares: Pointer[int64]
    floats: Pointer[float64]
    counts: Pointer[int64]
    capacity: int64  # entries
    flight_capacity: int64  # counts in flight
    before_counts: Pointer[int64]  # `counts` of the wave that is being evaluated while this one is gathered
    before_hash: Pointer[uint64]  # its `hash`
    before_items: Pointer[int64]  # its `hash_items`
    before_nodes: Pointer[int64]  # its `nodes`
    before_flight: Pointer[int64]  # its `flight`


@inner
def wave_pointers(W: WaveArrays, B: WaveArrays) -> WavePointers:
    """Returns the pointer bundle of a wave's arrays and of the visits in flight of the wave `B` before it.

    `B` is an empty wave if there is none, and does not matter where nothing is gathered.
    """
    return WavePointers(
        ptr(W.entries, 0),
        as_i64(ptr(W.entries, 0)),
        ptr(W.heads, 0),
        ptr(W.candidates, 0),
        ptr(W.misses, 0),
        ptr(W.leaf_entry, 0),
        ptr(W.leaf_words, 0),
        ptr(W.offsets, 0),
        ptr(W.moves, 0),
        ptr(W.priors, 0),
        ptr(W.values, 0),
        ptr(W.leaf_flags, 0),
        ptr(W.hash, 0),
        as_i64(ptr(W.hash, 0)),
        ptr(W.hash_used, 0),
        ptr(W.nodes, 0),
        ptr(W.flight, 0),
        ptr(W.shares, 0),
        ptr(W.floats, 0),
        ptr(W.counts, 0),
        int64(W.candidates.size),
        int64(W.flight.size),
        ptr(B.counts, 0),
        ptr(B.hash, 0),
        as_i64(ptr(B.hash, 0)),
        ptr(B.nodes, 0),
        ptr(B.flight, 0),
    )


def hash_places(leaves: int) -> int:
    """Returns the number of hash table places for a batch of `leaves` leaves, a power of two.

    >>> hash_places(256), hash_places(1000)
    (4096, 16384)
    """
    return max(LEAST_PLACES, 1 << (PLACES_PER_LEAF * leaves - 1).bit_length())


def entries_for(leaves: int) -> int:
    """Returns the number of entries for a batch of `leaves` leaves: the most nodes that a wave can change."""
    return ENTRIES_PER_LEAF * leaves + SPARE_ENTRIES


def new_wave(leaves: int) -> WaveArrays:
    """Returns the memory of waves of up to `leaves` leaves; untouched pages cost nothing."""
    entries = entries_for(leaves)
    heads, leaf_flags = apart(MAX_PLIES + 2, np.int64), apart(leaves, np.uint8)
    heads[:], leaf_flags[:] = -1, UNPROVEN_FLAGS
    return WaveArrays(
        entries=np.empty(entries * ENTRY_WORDS, np.uint64),
        heads=heads,
        candidates=np.empty(entries, np.int64),
        misses=np.empty(entries, np.int64),
        leaf_entry=apart(leaves, np.int64),
        leaf_words=apart(leaves * 10, np.uint64),
        offsets=apart(leaves + 1, np.int64),
        moves=apart((leaves + 1) * MOVES_PER_LEAF, np.uint16),
        priors=apart((leaves + 1) * MOVES_PER_LEAF, np.float32),
        values=apart(2 * leaves, np.float32),
        leaf_flags=leaf_flags,
        hash=np.zeros(2 * hash_places(leaves), np.uint64),
        hash_used=np.empty(entries + leaves + 1, np.int64),
        nodes=np.empty(entries * FLIGHT_FIELDS, np.int64),
        flight=np.empty(16 * entries + 4096, np.int64),
        shares=np.empty(entries, np.int64),
        floats=apart(1024, np.float64),
        counts=apart(COUNTS, np.int64),
    )


def drop_leaves(wave: WaveArrays) -> None:
    """Drops a gathered or waiting wave: its leaves are not evaluated, and no visit stays in flight."""
    wave.counts[[STAGE, LEAVES]] = NOT_WAITING, 0


def slots_of(wave: WaveArrays) -> NDArray[np.uint64]:
    """Returns the slots of the records that a wave has met, one for each entry, 0 for none."""
    fields = wave.entries.reshape(-1, ENTRY_WORDS)[: int(wave.counts[ENTRIES]), SLOT]
    return np.ascontiguousarray(fields)


def missing_positions(wave: WaveArrays) -> NDArray[np.uint64]:
    """Returns the positions of the records that a wave waits for, `[R, 10]`."""
    misses = wave.misses[: int(wave.counts[MISSES])]
    return np.ascontiguousarray(wave.entries.reshape(-1, ENTRY_WORDS)[misses, :POSITION_WORDS])


@inner
def words_of(W: WavePointers, e: int64) -> Pointer[uint64]:
    """Returns the position of an entry."""
    return adv(W.words, e * ENTRY_WORDS)


@inner
def field(W: WavePointers, e: int64, i: int64) -> int64:
    """Returns one field of an entry."""
    return W.entries[e * ENTRY_WORDS + i]


@inlined
def slot_at(W: WavePointers, e: int64) -> int64:
    """Returns the slot of an entry's record, 0 if that is unknown."""
    return W.entries[e * ENTRY_WORDS + SLOT]


@inlined
def node_at(W: WavePointers, e: int64) -> int64:
    """Returns the in-flight node, or the leaf, of an entry."""
    return W.entries[e * ENTRY_WORDS + NODE_OR_LEAF]


@inner
def set_field(W: WavePointers, e: int64, i: int64, value: int64) -> None:
    """Sets one field of an entry."""
    W.entries[e * ENTRY_WORDS + i] = value


@inner
def check_of(W: WavePointers, e: int64) -> uint64:
    """Returns the check hash of an entry's position."""
    return W.words[e * ENTRY_WORDS + CHECK]


@inner
def clear_wave(W: WavePointers) -> None:
    """Empties a wave; the cost depends on the last wave's size, not on the capacity."""
    counts = W.counts
    for i in range(counts[HASHED]):
        W.hash[2 * W.hash_used[i]] = ZERO
    for i in range(counts[ENTRIES]):
        W.heads[field(W, i, DEPTH)] = -1
    for i in range(SPLIT):
        counts[i] = 0
    counts[STAGE] = NOT_WAITING
    counts[MISSES] = 0
    counts[ROUND] = 0
    counts[ENDED] = 0
    counts[EARLY] = 0
    counts[IN_VAIN] = 0
    counts[PATH_DRAWN] = 0
    counts[RETURNED] = 0
    W.offsets[0] = 0


@inner
def drop_entries(W: WavePointers, first: int64) -> None:
    """Drops the newest entries of a wave, from `first` on."""
    for down in range(W.counts[ENTRIES] - first):
        e = W.counts[ENTRIES] - 1 - down
        W.heads[field(W, e, DEPTH)] = field(W, e, NEXT)
    W.counts[ENTRIES] = first


@inner
def size_hash(W: WavePointers, target: int64) -> None:
    """Sizes the hash table of an empty wave for its batch: a smaller table needs less of the cache."""
    places = int64(LEAST_PLACES)
    while places < PLACES_PER_LEAF * target:
        places *= 2
    W.counts[HASH_MASK] = places - 1
    W.counts[HASH_ROOM] = places * 3 // 4 - target


@inner
def mixed_tag(tag: uint64) -> int64:
    """Returns the mixed bits of a tag; masked, they give its first place in a hash table."""
    return int64(tag ^ (tag >> U(29)))


@inner
def first_place(W: WavePointers, tag: uint64) -> int64:
    """Returns the first place to probe for a tag in the wave's hash table."""
    return mixed_tag(tag) & W.counts[HASH_MASK]


@inner
def hash_place(W: WavePointers, tag: uint64) -> int64:
    """Returns the place of a position's tag in the wave's hash table, or the empty place for it."""
    i = first_place(W, tag)
    while True:
        found = W.hash[2 * i]
        if found == tag or found == ZERO:
            return i
        i = (i + 1) & W.counts[HASH_MASK]


@inner
def item_before(W: WavePointers, tag: uint64) -> int64:
    """Returns the item of a position in the wave before: in-flight node, or -1 - leaf; NOT_THERE if none."""
    if W.before_counts[HASHED] == 0:
        return int64(NOT_THERE)
    i = mixed_tag(tag) & W.before_counts[HASH_MASK]
    while True:
        found = W.before_hash[2 * i]
        if found == tag:
            return W.before_items[2 * i + 1]
        if found == ZERO:
            return int64(NOT_THERE)
        i = (i + 1) & W.before_counts[HASH_MASK]


@inner
def hash_put(W: WavePointers, place: int64, tag: uint64, item: int64) -> None:
    """Inserts an item at an empty place of the wave's hash table."""
    W.hash[2 * place] = tag
    W.hash_items[2 * place + 1] = item
    W.hash_used[W.counts[HASHED]] = place
    W.counts[HASHED] += 1


@inner
def position_tag(key: uint64, check: uint64) -> uint64:
    """Returns a non-zero tag of a position within a wave, from both of its hashes."""
    return (key ^ (check * U(0x9E3779B97F4A7C15))) | ONE


@inner
def new_entry(W: WavePointers, parent: int64, edge: int64, asked: int64, depth: int64) -> int64:
    """Returns a new entry, listed under its depth; its words are still to be written."""
    e = W.counts[ENTRIES]
    W.counts[ENTRIES] = e + 1
    fields = adv(W.entries, e * ENTRY_WORDS)
    fields[PARENT] = parent
    fields[EDGE] = edge
    fields[KIND] = NODE
    fields[DEPTH] = depth
    fields[NEXT] = W.heads[depth]
    fields[NODE_OR_LEAF] = -1
    fields[ASKED] = asked
    fields[DONE] = 0
    fields[SLOT] = 0
    W.heads[depth] = e
    if depth > W.counts[DEEPEST]:
        W.counts[DEEPEST] = depth
    return e
