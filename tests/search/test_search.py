"""The search against a slow reference, and its rules; some moves only; stopped and resumed; paid once."""

from __future__ import annotations

import itertools
import os
import random
import shutil
import sys
import threading
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import chess
import numpy as np
import pytest

from graphsearch import Graph, Limits, SearchParams, SearchResult, analyze
from graphsearch.base import errors
from graphsearch.evaluators.protocol import Evaluation, Evaluator, PositionBatch, checked
from graphsearch.graph import arena_kernel
from graphsearch.graph.sweeps.reevaluate import reevaluate
from graphsearch.position.board import after, key_of, legal_moves, unpack
from graphsearch.search.job import SearchJob
from graphsearch.search.params import GATHERERS
from graphsearch.search.results import Progress
from graphsearch.store import index, merging, provenance, ranking
from graphsearch.store.record import NodeRecord, RecordBatch
from graphsearch.store.store import Store
from graphsearch.store.verify import verify
from tests.support.evaluators import TableEntry, TableEvaluator

from ..graph.sweeps.test_refresh import assert_same
from ..store.records import held
from ..support.forks import Fork, Say
from ..support.graphs import check_invariants, numbers_below, read, records_below, searched
from ..support.positions import KIWIPETE, POSITIONS
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


def test_a_record_keeps_the_run_that_evaluated_it(tmp_path: Path) -> None:
    board, path = chess.Board(POSITIONS["mate near"]), tmp_path / "a.graph"
    runs: dict[int, int] = {}
    for run in (1, 2, 3):
        with Graph.open(path, evaluator="uniform") as graph:
            analyze(graph, board, Limits(visits=200), SearchParams(minibatch_size=16))
            found = records_below(graph, board)
        for key, (_, record) in found.items():
            assert record.run == runs.setdefault(key, run)
            assert record.evaluator == (0 if record.terminal or (record.v, record.d) == (1.0, 1) else 1)
        board.push(next(iter(board.legal_moves)))
    assert set(runs.values()) == {1, 2, 3}
    assert any(record.terminal and record.run for _, record in found.values())


def test_an_answer_that_is_no_probability_is_refused() -> None:
    for answer in [(float("nan"), 0.0, 0.0), (0.5, 0.1, 0.1), (-0.5, 1.0, 0.5)]:
        evaluator = TableEvaluator({}, TableEntry(answer, {}))
        refused = pytest.raises(errors.EvaluatorError, match="probability")
        with Graph.open(None, evaluator=evaluator) as graph, refused:
            analyze(graph, chess.Board(), Limits(visits=5))
    batch = PositionBatch.from_boards([chess.Board()])
    for wrong in ({"bounds": [(-0.5, 0.5)]}, {"bounds": np.array([(-128, 1)], np.int8)}, {"q": [5.0]}):
        with pytest.raises(errors.EvaluatorError, match=r"bounds are not two|Q is not win - loss"):
            checked(batch, replace(HashEvaluator().evaluate(batch), **wrong))


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
        assert _load_without(path, graph, share=0.3, seed=5) < before.nodes
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
            with pytest.raises(errors.GraphSearchError, match="running"):
                analyze(graph, chess.Board(), Limits(visits=1))
            refused.append(1)

        result = analyze(graph, chess.Board(), Limits(visits=500), ONE, on_progress=again, interval=0.0)
        assert refused
        assert result.visits == 500
        board = chess.Board()
        vars(board)["push"] = None  # another thread may read it meanwhile
        assert analyze(graph, board, Limits(visits=1), ONE, searchmoves=None).visits == 501


def test_what_could_not_be_saved_is_still_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Graph.open(tmp_path / "a.graph", evaluator="uniform") as graph:

        def fail(*_: object, **__: object) -> None:
            raise errors.StoreError("the disk is full")

        monkeypatch.setattr(Store, "append_batches", fail)
        with pytest.raises(errors.UnsavedError, match="full") as caught:
            analyze(graph, chess.Board(), Limits(visits=100))
        assert caught.value.result.visits >= 100
        monkeypatch.undo()
        assert analyze(graph, chess.Board(), Limits(visits=1)).saved_nodes > 50


PARAMS = [("cpuct_base", float("inf")), ("fpu_value", 1e308), ("cpuct", "2"), ("minibatch_size", 2.5)]
LIMITS = [("visits", 10**30), ("visits", 10.5), ("evaluations", "5"), ("seconds", float("nan"))]
JOBS: list[tuple[str, object]] = [("limits", 100), ("params", {}), ("searchmoves", ["e2e4"])]


