"""A stopped search goes on as if it had never been stopped; if waves overlap, from a complete wave."""

from __future__ import annotations

import itertools
import threading
from pathlib import Path
from typing import Any

import chess
import pytest

from graphsearch import Graph, Limits, SearchParams, analyze
from graphsearch.evaluators.protocol import Evaluation, Evaluator, PositionBatch
from graphsearch.search.params import GATHERERS

from ..support.graphs import check_invariants, numbers_below
from ..support.positions import KIWIPETE
from ..support.reference import HashEvaluator

BOARD = chess.Board(KIWIPETE)
SLICES: list[dict[str, Any]] = [  # limits of the sessions, again and again
    {"visits": 1},
    {"visits": 7},
    {"evaluations": 100},
    {"visits": 150},
    {"seconds": 0.002},  # a thousand visits of the fastest evaluator
    {"evaluations": 1},
]
VISITS = {1: 80, 16: 250, 64: 400}  # of a test's search, by batch: enough for some full waves
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
        *(("hash", 0, batch, "flow") for batch in VISITS),
        *(("hash", 1, 1, "flow"), ("builtin", 1, 16, "flow")),
        *(("hash", 0, 16, gather) for gather in GATHERERS if gather != "flow"),
    ],
)
def test_many_sessions_over_a_file_are_one_search(
    tmp_path: Path, name: str, overlap: int, batch: int, gather: str
) -> None:
    evaluator, params = made(name), searching(batch, overlap=overlap, gather=gather)
    assert_one_search(in_sessions(tmp_path / "a.graph", evaluator, params, VISITS[batch]), name, params)
    if isinstance(evaluator, HashEvaluator):
        assert evaluator.paid_once


def test_records_that_must_be_read_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graphsearch.graph.graph.LOADED_AT_ONCE", 0)
    params, path = searching(16, overlap=0), tmp_path / "a.graph"
    assert_one_search(
        in_sessions(path, HashEvaluator(), params, VISITS[16], ram_bytes=8_000_000), "hash", params
    )


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
    in_sessions(path, evaluator, params, VISITS[16])
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
