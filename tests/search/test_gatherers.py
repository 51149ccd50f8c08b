"""How batches are filled: the rules that all four gatherers hold, and what sets each apart."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import chess
import numpy as np
import pytest

from graphsearch import Graph, Limits, SearchParams, analyze
from graphsearch.errors import EvaluatorError
from graphsearch.evaluators.protocol import Evaluation, PositionBatch
from graphsearch.graph import arena_kernel
from graphsearch.position.board import POSITION_WORDS, key_of, pack, unpack
from graphsearch.search import puct, wave_kernel
from graphsearch.search.params import GATHERERS
from graphsearch.search.settings import set_params
from graphsearch.search.waves import WaveRunner
from graphsearch.store.upkeep.prune import visits_of
from tests.support.table import TableEntry, TableEvaluator

from ..support.graphs import check_invariants, records_below
from ..support.reference import HashEvaluator, Node, ReferenceSearch

KIWIPETE = "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1"
POSITIONS = {
    "start": chess.STARTING_FEN,
    "kiwipete": KIWIPETE,
    "pawn ending": "8/2p5/3p4/KP5r/1R3p1k/8/4P1P1/8 w - - 0 1",
    "cycles": "8/8/4k3/8/8/4K3/8/R6r w - - 0 1",
    "clock runs out": "8/8/4k3/8/8/4K3/4P3/R6r w - - 93 80",
    "mate near": "6k1/5ppp/8/8/8/8/5PPP/3R2K1 w - - 0 1",
    "mates below": "6k1/5ppp/8/8/8/8/r4PPP/3R2K1 b - - 0 1",
    "few nodes": "8/8/8/8/8/1k5p/7P/K7 w - - 97 90",
}
BIG = 1 << 60


class KeyedEvaluator(HashEvaluator):
    """Notes the key of every position that it was asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.keys: list[int] = []

    def evaluate(self, batch: PositionBatch) -> Evaluation:
        self.keys += [key_of(board) for board, _ in batch.boards()]
        return super().evaluate(batch)


def after(line: str) -> chess.Board:
    board = chess.Board()
    for san in line.split():
        board.push_san(san)
    return board


@contextmanager
def gathering(
    graph: Graph, board: chess.Board, gather: str, batch: int, **fields: Any
) -> Iterator[WaveRunner]:
    """Yields what gathers waves of a root by one gatherer."""
    params = SearchParams(gather=gather, minibatch_size=batch, **fields)
    set_params(graph.arena, params)
    runner = WaveRunner(graph, pack(board), batch)
    runner.make_room()
    yield runner
    runner.close()


def leaves_of(runner: WaveRunner, count: int) -> list[str]:
    """Returns the positions of a gathered batch, in its order."""
    words = runner.wave.leaf_words[: 10 * count].reshape(count, 10)
    return [unpack(row).epd() for row in words]


def searched(fen: str, visits: int, evaluator: Any = None) -> Graph:
    graph = Graph.open(None, evaluator=evaluator or HashEvaluator())
    analyze(graph, chess.Board(fen), Limits(visits=visits), SearchParams(minibatch_size=1))
    return graph


# --------------------------------------------------------------------------- what all of them hold
@pytest.mark.parametrize("name", ["kiwipete", "cycles", "mate near"])
def test_a_batch_of_one_is_plain_puct_with_every_gatherer(name: str) -> None:
    board = chess.Board(POSITIONS[name])
    reference = ReferenceSearch(HashEvaluator(), SearchParams(minibatch_size=1))
    reference.run(board, 400)
    expected = {key: [n for n in node.n if n] for key, node in reference.nodes.items()}
    for gather in GATHERERS:
        with Graph.open(None, evaluator=HashEvaluator()) as graph:
            analyze(graph, board, Limits(visits=400), SearchParams(minibatch_size=1, gather=gather))
            found = records_below(graph, board)
        visits = {key: [e.n for e in record.edges if e.n] for key, (_, record) in found.items()}
        assert visits == expected, gather


