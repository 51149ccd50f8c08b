"""The search against a slow reference, and the rules it must hold."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import chess
import numpy as np
import pytest

from graphsearch import Graph, Limits, SearchParams, analyze
from graphsearch.base.errors import (
    EvaluatorError,
    GraphSearchError,
    InvalidParameterError,
    StoreError,
    UnsavedError,
)
from graphsearch.evaluators.protocol import Evaluation, PositionBatch
from graphsearch.graph import arena_kernel
from graphsearch.position.board import key_of
from graphsearch.store.record import RecordBatch
from graphsearch.store.store import Store
from tests.support.evaluators import TableEntry, TableEvaluator

from ..store.records import held
from ..support.graphs import check_invariants, read, records_below
from ..support.positions import KIWIPETE, POSITIONS, after_line
from ..support.reference import HashEvaluator, ReferenceSearch

ONE = SearchParams(minibatch_size=1)
VISITS = 200
RATIOS = (1.0, 2.5, float("inf"))
PAIRS = [(name, RATIOS[i % 3]) for i, name in enumerate(POSITIONS)]


@pytest.mark.parametrize(("name", "ratio"), PAIRS)
def test_batch_of_one_is_sequential_puct_to_the_last_number(name: str, ratio: float) -> None:
    board = chess.Board(POSITIONS[name])
    params = SearchParams(minibatch_size=1, catch_up_ratio=ratio)
    reference = ReferenceSearch(HashEvaluator(), params)
    reference.run(board, VISITS)
    with Graph.open(None, evaluator=HashEvaluator()) as graph:
        result = analyze(graph, board, Limits(visits=VISITS), params)
        found = check_invariants(graph, board)
    assert result.catch_ups == reference.catch_ups
    assert {key for key, node in reference.nodes.items()} == set(found)
    for key, (position, record) in found.items():
        node = reference.nodes[key]
        assert record.v == pytest.approx(node.v, abs=0), position.fen()
        edges = len(record.edges)
        assert [e.n for e in record.edges] == node.n[:edges], position.fen()
        assert [e.r for e in record.edges] == node.r[:edges]
        assert [e.q for e in record.edges if e.n > e.r] == [
            q for q, n, r in zip(node.q, node.n, node.r, strict=True) if n > r
        ]
        assert not any(node.n[edges:])
        assert [e.d for e in record.edges] == node.edge_d[:edges], position.fen()
        assert record.bounds == node.bounds(), position.fen()


def test_two_move_orders_are_one_record() -> None:
    a, b = after_line("e4 e5 Nf3"), after_line("Nf3 e5 e4")
    assert a.halfmove_clock != b.halfmove_clock
    with Graph.open(None, evaluator=HashEvaluator()) as graph:
        analyze(graph, a, Limits(visits=50), ONE)
        assert analyze(graph, b, Limits(visits=1), ONE).visits == 51
        assert graph.read(b) == graph.read(a)


def test_a_record_keeps_the_run_that_evaluated_it(tmp_path: Path) -> None:
    board, path = chess.Board(POSITIONS["mate near"]), tmp_path / "a.graph"
    runs: dict[int, int] = {}
    for run in (1, 2, 3):
        with Graph.open(path, evaluator="uniform") as graph:
            analyze(graph, board, Limits(visits=200), SearchParams(minibatch_size=16))
            found = records_below(graph, board)
        for key, (_, record) in found.items():
            assert record.run == runs.setdefault(key, run)
            by_rule = record.terminal or (record.v, record.d) == (1.0, 1)
            assert record.evaluator == (0 if by_rule else 1)
        board.push(next(iter(board.legal_moves)))
    assert set(runs.values()) == {1, 2, 3}
    assert any(record.terminal and record.run for _, record in found.values())


def test_an_answer_that_is_no_probability_is_refused() -> None:
    for answer in [(float("nan"), 0.0, 0.0), (0.5, 0.1, 0.1), (-0.5, 1.0, 0.5)]:
        evaluator = TableEvaluator({}, TableEntry(answer, {}))
        refused = pytest.raises(EvaluatorError, match="probability")
        with Graph.open(None, evaluator=evaluator) as graph, refused:
            analyze(graph, chess.Board(), Limits(visits=5))


@pytest.mark.parametrize(
    ("fen", "q"),
    [
        ("rnb1kbnr/pppp1ppp/8/4p3/6Pq/5P2/PPPPP2P/RNBQKBNR w KQkq - 1 3", -1.0),
        ("7k/5Q2/6K1/8/8/8/8/8 b - - 0 1", 0.0),
        ("8/8/8/8/8/8/8/K1k5 w - - 0 1", 0.0),
    ],
)
def test_a_finished_game_has_an_exact_value_and_no_moves(fen: str, q: float) -> None:
    with Graph.open(None, evaluator="uniform") as graph:
        result = analyze(graph, chess.Board(fen), Limits(visits=50))
    assert result.node.q == q
    assert result.bestmove is None
    assert result.node.moves == ()
    assert result.stop_reason == "finished"


# --------------------------------------------------------------------------- lost records


def test_a_graph_that_lost_a_third_of_its_records_searches_on(tmp_path: Path) -> None:
    board, params = chess.Board(KIWIPETE), SearchParams(minibatch_size=64)
    path = tmp_path / "a.graph"
    with Graph.open(path, evaluator=HashEvaluator()) as graph:
        before = analyze(graph, board, Limits(visits=400), params)
    with Graph.open(None, evaluator=HashEvaluator()) as graph:
        kept = _load_without(path, graph, share=0.3, seed=5)
        assert kept < before.nodes
        after = analyze(graph, board, Limits(visits=400), params)
        check_invariants(graph, board, lost=True)
        assert graph.arena.counters[arena_kernel.AHEAD] > 0
        assert np.isfinite(after.node.q)
        assert after.evaluations > 0


def _load_without(path: Path, graph: Graph, *, share: float, seed: int) -> int:
    random, root = np.random.default_rng(seed), key_of(chess.Board(KIWIPETE))
    kept = [r for r in held(path).values() if random.random() > share or r.words[9] == root]
    graph.arena.load(RecordBatch.from_records(kept))
    return graph.node_count


def test_a_lost_child_keeps_the_value_of_its_edge_until_it_has_caught_up(tmp_path: Path) -> None:
    board = chess.Board("8/2p5/3p4/KP5r/1R3p1k/8/4P1P1/8 w - - 0 1")
    path = tmp_path / "a.graph"
    with Graph.open(path, evaluator=HashEvaluator()) as graph:
        analyze(graph, board, Limits(visits=700), ONE)
        record = read(graph, board)
    with Graph.open(None, evaluator=HashEvaluator()) as graph:
        roots = [r for r in held(path).values() if r.words[9] == record.words[9]]
        graph.arena.load(RecordBatch.from_records(roots))
        analyze(graph, board, Limits(visits=1), ONE)
        after = read(graph, board)
    moved = [(a, b) for a, b in zip(record.edges, after.edges, strict=True) if a != b]
    assert len(moved) == 1
    (old, new) = moved[0]
    assert new.n == old.n + 1
    assert old.n > 40
    assert abs(new.q - old.q) <= 2 / old.n


# --------------------------------------------------------------------------- one key, one memory


def test_a_child_improved_elsewhere_reaches_its_parent_at_the_next_visit_and_drags_it_nowhere() -> None:
    # a naive graph search would keep the parent's old q: it only adds what passes through the parent;
    # or it would count for the parent's edge the visits that this edge did not ask for
    board, params = chess.Board(), SearchParams(minibatch_size=1, catch_up_ratio=1.0)
    with Graph.open(None, evaluator=HashEvaluator()) as graph:
        best = analyze(graph, board, Limits(visits=400), params).node.moves[0]
        before = read(graph, board)
        child = board.copy()
        child.push(best.move)
        improved = analyze(graph, child, Limits(visits=1500), ONE)
        assert read(graph, board) == before
        later = analyze(graph, board, Limits(visits=60), ONE)
    after = next(move for move in later.node.moves if move.move == best.move)
    assert later.visits == 460
    assert best.n < after.n <= best.n + 60
    assert after.q == pytest.approx(-improved.node.q, abs=0.02)


# --------------------------------------------------------------------------- wrong use


def test_a_search_that_ends_before_its_first_wave_still_answers() -> None:
    stop = threading.Event()
    stop.set()
    for limits, event in ((Limits(seconds=1e-300), None), (Limits(), stop)):
        with Graph.open(None, evaluator="uniform") as graph:
            result = analyze(graph, chess.Board(), limits, stop=event)
        assert result.visits == 1
        assert result.bestmove is not None


def test_a_second_search_on_a_graph_is_refused_while_one_runs() -> None:
    with Graph.open(None, evaluator="uniform") as graph:
        refused = []

        def again(_: object) -> None:
            with pytest.raises(GraphSearchError, match="running"):
                analyze(graph, chess.Board(), Limits(visits=1))
            refused.append(1)

        result = analyze(graph, chess.Board(), Limits(visits=500), ONE, on_progress=again, interval=0.0)
        assert refused
        assert result.visits == 500
        assert analyze(graph, chess.Board(), Limits(visits=1), ONE).visits == 501


def test_what_could_not_be_saved_is_still_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Graph.open(tmp_path / "a.graph", evaluator="uniform") as graph:

        def fail(self: Store, batch: object, *, fresh: int) -> None:
            raise StoreError("the disk is full")

        monkeypatch.setattr(Store, "append", fail)
        with pytest.raises(UnsavedError, match="full") as caught:
            analyze(graph, chess.Board(), Limits(visits=100))
        assert caught.value.result.visits >= 100
        monkeypatch.undo()
        assert analyze(graph, chess.Board(), Limits(visits=1)).saved_nodes > 50


PARAMS = [("cpuct_base", float("inf")), ("fpu_value", 1e308), ("cpuct", "2"), ("minibatch_size", 2.5)]
LIMITS = [("visits", 10**30), ("visits", 10.5), ("evaluations", "5"), ("seconds", float("nan"))]


def test_parameters_and_limits_that_would_spoil_a_search_are_refused() -> None:
    for kind, wrong in [(SearchParams, [*PARAMS, ("cpuct", True)]), (Limits, LIMITS)]:
        for name, value in wrong:
            fields: dict[str, Any] = {name: value}
            with pytest.raises(InvalidParameterError):
                kind(**fields)


def test_an_error_inside_an_evaluator_is_an_evaluator_error() -> None:
    class Fails(HashEvaluator):
        def evaluate(self, batch: PositionBatch) -> Evaluation:
            raise ZeroDivisionError("x / 0")

    graph = Graph.open(None, evaluator=Fails())
    with graph, pytest.raises(EvaluatorError, match="ZeroDivisionError"):
        analyze(graph, chess.Board(), Limits(visits=5))
