"""A search of some root moves only: the others take none of its visits, whatever fills the batches."""

from __future__ import annotations

import chess
import pytest

from graphsearch import Graph, Limits, SearchParams, analyze
from graphsearch.errors import InvalidPositionError
from graphsearch.search.params import GATHERERS

from ..conftest import Cli
from ..support.graphs import check_invariants
from ..support.reference import HashEvaluator, ReferenceSearch

KIWIPETE = "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1"
CLOCK = "8/8/4k3/8/8/4K3/8/R6r w - - 0 1"


def unlikely(board: chess.Board, graph: Graph, count: int) -> frozenset[chess.Move]:
    """Returns the moves of the smallest P: the last that a search would look at."""
    record = graph.read(board)
    assert record is not None
    moves = sorted(board.legal_moves, key=lambda m: (m.from_square, m.to_square))
    return frozenset(moves[:count])


@pytest.mark.parametrize("fen", [chess.STARTING_FEN, KIWIPETE, CLOCK])
@pytest.mark.parametrize("count", [1, 3])
def test_batch_of_one_is_the_reference_restricted_at_the_root(fen: str, count: int) -> None:
    board, params = chess.Board(fen), SearchParams(minibatch_size=1)
    reference = ReferenceSearch(HashEvaluator(), params)
    reference.run(board, 150)
    with Graph.open(None, evaluator=HashEvaluator()) as graph:
        analyze(graph, board, Limits(visits=150), params)
        listed = unlikely(board, graph, count)
        result = analyze(graph, board, Limits(visits=400), params, searchmoves=listed)
        before = reference.catch_ups
        node = reference.run(board, 400, listed)
        check_invariants(graph, board)
    expected = dict(zip(node.moves, node.n, strict=True))
    assert {move.move: move.n for move in result.node.moves} == expected
    assert result.catch_ups == reference.catch_ups - before


@pytest.mark.parametrize("gather", GATHERERS)
@pytest.mark.parametrize(("batch", "count"), [(1, 1), (4, 2), (64, 1), (512, 2)])
def test_unlisted_moves_take_no_visit_of_the_search(gather: str, batch: int, count: int) -> None:
    board = chess.Board(KIWIPETE)
    params = SearchParams(minibatch_size=batch, gather=gather)
    with Graph.open(None, evaluator=HashEvaluator()) as graph:
        before = analyze(graph, board, Limits(visits=300), params)
        listed = unlikely(board, graph, count)
        after = analyze(graph, board, Limits(visits=500), params, searchmoves=listed)
        check_invariants(graph, board)
        old = {move.move: move.n for move in before.node.moves}
        for move in after.node.moves:
            assert move.n == old[move.move] or move.move in listed
        assert after.visits >= before.visits + 500
        assert after.bestmove in listed
        assert {move.move for move in after.node.moves[:count]} == listed
        free = analyze(graph, board, Limits(visits=200), params)  # the next one may go anywhere again
        assert any(move.n > old[move.move] for move in free.node.moves if move.move not in listed)


@pytest.mark.parametrize("gather", GATHERERS)
def test_a_restricted_search_of_an_unknown_position_is_the_same_twice(gather: str) -> None:
    board = chess.Board()
    listed = [chess.Move.from_uci("a2a3"), chess.Move.from_uci("h2h4")]
    counts = []
    for _ in range(2):
        with Graph.open(None, evaluator=HashEvaluator()) as graph:
            params = SearchParams(minibatch_size=32, gather=gather)
            result = analyze(graph, board, Limits(visits=700), params, searchmoves=listed)
            counts.append([(move.move, move.n, move.q) for move in result.node.moves])
    assert counts[0] == counts[1]
    assert sum(n for _, n, _ in counts[0]) >= 699
    assert {move for move, n, _ in counts[0] if n} == set(listed)


def test_an_illegal_searchmove_is_refused_and_leaves_the_graph_usable() -> None:
    with Graph.open(None) as graph:
        with pytest.raises(InvalidPositionError, match="e2e5"):
            analyze(graph, chess.Board(), Limits(visits=5), searchmoves=[chess.Move.from_uci("e2e5")])
        assert analyze(graph, chess.Board(), Limits(visits=5)).visits == 5


def test_analyze_searches_the_moves_that_it_is_told_to(cli: Cli) -> None:
    found = cli("analyze", "startpos", "--visits", 200, "--searchmoves", "a3 h2h4", "--json").json
    assert {move["san"] for move in found["moves"] if move["n"]} == {"a3", "h4"}
    assert found["bestmove"] in ("a2a3", "h2h4")
    for wrong in ("e5", "Nf3 zz", ""):
        refused = cli("analyze", "startpos", "--visits", 20, "--searchmoves", wrong)
        assert refused.code == 2
        assert "list" in refused.err