def test_parameters_and_limits_that_would_spoil_a_search_are_refused() -> None:
    job: Any = partial(SearchJob, board=chess.Board(), limits=Limits(), params=SearchParams())
    for kind, wrong in (SearchParams, [*PARAMS, ("cpuct", True)]), (Limits, LIMITS), (job, JOBS):
        for name, value in wrong:
            fields: dict[str, Any] = {name: value}
            with pytest.raises(errors.InvalidParameterError):
                kind(**fields)


def test_an_error_inside_an_evaluator_is_an_evaluator_error() -> None:
    class Fails(HashEvaluator):
        def evaluate(self, batch: PositionBatch) -> Evaluation:
            raise ZeroDivisionError("x / 0")

    graph = Graph.open(None, evaluator=Fails())
    with graph, pytest.raises(errors.EvaluatorError, match="ZeroDivisionError"):
        analyze(graph, chess.Board(), Limits(visits=5))


# ------------------------------------------------------------------ some root moves only
CLOCK = "8/8/4k3/8/8/4K3/8/R6r w - - 0 1"


def first_moves(board: chess.Board, count: int) -> frozenset[chess.Move]:
    return frozenset(sorted(board.legal_moves, key=lambda m: (m.from_square, m.to_square))[:count])


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
    assert {move.move: move.n for move in result.node.moves} == dict(zip(node.moves, node.n, strict=True))
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


def test_a_restricted_search_does_not_lead_later_searches_astray() -> None:
    board = chess.Board()
    with Graph.open(None) as plain, Graph.open(None) as forced:
        for graph in (plain, forced):
            analyze(graph, board, Limits(visits=1000))
        restricted = analyze(forced, board, Limits(visits=2000), searchmoves=A3)
        assert restricted.bestmove == A3[0]
        assert visits_of(restricted, A3[0]) >= 2000
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
            records = (graph.read(after(board, move)) for move in listed)
            below, before = sum(record.visits for record in records if record), below
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
    with Graph.open(None) as graph:
        analyze(graph, after(board, listed[0]), Limits(visits=5000))
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
    monkeypatch.setattr("graphsearch.graph.sweeps.refresh.board_of", None)  # games have too many roots
    monkeypatch.setattr(time, "process_time", lambda: next(slow))
    with Graph.open(path, evaluator=HashEvaluator()) as graph:
        analyze(graph, chess.Board(), Limits(visits=300), searchmoves=A3)
    with Store.open(path, read_only=True) as store:
        assert (store.read_fact(provenance.UNSETTLED) is None) == refreshes


def test_values_are_brought_up_to_date_when_the_file_is_closed(tmp_path: Path) -> None:
    path, board = tmp_path / "a.graph", chess.Board()
    with Graph.open(path, evaluator=HashEvaluator()) as graph:
        found = analyze(graph, board, Limits(visits=300)).node.moves
        move = min((one for one in found if one.n), key=lambda one: one.n).move
    with Graph.open(path, evaluator=HashEvaluator()) as graph:
        analyze(graph, board, Limits(visits=300), searchmoves=[move])
        graph.flush()
        with Store.open(path, read_only=True) as store:
            assert store.read_fact(provenance.UNSETTLED)
    with Store.open(path, read_only=True) as store:
        record, index = store.read(board), legal_moves(board).index(move)
        board.push(move)
        child = store.read(board)
        assert store.read_fact(provenance.UNSETTLED) is None
        assert [run.kind for run in store.runs()] == ["search", "search", "refresh"]
    assert record
    assert child
    edge = ranking.edge_of(record, record.order.index(index))
    assert 0 < edge.n < child.visits - 200, "the visits stay out of the root"
    assert edge.q == pytest.approx(-ranking.node_mean(child)[0], abs=1e-3)


# ------------------------------------------------------------------ a stopped search goes on
BOARD = chess.Board(KIWIPETE)
SLICES: list[dict[str, Any]] = [  # limits of the sessions, again and again
    {"visits": 1},
    {"visits": 7},
    {"evaluations": 100},
    {"visits": 150},
    {"seconds": 0.002},  # a thousand visits of the fastest evaluator
    {"evaluations": 1},
]
VISITS_OF = {1: 80, 16: 250, 64: 400}  # of a test's search, by batch: enough for some full waves
Records = dict[int, Any]


