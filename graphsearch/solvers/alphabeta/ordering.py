"""Reads the most visited part of a stored graph into memory, where its visits order moves."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from itertools import count

import chess

from ...graph.graph import Graph
from ...position.board import key_of, legal_moves
from ...store.record.node import NodeRecord

MOST_NODES = 20_000  # read from a large file: some seconds
LEAST_VISITS = 2  # of an edge that is followed
BATCH = 1024  # positions that are read at once


def bring_visited(graph: Graph, board: chess.Board, most: int = MOST_NODES) -> int:
    """Reads the most visited positions below one into memory; returns how many nodes memory holds then.

    A small file is in memory as a whole already.

    Raises:
      StoreError: if the file cannot be read.
    """
    if graph.store is not None and not graph.pager.complete:
        order = count()
        found, heap = 0, [(0, next(order), board.copy(stack=False))]
        seen: set[int] = set()
        while heap and found < most:
            boards = list(_next_boards(heap, seen, min(BATCH, most - found)))
            for parent, record in zip(boards, graph.pager.read_all(boards), strict=True):
                if record is None:
                    continue
                found += 1
                for visits, child in _children(parent, record):
                    heapq.heappush(heap, (-visits, next(order), child))
    return graph.arena.node_count


def _next_boards(
    heap: list[tuple[int, int, chess.Board]], seen: set[int], most: int
) -> Iterator[chess.Board]:
    """Yields the most visited positions that were not seen yet."""
    while heap and most > 0:
        board = heapq.heappop(heap)[2]
        key = key_of(board)
        if key not in seen:
            seen.add(key)
            most -= 1
            yield board


def _children(board: chess.Board, record: NodeRecord) -> Iterator[tuple[int, chess.Board]]:
    """Yields the positions after the visited moves, each with its visits."""
    moves = legal_moves(board)
    for edge, place in zip(record.edges, record.order, strict=False):
        if edge.n >= LEAST_VISITS:
            child = board.copy(stack=False)
            child.push(moves[place])
            yield edge.n, child
