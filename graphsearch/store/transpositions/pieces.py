"""Transposition entries <-> the bytes of a piece. Pure; `schema/entries.md` is the reference."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from zstandard import ZstdCompressor, ZstdDecompressor, ZstdError, get_frame_parameters

from ...base.errors import CorruptRecordError
from ..record.transposition_layout import (
    CHECK_AT,
    DEPTH_AT,
    DEPTH_MASK,
    KIND_AT,
    KIND_MASK,
    MOVE_AT,
    MOVE_MASK,
    PROOF,
    VALUE_MASK,
    checks,
    field,
)

Words = NDArray[np.uint64]

MOST_ENTRIES = 1 << 16  # of a piece
LEVEL = 1  # zstd; only its entropy coding matters here, higher levels are slower and gain nothing
KEY_BYTES, CHECK_BYTES, VALUE_BYTES = 8, 2, 3
LISTED = ((MOVE_AT, MOVE_MASK), (KIND_AT, KIND_MASK))  # fields of the data word
LISTS = len(LISTED)  # moves and kinds: a list of the distinct values, and an index into it for each entry
PLANES = KEY_BYTES + CHECK_BYTES + VALUE_BYTES + 2 * LISTS
HEADER = struct.Struct(f"<I{LISTS}I{PLANES + LISTS}I")  # entries, lengths of the lists, bytes of each frame


def order_of(keys: Words, data: Words) -> NDArray[np.intp]:
    """Returns the indices that sort entries as in a piece: by key, then by check hash."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    if (ordered[1:] != ordered[:-1]).all():
        return order
    return np.lexsort((checks(data), keys))


def encode(keys: Words, data: Words) -> bytes:
    """Returns the bytes of a piece.

    Args:
      keys, data: at least 1 and at most MOST_ENTRIES entries in `order_of`, no two of one position.
    """
    assert 0 < len(keys) <= MOST_ENTRIES
    lists: list[NDArray[np.uint16]] = []
    planes: list[NDArray[np.uint8]] = []
    planes += _split(np.diff(keys, prepend=np.uint64(0)), KEY_BYTES)
    planes += _split(checks(data), CHECK_BYTES)
    planes += _split(data & np.uint64(VALUE_MASK), VALUE_BYTES)
    for at, mask in LISTED:
        different, which = _listed(field(data, at, mask).astype(np.uint16))
        lists.append(different)
        planes += _split(which, 2)
    compressor = ZstdCompressor(level=LEVEL, write_checksum=False, write_content_size=True)
    parts = [part.tobytes() for part in lists] + [part.tobytes() for part in planes]
    frames = [compressor.compress(part) for part in parts]
    header = HEADER.pack(len(keys), *(len(each) for each in lists), *(len(frame) for frame in frames))
    return header + b"".join(frames)


def _split(words: NDArray[np.unsignedinteger], width: int) -> list[NDArray[np.uint8]]:
    """Returns the lowest `width` bytes of words, each as its own plane."""
    rows = words.astype("<u8").view(np.uint8).reshape(-1, 8)
    return [np.ascontiguousarray(rows[:, i]) for i in range(width)]


def _listed(values: NDArray[np.uint16]) -> tuple[NDArray[np.uint16], NDArray[np.uint64]]:
    """Returns the distinct values, the most frequent first, and the index of each value among them.

    So the entropy coder sees a move as one symbol, which saves 1.5 bits over separate from and to squares.
    """
    counts = np.bincount(values, minlength=1)
    different = np.nonzero(counts)[0]
    different = different[np.argsort(-counts[different], kind="stable")]
    places = np.zeros(len(counts), np.uint64)
    places[different] = np.arange(len(different), dtype=np.uint64)
    return different.astype("<u2"), places[values]


