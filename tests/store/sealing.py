"""Blocks before compression to blocks as they are stored, one at a time."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from itertools import pairwise

from graphsearch.store.codec.bulk import EncodedChunk
from graphsearch.store.codec.compression import Dictionaries, Header
from graphsearch.store.codec.layout import CODES_AT, DRAWN_AT, EDGES_AT, FRAME_START, HEADER


def seal(dictionaries: Dictionaries, blocks: Sequence[bytes]) -> list[bytes]:
    """Returns blocks compressed, each with its checksum; `packing_kernel.py` does so in bulk."""
    parts = []
    for block in blocks:
        codes, columns = Header.of(block).parts()
        parts.append((block[:codes], block[codes:columns], block[columns:]))
    frames = dictionaries.frames([part[1] for part in parts], [part[2] for part in parts])
    sealed = []
    for (low, _, _), first_frame, second_frame in zip(parts, frames[::2], frames[1::2], strict=True):
        first, second = (frame[len(FRAME_START) :] for frame in (first_frame, second_frame))
        length = struct.pack("<H", len(first))
        sealed.append(with_checksum(low[:HEADER] + length + low[HEADER:] + first + second))
    return sealed


def blocks_of(chunk: EncodedChunk) -> list[bytes]:
    """Returns the blocks of a chunk one by one."""
    return [chunk.data[a:b] for a, b in pairwise([0, *chunk.ends])]


def header_bytes(header: Header) -> bytes:
    """Returns a header as it is stored."""
    counts = header.records - 1 | header.codes << CODES_AT | header.edges << EDGES_AT
    return struct.pack("<I", counts | header.drawn << DRAWN_AT)


def with_checksum(data: bytes) -> bytes:
    """Returns the bytes with their CRC-32 behind them."""
    return data + struct.pack("<I", zlib.crc32(data))
