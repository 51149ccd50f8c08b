"""A graph with a small memory is the graph with a large one, bit for bit (invariant 4)."""

from __future__ import annotations

import math
import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import chess
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

import graphsearch.graph.graph
import graphsearch.graph.reading
from graphsearch import Graph, Limits, SearchParams, analyze
from graphsearch.base.errors import StoreError
from graphsearch.graph import arena_kernel
from graphsearch.position.board import key_of, pack
from graphsearch.search.waves import WaveRunner
from graphsearch.store.record import NodeRecord
from graphsearch.store.store import Store
from graphsearch.store.tables.top import TopTables
from graphsearch.store.verify import verify
from tests.support.graphs import check_arena, numbers_below, records_below, records_of
from tests.support.positions import KIWIPETE, after_line
from tests.support.reference import HashEvaluator

ENDGAME = "8/2p5/3p4/KP5r/1R3p1k/8/4P1P1/8 w - - 0 1"
SMALL = 400_000  # bytes: some 1,300 nodes

pytestmark = pytest.mark.usefixtures("small_memories")


def stored(path: Path) -> dict[tuple[int, ...], NodeRecord]:
    with Store.open(path, read_only=True) as store:
        return {record.words: record for batch in store.scan() for record in records_of(batch)}


def outcome(
    path: Path, ram: int | None, evaluator: Any, fen: str, visits: int, fields: dict[str, Any]
) -> Any:
    """Returns what a search in two parts has found and saved, and how many nodes were evicted."""
    found, evicted = [], 0
    for _ in range(2):
        with Graph.open(path, evaluator=evaluator, ram_bytes=ram) as graph:
            limits = Limits(visits=visits // 2)
            result = analyze(graph, chess.Board(fen), limits, SearchParams(**fields))
            evicted += int(graph.arena.counters[arena_kernel.EVICTED])
            check_arena(graph.arena)
        found.append(result.as_dict() | {"seconds": 0.0, "store": ""} | {"nodes": result.nodes})
    return found, stored(path), evicted


@pytest.mark.parametrize(
    ("fen", "evaluator", "visits", "ram", "fields"),
    [
        (chess.STARTING_FEN, "uniform", 2_400, 250_000, {"minibatch_size": 1}),
        (KIWIPETE, "builtin", 1_600, 190_000, {"minibatch_size": 16, "max_wave_share": 1.0}),
        (ENDGAME, "hash", 1_000, 90_000, {"minibatch_size": 16, "overlap": 0}),
        (ENDGAME, "hash", 1_800, 200_000, {"minibatch_size": 16}),
        (chess.STARTING_FEN, "uniform", 1_000, 130_000, {"minibatch_size": 32, "gather": "classic"}),
        (chess.STARTING_FEN, "uniform", 1_000, 130_000, {"minibatch_size": 32, "gather": "budget"}),
    ],
    ids=["one by one", "batches inside", "outside", "overlap", "classic", "budget"],
)
def test_a_small_memory_finds_and_saves_what_a_large_one_does(
    tmp_path: Path, fen: str, evaluator: str, visits: int, ram: int, fields: dict[str, Any]
) -> None:
    chosen = HashEvaluator() if evaluator == "hash" else evaluator
    large = outcome(tmp_path / "large.graph", None, chosen, fen, visits, fields)
    small = outcome(tmp_path / "small.graph", ram, chosen, fen, visits, fields)
    assert small[2] > 100
    assert small[0] == large[0]
    assert small[1] == large[1]
    assert verify(tmp_path / "small.graph").ok


def test_waves_that_pass_the_budget_do_not_empty_the_memory_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a wave takes for a moment, the next one takes again: to give it back would only drop records."""
    emptied = 0
    start_over = graphsearch.graph.reading.Pager.start_over

    def counting(pager: graphsearch.graph.reading.Pager) -> bool:
        nonlocal emptied
        emptied += 1
        return start_over(pager)

    monkeypatch.setattr(graphsearch.graph.reading.Pager, "start_over", counting)
    with Graph.open(tmp_path / "a.graph", evaluator="uniform", ram_bytes=340_000) as graph:
        result = analyze(graph, chess.Board(), Limits(visits=2000), SearchParams(minibatch_size=64))
        assert result.stop_reason == "visits"
        assert graph.arena.counters[arena_kernel.EVICTED] > 100
    assert emptied < 10


def test_memory_stays_within_its_budget_and_the_waste_in_it_is_bounded(tmp_path: Path) -> None:
    most = 0
    with Graph.open(tmp_path / "a.graph", evaluator="uniform", ram_bytes=SMALL) as graph:

        def look(_: object) -> None:
            nonlocal most
            most = max(most, graph.arena.bytes_used + graph.arena.log_bytes)

        params = SearchParams(minibatch_size=64)
        result = analyze(graph, chess.Board(), Limits(visits=3_500), params, on_progress=look, interval=0.0)
        assert result.nodes > 1.5 * graph.arena.node_count
        assert graph.arena.counters[arena_kernel.EVICTED] > 1_000
        check_arena(graph.arena)
    assert most < 1.1 * SMALL


def test_draws_of_a_games_history_survive_eviction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    board, results = after_line("Nf3 Nf6 Ng1 Ng8 Nf3 Nf6 Ng1"), []
    busy, real = threading.Event(), Store.checkpoint
    monkeypatch.setattr(Store, "checkpoint", lambda *a, **k: busy.wait(0.02) or real(*a, **k))
    for name, ram in (("large", None), ("small", 170_000)):
        path = tmp_path / f"{name}.graph"
        with Graph.open(path, evaluator=HashEvaluator(), ram_bytes=ram) as graph:
            graph.pager.complete = False
            done = analyze(graph, board, Limits(visits=1200), SearchParams(minibatch_size=16))
            assert ram is None or graph.arena.counters[arena_kernel.EVICTED] > 100
        moves = [(m.move, m.n, m.q) for m in done.node.moves]
        results.append((done.unkept_visits, moves, stored(path)))
    assert results[0][0] > 0
    assert results[0] == results[1]


def test_visits_in_flight_keep_their_edges_when_their_records_leave_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A collision's path is not pinned: every reading evicts whatever may go, and the search is the same."""
    bring = graphsearch.graph.reading.Pager.bring
    params = SearchParams(
        minibatch_size=64, gather="classic", overlap=0, max_collision_events=1000, catch_up_ratio=math.inf
    )
    found = []
    for forced in (False, True):

        def evict_first(self: Any, words: Any, pinned: Any, forced: bool = forced) -> None:
            if forced:
                graph.arena.evict(1 << 62, 0, (*self.under_way, pinned))
            bring(self, words, pinned)

        monkeypatch.setattr(graphsearch.graph.reading.Pager, "bring", evict_first)
        path = tmp_path / f"{forced}.graph"
        with Graph.open(path, evaluator=HashEvaluator()) as graph:
            board = chess.Board("8/8/4k3/8/8/4K3/8/R6r w - - 0 1")
            analyze(graph, board, Limits(visits=600), params)
            graph.pager.start_over()
            result = analyze(graph, board, Limits(visits=200), params)
        found.append((result.collisions, stored(path)))
    assert found[0] == found[1]


# --------------------------------------------------------------------------- saving in the background
@contextmanager
def commits_held(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Keeps the writer from its next COMMIT until the event is set."""
    go, commit = threading.Event(), TopTables.follow

    def wait(self: TopTables, read: Any) -> None:
        go.wait()
        commit(self, read)

    monkeypatch.setattr(TopTables, "follow", wait)
    try:
        yield go
    finally:
        go.set()


def test_a_search_goes_on_while_records_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Graph.open(tmp_path / "a.graph", evaluator=HashEvaluator()) as graph:
        analyze(graph, chess.Board(), Limits(visits=100), SearchParams(minibatch_size=8))
        with Graph.open(None, evaluator=HashEvaluator()) as whole:
            made = 0
            for goal in (100, 150, 200, 250):
                limits = Limits(visits=goal - made)
                made += analyze(whole, chess.Board(), limits, SearchParams(minibatch_size=8)).new_visits
            expected = numbers_below(whole, chess.Board())
        runner = WaveRunner(graph, pack(chess.Board()), 8)
        with commits_held(monkeypatch) as go:
            step_to(graph, runner, 150)
            graph.begin_saving()
            step_to(graph, runner, 200)
            assert not graph.settle(wait=False)
            assert not graph.pager.start_over()  # what is being written stays
            check_arena(graph.arena)
            go.set()
            assert graph.settle(wait=True)
        step_to(graph, runner, 250)
        graph.flush()
        assert numbers_below(graph, chess.Board()) == expected
        count = graph.node_count
    with Store.open(tmp_path / "a.graph", read_only=True) as store:
        assert store.node_count == count == len(expected)


def step_to(graph: Graph, runner: WaveRunner, visits: int) -> None:
    while (record := graph.read(chess.Board())) and record.visits < visits:
        runner.step(visits - record.visits, 1 << 30)


def test_records_changed_while_a_save_fails_are_saved_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Graph.open(tmp_path / "a.graph", evaluator=HashEvaluator()) as graph:
        analyze(graph, chess.Board(), Limits(visits=100), SearchParams(minibatch_size=8))
        runner = WaveRunner(graph, pack(chess.Board()), 8)
        step_to(graph, runner, 150)
        with monkeypatch.context() as patch:

            def fail(*_: object, **__: object) -> None:
                raise StoreError("the disk is full")

            patch.setattr(Store, "append_batches", fail)
            graph.begin_saving()
            step_to(graph, runner, 170)
            with pytest.raises(StoreError, match="full"):
                graph.settle(wait=True)
        assert graph.arena.dirty_count > 0
        assert graph.flush() > 0
        count = graph.node_count
        expected = {r.words: r for _, r in records_below(graph, chess.Board()).values()}
    assert stored(tmp_path / "a.graph") == expected
    assert len(expected) == count


# --------------------------------------------------------------------------- against a dict
ROOTS = (chess.STARTING_FEN, ENDGAME, "8/8/4k3/8/8/4K3/4P3/R6r w - - 93 80")


class MemoryMachine(RuleBasedStateMachine):
    """Searches, saves, evicts and reopens a graph, and looks up all of it in the records of a plain one."""

    def __init__(self) -> None:
        super().__init__()
        self.before = graphsearch.graph.graph.LOADED_AT_ONCE
        graphsearch.graph.graph.LOADED_AT_ONCE = 0

    @initialize(data=st.data())
    def open(self, data: Any) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "machine.graph"
        self.model: dict[int, tuple[chess.Board, NodeRecord]] = {}
        self.runs: dict[int, int] = {}
        self.searches = 0
        self.plain = Graph.open(None, evaluator=HashEvaluator())
        self.graph = Graph.open(self.path, evaluator=HashEvaluator())

    @rule(root=st.sampled_from(ROOTS), visits=st.integers(1, 80), batch=st.sampled_from([1, 2, 16, 40]))
    def search(self, root: str, visits: int, batch: int) -> None:
        board, params = chess.Board(root), SearchParams(minibatch_size=batch)
        results = [
            analyze(graph, board, Limits(visits=visits), params).as_dict() | {"seconds": 0.0, "store": None}
            for graph in (self.plain, self.graph)
        ]
        assert results[0] == results[1]
        self.model |= records_below(self.plain, board)
        self.searches += 1
        self.runs = dict.fromkeys(self.model, self.searches) | self.runs

    @rule(share=st.integers(1, 16))
    def evict(self, share: int) -> None:
        self.graph.pager.complete = False
        self.graph.arena.evict(self.graph.arena.bytes_used // share, 1 << 40)

    @rule()
    def evict_all(self) -> None:
        self.graph.pager.start_over()

    @rule()
    def begin_saving(self) -> None:
        self.graph.begin_saving()

    @rule(wait=st.booleans())
    def settle(self, wait: bool) -> None:
        self.graph.settle(wait=wait)

    @rule(whole=st.booleans())
    def reopen(self, whole: bool) -> None:
        self.graph.close()
        graphsearch.graph.graph.LOADED_AT_ONCE = 100_000 if whole else 0
        self.graph = Graph.open(self.path, evaluator=HashEvaluator())

    @invariant()
    def holds_what_a_plain_graph_does(self) -> None:
        if hasattr(self, "graph"):
            check_arena(self.graph.arena)
            assert self.graph.node_count == self.plain.node_count
            for key, (board, record) in self.model.items():
                assert key_of(board) == key
                assert self.graph.read(board) == replace(record, run=self.runs[key])

    def teardown(self) -> None:
        graphsearch.graph.graph.LOADED_AT_ONCE = self.before
        if hasattr(self, "graph"):
            self.graph.close()
            assert verify(self.path).ok
            self.folder.cleanup()


TestMemoryMachine = MemoryMachine.TestCase
TestMemoryMachine.settings = settings(
    max_examples=50 if os.environ.get("GRAPHSEARCH_FULL") else 3, stateful_step_count=12
)
