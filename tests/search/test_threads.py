"""Waves that overlap, of one thread or several: the same records, and nothing in flight after a failure."""

from __future__ import annotations

import itertools
import threading
from pathlib import Path
from typing import Any

import chess
import pytest

from graphsearch import Graph, Limits, SearchParams, analyze
from graphsearch.base.errors import EvaluatorError
from graphsearch.evaluators.factory import create
from graphsearch.evaluators.inside import Filler
from graphsearch.evaluators.protocol import Evaluation, PositionBatch
from graphsearch.position.board import pack
from graphsearch.search.params import GATHERERS
from graphsearch.search.visit_kernel import set_params
from graphsearch.search.waves import WaveRunner

from ..support.graphs import check_invariants, in_memory, numbers_below, read
from ..support.positions import KIWIPETE
from ..support.reference import HashEvaluator

BOARD = chess.Board(KIWIPETE)
VISITS = 900
BIG = 1 << 60


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
        visits = read(graph, BOARD).visits
        assert 0 < visits < VISITS
        assert analyze(graph, BOARD, Limits(visits=100), params).new_visits >= 100
        check_invariants(graph, BOARD)
    evaluator.close()


# ------------------------------------------------------------------ waves that overlap
def test_the_next_wave_is_gathered_while_one_is_evaluated(monkeypatch: pytest.MonkeyPatch) -> None:
    """The gather of wave k + 1 ends before the answer to wave k is taken."""
    order: list[str] = []
    gathered = threading.Event()

    class Waits(HashEvaluator):
        def evaluate(self, batch: PositionBatch) -> Evaluation:
            if len(batch.words) > 8:
                assert gathered.wait(60), "nothing was gathered meanwhile"
                order.append("evaluated")
            return super().evaluate(batch)

    with Graph.open(None, evaluator=Waits()) as graph:
        analyze(graph, chess.Board(), Limits(visits=20), SearchParams(minibatch_size=1))
        runner = WaveRunner(graph, pack(chess.Board()), 64, overlap=True)
        set_params(graph.arena.arrays, SearchParams(minibatch_size=64, max_wave_share=1.0, gather="budget"))
        runner.step(BIG, BIG)  # sends the first wave off
        visits = read(graph, chess.Board()).visits
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
        assert read(graph, chess.Board()).visits > visits
        runner.close()
        check_invariants(graph, chess.Board())


def test_flow_overlaps_waves_only_where_the_next_one_can_be_full() -> None:
    """Of 1,000 visits a share of .5 is two waves of 16 and more; one of .01 has too few left for another."""
    board = chess.Board()
    with in_memory(chess.STARTING_FEN, 1000) as graph:
        for share, flies in ((0.5, True), (0.01, False)):
            set_params(graph.arena.arrays, SearchParams(minibatch_size=16, max_wave_share=share))
            runner = WaveRunner(graph, pack(board), 16, overlap=True)
            runner.step(BIG, BIG)
            assert graph.pager.under_way
            runner.step(BIG, BIG)
            assert bool(graph.pager.under_way) == flies
            runner.finish()
            runner.close()


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
    with in_memory(chess.STARTING_FEN, 1) as graph:
        set_params(
            graph.arena.arrays, SearchParams(gather="budget", minibatch_size=64, max_collision_visits=10**6)
        )
        runner = WaveRunner(graph, pack(board), 64, overlap=True)
        runner.make_room()
        runner.step(BIG, BIG)
        assert graph.pager.under_way
        (slots,) = graph.pager.under_way
        assert len({int(slot) for slot in slots if slot}) == 1  # the root; leaves have no record yet
        runner.step(BIG, BIG)
        assert read(graph, board).visits == 21
        assert not graph.pager.under_way
        runner.close()
