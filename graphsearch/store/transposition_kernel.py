"""Transposition entries of fixed-depth searches and mate proofs: a table of buckets in memory.

    keys  uint64, the graph's key of the position; 0: no entry
    data  uint64, the entry
    ages  uint8, UNSAVED | the search that wrote or used the entry last

    bucket  | place | place | place | place |   a key is in one of four; the least valuable entry is evicted

The fields of an entry:

    bits  0-17  value + VALUE_BIAS, thousandths of a pawn for the side to move
         18-33  best move, 0 none
         34-40  depth, plies of full width; PROOF: it holds at every depth
         41-42  bound: UPPER, LOWER or EXACT, 0 only the move is known
         43-44  node type that was expected: PV, CUT or ALL, 0 none
         45-47  which move in order made the cut, from 1, at most MOST_CUT
         48-63  low bits of the check hash

A value is seen by the side to move, in thousandths of a pawn; MATE - n wins by mate in n plies, n - MATE is
mated in n plies, counted from the entry's position. `schema/entries.md` is the reference of the file's
format.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..jit.compiler import inner, kernel
from ..jit.pointers import ZERO, U, ptr
from ..jit.types import Bundle, Items, int64, uint8, uint64
from ..position.board_kernel import check_hash
from ..position.values import LEAST_MATE

# ------------------------------------------------------------------ the fields of an entry
VALUE_BITS, MOVE_BITS, DEPTH_BITS, BOUND_BITS, TYPE_BITS, CUT_BITS, CHECK_BITS = 18, 16, 7, 2, 2, 3, 16

VALUE_AT = 0
MOVE_AT = VALUE_AT + VALUE_BITS
DEPTH_AT = MOVE_AT + MOVE_BITS
BOUND_AT = DEPTH_AT + DEPTH_BITS
TYPE_AT = BOUND_AT + BOUND_BITS
CUT_AT = TYPE_AT + TYPE_BITS
CHECK_AT = CUT_AT + CUT_BITS
assert CHECK_AT + CHECK_BITS == 64
assert (MOVE_AT, DEPTH_AT, BOUND_AT, TYPE_AT, CUT_AT, CHECK_AT) == (18, 34, 41, 43, 45, 48)

VALUE_MASK, MOVE_MASK, DEPTH_MASK = (1 << VALUE_BITS) - 1, (1 << MOVE_BITS) - 1, (1 << DEPTH_BITS) - 1
BOUND_MASK, TYPE_MASK, CUT_MASK = (1 << BOUND_BITS) - 1, (1 << TYPE_BITS) - 1, (1 << CUT_BITS) - 1
CHECK_MASK = (1 << CHECK_BITS) - 1

VALUE_BIAS = 1 << (VALUE_BITS - 1)
UPPER, LOWER, EXACT = 1, 2, 3  # bounds
NO_TYPE, PV, CUT, ALL = 0, 1, 2, 3  # expected node types
PROOF = DEPTH_MASK  # the depth of a proven mate: it holds at every depth
MOST_DEPTH = PROOF - 1
MOST_CUT = CUT_MASK

Words = NDArray[np.uint64]


def bits_at(data: Words, at: int, mask: int) -> NDArray[np.int64]:
    """Returns the raw bits of one field of data words.

    >>> bits_at(np.array([5 << DEPTH_AT], np.uint64), DEPTH_AT, DEPTH_MASK).tolist()
    [5]
    """
    return (data >> np.uint64(at) & np.uint64(mask)).astype(np.int64)


def values(data: Words) -> NDArray[np.int64]:
    """Returns the values of data words."""
    return bits_at(data, VALUE_AT, VALUE_MASK) - VALUE_BIAS


def checks(data: Words) -> Words:
    """Returns the check bits of data words, as words: they distinguish positions with the same key."""
    return data >> np.uint64(CHECK_AT)


# ------------------------------------------------------------------ the table

BUCKET = 4  # places that a position's entry may take
UNSAVED, AGE = 128, 127  # bits of `ages`: not yet in the file | search that wrote or used it last

# counters
STORED, DIRTY_ENTRIES, GENERATION, ENTRY_COUNTERS = range(4)


class EntryArrays(Bundle):
    """The arrays of a table of entries.

    Attributes:
      keys: uint64[S], S a power of two; 0: no entry. data: uint64[S]. ages: uint8[S].
      counters: int64[ENTRY_COUNTERS]: entries | not in the file | number of the current search, 1..127.
    """

    keys: Items[uint64]
    data: Items[uint64]
    ages: Items[uint8]
    counters: Items[int64]
    keys_size: int64


def new_entries(places: int) -> EntryArrays:
    """Returns an empty table of `places` entries, a power of two, at least BUCKET."""
    counters = np.zeros(ENTRY_COUNTERS, np.int64)
    counters[GENERATION] = 1
    return EntryArrays(
        keys=np.zeros(places, np.uint64),
        data=np.zeros(places, np.uint64),
        ages=np.zeros(places, np.uint8),
        counters=counters,
    )


@inner
def packed_entry(
    value: int64, move: int64, depth: int64, bound: int64, kind: int64, cut: int64, check: uint64
) -> uint64:
    """Returns the data word of an entry."""
    return (
        U(int64(value) + VALUE_BIAS)
        | (U(move) << U(MOVE_AT))
        | (U(depth) << U(DEPTH_AT))
        | (U(bound) << U(BOUND_AT))
        | (U(kind) << U(TYPE_AT))
        | (U(min(int64(cut), MOST_CUT)) << U(CUT_AT))
        | ((U(check) & U(CHECK_MASK)) << U(CHECK_AT))
    )


@inner
def value_in(data: uint64) -> int64:
    """Returns the value of an entry."""
    return int64(data & U(VALUE_MASK)) - VALUE_BIAS


@inner
def move_in(data: uint64) -> int64:
    """Returns the best move of an entry, 0 if it has none."""
    return int64((data >> U(MOVE_AT)) & U(MOVE_MASK))


@inner
def depth_in(data: uint64) -> int64:
    """Returns the depth of an entry."""
    return int64((data >> U(DEPTH_AT)) & U(DEPTH_MASK))


@inner
def bound_in(data: uint64) -> int64:
    """Returns UPPER, LOWER or EXACT; 0: only the move is known."""
    return int64((data >> U(BOUND_AT)) & U(BOUND_MASK))


@inner
def proves_mate(value: int64, bound: int64) -> bool:
    """Returns whether a value with its bound is a forced mate, for either side; of arrays, for each."""
    wins, loses = value >= LEAST_MATE, value <= -LEAST_MATE
    return (wins & (bound >= LOWER)) | (loses & (bound & UPPER != 0))


@inner
def check_in(data: uint64) -> uint64:
    """Returns the check bits of an entry, uint64."""
    return data >> U(CHECK_AT)


@inner
def bucket_of(E: EntryArrays, key: uint64) -> int64:
    """Returns the first place of the bucket of a key."""
    return int64((key ^ (key >> U(32))) & U(E.keys_size - 1)) & ~int64(BUCKET - 1)


@inner
def find_entry(E: EntryArrays, key: uint64, check: uint64) -> int64:
    """Returns the place of a position's entry, -1 if there is none."""
    at = bucket_of(E, key)
    for i in range(at, at + BUCKET):
        if E.keys[i] == key and check_in(E.data[i]) == (U(check) & U(CHECK_MASK)):
            return int64(i)
    return int64(-1)


