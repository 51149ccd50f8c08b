"""Arrays that share no cache line, for threads that each write their own.

NumPy's small arrays lie side by side; writing to a shared cache line costs as much as a lock.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

LINE = 128  # bytes: processors fetch cache lines of 64 in pairs


def apart(count: int, dtype: DTypeLike) -> NDArray[Any]:
    """Returns `count` zeros that share no cache line with other memory.

    >>> apart(3, np.int64).tolist(), apart(3, np.int64).ctypes.data % LINE
    ([0, 0, 0], 0)
    """
    size = count * np.dtype(dtype).itemsize
    room = np.zeros(size + 2 * LINE, np.uint8)
    begin = -room.ctypes.data % LINE
    return room[begin : begin + size].view(dtype)
