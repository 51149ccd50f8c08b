"""Columns to blocks and back with the kernels, which are imported on first use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..errors import CapacityError, CorruptRecordError
from ..record import RecordBatch
from .bloom import HASHES, empty_bloom
from .codec import BLOCK, HEADER_BYTES, seal, unseal
from .huffman import LIMIT, SINGLE, SYMBOLS, TABLES, CodeBook

if TYPE_CHECKING:
    from ..kernels.codec import Columns

_WHY = {1: "an impossible position", 2: "a field out of range"}


class BlockFault(Exception):  # noqa: N818  (never leaves the store)
    """The block at `index` of those asked for is not sound."""

    def __init__(self, index: int, reason: str) -> None:
        super().__init__(reason)
        self.index = index


@dataclass(frozen=True, slots=True)
class EncodedChunk:
    """The blocks of one chunk (with checksums) and the code book they were written with."""

    book: bytes
    blocks: list[bytes]


def owned(array: NDArray[Any], dtype: Any) -> NDArray[Any]:
    """Returns the array, or a copy, contiguous and writable: kernels compile anew for any other kind."""
    return np.require(array, dtype, ["C", "W"])


@cache
def board_tables() -> NDArray[np.uint64]:
    """Returns the table of the board kernels."""
    from ..kernels.tables import load_tables

    return owned(load_tables(), np.uint64)


_DTYPES = {
    "words": np.uint64,
    "v": np.float32,
    "d": np.uint16,
    "evaluator": np.uint8,
    "flags": np.uint8,
    "code_offsets": np.int64,
    "codes": np.uint8,
    "edge_offsets": np.int64,
    "n": np.uint32,
    "r": np.uint32,
    "q": np.float32,
    "edge_d": np.uint16,
}


def _columns(batch: RecordBatch) -> Columns:
    """Returns the batch as the kernels take it, words flat."""
    from ..kernels.codec import Columns

    return Columns(**{name: owned(getattr(batch, name), kind).reshape(-1) for name, kind in _DTYPES.items()})


def encode_chunk(batch: RecordBatch) -> EncodedChunk:
    """Returns the encoded form of the records of one chunk, in their order.

    Raises:
      CorruptRecordError: if a record has no place in the format.
    """
    from ..kernels.codec import START
    from ..kernels.encoding import EDGE_TOKENS, POSITION_TOKENS, emit, tokenize

    blocks = -(-len(batch) // BLOCK)
    room = POSITION_TOKENS * len(batch) + len(batch.codes) + EDGE_TOKENS * len(batch.n)
    tokens = np.empty(room, np.uint32)
    ends, headers = np.zeros(blocks, np.int64), np.zeros(blocks, np.uint32)
    counts = np.zeros(TABLES * SYMBOLS, np.uint32)
    problem, at = tokenize(_columns(batch), START, tokens, ends, headers, counts)
    if problem:
        raise CorruptRecordError(f"record {at} of the batch has {_WHY[problem]}")
    book = CodeBook.from_counts(counts)
    out = np.empty(4 * (int(at) + blocks) + HEADER_BYTES, np.uint8)
    out_ends = np.zeros(blocks, np.int64)
    widths = np.where(book.lengths == SINGLE, 0, book.lengths).astype(np.uint8)
    size = emit(tokens, ends, headers, book.codes, widths, out, out_ends)
    data = out[:size].tobytes()
    return EncodedChunk(book.to_bytes(), [seal(data[a:b]) for a, b in pairwise([0, *out_ends.tolist()])])


def bloom_of(batch: RecordBatch, keys: NDArray[np.uint64]) -> NDArray[np.uint8]:
    """Returns the bloom filter of the keys of some records."""
    from ..kernels.columns import add_to_bloom

    bloom = empty_bloom(len(batch))
    add_to_bloom(keys, bloom, HASHES)
    return bloom


class ChunkDecoder:
    """Decodes blocks of one chunk in bulk."""

    def __init__(self, book: CodeBook) -> None:
        from ..kernels.decoding import fill_decoder

        self._entries = np.empty(TABLES << LIMIT, np.uint16)
        fill_decoder(book.lengths, book.codes, self._entries)

    def decode(self, blocks: Sequence[bytes]) -> RecordBatch:
        """Returns the records of some blocks.

        Raises:
          BlockFault: for the first block that is not sound.
        """
        from ..kernels.codec import START
        from ..kernels.decoding import decode

        payloads = _unseal_all(blocks)
        ends = np.cumsum([len(p) for p in payloads], dtype=np.int64)
        data = np.frombuffer(bytearray(b"".join(payloads) + bytes(8)), np.uint8)
        batch = _room_for(data, ends)
        good = decode(board_tables(), data, ends, self._entries, START, _columns(batch), 0)
        if good < len(blocks):
            raise BlockFault(int(good), "its bits are no records")
        return batch


def _unseal_all(blocks: Sequence[bytes]) -> list[bytes]:
    payloads = []
    for i, block in enumerate(blocks):
        try:
            payloads.append(unseal(block))
        except CorruptRecordError as error:
            raise BlockFault(i, str(error)) from None
    return payloads


def _room_for(data: NDArray[np.uint8], ends: NDArray[np.int64]) -> RecordBatch:
    """Returns an empty batch with room for what the headers of the blocks announce."""
    starts = np.concatenate([np.zeros(1, np.int64), ends[:-1]])
    headers = data[starts[:, None] + np.arange(HEADER_BYTES)].astype(np.int64) @ (
        1 << 8 * np.arange(HEADER_BYTES)
    )
    records = int(((headers & 31) + 1).sum())
    return RecordBatch.empty(records, int((headers >> 5 & 0x1FFF).sum()), int((headers >> 18 & 0x1FFF).sum()))


def take(batch: RecordBatch, order: NDArray[np.int64]) -> RecordBatch:
    """Returns the records `order` of a batch."""
    if len(order) == len(batch) and bool((order == np.arange(len(order))).all()):
        return batch
    from ..kernels.columns import gather

    codes = np.diff(batch.code_offsets)[order].sum()
    edges = np.diff(batch.edge_offsets)[order].sum()
    out = RecordBatch.empty(len(order), int(codes), int(edges))
    gather(_columns(batch), order, _columns(out))
    return out


def check_size(batch: RecordBatch, limit: int) -> None:
    """Raises CapacityError for a batch of more records than fit one call."""
    if len(batch) > limit:
        raise CapacityError(f"{len(batch)} records in one batch, at most {limit} can be appended at once")
