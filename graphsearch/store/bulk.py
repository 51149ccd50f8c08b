"""Columns to blocks and back with the kernels, which are imported on first use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..errors import CorruptRecordError
from ..record import RecordBatch
from .bloom import HASHES, empty_bloom
from .codec import BLOCK
from .compression import HEADER, Dictionaries

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
    """The blocks of one chunk (with checksums) and the dictionaries they were written with, as stored."""

    dictionary: bytes
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


def encode_blocks(batch: RecordBatch) -> list[bytes]:
    """Returns the blocks of some records, in their order, before compression.

    Raises:
      CorruptRecordError: if a record has no place in the format.
    """
    from ..kernels.codec import START
    from ..kernels.encoding import EDGE_BYTES, RECORD_BYTES, encode

    blocks = -(-len(batch) // BLOCK)
    room = HEADER * blocks + RECORD_BYTES * len(batch) + len(batch.codes) + EDGE_BYTES * len(batch.n)
    out, ends = np.empty(room, np.uint8), np.zeros(blocks, np.int64)
    problem, at = encode(_columns(batch), START, out, ends)
    if problem:
        raise CorruptRecordError(f"record {at} of the batch has {_WHY[problem]}")
    data = out[: int(at)].tobytes()
    return [data[a:b] for a, b in pairwise([0, *ends.tolist()])]


def encode_chunk(batch: RecordBatch) -> EncodedChunk:
    """Returns the stored form of the records of one chunk, in their order.

    Raises:
      CorruptRecordError: if a record has no place in the format.
    """
    blocks = encode_blocks(batch)
    dictionaries = Dictionaries.train(blocks)
    return EncodedChunk(dictionaries.to_bytes(), dictionaries.seal(blocks))


def bloom_of(batch: RecordBatch, keys: NDArray[np.uint64]) -> NDArray[np.uint8]:
    """Returns the bloom filter of the keys of some records."""
    from ..kernels.columns import add_to_bloom

    bloom = empty_bloom(len(batch))
    add_to_bloom(keys, bloom, HASHES)
    return bloom


def decode_chunk(dictionaries: Dictionaries, blocks: Sequence[bytes]) -> RecordBatch:
    """Returns the records of some blocks of a chunk.

    Raises:
      BlockFault: for the first block that is not sound.
    """
    opener = dictionaries.opener()
    plain = []
    for i, block in enumerate(blocks):
        try:
            plain.append(opener.open(block))
        except CorruptRecordError as error:
            raise BlockFault(i, str(error)) from None
    return decode_blocks(plain)


def decode_blocks(plain: Sequence[bytes]) -> RecordBatch:
    """Returns the records of some blocks as they were before compression.

    Raises:
      BlockFault: for the first block that is not sound.
    """
    from ..kernels.codec import START
    from ..kernels.decoding import decode

    ends = np.cumsum([len(block) for block in plain], dtype=np.int64)
    data = np.frombuffer(bytearray(b"".join(plain) or b"\0"), np.uint8)
    batch = _room_for(plain)
    good = decode(board_tables(), data, ends, START, _columns(batch), 0)
    if good < len(plain):
        raise BlockFault(int(good), "its bytes are no records")
    return batch


def _room_for(plain: Sequence[bytes]) -> RecordBatch:
    """Returns an empty batch with room for what the headers of the blocks announce."""
    starts = b"".join(block[:HEADER].ljust(HEADER, b"\0") for block in plain)
    x = np.frombuffer(starts, "<u4").astype(np.int64)
    return RecordBatch.empty(
        int(((x & 31) + 1).sum()), int((x >> 5 & 0x1FFF).sum()), int((x >> 18 & 0x1FFF).sum())
    )


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
