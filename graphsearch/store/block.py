"""Encodes columns into blocks, decodes them, and checks records, with kernels.

`schema/segment.md` is the reference of blocks and dictionaries.
"""

from __future__ import annotations

import struct
import threading
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import zstandard
from numpy.typing import NDArray
from zstandard import ZstdCompressionDict, ZstdCompressor, ZstdError

from ..base.errors import CompilerError, CorruptRecordError, UnfitRecordError
from ..position.board import MAX_MOVES, POSITION_WORDS, key_of_words
from . import block_kernel as kernel
from .block_kernel import BLOCK, HEADER, LOW, PADDING, room_for
from .ordered_work import thread_count
from .record import NodeRecord, RecordBatch, board_tables, owned
from .record_kernel import LOWER_SHIFT, UPPER_SHIFT, bounds_of, share_of

Bytes = NDArray[np.uint8]
Places = NDArray[np.int64]
OnDamage = Callable[[int, str], object]

LEVELS = (1, 2)  # of P codes and of columns: schema/segment.md has the figures
OWN_BLOCKS = 512  # compressed at once for each thread: 3 ms, many times the start of a thread on a busy core
TRAINED = 64  # blocks that dictionaries are trained on, at most
TRAINED_FROM = 32  # blocks; fewer get no dictionaries
DICTIONARY_BYTES = 512
SLOTS = 64  # loaded dictionaries of chunks, 55 kB each; a call that needs more loads them all
MOST_SLOTS = 4096

_UNFIT = {kernel.BAD_POSITION: "an impossible position", kernel.BAD_FIELD: "a field out of range"}
_REFUSED = {
    kernel.TOO_SHORT: "it is too short",
    kernel.BAD_CHECKSUM: "checksum is wrong",
    kernel.NO_DICTIONARY: "dictionaries are damaged",
    kernel.BAD_FRAME: "its frames do not expand to what it announces",
    kernel.NO_RECORDS: "its bytes are not records",
}

_START, _CRC_TABLES = np.array(kernel.START, np.uint64), owned(kernel.crc_tables(), np.uint32)


# ------------------------------------------------------------------ libzstd, inside the `zstandard` package
DICTIONARY_MAGIC = (0xEC30A437).to_bytes(4, "little")  # RFC 8878, section 5; others are plain content


class Libzstd:
    """The functions of libzstd that decompress, in a module that `cffi` made, which frees what they return.

    Attributes:
      decompress: address of `ZSTD_decompress_usingDDict`.
      frame_size: address of `ZSTD_findFrameCompressedSize`.
    """

    def __init__(self, module: Any) -> None:
        """Finds the functions."""
        self._ffi, self._c = module.ffi, module.lib
        self.decompress, self.frame_size = (
            self.address(self._ffi.addressof(self._c, f"ZSTD_{name}"))
            for name in ("decompress_usingDDict", "findFrameCompressedSize")
        )

    def address(self, pointer: object) -> int:
        """Returns the address of an object or a function."""
        return int(self._ffi.cast("intptr_t", pointer))

    def new_context(self) -> object:
        """Returns a decompression context for one thread, to be kept as long as its address is used.

        Threads that share one get false reports of corruption.
        """
        context = self._c.ZSTD_createDCtx()
        if not context:
            raise MemoryError("libzstd has no memory for a decompression context")
        return self._ffi.gc(context, self._c.ZSTD_freeDCtx)

    def load_dictionary(self, data: bytes) -> object:
        """Returns a dictionary ready for decompression, to be kept too, or None if the bytes are not one."""
        if len(data) < 8 or data[:4] != DICTIONARY_MAGIC:
            return None
        dictionary = self._c.ZSTD_createDDict(data, len(data))
        return self._ffi.gc(dictionary, self._c.ZSTD_freeDDict) if dictionary else None


@cache
def libzstd() -> Libzstd:
    """Returns the library that the `zstandard` package brings; `cffi` finds its functions on every system.

    Raises:
      CompilerError: if kernels cannot call it.
    """
    try:
        return Libzstd(import_module("zstandard._cffi"))
    except ImportError as error:
        raise CompilerError(
            f"kernels cannot call libzstd inside zstandard {zstandard.__version__} ({error}); install a wheel"
            " of it, and cffi: pip install --force-reinstall zstandard cffi"
        ) from None


