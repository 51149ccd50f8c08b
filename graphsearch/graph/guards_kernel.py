"""Guards of an arena that several threads search at once: locks, and room for notes beside them.

    row 0       | space: locked?
    row 1       | file: locked?
    row 2       | turns left | address of `sched_yield`, 0 for none | threads
    row 3...    | locked? | notes | note | note | ..          a row guards every record whose slot leads to it

A thread holds at most the rows of a record and of its parent on a path, then `space`. It waits for a second
row only for a moment and then gives up the first, so no circle of waiting threads can last. With one thread
there are no guards, and every function here does nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..jit.apart import apart
from ..jit.compiler import inlined, inner
from ..jit.pointers import U, call_c, exchange, fetch_add, load_acquire, pause, ptr, store_release
from ..jit.system import address_of
from ..jit.types import int64, uint64
from . import arena_kernel as arena
from .arena_kernel import ArenaArrays, ArenaPointers, pointers

ROW_WORDS = 16  # two cache lines, of which the first is enough for most
SPACE, FILE, SHARED, FIRST_ROW = (int64(row * ROW_WORDS) for row in range(4))
TURNS, YIELD, THREADS = SHARED, SHARED + 1, SHARED + 2
ROWS_PER_THREAD, LEAST_ROWS = 512, 1024  # two threads meet in a row by chance once in some thousand visits
NOTES, FIRST_NOTE = 1, 2  # words of a row
MOST_NOTES = ROW_WORDS - FIRST_NOTE
TURNS_AT_ONCE = 8
MIXER = U(0x9E3779B97F4A7C15)
SPINS, PATIENCE = 64, 200  # before a waiting thread gives its core away, or the row that it holds


class ThreadArrays(NamedTuple):
    """What one of several threads has beside the arena."""

    guards: NDArray[np.int64]  # [FIRST_ROW + rows * ROW_WORDS], of all threads; empty: there is one thread
    counters: NDArray[np.int64]  # [COUNTERS]: what this thread's visits count
    ints: NDArray[np.int64]  # [INTS]: a copy, with scratch of its own
    moves: NDArray[np.uint16]  # [256] scratch


NO_THREADS = ThreadArrays(
    np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.uint16)
)


def new_guards(threads: int) -> NDArray[np.int64]:
    """Returns guards for so many threads, all of them open.

    >>> len(new_guards(2)) // ROW_WORDS - 3, len(new_guards(5)) // ROW_WORDS - 3
    (1024, 4096)
    """
    rows = max(LEAST_ROWS, 1 << (ROWS_PER_THREAD * threads - 1).bit_length())
    guards = apart(int(FIRST_ROW) + rows * ROW_WORDS, np.int64)
    guards[YIELD], guards[THREADS] = address_of("sched_yield"), threads
    return guards


@inner
def pointers_of_thread(A: ArenaArrays, H: ThreadArrays) -> ArenaPointers:
    """Returns the pointer bundle of an arena for one of several threads, or for the only one."""
    P = pointers(A)
    if H.guards.size == 0:
        return P
    return ArenaPointers(
        P.table,
        P.records,
        P.blocks,
        P.values,
        ptr(H.counters, 0),
        P.floats,
        ptr(H.ints, 0),
        ptr(H.moves, 0),
        P.overlay,
        P.history,
        P.log,
        P.entries,
        P.space,
        ptr(H.guards, 0),
        int64((H.guards.size - FIRST_ROW) // ROW_WORDS - 1),
        P.size,
        P.record_limit,
        P.block_limit,
        P.overlay_size,
        P.history_size,
        P.log_size,
    )


# ------------------------------------------------------------------ locks
@inner
def rest(A: ArenaPointers, tries: int64) -> None:
    """Lets time pass in a loop that waits for another thread; it may need this thread's core."""
    pause()
    if tries % SPINS == SPINS - 1 and A.guards[YIELD] != 0:
        call_c(A.guards[YIELD], ())


