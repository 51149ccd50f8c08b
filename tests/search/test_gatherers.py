"""How batches are filled: the rules that all gatherers hold, and what sets each apart."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import chess
import numpy as np
import pytest

from graphsearch import Graph, Limits, SearchParams, analyze
from graphsearch.evaluators.protocol import Evaluation, PositionBatch
from graphsearch.graph import arena_kernel
from graphsearch.position.board import POSITION_WORDS, key_of_words, pack, unpack
from graphsearch.search import loop, wave_kernel
from graphsearch.search.params import GATHERERS
from graphsearch.search.visit_kernel import set_params
from graphsearch.search.waves import WaveRunner
from graphsearch.store.ranking import visits_of
from tests.support.evaluators import TableEntry, TableEvaluator

from ..support.graphs import check_invariants, in_memory, read, records_below
from ..support.positions import KIWIPETE, POSITIONS, after_line
from ..support.reference import HashEvaluator

BIG = 1 << 60


class KeyedEvaluator(HashEvaluator):
    """Notes the key of every position that it was asked for: near the 50-move limit it holds the clock."""

    def __init__(self) -> None:
        super().__init__()
        self.keys: list[int] = []

    def evaluate(self, batch: PositionBatch) -> Evaluation:
        self.keys += map(key_of_words, batch.words)
        return super().evaluate(batch)


@contextmanager
def gathering(
    graph: Graph, board: chess.Board, gather: str, batch: int, **fields: Any
) -> Iterator[WaveRunner]:
    """Yields what gathers waves of a root by one gatherer."""
    params = SearchParams(gather=gather, minibatch_size=batch, **fields)
    set_params(graph.arena.arrays, params)
    runner = WaveRunner(graph, pack(board), batch)
    runner.make_room()
    yield runner
    runner.close()


def leaves_of(runner: WaveRunner, count: int) -> list[str]:
    """Returns the positions of a gathered batch, in its order."""
    words = runner.wave.leaf_words[: 10 * count].reshape(count, 10)
    return [unpack(row).epd() for row in words]


# --------------------------------------------------------------------------- what all of them hold
# every gatherer meets every batch size, but for the last one
PAIRS = [(name, GATHERERS[i // 3 % 3], (2, 32, 1024)[i % 3]) for i, name in enumerate(POSITIONS)]


@pytest.mark.parametrize(("name", "gather", "batch"), PAIRS)
def test_invariants_hold_and_no_position_is_evaluated_twice(name: str, gather: str, batch: int) -> None:
    board, evaluator = chess.Board(POSITIONS[name]), KeyedEvaluator()
    with Graph.open(None, evaluator=evaluator) as graph:
        params = SearchParams(minibatch_size=batch, gather=gather)
        result = analyze(graph, board, Limits(visits=150), params)
        check_invariants(graph, board)
        assert result.visits >= 150 or result.stop_reason == "proven"
        assert graph.arena.counters[arena_kernel.AHEAD] == 0
    assert len(evaluator.keys) == len(set(evaluator.keys)) == result.evaluations


@pytest.mark.parametrize("gather", GATHERERS)
def test_a_dropped_wave_changes_nothing_and_a_complete_one_counts_every_leaf(gather: str) -> None:
    board = chess.Board(KIWIPETE)
    with in_memory(KIWIPETE, 600) as graph, gathering(graph, board, gather, 256) as runner:
        while runner.gather() == 0 or runner.wave.counts[wave_kernel.EARLY]:
            runner.drop()  # what needs no evaluation is counted, until there is no more of it
        before = {k: r for k, (_, r) in records_below(graph, board).items()}
        first = leaves_of(runner, int(runner.wave.counts[wave_kernel.LEAVES]))
        runner.drop()
        again = leaves_of(runner, runner.gather())
        runner.drop()
        assert again == first
        assert len(set(first)) == len(first) > 20
        assert {k: r for k, (_, r) in records_below(graph, board).items()} == before
        evaluations, visits = int(graph.arena.counters[arena_kernel.EVALUATIONS]), read(graph, board).visits
        runner.step(BIG, BIG)
        new = int(graph.arena.counters[arena_kernel.EVALUATIONS]) - evaluations
        assert new > 20
        assert read(graph, board).visits >= visits + new, "each is counted when the wave is complete"
        check_invariants(graph, board)


@pytest.mark.parametrize("gather", GATHERERS)
def test_a_transposition_met_twice_in_one_wave_is_one_leaf(gather: str) -> None:
    """1. e4 e5 2. Nf3 and 1. Nf3 e5 2. e4: both parents are known, the position is not."""
    lines = {
        "": {"e2e4": 0.4, "g1f3": 0.4},
        "e4": {"e7e5": 0.9},
        "Nf3": {"e7e5": 0.9},
        "e4 e5": {"g1f3": 0.9},
        "Nf3 e5": {"e2e4": 0.9},
    }
    entries = {after_line(line).epd(): TableEntry((0.3, 0.4, 0.3), priors) for line, priors in lines.items()}
    evaluator = TableEvaluator(entries, TableEntry((0.3, 0.4, 0.3), {}))
    with Graph.open(None, evaluator=evaluator) as graph:
        for line in lines:
            analyze(graph, after_line(line), Limits(visits=1))
        if gather != "flow":  # which asks for no more than a share of the root's N, here 1
            collisions = int(graph.arena.counters[arena_kernel.COLLISIONS])
            with gathering(graph, chess.Board(), gather, 16) as runner:
                leaves = leaves_of(runner, runner.gather())
                runner.drop()
            assert leaves.count(after_line("e4 e5 Nf3").epd()) == 1
            assert len(leaves) == len(set(leaves))
            assert graph.arena.counters[arena_kernel.COLLISIONS] > collisions
        analyze(graph, chess.Board(), Limits(visits=100), SearchParams(minibatch_size=16, gather=gather))
    assert evaluator.asked.count(after_line("e4 e5 Nf3").epd()) == 1


@pytest.mark.parametrize("gather", GATHERERS)
def test_a_terminal_is_backed_up_in_the_gather_and_takes_no_place_in_the_batch(gather: str) -> None:
    board = chess.Board(POSITIONS["mates below"])
    with (
        in_memory(POSITIONS["mates below"], 400, "uniform") as graph,
        gathering(graph, board, gather, 128, max_wave_share=1.0) as runner,
    ):
        before = read(graph, board)
        met = int(graph.arena.counters[arena_kernel.TERMINALS])
        count = runner.gather()
        now = read(graph, board)
        assert graph.arena.counters[arena_kernel.TERMINALS] > met
        assert now.visits > before.visits
        assert not any(chess.Board(f"{leaf} 0 1").is_checkmate() for leaf in leaves_of(runner, count))
        runner.drop()


@pytest.mark.parametrize("gather", GATHERERS)
def test_a_huge_budget_on_a_few_nodes_ends_at_once(gather: str) -> None:
    for name in ("few nodes", "mate near", "start"):
        board = chess.Board(POSITIONS[name])
        with in_memory(POSITIONS[name], 10, "uniform") as graph:
            limit = {"max_collision_visits": 10**9, "max_collision_events": 10**9, "max_wave_share": 1.0}
            with gathering(graph, board, gather, 1 << 16, **limit) as runner:
                count = runner.gather()
                assert 0 <= count <= 1 << 16
                leaves = leaves_of(runner, count)
                assert len(set(leaves)) == count
                runner.drop()


def test_a_search_that_can_find_nothing_more_ends() -> None:
    with Graph.open(None, evaluator="uniform") as graph:
        board = chess.Board(POSITIONS["few nodes"])
        result = analyze(graph, board, Limits(visits=10**9))
        assert result.stop_reason == "exhausted"
        assert result.nodes == result.evaluations <= 10
        check_invariants(graph, board)


def test_a_search_that_finds_ever_less_to_evaluate_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "IDLE_VISITS", 5000)
    monkeypatch.setattr(loop, "VISITS_PER_EVALUATION", 2)
    board = chess.Board("8/3k4/8/8/8/8/3PK3/8 w - - 0 1")  # some ten thousand positions
    with Graph.open(None, evaluator="uniform") as graph:
        result = analyze(graph, board, Limits(evaluations=20_000))
    assert (result.stop_reason, result.evaluations < 20_000) == ("exhausted", True)


# --------------------------------------------------------------------------- classic
def test_classic_ends_after_its_collision_events() -> None:
    board = chess.Board(KIWIPETE)
    with in_memory(KIWIPETE, 50) as graph:
        for events in (1, 5, 32):
            before = int(graph.arena.counters[arena_kernel.COLLISIONS])
            with gathering(graph, board, "classic", 4096, max_collision_events=events) as runner:
                assert runner.gather() < 4096
                runner.drop()
            assert graph.arena.counters[arena_kernel.COLLISIONS] - before == events
        # with one multivisit allowed per event, the first collision ends a wave of MaxCollisionVisits 1
        before = int(graph.arena.counters[arena_kernel.COLLISIONS])
        with gathering(graph, board, "classic", 4096, max_collision_visits=1) as runner:
            runner.gather()
            assert runner.wave.counts[wave_kernel.COLLISIONS_LEFT] == 0
            runner.drop()
        assert graph.arena.counters[arena_kernel.COLLISIONS] - before == 1


# --------------------------------------------------------------------------- budget
def test_budget_takes_one_leaf_a_child_of_a_new_root_and_counts_the_rest_as_collisions() -> None:
    """20 moves of P 1/20 and a budget of 60: three each, one leaf and two collisions."""
    with in_memory(chess.STARTING_FEN, 1, "uniform") as graph:
        with gathering(graph, chess.Board(), "budget", 60, max_collision_visits=40) as runner:
            assert runner.gather() == 20
            assert runner.wave.counts[wave_kernel.COLLISIONS_LEFT] == 0  # 2 * 20 of 40 in the first round
            assert runner.wave.counts[wave_kernel.ROUND] == 1
            runner.drop()
        with gathering(graph, chess.Board(), "budget", 60, max_collision_visits=90) as runner:
            assert runner.gather() == 20
            assert runner.wave.counts[wave_kernel.COLLISIONS_LEFT] <= 10  # two more rounds of 40
            assert runner.wave.counts[wave_kernel.ROUND] == 3
            runner.drop()


# --------------------------------------------------------------------------- flow
@pytest.mark.parametrize("share", [0.05, 1.0])
def test_flow_gives_every_node_a_share_of_its_own_visits_at_most(share: float) -> None:
    with (
        in_memory(chess.STARTING_FEN, 2000, "uniform") as graph,
        gathering(graph, chess.Board(), "flow", 4096, max_wave_share=share) as runner,
    ):
        assert runner.gather() > 16
        w = runner.wave
        entries = w.entries.view(np.int64).reshape(-1, wave_kernel.ENTRY_WORDS)[: w.counts[0]]
        nodes = entries[(entries[:, wave_kernel.KIND] == 0) & (entries[:, wave_kernel.NODE_OR_LEAF] >= 0)]
        words = np.ascontiguousarray(nodes[:, :POSITION_WORDS]).view(np.uint64)
        visits = visits_of(graph.arena.copy_out(nodes[:, wave_kernel.SLOT].astype(np.uint32), words))
        flights = w.nodes.reshape(-1, wave_kernel.FLIGHT_FIELDS)[nodes[:, wave_kernel.NODE_OR_LEAF]]
        assert (flights[:, wave_kernel.SUM] <= np.maximum(1, share * visits)).all()
        assert flights[:, wave_kernel.SUM].max() > share * 2000 / 4
        runner.drop()
