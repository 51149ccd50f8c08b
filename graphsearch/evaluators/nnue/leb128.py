"""Numbers in LEB128: 7 bits a byte, the lowest first; bit 7: more follow; bit 6 of the last: the sign."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

MORE, SIGN = 0x80, 0x40
MOST_BYTES = 5  # of a number of 32 bits


def decode(data: bytes) -> tuple[NDArray[np.int64], bytes]:
    """Returns the signed numbers of some bytes, and the bytes of one that does not end there.

    Raises:
      ValueError: if a number has more than MOST_BYTES.

    >>> [numbers.tolist() for numbers in decode(bytes([2, 0x7F, 0xC0, 0, 0x80]))[:1]]
    [[2, -1, 64]]
    """
    raw = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(raw < MORE)
    starts = np.concatenate([np.zeros(1, np.int64), ends + 1])
    rest = data[int(starts[-1]) :]
    lengths = ends - starts[:-1] + 1
    longest = int(lengths.max(initial=0))
    if max(longest, len(rest)) > MOST_BYTES:
        raise ValueError("a number does not end")
    numbers = np.where(raw[ends] & SIGN, -1 << 7 * lengths, 0)
    for k in range(longest):
        longer = lengths > k
        numbers[longer] |= (raw[starts[:-1][longer] + k] & 0x7F).astype(np.int64) << 7 * k
    return numbers, rest
