"""Unpacks stored blocks of many chunks with libzstd, for one thread.

The `zstandard` package unpacks the blocks that kernels refuse, or finds their damage.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from ...base.errors import CorruptRecordError
from ...jit.libzstd import Owned, libzstd
from ...jit.pointers import ptr
from ...position.board import POSITION_WORDS
from .batch_kernel import READER
from .compression import Dictionaries, Opener, stored_parts
from .extracting_kernel import Bench
from .layout import BLOCK, CODES_MASK, EDGES_MASK, FRAME_START, room_for
from .packing_kernel import FRAME_ROOM, PADDING, Workshop, crc_tables, room, unpack

SLOTS = 64  # chunks with loaded dictionaries, 55 kB each
NO_DICTIONARY, UNKNOWN = -1, -2  # in place of a slot

Bytes = NDArray[np.uint8]
Places = NDArray[np.int64]


class Unpacker:
    """Decompresses blocks for one thread. Kernels use its `workshop`, and its `bench` for one block.

    Args:
      direct: whether kernels call libzstd. If not, or if it is not available, the `zstandard` package unpacks
        block by block.
    """

    def __init__(self, *, direct: bool = True) -> None:
        self._library = libzstd() if direct else None
        self._contexts = [self._library.new_context() for _ in range(2)] if self._library else []
        self._dictionaries = np.zeros(2 + 2 * SLOTS, np.int64)  # as the workshop has them
        frame = np.frombuffer(bytearray(FRAME_START.ljust(FRAME_ROOM, b"\0")), np.uint8)
        self.workshop = Workshop(
            self._library.decompress if self._library else 0,
            self._library.frame_size if self._library else 0,
            self._contexts[0].address if self._contexts else 0,
            self._contexts[1].address if self._contexts else 0,
            ptr(self._dictionaries, 0),
            ptr(frame, 0),
            ptr(crc_tables(), 0),
        )
        self.bench = _new_bench()
        self._slots: OrderedDict[bytes, int] = OrderedDict()
        self._loaded: list[tuple[Owned, Owned] | None] = [None] * SLOTS

    def slot(self, dictionary: bytes) -> int:
        """Returns the slot of a chunk's dictionaries, and loads them; the last `SLOTS` chunks stay loaded.

        Args:
          dictionary: as stored.
        """
        if not dictionary:
            return NO_DICTIONARY
        slot = self._slots.get(dictionary)
        if slot is None:
            loaded = self._load(dictionary)
            if loaded is None:
                return UNKNOWN
            slot = self._slots.popitem(last=False)[1] if len(self._slots) == SLOTS else len(self._slots)
            self._slots[dictionary] = slot
            self._loaded[slot] = loaded
            self._dictionaries[2 + 2 * slot : 4 + 2 * slot] = [one.address for one in loaded]
        self._slots.move_to_end(dictionary)
        return slot

    def slots_of(self, dictionaries: Sequence[bytes]) -> list[int]:
        """Returns the slots of the dictionaries of some chunks, `UNKNOWN` for those that are not loaded."""
        return [self._slots.get(found, UNKNOWN) if found else NO_DICTIONARY for found in dictionaries]

    def _load(self, dictionary: bytes) -> tuple[Owned, Owned] | None:
        if self._library is None:
            return None
        codes, columns = map(self._library.load_dictionary, stored_parts(dictionary))
        return (codes, columns) if codes and columns else None

    def unpack(
        self,
        data: Bytes,
        ends: Places,
        slots: Places,
        dictionary_of: Callable[[int], bytes],
        on_damage: Callable[[int, str], None],
    ) -> tuple[Bytes, Places]:
        """Returns uncompressed blocks, and the length of each, 0 if it is damaged.

        The arguments are those of `bulk.decode_stored`.
        """
        sums = np.zeros(4, np.int64)
        room(data, ends, sums)
        out = np.empty(int(sums[0]) + PADDING, np.uint8)
        sizes = np.zeros(len(ends), np.int64)
        end = unpack(self.workshop, data, ends, slots, out, sizes)
        opened: dict[int, bytes] = {}
        openers: dict[bytes, Opener] = {}
        for i in np.nonzero(sizes == 0)[0].tolist():
            block = data[ends[i - 1] if i else 0 : ends[i]].tobytes()
            try:
                dictionary = dictionary_of(i)
                if dictionary not in openers:
                    openers[dictionary] = Dictionaries.from_bytes(dictionary).opener()
                opened[i] = openers[dictionary].open(block)
            except CorruptRecordError as error:
                on_damage(i, str(error))
        plain = out[: end + PADDING]
        return _with_opened(plain, sizes, opened) if opened else (plain, sizes)


def _new_bench() -> Bench:
    """Returns working memory for one block of any size that a header can state."""
    plain = np.empty(room_for(1, BLOCK, CODES_MASK, EDGES_MASK) + PADDING, np.uint8)
    reader, runs = np.zeros(READER, np.int64), np.empty(BLOCK, np.uint32)
    words = np.empty(BLOCK * POSITION_WORDS, np.uint64)
    return Bench(ptr(plain, 0), ptr(reader, 0), ptr(words, 0), ptr(runs, 0))


def _with_opened(plain: Bytes, sizes: Places, opened: dict[int, bytes]) -> tuple[Bytes, Places]:
    """Returns unpacked blocks with those of `opened` inserted at their places."""
    parts: list[bytes] = []
    at = 0
    for i, size in enumerate(sizes.tolist()):
        parts.append(opened.get(i, plain[at : at + size].tobytes()))
        at += size
    whole = np.frombuffer(bytearray().join((*parts, bytes(PADDING))), np.uint8)
    return whole, np.array([len(part) for part in parts], np.int64)


_own = threading.local()


def own_unpacker() -> Unpacker:
    """Returns the unpacker of this thread."""
    found: Unpacker | None = getattr(_own, "unpacker", None)
    if found is None:
        found = _own.unpacker = Unpacker()
    return found
