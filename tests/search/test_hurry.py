"""Searches that wait for nothing: saving comes later. Batches are as large as evaluator and caller want."""

from __future__ import annotations

import itertools
import time
from pathlib import Path

import chess
import pytest

from graphsearch import Graph, Limits, SearchParams, analyze
from graphsearch.evaluators.protocol import OUTSIDE_BATCH, Evaluation, PositionBatch
from graphsearch.graph.view import show
from graphsearch.store.store import Store

from ..support.graphs import check_invariants, records_below
from ..support.positions import after_line
from ..support.reference import HashEvaluator


@pytest.mark.usefixtures("nothing_saved_meanwhile")
def test_a_search_in_a_hurry_is_saved_when_there_is_time(tmp_path: Path) -> None:
    path = tmp_path / "a.graph"
    board = chess.Board()
    with Graph.open(path, evaluator=HashEvaluator()) as graph:
        graph.tables_meanwhile = False
        result = analyze(graph, board, Limits(visits=300), hurry=True)
        assert result.visits >= 300
        assert show(path, board) is None
        while not graph.save_soon():
            time.sleep(0.01)
        node = show(path, board)
        assert node is not None
        assert node.visits == result.visits
        with Store.open(path, read_only=True) as store:
            (run,) = store.runs()
            assert (run.visits, run.evaluations) == (result.visits, result.evaluations)
            assert not store.roots()
    with Store.open(path, read_only=True) as store:
        assert len(store.runs()) == 1


def test_closing_saves_what_a_search_in_a_hurry_left(tmp_path: Path) -> None:
    path = tmp_path / "a.graph"
    with Graph.open(path, evaluator=HashEvaluator()) as graph:
        for line in ("", "e4"):
            analyze(graph, after_line(line), Limits(visits=100), hurry=True)
        whole = records_below(graph, chess.Board())
    with Graph.open(path, evaluator=HashEvaluator()) as graph:
        again = records_below(graph, chess.Board())
    assert again == whole
    with Store.open(path, read_only=True) as store:
        assert [run.id for run in store.runs()] == [1, 2]
        assert len(store.roots()) == 2
        asked = {int(run) for batch in store.scan() for run in batch.run}
    assert asked == {1, 2}, "every record names the run that made it"


class SizedEvaluator(HashEvaluator):
    """Notes the size of every batch."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []

    def evaluate(self, batch: PositionBatch) -> Evaluation:
        self.sizes.append(len(batch))
        return super().evaluate(batch)


def test_no_batch_is_larger_than_the_pace_allows_and_nothing_is_asked_twice() -> None:
    evaluator, sizes = SizedEvaluator(), itertools.cycle([1, 2, 1, 4, 1, 8])
    asked: list[tuple[int, float]] = []

    def pace(leaves: int, seconds: float) -> int:
        asked.append((leaves, seconds))
        return next(sizes)

    with Graph.open(None, evaluator=evaluator) as graph:
        analyze(graph, chess.Board(), Limits(visits=300), SearchParams(minibatch_size=64), pace=pace)
        check_invariants(graph, chess.Board())
    assert max(evaluator.sizes) == 8
    assert {leaves for leaves, _ in asked} <= set(evaluator.sizes) | {0}
    assert all(seconds > 0 for leaves, seconds in asked if leaves)
    assert len(evaluator.asked) == len(set(evaluator.asked))


# ------------------------------------------------------------------ the default batch
def test_an_evaluator_outside_the_kernels_gets_as_many_as_it_wants() -> None:
    evaluator = SizedEvaluator()
    with Graph.open(None, evaluator=evaluator) as graph:
        analyze(graph, chess.Board(), Limits(visits=1500))
    assert max(evaluator.sizes) == OUTSIDE_BATCH
    evaluator.batch_size, evaluator.sizes = 4, []
    with Graph.open(None, evaluator=evaluator) as graph:
        analyze(graph, chess.Board(), Limits(visits=300))
    assert max(evaluator.sizes) == 4
