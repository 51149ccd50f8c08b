"""Records and blocks: lookup, creation, growth.

Several threads may use them at once (`guards_kernel.py`): a thread locks a record to read or change it, and
inserts a new one into the table when it is complete.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..jit.compiler import inner, kernel
from ..jit.pointers import LOW32, ZERO, U, adv, compare_exchange, load_acquire, mulhi, prefetch, ptr
from ..jit.types import Pointer, float32, float64, int64, uint8, uint16, uint32, uint64
from ..position.board_kernel import PW, clock_of, generate_moves, hashes_of
from ..position.words import BoardTable, Position
from ..store.record import node_layout as layout
from ..store.record.node_kernel import (
    add_state,
    best_code_of,
    block_class_of,
    block_of,
    code_at,
    code_bytes,
    draw_visits,
    fill_header,
    key_at,
    materialised,
    move_count,
    new_edge,
    record_words,
    set_block,
    set_block_class,
    set_draw_visits,
    set_draws_and_flags,
    set_value,
    state_of,
    stride_of,
    value_draws,
    value_of,
)
from . import arena_kernel as arena
from .arena_kernel import ArenaArrays, ArenaPointers, pointers
from .blocks_kernel import draws_of, give_block, set_draws, take_block
from .guards_kernel import count_in
from .space_kernel import take_record


# ------------------------------------------------------------------ the table
@inner
def table_word(rec: int64, check: uint64) -> uint64:
    """Returns a record's word in the table: slot | check hash << 32; 0 is an empty place."""
    return U(rec) | (check << U(32))


@inner
def slot_in(word: uint64) -> int64:
    """Returns the slot in a word of the table."""
    return int64(word & LOW32)


@inner
def check_in(word: uint64) -> uint64:
    """Returns the check hash in a word of the table."""
    return word >> U(32)


@inner
def table_index(A: ArenaPointers, key: uint64) -> int64:
    """Returns the table index at which probing for a key starts.

    It is monotonic in the key, so that the table can grow by any factor.
    """
    return int64(mulhi(key, A.size))


@inner
def find(A: ArenaPointers, key: uint64, check: uint64) -> int64:
    """Returns the slot of the record with this key and check hash, 0 if there is none."""
    i = table_index(A, key)
    while True:
        word = load_acquire(A.table, i)
        if word == ZERO:
            return int64(0)
        if check_in(word) == check:
            rec = slot_in(word)
            if key_at(A, rec) == key:
                return rec
        i += 1
        if i == int64(A.size):
            i = int64(0)


@inner
def likely_slot(A: ArenaPointers, key: uint64, check: uint64) -> int64:
    """Returns the first probed slot with this check hash, without reading its record; 0 if there is none."""
    i = table_index(A, key)
    while True:
        word = A.table[i]
        if word == ZERO:
            return int64(0)
        if check_in(word) == check:
            return slot_in(word)
        i += 1
        if i == int64(A.size):
            i = int64(0)


@inner
def insert(A: ArenaPointers, key: uint64, check: uint64, rec: int64) -> None:
    """Inserts a complete record that is not in the table yet."""
    i = table_index(A, key)
    word = table_word(rec, check)
    while A.table[i] != ZERO or not compare_exchange(A.table, i, ZERO, word):
        i += 1
        if i == int64(A.size):
            i = int64(0)


@inner
def remove(A: ArenaPointers, rec: int64) -> None:
    """Removes a record from the table, and shifts later words of its probe sequence into the gap."""
    last = int64(A.size) - 1
    gap = table_index(A, key_at(A, rec))
    while slot_in(A.table[gap]) != rec:
        gap = gap + 1 if gap < last else int64(0)
    i = gap
    while True:
        i = i + 1 if i < last else int64(0)
        word = A.table[i]
        if word == ZERO:
            break
        home = table_index(A, key_at(A, slot_in(word)))
        stays = gap < home <= i if gap < i else home > gap or home <= i
        if not stays:
            A.table[gap] = word
            gap = i
    A.table[gap] = ZERO


