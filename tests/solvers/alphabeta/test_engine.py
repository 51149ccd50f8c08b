"""Counts, node types, ending early, the graph's part, and the same answers compiled or not."""

from __future__ import annotations

from dataclasses import asdict

import chess
import pytest

from graphsearch import Graph, Limits, SearchParams, analyze
from graphsearch.solvers.alphabeta.search import AlphaBeta, Counts
from graphsearch.store.record.transposition import EntryTable

from ...support.plain import as_json, in_plain_python

ITALIAN = "r1bqk2r/pppp1ppp/2n2n2/2b1p3/2B1P3/2NP1N2/PPP2PPP/R1BQK2R b KQkq - 0 5"
SIZE = 1 << 22


def new_engine() -> AlphaBeta:
    return AlphaBeta(EntryTable(SIZE))


def test_the_principal_variation_is_legal_as_long_as_the_depth_and_ends_in_its_value() -> None:
    engine = new_engine()
    for depth in range(1, 6):
        board = chess.Board(ITALIAN)
        result = engine.search(board, depth)
        assert len(result.pv) == depth
        assert result.move == result.pv[0]
        for move in result.pv:
            assert move in board.legal_moves
            board.push(move)
        if depth == 4:
            assert engine.search(board, 0).value == result.value


def test_every_position_is_counted_once_for_what_it_is() -> None:
    engine = new_engine()
    for depth in range(6):
        k = engine.search(chess.Board(ITALIAN), depth).counts
        assert k.nodes == k.interior + k.leaves + k.quiescence
        assert k.interior == k.pv + k.cut + k.all
        assert k.first_cutoffs <= k.cutoffs <= k.expanded <= k.interior
        assert k.hit_cutoffs <= k.hits <= k.interior
        assert k.cached <= k.leaves


def test_types_of_a_search_of_one_and_two_plies_are_those_of_the_rules() -> None:
    engine = new_engine()
    one = engine.search(chess.Board(), 1).counts
    assert (one.pv, one.cut, one.all, one.interior) == (1, 0, 0, 1)
    assert one.leaves == 20 + one.researches
    two = engine.search(chess.Board(), 2).counts
    assert (two.cut, two.all) == (19, 0)
    assert two.pv >= 2  # root, its first child, and what is searched again
    kinds = [entry.kind for entry in map(engine.table.get, after_each_move(chess.Board())) if entry]
    assert kinds.count("pv") == two.pv - 1
    assert kinds.count("cut") == 20 - kinds.count("pv")
    three = engine.search(chess.Board(), 3).counts
    assert three.all > 0  # first children of Cut nodes


def after_each_move(board: chess.Board) -> list[chess.Board]:
    out = []
    for move in board.legal_moves:
        board.push(move)
        out.append(board.copy(stack=False))
        board.pop()
    return out


def test_most_cuts_are_made_by_the_first_move_tried() -> None:
    engine = new_engine()
    counts = [engine.search(chess.Board(), depth).counts for depth in range(1, 7)][-1]
    assert counts.first_cutoffs > 0.9 * counts.cutoffs


def test_a_node_limit_ends_a_search_with_what_is_finished() -> None:
    engine = new_engine()
    result = engine.search(chess.Board(ITALIAN), 12, node_limit=50_000)
    assert not result.complete
    assert 50_000 <= result.counts.nodes < 50_000 + 1000
    whole = engine.search(chess.Board(ITALIAN), 4)
    assert whole.complete
    assert whole.value == new_engine().search(chess.Board(ITALIAN), 4).value


def test_a_search_that_is_stopped_at_once_has_found_nothing() -> None:
    result = new_engine().search(chess.Board(), 5, stop=lambda: True)
    assert (result.complete, result.bound, result.move, result.pv) == (False, "", None, ())
    assert result.counts == Counts()


def test_stop_is_asked_between_slices_and_progress_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graphsearch.solvers.alphabeta.search.SLICE_NODES", 20_000)
    seen: list[int] = []
    result = new_engine().search(
        chess.Board(), 60, stop=lambda: len(seen) == 3, on_slice=lambda counts: seen.append(counts.nodes)
    )
    assert not result.complete
    assert len(seen) == 3
    assert seen == sorted(seen)
    assert 60_000 <= result.counts.nodes < 63_000


def test_a_graph_orders_moves_and_leaves_the_value_as_it_is() -> None:
    board = chess.Board(ITALIAN)
    with Graph.open(None) as graph:
        analyze(graph, board, Limits(visits=3000), SearchParams())
        engine = AlphaBeta(EntryTable(SIZE), graph.arena)
        result = engine.search(board, 3)
        assert result.counts.ordered > 30
        assert result.value == new_engine().search(board, 3).value
        assert result.counts.proofs == 0


def test_a_draw_that_the_graph_has_proven_is_one_at_every_depth() -> None:
    board = chess.Board("7k/8/6K1/8/8/8/8/5Q2 w - - 0 1")  # Qf7 stalemates
    with Graph.open(None) as graph:
        analyze(graph, board, Limits(visits=200), SearchParams())
        engine = AlphaBeta(EntryTable(SIZE), graph.arena)
        assert engine.search(board, 2).counts.proofs > 0


FEW = [
    ("4k3/8/8/8/8/3p4/4P3/4K3 w - - 0 1", 2),
    ("6k1/5ppp/8/8/8/8/5PPP/R5K1 w - - 99 80", 1),
]


def all_searched() -> list[tuple[int, list[str], dict[str, int]]]:
    """Returns value, PV and counts of each depth of a few positions, with one table."""
    engine = AlphaBeta(EntryTable(1 << 16))
    found = (engine.search(chess.Board(fen), d) for fen, depth in FEW for d in range(1, depth + 1))
    return [(one.value, [move.uci() for move in one.pv], asdict(one.counts)) for one in found]


def test_plain_python_searches_as_compiled_code_does() -> None:
    assert in_plain_python(all_searched) == as_json(all_searched())
