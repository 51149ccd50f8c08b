"""A search of some root moves only: the others take none of its visits, whatever fills the batches."""

from __future__ import annotations

import itertools
import time
from dataclasses import replace
from pathlib import Path

import chess
import pytest

from graphsearch import Graph, Limits, SearchParams, SearchResult, analyze
from graphsearch.position.board import legal_moves
from graphsearch.search.params import GATHERERS
from graphsearch.search.results import Progress
from graphsearch.store.provenance import UNSETTLED
from graphsearch.store.ranking import edge_of, node_mean
from graphsearch.store.record import NodeRecord
from graphsearch.store.store import Store

from ..support.graphs import check_invariants, read
from ..support.positions import KIWIPETE
from ..support.reference import HashEvaluator, ReferenceSearch

CLOCK = "8/8/4k3/8/8/4K3/8/R6r w - - 0 1"


def first_moves(board: chess.Board, count: int) -> frozenset[chess.Move]:
    """Returns the first legal moves, by their squares."""
    moves = sorted(board.legal_moves, key=lambda m: (m.from_square, m.to_square))
    return frozenset(moves[:count])


@pytest.mark.parametrize(("fen", "count"), [(chess.STARTING_FEN, 1), (KIWIPETE, 3), (CLOCK, 3)])
def test_batch_of_one_is_the_reference_restricted_at_the_root(fen: str, count: int) -> None:
    board, params = chess.Board(fen), SearchParams(minibatch_size=1)
    reference = ReferenceSearch(HashEvaluator(), params)
    reference.run(board, 60)
    with Graph.open(None, evaluator=HashEvaluator()) as graph:
        analyze(graph, board, Limits(visits=60), params)
        listed = first_moves(board, count)
        result = analyze(graph, board, Limits(visits=120), params, searchmoves=listed)
        before = reference.catch_ups
        node = reference.run(board, 120, listed)
        check_invariants(graph, board)
    expected = dict(zip(node.moves, node.n, strict=True))
    assert {move.move: move.n for move in result.node.moves} == expected
    assert result.catch_ups == reference.catch_ups - before


@pytest.mark.parametrize(
    ("gather", "batch", "count"), [("flow", 1, 1), *((gather, 512, 2) for gather in GATHERERS)]
)
def test_unlisted_moves_take_no_visit_of_the_search(gather: str, batch: int, count: int) -> None:
    board = chess.Board(KIWIPETE)
    params = SearchParams(minibatch_size=batch, gather=gather)
    with Graph.open(None, evaluator=HashEvaluator()) as graph:
        before = analyze(graph, board, Limits(visits=150), params)
        listed = first_moves(board, count)
        after = analyze(graph, board, Limits(visits=250), params, searchmoves=listed)
        check_invariants(graph, board)
        old = {move.move: move.n for move in before.node.moves}
        for move in after.node.moves:
            assert move.n == old[move.move] or move.move in listed
        assert after.visits >= before.visits + 250
        assert after.bestmove in listed
        assert {move.move for move in after.node.moves[:count]} == listed
        free = analyze(graph, board, Limits(visits=200), params)  # the next one may go anywhere again
        assert any(move.n > old[move.move] for move in free.node.moves if move.move not in listed)


A3 = [chess.Move.from_uci("a2a3")]
BATCHES = [(1, "flow"), (32, "flow"), (32, "classic")]


def counts_of(record: NodeRecord | None) -> list[tuple[int, int]]:
    """Returns n and r of every edge up to the last visited one."""
    assert record is not None
    return [(edge.n, edge.r) for edge in record.edges]


def visits_of(result: SearchResult, move: chess.Move) -> int:
    return next(shown.n for shown in result.node.moves if shown.move == move)


def edge_visits(graph: Graph, board: chess.Board, move: chess.Move) -> int:
    record = read(graph, board)
    k = record.order.index(legal_moves(board).index(move))
    return record.edges[k].n if k < len(record.edges) else 0


def child_visits(graph: Graph, board: chess.Board, move: chess.Move) -> int:
    child = board.copy(stack=False)
    child.push(move)
    record = graph.read(child)
    return record.visits if record else 0


def test_a_restricted_search_does_not_lead_later_searches_astray() -> None:
    board = chess.Board()
    with Graph.open(None) as plain, Graph.open(None) as forced:
        for graph in (plain, forced):
            analyze(graph, board, Limits(visits=1000))
        restricted = analyze(forced, board, Limits(visits=3000), searchmoves=A3)
        assert restricted.bestmove == A3[0]
        assert visits_of(restricted, A3[0]) >= 3000
        for _ in range(2):
            expected = analyze(plain, board, Limits(visits=1000))
            found = analyze(forced, board, Limits(visits=1000))
            assert found.bestmove == expected.bestmove
            assert found.bestmove != A3[0]
            assert found.node.q == pytest.approx(expected.node.q, abs=0.01)
            assert found.visits == pytest.approx(expected.visits, abs=100)
            assert edge_visits(forced, board, A3[0]) <= edge_visits(plain, board, A3[0]) + 2
        check_invariants(forced, board)


