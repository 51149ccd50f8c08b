"""The overlay: visits that only the history of this session's game made draws, which the file never holds."""

from __future__ import annotations

from typing import Any

from numba import int64, uint32

from ..jit.compiler import kernel
from ..record.node_kernel import block_class_of, entry_at
from ..record.node_layout import NO_BLOCK
from .arena_kernel import OVERLAY_LENGTH, SLOT_SHIFT, pointers
from .statistics_kernel import refresh


@kernel
def shift_overlay(A: Any, sign: Any) -> None:
    """Takes back (`sign` -1) or gives again (+1) the visits drawn by this game's history.

    The file holds the records without them, so this makes none dirty.
    """
    Ap = pointers(A)
    for i in range(Ap.counters[OVERLAY_LENGTH]):
        item = Ap.overlay[2 * i]
        change = sign * Ap.overlay[2 * i + 1]
        rec = item >> SLOT_SHIFT
        if block_class_of(Ap, rec) == NO_BLOCK:
            continue
        x = entry_at(Ap, rec, (item >> 1) & 511)
        Ap.blocks[x] = uint32(int64(Ap.blocks[x]) + change)
        if item & 1:
            Ap.blocks[x + 3] = uint32(int64(Ap.blocks[x + 3]) + change)
        refresh(Ap, rec)
