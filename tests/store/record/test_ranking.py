"""The order of a record's moves."""

from __future__ import annotations

from pathlib import Path

import chess
import pytest

from graphsearch.exchange.output import ExportReport
from graphsearch.exchange.selection import Selection, plan
from graphsearch.exchange.walk import Walk
from graphsearch.position.board import legal_moves
from graphsearch.query.diff import values_of
from graphsearch.store.record.ranking import best_move, ranking
from graphsearch.store.store import Store

from ...query.handmade import Edges, graph_file, node
from ..records import batch_of

CASES: list[tuple[Edges, str]] = [
    ({"e4": (5000, 0.997), "d4": (300, 1.0)}, "e2e4"),
    ({"e4": (5000, 0.98), "d4": (300, 1.0), "a3": (400, 1.0)}, "a2a3"),
    ({"e4": (5000, 1.0), "d4": (300, 1.0)}, "e2e4"),
    ({"e4": (5000, -0.5), "d4": (1, 1.0)}, "d2d4"),
]


@pytest.mark.parametrize(("edges", "best"), CASES)
def test_a_value_of_one_is_first_unless_the_most_visited_move_is_almost_won(edges: Edges, best: str) -> None:
    board = chess.Board()
    record = node(board, edges)
    assert best_move(record, board) == chess.Move.from_uci(best)
    assert legal_moves(board)[int(values_of(batch_of([record])).best[0])].uci() == best


@pytest.mark.parametrize("edges", [edges for edges, _ in CASES])
def test_exports_rank_such_moves_alike(edges: Edges, tmp_path: Path) -> None:
    path = graph_file(tmp_path / "a.graph", {"": edges})
    with (
        Store.open(path, read_only=True) as store,
        Walk(store, plan(store, Selection()), tmp_path, ExportReport("", ""), leaves=True) as walk,
    ):
        (visits,) = walk.visits()
        visited = [k for k in ranking(visits.batch.record(0)) if k < len(edges)]
        assert visits.moves.edge.tolist() == visited


@pytest.mark.parametrize("edges", [*(edges for edges, _ in CASES), {}, {"e4": (9, 0.1), "d4": (9, 0.1)}])
def test_the_best_move_is_the_first_of_the_ranking(edges: Edges) -> None:
    board = chess.Board()
    record = node(board, edges)
    first = record.order[ranking(record, board.halfmove_clock)[0]]
    assert best_move(record, board) == legal_moves(board)[first]
