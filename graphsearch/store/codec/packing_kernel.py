"""Blocks as they are encoded to blocks as they are stored, many at once, around the frames of the library."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...jit.compiler import inner, kernel
from ...jit.pointers import U, ptr
from ...jit.types import Pointer, int64, uint8, uint64
from .batch_kernel import codes_in, header_at, low_bytes
from .layout import CHECKSUM, CUT, HEADER, LENGTH
from .unpacking_kernel import crc32


@inner
def _shape(data: Pointer[uint8], at: int64) -> tuple[int64, int64]:
    """Returns where the P codes and the columns of a block begin."""
    header = header_at(data, at)
    codes = at + HEADER + low_bytes(header)
    return codes, codes + codes_in(header)


@kernel
def split(
    plain: NDArray[np.uint8], ends: NDArray[np.int64], codes: NDArray[np.int64], columns: NDArray[np.int64]
) -> None:
    """Fills where the P codes and the columns of each block begin.

    Args:
      plain: uint8, blocks before compression and 8 bytes more; ends: `[blocks]` int64, where each ends.
      codes, columns: `[blocks]` int64, filled.
    """
    at = int64(0)
    for b in range(len(ends)):
        first, second = _shape(ptr(plain, 0), at)
        codes[b] = first
        columns[b] = second
        at = ends[b]


@inner
def _copied(source: Pointer[uint8], at: int64, end: int64, out: Pointer[uint8], to: int64) -> int64:
    for k in range(end - at):
        out[to + k] = source[at + k]
    return to + end - at


@inner
def _number(x: uint64, count: int64, out: Pointer[uint8], to: int64) -> int64:
    for _ in range(count):
        out[to] = uint8(x & U(255))
        x >>= U(8)
        to += 1
    return to


@kernel
def seal(
    plain: NDArray[np.uint8],
    ends: NDArray[np.int64],
    frames: NDArray[np.uint8],
    frame_ends: NDArray[np.int64],
    crc: NDArray[np.uint32],
    out: NDArray[np.uint8],
    out_ends: NDArray[np.int64],
) -> None:
    """Puts blocks together as they are stored.

    Args:
      plain, ends: as `split` takes them.
      frames: uint8, for each block its frame of P codes, which may be empty, and that of its columns.
      frame_ends: `[2 * blocks]` int64.
      crc: the table of `unpacking.crc_tables`.
      out: uint8 with room for low parts, frames and `LENGTH + CHECKSUM` bytes a block; filled.
      out_ends: likewise.
    """
    source, packed, target, table = ptr(plain, 0), ptr(frames, 0), ptr(out, 0), ptr(crc, 0)
    at = int64(0)
    frame = int64(0)
    to = int64(0)
    for b in range(len(ends)):
        begin = to
        low = at + HEADER
        first = _shape(source, at)[0]
        skipped = frame + CUT if frame_ends[2 * b] > frame else frame
        to = _copied(source, at, low, target, to)
        to = _number(U(frame_ends[2 * b] - skipped), int64(LENGTH), target, to)
        to = _copied(source, low, first, target, to)
        to = _copied(packed, skipped, frame_ends[2 * b], target, to)
        to = _copied(packed, frame_ends[2 * b] + CUT, frame_ends[2 * b + 1], target, to)
        to = _number(crc32(target, begin, to, table), int64(CHECKSUM), target, to)
        out_ends[b] = to
        frame = frame_ends[2 * b + 1]
        at = ends[b]
