"""Blocks as they are stored to blocks as they are decoded, many at once: checksums and zstd frames.

`schema/segment.md` is the reference; `store/compression.py` does the same one by one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import int64

from ...jit.compiler import inner, kernel
from ...jit.pointers import LOW32, U, ptr
from .entropy_kernel import LENGTH_CODES, PADDING, PREDEFINED, PREDEFINED_SET, SET, STATE, word
from .layout_kernel import HEADER, LOW
from .zstd_kernel import enter_dictionary, expand, predefine

LENGTH, CHECKSUM = 2, 4  # bytes for that of the first frame, and for the CRC-32
RECORD_BYTES, EDGE_BYTES = 128, 12  # no record's and no edge's columns take more
FIRST_SET = 2  # of a chunk's two; before them: the frame at hand, and the predefined codes
MOST_LITERALS = 32 * RECORD_BYTES + EDGE_BYTES * 0x1FFF + 0x1FFF  # of a frame


def crc_tables() -> Any:
    """Returns `[8 * 256]` uint32: the CRC-32 of a byte that is followed by 0 to 7 zero bytes."""
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, (table >> 1) ^ np.uint32(0xEDB88320), table >> 1).astype(np.uint32)
    tables = [table]
    for _ in range(7):
        tables.append(tables[0][tables[-1] & 255] ^ (tables[-1] >> 8))
    return np.concatenate(tables)


class Workshop(NamedTuple):
    """What unpacking needs besides the blocks; one for each thread.

    Attributes:
      tables: uint32, sets of code tables (`entropy.py`), two for each slot of a chunk behind the first two.
      contents: uint8, `size` bytes for each slot: its dictionaries as stored.
      state, literals: working memory.
      lengths, crc: constant tables.
    """

    tables: Any
    contents: Any
    state: Any
    literals: Any
    lengths: Any
    crc: Any


def new_workshop(slots: int, size: int) -> Workshop:
    """Returns a workshop with room for the dictionaries of so many chunks, of `size` bytes each."""
    workshop = Workshop(
        np.zeros((FIRST_SET + 2 * slots) * SET, np.uint32),
        np.zeros(slots * size + PADDING, np.uint8),
        np.zeros(STATE, np.int64),
        np.zeros(MOST_LITERALS, np.uint8),
        LENGTH_CODES.copy(),
        crc_tables(),
    )
    set_up(workshop, PREDEFINED.copy())
    return workshop


@kernel
def set_up(workshop: Any, often: Any) -> None:
    """Fills the tables of the predefined codes."""
    predefine(ptr(workshop.tables, 0), ptr(workshop.state, 0), ptr(often, 0))


@kernel
def enter(workshop: Any, slot: Any, at: Any, middle: Any, end: Any) -> Any:
    """Fills a slot with dictionaries, `contents[at:middle]` and `[middle:end]`; returns whether they are."""
    tables, contents, state = ptr(workshop.tables, 0), ptr(workshop.contents, 0), ptr(workshop.state, 0)
    base = (FIRST_SET + 2 * slot) * SET
    return enter_dictionary(contents, at, middle, tables, base, state) and enter_dictionary(
        contents, middle, end, tables, base + SET, state
    )


@inner
def crc32(data: Any, at: Any, end: Any, table: Any) -> Any:
    """Returns the CRC-32 of `data[at:end]`; `table` points to `crc_tables`."""
    crc = LOW32
    while at + 8 <= end:
        x = word(data, at) ^ crc
        crc = U(
            table[1792 + int64(x & U(255))]
            ^ table[1536 + int64((x >> U(8)) & U(255))]
            ^ table[1280 + int64((x >> U(16)) & U(255))]
            ^ table[1024 + int64((x >> U(24)) & U(255))]
            ^ table[768 + int64((x >> U(32)) & U(255))]
            ^ table[512 + int64((x >> U(40)) & U(255))]
            ^ table[256 + int64((x >> U(48)) & U(255))]
            ^ table[int64(x >> U(56))]
        )
        at += 8
    while at < end:
        crc = U(table[int64((crc ^ U(data[at])) & U(255))]) ^ (crc >> U(8))
        at += 1
    return crc ^ LOW32


@inner
def _unpack(data: Any, at: Any, end: Any, slot: Any, W: Any, out: Any, to: Any) -> Any:
    """Unpacks one block to `out` from `to` on; returns the end, or `to` if it is refused."""
    if end - at < HEADER + LENGTH + CHECKSUM or slot < -1:
        return to
    end -= CHECKSUM
    if crc32(data, at, end, W.crc) != word(data, end) & LOW32:
        return to
    header = int64(word(data, at) & LOW32)
    records = (header & 31) + 1
    codes = (header >> 5) & 0x1FFF
    edges = (header >> 18) & 0x1FFF
    low = at + HEADER + LENGTH
    first = low + LOW * (records + edges)
    second = first + int64(word(data, at + HEADER) & U(0xFFFF))
    if second > end or (codes == 0 and first != second):
        return to
    base = int64(PREDEFINED_SET * SET)
    base_2 = base
    if slot >= 0:
        base = (FIRST_SET + 2 * slot) * SET
        base_2 = base + SET
    begin = to + HEADER + LOW * (records + edges)
    for k in range(HEADER):
        out[to + k] = data[at + k]
    for k in range(first - low):
        out[to + HEADER + k] = data[low + k]
    if codes:
        reached = expand(
            data, first, second, base, W.tables, W.state, W.lengths,
            out, begin, begin + codes, W.literals, W.contents,
        )  # fmt: skip
        if reached != begin + codes:
            return to
    begin += codes
    limit = begin + RECORD_BYTES * records + EDGE_BYTES * edges
    reached = expand(
        data, second, end, base_2, W.tables, W.state, W.lengths,
        out, begin, limit, W.literals, W.contents,
    )  # fmt: skip
    return reached if reached >= 0 else to


@kernel
def unpack(workshop: Any, data: Any, ends: Any, slots: Any, out: Any, sizes: Any) -> Any:
    """Unpacks blocks one behind the other; returns the end of what was written.

    Args:
      workshop: a `Workshop` of this thread.
      data: uint8, the blocks as they are stored, then `PADDING` bytes.
      ends: `[blocks]` int64, end of each block in `data`.
      slots: `[blocks]` int64, the slot of the dictionaries of each, -1 for none, -2 for unknown ones.
      out: uint8 with the room that `room` says.
      sizes: `[blocks]` int64, filled with the length of each in `out`: 0 for what the library must look at.
    """
    W = Workshop(
        ptr(workshop.tables, 0),
        ptr(workshop.contents, 0),
        ptr(workshop.state, 0),
        ptr(workshop.literals, 0),
        ptr(workshop.lengths, 0),
        ptr(workshop.crc, 0),
    )
    source, target = ptr(data, 0), ptr(out, 0)
    at = int64(0)
    to = int64(0)
    for b in range(len(ends)):
        reached = _unpack(source, at, ends[b], slots[b], W, target, to)
        sizes[b] = reached - to
        to = reached
        at = ends[b]
    return to


@kernel
def room(data: Any, ends: Any, sums: Any) -> None:
    """Sums up what the headers of blocks announce: bytes unpacked at most, records, P codes, edges.

    Args:
      data, ends: as `unpack` takes them.
      sums: `[4]` int64, filled.
    """
    source = ptr(data, 0)
    at = int64(0)
    for b in range(len(ends)):
        if ends[b] - at >= HEADER:
            header = int64(word(source, at) & LOW32)
            records = (header & 31) + 1
            codes = (header >> 5) & 0x1FFF
            edges = (header >> 18) & 0x1FFF
            sums[0] += HEADER + (LOW + RECORD_BYTES) * records + codes + (LOW + EDGE_BYTES) * edges
            sums[1] += records
            sums[2] += codes
            sums[3] += edges
        at = ends[b]