@pytest.mark.parametrize("gather", GATHERERS)
@pytest.mark.parametrize("name", POSITIONS)
@pytest.mark.parametrize("batch", [2, 32, 1024])
def test_invariants_hold_and_no_position_is_evaluated_twice(name: str, gather: str, batch: int) -> None:
    board, evaluator = chess.Board(POSITIONS[name]), KeyedEvaluator()
    with Graph.open(None, evaluator=evaluator) as graph:
        params = SearchParams(minibatch_size=batch, gather=gather)
        result = analyze(graph, board, Limits(visits=400), params)
        check_invariants(graph, board)
        assert result.visits >= 400 or result.stop_reason == "proven"
        assert graph.arena.counters[arena_kernel.AHEAD] == 0
    assert len(evaluator.keys) == len(set(evaluator.keys)) == result.evaluations


@pytest.mark.parametrize("gather", GATHERERS)
@pytest.mark.parametrize("overlap", [0, 1])
def test_the_same_search_twice_is_the_same(gather: str, overlap: int) -> None:
    found = []
    for _ in range(2):
        with Graph.open(None, evaluator=HashEvaluator()) as graph:
            params = SearchParams(minibatch_size=64, gather=gather, overlap=overlap)
            analyze(graph, chess.Board(KIWIPETE), Limits(visits=900), params)
            found.append({k: r for k, (_, r) in records_below(graph, chess.Board(KIWIPETE)).items()})
    assert found[0] == found[1]


@pytest.mark.parametrize("gather", GATHERERS)
def test_a_dropped_wave_leaves_no_visit_in_flight_and_no_change(gather: str) -> None:
    board = chess.Board(KIWIPETE)
    with (
        searched(KIWIPETE, 2000) as graph,
        gathering(graph, board, gather, 512) as runner,
    ):
        while runner.gather() == 0 or runner.wave.counts[wave_kernel.EARLY]:
            runner.drop()  # what needs no evaluation is counted, until there is no more of it
        before = {k: r for k, (_, r) in records_below(graph, board).items()}
        first = leaves_of(runner, int(runner.wave.counts[wave_kernel.LEAVES]))
        runner.drop()
        again = leaves_of(runner, runner.gather())
        runner.drop()
        assert again == first
        assert len(set(first)) == len(first) > 50
        assert {k: r for k, (_, r) in records_below(graph, board).items()} == before


@pytest.mark.parametrize("gather", GATHERERS)
def test_every_leaf_is_unknown_and_counted_once_when_the_wave_is_complete(gather: str) -> None:
    board = chess.Board()
    with searched(chess.STARTING_FEN, 1500) as graph, gathering(graph, board, gather, 256) as runner:
        count = runner.gather()
        leaves = leaves_of(runner, count)
        assert len(set(leaves)) == count > 20
        runner.drop()
        before = graph.read(board)
        evaluations = int(graph.arena.counters[arena_kernel.EVALUATIONS])
        runner.step(BIG, BIG)
        new = int(graph.arena.counters[arena_kernel.EVALUATIONS]) - evaluations
        now = graph.read(board)
        assert before is not None
        assert now is not None
        assert new > 20
        assert now.visits >= before.visits + new
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
    entries = {after(line).epd(): TableEntry((0.3, 0.4, 0.3), priors) for line, priors in lines.items()}
    evaluator = TableEvaluator(entries, TableEntry((0.3, 0.4, 0.3), {}))
    with Graph.open(None, evaluator=evaluator) as graph:
        for line in lines:
            analyze(graph, after(line), Limits(visits=1))
        if gather != "flow":  # which asks for no more than a share of the root's N, here 1
            collisions = int(graph.arena.counters[arena_kernel.COLLISIONS])
            with gathering(graph, chess.Board(), gather, 16) as runner:
                leaves = leaves_of(runner, runner.gather())
                runner.drop()
            assert leaves.count(after("e4 e5 Nf3").epd()) == 1
            assert len(leaves) == len(set(leaves))
            assert graph.arena.counters[arena_kernel.COLLISIONS] > collisions
        analyze(graph, chess.Board(), Limits(visits=100), SearchParams(minibatch_size=16, gather=gather))
    assert evaluator.asked.count(after("e4 e5 Nf3").epd()) == 1


