"""Kernels that read what comes out of a file, between forbidden pages."""

from __future__ import annotations

import random
import struct
from functools import cache
from pathlib import Path
from typing import Any

import chess
import numpy as np

from graphsearch.store import block
from graphsearch.store.block_kernel import NONE, PADDING, room_for
from graphsearch.store.block_kernel import decode as decode_kernel
from graphsearch.store.entries import decode as decode_piece
from graphsearch.store.entries import distinct, encode
from graphsearch.store.record import COLUMNS, RecordBatch, board_tables
from tests.store.records import BlockError, opened, seal, with_checksum

from ..store.records import BlockFault, batch_of, extracted, plain_blocks, random_records, records_of
from .damage import mutated
from .files import DisagreementError
from .harness import guarded, guarded_copy
from .readers import check_moves


# ------------------------------------------------------------------ blocks before compression
@cache
def plain_blocks_of_all_sizes() -> list[bytes]:
    """Returns blocks as they are before compression, of one record to 32."""
    sizes = ((1, 5), (32, 6), (70, 7))
    return [block for count, seed in sizes for block in plain_blocks(batch_of(random_records(seed, count)))]


def mutated_plain(rng: random.Random) -> bytes:
    """Returns a changed block; its header is changed most of all."""
    seeds = plain_blocks_of_all_sizes()
    data = rng.choice(seeds)
    what = rng.randrange(6)
    if what == 0:
        return struct.pack("<I", rng.getrandbits(32)) + data[4:]
    if what == 1:
        return data[:4] + rng.randbytes(len(data) - 4)
    if what == 2:
        return data[: rng.randrange(len(data) + 1)]
    return mutated(data, rng, seeds)


def _columns(sizes: Any, *, low: bool) -> Any:
    """Returns columns with room for so many records, P codes and edges and for nothing more."""
    records, codes, edges = sizes
    rooms = {"packed": 10 * records, "code_offsets": records + 1, "edge_offsets": records + 1, "codes": codes}
    rooms |= dict.fromkeys(("v", "d", "evaluator", "run", "flags"), records)
    rooms |= dict.fromkeys(("n", "r", "q", "edge_d"), edges)
    return RecordBatch(**{name: guarded(rooms[name], kind, low=low) for name, kind in COLUMNS.items()})


# ------------------------------------------------------------------ blocks as they are stored
def stored_seeds(_: Path) -> list[bytes]:
    """Returns blocks as they are stored, without dictionaries."""
    return seal(b"", plain_blocks_of_all_sizes())


def mutate_stored(seeds: list[bytes], rng: random.Random) -> bytes:
    """Returns a block that was changed before its compression, or after; mostly its checksum is right."""
    if rng.random() < 0.5:
        return seal(b"", [mutated_plain(rng)])[0]
    data = rng.choice(seeds)
    return mutated(data, rng) if rng.random() < 0.1 else with_checksum(mutated(data[:-4], rng, seeds))


def unpack(data: bytes, folder: Path) -> bool:
    """Decodes a stored block in the room that its header announces; a lookup must find its records."""

    answers = {_decoded(data, low=low) for low in (False, True)}
    if len(answers) > 1:
        raise DisagreementError("the answer depends on what lies beside the data")
    if not answers.pop():
        return False
    try:
        opened(b"", data)
    except BlockError:
        raise DisagreementError("the kernel takes a block that the package refuses") from None
    records = records_of(b"", data)
    try:
        found = extracted(b"", data, records)
    except BlockFault:
        found = []
    if found != records:
        raise DisagreementError("a lookup does not find what a scan reads")
    return True


def _decoded(data: bytes, *, low: bool) -> bool:
    given = guarded_copy(data + bytes(PADDING), np.uint8, low=low)
    ends, counts = np.array([len(data)], np.int64), np.zeros(1, np.int64)
    sizes = [int(found[0]) for found in block.announced(given, ends)]
    plain = guarded(room_for(1, *sizes) + PADDING, np.uint8, low=low)
    shop = block.own_unpacker().workshop.replace(plain=plain)
    slots = np.array([NONE], np.int64)
    decode_kernel(board_tables(), shop, given, ends, slots, _columns(sizes, low=low), counts)
    return bool(counts[0] > 0)


# ------------------------------------------------------------------ transposition entries
def entry_seeds(_: Path) -> list[bytes]:
    """Returns pieces of transposition entries as a search makes them, each after its number of entries."""
    rng = np.random.default_rng(3)
    found = []
    for count in (1, 40, 700):
        keys, data = (rng.integers(0, 1 << 63, count, np.uint64) for _ in range(2))
        data &= np.uint64(0xFFFFFFFF)
        found.append(count.to_bytes(2, "little") + encode(*distinct(keys, data)))
    return found


def mutate_entries(seeds: list[bytes], rng: random.Random) -> bytes:
    """Returns a changed piece, its header changed most of all."""
    data = rng.choice(seeds)
    return mutated(data[:100], rng) + data[100:] if rng.random() < 0.5 else mutated(data, rng, seeds)


def read_entries(data: bytes, folder: Path) -> bool:
    """Decodes a piece and puts its entries into a table."""
    keys, words = decode_piece(data[2:], int.from_bytes(data[:2], "little") or 1)
    if len(keys) != len(words):
        raise DisagreementError(f"{len(keys)} keys and {len(words)} entries")
    return True


def warm() -> None:
    unpack(stored_seeds(Path())[0], Path())
    check_moves(chess.Board())
