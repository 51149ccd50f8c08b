"""What tests check on every graph they make."""

from __future__ import annotations

from dataclasses import replace

import chess

from graphsearch.graph.graph import Graph
from graphsearch.graph.ranking import node_mean
from graphsearch.position.board import FREE_CLOCK, key_of, legal_moves, terminal_kind
from graphsearch.record.node import NodeRecord, problems

Records = dict[int, tuple[chess.Board, NodeRecord]]


def records_below(graph: Graph, root: chess.Board) -> Records:
    """Returns every record that can be reached over visited edges, with a Board, by key."""
    found: Records = {}
    queue = [root.copy(stack=False)]
    while queue:
        board = queue.pop()
        record = graph.read(board)
        if record is None or key_of(board) in found:
            continue
        found[key_of(board)] = (board, record)
        queue += [child for _, child in visited_children(board, record)]
    return found


def numbers_below(graph: Graph, root: chess.Board) -> dict[int, NodeRecord]:
    """Returns the same records by key, as if their runs were unknown: for graphs made in other runs."""
    return {key: replace(record, run=0) for key, (_, record) in records_below(graph, root).items()}


def visited_children(board: chess.Board, record: NodeRecord) -> list[tuple[int, chess.Board]]:
    """Returns (place of the edge, position behind it) of every visited edge."""
    moves = legal_moves(board) if record.edges else []  # most have none, and listing moves takes longest
    children = []
    for k, edge in enumerate(record.edges):
        if edge.n:
            child = board.copy(stack=False)
            child.push(moves[record.order[k]])
            children.append((k, child))
    return children


def check_invariants(graph: Graph, root: chess.Board, *, lost: bool = False) -> Records:
    """Asserts invariants 1 to 3 of the design on every record below a root; returns the records."""
    found = records_below(graph, root)
    for board, record in found.values():
        assert problems(record) == [], board.fen()
        assert record.terminal == terminal_kind(board), board.fen()
        assert len(record.codes) == (0 if record.terminal else board.legal_moves.count())
        q, d = node_mean(record)
        assert -1 <= q <= 1
        assert 0 <= d <= 1
        if not lost:
            check_support(graph, board, record)
    return found


def check_support(graph: Graph, board: chess.Board, record: NodeRecord) -> None:
    """Asserts that every child has the visits that its edge counts: N >= n - r."""
    for k, child in visited_children(board, record):
        edge = record.edges[k]
        if edge.n == edge.r:
            continue
        known = graph.read(child)
        if known is None and child.halfmove_clock > FREE_CLOCK:
            continue  # visited on a path with a smaller clock, where the child has the key of that clock
        if known is not None and child.halfmove_clock > FREE_CLOCK:
            continue  # the same: it has fewer visits than the edge
        assert known is not None, child.fen()
        assert known.proof or known.visits >= edge.n - edge.r, child.fen()
