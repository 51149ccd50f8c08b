"""The order of a record's moves."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import chess
import pytest

from graphsearch.exchange.output import ExportReport
from graphsearch.exchange.selection import Selection, begin
from graphsearch.exchange.walk import Walk
from graphsearch.position.board import legal_moves
from graphsearch.query.diff import values_of
from graphsearch.store.ranking import best_move, ranking
from graphsearch.store.record_kernel import DRAWN
from graphsearch.store.store import Store

from ..query.handmade import Edges, graph_file, node
from .records import batch_of

CASES: list[tuple[Edges, str]] = [
    ({"e4": (5000, 0.997), "d4": (300, 1.0)}, "e2e4"),
    ({"e4": (5000, 0.98), "d4": (300, 1.0), "a3": (400, 1.0)}, "a2a3"),
    ({"e4": (5000, 1.0), "d4": (300, 1.0)}, "e2e4"),
    ({"e4": (5000, -0.5), "d4": (1, 1.0)}, "d2d4"),
    # from 10,000 visits on the highest value - 4 / sqrt(n) leads, here of e4: .2 - .04
    ({"e4": (9900, 0.2), "d4": (90, 0.9)}, "e2e4"),  # fewer than a twentieth of the visits
    ({"e4": (10000, 0.2), "d4": (900, 0.28)}, "e2e4"),  # .28 - .133
    ({"e4": (10000, 0.2), "d4": (900, 0.3)}, "d2d4"),
    ({"e4": (9000, 0.2), "d4": (900, 0.3)}, "e2e4"),  # not so many
    ({"e4": (10000, -0.2), "d4": (900, 0.0), "a3": (3600, -0.1)}, "d2d4"),
    ({"e4": (10000, 0.98), "d4": (900, 1.0)}, "d2d4"),  # a value of 1 as ever
    ({"e4": (10000, 0.995), "d4": (900, 1.0)}, "e2e4"),
    ({"e4": (20, -0.1), "d4": (10**9, -0.1)}, "d2d4"),
]


def random_edges(rng: random.Random) -> Edges:
    """Returns edges of a position with many visits, with values close to each other."""
    moves = rng.sample(["e4", "d4", "a3", "h3", "Nf3", "Nc3", "b3", "g3"], rng.randint(1, 8))
    scale = rng.choice([20, 3000, 20000, 10**6])
    mean = rng.choice([0.0, 0.5, -0.3, 0.97])
    return {move: (rng.randint(1, scale), min(1.0, mean + rng.uniform(-0.1, 0.1))) for move in moves}


CASES_AT_RANDOM = [random_edges(random.Random(seed)) for seed in range(60)]


@pytest.mark.parametrize(("edges", "best"), CASES)
def test_a_value_of_one_is_first_unless_the_most_visited_move_is_almost_won(edges: Edges, best: str) -> None:
    board = chess.Board()
    record = node(board, edges)
    assert best_move(record, board) == chess.Move.from_uci(best)
    assert legal_moves(board)[int(values_of(batch_of([record])).best[0])].uci() == best


@pytest.mark.parametrize(
    ("edges", "drawn", "best"),
    [
        ({"e4": (12000, 0.0), "d4": (0, 0.0)}, 0, "e2e4"),  # all visits went to a proven move
        ({"a3": (6000, -0.5), "e4": (5000, 0.0), "d4": (10, 1.0)}, 1, "d2d4"),  # a value of one
    ],
)
def test_a_proven_draw_comes_before_what_is_worse_only(edges: Edges, drawn: int, best: str) -> None:
    board = chess.Board()
    record = node(board, edges)
    known = list(record.edges)
    known[drawn] = replace(known[drawn], d=DRAWN)
    record = replace(record, edges=tuple(known))
    assert best_move(record, board) == chess.Move.from_uci(best)
    assert legal_moves(board)[int(values_of(batch_of([record])).best[0])].uci() == best


@pytest.mark.parametrize(
    "edges", [*(edges for edges, _ in CASES), *CASES_AT_RANDOM, {"e4": (9, 0.1), "d4": (9, 0.1)}]
)
def test_one_record_many_at_once_and_exports_rank_alike(edges: Edges, tmp_path: Path) -> None:
    board = chess.Board()
    record = node(board, edges)
    first = legal_moves(board)[record.order[ranking(record, board.halfmove_clock)[0]]]
    assert best_move(record, board) == first
    assert legal_moves(board)[int(values_of(batch_of([record])).best[0])] == first
    path = graph_file(tmp_path / "a.graph", {"": edges})
    with Store.open(path, read_only=True) as store:
        ((found, _),) = Walk(begin(store, Selection(), ExportReport("", "")), leaves=True).visits()
        visited = [k for k in ranking(found.batch.record(0)) if k < len(edges)]
        assert found.moves.edge.tolist() == visited
