"""Records and blocks: finding, making and growing them. One writer, no locks."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import float32, int64, uint8, uint16, uint32

from ..jit.compiler import inner, kernel
from ..jit.pointers import LOW32, ZERO, U, adv, as_f32, as_u16, mulhi, prefetch, ptr
from ..position.board_kernel import check_hash, clock_of, generate_moves
from ..position.tables import CT
from ..record.node_kernel import (
    block_class_of,
    block_of,
    code_bytes,
    draw_word,
    header_bytes,
    materialised,
    move_count,
    record_words,
    set_block,
    stride_of,
    value_of,
)
from ..record.node_layout import (
    BLOCK_D,
    BLOCK_HEADER,
    BLOCK_Q,
    BLOCK_VISITS,
    CAPACITY,
    CODE,
    DIRTY,
    FRESH,
    NO_BLOCK,
    NORM,
    USED,
    WIDE,
)
from .arena_kernel import CLASHES, DIRTY_NODES, FRESH_NODES, KEYS, LOG_WORDS, NODES, pointers
from .blocks_kernel import draws_of, give_block, set_draws, take_block
from .space_kernel import take_words


@inner
def table_index(A: Any, key: Any) -> Any:
    """Returns where a key's probing starts.

    Monotonic in the key, so that the table can grow by any factor.
    """
    return int64(mulhi(key, A.size))


@inner
def find(A: Any, key: Any, check: Any) -> Any:
    """Returns the slot of the record with this key and check hash, 0 if there is none."""
    i = table_index(A, key)
    while True:
        word = A.table[i]
        if word == ZERO:
            return int64(0)
        if (word >> U(32)) == check:
            rec = int64(word & LOW32)
            if A.records[rec] == key:
                return rec
        i += 1
        if i == int64(A.size):
            i = int64(0)


@inner
def insert(A: Any, key: Any, check: Any, rec: Any) -> None:
    """Enters a record that the table does not hold yet."""
    i = table_index(A, key)
    while A.table[i] != ZERO:
        i += 1
        if i == int64(A.size):
            i = int64(0)
    A.table[i] = U(rec) | (check << U(32))


@inner
def remove(A: Any, rec: Any) -> None:
    """Takes a record out of the table, moving up what stands behind it, as if it had never been there."""
    last = int64(A.size) - 1
    gap = table_index(A, A.records[rec])
    while int64(A.table[gap] & LOW32) != rec:
        gap = gap + 1 if gap < last else int64(0)
    i = gap
    while True:
        i = i + 1 if i < last else int64(0)
        word = A.table[i]
        if word == ZERO:
            break
        home = table_index(A, A.records[int64(word & LOW32)])
        stays = gap < home <= i if gap < i else home > gap or home <= i
        if not stays:
            A.table[gap] = word
            gap = i
    A.table[gap] = ZERO


@inner
def mark_dirty(A: Any, rec: Any, s: Any) -> None:
    """Notes that the file does not hold a record as it is.

    Its position, which the record does not have, goes to the log.
    """
    hb = header_bytes(A, rec)
    if hb[3] & DIRTY or A.log_size == 0:
        return
    hb[3] |= uint8(DIRTY)
    row = adv(A.log, A.counters[DIRTY_NODES] * LOG_WORDS)
    A.counters[DIRTY_NODES] += 1
    for i in range(LOG_WORDS - 1):
        row[i] = s[i]
    row[LOG_WORDS - 1] = U(rec)


@inner
def new_record(A: Any, s: Any, key: Any, check: Any, n: Any, v: Any, d: Any, flags: Any) -> Any:
    """Returns the slot of a new record of `n` moves without codes, block or source, entered in the table.

    Dirty and fresh. `set_source` must follow.
    """
    counters = A.counters
    rec = take_words(A, record_words(n))
    counters[NODES] += 1
    counters[FRESH_NODES] += 1
    A.records[rec] = key
    A.records[rec + 1] = ZERO
    A.records[rec + 2] = ZERO
    as_f32(adv(A.records, rec + 1))[1] = v
    hb = header_bytes(A, rec)
    hb[0] = uint8(n)
    hb[1] = uint8(NO_BLOCK)
    hb[3] = uint8(FRESH | USED)
    hb[4] = uint8(clock_of(s))
    as_u16(adv(A.records, rec + 2))[3] = uint16(int64(d) | (int64(flags) << 10))
    mark_dirty(A, rec, s)
    insert(A, key, check, rec)
    return rec


@inner
def set_best(A: Any, rec: Any, moves: Any) -> None:
    """Keeps the first move in descending P, so that the first visit needs no move generation."""
    codes = code_bytes(A, rec)
    best = 0
    for j in range(1, move_count(A, rec)):
        if codes[j] & CODE > codes[best] & CODE:
            best = j
    header_bytes(A, rec)[2] = codes[best] & CODE
    set_block(A, rec, moves[best])


@inner
def prior_norm(A: Any, rec: Any) -> Any:
    """Returns `1 / sum(code ** 4)` over all moves of a record, float32."""
    codes = code_bytes(A, rec)
    total = uint32(0)
    for j in range(move_count(A, rec)):
        x = uint32(codes[j] & CODE)
        total += x * x * x * x
    return float32(1.0 / np.float64(total))


@inner
def new_block(A: Any, rec: Any, block_class: Any) -> Any:
    """Gives a record that has none a block without entries; returns it."""
    block = take_block(A, block_class)
    A.values[block + NORM] = prior_norm(A, rec)
    A.blocks[block + BLOCK_VISITS] = uint32(0)
    A.values[block + BLOCK_Q] = value_of(A, rec)
    set_draws(A, block, draw_word(A, rec) & 1023)
    return block


@inner
def new_entry(A: Any, x: Any, stride: Any, move: Any, code: Any) -> None:
    """Writes an entry without visits."""
    A.blocks[x] = uint32(0)
    A.blocks[x + 1] = uint32(0)
    A.blocks[x + 2] = uint32(move) | (uint32(code) << uint32(16))
    if stride == 4:
        A.blocks[x + 3] = uint32(0)


@inner
def _first_block(A: Any, rec: Any) -> None:
    """Gives a record its first block: one entry, for the best move kept in the header."""
    hb = header_bytes(A, rec)
    codes = code_bytes(A, rec)
    move = block_of(A, rec)
    code = hb[2]
    block = new_block(A, rec, int64(0))
    new_entry(A, block + BLOCK_HEADER, int64(3), move, code)
    seen = 0
    following = uint8(0)
    for j in range(move_count(A, rec)):
        here = uint8(codes[j] & CODE)
        if here == code:
            seen += 1
        elif here > following:
            following = here
    set_block(A, rec, block)
    hb[1] = uint8(0)
    hb[2] = code if seen > 1 else following


@inner
def rank_codes(codes: Any, n: Any, wanted: Any, keys: Any) -> None:
    """Writes the sort keys (code << 8 | 255 - index) of P codes, the best `wanted` in order at the front.

    Blocks grow by half, so selection costs O(n) per edge ever made; a whole sort would cost more than it
    saves.
    """
    for j in range(n):
        keys[j] = ((int64(codes[j]) & CODE) << 8) | (255 - j)
    for a in range(min(wanted, n)):
        best = a
        for i in range(a + 1, n):
            if keys[i] > keys[best]:
                best = i
        keys[a], keys[best] = keys[best], keys[a]


@inner
def _move_entries(A: Any, old: Any, old_class: Any, block: Any, new_class: Any, m: Any) -> None:
    """Copies header and entries to a larger block and frees the old one."""
    for word in range(BLOCK_D):
        A.blocks[block + word] = A.blocks[old + word]
    set_draws(A, block, draws_of(A, old))
    stride = stride_of(new_class)
    old_stride = stride_of(old_class)
    for i in range(m):
        x = block + BLOCK_HEADER + i * stride
        y = old + BLOCK_HEADER + i * old_stride
        for word in range(3):
            A.blocks[x + word] = A.blocks[y + word]
        if stride == 4:
            A.blocks[x + 3] = A.blocks[y + 3] if old_stride == 4 else uint32(0)
    give_block(A, old_class, old)


@inner
def grow_block(T: Any, A: Any, s: Any, rec: Any, wanted: Any, wide: Any) -> None:
    """Moves a record's edges to the smallest block with room for `wanted` entries, with r if `wide`."""
    m = materialised(A, rec)
    if m == 0 and wanted == 1 and not wide:
        _first_block(A, rec)
        return
    hb = header_bytes(A, rec)
    n = move_count(A, rec)
    old_class = block_class_of(A, rec)
    new_class = int64(0)
    while A.ints[CAPACITY + new_class] < wanted:
        new_class += 1
    if wide or (m and old_class >= WIDE):
        new_class += WIDE
    if m:
        block = take_block(A, new_class)
        _move_entries(A, block_of(A, rec), old_class, block, new_class, m)
    else:
        block = new_block(A, rec, new_class)
    set_block(A, rec, block)
    hb[1] = uint8(new_class)
    m2 = materialised(A, rec)
    if m2 == m:
        return
    generate_moves(T, s, A.moves)
    keys = adv(A.ints, KEYS)
    rank_codes(code_bytes(A, rec), n, m2 + 1, keys)
    stride = stride_of(new_class)
    for i in range(m, m2):
        new_entry(A, block + BLOCK_HEADER + i * stride, stride, A.moves[255 - (keys[i] & 255)], keys[i] >> 8)
    hb[2] = uint8(keys[m2] >> 8) if m2 < n else uint8(0)


@kernel
def rehash(A: Any, old: Any) -> None:
    """Fills the arena's new, larger and empty table from the old one; counts key clashes on the way.

    The index grows with the key, so the new table is written nearly in order; equal keys of two
    positions stand side by side.
    """
    P = pointers(A)
    clashes = 0
    last = ZERO
    for i in range(old.size):
        if i + 16 < old.size:
            prefetch(P.records, int64(old[i + 16] & LOW32))
        word = old[i]
        if word != ZERO:
            key = P.records[int64(word & LOW32)]
            if key == last:
                clashes += 1
            last = key
            insert(P, key, word >> U(32), int64(word & LOW32))
    P.counters[CLASHES] = clashes


@kernel
def find_position(T: Any, A: Any, words: Any) -> Any:
    """Returns the slot of the record of a packed position (`uint64[10]`), 0 if there is none."""
    s = ptr(words, 0)
    key = s[9] ^ T[CT + clock_of(s)]
    return find(pointers(A), key, check_hash(s))