# ------------------------------------------------------------------ records
@inner
def mark_dirty(A: ArenaPointers, rec: int64, s: Position) -> None:
    """Marks a record as dirty, and appends its position to the log, since the record does not contain it."""
    if state_of(A, rec) & layout.DIRTY or A.log_size == 0:
        return
    add_state(A, rec, layout.DIRTY)
    row = adv(A.log, count_in(A, arena.DIRTY_NODES, int64(1)) * arena.LOG_WORDS)
    for i in range(PW):
        row[i] = s[i]
    row[arena.LOG_SLOT] = U(rec)


@inner
def clean_record(
    A: ArenaPointers, s: Position, key: uint64, n: int64, v: float32, d: int64, flags: int64
) -> int64:
    """Returns the slot of a new clean record of `n` moves, without codes, block or source.

    `set_source` and `insert` must follow.
    """
    rec = take_record(A, record_words(n))
    count_in(A, arena.NODES, int64(1))
    fill_header(A, rec, key, n, layout.USED, clock_of(s))
    set_value(A, rec, v)
    set_draws_and_flags(A, rec, d, flags)
    return rec


@inner
def new_record(
    A: ArenaPointers, s: Position, key: uint64, n: int64, v: float32, d: int64, flags: int64
) -> int64:
    """Returns the slot of a new record, dirty and fresh; the rest is as in `clean_record`."""
    rec = clean_record(A, s, key, n, v, d, flags)
    A.counters[arena.FRESH_NODES] += 1
    add_state(A, rec, layout.FRESH)
    mark_dirty(A, rec, s)
    return rec


@inner
def set_best(A: ArenaPointers, rec: int64, moves: Pointer[uint16]) -> None:
    """Stores the move with the largest P in the header, so that the first visit needs no move generation."""
    codes = code_bytes(A, rec)
    best = int64(0)
    for j in range(1, move_count(A, rec)):
        if codes[j] & layout.CODE > codes[best] & layout.CODE:
            best = int64(j)
    set_block_class(A, rec, int64(layout.NO_BLOCK), code_at(A, rec, best))
    set_block(A, rec, int64(moves[best]))


@inner
def prior_norm(A: ArenaPointers, rec: int64) -> float32:
    """Returns `1 / sum(code ** 4)` over all moves of a record, float32."""
    codes = code_bytes(A, rec)
    total = uint32(0)
    for j in range(move_count(A, rec)):
        x = uint32(codes[j] & layout.CODE)
        total += x * x * x * x
    return float32(1.0 / float64(total))


# ------------------------------------------------------------------ blocks
@inner
def new_block(A: ArenaPointers, rec: int64, block_class: int64) -> int64:
    """Returns a new block for a record, its header filled and no edges."""
    block = take_block(A, block_class)
    A.values[block + layout.NORM] = prior_norm(A, rec)
    A.blocks[block + layout.BLOCK_VISITS] = uint32(0)
    A.values[block + layout.BLOCK_Q] = value_of(A, rec)
    set_draws(A, block, value_draws(A, rec))
    return block


@inner
def _first_block(A: ArenaPointers, rec: int64) -> None:
    """Gives a record its first block: one edge, for the best move stored in the header."""
    move = uint16(block_of(A, rec))
    code = best_code_of(A, rec)
    block = new_block(A, rec, int64(0))
    new_edge(A, block + layout.BLOCK_HEADER, int64(3), move, code)
    seen = 0
    following = int64(0)
    for j in range(move_count(A, rec)):
        here = code_at(A, rec, j)
        if here == code:
            seen += 1
        elif here > following:
            following = here
    set_block(A, rec, block)
    set_block_class(A, rec, int64(0), code if seen > 1 else following)


@inner
def rank_key(code: int64, j: int64) -> int64:
    """Returns the sort key of a move: code << 8 | 255 - j, where `j` is its index in canonical order."""
    return (code << 8) | (255 - j)


@inner
def ranked_move(key: int64) -> int64:
    """Returns the index in canonical order in a rank key."""
    return 255 - (key & 255)


