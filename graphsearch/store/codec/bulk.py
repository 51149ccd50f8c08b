"""Encodes columns into blocks and decodes them with the kernels, which are imported on first use."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ...base.errors import UnfitRecordError
from ...position.board import POSITION_WORDS as PW
from ..index.bloom import empty_bloom
from ..ordered_work import shared_out, thread_count
from ..record.node import COLUMNS, MAX_MOVES, RecordBatch
from .compression import Dictionaries, sampled
from .layout import BAD_FIELD, BAD_POSITION, BLOCK, CHECKSUM, LENGTH, RECORDS_MASK, START, room_for

if TYPE_CHECKING:
    from .batch_kernel import Columns
    from .unpacking import Unpacker

_Item = TypeVar("_Item")

PART = 128 * BLOCK  # records of a chunk that are encoded at once: some 400 kB
_WHY = {BAD_POSITION: "an impossible position", BAD_FIELD: "a field out of range"}


@dataclass(frozen=True, slots=True)
class EncodedChunk:
    """One chunk as it is stored.

    Attributes:
      dictionary: the dictionaries of its blocks.
      data: the blocks, with checksums, concatenated. ends: where each ends.
    """

    dictionary: bytes
    data: bytes
    ends: list[int]


@dataclass(frozen=True, slots=True)
class _PlainBlocks:
    """Blocks of a chunk before compression.

    Attributes:
      plain, ends: as `encode_plain` returns them.
      codes, columns: `[blocks]` where the P codes and the columns of each begin.
    """

    plain: NDArray[np.uint8]
    ends: NDArray[np.int64]
    codes: NDArray[np.int64]
    columns: NDArray[np.int64]

    def block(self, i: int) -> bytes:
        return self.plain[self.ends[i - 1] if i else 0 : self.ends[i]].tobytes()


def owned(array: NDArray[Any], dtype: Any) -> NDArray[Any]:
    """Returns the array or a copy, contiguous and writable: other kinds would compile another variant."""
    if type(array) is np.ndarray and array.dtype == dtype and array.flags.carray:
        return array
    return np.require(array, dtype, ["C", "W"])


@cache
def board_tables() -> NDArray[np.uint64]:
    """Returns the table of the board kernels."""
    from ...position.tables import load_tables

    return owned(load_tables(), np.uint64)


@cache
def start_position() -> NDArray[np.uint64]:
    """Returns the reference of the first record of a block."""
    return np.array(START, np.uint64)


def columns_of(batch: RecordBatch) -> Columns:
    """Returns the columns of a batch for the kernels, words flat."""
    from .batch_kernel import Columns

    return Columns(**{name: owned(getattr(batch, name), kind).reshape(-1) for name, kind in COLUMNS.items()})


def encode_plain(batch: RecordBatch) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Returns the uncompressed blocks of some records, with `PADDING` bytes behind them, and where each ends.

    Raises:
      UnfitRecordError: if the format cannot represent a record.
    """
    from .encoding_kernel import encode
    from .packing_kernel import PADDING

    blocks = -(-len(batch) // BLOCK)
    room = room_for(blocks, len(batch), len(batch.codes), len(batch.n))
    out, ends = np.empty(room + PADDING, np.uint8), np.zeros(blocks, np.int64)
    problem, at = encode(columns_of(batch), start_position(), out, ends)
    if problem:
        raise UnfitRecordError(int(at), _WHY[problem])
    return out[: int(at) + PADDING], ends


def encode_chunk(batch: RecordBatch, dictionary: bytes = b"", *, threads: int | None = None) -> EncodedChunk:
    """Returns the stored form of the records of one chunk, in their order, encoded by several threads.

    Args:
      batch: the records.
      dictionary: dictionaries as stored, of a chunk of the same kind; without them new ones are trained.
      threads: number of threads; default: one for each core, at most 8. The result is the same.

    Raises:
      UnfitRecordError: if the format cannot represent a record.
    """
    begins = range(0, len(batch), PART)
    parts = [(first, batch.part(first, min(first + PART, len(batch)))) for first in begins]
    threads = min(threads or thread_count(), len(parts))
    plain = deque(shared_out(parts, lambda part: _plain_blocks(*part), threads))
    stored = _dictionaries(plain, dictionary)
    stored.prepare()
    packed = list(shared_out(_drained(plain), lambda blocks: _packed(blocks, stored), threads))
    ends = accumulate(end - begin for _, ends in packed for begin, end in pairwise([0, *ends]))
    return EncodedChunk(stored.to_bytes(), b"".join(data for data, _ in packed), list(ends))


def _drained(items: deque[_Item]) -> Iterator[_Item]:
    """Yields items and drops them."""
    while items:
        yield items.popleft()


def _plain_blocks(first: int, part: RecordBatch) -> _PlainBlocks:
    """Returns the blocks of the part of a chunk from record `first` on; errors give places in the chunk."""
    from .packing_kernel import split

    try:
        plain, ends = encode_plain(part)
    except UnfitRecordError as error:
        raise UnfitRecordError(first + error.index, error.reason) from None
    codes, columns = np.empty(len(ends), np.int64), np.empty(len(ends), np.int64)
    split(plain, ends, codes, columns)
    return _PlainBlocks(plain, ends, codes, columns)


def _dictionaries(parts: Iterable[_PlainBlocks], stored: bytes) -> Dictionaries:
    """Returns the dictionaries for the blocks of a chunk: `stored`, new ones, or none for a small chunk."""
    places = [(part, i) for part in parts for i in range(len(part.ends))]
    wanted = sampled(len(places))
    if wanted and stored:
        return Dictionaries.from_bytes(stored)
    return Dictionaries.train([part.block(i) for part, i in (places[i] for i in wanted)])


def _packed(part: _PlainBlocks, dictionaries: Dictionaries) -> tuple[bytes, list[int]]:
    """Returns the stored form of blocks, concatenated, and where each ends."""
    from .packing_kernel import seal

    plain, ends = part.plain, part.ends
    view, codes, columns = plain.data, part.codes.tolist(), part.columns.tolist()
    frames, frame_ends = joined(
        dictionaries.frames(
            [view[a:b] for a, b in zip(codes, columns, strict=True)],
            [view[a:b] for a, b in zip(columns, ends.tolist(), strict=True)],
        )
    )
    low = int((part.codes - ends).sum() + ends[-1])
    out = np.empty(low + len(frames) + (LENGTH + CHECKSUM) * len(ends), np.uint8)
    sealed = np.empty(len(ends), np.int64)
    seal(plain, ends, frames, frame_ends, _crc_tables(), out, sealed)
    return out[: sealed[-1]].tobytes(), sealed.tolist()


@cache
def _crc_tables() -> NDArray[np.uint32]:
    from .packing_kernel import crc_tables

    return owned(crc_tables(), np.uint32)


def sort_keys(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Returns the sort keys of packed positions, as `order.sort_keys`."""
    from .columns_kernel import fill_sort_keys

    keys = np.empty(len(words), np.uint64)
    fill_sort_keys(owned(words, np.uint64).reshape(-1), keys)
    return keys


def segment_order(words: NDArray[np.uint64], keys: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Returns the indices of records of distinct positions in the order of a segment.

    Args:
      words: `[R, 10]` or wider, their positions. keys: their sort keys.
    """
    places = np.argsort(keys)  # quicksort takes a quarter of the time of a stable sort; only ties need that
    is_tied = np.zeros(len(keys), np.bool_)
    ties = np.flatnonzero(np.diff(keys[places]) == 0)
    is_tied[ties] = is_tied[ties + 1] = True
    tied = places[is_tied]
    places[is_tied] = tied[newest_in_order(words[tied, :PW], keys[tied])]
    return places


def newest_in_order(words: NDArray[np.uint64], keys: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Returns the indices of records in the order of a segment, only the first record of each position.

    Args:
      words: `[R, 10]` packed positions. keys: `[R]` their sort keys.
    """
    from .columns_kernel import settle_ties

    places = np.argsort(keys, kind="stable")  # faster on records that are already in order
    return places[: settle_ties(owned(words, np.uint64).reshape(-1), keys, places)]


def bloom_of(batch: RecordBatch, keys: NDArray[np.uint64]) -> NDArray[np.uint8]:
    """Returns the bloom filter of the keys of some records."""
    from .columns_kernel import add_to_bloom

    bloom = empty_bloom(len(batch))
    add_to_bloom(keys, bloom)
    return bloom


def joined(blocks: Sequence[bytes]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Returns blocks concatenated and padded, for kernels, and where each ends."""
    ends = np.fromiter(accumulate(map(len, blocks)), np.int64, len(blocks))
    return padded(b"".join(blocks)), ends


def padded(data: bytes) -> NDArray[np.uint8]:
    """Returns bytes with `PADDING` bytes behind them, since kernels may read beyond the end."""
    from .packing_kernel import PADDING

    return np.frombuffer(bytearray().join((data, bytes(PADDING))), np.uint8)


def decode_stored(
    unpacker: Unpacker,
    data: NDArray[np.uint8],
    ends: NDArray[np.int64],
    slots: NDArray[np.int64],
    dictionary_of: Callable[[int], bytes],
    on_damage: Callable[[int, str], None],
) -> tuple[RecordBatch, NDArray[np.int64]]:
    """Returns the records of stored blocks, and the number of records of each, 0 if it is damaged.

    Args:
      unpacker: of this thread.
      data, ends: the blocks, as `joined` returns them.
      slots: `[blocks]` the unpacker's slot of the dictionaries of each.
      dictionary_of: returns the dictionaries of a block as stored.
      on_damage: called with the index of each unsound block, and the reason.
    """
    plain, sizes = unpacker.unpack(data, ends, slots, dictionary_of, on_damage)
    while True:
        sound = np.nonzero(sizes)[0]
        its_ends = np.cumsum(sizes[sound])
        batch, good = decode_plain(plain, its_ends)
        if good == len(sound):
            break
        fault = int(sound[good])
        on_damage(fault, "its bytes are not records")
        begin, end = int(its_ends[good] - sizes[fault]), int(its_ends[good])
        plain = owned(np.concatenate([plain[:begin], plain[end:]]), np.uint8)
        sizes[fault] = 0
    records = np.zeros(len(sizes), np.int64)
    records[sound] = (plain[its_ends - sizes[sound]] & np.uint8(RECORDS_MASK)).astype(np.int64) + 1
    return batch, records


def decode_plain(plain: NDArray[np.uint8], ends: NDArray[np.int64]) -> tuple[RecordBatch, int]:
    """Returns the records of unpacked blocks, and the first unsound block, or the number of blocks."""
    from .decoding_kernel import decode
    from .packing_kernel import room

    sums = np.zeros(4, np.int64)
    room(plain, ends, sums)
    batch = RecordBatch.room(*sums[1:].tolist())
    return batch, int(decode(board_tables(), plain, ends, start_position(), columns_of(batch), 0))


def take(batch: RecordBatch, order: NDArray[np.int64]) -> RecordBatch:
    """Returns the records of a batch at the indices `order`."""
    if len(order) == len(batch) and bool((order == np.arange(len(order))).all()):
        return batch
    from .columns_kernel import gather

    codes, edges = (
        (offsets[order + 1] - offsets[order]).sum() for offsets in (batch.code_offsets, batch.edge_offsets)
    )
    out = RecordBatch.room(len(order), int(codes), int(edges))
    gather(columns_of(batch), order, columns_of(out))
    return out


def extract_stored(
    unpacker: Unpacker,
    data: NDArray[np.uint8],
    ends: NDArray[np.int64],
    slots: NDArray[np.int64],
    words: NDArray[np.uint64],
    asked: NDArray[np.int64],
    firsts: NDArray[np.int64],
) -> tuple[RecordBatch, NDArray[np.int64], NDArray[np.bool_]]:
    """Returns the records of some positions in stored blocks, their places in `asked`, and refused blocks.

    The last array, `[blocks]`, marks blocks that are unsound, or that only the `zstandard` package can judge.

    Args:
      unpacker: of this thread.
      data, ends, slots: the blocks, as for `bulk.decode_stored`.
      words: `[10 K]` packed positions, flat.
      asked: indices of the positions to look for, block by block.
      firsts: `[blocks + 1]` index in `asked` of the first position of each block.
    """
    from .extracting_kernel import extract
    from .packing_kernel import room

    sums = np.zeros(4, np.int64)
    room(data, ends, sums)
    most = MAX_MOVES * len(asked)
    times = int(np.diff(firsts).max(initial=0))  # most requests for one record
    out = RecordBatch.room(len(asked), min(most, times * int(sums[2])), min(most, times * int(sums[3])))
    hits, refused = np.empty(len(asked), np.int64), np.zeros(len(ends), np.bool_)
    found = extract(
        unpacker.workshop,
        unpacker.bench,
        start_position(),
        data,
        ends,
        slots,
        words,
        asked,
        firsts,
        hits,
        columns_of(out),
        refused,
    )
    return out.part(0, int(found)), hits[: int(found)], refused
