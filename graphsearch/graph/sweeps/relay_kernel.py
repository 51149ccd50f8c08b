"""Records under other priors: the legal moves to evaluate, and the visited edges in their new order.

Edges are a prefix of the moves in descending P. With other P the order is another one:

    before   a .5 (n 7)   b .3 (n 2) | c .2          after   c .6 (n 0)   b .3 (n 2)   a .1 (n 7)

Visited edges stay visited; an unvisited move that now stands before a visited one gets an
edge of n = 0.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...jit.compiler import kernel
from ...jit.pointers import adv, ptr
from ...jit.types import float32, int64, uint16, uint32
from ...position.board_kernel import PW, generate_moves
from ...position.legality_kernel import ROOM
from ..heap_kernel import rank_codes, ranked_move

assert ROOM >= 256


@kernel
def list_moves(
    T: NDArray[np.uint64],
    words: NDArray[np.uint64],
    offsets: NDArray[np.int64],
    moves: NDArray[np.uint16],
    scratch: NDArray[np.uint16],
) -> int64:
    """Lists the legal moves of positions; returns the first position that has another number, or -1.

    Args:
      T: the table of `position/tables.py`. words: `[10 R]` uint64.
      offsets: `[R + 1]` int64, where the moves of each position go.
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
def relay_edges(
    before: NDArray[np.uint8],
    after: NDArray[np.uint8],
    code_offsets: NDArray[np.int64],
    edge_offsets: NDArray[np.int64],
    n: NDArray[np.uint32],
    r: NDArray[np.uint32],
    q: NDArray[np.float32],
    edge_d: NDArray[np.uint16],
    new_offsets: NDArray[np.int64],
    new_n: NDArray[np.uint32],
    new_r: NDArray[np.uint32],
    new_q: NDArray[np.float32],
    new_d: NDArray[np.uint16],
    scratch: NDArray[np.int64],
) -> int64:
    """Lays the visited edges of records in the order of other P codes; returns the number of edges.

    Args:
      before, after: uint8 P codes in canonical order. code_offsets: `[R + 1]` int64, of both.
      edge_offsets, n, r, q, edge_d: the edges in the order of `before`, as in a RecordBatch.
      new_offsets: `[R + 1]` int64, filled. new_n, new_r, new_q, new_d: filled; each has room for as many
        edges as the records that have any have moves.
      scratch: `[512]` int64.
    """
    keys, place = ptr(scratch, 0), ptr(scratch, 256)
    to = int64(0)
    new_offsets[0] = 0
    for i in range(len(code_offsets) - 1):
        begin = edge_offsets[i]
        edges = edge_offsets[i + 1] - begin
        first = code_offsets[i]
        moves = code_offsets[i + 1] - first
        left = int64(0)  # edges with visits that have not been placed
        if edges:
            for j in range(moves):
                place[j] = -1
            rank_codes(adv(ptr(before, 0), first), moves, edges, keys)
            for k in range(edges):
                if n[begin + k]:
                    place[ranked_move(keys[k])] = begin + k
                    left += 1
            rank_codes(adv(ptr(after, 0), first), moves, moves, keys)
        rank = int64(0)
        while left > 0:
            e = place[ranked_move(keys[rank])]
            rank += 1
            if e >= 0:
                new_n[to], new_r[to], new_q[to], new_d[to] = n[e], r[e], q[e], edge_d[e]
                left -= 1
            else:
                new_n[to], new_r[to], new_q[to], new_d[to] = uint32(0), uint32(0), float32(0), uint16(0)
            to += 1
        new_offsets[i + 1] = to
    return to
