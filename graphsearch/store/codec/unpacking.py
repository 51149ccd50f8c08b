"""Unpacking stored blocks of many chunks at once, with the kernels; what they refuse goes to the library."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ...errors import CorruptRecordError
from .compression import Dictionaries
from .unpacking_kernel import enter, new_workshop, room, unpack

SLOTS = 64  # chunks whose dictionaries are kept ready: 29 kB each
SLOT_BYTES = 2048  # for the dictionaries as stored; larger ones are left to the library
NO_DICTIONARY, UNKNOWN = -1, -2  # in place of a slot

Bytes = NDArray[np.uint8]
Places = NDArray[np.int64]


class Unpacker:
    """Undoes compression for one thread."""

    def __init__(self) -> None:
        self._workshop = new_workshop(SLOTS, SLOT_BYTES)
        self._slots: OrderedDict[bytes, int] = OrderedDict()
        self._free = list(range(SLOTS))

    def slot(self, dictionary: bytes) -> int:
        """Returns where the dictionaries of a chunk are kept; those of the last `SLOTS` chunks are.

        Args:
          dictionary: as stored.
        """
        if not dictionary:
            return NO_DICTIONARY
        found = self._slots.get(dictionary)
        if found is None:
            if not self._free:
                self._free.append(self._slots.popitem(last=False)[1])
            if not self._enter(dictionary, self._free[-1]):
                return UNKNOWN
            found = self._free.pop()
        self._slots[dictionary] = found
        self._slots.move_to_end(dictionary)
        return found

    def _enter(self, dictionary: bytes, slot: int) -> bool:
        middle = 2 + int.from_bytes(dictionary[:2], "little")
        if not 2 < middle < len(dictionary) <= SLOT_BYTES:
            return False
        begin = SLOT_BYTES * slot
        self._workshop.contents[begin : begin + len(dictionary)] = np.frombuffer(dictionary, np.uint8)
        return bool(enter(self._workshop, slot, begin + 2, begin + middle, begin + len(dictionary)))

    def unpack(
        self,
        data: Bytes,
        ends: Places,
        slots: Places,
        dictionary_of: Callable[[int], bytes],
        on_damage: Callable[[int, str], None],
    ) -> tuple[Bytes, Places]:
        """Returns blocks as they were before compression, and the length of each: 0 if it is damaged.

        The arguments are those of `bulk.decode_stored`.
        """
        sums = np.zeros(4, np.int64)
        room(data, ends, sums)
        out = np.empty(int(sums[0]) + 8, np.uint8)
        sizes = np.zeros(len(ends), np.int64)
        end = unpack(self._workshop, data, ends, slots, out, sizes)
        opened: dict[int, bytes] = {}
        for i in np.nonzero(sizes == 0)[0].tolist():
            block = data[ends[i - 1] if i else 0 : ends[i]].tobytes()
            try:
                opened[i] = Dictionaries.from_bytes(dictionary_of(i)).opener().open(block)
            except CorruptRecordError as error:
                on_damage(i, str(error))
        return _with(out[: end + 8], sizes, opened) if opened else (out[: end + 8], sizes)


def _with(plain: Bytes, sizes: Places, opened: dict[int, bytes]) -> tuple[Bytes, Places]:
    """Returns unpacked blocks with others put in at their places."""
    parts: list[bytes] = []
    at = 0
    for i, size in enumerate(sizes.tolist()):
        parts.append(opened.get(i, plain[at : at + size].tobytes()))
        at += size
    whole = np.frombuffer(bytearray().join((*parts, bytes(8))), np.uint8)
    return whole, np.array([len(part) for part in parts], np.int64)


_own = threading.local()


def own_unpacker() -> Unpacker:
    """Returns the unpacker of this thread."""
    found: Unpacker | None = getattr(_own, "unpacker", None)
    if found is None:
        found = _own.unpacker = Unpacker()
    return found
