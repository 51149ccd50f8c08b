"""The working memory of one wave: entries (edge traversals), leaves, and visits in flight.

An entry is one arrival at a position over one edge; the first of every round is the root. Entries keep
(parent entry, number of the edge), never addresses: blocks move when they grow. Visits in flight are counted
here by node and edge, and not in the records, so a wave that is dropped (evaluator error, Ctrl-C) leaves no
trace. A wave that is gathered while the previous one is being evaluated counts the visits of both.

Entry (20 words of 64 bits): 0-9 position | 10 parent entry, -1 none | 11 number of the edge in the parent's
block | 12 kind | 13 depth | 14 next entry of the same depth, -1 none | 15 in-flight node, or leaf | 16 visits
asked for | 17 visits done | 18 slot of the record, 0 unknown | 19 check hash

Several threads note their visits in flight, and their leaves, next to the locks of records:

    row of a record   | locked? | notes | slot, edge: visits in flight | .. | key of a leaf: 1 | ..

A note is its subject << 8 | a count. The subject is a slot and an edge, or a key (one bit of it is lost).
A full row accepts no more notes on visits, so other threads do not see those; leaves wait for room. Only the
thread that holds a row's lock accesses its notes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..graph import arena_kernel as arena
from ..graph.arena_kernel import ArenaArrays
from ..jit.compiler import inner
from ..jit.pointers import ONE, ZERO, U, adv
from ..jit.types import Bundle, Items, Pointer, apart, float32, float64, int64, uint8, uint16, uint64
from ..position.board import POSITION_WORDS
from ..store import record_kernel as record

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

# `counts`, by these indices; the first CLEARED are 0 when a wave begins
(
    ENTRIES,  # entries
    LEAVES,  # leaves
    NODES_IN_FLIGHT,  # in-flight nodes
    FLIGHT_USED,  # words of `flight` in use
    HASHED,  # filled places of the hash table
    VISITS_ASKED,  # visits sent down from the root
    CANDIDATES,  # entries that wait to become leaves (`flow`)
    DEEPEST,  # largest depth of an entry
    STAGE,  # where the gather resumes: NOT_WAITING ..
    MISSES,  # entries whose records may be in the file
    ROUND,  # rounds so far; visits (`classic`)
    ENDED,  # entries that ended with visits to be counted since the last `settle`
    PATH_DRAWN,  # of these, draws of the path
    EARLY,  # visits that were counted without an evaluation
    IN_VAIN,  # collisions since the last leaf (`classic`)
    RETURNED,  # visits that nodes have not taken, because of their share (`flow`)
) = range(16)
CLEARED = 16
(
    TARGET,  # leaves wanted
    ALLOWED,  # visits that the root may have in flight (`flow`)
    LEVEL_BEGIN,  # first entry of the level under way
    LEVEL_END,  # entry after its last one
    ROUND_BEGIN,  # first entry of the round
    EVENTS_LEFT,  # collisions still allowed: events
    COLLISIONS_LEFT,  # and visits
    MULTIVISIT,  # visits that one descent stands for (`classic`)
    HASH_MASK,  # places of the hash table in use less one
    HASH_ROOM,  # most of them filled before the wave ends
    DECIDED,  # whether nothing is left to prove at the root, since the last `complete`
) = range(CLEARED, CLEARED + 11)
SPLIT = CLEARED + 16  # by edge of the node at hand: visits given to it
GIVEN = SPLIT + 256  # the same, of all parts (`flow`)
COUNTS = GIVEN + 256
# where a gather that waits for records from the file resumes
NOT_WAITING, AT_ROOT, ON_PATH, IN_LEVEL = 0, 1, 2, 3
# `floats`: scratch columns by edge: b, c P, 1 + n + in flight | its part of the collisions
# (`budget`)
BASE, GAIN, MASS, PART = 0, 256, 512, 768
MOVES_PER_LEAF = 256
UNPROVEN_FLAGS = record.flags_with(-1, 1)  # of a record that is not terminal
PLACES_PER_LEAF, LEAST_PLACES = 16, 4096  # of the hash table; a leaf and the nodes above it take 2 to 5
ENTRIES_PER_LEAF = 16  # waves need 2 to 6, those with many collisions more; one that runs out of them ends
SPARE_ENTRIES = 4 * (MAX_PLIES + 2)
SPARE_BLOCK_WORDS = MAX_PLIES * record.LARGEST_BLOCK  # for the blocks that one longest path may grow


class WaveArrays(Bundle):
    """The arrays of a wave, which the search owns; E entries, L leaves."""

    words: Items[uint64]  # [E * ENTRY_WORDS]
    entries: Items[int64]  # the same memory
    heads: Items[int64]  # [MAX_PLIES + 2] last entry of each depth, -1 none
    candidates: Items[int64]  # [E] entries that wait to become leaves, with their visits (`flow`)
    misses: Items[int64]  # [E] entries whose records may be in the file
    leaf_entry: Items[int64]  # [L] entry of each leaf
    leaf_words: Items[uint64]  # [L * 10] position of each leaf
    offsets: Items[int64]  # [L + 1] into moves and priors
    moves: Items[uint16]  # [L * MOVES_PER_LEAF], canonical order
    priors: Items[float32]  # [L * MOVES_PER_LEAF], sum to 1 over a leaf
    values: Items[float32]  # [L * 2]: q in [-1, 1] and draw probability in [0, 1] of the evaluation
    leaf_flags: Items[uint8]  # [L] of their records; UNPROVEN_FLAGS unless an evaluator writes others
    hash: Items[uint64]  # [2 * power of two]: tag, 0 for none; in-flight node, or -1 - leaf
    hash_items: Items[int64]  # the same memory
    hash_used: Items[int64]  # filled places
    nodes: Items[int64]  # [E * FLIGHT_FIELDS]
    flight: Items[int64]  # visits in flight by edge
    shares: Items[int64]  # [E]: collisions allowed below an entry (`budget`)
    floats: Items[float64]  # [1024] scratch
    counts: Items[int64]  # [COUNTS]
    # the same of the wave that is being evaluated while this one is gathered, or of an empty one
    before_counts: Items[int64]
    before_hash: Items[uint64]
    before_items: Items[int64]
    before_nodes: Items[int64]
    before_flight: Items[int64]
    candidates_size: int64
    flight_size: int64


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
    words, places = np.empty(entries * ENTRY_WORDS, np.uint64), np.zeros(2 * hash_places(leaves), np.uint64)
    counts, nothing = apart(COUNTS, np.int64), np.zeros(COUNTS, np.int64)
    return WaveArrays(
        words=words,
        entries=words.view(np.int64),
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
        hash=places,
        hash_items=places.view(np.int64),
        hash_used=np.empty(entries + leaves + 1, np.int64),
        nodes=np.empty(entries * FLIGHT_FIELDS, np.int64),
        flight=np.empty(16 * entries + 4096, np.int64),
        shares=np.empty(entries, np.int64),
        floats=apart(1024, np.float64),
        counts=counts,
        before_counts=nothing,
        before_hash=nothing.view(np.uint64),
        before_items=nothing,
        before_nodes=nothing,
        before_flight=nothing,
    )


def behind(wave: WaveArrays, before: WaveArrays) -> WaveArrays:
    """Returns a wave that is gathered while another one is being evaluated."""
    return wave.replace(
        before_counts=before.counts,
        before_hash=before.hash,
        before_items=before.hash_items,
        before_nodes=before.nodes,
        before_flight=before.flight,
    )


def bytes_of(wave: WaveArrays) -> int:
    """Returns the memory of a wave, of which some arrays are two fields, with nothing before it."""
    own = {array.ctypes.data: array.nbytes for array in wave.arrays()}
    return sum(own.values()) - wave.before_counts.nbytes


def drop_leaves(wave: WaveArrays) -> None:
    """Drops a gathered or waiting wave: its leaves are not evaluated, and no visit stays in flight."""
    wave.counts[[STAGE, LEAVES]] = NOT_WAITING, 0


def slots_of(wave: WaveArrays) -> NDArray[np.uint64]:
    """Returns the slots of the records that a wave has met, one for each entry, 0 for none."""
    fields = wave.words.reshape(-1, ENTRY_WORDS)[: int(wave.counts[ENTRIES]), SLOT]
    return np.ascontiguousarray(fields)


def missing_positions(wave: WaveArrays) -> NDArray[np.uint64]:
    """Returns the positions of the records that a wave waits for, `[R, 10]`."""
    misses = wave.misses[: int(wave.counts[MISSES])]
    return np.ascontiguousarray(wave.words.reshape(-1, ENTRY_WORDS)[misses, :POSITION_WORDS])


@inner
def words_of(W: WaveArrays, e: int64) -> Pointer[uint64]:
    """Returns the position of an entry."""
    return adv(W.words, e * ENTRY_WORDS)


@inner
def field(W: WaveArrays, e: int64, i: int64) -> int64:
    """Returns one field of an entry."""
    return W.entries[e * ENTRY_WORDS + i]


@inner
def set_field(W: WaveArrays, e: int64, i: int64, value: int64) -> None:
    """Sets one field of an entry."""
    W.entries[e * ENTRY_WORDS + i] = value


@inner
def check_of(W: WaveArrays, e: int64) -> uint64:
    """Returns the check hash of an entry's position."""
    return W.words[e * ENTRY_WORDS + CHECK]