@inner
def ranked_code(key: int64) -> int64:
    """Returns the P code in a rank key."""
    return key >> 8


@inner
def rank_codes(codes: Pointer[uint8], n: int64, wanted: int64, keys: Pointer[int64]) -> None:
    """Writes the rank keys of `n` P codes, the best `wanted` sorted at the front.

    Blocks grow by half, so selection costs O(n) per edge ever made; a full sort would cost more.
    """
    for j in range(n):
        keys[j] = rank_key(int64(codes[j]) & layout.CODE, j)
    for a in range(min(wanted, n)):
        best = a
        for i in range(a + 1, n):
            if keys[i] > keys[best]:
                best = i
        keys[a], keys[best] = keys[best], keys[a]


@inner
def _move_edges(
    A: ArenaPointers, old: int64, old_class: int64, block: int64, new_class: int64, m: int64
) -> None:
    """Copies header and edges to a larger block and frees the old one."""
    for word in range(layout.BLOCK_D):
        A.blocks[block + word] = A.blocks[old + word]
    set_draws(A, block, draws_of(A, old))
    stride = stride_of(new_class)
    old_stride = stride_of(old_class)
    for i in range(m):
        to = block + layout.BLOCK_HEADER + i * stride
        edge = old + layout.BLOCK_HEADER + i * old_stride
        for word in range(layout.EDGE_R):
            A.blocks[to + word] = A.blocks[edge + word]
        if stride == 4:
            set_draw_visits(A, to, draw_visits(A, edge, old_stride))
    give_block(A, old_class, old)


@inner
def grow_block(T: BoardTable, A: ArenaPointers, s: Position, rec: int64, wanted: int64, wide: bool) -> None:
    """Moves a record's edges to the smallest block with room for `wanted` of them, with r if `wide`."""
    m = materialised(A, rec)
    if m == 0 and wanted == 1 and not wide:
        _first_block(A, rec)
        return
    n = move_count(A, rec)
    old_class = block_class_of(A, rec)
    new_class = int64(0)
    while A.ints[layout.CAPACITY + new_class] < wanted:
        new_class += 1
    if wide or (m and old_class >= layout.WIDE):
        new_class += layout.WIDE
    if m:
        block = take_block(A, new_class)
        _move_edges(A, block_of(A, rec), old_class, block, new_class, m)
    else:
        block = new_block(A, rec, new_class)
    set_block(A, rec, block)
    set_block_class(A, rec, new_class, best_code_of(A, rec))
    m2 = materialised(A, rec)
    if m2 == m:
        return
    generate_moves(T, s, A.moves)
    keys = adv(A.ints, arena.KEYS)
    rank_codes(code_bytes(A, rec), n, m2 + 1, keys)
    stride = stride_of(new_class)
    for i in range(m, m2):
        move, code = A.moves[ranked_move(keys[i])], ranked_code(keys[i])
        new_edge(A, block + layout.BLOCK_HEADER + i * stride, stride, move, code)
    set_block_class(A, rec, new_class, ranked_code(keys[m2]) if m2 < n else int64(0))


@kernel
def rehash(A: ArenaArrays, old: NDArray[np.uint64]) -> None:
    """Fills the arena's new, larger and empty table from the old one, and counts key clashes.

    The index grows with the key, so the new table is written nearly in order, and equal keys of two positions
    are adjacent.
    """
    P = pointers(A)
    clashes = 0
    last = ZERO
    for i in range(old.size):
        if i + 16 < old.size:
            prefetch(P.records, slot_in(old[i + 16]))
        word = old[i]
        if word != ZERO:
            key = key_at(P, slot_in(word))
            if key == last:
                clashes += 1
            last = key
            insert(P, key, check_in(word), slot_in(word))
    P.counters[arena.CLASHES] = clashes


@kernel
def find_position(T: NDArray[np.uint64], A: ArenaArrays, words: NDArray[np.uint64]) -> int64:
    """Returns the slot of the record of a packed position (`uint64[10]`), 0 if there is none."""
    key, check = hashes_of(ptr(T, 0), ptr(words, 0))
    return find(pointers(A), key, check)
