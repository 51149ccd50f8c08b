"""How batches are filled, waves overlap and threads walk alone: nothing is lost or counted twice."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import chess
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphsearch import Graph, Limits, SearchParams, analyze
from graphsearch.base.errors import EvaluatorError, StoreError
from graphsearch.evaluators.factory import create
from graphsearch.evaluators.inside import Filler
from graphsearch.evaluators.protocol import Evaluation, PositionBatch
from graphsearch.graph import arena_kernel
from graphsearch.jit.compiler import kernel
from graphsearch.position.board import POSITION_WORDS, key_of_words, pack, unpack
from graphsearch.search import gather_kernel, loop, visit_kernel, wave_kernel, waves
from graphsearch.search.params import GATHERERS
from graphsearch.search.visit_kernel import set_params
from graphsearch.store.ranking import visits_of
from graphsearch.store.verify import verify
from tests.support.evaluators import TableEntry, TableEvaluator

from ..support import graphs
from ..support.graphs import ENDGAME, MATES, check_invariants, in_memory, numbers_below, read, records_below
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
    graph: Graph, board: chess.Board, gather: str, batch: int, *, overlap: bool = False, **fields: Any
) -> Iterator[waves.WaveRunner]:
    """Yields what gathers waves of a root by one gatherer."""
    params = SearchParams(gather=gather, minibatch_size=batch, **fields)
    set_params(graph.arena.arrays, params)
    runner = waves.WaveRunner(graph, pack(board), batch, overlap=overlap)
    runner.make_room()
    yield runner
    runner.close()


def leaves_of(runner: waves.WaveRunner, count: int) -> list[str]:
    """Returns the positions of a gathered batch, in its order."""
    return [unpack(row).epd() for row in runner.wave.leaf_words[: 10 * count].reshape(count, 10)]


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
            limit: Any = {"max_collision_visits": 10**9, "max_collision_events": 10**9, "max_wave_share": 1.0}
            with gathering(graph, board, gather, 1 << 16, **limit) as runner:
                count = runner.gather()
                assert 0 <= count <= 1 << 16
                assert len(set(leaves_of(runner, count))) == count
                runner.drop()


def test_a_search_that_can_find_nothing_more_ends() -> None:
    with Graph.open(None, evaluator="uniform") as graph:
        board = chess.Board(POSITIONS["few nodes"])
        result = analyze(graph, board, Limits(visits=10**9))
        assert result.stop_reason == "exhausted"
        assert result.nodes == result.evaluations <= 10
        check_invariants(graph, board)


@pytest.mark.parametrize("evaluator", ["uniform", HashEvaluator()])
def test_positions_on_a_cycle_that_refuse_each_other_s_visits_end_no_search(evaluator: Any) -> None:
    board, limits = chess.Board("8/8/8/1p6/1P5K/k7/8/8 w - - 0 1"), Limits(visits=1500, seconds=20)
    params = SearchParams(minibatch_size=64, catch_up_ratio=float("inf"))
    with Graph.open(None, evaluator=evaluator) as graph:
        assert analyze(graph, board, limits, params).stop_reason == "visits"


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


# ------------------------------------------------------------------ how one node splits visits
WAVE = wave_kernel.new_wave(4)


@kernel
def fill_in_kernel(W: Any, count: int, k: int) -> None:
    gather_kernel.fill(W, count, k)


@kernel
def divide_in_kernel(W: Any, m: int, total: int) -> None:
    gather_kernel.divide(W, m, total)


def load(edges: list[tuple[float, float, float]]) -> None:
    """Puts (value, c P, 1 + n + in flight) of every edge into the scratch columns."""
    for j, (base, gain, mass) in enumerate(edges):
        WAVE.floats[wave_kernel.BASE + j] = base
        WAVE.floats[wave_kernel.GAIN + j] = gain
        WAVE.floats[wave_kernel.MASS + j] = mass
        WAVE.counts[wave_kernel.SPLIT + j] = 0


def one_by_one(edges: list[tuple[float, float, float]], k: int) -> list[int]:
    """Gives every visit to the edge with the highest score, and counts it before the next."""
    taken = [0] * len(edges)
    for _ in range(k):
        scores = [base + gain / (mass + taken[j]) for j, (base, gain, mass) in enumerate(edges)]
        taken[int(np.argmax(scores))] += 1
    return taken


EDGES = st.lists(
    st.tuples(
        st.floats(-1, 1).map(lambda x: round(x, 3)),
        st.floats(0.001, 20).map(lambda x: round(x, 3)),
        st.integers(1, 400).map(float),
    ),
    min_size=1,
    max_size=12,
)


def fair(edges: list[tuple[float, float, float]], found: list[int]) -> bool:
    """Returns whether no visit would have gone elsewhere: the least taken is not below the best left."""
    last = min((b + g / (m + x - 1) for (b, g, m), x in zip(edges, found, strict=True) if x), default=9e9)
    best = max(b + g / (m + x) for (b, g, m), x in zip(edges, found, strict=True))
    return last >= best - 1e-9


@given(EDGES, st.integers(1, 500))
@settings(max_examples=50)
def test_the_level_is_what_visits_one_by_one_come_to(edges: list[tuple[float, float, float]], k: int) -> None:
    load(edges)
    fill_in_kernel(WAVE, len(edges), k)
    found = WAVE.counts[wave_kernel.SPLIT :][: len(edges)].tolist()
    assert sum(found) == k
    assert fair(edges, found)
    expected = one_by_one(edges, k)
    if found != expected:  # only ties may fall to other edges
        assert fair(edges, expected)
        assert sum(abs(a - b) for a, b in zip(found, expected, strict=True)) <= 2 * len(edges)


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=40), st.integers(0, 10**9))
@settings(max_examples=50)
def test_collisions_are_divided_without_rest(visits: list[int], total: int) -> None:
    if not sum(visits):
        return
    WAVE.counts[wave_kernel.SPLIT : wave_kernel.SPLIT + len(visits)] = visits
    divide_in_kernel(WAVE, len(visits), total)
    parts = WAVE.floats[wave_kernel.PART : wave_kernel.PART + len(visits)]
    assert parts.sum() == total
    for part, k in zip(parts, visits, strict=True):
        assert abs(part - total * k / sum(visits)) < 1


# ------------------------------------------------------------------ waves that overlap
BOARD = chess.Board(KIWIPETE)
VISITS = 900


def searching(batch: int, gather: str = "flow") -> SearchParams:
    """Returns parameters with which even a young graph has waves that overlap."""
    return SearchParams(minibatch_size=batch, max_wave_share=1.0, gather=gather)


def whole(
    threads: int, params: SearchParams, visits: int = VISITS, board: chess.Board = BOARD
) -> dict[int, Any]:
    with Graph.open(None, evaluator=create("builtin", {"threads": str(threads)})) as graph:
        analyze(graph, board, Limits(visits=visits), params)
        records = numbers_below(graph, board)
        graph.evaluator.close()
        return records


@pytest.mark.parametrize(("batch", "gather"), [(1, "flow"), (32, "flow"), (64, "classic")])
def test_records_do_not_depend_on_the_number_of_threads(batch: int, gather: str) -> None:
    visits = VISITS if batch > 1 else 300
    alone = whole(1, searching(batch, gather), visits)
    for threads in (2, 3):
        assert whole(threads, searching(batch, gather), visits) == alone


@pytest.mark.parametrize(
    ("threads", "error", "failing"),
    [("2", KeyboardInterrupt(), 10), ("2", MemoryError("broken"), 12), ("3", KeyboardInterrupt(), 14)],
)
def test_a_thread_that_fails_leaves_nothing_in_flight(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, threads: str, error: BaseException, failing: int
) -> None:
    evaluator, params, calls = create("builtin", {"threads": threads}), searching(64), itertools.count()
    plain = Filler._fill

    def fill(self: Filler, portion: int) -> None:
        if next(calls) == failing:
            raise error
        plain(self, portion)

    with Graph.open(tmp_path / "a.graph", evaluator=evaluator) as graph:
        monkeypatch.setattr(Filler, "_fill", fill)
        with pytest.raises(type(error)):
            analyze(graph, BOARD, Limits(visits=VISITS), params)
        assert graph.pager.under_way == ()
        assert 0 < read(graph, BOARD).visits < VISITS
        assert analyze(graph, BOARD, Limits(visits=100), params).new_visits >= 100
        check_invariants(graph, BOARD)
    evaluator.close()


# ------------------------------------------------------------------ waves that overlap
def test_the_next_wave_is_gathered_while_one_is_evaluated(monkeypatch: pytest.MonkeyPatch) -> None:
    """The gather of wave k + 1 ends before the answer to wave k is taken."""
    order, gathered = list[str](), threading.Event()

    class Waits(HashEvaluator):
        def evaluate(self, batch: PositionBatch) -> Evaluation:
            if len(batch.words) > 8:
                assert gathered.wait(60), "nothing was gathered meanwhile"
                order.append("evaluated")
            return super().evaluate(batch)

    board = chess.Board()
    with Graph.open(None, evaluator=Waits()) as graph:
        analyze(graph, board, Limits(visits=20), SearchParams(minibatch_size=1))
        with gathering(graph, board, "budget", 64, overlap=True, max_wave_share=1.0) as runner:
            runner.step(BIG, BIG)  # sends the first wave off
            visits = read(graph, board).visits
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
            assert read(graph, board).visits > visits
        check_invariants(graph, board)


def test_flow_overlaps_waves_only_where_the_next_one_can_be_full() -> None:
    """Of 1,000 visits a share of .5 is two waves of 16 and more; one of .01 has too few left for another."""
    board = chess.Board()
    with in_memory(chess.STARTING_FEN, 1000) as graph:
        for share, flies in ((0.5, True), (0.01, False)):
            with gathering(graph, board, "flow", 16, overlap=True, max_wave_share=share) as runner:
                runner.step(BIG, BIG)
                assert graph.pager.under_way
                runner.step(BIG, BIG)
                assert bool(graph.pager.under_way) == flies
                runner.finish()


@pytest.mark.parametrize(
    ("gather", "overlap", "error"),
    [
        *((gather, k % 2, EvaluatorError("broken")) for k, gather in enumerate(GATHERERS)),
        ("flow", 1, KeyboardInterrupt()),
    ],
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
            analyze(graph, board, Limits(visits=400), params)
        check_invariants(graph, board)
        assert graph.pager.under_way == ()
        visits = read(graph, board).visits
        assert 0 < visits < 400
        last = analyze(graph, board, Limits(visits=400 - visits), params).visits
        assert last >= 400
        check_invariants(graph, board)
    with Graph.open(tmp_path / "a.graph", evaluator=HashEvaluator()) as graph:
        check_invariants(graph, board)
        assert read(graph, board).visits == last


def test_a_wave_does_not_take_what_the_one_before_has_in_flight() -> None:
    """A root whose every move is in flight with the wave before gives the next one nothing new."""
    board = chess.Board()
    with (
        in_memory(chess.STARTING_FEN, 1) as graph,
        gathering(graph, board, "budget", 64, overlap=True, max_collision_visits=10**6) as runner,
    ):
        runner.step(BIG, BIG)
        assert graph.pager.under_way
        (slots,) = graph.pager.under_way
        assert len({int(slot) for slot in slots if slot}) == 1  # the root; leaves have no record yet
        runner.step(BIG, BIG)
        assert read(graph, board).visits == 21
        assert not graph.pager.under_way


# ------------------------------------------------------------------ threads that walk alone in one arena
WALKED = 1000


@pytest.fixture
def teams(monkeypatch: pytest.MonkeyPatch) -> list[waves.Walkers]:
    """Has small searches walk, too; returns the threads of all searches of a test."""
    found: list[waves.Walkers] = []
    plain = waves.Walkers.__init__

    def noted(self: waves.Walkers, *arguments: Any) -> None:
        plain(self, *arguments)
        found.append(self)

    monkeypatch.setattr(waves.Walkers, "__init__", noted)
    monkeypatch.setattr(loop, "WALK_FROM_VISITS", 200)
    return found


def threaded(threads: int, name: str = "builtin") -> Any:
    evaluator: Any = create(name, {"threads": str(threads)} if name == "builtin" else {})
    evaluator.threads = threads
    return evaluator


def check(graph: Graph, board: chess.Board, teams: list[waves.Walkers]) -> None:
    """Asserts that no visit is under way, that every visit is on its path's edges, and all invariants."""
    assert teams, "this is about threads"
    for team in teams:
        assert not team._guards[arena_kernel.FIRST_ROW :].any(), "locked, or noted as in flight"
    assert graph.pager.under_way == ()
    records = check_invariants(graph, board)
    if board.fen() == ENDGAME:  # some records are reached on paths with another clock only
        return
    assert len(records) == graph.node_count
    counted = sum(edge.n for _, record in records.values() for edge in record.edges)
    assert counted == graph.arena.counters[arena_kernel.PLIES]