def searching(batch: int, **others: Any) -> SearchParams:
    """Returns parameters with which even a young graph has large waves."""
    return SearchParams(minibatch_size=batch, max_wave_share=1.0, **others)


def made(name: str) -> str | Evaluator:
    return HashEvaluator() if name == "hash" else name


def whole(evaluator: str | Evaluator, params: SearchParams, visits: int) -> tuple[Records, int]:
    """Returns the records of one search without a stop, and its visits."""
    with Graph.open(None, evaluator=evaluator) as graph:
        result = analyze(graph, BOARD, Limits(visits=visits), params)
        return numbers_below(graph, BOARD), result.visits


def in_sessions(
    path: Path, evaluator: str | Evaluator, params: SearchParams, visits: int, **options: Any
) -> tuple[Records, int]:
    """Returns the same of many sessions over a file, until there are so many visits."""
    for limits in itertools.cycle(SLICES):
        with Graph.open(path, evaluator=evaluator, **options) as graph:
            result = analyze(graph, BOARD, Limits(**limits), params)
        if result.visits >= visits:
            break
    with Graph.open(path, evaluator=evaluator) as graph:
        return numbers_below(graph, BOARD), result.visits


def assert_one_search(found: tuple[Records, int], name: str, params: SearchParams) -> None:
    assert found == whole(made(name), params, found[1])


# ------------------------------------------------------------------ limits
@pytest.mark.parametrize(
    ("name", "overlap", "batch", "gather"),
    [
        *(("hash", 0, batch, "flow") for batch in VISITS_OF),
        *(("hash", 1, 1, "flow"), ("builtin", 1, 16, "flow")),
        *(("hash", 0, 16, gather) for gather in GATHERERS if gather != "flow"),
    ],
)
def test_many_sessions_over_a_file_are_one_search(
    tmp_path: Path, name: str, overlap: int, batch: int, gather: str
) -> None:
    evaluator, params = made(name), searching(batch, overlap=overlap, gather=gather)
    assert_one_search(in_sessions(tmp_path / "a.graph", evaluator, params, VISITS_OF[batch]), name, params)
    if isinstance(evaluator, HashEvaluator):
        assert evaluator.paid_once


def test_records_that_must_be_read_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graphsearch.graph.graph.LOADED_AT_ONCE", 0)
    evaluator, params, path = HashEvaluator(), searching(16, overlap=0), tmp_path / "a.graph"
    found = in_sessions(path, evaluator, params, VISITS_OF[16], ram_bytes=8_000_000)
    assert_one_search(found, "hash", params)
    assert evaluator.paid_once


class Stopping(HashEvaluator):
    """Sets an event in one of its calls, as a signal would."""

    def __init__(self, call: int) -> None:
        super().__init__()
        self.stop, self.left = threading.Event(), call

    def evaluate(self, batch: PositionBatch) -> Evaluation:
        self.left -= 1
        if self.left == 0:
            self.stop.set()
        return super().evaluate(batch)


def test_an_interrupt_at_any_wave_changes_nothing(tmp_path: Path) -> None:
    params, evaluator = searching(48, overlap=0), Stopping(20)
    with Graph.open(tmp_path / "a.graph", evaluator=evaluator) as graph:
        assert analyze(graph, BOARD, params=params, stop=evaluator.stop).stop_reason == "stop"
    with Graph.open(tmp_path / "a.graph", evaluator=evaluator) as graph:
        result = analyze(graph, BOARD, Limits(visits=350), params)
        found = numbers_below(graph, BOARD), result.visits
    assert_one_search(found, "hash", params)
    assert evaluator.paid_once


# ------------------------------------------------------------------ waves that overlap
@pytest.mark.parametrize("gather", GATHERERS)
def test_sessions_whose_waves_overlap_pay_for_no_position_twice(tmp_path: Path, gather: str) -> None:
    evaluator, params, path = HashEvaluator(), searching(16, gather=gather), tmp_path / "a.graph"
    in_sessions(path, evaluator, params, VISITS_OF[16])
    assert evaluator.paid_once
    with Graph.open(path, evaluator=evaluator) as graph:
        check_invariants(graph, BOARD)


