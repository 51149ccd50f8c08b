"""The index of segments as flat arrays for kernels: the chunks and blocks that may hold a position."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...base.errors import CorruptRecordError
from .catalog import Bits, Chunk, ChunkIndex, Indexes, Segment
from .locate_kernel import BlockArrays, FilterArrays, no_filter

Read = Callable[[Chunk], ChunkIndex]


class _Addresses(bytearray):
    """Addresses of arrays as int64, which keep the arrays alive."""

    arrays: tuple[NDArray[Any], ...]


def _keeping(arrays: Sequence[NDArray[Any]], addresses: Sequence[int]) -> NDArray[np.int64]:
    """Returns addresses, `[A]`. The result, or a view of it, keeps some arrays alive."""
    memory = _Addresses(8 * max(1, len(addresses)))
    memory.arrays = tuple(arrays)
    found = np.frombuffer(memory, np.int64)[: len(addresses)]
    found[:] = addresses
    return found


@dataclass(frozen=True)
class Index:
    """All segments of one state of a file, newest first; immutable.

    Attributes:
      chunks: their chunks in the order of the arrays, except those that cannot be read.
      filter: sort keys and bloom filters of the chunks.
      blocks: sort keys of their blocks.
      shifts: `[chunks]` the row of a block minus its index in `blocks`, for the blocks of each chunk.
      dictionaries: those of each chunk, as stored.
      blooms: the bloom filter of each chunk; an older and a newer index share them.
      lost: ids of the chunks that were left out.
    """

    chunks: tuple[Chunk, ...]
    filter: FilterArrays
    blocks: BlockArrays
    shifts: NDArray[np.int64]
    dictionaries: tuple[bytes, ...]
    blooms: tuple[Bits, ...]
    lost: frozenset[int]

    def is_of(self, segments: Sequence[Segment]) -> bool:
        """Returns whether this is the index of these segments, newest first, without damage."""
        chunks = (chunk for segment in segments for chunk in segment.chunks if chunk.gone < chunk.blocks)
        return self.chunks == tuple(chunks)

    def owners(self, blocks: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the index of each block's chunk."""
        return np.searchsorted(self.blocks.starts, blocks, "right") - 1

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        arrays: list[NDArray[Any]] = [*self.filter, *self.blocks, self.shifts, *self.blooms]
        return sum(int(array.nbytes) for array in arrays)


def no_index() -> Index:
    """Returns the index of an empty file."""
    blocks = BlockArrays(np.zeros(1, np.int64), np.zeros(0, np.uint64))
    return Index((), no_filter(), blocks, np.zeros(0, np.int64), (), (), frozenset())


def filter_of(
    firsts: NDArray[np.uint64], segments: NDArray[np.int64], blooms: Sequence[Bits]
) -> FilterArrays:
    """Returns the filter of some chunks with their bloom filters; the other arguments as `FilterArrays`."""
    sizes = np.array([len(bloom) for bloom in blooms], np.int64)
    addresses = [bloom.__array_interface__["data"][0] for bloom in blooms]
    return FilterArrays(firsts, segments, _keeping(blooms, addresses), sizes)


def build(
    segments: Sequence[Segment],
    old: Index,
    indexes: Indexes,
    read: Read,
    on_damage: Callable[[CorruptRecordError], None],
) -> Index:
    """Returns the index of some segments, newest first.

    It shares the filters of `old`, and so examines only new chunks.

    Args:
      segments: the segments.
      old: an index of an earlier state.
      indexes: the cached indexes of chunks; their filters are dropped, since the new index holds them.
      read: reads the index of a chunk from the file.
      on_damage: called with the error of each chunk that is newly left out.
    """
    filters = dict(zip((chunk.id for chunk in old.chunks), old.blooms, strict=True))
    lost = set(old.lost)
    kept: list[list[tuple[Chunk, ChunkIndex]]] = []
    for segment in segments:
        kept.append([])
        for chunk in segment.chunks:
            if chunk.id in lost or chunk.gone >= chunk.blocks:
                continue
            try:
                index = _index_of(chunk, filters, indexes, read)
            except CorruptRecordError as error:
                lost.add(chunk.id)
                on_damage(error)
                continue
            filters.setdefault(chunk.id, index.bloom)
            kept[-1].append((chunk, index))
    return _flat(kept, filters, frozenset(lost))


def _index_of(chunk: Chunk, filters: dict[int, Bits], indexes: Indexes, read: Read) -> ChunkIndex:
    """Returns a chunk's index, with its filter unless `filters` has it; drops the filter from `indexes`."""
    found = indexes.get(chunk)
    if found is None or not (len(found.bloom) or chunk.id in filters):
        found = read(chunk)
    if len(found.bloom) or indexes.get(chunk) is None:
        indexes.keep(chunk.id, found)
    return found


def _flat(
    kept: Sequence[Sequence[tuple[Chunk, ChunkIndex]]],
    filters: dict[int, Bits],
    lost: frozenset[int],
) -> Index:
    chunks = [chunk for segment in kept for chunk, _ in segment]
    keys = [index.keys[chunk.gone :] for segment in kept for chunk, index in segment]
    blooms = [filters[chunk.id] for chunk in chunks]
    starts = _offsets([len(part) for part in keys])
    first_ids = np.array([chunk.block_id(chunk.gone) for chunk in chunks], np.int64)
    return Index(
        tuple(chunks),
        filter_of(
            np.array([chunk.first_key for chunk in chunks], np.uint64),
            _offsets([len(segment) for segment in kept]),
            blooms,
        ),
        BlockArrays(starts, np.concatenate(keys) if keys else np.zeros(0, np.uint64)),
        first_ids - starts[:-1],
        tuple(index.dictionary for segment in kept for _, index in segment),
        tuple(blooms),
        lost,
    )


def _offsets(lengths: Sequence[int]) -> NDArray[np.int64]:
    return np.fromiter(accumulate(lengths, initial=0), np.int64, len(lengths) + 1)
