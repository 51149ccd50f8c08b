"""Which records of two files are of one position: both are sorted alike, so one walk over them tells."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...jit.compiler import kernel
from ...jit.pointers import ptr
from ...jit.types import int64
from ...position.board_kernel import PW
from ..codec.columns_kernel import compared


@kernel
def pair(
    old: NDArray[np.uint64],
    old_keys: NDArray[np.uint64],
    new: NDArray[np.uint64],
    new_keys: NDArray[np.uint64],
    places: NDArray[np.int64],
) -> int64:
    """Fills which record of `old` is of the same position as each of `new`, or -1; returns how many are.

    Args:
      old, new: words, `[10 R]` uint64 flat, in the order of a segment, no position twice.
      old_keys, new_keys: their sort keys.
      places: int64, one for each of `new`.
    """
    at, found = int64(0), int64(0)
    for i in range(len(new_keys)):
        places[i] = -1
        while at < len(old_keys) and old_keys[at] <= new_keys[i]:
            if old_keys[at] == new_keys[i]:
                how = compared(ptr(old, PW * at), ptr(new, PW * i))
                if how == 0:
                    places[i] = at
                    found += 1
                if how >= 0:
                    break
            at += 1
    return found