@pytest.mark.parametrize("call", [2, 3, 8])
def test_a_stop_completes_the_wave_in_flight_and_leaves_nothing_else(tmp_path: Path, call: int) -> None:
    params, evaluator = searching(16), Stopping(call)
    with Graph.open(tmp_path / "a.graph", evaluator=evaluator) as graph:
        result = analyze(graph, BOARD, params=params, stop=evaluator.stop)
        assert graph.pager.under_way == ()
        assert result.evaluations == len(evaluator.asked) == len(set(evaluator.asked))
        assert graph.node_count >= result.evaluations
        check_invariants(graph, BOARD)


def test_a_limit_of_evaluations_is_reached_by_the_last_wave_of_an_overlapping_search() -> None:
    evaluator = HashEvaluator()
    with Graph.open(None, evaluator=evaluator) as graph:
        result = analyze(graph, BOARD, Limits(evaluations=100), searching(16))
    assert 100 <= result.evaluations == len(evaluator.asked) < 132


# ------------------------------------------------------------------ nothing is paid for twice
KILLS = 30 if os.environ.get("GRAPHSEARCH_FULL") else 3


# ------------------------------------------------------------------ kill -9
def work_slowly(work: str, path: Path, log: Path, say: Say) -> None:
    """Works slowly enough to be caught; notes what it asks about, and says how much that is."""

    class Slow(HashEvaluator):
        def evaluate(self, batch: PositionBatch) -> Evaluation:
            time.sleep(0.01)
            found = super().evaluate(batch)
            say(len(self.asked))
            return found

    with pytest.MonkeyPatch.context() as patches:
        save_often(patches)
        if work == "search":
            with Graph.open(path, evaluator=Slow(log=log)) as graph:
                analyze(graph, chess.Board(), Limits(), SearchParams(minibatch_size=16, max_wave_share=1.0))
        else:
            reevaluate(path, Slow("other", log=log))


def save_often(patches: pytest.MonkeyPatch) -> None:
    patches.setattr(Store, "open", partial(Store.open, sizes=index.Sizes(fan_out=3)))
    patches.setattr("graphsearch.store.rewrite.STEP_SECONDS", 0.0)
    session = sys.modules["graphsearch.search.loop"]
    patches.setattr(session, "FLUSH_SECONDS", 0.0)


def killed(work: str, path: Path, log: Path, rng: random.Random) -> None:
    """Kills a process after it has asked about some more positions, if it has not finished."""
    with Fork(partial(work_slowly, work, path, log)) as child:
        enough = rng.randrange(150)
        while (line := child.line()) and int(line) <= enough:
            pass
        time.sleep(rng.random() * 0.05)


def known_to(path: Path) -> set[str]:
    """Returns the positions whose evaluation the file has."""
    with Store.open(path, read_only=True) as store:
        batches = [batch.words[batch.evaluator == store.evaluator_number] for batch in store.scan()]
    return {unpack(words).epd() for words in np.concatenate(batches).tolist()}


@pytest.mark.parametrize("work", ["search", "reevaluate"])
def test_what_was_saved_before_a_kill_is_not_paid_again(tmp_path: Path, work: str) -> None:
    path, log = tmp_path / "a.graph", tmp_path / "asked"
    rng = random.Random(work)
    searched(path, chess.STARTING_FEN, "", "e4", "d4 d5", visits=50 if work == "search" else 120)
    saved = known_to(path) if work == "search" else set()
    whole, asked = Path(shutil.copy(path, tmp_path / "whole.graph")), 0
    for _ in range(KILLS):
        killed(work, path, log, rng)
        assert verify(path).problems == []
        lines = log.read_text().splitlines() if log.exists() else []
        again = set(lines[asked:]) & saved
        assert not again, "asked about what the file knew when the work went on"
        saved, asked = known_to(path), len(lines)
    assert saved
    if work == "reevaluate":  # it ends like one that was not killed
        for each in (whole, path):
            reevaluate(each, HashEvaluator("other"))
        assert_same(path, whole)
        assert verify(path).problems == []


def test_a_file_that_was_left_in_the_middle_of_a_merge_opens_while_that_goes_on(tmp_path: Path) -> None:
    path = searched(tmp_path / "a.graph", chess.STARTING_FEN, "", "e4", "d4 d5", visits=120)
    for _ in range(3):
        with Store.open(path, sizes=index.Sizes(step_blocks=1)) as store:
            batch = next(store.scan())
            store.append(batch.part(0, 30), fresh=0)
            with store.rearranging():
                merging.start(store.connection, store.catalog.segments)
            assert store.merge_step(), "it is in the middle of a merge"
        with Graph.open(path, evaluator=HashEvaluator()) as graph:
            assert graph.pager.complete
