"""Compresses and decompresses blocks: their zstd frames, dictionaries and checksum.

`schema/segment.md` is the reference. A (de)compressor serves one thread, so every call makes its own;
dictionaries may be shared.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import zstandard
from zstandard import ZstdCompressionDict, ZstdCompressor, ZstdDecompressor, ZstdError

from ...base.errors import CorruptRecordError
from .layout import (
    CHECKSUM,
    CODES_AT,
    CODES_MASK,
    DRAWN_AT,
    EDGE_BYTES,
    EDGES_AT,
    EDGES_MASK,
    FRAME_START,
    HEADER,
    LENGTH,
    LOW,
    RECORD_BYTES,
    RECORDS_MASK,
)

LEAST_BYTES = HEADER + LENGTH + CHECKSUM  # of a stored block

LEVELS = (1, 2)  # of P codes and of columns: schema/segment.md has the figures
Bytes = bytes | memoryview

TRAINED = 64  # blocks that dictionaries are trained on, at most
TRAINED_FROM = 32  # blocks; fewer get no dictionaries
DICTIONARY_BYTES = 512


@dataclass(frozen=True, slots=True)
class Header:
    """The header of a block; `drawn`: whether it has the column of path draws."""

    records: int
    codes: int
    edges: int
    drawn: bool

    @classmethod
    def of(cls, block: bytes) -> Header:
        """Returns the header of a block, compressed or not.

        Raises:
          CorruptRecordError: if the block is too short for one.
        """
        if len(block) < HEADER:
            raise CorruptRecordError("a block is too short")
        x = int.from_bytes(block[:HEADER], "little")
        return cls(
            (x & RECORDS_MASK) + 1,
            x >> CODES_AT & CODES_MASK,
            x >> EDGES_AT & EDGES_MASK,
            bool(x >> DRAWN_AT),
        )

    def parts(self) -> tuple[int, int]:
        """Returns the offsets of the P codes and of the columns in an uncompressed block."""
        codes = HEADER + LOW * (self.records + self.edges)
        return codes, codes + self.codes


class Dictionaries:
    """The dictionaries of a chunk: one for P codes and one for columns, or neither."""

    def __init__(self, codes: bytes = b"", columns: bytes = b"") -> None:
        self._stored = struct.pack("<H", len(codes)) + codes + columns if codes else b""
        full = zstandard.DICT_TYPE_FULLDICT
        self._loaded = [ZstdCompressionDict(x, dict_type=full) if codes else None for x in (codes, columns)]

    def to_bytes(self) -> bytes:
        """Returns the stored form: length of the first one as u16, then both; empty if there are none."""
        return self._stored

    @classmethod
    def from_bytes(cls, data: bytes) -> Dictionaries:
        """Returns the dictionaries parsed from their stored form.

        Raises:
          CorruptRecordError: if the bytes are not dictionaries.
        """
        if not data:
            return cls()
        parts = stored_parts(data)
        if not all(parts):
            raise CorruptRecordError("dictionaries are too short")
        found = cls(*parts)
        found._decompressors()
        return found

    @classmethod
    def train(cls, sample: Sequence[bytes]) -> Dictionaries:
        """Returns dictionaries trained on uncompressed blocks, or none if zstd cannot train any.

        Args:
          sample: the blocks that `sampled` selects; empty for a chunk that gets no dictionaries.
        """
        if not sample:
            return cls()
        ends = [Header.of(block).parts() for block in sample]
        codes = [block[a:b] for block, (a, b) in zip(sample, ends, strict=True)]
        columns = [block[b:] for block, (_, b) in zip(sample, ends, strict=True)]
        try:
            return cls(_train(codes), _train(columns))
        except ZstdError:
            return cls()

    def prepare(self) -> None:
        """Prepares the dictionaries for compression, before several threads call `frames`."""
        for loaded, level in zip(self._loaded, LEVELS, strict=True):
            if loaded:
                loaded.precompute_compress(level=level)

    def frames(self, codes: Sequence[Bytes], columns: Sequence[Bytes]) -> list[bytes]:
        """Returns the zstd frames of each block in turn: P codes (empty if there are none), columns.

        Call `prepare` first; any thread may call this.
        """
        first, second = (
            _compressed(*pair) for pair in zip(self._compressors(), (codes, columns), strict=True)
        )
        return [frame for pair in zip(first, second, strict=True) for frame in pair]

    def _compressors(self) -> list[ZstdCompressor]:
        return [
            ZstdCompressor(level, dict_data=loaded, write_content_size=False, write_dict_id=False)
            for loaded, level in zip(self._loaded, LEVELS, strict=True)
        ]

    def _decompressors(self) -> list[ZstdDecompressor]:
        try:
            return [ZstdDecompressor(dict_data=loaded) for loaded in self._loaded]
        except ZstdError as error:
            raise CorruptRecordError(f"a dictionary is damaged: {error}") from None

    def opener(self) -> Opener:
        """Returns a decompressor of blocks, for one thread."""
        return Opener(*self._decompressors())


class Opener:
    """Decompresses the two frames of a block, for one thread."""

    def __init__(self, codes: ZstdDecompressor, columns: ZstdDecompressor) -> None:
        self._codes = codes
        self._columns = columns

    def open(self, block: bytes) -> bytes:
        """Returns a block as it was before compression: header, low bytes, P codes, columns.

        Raises:
          CorruptRecordError: if the checksum is wrong, or the content does not match the header.
        """
        data = without_checksum(block)
        header = Header.of(data)
        first = LENGTH + header.parts()[0]
        second = first + int.from_bytes(data[HEADER : HEADER + LENGTH], "little")
        if len(data) < second:
            raise CorruptRecordError("a block is too short")
        codes = _expand(self._codes, data[first:second], header.codes) if header.codes else b""
        if len(codes) != header.codes:
            raise CorruptRecordError(f"{len(codes)} prior codes instead of {header.codes}")
        most = RECORD_BYTES * header.records + EDGE_BYTES * header.edges
        columns = _expand(self._columns, data[second:], most)
        return b"".join((data[:HEADER], data[HEADER + LENGTH : first], codes, columns))


def stored_parts(data: bytes) -> tuple[bytes, bytes]:
    """Returns the two parts of stored dictionaries; one is empty if the bytes are too short."""
    end = 2 + int.from_bytes(data[:2], "little")
    return data[2:end], data[end:]


def sampled(blocks: int) -> range:
    """Returns the blocks of a chunk that its dictionaries are trained on, none for a small chunk.

    >>> len(sampled(31)), len(sampled(32)), len(sampled(2048))
    (0, 32, 64)
    """
    return range(0, blocks, -(-blocks // TRAINED)) if blocks >= TRAINED_FROM else range(0)


def without_checksum(block: bytes) -> bytes:
    """Returns the bytes of a block before its CRC-32.

    Raises:
      CorruptRecordError: if the block is too short or its checksum is wrong.
    """
    if len(block) < LEAST_BYTES:
        raise CorruptRecordError(f"a block of {len(block)} bytes instead of at least {LEAST_BYTES}")
    found = int.from_bytes(block[-CHECKSUM:], "little")
    expected = zlib.crc32(memoryview(block)[:-CHECKSUM])
    if found != expected:
        raise CorruptRecordError(f"checksum {found:08x} instead of {expected:08x}")
    return block[:-CHECKSUM]


def _compressed(compressor: ZstdCompressor, parts: Sequence[Bytes]) -> list[bytes]:
    """Returns the frame of each part, empty for an empty one; zstd's C backend releases Python's lock."""
    filled: list[bytes | bytearray | memoryview[int]] = [part for part in parts if len(part)]
    if filled and "multi_compress_to_buffer" in zstandard.backend_features:
        found = compressor.multi_compress_to_buffer(filled)
        frames = iter([found[i].tobytes() for i in range(len(found))])
    else:
        frames = iter([compressor.compress(part) for part in filled])
    return [next(frames) if len(part) else b"" for part in parts]


def _train(samples: Iterable[bytes]) -> bytes:
    used: list[bytes | bytearray | memoryview[int]] = [sample for sample in samples if sample]
    return zstandard.train_dictionary(DICTIONARY_BYTES, used, k=64, d=6, level=3).as_bytes()


def _expand(decompressor: ZstdDecompressor, data: bytes, limit: int) -> bytes:
    """Returns the content of a frame; content larger than the limit is an error."""
    try:
        return decompressor.decompress(FRAME_START + data, max_output_size=limit, allow_extra_data=False)
    except ZstdError as error:
        raise CorruptRecordError(f"a block does not expand: {error}") from None
