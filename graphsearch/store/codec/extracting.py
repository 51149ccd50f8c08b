"""Records by position out of stored blocks, with the kernels, which are imported on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..record.node import MAX_MOVES, RecordBatch
from .bulk import columns_of, room_for_batch, start_position

if TYPE_CHECKING:
    from .unpacking import Unpacker

Places = NDArray[np.int64]


def extract_stored(
    unpacker: Unpacker,
    data: NDArray[np.uint8],
    ends: Places,
    slots: Places,
    words: NDArray[np.uint64],
    asked: Places,
    firsts: Places,
) -> tuple[RecordBatch, Places, NDArray[np.bool_]]:
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
    from .unpacking_kernel import room

    sums = np.zeros(4, np.int64)
    room(data, ends, sums)
    most = MAX_MOVES * len(asked)
    times = int(np.diff(firsts).max(initial=0))  # that a record may be asked for
    out = room_for_batch(len(asked), min(most, times * int(sums[2])), min(most, times * int(sums[3])))
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
