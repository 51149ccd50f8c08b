"""What tests check of an arena's inside: every word belongs to one piece, and every record can be found."""

from __future__ import annotations

from graphsearch.graph import arena_kernel
from graphsearch.graph.arena import Arena
from graphsearch.store import record_kernel

FREE_PIECE, BEFORE_FREE = 1 << 31, 1 << 30


def check_arena(arena: Arena) -> None:
    records = _check_records(arena)
    assert len(records) == arena.node_count
    _check_table(arena, records)
    owners = {
        block: block_class for block, block_class in records.values() if block_class != record_kernel.NO_BLOCK
    }
    assert _check_blocks(arena) == owners


def _check_records(arena: Arena) -> dict[int, tuple[int, int]]:
    """Walks the records; returns (block, class) by slot."""
    words, counters = arena.arrays.records, arena.counters
    found: dict[int, tuple[int, int]] = {}
    free: dict[int, int] = {}
    slot = 1
    while slot < counters[arena_kernel.RECORD_WORDS]:
        header = int(words[slot + 2])
        if header >> 24 & record_kernel.FREE:
            free[slot] = int(words[slot + 1])
            slot += free[slot]
        else:
            found[slot] = (int(words[slot + 1]) & 0xFFFFFFFF, header >> 8 & 255)
            slot += record_kernel.HEADER_WORDS + ((header & 255) + 7 >> 3)
    assert slot == counters[arena_kernel.RECORD_WORDS]
    assert sum(free.values()) == counters[arena_kernel.FREED_RECORD_WORDS]
    assert all(size >= record_kernel.HEADER_WORDS for size in free.values())
    listed = {}
    for place in range(arena_kernel.LARGEST_LIST + 1):
        previous, piece = 0, int(counters[arena_kernel.RECORD_LISTS + place])
        while piece:
            assert int(words[piece]) >> 32 == previous
            listed[piece] = int(words[piece + 1])
            assert min(listed[piece], arena_kernel.LARGEST_LIST) == place
            previous, piece = piece, int(words[piece]) & 0xFFFFFFFF
    assert listed == free
    return found


def _check_table(arena: Arena, records: dict[int, tuple[int, int]]) -> None:
    table = [int(word) & 0xFFFFFFFF for word in arena.arrays.table]
    assert sorted(slot for slot in table if slot) == sorted(records)
    for slot in records:
        i = int(arena.arrays.records[slot]) * len(table) >> 64
        while table[i] != slot:
            assert table[i], "a gap before a record that is found by probing"
            i = (i + 1) % len(table)


def _check_blocks(arena: Arena) -> dict[int, int]:
    """Walks the blocks; returns the class of each block in use."""
    words, counters = arena.arrays.blocks, arena.counters
    used, free, before_free = {}, {}, False
    at = 1
    while at < counters[arena_kernel.BLOCK_WORDS]:
        tag = int(words[at + record_kernel.BLOCK_D])
        assert bool(tag & BEFORE_FREE) == before_free
        before_free = bool(tag & FREE_PIECE)
        if before_free:
            size = free[at] = int(words[at + 2])
            assert int(words[at + size - 1]) == size
        else:
            block_class = used[at] = tag >> 16 & 31
            stride = 4 if block_class >= record_kernel.WIDE else 3
            size = (
                record_kernel.BLOCK_HEADER
                + int(arena.arrays.ints[record_kernel.CAPACITY + block_class]) * stride
            )
        at += size
    assert at == counters[arena_kernel.BLOCK_WORDS]
    assert sum(free.values()) == counters[arena_kernel.FREED_WORDS]
    listed = set()
    for place in range(arena_kernel.BLOCK_LISTS, arena_kernel.RECORD_LISTS):
        previous, piece = 0, int(counters[place])
        while piece:
            assert int(words[piece + 1]) == previous
            listed.add(piece)
            previous, piece = piece, int(words[piece])
    assert listed == set(free)
    return used