@inner
def _worth(E: EntryArrays, i: int64) -> int64:
    """Returns the worth of a place, -1 if empty: proofs first, then entries of this search, then depth."""
    if E.keys[i] == ZERO:
        return int64(-1)
    fresh = 256 if int64(E.ages[i]) & AGE == E.counters[GENERATION] else 0
    return fresh + depth_in(E.data[i]) + (512 if depth_in(E.data[i]) == PROOF else 0)


@inner
def place_for(E: EntryArrays, key: uint64, check: uint64) -> int64:
    """Returns the place of a position's entry; without one, the least valuable place of its bucket."""
    found = find_entry(E, key, check)
    if found >= 0:
        return found
    at = bucket_of(E, key)
    least = int64(at)
    for i in range(at + 1, at + BUCKET):
        if _worth(E, int64(i)) < _worth(E, least):
            least = int64(i)
    return least


@inner
def put_entry(E: EntryArrays, at: int64, key: uint64, data: uint64, dirty: bool) -> None:
    """Writes an entry to a place that `place_for` returned; ignores key 0."""
    if key == ZERO:
        return
    counters = E.counters
    if E.keys[at] == ZERO:
        counters[STORED] += 1
    elif E.ages[at] & uint8(UNSAVED):
        counters[DIRTY_ENTRIES] -= 1
    E.keys[at] = key
    E.data[at] = data
    E.ages[at] = uint8(counters[GENERATION] | (UNSAVED if dirty else 0))
    if dirty:
        counters[DIRTY_ENTRIES] += 1


@kernel
def enter(E: EntryArrays, keys: NDArray[np.uint64], data: NDArray[np.uint64]) -> None:
    """Adds entries read from the file as clean; an existing entry stays if it is at least as deep.

    Args:
      keys, data: uint64[K].
    """
    for i in range(keys.size):
        check = check_in(data[i])
        at = place_for(E, keys[i], check)
        if E.keys[at] != keys[i] or depth_in(E.data[at]) < depth_in(data[i]):
            put_entry(E, at, keys[i], data[i], False)


@kernel
def check_of_words(words: NDArray[np.uint64]) -> uint64:
    """Returns the check hash of a packed position, uint64[10]."""
    return check_hash(ptr(words, 0))