@pytest.mark.parametrize("gather", GATHERERS)
def test_a_terminal_is_backed_up_in_the_gather_and_takes_no_place_in_the_batch(gather: str) -> None:
    board = chess.Board(POSITIONS["mates below"])
    with (
        searched(POSITIONS["mates below"], 400, "uniform") as graph,
        gathering(graph, board, gather, 128, max_wave_share=1.0) as runner,
    ):
        before = graph.read(board)
        met = int(graph.arena.counters[arena_kernel.TERMINALS])
        count = runner.gather()
        now = graph.read(board)
        assert before is not None
        assert now is not None
        assert graph.arena.counters[arena_kernel.TERMINALS] > met
        assert now.visits > before.visits
        assert not any(chess.Board(f"{leaf} 0 1").is_checkmate() for leaf in leaves_of(runner, count))
        runner.drop()


@pytest.mark.parametrize("gather", GATHERERS)
@pytest.mark.parametrize("batch", [64, 4096])
def test_a_mate_is_the_best_move_however_few_visits_large_waves_give_it(gather: str, batch: int) -> None:
    with Graph.open(None, evaluator="uniform") as graph:
        params = SearchParams(minibatch_size=batch, gather=gather)
        result = analyze(graph, chess.Board(POSITIONS["mate near"]), Limits(evaluations=300), params)
    assert result.bestmove == chess.Move.from_uci("d1d8")


@pytest.mark.parametrize("gather", GATHERERS)
def test_a_huge_budget_on_a_few_nodes_ends_at_once(gather: str) -> None:
    for name in ("few nodes", "mate near", "start"):
        board = chess.Board(POSITIONS[name])
        with searched(POSITIONS[name], 10, "uniform") as graph:
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


# --------------------------------------------------------------------------- classic
def test_classic_ends_after_its_collision_events() -> None:
    board = chess.Board(KIWIPETE)
    with searched(KIWIPETE, 50) as graph:
        for events in (1, 5, 32):
            before = int(graph.arena.counters[arena_kernel.COLLISIONS])
            with gathering(graph, board, "classic", 4096, max_collision_events=events) as runner:
                assert runner.gather() < 4096
                runner.drop()
            assert graph.arena.counters[arena_kernel.COLLISIONS] - before == events


def test_a_collision_counts_for_the_visits_until_the_runner_up_overtakes() -> None:
    """With one multivisit allowed per event, the first collision ends a wave of MaxCollisionVisits 1."""
    board = chess.Board(KIWIPETE)
    with searched(KIWIPETE, 50) as graph:
        before = int(graph.arena.counters[arena_kernel.COLLISIONS])
        with gathering(graph, board, "classic", 4096, max_collision_visits=1) as runner:
            runner.gather()
            assert runner.wave.counts[wave_kernel.COLLISIONS_LEFT] == 0
            runner.drop()
        assert graph.arena.counters[arena_kernel.COLLISIONS] - before == 1


# --------------------------------------------------------------------------- budget
def test_budget_takes_one_leaf_a_child_of_a_new_root_and_counts_the_rest_as_collisions() -> None:
    """20 moves of P 1/20 and a budget of 60: three each, one leaf and two collisions."""
    with searched(chess.STARTING_FEN, 1, "uniform") as graph:
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


# --------------------------------------------------------------------------- exclude
def unknown_children(graph: Graph, root: chess.Board) -> set[str]:
    """Returns the positions that are one move from a known one and not known themselves."""
    found = set()
    for board, _ in records_below(graph, root).values():
        for move in board.legal_moves:
            board.push(move)
            if graph.read(board) is None:
                found.add(board.epd())
            board.pop()
    return found


@pytest.mark.parametrize("visits", [1, 21, 60])
def test_exclude_ends_when_everything_below_the_root_is_in_flight(visits: int) -> None:
    with (
        searched(chess.STARTING_FEN, visits, "uniform") as graph,
        gathering(graph, chess.Board(), "exclude", 4096) as runner,
    ):
        leaves = leaves_of(runner, runner.gather())
        assert runner.wave.counts[wave_kernel.ROUND] < 20
        assert len(leaves) == len(set(leaves))
        assert set(leaves) == unknown_children(graph, chess.Board())
        runner.drop()