@pytest.mark.parametrize(("batch", "gather"), BATCHES)
def test_the_root_in_the_file_is_what_it_was_before_a_restricted_search(
    tmp_path: Path, batch: int, gather: str
) -> None:
    board, path = chess.Board(KIWIPETE), tmp_path / "a.graph"
    params = SearchParams(minibatch_size=batch, gather=gather)
    listed = [chess.Move.from_uci("a2a3"), chess.Move.from_uci("e5g6")]
    with Graph.open(path, evaluator=HashEvaluator()) as graph:
        analyze(graph, board, Limits(visits=150), params)
        before = read(graph, board)
        result = analyze(graph, board, Limits(visits=300), params, searchmoves=listed)
        in_memory = graph.read(board)
    assert result.visits >= 450
    with Graph.open(path, evaluator=HashEvaluator()) as graph:
        after = graph.pager.read(board)
        assert after is not None
        check_invariants(graph, board)
    assert counts_of(after) == counts_of(before) == counts_of(in_memory)[: len(before.edges)]
    assert replace(after, edges=()) == replace(before, edges=())


@pytest.mark.parametrize(
    ("batch", "gather", "words"),
    [(batch, gather, ("a2a3", "a2a3 h2h4")[k % 2]) for k, (batch, gather) in enumerate(BATCHES)],
)
def test_a_stopped_restricted_search_goes_on_where_it_was(
    tmp_path: Path, batch: int, gather: str, words: str
) -> None:
    board, path = chess.Board(), tmp_path / "a.graph"
    params = SearchParams(minibatch_size=batch, gather=gather)
    listed = [chess.Move.from_uci(word) for word in words.split()]
    below = 0
    for session in range(1, 4):
        with Graph.open(path, evaluator=HashEvaluator()) as graph:
            nodes = graph.node_count
            result = analyze(graph, board, Limits(visits=300), params, searchmoves=listed)
            known, before = sum(child_visits(graph, board, move) for move in listed), below
            below = known
            assert graph.node_count - nodes >= result.evaluations, "nothing was evaluated twice"
        assert below >= before + result.evaluations - 1
        assert below >= sum(visits_of(result, move) for move in listed) >= 299
        assert result.new_visits < 300 + 2 * batch
        assert result.bestmove in listed
        if len(listed) == 1:
            assert result.evaluations > 150, "the visits of the sessions before are not made again"
            assert visits_of(result, listed[0]) >= 299 * session


def test_a_move_that_another_search_knows_takes_no_more_than_its_share_of_a_restricted_search() -> None:
    board = chess.Board()
    listed = [chess.Move.from_uci("a2a3"), chess.Move.from_uci("e2e4")]
    after = board.copy()
    after.push(listed[0])
    with Graph.open(None) as graph:
        analyze(graph, after, Limits(visits=5000))
        result = analyze(graph, board, Limits(visits=1000), searchmoves=listed)
    assert result.bestmove == listed[1]


def test_a_save_amid_a_restricted_search_holds_none_of_its_visits(tmp_path: Path) -> None:
    board, path = chess.Board(), tmp_path / "a.graph"
    params = SearchParams(minibatch_size=64)
    seen: list[list[tuple[int, int]]] = []
    with Graph.open(path, evaluator=HashEvaluator()) as graph:
        analyze(graph, board, Limits(visits=300), params)
        graph.flush()
        before = counts_of(graph.read(board))

        def save(progress: Progress) -> None:
            if shown and progress.visits < shown[-1] + 250:
                return
            graph.flush()
            shown.append(progress.visits)
            with Store.open(path, read_only=True) as store:
                seen.append(counts_of(store.read(board)))

        shown: list[int] = []
        analyze(graph, board, Limits(visits=1000), params, searchmoves=A3, on_progress=save, interval=0.0)
    assert len(seen) > 2
    assert all(counts == before for counts in seen)
    assert shown == sorted(shown)
    assert shown[-1] >= 950


@pytest.mark.parametrize(("nodes", "refreshes"), [(0, False), (1000, True)], ids=["large", "small"])
def test_the_size_of_a_file_decides_whether_closing_refreshes_it_not_the_time(
    nodes: int, refreshes: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, slow = tmp_path / "a.graph", itertools.count(0.0, 1e6)
    monkeypatch.setattr("graphsearch.graph.graph.REFRESHED_NODES", nodes, raising=False)
    monkeypatch.setattr(time, "process_time", lambda: next(slow))
    with Graph.open(path, evaluator=HashEvaluator()) as graph:
        analyze(graph, chess.Board(), Limits(visits=300), searchmoves=A3)
    with Store.open(path, read_only=True) as store:
        assert (store.read_fact(UNSETTLED) is None) == refreshes


def test_values_are_brought_up_to_date_when_the_file_is_closed(tmp_path: Path) -> None:
    path, board = tmp_path / "a.graph", chess.Board()
    with Graph.open(path, evaluator=HashEvaluator()) as graph:
        found = analyze(graph, board, Limits(visits=300)).node.moves
        move = min((one for one in found if one.n), key=lambda one: one.n).move
    with Graph.open(path, evaluator=HashEvaluator()) as graph:
        analyze(graph, board, Limits(visits=300), searchmoves=[move])
        graph.flush()
        with Store.open(path, read_only=True) as store:
            assert store.read_fact(UNSETTLED)
    with Store.open(path, read_only=True) as store:
        record, index = store.read(board), legal_moves(board).index(move)
        board.push(move)
        child = store.read(board)
        assert store.read_fact(UNSETTLED) is None
        assert [run.kind for run in store.runs()] == ["search", "search", "refresh"]
    assert record
    assert child
    edge = edge_of(record, record.order.index(index))
    assert 0 < edge.n < child.visits - 200, "the visits stay out of the root"
    assert edge.q == pytest.approx(-node_mean(child)[0], abs=1e-3)