@inner
def clear_wave(W: WaveArrays) -> None:
    """Empties a wave; the cost depends on the last wave's size, not on the capacity."""
    counts = W.counts
    for i in range(counts[HASHED]):
        W.hash[2 * W.hash_used[i]] = ZERO
    for i in range(counts[ENTRIES]):
        W.heads[field(W, i, DEPTH)] = -1
    for i in range(CLEARED):
        counts[i] = 0
    W.offsets[0] = 0


@inner
def drop_entries(W: WaveArrays, first: int64) -> None:
    """Drops the newest entries of a wave, from `first` on."""
    for down in range(W.counts[ENTRIES] - first):
        e = W.counts[ENTRIES] - 1 - down
        W.heads[field(W, e, DEPTH)] = field(W, e, NEXT)
    W.counts[ENTRIES] = first


@inner
def size_hash(W: WaveArrays, target: int64) -> None:
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
def first_place(W: WaveArrays, tag: uint64) -> int64:
    """Returns the first place to probe for a tag in the wave's hash table."""
    return mixed_tag(tag) & W.counts[HASH_MASK]


@inner
def hash_place(W: WaveArrays, tag: uint64) -> int64:
    """Returns the place of a position's tag in the wave's hash table, or the empty place for it."""
    i = first_place(W, tag)
    while True:
        found = W.hash[2 * i]
        if found == tag or found == ZERO:
            return i
        i = (i + 1) & W.counts[HASH_MASK]