# ------------------------------------------------------------------ bytes for kernels
def joined(blocks: Sequence[bytes]) -> tuple[Bytes, Places]:
    """Returns blocks concatenated and padded, for kernels, and where each ends."""
    return padded(b"".join(blocks)), np.fromiter(accumulate(map(len, blocks)), np.int64, len(blocks))


def padded(data: bytes) -> Bytes:
    """Returns bytes with `PADDING` bytes behind them, since kernels may read beyond the end."""
    return np.frombuffer(bytearray().join((data, bytes(PADDING))), np.uint8)


def announced(data: Bytes, ends: Places) -> tuple[Places, Places, Places]:
    """Returns the records, P codes and edges that the headers of blocks state, `[blocks]` each.

    The blocks, stored or expanded, are as `joined` returns them.
    """
    starts = np.append(0, ends)[:-1]
    header = data[starts[:, None] + np.arange(HEADER)].view("<u4").reshape(-1).astype(np.int64)
    return (
        (header & kernel.RECORDS_MASK) + 1,
        header >> kernel.CODES_AT & kernel.CODES_MASK,
        header >> kernel.EDGES_AT & kernel.EDGES_MASK,
    )


# ------------------------------------------------------------------ encoding
@dataclass(frozen=True, slots=True)
class EncodedChunk:
    """One chunk as it is stored: the dictionaries of its blocks, the blocks in a row, and where each ends."""

    dictionary: bytes
    data: bytes
    ends: list[int]

    def records(self) -> RecordBatch:
        """Returns the records; raises CorruptRecordError if a block is damaged."""

        def refuse(i: int, what: str) -> None:
            raise CorruptRecordError(f"block {i} of a chunk: {what}")

        ends = np.array(self.ends, np.int64)
        return decode_stored(padded(self.data), ends, [self.dictionary], np.zeros_like(ends), refuse)[0]


class Dictionaries:
    """The dictionaries of a chunk, for compression: one for P codes and one for columns, or neither."""

    def __init__(self, stored: bytes = b"") -> None:
        """Loads dictionaries from their stored form: length of the first one, u16, then both; empty if none.

        It raises CorruptRecordError if the bytes are not dictionaries.
        """
        self.stored = stored
        parts = _parts(stored)
        if stored and not all(parts):
            raise CorruptRecordError("dictionaries are too short")
        full = zstandard.DICT_TYPE_FULLDICT
        self._loaded = [ZstdCompressionDict(part, dict_type=full) if stored else None for part in parts]
        try:
            for loaded, level in zip(self._loaded, LEVELS, strict=True):
                if loaded:  # before several threads use it
                    loaded.precompute_compress(level=level)
        except ZstdError as error:
            raise CorruptRecordError(f"a dictionary is damaged: {error}") from None

    def frames(self, codes: Sequence[memoryview], columns: Sequence[memoryview]) -> list[tuple[bytes, bytes]]:
        """Returns the zstd frames of each block: P codes (empty if there are none), columns."""
        first, second = (
            _compressed(
                ZstdCompressor(level, dict_data=loaded, write_content_size=False, write_dict_id=False), parts
            )
            for loaded, level, parts in zip(self._loaded, LEVELS, (codes, columns), strict=True)
        )
        return list(zip(first, second, strict=True))


def _parts(stored: bytes) -> tuple[bytes, bytes]:
    """Returns the two parts of stored dictionaries; one is empty if the bytes are too short."""
    end = 2 + int.from_bytes(stored[:2], "little")
    return stored[2:end], stored[end:]


