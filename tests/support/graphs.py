"""Graph files made by a search, and what tests check on every graph."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path

import chess

from graphsearch import Limits, SearchParams, analyze
from graphsearch.graph.graph import Graph
from graphsearch.position.board import FREE_CLOCK, board_of, key_of
from graphsearch.store.record.node import NodeRecord, problems
from graphsearch.store.record.ranking import node_mean

from .reference import HashEvaluator
from .rules import legal_moves, terminal_kind

ENDGAME = "8/8/4k3/8/8/4K3/4P3/R6r w - - 0 1"  # kings and rooks shuffle: cycles and draws of the path
MATES = "6k1/5ppp/8/8/8/8/r4PPP/3R2K1 w - - 0 1"

Records = dict[int, tuple[chess.Board, NodeRecord]]
Child = tuple[int, int, chess.Board]  # place of the edge, key, position


def searched(path: Path, fen: str = chess.STARTING_FEN, *lines: str, visits: int = 150) -> Path:
    """Returns a file of one search after the other below each line, by the evaluator `hash`."""
    if path.exists():
        _search(path, fen, lines, visits)
    else:
        path.write_bytes(_content(fen, lines, visits))
    return path


@cache
def _content(fen: str, lines: tuple[str, ...], visits: int) -> bytes:
    """Returns the file of such a search, made once."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "searched.graph"
        _search(path, fen, lines, visits)
        return path.read_bytes()


def _search(path: Path, fen: str, lines: tuple[str, ...], visits: int) -> None:
    with Graph.open(path, evaluator=HashEvaluator()) as graph:
        for line in lines or ("",):
            board = board_of(fen)
            for san in line.split():
                board.push_san(san)
            analyze(graph, board, Limits(visits=visits), SearchParams(minibatch_size=8))


def read(graph: Graph, board: chess.Board) -> NodeRecord:
    """Returns the record of a known position."""
    record = graph.read(board)
    assert record is not None, board.fen()
    return record


def records_below(graph: Graph, root: chess.Board) -> Records:
    """Returns every record that can be reached over visited edges, with a Board, by key."""
    return {key: (board, record) for key, (board, record, _) in _below(graph, root).items()}


def _below(graph: Graph, root: chess.Board) -> dict[int, tuple[chess.Board, NodeRecord, list[Child]]]:
    found = {}
    queue = [(key_of(root), root.copy(stack=False))]
    while queue:
        key, board = queue.pop()
        record = None if key in found else graph.read(board)
        if record is not None:
            children = [(k, key_of(child), child) for k, child in visited_children(board, record)]
            found[key] = (board, record, children)
            queue += [(below, child) for _, below, child in children]
    return found


def numbers_below(graph: Graph, root: chess.Board) -> dict[int, NodeRecord]:
    """Returns the same records by key, as if their runs were unknown: for graphs made in other runs."""
    return {key: replace(record, run=0) for key, (_, record) in records_below(graph, root).items()}


def visited_children(board: chess.Board, record: NodeRecord) -> list[tuple[int, chess.Board]]:
    """Returns (place of the edge, position behind it) of every visited edge."""
    moves = legal_moves(board) if record.edges else ()  # most have none, and listing moves takes longest
    children = []
    for k, edge in enumerate(record.edges):
        if edge.n:
            child = board.copy(stack=False)
            child.push(moves[record.order[k]])
            children.append((k, child))
    return children


def check_invariants(graph: Graph, root: chess.Board, *, lost: bool = False) -> Records:
    """Asserts invariants 1 to 3 of the design on every record below a root; returns the records."""
    below = _below(graph, root)
    found = {key: (board, record) for key, (board, record, _) in below.items()}
    for board, record, children in below.values():
        assert problems(record) == [], board.fen()
        assert record.terminal == terminal_kind(board), board.fen()
        assert len(record.codes) == (0 if record.terminal else len(legal_moves(board)))
        q, d = node_mean(record)
        assert -1 <= q <= 1
        assert 0 <= d <= 1
        if not lost:
            check_support(found, record, children)
    return found


def check_support(found: Records, record: NodeRecord, children: list[Child]) -> None:
    """Asserts that every child has the visits that its edge counts: N >= n - r."""
    for k, key, child in children:
        edge = record.edges[k]
        if edge.n == edge.r or child.halfmove_clock > FREE_CLOCK:
            continue  # at such a clock the visits may be those of a path with another one, under another key
        assert key in found, child.fen()
        known = found[key][1]
        assert known.proof or known.visits >= edge.n - edge.r, child.fen()