@pytest.mark.parametrize(
    ("fen", "threads", "name"),
    [
        (chess.STARTING_FEN, 17, "builtin"),
        (KIWIPETE, 70, "uniform"),
        (ENDGAME, 5, "uniform"),
        (MATES, 2, "builtin"),
    ],
)
def test_records_are_consistent_with_more_threads_than_cores(
    teams: list[waves.Walkers], fen: str, threads: int, name: str
) -> None:
    board = chess.Board(fen)
    with Graph.open(None, evaluator=threaded(threads, name)) as graph:
        result = analyze(graph, board, Limits(visits=WALKED))
        if result.stop_reason == "visits":
            assert result.visits == WALKED
            assert result.new_visits == WALKED
        assert result.evaluations <= graph.node_count, "each position once"
        check(graph, board, teams)
        graph.evaluator.close()


def test_limits_hold_exactly_with_several_threads(teams: list[waves.Walkers]) -> None:
    with Graph.open(None, evaluator=threaded(4)) as graph:
        result = analyze(graph, BOARD, Limits(evaluations=1001))
        assert (result.evaluations, result.stop_reason) == (1001, "evaluations")
        assert analyze(graph, BOARD, Limits(visits=333)).new_visits == 333
        check(graph, BOARD, teams)
        graph.evaluator.close()