def _compressed(compressor: ZstdCompressor, parts: Sequence[memoryview]) -> list[bytes]:
    """Returns the frame of each part, empty for an empty one; zstd's C backend uses threads for many."""
    filled: list[bytes | bytearray | memoryview[int]] = [part for part in parts if len(part)]
    if filled and "multi_compress_to_buffer" in zstandard.backend_features:
        threads = min(thread_count(), len(filled) // OWN_BLOCKS)
        found = compressor.multi_compress_to_buffer(filled, threads=threads)
        frames = iter([found[i].tobytes() for i in range(len(found))])
    else:
        frames = iter([compressor.compress(part) for part in filled])
    return [next(frames) if len(part) else b"" for part in parts]


def sampled(blocks: int) -> range:
    """Returns the blocks of a chunk that its dictionaries are trained on, none for a small chunk.

    >>> len(sampled(31)), len(sampled(32)), len(sampled(2048))
    (0, 32, 64)
    """
    return range(0, blocks, -(-blocks // TRAINED)) if blocks >= TRAINED_FROM else range(0)


def _plain_parts(batch: RecordBatch) -> list[list[memoryview]]:
    """Returns the parts of blocks before compression: headers with low parts, P codes, columns."""
    plain, ends = encode_plain(batch)
    records, codes, edges = announced(plain, ends)
    starts = np.append(0, ends)[:-1]
    first = starts + HEADER + LOW * (records + edges)
    places = [found.tolist() for found in (starts, first, first + codes, ends)]
    return [[plain.data[a:b] for a, b in zip(*pair, strict=True)] for pair in pairwise(places)]


def _stored_block(low: memoryview, frames: tuple[bytes, bytes]) -> bytes:
    first, second = (frame[kernel.CUT :] for frame in frames)
    length = len(first).to_bytes(kernel.LENGTH, "little")
    data = b"".join((low[:HEADER], length, low[HEADER:], first, second))
    return data + zlib.crc32(data).to_bytes(kernel.CHECKSUM, "little")


def unfit(batch: RecordBatch) -> list[tuple[int, str]]:
    """Returns the index of each record that the format cannot represent, and the reason."""
    problems = np.empty(len(batch), np.int64)
    if not len(batch) or not kernel.find_unfit(batch, problems):
        return []
    return [(i, _UNFIT[int(problems[i])]) for i in np.flatnonzero(problems).tolist()]


def encode_plain(batch: RecordBatch) -> tuple[Bytes, Places]:
    """Returns the uncompressed blocks of some records, with `PADDING` bytes behind them, and where each ends.

    All records must fit the format.
    """
    blocks = -(-len(batch) // BLOCK)
    room = room_for(blocks, len(batch), len(batch.codes), len(batch.n))
    out, ends = np.empty(room + PADDING, np.uint8), np.zeros(blocks, np.int64)
    return out[: int(kernel.encode(batch, _START, out, ends)) + PADDING], ends


def encode_chunk(batch: RecordBatch, dictionary: bytes | None = b"") -> EncodedChunk:
    """Returns the stored form of the records of one chunk, in their order.

    Args:
      dictionary: dictionaries as stored, of a chunk of the same kind; without them new ones are trained;
        None: no dictionaries.

    Raises:
      UnfitRecordError: if the format cannot represent a record.
    """
    if bad := unfit(batch):
        raise UnfitRecordError("record {} of the batch has {}".format(*bad[0]))
    lows, codes, columns = _plain_parts(batch)
    wanted = sampled(len(lows)) if dictionary is not None else range(0)
    if wanted and dictionary:
        dictionaries = Dictionaries(dictionary)
    else:
        dictionaries = trained([codes[i] for i in wanted], [columns[i] for i in wanted])
    stored = list(map(_stored_block, lows, dictionaries.frames(codes, columns)))
    return EncodedChunk(dictionaries.stored, b"".join(stored), list(accumulate(map(len, stored))))


def trained(codes: Sequence[memoryview], columns: Sequence[memoryview]) -> Dictionaries:
    """Returns dictionaries trained on parts of blocks, none without blocks or if zstd cannot train any."""
    if not codes:
        return Dictionaries()
    filled = ([bytes(one) for one in samples if len(one)] for samples in (codes, columns))
    try:
        first, second = (
            zstandard.train_dictionary(DICTIONARY_BYTES, list(some), k=64, d=6, level=3).as_bytes()
            for some in filled
        )
    except ZstdError:
        return Dictionaries()
    return Dictionaries(struct.pack("<H", len(first)) + first + second)


# ------------------------------------------------------------------ decoding
class Unpacker:
    """The memory and the loaded dictionaries with which kernels read blocks, for one thread."""

    def __init__(self) -> None:
        self._library = libzstd()
        self._contexts = [self._library.new_context() for _ in range(2)]
        self._dictionaries = np.zeros(2 + 2 * MOST_SLOTS, np.int64)  # as the workshop has them
        self._slots: dict[bytes, int] = {}
        self._loaded: dict[bytes, list[object]] = {}
        size = room_for(1, BLOCK, kernel.CODES_MASK, kernel.EDGES_MASK) + PADDING
        self.workshop = kernel.Workshop(
            decompress=self._library.decompress,
            size_of_frame=self._library.frame_size,
            contexts=np.array([*map(self._library.address, self._contexts)], np.int64),
            dictionaries=self._dictionaries,
            frame=np.frombuffer(bytearray(kernel.FRAME_START.ljust(kernel.FRAME_ROOM, b"\0")), np.uint8),
            crc=_CRC_TABLES,
            plain=np.empty(size, np.uint8),
            reader=np.zeros(kernel.READER, np.int64),
            words=np.empty(BLOCK * POSITION_WORDS, np.uint64),
            runs=np.empty(BLOCK, np.uint32),
            start=_START,
        )

    def slots(self, dictionaries: Sequence[bytes]) -> Places:
        """Returns the slots of the dictionaries of some chunks; loads them, if need be instead of others.

        Of more than MOST_SLOTS different ones the last are UNKNOWN.
        """
        wanted = [one for one in dict.fromkeys(dictionaries) if one]
        new = [one for one in wanted if one not in self._slots]
        if new and len(self._slots) + len(new) > SLOTS:
            self._slots, new = {}, wanted
            self._loaded = {one: self._loaded[one] for one in wanted if one in self._loaded}
        for stored in new:
            slot = len(self._slots)
            if slot < MOST_SLOTS and (loaded := self._loaded.get(stored) or self._load(stored)):
                self._slots[stored], self._loaded[stored] = slot, loaded
                self._dictionaries[2 + 2 * slot : 4 + 2 * slot] = [*map(self._library.address, loaded)]
        return self.known_slots(dictionaries)

    def known_slots(self, dictionaries: Sequence[bytes]) -> Places:
        """Returns the slots of the dictionaries of some chunks, UNKNOWN for those that are not loaded."""
        return np.array(
            [self._slots.get(one, kernel.UNKNOWN) if one else kernel.NONE for one in dictionaries], np.int64
        )

    def _load(self, stored: bytes) -> list[object] | None:
        loaded = [self._library.load_dictionary(part) for part in _parts(stored)]
        return loaded if all(loaded) else None


_own = threading.local()


def own_unpacker() -> Unpacker:
    """Returns the unpacker of this thread."""
    found: Unpacker | None = getattr(_own, "unpacker", None)
    if found is None:
        found = _own.unpacker = Unpacker()
    return found


def is_dictionary(stored: bytes) -> bool:
    """Returns whether bytes are dictionaries as stored, or none."""
    return bool(own_unpacker().slots([stored])[0] != kernel.UNKNOWN)


def decode_stored(
    data: Bytes, ends: Places, dictionaries: Sequence[bytes], owners: Places, on_damage: OnDamage
) -> tuple[RecordBatch, Places]:
    """Returns the records of stored blocks, and the number of records of each, 0 if it is damaged.

    Args:
      data, ends: the blocks, as `joined` returns them.
      dictionaries: as stored. owners: `[blocks]` which of them each block has.
      on_damage: called with the index of each unsound block, and the reason.
    """
    unpacker = own_unpacker()
    slots = unpacker.slots(dictionaries)[owners]
    batch = RecordBatch.room(*(int(sizes.sum()) for sizes in announced(data, ends)))
    counts = np.empty(len(ends), np.int64)
    found = kernel.decode(board_tables(), unpacker.workshop, data, ends, slots, batch, counts)
    for i in np.flatnonzero(counts < 0).tolist():
        on_damage(i, _REFUSED[-int(counts[i])])
    return batch if found == len(batch) else batch.part(0, int(found)), np.maximum(counts, 0)


def extract_stored(
    data: Bytes,
    ends: Places,
    dictionaries: Sequence[bytes],
    owners: Places,
    words: NDArray[np.uint64],
    asked: Places,
    firsts: Places,
) -> tuple[RecordBatch, Places, list[tuple[int, str]]]:
    """Returns the records of some positions in stored blocks, their places in `asked`, and the damage.

    The damage is the index of each unsound block, and the reason.

    Args:
      data, ends, dictionaries, owners: the blocks, as for `decode_stored`.
      words: `[10 K]` packed positions, flat.
      asked: indices of the positions to look for, block by block.
      firsts: `[blocks + 1]` index in `asked` of the first position of each block.
    """
    unpacker = own_unpacker()
    slots = unpacker.slots(dictionaries)[owners]
    _, codes, edges = announced(data, ends)
    times = int(np.diff(firsts).max(initial=0))  # most requests for one record
    most = MAX_MOVES * len(asked)
    room = (min(most, times * int(sizes.sum())) for sizes in (codes, edges))
    out, hits = RecordBatch.room(len(asked), *room), np.empty(len(asked), np.int64)
    refused = np.empty(len(ends), np.int64)
    found = int(
        kernel.extract(unpacker.workshop, data, ends, slots, words, asked, firsts, hits, out, refused)
    )
    damage = [(i, _REFUSED[int(refused[i])]) for i in np.flatnonzero(refused).tolist()]
    return out.part(0, found), hits[:found], damage


# ------------------------------------------------------------------ soundness
def unsound(batch: RecordBatch, places: Places | None = None) -> list[tuple[int, str]]:
    """Returns the place and the fault of each unsound record, among some or all of a batch."""
    places = np.arange(len(batch)) if places is None else places
    faults = np.zeros(2 * len(places), np.int64)
    if not len(places) or not kernel.find_faults(board_tables(), batch, owned(places, np.int64), faults):
        return []
    bad = np.flatnonzero(faults[::2])
    numbers = faults.reshape(-1, 2)[bad].tolist()
    return [
        (i, fault_text(batch.record(i), *fault))
        for i, fault in zip(places[bad].tolist(), numbers, strict=True)
    ]


def fault_text(record: NodeRecord, fault: int, more: int) -> str:
    """Returns a fault of `block_kernel.fault_in` in words."""
    edge = record.edges[more] if fault >= kernel.EDGE_VALUE else None
    q, d = (edge.q, edge.d) if edge else (record.v, record.d)
    raised = record.flags >> LOWER_SHIFT & 3, record.flags >> UPPER_SHIFT & 3
    lower, upper = bounds_of(q, d) if edge else (raised[0] - 1, raised[1] - 1)
    return {
        kernel.ILLEGAL: "its position is illegal",
        kernel.KIND: f"it is marked as terminal kind {record.terminal}, the position is of kind {more}",
        kernel.PRIORS: f"it has {len(record.codes)} priors for {more} legal moves",
        kernel.RESULT: f"its bounds (flags {record.flags}) are not the result of a finished game",
        kernel.INTERVAL: f"bounds [{lower}, {upper}] are not an interval",
        kernel.EVALUATOR: f"it is of evaluator {record.evaluator}, numbers go up to {more}",
        kernel.MORE_EDGES: f"{len(record.edges)} visited edges of {more} moves",
        kernel.VALUE: f"V has Q = {q} with draws {share_of(q, d)} per mille",
        kernel.EDGE_VALUE: f"edge {more} has Q = {q} with draws {share_of(q, d)} per mille",
        kernel.EDGE_PROOF: f"edge {more} is proven [{lower}, {upper}] with Q = {q}",
        kernel.EDGE_COUNTS: f"edge {more} has r = {edge and edge.r}, n = {edge and edge.n}",
        kernel.EDGE_EMPTY: f"edge {more} has a value without visits",
    }[fault]


def sound_places(
    batch: RecordBatch, places: Places, refuse: Callable[[CorruptRecordError], object], name: str
) -> Places:
    """Returns the places, among some of a batch, of sound records, in the same order.

    `refuse` is called with the error of each unsound record, which names the file by `name`.
    """
    bad = unsound(batch, places)
    for i, what in bad:
        refuse(CorruptRecordError(f"{name}: {fault_message(batch, i, what)}"))
    return places[~np.isin(places, [i for i, _ in bad])] if bad else places


def fault_message(batch: RecordBatch, i: int, what: str) -> str:
    """Returns the message about the fault `what` of record `i`."""
    return f"record {key_of_words(batch.words[i]):016x}: {what}"
