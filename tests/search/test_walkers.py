"""Threads that walk alone in one arena: nothing is lost or counted twice, whatever stops them."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import chess
import pytest

from graphsearch import Graph, Limits, analyze
from graphsearch.base.errors import StoreError
from graphsearch.evaluators.factory import create
from graphsearch.graph import arena_kernel
from graphsearch.graph.arena_kernel import FIRST_ROW
from graphsearch.search import loop, visit_kernel, waves
from graphsearch.search.waves import Walkers
from graphsearch.store.verify import verify

from ..support.graphs import ENDGAME, MATES, check_invariants, read
from ..support.positions import KIWIPETE

BOARD = chess.Board(KIWIPETE)
VISITS = 1000


@pytest.fixture(autouse=True)
def teams(monkeypatch: pytest.MonkeyPatch) -> list[Walkers]:
    """Has small searches walk, too; returns the threads of all searches of a test."""
    found: list[Walkers] = []
    plain = Walkers.__init__

    def noted(self: Walkers, *arguments: Any) -> None:
        plain(self, *arguments)
        found.append(self)

    monkeypatch.setattr(Walkers, "__init__", noted)
    monkeypatch.setattr(loop, "WALK_FROM_VISITS", 200)
    return found


def threaded(threads: int, name: str = "builtin") -> Any:
    evaluator: Any = create(name, {"threads": str(threads)} if name == "builtin" else {})
    evaluator.threads = threads
    return evaluator


def check(graph: Graph, board: chess.Board, teams: list[Walkers]) -> None:
    """Asserts that no visit is under way, that every visit is on its path's edges, and all invariants."""
    assert teams, "this is about threads"
    for team in teams:
        assert not team._guards[FIRST_ROW:].any(), "locked, or noted as in flight"
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
        (KIWIPETE, 5, "uniform"),
        (ENDGAME, 5, "uniform"),
        (MATES, 2, "builtin"),
    ],
)
def test_records_are_consistent_with_more_threads_than_cores(
    teams: list[Walkers], fen: str, threads: int, name: str
) -> None:
    board = chess.Board(fen)
    with Graph.open(None, evaluator=threaded(threads, name)) as graph:
        result = analyze(graph, board, Limits(visits=VISITS))
        if result.stop_reason == "visits":
            assert result.visits == VISITS
            assert result.new_visits == VISITS
        assert result.evaluations <= graph.node_count, "each position once"
        check(graph, board, teams)
        graph.evaluator.close()


def test_limits_hold_exactly_with_several_threads(teams: list[Walkers]) -> None:
    with Graph.open(None, evaluator=threaded(4)) as graph:
        result = analyze(graph, BOARD, Limits(evaluations=1001))
        assert (result.evaluations, result.stop_reason) == (1001, "evaluations")
        assert analyze(graph, BOARD, Limits(visits=333)).new_visits == 333
        check(graph, BOARD, teams)
        graph.evaluator.close()


def test_records_are_read_and_evicted_between_visits(teams: list[Walkers], tmp_path: Path) -> None:
    path, visits, most = tmp_path / "a.graph", 0, 4_000
    for part in range(2):
        with Graph.open(path, evaluator=threaded(5, "uniform"), ram_bytes=700_000) as graph:
            result = analyze(graph, BOARD, Limits(visits=most))
            visits += most
            assert result.visits == visits
            if part:
                assert graph.pager.read_back
            assert graph.pager.under_way == ()
            graph.evaluator.close()
    assert all(not team._guards[FIRST_ROW:].any() for team in teams)
    assert verify(path).ok
    with Graph.open(path, evaluator="uniform") as graph:
        check_invariants(graph, BOARD)


def test_full_memory_ends_the_search(teams: list[Walkers]) -> None:
    with Graph.open(None, evaluator=threaded(3, "uniform"), ram_bytes=2_000_000) as graph:
        result = analyze(graph, BOARD, Limits(visits=200_000))
        assert result.stop_reason == "memory"
        assert all(not team._guards[FIRST_ROW:].any() for team in teams)
        assert read(graph, BOARD).visits == result.visits
        graph.evaluator.close()


def test_a_thread_that_fails_leaves_sound_records(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, teams: list[Walkers]
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
    monkeypatch: pytest.MonkeyPatch, teams: list[Walkers], error: BaseException
) -> None:
    with Graph.open(None, evaluator=threaded(3)) as graph:
        analyze(graph, BOARD, Limits(visits=500))
        team = teams[0]

        def asks() -> list[Any]:
            team._guards[FIRST_ROW + 1] = 1  # as of a visit that waits
            return [(team._waves[0], visit_kernel.NO_RECORDS)]

        def serve(*_: Any) -> None:
            raise error

        monkeypatch.setattr(team, "_run", asks)
        with pytest.raises(type(error)):
            team.walk(100, serve, 0.0)
        check(graph, BOARD, teams)
        graph.evaluator.close()


def test_a_search_that_is_soon_over_has_one_thread_and_repeats(
    monkeypatch: pytest.MonkeyPatch, teams: list[Walkers]
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