def decode(blob: bytes) -> tuple[Words, Words]:
    """Returns the keys and data words of a piece, in order.

    Raises:
      CorruptRecordError: if the bytes are not a piece.
    """
    if len(blob) < HEADER.size:
        raise CorruptRecordError("its header is cut short")
    count, *numbers = HEADER.unpack_from(blob)
    listed, lengths = numbers[:LISTS], numbers[LISTS:]
    if not 0 < count <= MOST_ENTRIES or max(listed) > MOST_ENTRIES:
        raise CorruptRecordError(f"it announces {count} entries, a piece has 1 to {MOST_ENTRIES}")
    sizes = [*(2 * each for each in listed), *([count] * PLANES)]
    parts = _frames(blob, lengths, sizes)
    lists = [np.frombuffer(next(parts), "<u2").astype(np.uint64) for _ in listed]
    planes = [np.frombuffer(part, np.uint8) for part in parts]
    keys = np.cumsum(_joined(planes[:KEY_BYTES]), dtype=np.uint64)
    data = _data_words(planes[KEY_BYTES:], lists)
    _check(keys, data)
    return keys, data


def _frames(blob: bytes, lengths: list[int], sizes: list[int]) -> Iterator[bytes]:
    """Yields the decompressed frames of a piece; checks the size of each."""
    if HEADER.size + sum(lengths) != len(blob):
        raise CorruptRecordError(f"it has {len(blob)} bytes, its header says {HEADER.size + sum(lengths)}")
    decompressor = ZstdDecompressor()
    at = HEADER.size
    for length, size in zip(lengths, sizes, strict=True):
        frame = blob[at : at + length]
        at += length
        try:
            if get_frame_parameters(frame).content_size != size:
                raise CorruptRecordError(f"a frame does not expand to {size} bytes")
            part = decompressor.decompress(frame, max_output_size=size) if size else b""
        except ZstdError as error:
            raise CorruptRecordError(f"a frame cannot be expanded: {error}") from None
        if len(part) != size:
            raise CorruptRecordError(f"a frame expands to {len(part)} bytes instead of {size}")
        yield part


def _joined(planes: list[NDArray[np.uint8]]) -> Words:
    """Returns words from the planes of their bytes, the lowest first."""
    rows = np.zeros((len(planes[0]), 8), np.uint8)
    for i, plane in enumerate(planes):
        rows[:, i] = plane
    return rows.view("<u8").reshape(-1).astype(np.uint64)


def _data_words(planes: list[NDArray[np.uint8]], lists: list[Words]) -> Words:
    """Returns the data words, joined from planes of checks, values, and indices into the lists."""
    check, values = planes[:CHECK_BYTES], planes[CHECK_BYTES : CHECK_BYTES + VALUE_BYTES]
    data = _joined(check) << np.uint64(CHECK_AT)
    value = _joined(values)
    if (value > VALUE_MASK).any():
        raise CorruptRecordError("a value is out of range")
    data |= value
    rest = planes[CHECK_BYTES + VALUE_BYTES :]
    for i, (at, mask) in enumerate(LISTED):
        which = _joined(rest[2 * i : 2 * i + 2])
        if which.max() >= len(lists[i]) or (lists[i] > mask).any():
            raise CorruptRecordError("a move, or a kind, is not in its list")
        data |= lists[i][which.astype(np.intp)] << np.uint64(at)
    return data


def _check(keys: Words, data: Words) -> None:
    """Raises CorruptRecordError unless the entries are in order, one for each position."""
    check = checks(data)
    rising = (keys[1:] > keys[:-1]) | ((keys[1:] == keys[:-1]) & (check[1:] > check[:-1]))
    if not keys[0] or not rising.all():
        raise CorruptRecordError("its entries are out of order")


def is_proof(data: Words) -> NDArray[np.bool_]:
    """Returns which entries are valid at every depth, and therefore under every evaluation."""
    return np.asarray(field(data, DEPTH_AT, DEPTH_MASK) == PROOF)


def depths(data: Words) -> NDArray[np.uint8]:
    """Returns the depth of each entry."""
    return field(data, DEPTH_AT, DEPTH_MASK).astype(np.uint8)