def test_exclude_fills_a_batch_that_the_graph_has_leaves_for() -> None:
    with (
        searched(chess.STARTING_FEN, 2000, "uniform") as graph,
        gathering(graph, chess.Board(), "exclude", 8192) as runner,
    ):
        count = runner.gather()
        assert count == 8192 == len(set(leaves_of(runner, count)))
        assert runner.wave.counts[wave_kernel.VISITS_ASKED] < 3 * count
        runner.drop()


# --------------------------------------------------------------------------- flow
@pytest.mark.parametrize("share", [0.05, 0.25, 1.0])
def test_flow_gives_every_node_a_share_of_its_own_visits_at_most(share: float) -> None:
    with (
        searched(chess.STARTING_FEN, 2000, "uniform") as graph,
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


def best_edge(node: Node, taken: list[int], params: SearchParams) -> int:
    """Returns the edge that PUCT chooses with such visits in flight, which c(N + f) and FPU count as done."""
    norm = 1.0 / sum(code**4 for code in node.codes)
    priors = [code**4 * norm for code in node.codes]
    mass = [n + f for n, f in zip(node.n, taken, strict=True)]
    scale = puct.exploration_term(sum(mass), params.cpuct, params.cpuct_base, params.cpuct_factor)
    tried = sum(p for p, m in zip(priors, mass, strict=True) if m)
    fpu = puct.fpu(node.mean(), params.fpu_value, tried)
    values = [q if n else fpu for q, n in zip(node.q, node.n, strict=True)]
    scores = [puct.score(b, scale * p, 1.0 + m) for b, p, m in zip(values, priors, mass, strict=True)]
    return int(np.argmax(scores))


def test_flow_splits_the_visits_of_a_young_root_as_if_they_came_one_by_one() -> None:
    board, params = chess.Board(KIWIPETE), SearchParams(max_wave_share=1.0)
    node = ReferenceSearch(HashEvaluator(), SearchParams(minibatch_size=1)).run(board, 40)
    taken = [0] * len(node.n)
    for _ in range(16):
        taken[best_edge(node, taken, params)] += 1
    with (
        searched(KIWIPETE, 40) as graph,
        gathering(graph, board, "flow", 16, max_wave_share=1.0) as runner,
    ):
        runner.gather()
        entries = runner.wave.entries.reshape(-1, wave_kernel.ENTRY_WORDS).astype(np.int64)
        entries = entries[: int(runner.wave.counts[wave_kernel.ENTRIES])]
        second_round = np.flatnonzero(entries[:, wave_kernel.DEPTH] == 0)[1:2]
        entries = entries[: int(second_round[0])] if len(second_round) else entries
        first = entries[entries[:, wave_kernel.DEPTH] == 1]
        runner.drop()
    assert not any(node.r)
    assert len(first) > 1
    assert {int(e[wave_kernel.EDGE]): int(e[wave_kernel.ASKED]) for e in first} == {
        k: visits for k, visits in enumerate(taken) if visits
    }


def test_flow_fills_a_large_batch_from_a_young_graph_in_few_rounds() -> None:
    with Graph.open(None, evaluator="uniform") as graph:
        analyze(graph, chess.Board(KIWIPETE), Limits(evaluations=20_000), SearchParams(minibatch_size=16))
        with gathering(graph, chess.Board(KIWIPETE), "flow", 4096, max_wave_share=1.0) as runner:
            assert runner.gather() >= 0.95 * 4096
            assert runner.wave.counts[wave_kernel.ROUND] <= 8
            runner.drop()


# --------------------------------------------------------------------------- overlap
def test_the_next_wave_is_gathered_while_one_is_evaluated(monkeypatch: pytest.MonkeyPatch) -> None:
    """The gather of wave k + 1 ends before the answer to wave k is taken."""
    order: list[str] = []
    gathered = threading.Event()

    class Waits(HashEvaluator):
        def evaluate(self, batch: PositionBatch) -> Evaluation:
            if len(batch.words) > 8:
                assert gathered.wait(20), "nothing was gathered meanwhile"
                order.append("evaluated")
            return super().evaluate(batch)

    with Graph.open(None, evaluator=Waits()) as graph:
        analyze(graph, chess.Board(), Limits(visits=20), SearchParams(minibatch_size=1))
        runner = WaveRunner(graph, pack(chess.Board()), 64, overlap=True)
        set_params(graph.arena, SearchParams(minibatch_size=64, max_wave_share=1.0, gather="budget"))
        runner.step(BIG, BIG)  # sends the first wave off
        visits = graph.read(chess.Board()).visits  # type: ignore[union-attr]
        whole = runner._gather

        def noted(*arguments: Any) -> int:
            found = whole(*arguments)
            order.append("gathered")
            gathered.set()
            return found

        monkeypatch.setattr(runner, "_gather", noted)
        runner.step(BIG, BIG)
        assert order[0] == "gathered"
        runner.finish()
        assert graph.read(chess.Board()).visits > visits  # type: ignore[union-attr]
        runner.close()
        check_invariants(graph, chess.Board())


@pytest.mark.parametrize("gather", GATHERERS)
def test_waves_that_overlap_ask_for_no_position_twice(gather: str) -> None:
    evaluator = KeyedEvaluator()
    with Graph.open(None, evaluator=evaluator) as graph:
        params = SearchParams(minibatch_size=64, gather=gather)
        result = analyze(graph, chess.Board(KIWIPETE), Limits(visits=1500), params)
        check_invariants(graph, chess.Board(KIWIPETE))
    assert result.visits >= 1500
    assert len(evaluator.keys) == len(set(evaluator.keys)) == result.evaluations


@pytest.mark.parametrize(("share", "flies"), [(0.5, True), (0.01, False)])
def test_flow_overlaps_waves_only_where_the_next_one_can_be_full(share: float, flies: bool) -> None:
    """Of 3,000 visits a share of .5 is two waves of 16 and more; one of .01 has too few left for another."""
    board = chess.Board()
    with searched(chess.STARTING_FEN, 3000) as graph:
        set_params(graph.arena, SearchParams(minibatch_size=16, max_wave_share=share))
        runner = WaveRunner(graph, pack(board), 16, overlap=True)
        runner.step(BIG, BIG)
        assert graph.pager.under_way
        runner.step(BIG, BIG)
        assert bool(graph.pager.under_way) == flies
        runner.finish()
        runner.close()


@pytest.mark.parametrize("overlap", [0, 1])
@pytest.mark.parametrize(
    ("gather", "error"),
    [*((gather, EvaluatorError("broken")) for gather in GATHERERS), ("flow", KeyboardInterrupt())],
)
def test_an_evaluator_that_fails_leaves_nothing_in_flight(
    tmp_path: Path, gather: str, overlap: int, error: BaseException
) -> None:
    class Fails(HashEvaluator):
        def evaluate(self, batch: PositionBatch) -> Evaluation:
            if self.calls == 9:
                self.calls += 1
                raise error
            return super().evaluate(batch)

    board, evaluator = chess.Board(KIWIPETE), Fails()
    params = SearchParams(minibatch_size=32, gather=gather, overlap=overlap)
    with Graph.open(tmp_path / "a.graph", evaluator=evaluator) as graph:
        with pytest.raises(type(error)):
            analyze(graph, board, Limits(visits=500), params)
        check_invariants(graph, board)
        assert graph.pager.under_way == ()
        visits = graph.read(board).visits  # type: ignore[union-attr]
        assert 0 < visits < 500
        last = analyze(graph, board, Limits(visits=500 - visits), params).visits
        assert last >= 500
        check_invariants(graph, board)
    with Graph.open(tmp_path / "a.graph", evaluator=HashEvaluator()) as graph:
        check_invariants(graph, board)
        assert graph.read(board).visits == last  # type: ignore[union-attr]


def test_a_wave_does_not_take_what_the_one_before_has_in_flight() -> None:
    """A root whose every move is in flight with the wave before gives the next one nothing new."""
    board = chess.Board()
    with searched(chess.STARTING_FEN, 1) as graph:
        set_params(graph.arena, SearchParams(gather="exclude", minibatch_size=64))
        runner = WaveRunner(graph, pack(board), 64, overlap=True)
        runner.make_room()
        runner.step(BIG, BIG)
        assert graph.pager.under_way
        (slots,) = graph.pager.under_way
        assert [slot > 0 for slot in slots] == [True] + 20 * [False]  # the root, and leaves without a record
        runner.step(BIG, BIG)
        assert graph.read(board).visits == 21  # type: ignore[union-attr]
        assert not graph.pager.under_way
        runner.close()
