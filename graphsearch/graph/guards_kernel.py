"""Guards of an arena that several threads search at once: spin locks, each with room for notes.

    row 0       | space: locked?
    row 1       | file: locked?
    row 2       | turns left | address of `sched_yield`, 0 for none | threads
    row 3...    | locked? | notes | note | note | ..          a row guards all records whose slots hash to it

A thread holds at most the rows of a record and of its parent on a path, then `space`. While it waits for a
second row it releases the first one at intervals, so threads cannot deadlock. With one thread there are no
guards, and every function here does nothing.
"""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..jit.apart import apart
from ..jit.compiler import inlined, inner
from ..jit.pointers import U, call_c, exchange, fetch_add, load_acquire, pause, ptr, store_release
from ..jit.types import int64, uint64
from . import arena_kernel as arena
from .arena_kernel import ArenaArrays, ArenaPointers, pointers

ROW_WORDS = 16  # two cache lines; most rows use only the first
SPACE, FILE, SHARED, FIRST_ROW = (int64(row * ROW_WORDS) for row in range(4))
TURNS, YIELD, THREADS = SHARED, SHARED + 1, SHARED + 2
ROWS_PER_THREAD, LEAST_ROWS = 512, 1024  # two threads collide in a row by chance once in some thousand visits
NOTES, FIRST_NOTE = 1, 2  # words of a row
MOST_NOTES = ROW_WORDS - FIRST_NOTE
TURNS_AT_ONCE = 8
MIXER = U(0x9E3779B97F4A7C15)
SPINS, PATIENCE = 64, 200  # tries before a waiting thread yields its core, or releases the row it holds


class ThreadArrays(NamedTuple):
    """The arrays of one of several threads, beside those of the arena."""

    guards: NDArray[np.int64]  # [FIRST_ROW + rows * ROW_WORDS], shared; empty: a single thread
    counters: NDArray[np.int64]  # [COUNTERS]: counts of this thread's visits
    ints: NDArray[np.int64]  # [INTS]: a copy, with scratch of its own
    moves: NDArray[np.uint16]  # [256] scratch


NO_THREADS = ThreadArrays(
    np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.uint16)
)


def new_guards(threads: int) -> NDArray[np.int64]:
    """Returns guards for `threads` threads, all of them unlocked.

    >>> len(new_guards(2)) // ROW_WORDS - 3, len(new_guards(5)) // ROW_WORDS - 3
    (1024, 4096)
    """
    rows = max(LEAST_ROWS, 1 << (ROWS_PER_THREAD * threads - 1).bit_length())
    guards = apart(int(FIRST_ROW) + rows * ROW_WORDS, np.int64)
    guards[YIELD], guards[THREADS] = _address_of_yield(), threads
    return guards


@cache
def _address_of_yield() -> int:
    """Returns the address of the C library's `sched_yield`; 0 if it has none, as on Windows."""
    if sys.platform == "win32":
        return 0
    return ctypes.cast(ctypes.CDLL(None).sched_yield, ctypes.c_void_p).value or 0


@inner
def pointers_of_thread(A: ArenaArrays, H: ThreadArrays) -> ArenaPointers:
    """Returns an arena's pointer bundle for one of several threads, or for a single one."""
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
    """Pauses in a spin loop; yields the core every SPINS tries, as the other thread may need it."""
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
    """Locks the guard at a word: SPACE, FILE or the beginning of a row."""
    if A.guard_mask and exchange(A.guards, at, int64(1)) != 0:
        _wait_for(A, at)


@inlined
def give_guard(A: ArenaPointers, at: int64) -> None:
    """Unlocks the guard at a word."""
    if A.guard_mask:
        store_release(A.guards, at, int64(0))


@inlined
def row_of(A: ArenaPointers, number: uint64) -> int64:
    """Returns the first word of the row of a slot or a key."""
    return FIRST_ROW + (int64((number * MIXER) >> U(40)) & A.guard_mask) * ROW_WORDS


@inlined
def lock_record(A: ArenaPointers, rec: int64) -> int64:
    """Locks the row of a record; returns its first word."""
    at = row_of(A, U(rec))
    take_guard(A, at)
    return at


@inlined
def lock_above(A: ArenaPointers, below: int64, rec: int64) -> int64:
    """Locks the row of a locked record's parent; returns its first word, `below` if the row is the same."""
    at = row_of(A, U(rec))
    if A.guard_mask and at != below and exchange(A.guards, at, int64(1)) != 0:
        _wait_above(A, below, at)
    return at


@inner
def _wait_above(A: ArenaPointers, below: int64, at: int64) -> None:
    """Locks the row at `at`; while it waits, it releases the row at `below` for a moment at intervals."""
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
    """Adds to a shared counter of the arena; returns the previous value."""
    if A.guard_mask:
        return fetch_add(A.space, counter, more)
    before = A.space[counter]
    A.space[counter] = before + more
    return before


@inlined
def threads_of(A: ArenaPointers) -> int64:
    """Returns the number of threads that search the arena."""
    return A.guards[THREADS] if A.guard_mask else int64(1)


@inlined
def takes_turn(A: ArenaPointers) -> bool:
    """Takes one turn, for one more visit; returns whether there was one.

    A thread takes TURNS_AT_ONCE turns together; those that it has not used when its visits end are lost.
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
    """Sets the shared number of turns to 0."""
    if A.guard_mask:
        store_release(A.guards, TURNS, int64(0))


def merge_counters(shared: NDArray[np.int64], own: NDArray[np.int64]) -> None:
    """Adds a thread's counts to the counters of the arena, and clears them."""
    deepest = max(shared[arena.SELDEPTH], own[arena.SELDEPTH])
    shared[list(arena.OF_VISITS)] += own[list(arena.OF_VISITS)]
    shared[arena.SELDEPTH] = deepest
    own[[*arena.OF_VISITS, arena.TURNS_TAKEN]] = 0
