"""Counts the visited edges to each position of a file, in the table of `graph/sweeps/sweep_kernel.py`.

The second word of a place differs here: its upper half is the number of the file's portion with the record,
from 1 (0 in an empty place); its lower half is the number of edges into the position. Records and edges are
entries of `graph/sweeps/parts_kernel.py`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..graph.sweeps.parts_kernel import ENTRY_WORDS, entry_check, entry_visits, turned_key
from ..graph.sweeps.sweep_kernel import PLACE_WORDS, known, place_of, set_known, table_of
from ..jit.compiler import kernel
from ..jit.types import int64, uint32

MOST_WAYS = (1 << 32) - 1


@kernel
def enter(table: NDArray[np.uint64], entries: NDArray[np.uint64]) -> int64:
    """Inserts records without edges; returns the number of new ones. The caller ensures that there is room.

    Args:
      table: `[places * 2]` uint64.
      entries: `[2 K]` uint64; the visits field holds the number of the file's portion, from 1.
    """
    t = table_of(table)
    new = int64(0)
    for i in range(len(entries) // ENTRY_WORDS):
        key, second = entries[ENTRY_WORDS * i], entries[ENTRY_WORDS * i + 1]
        place, tag = place_of(t, turned_key(key), entry_check(second))
        if known(t, place) == 0:
            t.words[PLACE_WORDS * place] = tag
            t.halves[4 * place + 2] = uint32(0)
            set_known(t, place, entry_visits(second))
            new += 1
    return new


@kernel
def count_ways(table: NDArray[np.uint64], edges: NDArray[np.uint64]) -> None:
    """Adds edges to the counts of their children; ignores children that the table does not have.

    Args:
      table: as for `enter`. edges: `[2 K]` uint64, entries.
    """
    t = table_of(table)
    for i in range(len(edges) // ENTRY_WORDS):
        key, second = edges[ENTRY_WORDS * i], edges[ENTRY_WORDS * i + 1]
        place = place_of(t, turned_key(key), entry_check(second))[0]
        if known(t, place) and int64(t.halves[4 * place + 2]) < MOST_WAYS:
            t.halves[4 * place + 2] += uint32(1)


@kernel
def places_of(table: NDArray[np.uint64], entries: NDArray[np.uint64], places: NDArray[np.int64]) -> None:
    """Fills `places` (`[K]` int64) with the place of each record, -1 if it is not in the table."""
    t = table_of(table)
    for i in range(len(places)):
        key, second = entries[ENTRY_WORDS * i], entries[ENTRY_WORDS * i + 1]
        place = place_of(t, turned_key(key), entry_check(second))[0]
        places[i] = place if known(t, place) else int64(-1)
