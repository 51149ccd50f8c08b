"""Blocks before compression and as they are stored, one at a time, by the zstandard package."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from itertools import pairwise

import zstandard

from graphsearch.store.block import Dictionaries, EncodedChunk, announced, joined
from graphsearch.store.block_kernel import (
    CODES_AT,
    DRAWN_AT,
    EDGE_BYTES,
    EDGES_AT,
    FRAME_START,
    HEADER,
    LENGTH,
    LOW,
    RECORD_BYTES,
)


class BlockError(Exception):
    """A stored block that the zstandard package refuses."""


def parts_of(block: bytes) -> tuple[int, int]:
    """Returns the offsets of the P codes and of the columns in a block before compression."""
    records, codes, edges = (int(found[0]) for found in announced(*joined([block])))
    at = HEADER + LOW * (records + edges)
    return at, at + codes


def seal(dictionary: bytes, blocks: Sequence[bytes]) -> list[bytes]:
    """Returns blocks compressed, each with its checksum; as `block.encode_chunk` stores them."""
    parts = []
    for block in blocks:
        codes, columns = parts_of(block)
        parts.append((block[:codes], memoryview(block[codes:columns]), memoryview(block[columns:])))
    frames = Dictionaries(dictionary).frames([part[1] for part in parts], [part[2] for part in parts])
    return [
        stored(low, *(frame[len(FRAME_START) :] for frame in pair))
        for (low, _, _), pair in zip(parts, frames, strict=True)
    ]


def stored(low: bytes, codes: bytes, columns: bytes) -> bytes:
    """Returns a stored block of a header with low parts, and two frames without their first bytes."""
    return with_checksum(low[:HEADER] + struct.pack("<H", len(codes)) + low[HEADER:] + codes + columns)


def opened(dictionary: bytes, block: bytes) -> bytes:
    """Returns a stored block as it was before compression.

    Raises:
      BlockError: if its checksum is wrong, or its frames do not expand to what it announces.
    """
    data = block[:-4]
    if len(block) < HEADER + LENGTH + 4 or with_checksum(data) != block:
        raise BlockError("too short, or a wrong checksum")
    header, rest = data[:HEADER], data[HEADER + LENGTH :]
    records, codes, edges = (int(found[0]) for found in announced(*joined([header])))
    low = LOW * (records + edges)
    middle = low + int.from_bytes(data[HEADER : HEADER + LENGTH], "little")
    end = 2 + int.from_bytes(dictionary[:2], "little")
    first = _expanded(rest[low:middle], dictionary[2:end], codes)
    most = RECORD_BYTES * records + EDGE_BYTES * edges
    if len(rest) < middle or len(first) != codes:
        raise BlockError("its P codes are not those that it announces")
    return header + rest[:low] + first + _expanded(rest[middle:], dictionary[end:], most)


def _expanded(frame: bytes, dictionary: bytes, most: int) -> bytes:
    if not frame and not most:
        return b""
    try:
        whole = zstandard.ZstdCompressionDict(dictionary) if dictionary else None
        return zstandard.ZstdDecompressor(dict_data=whole).decompress(
            FRAME_START + frame, max_output_size=most, allow_extra_data=False
        )
    except zstandard.ZstdError as error:
        raise BlockError(str(error)) from None


def blocks_of(chunk: EncodedChunk) -> list[bytes]:
    """Returns the blocks of a chunk one by one."""
    return [chunk.data[a:b] for a, b in pairwise([0, *chunk.ends])]


def header_bytes(records: int, codes: int, edges: int, *, drawn: bool = False) -> bytes:
    """Returns a header as it is stored."""
    return struct.pack("<I", records - 1 | codes << CODES_AT | edges << EDGES_AT | drawn << DRAWN_AT)


def with_checksum(data: bytes) -> bytes:
    """Returns the bytes with their CRC-32 behind them."""
    return data + struct.pack("<I", zlib.crc32(data))
