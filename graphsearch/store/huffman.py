"""Huffman codes of a chunk: lengths from counts, canonical codes, and their stored form.

`schema/segment.md` is the reference. A code is at most `LIMIT` bits; the only symbol of a table takes none.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..errors import CorruptRecordError

TABLES = 137
SYMBOLS = 256
LIMIT = 11
SINGLE = 15  # stored length of the only symbol of its table
_REVERSED = [[int(f"{x:0{n}b}"[::-1], 2) if n else 0 for x in range(1 << n)] for n in range(LIMIT + 1)]

Counts = NDArray[np.uint32]


@dataclass(frozen=True, slots=True)
class CodeBook:
    """The codes of all tables: `lengths` (0 unused, 1..11, 15 the only one) and `codes`, both `[137 * 256]`.

    A code's first bit is its lowest.
    """

    lengths: NDArray[np.uint8]
    codes: NDArray[np.uint16]

    def to_bytes(self) -> bytes:
        """Returns the stored form: lengths in 4 bits, even symbols low, deflated (zlib)."""
        return zlib.compress((self.lengths[0::2] | self.lengths[1::2] << 4).tobytes(), 6)

    @classmethod
    def from_bytes(cls, data: bytes) -> CodeBook:
        """Returns the code book of its stored form.

        Raises:
          CorruptRecordError: if the bytes are no code book.
        """
        packed = np.frombuffer(_inflate(data, TABLES * SYMBOLS // 2), np.uint8)
        lengths = np.empty(TABLES * SYMBOLS, np.uint8)
        lengths[0::2], lengths[1::2] = packed & 15, packed >> 4
        _check(lengths.reshape(TABLES, SYMBOLS))
        return cls(lengths, _codes(lengths))

    @classmethod
    def from_counts(cls, counts: Counts) -> CodeBook:
        """Returns the code book for uses of each symbol, `[TABLES * SYMBOLS]`."""
        lengths = np.zeros((TABLES, SYMBOLS), np.uint8)
        for table, row in enumerate(counts.reshape(TABLES, SYMBOLS)):
            used = np.nonzero(row)[0]
            if len(used):
                lengths[table, used] = code_lengths([int(x) for x in row[used]])
        return cls(lengths.reshape(-1), _codes(lengths.reshape(-1)))


def code_lengths(counts: list[int]) -> list[int]:
    """Returns the code length of each symbol of one table, at most `LIMIT`; `SINGLE` if there is one symbol.

    >>> code_lengths([1, 1, 2, 4]), code_lengths([7])
    ([3, 3, 2, 1], [15])
    """
    if len(counts) == 1:
        return [SINGLE]
    order = sorted(range(len(counts)), key=lambda i: (counts[i], i))
    depths = _limit(_depths([counts[i] for i in order]))
    lengths = [0] * len(counts)
    for i, depth in zip(order, depths, strict=True):
        lengths[i] = depth
    return lengths


def _depths(weights: list[int]) -> list[int]:
    """Returns the depth of each leaf of the Huffman tree of ascending weights (two queues)."""
    leaves = len(weights)
    parent = [0] * (2 * leaves - 1)
    total = weights + [0] * (leaves - 1)
    leaf, inner = 0, leaves
    for new in range(leaves, 2 * leaves - 1):
        for _ in range(2):
            if leaf < leaves and (inner >= new or total[leaf] <= total[inner]):
                child, leaf = leaf, leaf + 1
            else:
                child, inner = inner, inner + 1
            parent[child] = new
            total[new] += total[child]
    depth = [0] * (2 * leaves - 1)
    for node in range(2 * leaves - 3, -1, -1):
        depth[node] = depth[parent[node]] + 1
    return depth[:leaves]


def _limit(depths: list[int]) -> list[int]:
    """Returns depths (rarest first) cut to `LIMIT`, others deepened until the codes fit again."""
    depths = [min(depth, LIMIT) for depth in depths]
    excess = sum(1 << (LIMIT - depth) for depth in depths) - (1 << LIMIT)
    while excess > 0:
        i = max((i for i in range(len(depths)) if depths[i] < LIMIT), key=lambda i: (depths[i], -i))
        depths[i] += 1
        excess -= 1 << (LIMIT - depths[i])
    return depths


def _codes(lengths: NDArray[np.uint8]) -> NDArray[np.uint16]:
    """Returns canonical codes: within a table by length, then by symbol; stored first bit lowest."""
    codes = np.zeros(TABLES * SYMBOLS, np.uint16)
    for table in np.unique(np.nonzero(lengths)[0] // SYMBOLS):
        row = lengths[table * SYMBOLS : (table + 1) * SYMBOLS]
        if SINGLE in row:
            continue
        code = last = 0
        for symbol in sorted(np.nonzero(row)[0].tolist(), key=lambda s: (row[s], s)):
            length = int(row[symbol])
            code <<= length - last
            codes[table * SYMBOLS + symbol] = _REVERSED[length][code]
            code, last = code + 1, length
    return codes


def _check(lengths: NDArray[np.uint8]) -> None:
    single = lengths == SINGLE
    if ((lengths > LIMIT) & ~single).any():
        raise CorruptRecordError(f"a Huffman code is longer than {LIMIT} bits")
    weight = np.where((lengths > 0) & ~single, 1 << (LIMIT - np.minimum(lengths, LIMIT).astype(int)), 0)
    if (weight.sum(1) > 1 << LIMIT).any() or (single.any(1) & ((lengths > 0).sum(1) > 1)).any():
        raise CorruptRecordError("a Huffman table has more codes than bits allow")


def _inflate(data: bytes, size: int) -> bytes:
    """Returns exactly `size` bytes of deflated data, never more."""
    inflater = zlib.decompressobj()
    try:
        raw = inflater.decompress(data, size + 1)
    except zlib.error as error:
        raise CorruptRecordError(f"a code book does not inflate: {error}") from None
    if len(raw) != size or not inflater.eof:
        raise CorruptRecordError(f"a code book has {len(raw)} bytes instead of {size}")
    return raw
