"""Lists moves to positions that a file may hold: one step of a walk through its entries."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..jit.compiler import inner, kernel
from ..jit.pointers import U, adv, popc, ptr, zeros
from ..jit.types import Pointer, int16, int64, uint8, uint16, uint64
from ..position.board_kernel import PW, generate_moves, in_check, make_child
from ..position.rules_kernel import ROOM
from ..position.words import BLACK, WHITE, BoardTable, Position
from ..store.index_kernel import FilterArrays, may_be_stored
from ..store.transposition_kernel import is_of

BEST, CAPTURE, CHECK = 1, 2, 4  # marks of a move
INDEX_BITS = 1  # about 2^INDEX_BITS entries in each part of the index


class EntryIndex(NamedTuple):
    """Entries sorted by key, and the start of each part: the keys with the same first bits.

    Attributes:
      keys, data: `[K]` uint64. firsts: `[2^bits + 1]` int64, index of the first key of each part.
    """

    keys: NDArray[np.uint64]
    data: NDArray[np.uint64]
    firsts: NDArray[np.int64]


def index_entries(keys: NDArray[np.uint64], data: NDArray[np.uint64]) -> EntryIndex:
    """Returns the index of entries, which may be in any order and may share keys."""
    order = np.argsort(keys, kind="stable")
    keys, data = np.ascontiguousarray(keys[order]), np.ascontiguousarray(data[order])
    bits = max(1, len(keys).bit_length() - INDEX_BITS)
    begins = np.arange(1 << bits, dtype=np.uint64) << np.uint64(64 - bits)
    firsts = np.append(np.searchsorted(keys, begins, "left"), len(keys)).astype(np.int64)
    return EntryIndex(keys, data, firsts)


@inner
def _entry_at(
    keys: Pointer[uint64],
    data: Pointer[uint64],
    firsts: Pointer[int64],
    bits: int64,
    key: uint64,
    check: uint64,
) -> int64:
    part = int64(key >> U(64 - bits))
    for i in range(firsts[part], firsts[part + 1]):
        if keys[i] == key and is_of(data[i], check):
            return int64(i)
    return int64(-1)


@inner
def _mark_of(T: BoardTable, s: Position, c: Position, m: uint16, best: int64) -> int64:
    mark = int64(BEST) if int64(m) == best else int64(0)
    if popc(c[WHITE] | c[BLACK]) < popc(s[WHITE] | s[BLACK]):
        mark |= CAPTURE
    if in_check(T, c):
        mark |= CHECK
    return mark


class Steps(NamedTuple):
    """Moves to known positions, row by row, in canonical order; arrays with room for `K` of them.

    Attributes:
      of: `[K]` int64, index of the position before the move.
      at: `[K]` int64, entry of the position after it; -1: it may have a record instead.
      marks: `[K]` uint8, BEST | CAPTURE | CHECK.
      words: `[K * 10]` uint64 and keys: `[K]` uint64 of the position after it.
    """

    of: NDArray[np.int64]
    at: NDArray[np.int64]
    marks: NDArray[np.uint8]
    words: NDArray[np.uint64]
    keys: NDArray[np.uint64]


def new_steps(room: int) -> Steps:
    """Returns empty arrays for `room` steps."""
    return Steps(
        np.zeros(room, np.int64),
        np.zeros(room, np.int64),
        np.zeros(room, np.uint8),
        np.zeros(room * int(PW), np.uint64),
        np.zeros(room, np.uint64),
    )


@kernel
def list_steps(
    T: NDArray[np.uint64],
    E: EntryIndex,
    F: FilterArrays,
    words: NDArray[np.uint64],
    best: NDArray[np.int64],
    first: int64,
    counts: NDArray[np.int16],
    marks: NDArray[np.uint8],
    steps: Steps,
) -> tuple[int64, int64]:
    """Lists the moves of positions that lead to known ones; returns (positions done, moves listed).

    It stops before a position if there may be no room for its moves.

    Args:
      T: the table of `position/tables.py`. E: `EntryIndex`. F: `FilterArrays` of the records.
      words: `[R * 10]` uint64, positions. best: `[R]` int64, the best move of each, 0 if none is known.
      first: index of the position to begin with.
      counts: `[R]` int16, filled with the number of legal moves.
      marks: `[R]` uint8, filled with the marks of the best move; 0 if that is not a legal move.
      steps: `Steps`, filled.
    """
    table, c, moves = ptr(T, 0), zeros(uint64, PW), zeros(uint16, ROOM)
    keys, data, firsts = ptr(E.keys, 0), ptr(E.data, 0), ptr(E.firsts, 0)
    bits = _bits(int64(len(E.firsts) - 1))
    records = F
    listed = int64(0)
    for i in range(first, len(best)):
        if listed + ROOM > len(steps.of):
            return int64(i), listed
        s = adv(ptr(words, 0), PW * i)
        n = int64(generate_moves(table, s, moves))
        counts[i] = int16(n)
        marks[i] = uint8(0)
        for k in range(n):
            key, check = make_child(table, s, c, moves[k])
            mark = _mark_of(table, s, c, moves[k], best[i])
            if mark & BEST:
                marks[i] = uint8(mark)
            at = _entry_at(keys, data, firsts, bits, key, check)
            if at < 0 and not may_be_stored(records, c, key):
                continue
            steps.of[listed] = i
            steps.at[listed] = at
            steps.marks[listed] = uint8(mark)
            steps.keys[listed] = key
            for w in range(PW):
                steps.words[PW * listed + w] = c[w]
            listed += 1
    return int64(len(best)), listed


@inner
def _bits(parts: int64) -> int64:
    bits = int64(0)
    while (int64(1) << bits) < parts:
        bits += 1
    return bits