@inner
def item_before(W: WaveArrays, tag: uint64) -> int64:
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
def hash_put(W: WaveArrays, place: int64, tag: uint64, item: int64) -> None:
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
def new_entry(W: WaveArrays, parent: int64, edge: int64, asked: int64, depth: int64) -> int64:
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


# ------------------------------------------------------------------ visits in flight
@inner
def fields_of(W: WaveArrays, node: int64) -> Pointer[int64]:
    """Returns the fields of an in-flight node."""
    return adv(W.nodes, node * FLIGHT_FIELDS)


@inner
def _new_flight(W: WaveArrays, tag: uint64) -> int64:
    """Returns a new in-flight node without visits of its own."""
    node = W.counts[NODES_IN_FLIGHT]
    W.counts[NODES_IN_FLIGHT] = node + 1
    before = item_before(W, tag)
    fields = fields_of(W, node)
    fields[AT] = 0
    fields[ROOM] = 0
    fields[SUM] = 0
    fields[SINGLE] = -1
    fields[OTHER] = before if 0 <= before < NOT_THERE else -1
    return node


@inner
def flight_at(W: WaveArrays, tag: uint64) -> int64:
    """Returns the in-flight node of a known position; creates it on this wave's first arrival."""
    place = hash_place(W, tag)
    if W.hash[2 * place] == ZERO:
        hash_put(W, place, tag, _new_flight(W, tag))
    return W.hash_items[2 * place + 1]


