"""Columns to blocks and back with the kernels, which are imported on first use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...errors import UnfitRecordError
from ..index.bloom import empty_bloom
from ..record.node import COLUMNS, MAX_MOVES, RecordBatch
from .compression import Dictionaries, sampled
from .layout import BAD_FIELD, BAD_POSITION, BLOCK, CHECKSUM, LENGTH, RECORDS_MASK, START, room_for

if TYPE_CHECKING:
    from .batch_kernel import Columns
    from .unpacking import Unpacker

_WHY = {BAD_POSITION: "an impossible position", BAD_FIELD: "a field out of range"}


@dataclass(frozen=True, slots=True)
class EncodedChunk:
    """One chunk as it is stored.

    Attributes:
      dictionary: the dictionaries that its blocks were written with.
      data: the blocks, with checksums, one behind the other. ends: where each ends.
    """

    dictionary: bytes
    data: bytes
    ends: list[int]

    @property
    def blocks(self) -> list[bytes]:
        """The blocks one by one."""
        return [self.data[a:b] for a, b in pairwise([0, *self.ends])]


def owned(array: NDArray[Any], dtype: Any) -> NDArray[Any]:
    """Returns the array, or a copy, contiguous and writable: kernels compile anew for any other kind."""
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
    """Returns the position that the first record of a block is told from."""
    return np.array(START, np.uint64)


def columns_of(batch: RecordBatch) -> Columns:
    """Returns the batch as the kernels take it, words flat."""
    from .batch_kernel import Columns

    return Columns(**{name: owned(getattr(batch, name), kind).reshape(-1) for name, kind in COLUMNS.items()})


def encode_plain(batch: RecordBatch) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Returns the blocks of some records before compression, with 8 bytes more, and where each ends.

    Raises:
      UnfitRecordError: if a record has no place in the format.
    """
    from .encoding_kernel import encode

    blocks = -(-len(batch) // BLOCK)
    room = room_for(blocks, len(batch), len(batch.codes), len(batch.n))
    out, ends = np.empty(room + 8, np.uint8), np.zeros(blocks, np.int64)
    problem, at = encode(columns_of(batch), start_position(), out, ends)
    if problem:
        raise UnfitRecordError(int(at), _WHY[problem])
    return out[: int(at) + 8], ends


def encode_chunk(batch: RecordBatch, dictionary: bytes = b"") -> EncodedChunk:
    """Returns the stored form of the records of one chunk, in their order.

    Args:
      batch: the records.
      dictionary: dictionaries as stored, of a chunk of the same kind; without them new ones are trained.

    Raises:
      UnfitRecordError: if a record has no place in the format.
    """
    from .packing_kernel import seal, split

    plain, ends = encode_plain(batch)
    codes, columns = np.empty(len(ends), np.int64), np.empty(len(ends), np.int64)
    split(plain, ends, codes, columns)
    bounds = list(zip([0, *ends.tolist()], codes.tolist(), columns.tolist(), ends.tolist(), strict=False))
    view = plain.data
    sample = [bytes(view[bounds[i][0] : bounds[i][3]]) for i in sampled(len(bounds))]
    known = Dictionaries.from_bytes(dictionary) if sample and dictionary else None
    dictionaries = known or Dictionaries.train(sample)
    frames, frame_ends = joined(
        dictionaries.frames((view[a:b] for _, a, b, _ in bounds), (view[b:c] for _, _, b, c in bounds))
    )
    low = int((codes - ends).sum() + ends[-1])
    out = np.empty(low + len(frames) + (LENGTH + CHECKSUM) * len(ends), np.uint8)
    sealed = np.empty(len(ends), np.int64)
    seal(plain, ends, frames, frame_ends, _crc_tables(), out, sealed)
    return EncodedChunk(dictionaries.to_bytes(), out[: sealed[-1]].tobytes(), sealed.tolist())


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


def newest_in_order(words: NDArray[np.uint64], keys: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Returns the indices of the records in the order of a segment, the first one of each position.

    Args:
      words: `[R, 10]` packed positions. keys: `[R]` their sort keys.
    """
    from .columns_kernel import settle_ties

    places = np.argsort(keys, kind="stable")  # which makes use of what is in order already
    return places[: settle_ties(owned(words, np.uint64).reshape(-1), keys, places)]


def bloom_of(batch: RecordBatch, keys: NDArray[np.uint64]) -> NDArray[np.uint8]:
    """Returns the bloom filter of the keys of some records."""
    from .columns_kernel import add_to_bloom

    bloom = empty_bloom(len(batch))
    add_to_bloom(keys, bloom)
    return bloom


def joined(blocks: Sequence[bytes]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Returns blocks one behind the other, as kernels take them, and where each ends."""
    ends = np.fromiter(accumulate(map(len, blocks)), np.int64, len(blocks))
    return padded(b"".join(blocks)), ends


def padded(data: bytes) -> NDArray[np.uint8]:
    """Returns bytes as kernels take them, which may read a little beyond."""
    return np.frombuffer(bytearray().join((data, bytes(8))), np.uint8)


def decode_stored(
    unpacker: Unpacker,
    data: NDArray[np.uint8],
    ends: NDArray[np.int64],
    slots: NDArray[np.int64],
    dictionary_of: Callable[[int], bytes],
    on_damage: Callable[[int, str], None],
) -> tuple[RecordBatch, NDArray[np.int64]]:
    """Returns the records of stored blocks, and how many each has: none if it is damaged.

    Args:
      unpacker: of this thread.
      data, ends: the blocks, as `joined` returns them.
      slots: `[blocks]` what the unpacker calls the dictionaries of each.
      dictionary_of: returns the dictionaries of a block as stored.
      on_damage: called with the index of each block that is not sound, and why.
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
    """Returns the records of unpacked blocks, and the first unsound one, or their number."""
    from .decoding_kernel import decode
    from .packing_kernel import room

    sums = np.zeros(4, np.int64)
    room(plain, ends, sums)
    batch = RecordBatch.room(*sums[1:].tolist())
    return batch, int(decode(board_tables(), plain, ends, start_position(), columns_of(batch), 0))


def take(batch: RecordBatch, order: NDArray[np.int64]) -> RecordBatch:
    """Returns the records `order` of a batch."""
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
    """Returns the records of some positions in stored blocks, their places in `asked`, and what was refused.

    A block is refused, `[blocks]`, if it is not sound or only the `zstandard` package can judge it.

    Args:
      unpacker: of this thread.
      data, ends, slots: the blocks, as `bulk.decode_stored` takes them.
      words: `[10 K]` packed positions, flat.
      asked: which of them are looked for, block by block.
      firsts: `[blocks + 1]` where in `asked` those of each block begin.
    """
    from .extracting_kernel import extract
    from .packing_kernel import room

    sums = np.zeros(4, np.int64)
    room(data, ends, sums)
    most = MAX_MOVES * len(asked)
    times = int(np.diff(firsts).max(initial=0))  # that a record may be asked for
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
