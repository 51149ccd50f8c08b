"""Evicts records that the file has: a clock hand moves over the records in the order of their addresses.

A record visited since the hand last passed stays for another round. Dirty records stay, as do records that
are being saved, belong to a wave under way or carry visits of the overlay.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..jit.compiler import inner, kernel
from ..jit.types import int64
from ..store.record_kernel import (
    DIRTY,
    FREE,
    HELD,
    PINNED,
    SAVING,
    USED,
    add_state,
    block_class_of,
    block_of,
    clear_state,
    has_block,
    state_of,
)
from . import arena_kernel as arena
from .arena_kernel import (
    ArenaArrays,
    give_block,
    give_end,
    give_words,
    has_freed,
    join_pieces,
    overlay_slot,
    piece_words,
    remove,
)
from .arena_kernel import block_words as words_of_class

STAYS = DIRTY | SAVING | PINNED | HELD
HAND_ROUNDS = 2  # in the first all records may have been visited


@inner
def _enough(A: ArenaArrays, wanted: int64, nodes: int64) -> bool:
    return A.counters[arena.NODES] <= nodes and has_freed(A, wanted)


@inner
def _drop(A: ArenaArrays, rec: int64, words: int64, before: int64) -> int64:
    """Evicts a record; returns the slot of the resulting free piece."""
    remove(A, rec)
    if has_block(A, rec):
        give_block(A, block_class_of(A, rec), block_of(A, rec))
    A.counters[arena.NODES] -= 1
    A.counters[arena.EVICTED] += 1
    return give_words(A, rec, words, before)


@inner
def _switch(A: ArenaArrays, rec: int64, bit: int64, on: bool) -> None:
    if on:
        add_state(A, rec, bit)
    else:
        clear_state(A, rec, bit)


@kernel
def evict(A: ArenaArrays, wanted: int64, nodes: int64) -> bool:
    """Evicts until `wanted` bytes are free and at most `nodes` nodes are left; returns whether it succeeded.

    It gives up after the hand has gone round twice.
    """
    end = A.counters[arena.RECORD_WORDS]
    hand = A.counters[arena.HAND]
    before = int64(0)  # slot of the free piece that ends at the hand
    left = HAND_ROUNDS * end
    while left > 0:
        if _enough(A, wanted, nodes):
            break
        if hand < 1 or hand >= end:
            hand = int64(1)
            before = int64(0)
            if end == 1:
                break
        words = piece_words(A, hand)
        state = state_of(A, hand)
        if state & FREE:
            if before:
                join_pieces(A, before, hand)
            else:
                before = hand
        elif state & (STAYS | USED):
            clear_state(A, hand, USED)
            before = int64(0)
        else:
            before = _drop(A, hand, words, before)
            words = piece_words(A, before) - (hand - before)  # it may have merged with the next free piece
        hand += words
        left -= words
    A.counters[arena.HAND] = int64(1) if before == 0 and hand >= end else (before if before else hand)
    return _enough(A, wanted, nodes)


@inner
def _lies_within(A: ArenaArrays, rec: int64, words: int64, record_words: int64, block_words: int64) -> bool:
    """Returns whether a record of `words` words and its block end within these sizes of the two heaps."""
    if rec + words > record_words:
        return False
    return (
        not has_block(A, rec) or block_of(A, rec) + words_of_class(A, block_class_of(A, rec)) <= block_words
    )


@kernel
def cut(A: ArenaArrays, record_words: int64, block_words: int64) -> None:
    """Evicts the records beyond these sizes of either heap, unless they must stay; shortens both heaps."""
    end = A.counters[arena.RECORD_WORDS]
    at = int64(1)
    before = int64(0)  # slot of the free piece that ends at `at`
    while at < end:
        words = piece_words(A, at)
        state = state_of(A, at)
        if state & FREE:
            if before:
                join_pieces(A, before, at)
            else:
                before = at
        elif state & STAYS or _lies_within(A, at, words, record_words, block_words):
            before = int64(0)
        else:
            before = _drop(A, at, words, before)
            words = piece_words(A, before) - (at - before)
        at += words
    if before:
        give_end(A, before)
    A.counters[arena.HAND] = int64(1)


@kernel
def pin(A: ArenaArrays, slots: NDArray[np.uint64], on: bool) -> None:
    """Pins or unpins the records at some slots, `uint64[R]`; slot 0 is none."""
    for i in range(slots.size):
        if slots[i]:
            _switch(A, int64(slots[i]), PINNED, on)


@kernel
def hold(A: ArenaArrays, on: bool) -> None:
    """Sets or clears HELD on the records of the overlay, which stay in memory while it is set."""
    for i in range(A.counters[arena.OVERLAY_LENGTH]):
        _switch(A, overlay_slot(A.overlay[2 * i]), HELD, on)