@inner
def is_leaf_in_flight(W: WaveArrays, tag: uint64) -> bool:
    """Returns whether a position waits for its evaluation, in this wave or the one before."""
    return W.hash[2 * hash_place(W, tag)] != ZERO or item_before(W, tag) != NOT_THERE


@inner
def widen_flight(W: WaveArrays, node: int64, room: int64) -> None:
    """Extends an in-flight node to at least `room` edge counts."""
    fields = fields_of(W, node)
    had = fields[ROOM]
    if had >= room:
        return
    old = fields[AT]
    at = W.counts[FLIGHT_USED]
    W.counts[FLIGHT_USED] = at + room
    for j in range(had):
        W.flight[at + j] = W.flight[old + j]
    for j in range(had, room):
        W.flight[at + j] = 0
    if fields[SINGLE] >= 0:
        W.flight[at + fields[SINGLE]] = fields[SUM]
        fields[SINGLE] = -1
    fields[AT] = at
    fields[ROOM] = room


@inner
def _counted(nodes: Pointer[int64], flight: Pointer[int64], node: int64, j: int64) -> int64:
    fields = adv(nodes, node * FLIGHT_FIELDS)
    if j < fields[ROOM]:
        return flight[fields[AT] + j]
    if j == fields[SINGLE]:
        return fields[SUM]
    return int64(0)


@inner
def in_flight(W: WaveArrays, node: int64, j: int64) -> int64:
    """Returns the visits in flight over edge `j` of an in-flight node, those of the wave before included."""
    visits = _counted(W.nodes, W.flight, node, j)
    other = fields_of(W, node)[OTHER]
    if other >= 0:
        visits += _counted(W.before_nodes, W.before_flight, other, j)
    return visits


@inner
def _covered(nodes: Pointer[int64], node: int64) -> int64:
    fields = adv(nodes, node * FLIGHT_FIELDS)
    return max(fields[ROOM], fields[SINGLE] + 1)


@inner
def edges_in_flight(W: WaveArrays, node: int64) -> int64:
    """Returns the number of leading edges of a node that cover all of its visits in flight."""
    edges = _covered(W.nodes, node)
    other = fields_of(W, node)[OTHER]
    return max(edges, _covered(W.before_nodes, other)) if other >= 0 else edges


@inner
def all_in_flight(W: WaveArrays, node: int64) -> int64:
    """Returns the visits in flight over all edges of an in-flight node."""
    fields = fields_of(W, node)
    visits = fields[SUM]
    if fields[OTHER] >= 0:
        visits += W.before_nodes[fields[OTHER] * FLIGHT_FIELDS + SUM]
    return visits


@inner
def send(W: WaveArrays, node: int64, j: int64, visits: int64, room: int64) -> None:
    """Puts visits in flight over edge `j` of a node; its block has `room` entries."""
    fields = fields_of(W, node)
    if fields[ROOM] == 0 and (fields[SUM] == 0 or fields[SINGLE] == j):
        fields[SINGLE] = j
    else:
        widen_flight(W, node, max(room, j + 1))
        W.flight[fields[AT] + j] += visits
    fields[SUM] += visits


@inner
def land(W: WaveArrays, node: int64, j: int64, visits: int64) -> None:
    """Takes visits over edge `j` of a node out of flight, whether they were completed or not."""
    fields = fields_of(W, node)
    if j < fields[ROOM]:
        W.flight[fields[AT] + j] -= visits
    fields[SUM] -= visits


# ------------------------------------------------------------------ notes of several threads
COUNT_BITS, EDGE_BITS = 8, 9
LEAF_NOTE = int64(1 << 53)  # above slot and edge
KEY_SHIFT = U(11)  # leaves 53 bits of a key


@inner
def _subject(note: int64) -> int64:
    return note >> COUNT_BITS


@inner
def _noted_visits(note: int64) -> int64:
    return note & ((1 << COUNT_BITS) - 1)


