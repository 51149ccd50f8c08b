"""Notes for other threads, next to the locks of records: visits in flight, and leaves.

    row of a record   | locked? | notes | slot, edge: visits in flight | .. | key of a leaf: 1 | ..

A note is its subject << 8 | a count. The subject is a slot and an edge, or a key (one bit of it is lost).
A full row accepts no more notes on visits, so other threads do not see those visits. Leaves wait for room.
Only the thread that holds a row's lock accesses its notes. Without visits under way there are none.
"""

from __future__ import annotations

from ..graph.arena_kernel import ArenaPointers
from ..graph.guards_kernel import FIRST_NOTE, MOST_NOTES, NOTES, give_guard, row_of, take_guard, threads_of
from ..graph.heap_kernel import find
from ..jit.compiler import inlined, inner
from ..jit.pointers import U
from ..jit.types import int64, uint64

COUNT_BITS, EDGE_BITS = 8, 9
LEAF = int64(1 << 53)  # above slot and edge
KEY_SHIFT = U(11)  # leaves 53 bits of a key


@inlined
def _subject(note: int64) -> int64:
    return note >> COUNT_BITS


@inlined
def _visits(note: int64) -> int64:
    return note & ((1 << COUNT_BITS) - 1)


@inner
def _place(A: ArenaPointers, at: int64, subject: int64) -> int64:
    """Returns the place of the note on a subject, or the first free one of its row."""
    end = at + FIRST_NOTE + A.guards[at + NOTES]
    place = at + FIRST_NOTE
    while place < end and _subject(A.guards[place]) != subject:
        place += 1
    return place


@inner
def _add(A: ArenaPointers, at: int64, subject: int64) -> bool:
    """Increments the count of a subject; returns whether there was room for it."""
    place = _place(A, at, subject)
    if place == at + FIRST_NOTE + A.guards[at + NOTES]:
        if A.guards[at + NOTES] == MOST_NOTES:
            return False
        A.guards[place] = subject << COUNT_BITS
        A.guards[at + NOTES] += 1
    A.guards[place] += 1
    return True


@inner
def _remove(A: ArenaPointers, at: int64, subject: int64) -> None:
    """Decrements the count of a subject, if it is noted."""
    place = _place(A, at, subject)
    last = at + FIRST_NOTE + A.guards[at + NOTES] - 1
    if place > last:
        return
    A.guards[place] -= 1
    if _visits(A.guards[place]) == 0:
        A.guards[place] = A.guards[last]
        A.guards[last] = 0
        A.guards[at + NOTES] -= 1


# ------------------------------------------------------------------ visits in flight
@inlined
def _over(rec: int64, j: int64) -> int64:
    return (rec << EDGE_BITS) | j


@inlined
def note_visit(A: ArenaPointers, at: int64, rec: int64, j: int64) -> None:
    """Notes a visit in flight over edge `j` of a record with a locked row."""
    if A.guard_mask:
        _add(A, at, _over(rec, j))


@inlined
def drop_visit(A: ArenaPointers, at: int64, rec: int64, j: int64) -> None:
    """Removes the note of `note_visit`."""
    if A.guard_mask:
        _remove(A, at, _over(rec, j))


@inner
def flying_over(A: ArenaPointers, at: int64, rec: int64, j: int64) -> int64:
    """Returns the visits in flight over edge `j` of a record with a locked row; without a note, a bound."""
    place = _place(A, at, _over(rec, j))
    if place == at + FIRST_NOTE + A.guards[at + NOTES]:
        return threads_of(A)
    return _visits(A.guards[place])


@inlined
def has_notes(A: ArenaPointers, at: int64) -> bool:
    """Returns whether there may be visits in flight over edges of a record with a locked row."""
    return A.guard_mask != 0 and A.guards[at + NOTES] != 0


@inner
def visits_over(A: ArenaPointers, at: int64, rec: int64, note: int64) -> tuple[int64, int64]:
    """Returns (edge, visits in flight) of a note of a row; edge -1 if it is not about the record."""
    found = A.guards[at + FIRST_NOTE + note]
    if _subject(found) >> EDGE_BITS != rec:
        return int64(-1), int64(0)
    return _subject(found) & ((1 << EDGE_BITS) - 1), _visits(found)


# ------------------------------------------------------------------ leaves
@inlined
def _leaf(key: uint64) -> int64:
    return LEAF | int64(key >> KEY_SHIFT)


@inlined
def claim_leaf(A: ArenaPointers, key: uint64, check: uint64) -> bool:
    """Claims an unknown position as this thread's leaf; returns False if it is known by now, or claimed."""
    return A.guard_mask == 0 or _claim_leaf(A, key, check)


@inner
def _claim_leaf(A: ArenaPointers, key: uint64, check: uint64) -> bool:
    at = row_of(A, key)
    take_guard(A, at)
    place = _place(A, at, _leaf(key))
    is_free = place == at + FIRST_NOTE + A.guards[at + NOTES]
    is_claimed = is_free and find(A, key, check) == 0 and _add(A, at, _leaf(key))
    give_guard(A, at)
    return is_claimed


@inlined
def release_leaf(A: ArenaPointers, key: uint64) -> None:
    """Removes the note on a leaf that is in the table by now."""
    if A.guard_mask:
        _release_leaf(A, key)


@inner
def _release_leaf(A: ArenaPointers, key: uint64) -> None:
    at = row_of(A, key)
    take_guard(A, at)
    _remove(A, at, _leaf(key))
    give_guard(A, at)
