"""Records with new priors: lists the legal moves to evaluate, and reorders the visited edges.

Edges are a prefix of the moves in descending P. New P change the order:

    before   a .5 (n 7)   b .3 (n 2) | c .2          after   c .6 (n 0)   b .3 (n 2)   a .1 (n 7)

Visited edges keep their visits; an unvisited move that now precedes a visited one gets an edge of n = 0.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...jit.compiler import kernel
from ...jit.pointers import adv, ptr
from ...jit.types import int64, uint16
from ...position.board_kernel import PW, generate_moves
from ...position.legality_kernel import ROOM
from ...store.codec.batch_kernel import Columns, pointers
from ...store.codec.columns_kernel import copy_edge, put_empty
from ..arena_kernel import rank_codes, ranked_move

assert ROOM >= 256


@kernel
def list_moves(
    T: NDArray[np.uint64],
    words: NDArray[np.uint64],
    offsets: NDArray[np.int64],
    moves: NDArray[np.uint16],
    scratch: NDArray[np.uint16],
) -> int64:
    """Lists the legal moves of positions; returns the first position with a wrong number of them, or -1.

    Args:
      T: the table of `position/tables.py`. words: `[10 R]` uint64.
      offsets: `[R + 1]` int64, offsets of each position's moves in `moves`.
      moves: uint16, filled in canonical order. scratch: `[ROOM]` uint16.
    """
    table, found = ptr(T, 0), ptr(scratch, 0)
    for i in range(len(offsets) - 1):
        begin = offsets[i]
        count = offsets[i + 1] - begin
        if generate_moves(table, ptr(words, PW * i), found) != count:
            return int64(i)
        for j in range(count):
            moves[begin + j] = uint16(found[j])
    return int64(-1)


@kernel
def relay_edges(old: Columns, codes: NDArray[np.uint8], out: Columns, scratch: NDArray[np.int64]) -> int64:
    """Writes the visited edges of records in the order of new P codes; returns the number of edges.

    Args:
      old: the records. codes: uint8, their new P codes, in canonical order.
      out: columns to fill with edges; they need room for all moves of the records that have edges.
      scratch: `[512]` int64.
    """
    a, c = pointers(old), pointers(out)
    keys, place = ptr(scratch, 0), ptr(scratch, 256)
    to = int64(0)
    for i in range(len(old.flags)):
        begin = a.edge_offsets[i]
        edges = a.edge_offsets[i + 1] - begin
        first = a.code_offsets[i]
        moves = a.code_offsets[i + 1] - first
        left = int64(0)  # edges with visits that have not been placed
        if edges:
            for j in range(moves):
                place[j] = -1
            rank_codes(adv(a.codes, first), moves, edges, keys)
            for k in range(edges):
                if a.n[begin + k]:
                    place[ranked_move(keys[k])] = begin + k
                    left += 1
            rank_codes(adv(ptr(codes, 0), first), moves, moves, keys)
        rank = int64(0)
        while left > 0:
            e = place[ranked_move(keys[rank])]
            rank += 1
            if e >= 0:
                copy_edge(c, to, a, e)
                left -= 1
            else:
                put_empty(c, to)
            to += 1
        c.edge_offsets[i + 1] = to
    return to