@inner
def _note_place(A: ArenaArrays, at: int64, subject: int64) -> int64:
    """Returns the place of the note on a subject, or the first free one of its row."""
    end = at + arena.FIRST_NOTE + A.guards[at + arena.NOTES]
    place = at + arena.FIRST_NOTE
    while place < end and _subject(A.guards[place]) != subject:
        place += 1
    return place


@inner
def _add_note(A: ArenaArrays, at: int64, subject: int64) -> bool:
    """Increments the count of a subject; returns whether there was room for it."""
    place = _note_place(A, at, subject)
    if place == at + arena.FIRST_NOTE + A.guards[at + arena.NOTES]:
        if A.guards[at + arena.NOTES] == arena.MOST_NOTES:
            return False
        A.guards[place] = subject << COUNT_BITS
        A.guards[at + arena.NOTES] += 1
    A.guards[place] += 1
    return True


@inner
def _remove_note(A: ArenaArrays, at: int64, subject: int64) -> None:
    """Decrements the count of a subject, if it is noted."""
    place = _note_place(A, at, subject)
    last = at + arena.FIRST_NOTE + A.guards[at + arena.NOTES] - 1
    if place > last:
        return
    A.guards[place] -= 1
    if _noted_visits(A.guards[place]) == 0:
        A.guards[place] = A.guards[last]
        A.guards[last] = 0
        A.guards[at + arena.NOTES] -= 1


# ------------------------------------------------------------------ visits in flight
@inner
def _over_edge(rec: int64, j: int64) -> int64:
    return (rec << EDGE_BITS) | j


@inner
def note_visit(A: ArenaArrays, at: int64, rec: int64, j: int64) -> None:
    """Notes a visit in flight over edge `j` of a record with a locked row."""
    if A.guard_mask:
        _add_note(A, at, _over_edge(rec, j))


@inner
def drop_visit(A: ArenaArrays, at: int64, rec: int64, j: int64) -> None:
    """Removes the note of `note_visit`."""
    if A.guard_mask:
        _remove_note(A, at, _over_edge(rec, j))


@inner
def flying_over(A: ArenaArrays, at: int64, rec: int64, j: int64) -> int64:
    """Returns the visits in flight over edge `j` of a record with a locked row; without a note, a bound."""
    place = _note_place(A, at, _over_edge(rec, j))
    if place == at + arena.FIRST_NOTE + A.guards[at + arena.NOTES]:
        return arena.threads_of(A)
    return _noted_visits(A.guards[place])


@inner
def visits_over(A: ArenaArrays, at: int64, rec: int64, note: int64) -> tuple[int64, int64]:
    """Returns (edge, visits in flight) of a note of a row; edge -1 if it is not about the record."""
    found = A.guards[at + arena.FIRST_NOTE + note]
    if _subject(found) >> EDGE_BITS != rec:
        return int64(-1), int64(0)
    return _subject(found) & ((1 << EDGE_BITS) - 1), _noted_visits(found)


# ------------------------------------------------------------------ leaves
@inner
def _leaf_subject(key: uint64) -> int64:
    return LEAF_NOTE | int64(key >> KEY_SHIFT)


@inner
def claim_leaf(A: ArenaArrays, key: uint64, check: uint64) -> bool:
    """Claims an unknown position as this thread's leaf; returns False if it is known by now, or claimed."""
    if A.guard_mask == 0:
        return True
    at = arena.row_of(A, key)
    arena.take_guard(A, at)
    place = _note_place(A, at, _leaf_subject(key))
    is_free = place == at + arena.FIRST_NOTE + A.guards[at + arena.NOTES]
    is_claimed = is_free and arena.find(A, key, check) == 0 and _add_note(A, at, _leaf_subject(key))
    arena.give_guard(A, at)
    return is_claimed


@inner
def release_leaf(A: ArenaArrays, key: uint64) -> None:
    """Removes the note on a leaf that is in the table by now."""
    if A.guard_mask:
        at = arena.row_of(A, key)
        arena.take_guard(A, at)
        _remove_note(A, at, _leaf_subject(key))
        arena.give_guard(A, at)