@inner
def _wait_for(A: ArenaPointers, at: int64) -> None:
    tries = int64(0)
    while exchange(A.guards, at, int64(1)) != 0:
        while load_acquire(A.guards, at) != 0:
            rest(A, tries)
            tries += 1


@inlined
def take_guard(A: ArenaPointers, at: int64) -> None:
    """Locks a row, or what a word of the first rows guards."""
    if A.guard_mask and exchange(A.guards, at, int64(1)) != 0:
        _wait_for(A, at)


@inlined
def give_guard(A: ArenaPointers, at: int64) -> None:
    """Unlocks it."""
    if A.guard_mask:
        store_release(A.guards, at, int64(0))


@inlined
def row_of(A: ArenaPointers, number: uint64) -> int64:
    """Returns where the row of a slot, or of a key, begins."""
    return FIRST_ROW + (int64((number * MIXER) >> U(40)) & A.guard_mask) * ROW_WORDS


@inlined
def lock_record(A: ArenaPointers, rec: int64) -> int64:
    """Locks the row of a record; returns where it begins."""
    at = row_of(A, U(rec))
    take_guard(A, at)
    return at


@inlined
def lock_above(A: ArenaPointers, below: int64, rec: int64) -> int64:
    """Locks the row of a record above a locked one; returns where it begins, `below` if it is the same."""
    at = row_of(A, U(rec))
    if A.guard_mask and at != below and exchange(A.guards, at, int64(1)) != 0:
        _wait_above(A, below, at)
    return at


@inner
def _wait_above(A: ArenaPointers, below: int64, at: int64) -> None:
    """Waits for a row, and gives up the locked one meanwhile, now and then."""
    tries = int64(0)
    while True:
        if load_acquire(A.guards, at) == 0 and exchange(A.guards, at, int64(1)) == 0:
            return
        tries += 1
        if tries % PATIENCE == 0:
            give_guard(A, below)
            rest(A, int64(SPINS - 1))
            take_guard(A, below)
        else:
            pause()


# ------------------------------------------------------------------ counts
@inlined
def count_in(A: ArenaPointers, counter: int64, more: int64) -> int64:
    """Adds to a counter of the arena that threads share; returns its value before."""
    if A.guard_mask:
        return fetch_add(A.space, counter, more)
    before = A.space[counter]
    A.space[counter] = before + more
    return before


@inlined
def threads_of(A: ArenaPointers) -> int64:
    """Returns how many threads search the arena."""
    return A.guards[THREADS] if A.guard_mask else int64(1)


@inlined
def takes_turn(A: ArenaPointers) -> bool:
    """Returns whether there is a turn left for one more visit; takes it.

    A thread takes some turns at once; those that it leaves when another ends the turns are lost.
    """
    if A.guard_mask == 0:
        return True
    if A.counters[arena.TURNS_TAKEN] == 0:
        left = fetch_add(A.guards, TURNS, int64(-TURNS_AT_ONCE))
        A.counters[arena.TURNS_TAKEN] = max(int64(0), min(left, int64(TURNS_AT_ONCE)))
    if A.counters[arena.TURNS_TAKEN] == 0:
        return False
    A.counters[arena.TURNS_TAKEN] -= 1
    return True


@inlined
def end_turns(A: ArenaPointers) -> None:
    """Leaves no more turns to any thread."""
    if A.guard_mask:
        store_release(A.guards, TURNS, int64(0))


def merge_counters(shared: NDArray[np.int64], own: NDArray[np.int64]) -> None:
    """Adds what a thread's visits have counted to the counters of the arena."""
    deepest = max(shared[arena.SELDEPTH], own[arena.SELDEPTH])
    shared[list(arena.OF_VISITS)] += own[list(arena.OF_VISITS)]
    shared[arena.SELDEPTH] = deepest
    own[[*arena.OF_VISITS, arena.TURNS_TAKEN]] = 0
