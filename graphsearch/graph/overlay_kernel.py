"""The overlay: visits of this session that are never saved.

They are draws that only the history of the session's game made, and visits forced over edges of its root.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..jit.compiler import kernel
from ..jit.types import int64
from ..store.record.node_kernel import (
    draw_visits,
    edge_at,
    edge_visits,
    has_block,
    set_draw_visits,
    set_edge_visits,
    stride_at,
)
from . import arena_kernel as arena
from .arena_kernel import ArenaArrays, overlay_draws, overlay_edge, overlay_slot, pointers
from .statistics_kernel import refresh


def folded(overlay: NDArray[np.int64], length: int) -> tuple[NDArray[np.int64], int]:
    """Returns an overlay of `length` notes with the notes of each item summed, and its new length."""
    items, inverse = np.unique(overlay[0 : 2 * length : 2], return_inverse=True)
    sums = np.zeros(len(items), np.int64)
    np.add.at(sums, inverse, overlay[1 : 2 * length : 2])
    found = np.zeros(max(len(overlay), 8 * len(items)), np.int64)
    found[0 : 2 * len(items) : 2] = items
    found[1 : 2 * len(items) : 2] = sums
    return found, len(items)


@kernel
def shift_overlay(A: ArenaArrays, sign: int64) -> None:
    """Subtracts (`sign` -1) or adds (+1) the visits of the overlay.

    The file has the records without them, so this makes no record dirty.
    """
    Ap = pointers(A)
    for i in range(Ap.counters[arena.OVERLAY_LENGTH]):
        item = Ap.overlay[2 * i]
        change = sign * Ap.overlay[2 * i + 1]
        rec = overlay_slot(item)
        if not has_block(Ap, rec):
            continue
        edge = edge_at(Ap, rec, overlay_edge(item))
        set_edge_visits(Ap, edge, edge_visits(Ap, edge) + change)
        if overlay_draws(item):
            set_draw_visits(Ap, edge, draw_visits(Ap, edge, stride_at(Ap, rec)) + change)
        refresh(Ap, rec)
