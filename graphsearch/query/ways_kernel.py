"""Counting the visited edges that lead to each position of a file, with the table of `sweep.py`.

Of its two words a place, the second holds other numbers here: the portion of the file that the record stands
in, plus 1, in the upper half (0 in an empty place), the ways in in the lower half.
"""

from __future__ import annotations

from typing import Any

from numba import int64, uint32

from ..graph.heap_kernel import rank_codes, ranked_move
from ..jit.compiler import inner, kernel
from ..jit.pointers import adv, ptr
from ..position.board_kernel import PW, generate_moves, make_child
from ..store.codec.batch_kernel import pointers
from ..sweep.sweep_kernel import (
    PLACE_WORDS,
    known,
    place_of,
    place_of_record,
    scratch_of,
    set_known,
    table_of,
)

MOST_WAYS = (1 << 32) - 1

# `counts`: visited edges | those whose child is not in the table
EDGES, MISSING = 0, 1
COUNTS = 2


@kernel
def enter(T: Any, table: Any, columns: Any, portion: Any) -> Any:
    """Enters records without ways; returns how many were new. The caller has seen to it that there is room.

    Args:
      T: the table of `tables.py`. table: `[places * 2]` uint64. columns: a batch, as `codec.Columns`.
      portion: which portion of the file they are, from 1.
    """
    Tp = ptr(T, 0)
    t = table_of(table)
    c = pointers(columns)
    new = int64(0)
    for i in range(columns.v.size):
        place, tag = place_of_record(Tp, t, c, i)
        if known(t, place) == 0:
            t.words[PLACE_WORDS * place] = tag
            t.halves[4 * place + 2] = uint32(0)
            set_known(t, place, portion)
            new += 1
    return new


@inner
def _count_edges(T: Any, t: Any, c: Any, i: Any, x: Any, counts: Any) -> None:
    """Counts the visited edges of a record, unless its P do not fit its moves."""
    s = adv(c.words, i * PW)
    first = c.code_offsets[i]
    moves = c.code_offsets[i + 1] - first
    begin = c.edge_offsets[i]
    edges = c.edge_offsets[i + 1] - begin
    if edges == 0 or generate_moves(T, s, x.moves) != moves:
        return
    rank_codes(adv(c.codes, first), moves, edges, x.keys)
    for k in range(edges):
        if int64(c.n[begin + k]) == 0:
            continue
        counts[EDGES] += 1
        key, check = make_child(T, s, x.child, x.moves[ranked_move(x.keys[k])])
        place = place_of(t, key, check)[0]
        if known(t, place) == 0:
            counts[MISSING] += 1
        elif int64(t.halves[4 * place + 2]) < MOST_WAYS:
            t.halves[4 * place + 2] += uint32(1)


@kernel
def count_ways(T: Any, table: Any, columns: Any, scratch: Any, counts: Any) -> None:
    """Adds the visited edges of records to the positions that they lead to.

    Args:
      T, table, columns: as for `enter`. scratch: of `sweep.new_scratch`. counts: `[COUNTS]` int64, added to.
    """
    Tp = ptr(T, 0)
    t = table_of(table)
    c = pointers(columns)
    x = scratch_of(scratch)
    for i in range(columns.v.size):
        _count_edges(Tp, t, c, i, x, ptr(counts, 0))


@kernel
def places_of(T: Any, table: Any, columns: Any, places: Any) -> None:
    """Fills `places` (`[R]` int64) with the place of each record, -1 if it is not in the table."""
    Tp = ptr(T, 0)
    t = table_of(table)
    c = pointers(columns)
    for i in range(columns.v.size):
        place = place_of_record(Tp, t, c, i)[0]
        places[i] = place if known(t, place) else int64(-1)