def test_slices_do_not_grow_while_threads_stop_for_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waves.Walkers, "walk", lambda *_: None)
    with Graph.open(None, evaluator=threaded(2)) as graph:
        runner = waves.WaveRunner(graph, pack(BOARD), 1, threads=2)
        runner.step(1000, 1000)
        assert runner._waves_per_slice == waves.FIRST_VISITS


def test_records_are_read_and_evicted_between_visits(teams: list[waves.Walkers], tmp_path: Path) -> None:
    path, most = tmp_path / "a.graph", 3_000
    for part in range(2):
        with Graph.open(path, evaluator=threaded(5, "uniform"), ram_bytes=500_000) as graph:
            assert analyze(graph, BOARD, Limits(visits=most)).visits == (1 + part) * most
            assert graph.pager.read_back or not part
            assert graph.pager.under_way == ()
            graphs.check_arena(graph.arena)
            graph.evaluator.close()
    assert all(not team._guards[arena_kernel.FIRST_ROW :].any() for team in teams)
    assert verify(path).ok
    with Graph.open(path, evaluator="uniform") as graph:
        check_invariants(graph, BOARD)


def test_full_memory_ends_the_search(teams: list[waves.Walkers]) -> None:
    with Graph.open(None, evaluator=threaded(3, "uniform"), ram_bytes=2_000_000) as graph:
        result = analyze(graph, BOARD, Limits(visits=200_000))
        assert result.stop_reason == "memory"
        assert all(not team._guards[arena_kernel.FIRST_ROW :].any() for team in teams)
        assert read(graph, BOARD).visits == result.visits
        graph.evaluator.close()


