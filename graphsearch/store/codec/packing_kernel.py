"""Converts expanded blocks to stored blocks and back, many at once, with frames of libzstd.

`layout.py` has the layout of both; `compression.py` does the same one by one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...jit.compiler import by_address, inner, kernel
from ...jit.pointers import LOW32, U, adv, call_c, ptr
from ...jit.types import Pointer, int64, uint8, uint32, uint64
from .batch_kernel import codes_in, edges_in, header_at, low_bytes, records_in
from .layout import CHECKSUM, CUT, EDGE_BYTES, HEADER, LENGTH, LOW, RECORD_BYTES

PADDING = 8  # bytes after the data that kernels may read
FRAME_ROOM = 1 << 17  # bytes of a frame; larger ones, which no writer makes, are refused


def crc_tables() -> NDArray[np.uint32]:
    """Returns `[8 * 256]` uint32: the CRC-32 of a byte that is followed by 0 to 7 zero bytes."""
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, (table >> 1) ^ uint32(0xEDB88320), table >> 1).astype(np.uint32)
    tables = [table]
    for _ in range(7):
        tables.append(tables[0][tables[-1] & 255] ^ (tables[-1] >> 8))
    return np.concatenate(tables)


@by_address
class Workshop(NamedTuple):
    """The functions and memory for unpacking blocks; one for each thread.

    Attributes:
      decompress, frame_size: addresses of functions of libzstd (`jit.libzstd.Libzstd`), 0 without it.
      context, column_context: addresses of this thread's decompression contexts, for P codes and for columns:
        a context that changes dictionaries with every frame treats them as cold, and is slower.
      dictionaries: `[2 + 2 * slots]` int64, addresses of loaded dictionaries. First 0 twice, for blocks
        without dictionaries; then two for each slot: for P codes, for columns.
      frame: `[FRAME_ROOM]` uint8, working memory that begins with `layout.FRAME_START`.
      crc: `crc_tables`.
    """

    decompress: int64
    frame_size: int64
    context: int64
    column_context: int64
    dictionaries: Pointer[int64]
    frame: Pointer[uint8]
    crc: Pointer[uint32]


@inner
def word(data: Pointer[uint8], at: int64) -> uint64:
    """Returns 8 bytes, lowest first; the compiler makes one load of them."""
    return (
        U(data[at])
        | (U(data[at + 1]) << U(8))
        | (U(data[at + 2]) << U(16))
        | (U(data[at + 3]) << U(24))
        | (U(data[at + 4]) << U(32))
        | (U(data[at + 5]) << U(40))
        | (U(data[at + 6]) << U(48))
        | (U(data[at + 7]) << U(56))
    )


@inner
def crc32(data: Pointer[uint8], at: int64, end: int64, table: Pointer[uint32]) -> uint64:
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
def _expand(
    shop: Workshop,
    context: int64,
    data: Pointer[uint8],
    at: int64,
    end: int64,
    dictionary: int64,
    out: Pointer[uint8],
    to: int64,
    limit: int64,
) -> int64:
    """Expands the frame `data[at:end]` to `out[to:limit]`; returns the end of its content, or -1."""
    size = CUT + end - at
    if size > FRAME_ROOM:
        return int64(-1)
    for k in range(end - at):
        shop.frame[CUT + k] = data[at + k]
    if call_c(shop.frame_size, (shop.frame, size)) != size:  # truncated, or followed by other bytes
        return int64(-1)
    found = call_c(shop.decompress, (context, adv(out, to), limit - to, shop.frame, size, dictionary))
    return to + found if found >= 0 else int64(-1)


@inner
def unpack_block(
    data: Pointer[uint8],
    at: int64,
    end: int64,
    slot: int64,
    shop: Workshop,
    out: Pointer[uint8],
    to: int64,
) -> int64:
    """Unpacks one block to `out` from `to` on; returns the end, or `to` if it is refused."""
    if shop.decompress == 0 or slot < -1 or end - at < HEADER + LENGTH + CHECKSUM:
        return to
    end -= CHECKSUM
    if crc32(data, at, end, shop.crc) != word(data, end) & LOW32:
        return to
    header = header_at(data, at)
    codes = codes_in(header)
    low = at + HEADER + LENGTH
    first = low + low_bytes(header)
    second = first + int64(word(data, at + HEADER) & U(0xFFFF))
    if second > end or (codes == 0 and first != second):
        return to
    begin = to + HEADER + low_bytes(header)
    for k in range(HEADER):
        out[to + k] = data[at + k]
    for k in range(first - low):
        out[to + HEADER + k] = data[low + k]
    dictionary = adv(shop.dictionaries, 2 + 2 * slot)
    middle = begin + codes
    if (
        codes
        and _expand(shop, shop.context, data, first, second, dictionary[0], out, begin, middle) != middle
    ):
        return to
    limit = middle + RECORD_BYTES * records_in(header) + EDGE_BYTES * edges_in(header)
    reached = _expand(shop, shop.column_context, data, second, end, dictionary[1], out, middle, limit)
    return reached if reached >= 0 else to


@kernel
def unpack(
    workshop: Workshop,
    data: NDArray[np.uint8],
    ends: NDArray[np.int64],
    slots: NDArray[np.int64],
    out: NDArray[np.uint8],
    sizes: NDArray[np.int64],
) -> int64:
    """Unpacks blocks one after the other; returns the end of the output.

    Args:
      workshop: a `Workshop` of this thread.
      data: uint8, stored blocks, then `PADDING` bytes.
      ends: `[blocks]` int64, end of each block in `data`.
      slots: `[blocks]` int64, the slot of the dictionaries of each, -1 for none, -2 for unknown ones.
      out: uint8 with room for the bytes that `room` computes.
      sizes: `[blocks]` int64, filled with the length of each in `out`, 0 for a refused block.
    """
    source, target = ptr(data, 0), ptr(out, 0)
    at = int64(0)
    to = int64(0)
    for b in range(len(ends)):
        reached = unpack_block(source, at, ends[b], slots[b], workshop, target, to)
        sizes[b] = reached - to
        to = reached
        at = ends[b]
    return to


@kernel
def room(data: NDArray[np.uint8], ends: NDArray[np.int64], sums: NDArray[np.int64]) -> None:
    """Adds up the contents that the headers of blocks state: maximum unpacked bytes, records, P codes, edges.

    Args:
      data, ends: as for `unpack`.
      sums: `[4]` int64, filled.
    """
    source = ptr(data, 0)
    at = int64(0)
    for b in range(len(ends)):
        if ends[b] - at >= HEADER:
            header = header_at(source, at)
            records, codes, edges = records_in(header), codes_in(header), edges_in(header)
            sums[0] += HEADER + (LOW + RECORD_BYTES) * records + codes + (LOW + EDGE_BYTES) * edges
            sums[1] += records
            sums[2] += codes
            sums[3] += edges
        at = ends[b]


@inner
def _shape(data: Pointer[uint8], at: int64) -> tuple[int64, int64]:
    """Returns where the P codes and the columns of a block begin."""
    header = header_at(data, at)
    codes = at + HEADER + low_bytes(header)
    return codes, codes + codes_in(header)


@kernel
def split(
    plain: NDArray[np.uint8], ends: NDArray[np.int64], codes: NDArray[np.int64], columns: NDArray[np.int64]
) -> None:
    """Fills the offsets of the P codes and the columns of each block.

    Args:
      plain: uint8, expanded blocks and 8 bytes of padding; ends: `[blocks]` int64, where each ends.
      codes, columns: `[blocks]` int64, filled.
    """
    at = int64(0)
    for b in range(len(ends)):
        first, second = _shape(ptr(plain, 0), at)
        codes[b] = first
        columns[b] = second
        at = ends[b]


@inner
def _copied(source: Pointer[uint8], at: int64, end: int64, out: Pointer[uint8], to: int64) -> int64:
    for k in range(end - at):
        out[to + k] = source[at + k]
    return to + end - at


@inner
def _number(x: uint64, count: int64, out: Pointer[uint8], to: int64) -> int64:
    for _ in range(count):
        out[to] = uint8(x & U(255))
        x >>= U(8)
        to += 1
    return to


@kernel
def seal(
    plain: NDArray[np.uint8],
    ends: NDArray[np.int64],
    frames: NDArray[np.uint8],
    frame_ends: NDArray[np.int64],
    crc: NDArray[np.uint32],
    out: NDArray[np.uint8],
    out_ends: NDArray[np.int64],
) -> None:
    """Assembles the stored form of blocks.

    Args:
      plain, ends: as for `split`.
      frames: uint8, for each block its frame of P codes, which may be empty, and that of its columns.
      frame_ends: `[2 * blocks]` int64.
      crc: `crc_tables`.
      out: uint8 with room for low parts, frames and `LENGTH + CHECKSUM` bytes a block; filled.
      out_ends: `[blocks]` int64, end of each block in `out`; filled.
    """
    source, packed, target, table = ptr(plain, 0), ptr(frames, 0), ptr(out, 0), ptr(crc, 0)
    at = int64(0)
    frame = int64(0)
    to = int64(0)
    for b in range(len(ends)):
        begin = to
        low = at + HEADER
        first = _shape(source, at)[0]
        skipped = frame + CUT if frame_ends[2 * b] > frame else frame
        to = _copied(source, at, low, target, to)
        to = _number(U(frame_ends[2 * b] - skipped), int64(LENGTH), target, to)
        to = _copied(source, low, first, target, to)
        to = _copied(packed, skipped, frame_ends[2 * b], target, to)
        to = _copied(packed, frame_ends[2 * b] + CUT, frame_ends[2 * b + 1], target, to)
        to = _number(crc32(target, begin, to, table), int64(CHECKSUM), target, to)
        out_ends[b] = to
        frame = frame_ends[2 * b + 1]
        at = ends[b]