def test_a_thread_that_fails_leaves_sound_records(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, teams: list[waves.Walkers]
) -> None:
    plain, calls = visit_kernel.run_visits, itertools.count()

    def run(*arguments: Any) -> int:
        if next(calls) == 30:
            raise KeyboardInterrupt
        return plain(*arguments)

    with Graph.open(tmp_path / "a.graph", evaluator=threaded(3)) as graph:
        monkeypatch.setattr(visit_kernel, "run_visits", run)
        with pytest.raises(KeyboardInterrupt):
            analyze(graph, BOARD, Limits(visits=20_000))
        assert 0 < read(graph, BOARD).visits < 20_000
        assert analyze(graph, BOARD, Limits(visits=300)).new_visits == 300
        check(graph, BOARD, teams)
        graph.evaluator.close()


@pytest.mark.parametrize("error", [StoreError("gone"), KeyboardInterrupt()])
def test_visits_that_wait_are_dropped_if_their_records_cannot_be_read(
    monkeypatch: pytest.MonkeyPatch, teams: list[waves.Walkers], error: BaseException
) -> None:
    with Graph.open(None, evaluator=threaded(3)) as graph:
        analyze(graph, BOARD, Limits(visits=500))
        team = teams[0]

        def asks() -> list[Any]:
            team._guards[arena_kernel.FIRST_ROW + 1] = 1  # as of a visit that waits
            return [(team._waves[0], visit_kernel.NO_RECORDS)]

        def serve(*_: Any) -> None:
            raise error

        monkeypatch.setattr(team, "_run", asks)
        with pytest.raises(type(error)):
            team.walk(100, serve, 0.0)
        check(graph, BOARD, teams)
        graph.evaluator.close()


def test_a_search_that_is_soon_over_has_one_thread_and_repeats(
    monkeypatch: pytest.MonkeyPatch, teams: list[waves.Walkers]
) -> None:
    monkeypatch.undo()
    assert loop.WALK_FROM_VISITS == 10_000
    found = []
    for threads in (1, 4):
        with Graph.open(None, evaluator=threaded(threads)) as graph:
            analyze(graph, BOARD, Limits(visits=1000))
            found.append(read(graph, BOARD))
            graph.evaluator.close()
    assert found[0] == found[1]
    assert not teams


def test_small_memories_have_fewer_threads() -> None:
    with Graph.open(None, evaluator="uniform", ram_bytes=2_000_000) as graph:
        assert waves.walking_threads(graph, 1) == 1
        assert 2 <= waves.walking_threads(graph, 1000) < 10
    with Graph.open(None, evaluator="uniform", ram_bytes=4 << 30) as graph:
        assert waves.walking_threads(graph, 1000) == waves.MOST_THREADS
