"""A search that was stopped, however often and by whatever limit, goes on as if it had never been stopped."""

from __future__ import annotations

import itertools
import json
import shutil
import threading
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import chess
import pytest

from graphsearch import Graph, Limits, SearchParams, analyze
from graphsearch.evaluators.protocol import Evaluation, Evaluator, PositionBatch
from graphsearch.position.board import key_of
from graphsearch.search.in_flight import InFlight
from graphsearch.search.params import GATHERERS
from graphsearch.store.store import Store

from ..support.counting import CountingEvaluator
from ..support.graphs import check_invariants, numbers_below, records_below
from ..support.positions import KIWIPETE

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
    """Returns parameters with which even a young graph has large waves, and one in flight when it stops."""
    return SearchParams(minibatch_size=batch, max_wave_share=1.0, **others)


def made(name: str) -> str | Evaluator:
    return CountingEvaluator() if name == "hash" else name


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


def assert_paid_once(evaluator: str | Evaluator) -> None:
    assert isinstance(evaluator, CountingEvaluator)
    assert max(Counter(evaluator.asked).values()) == 1


# ------------------------------------------------------------------ limits
@pytest.mark.parametrize(
    ("name", "overlap", "batch", "gather"),
    [
        *(("hash", 1, batch, "flow") for batch in VISITS),
        *(("hash", 0, 16, "flow"), ("builtin", 1, 16, "flow")),
        *(("hash", 1, 16, gather) for gather in GATHERERS if gather != "flow"),
    ],
)
def test_many_sessions_over_a_file_are_one_search(
    tmp_path: Path, name: str, overlap: int, batch: int, gather: str
) -> None:
    evaluator, params = made(name), searching(batch, overlap=overlap, gather=gather)
    assert_one_search(in_sessions(tmp_path / "a.graph", evaluator, params, VISITS[batch]), name, params)
    if name == "hash":
        assert_paid_once(evaluator)


@pytest.mark.parametrize(
    ("name", "value", "options"),
    [
        ("graphsearch.graph.graph.LOADED_AT_ONCE", 0, {"ram_bytes": 8_000_000}),  # records must be read
        ("graphsearch.search.waves.QUIET_EVERY", 5, {}),  # waves after which nothing is in flight
    ],
    ids=["read", "quiet"],
)
def test_a_wave_in_flight_is_taken_up_again_when_it_would_have_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: int, options: dict[str, int]
) -> None:
    monkeypatch.setattr(name, value)
    params = searching(16)
    found = in_sessions(tmp_path / "a.graph", CountingEvaluator(), params, VISITS[16], **options)
    assert_one_search(found, "hash", params)


@pytest.mark.parametrize(("overlap", "saves"), [(0, False), (1, True)])
def test_many_searches_of_one_graph_are_one_search(tmp_path: Path, overlap: int, saves: bool) -> None:
    params = searching(16, overlap=overlap)
    with Graph.open(tmp_path / "a.graph" if saves else None, evaluator=CountingEvaluator()) as graph:
        for limits in SLICES:
            result = analyze(
                graph,
                BOARD,
                Limits(**limits),
                params,
                on_progress=lambda _: graph.begin_saving(),  # saves in between
                interval=0.0,
            )
        found = numbers_below(graph, BOARD), result.visits
    assert_one_search(found, "hash", params)


class Stopping(CountingEvaluator):
    """Sets an event in one of its calls, as a signal would."""

    def __init__(self, call: int) -> None:
        super().__init__()
        self.stop, self.left = threading.Event(), call

    def evaluate(self, batch: PositionBatch) -> Evaluation:
        self.left -= 1
        if self.left == 0:
            self.stop.set()
        return super().evaluate(batch)


@pytest.mark.parametrize(("overlap", "call"), [(1, 1), (0, 20), (1, 20)])
def test_an_interrupt_at_any_wave_changes_nothing(tmp_path: Path, overlap: int, call: int) -> None:
    params, evaluator = searching(48, overlap=overlap), Stopping(call)
    with Graph.open(tmp_path / "a.graph", evaluator=evaluator) as graph:
        assert analyze(graph, BOARD, params=params, stop=evaluator.stop).stop_reason == "stop"
    with Graph.open(tmp_path / "a.graph", evaluator=evaluator) as graph:
        result = analyze(graph, BOARD, Limits(visits=350), params)
        found = numbers_below(graph, BOARD), result.visits
    assert_one_search(found, "hash", params)
    assert_paid_once(evaluator)


# ------------------------------------------------------------------ how many visits a limit makes
@pytest.mark.parametrize("batch", [1, 256])
def test_a_young_graph_makes_the_visits_of_a_limit_or_a_quarter_more(batch: int) -> None:
    for visits in (1, 2, 10, 50, 400):
        with Graph.open(None, evaluator="uniform") as graph:
            made = analyze(graph, BOARD, Limits(visits=visits), SearchParams(minibatch_size=batch)).new_visits
        assert visits <= made <= (visits if batch == 1 else visits * 1.25)


def test_a_limit_ends_at_the_end_of_the_wave_that_reaches_it() -> None:
    with Graph.open(None, evaluator="uniform") as graph:
        params = SearchParams(minibatch_size=256, max_wave_share=1.0)
        analyze(graph, BOARD, Limits(visits=5_000), params)
        result = analyze(graph, BOARD, Limits(evaluations=257), params)
        assert result.evaluations == 512
        assert result.stop_reason == "evaluations"


# ------------------------------------------------------------------ what is not taken up
@pytest.fixture(scope="module")
def in_flight(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A file of a stopped search, and its wave in flight as the file keeps it."""
    path = tmp_path_factory.mktemp("stopped") / "a.graph"
    with Graph.open(path, evaluator=CountingEvaluator()) as graph:
        analyze(graph, BOARD, Limits(visits=300), searching(16))
    with Store.open(path, read_only=True) as store:
        text = store.read_fact("in_flight")
    assert text
    return path, text


@pytest.fixture
def stopped(in_flight: tuple[Path, str], tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copy(in_flight[0], tmp_path / "a.graph"))


def test_another_search_forgets_what_was_in_flight(stopped: Path) -> None:
    params, other = searching(16), BOARD.copy()
    other.push_san("Qxf6")
    with Graph.open(stopped, evaluator=CountingEvaluator()) as graph:
        analyze(graph, other, Limits(visits=1), params)
        assert graph.in_flight is None
        analyze(graph, BOARD, Limits(visits=100), params)
        assert graph.in_flight
        analyze(graph, BOARD, Limits(visits=1), replace(params, minibatch_size=8))
        assert graph.in_flight is None
    with Store.open(stopped, read_only=True) as store:
        assert store.read_fact("in_flight") is None


def broken(text: str, **fields: Any) -> str:
    return json.dumps(json.loads(text) | fields)


def test_a_text_that_is_no_wave_is_passed_over(in_flight: tuple[Path, str]) -> None:
    _, text = in_flight
    good = InFlight.parse(text, most=1000)
    assert good
    assert good.text() == text
    assert InFlight.parse(text, most=10) is None
    bad_trees = []
    for row, column, value in [(0, 0, 0), (5, 0, 900), (5, 0, -2), (-1, 2, 99), (-1, 0, -1)]:
        tree = good.tree.copy()
        tree[row, column] = value
        bad_trees.append(replace(good, tree=tree).text())
    flights = good.flights.copy()
    flights[0, 0] = len(good.tree)
    for bad in [
        "", "[]", "{}", "[" * 100_000, broken(text, waves=-1), broken(text, tree="AAAA"),
        broken(text, tree=1), replace(good, flights=flights).text(), *bad_trees,
    ]:  # fmt: skip
        assert InFlight.parse(bad, most=1000) is None


@pytest.mark.parametrize("change", ["edge", "flight", "leaf twice", "leaf known"])
def test_a_wave_that_does_not_fit_the_graph_is_dropped_without_a_trace(
    stopped: Path, in_flight: tuple[Path, str], change: str
) -> None:
    evaluator, found = CountingEvaluator(), InFlight.parse(in_flight[1], most=1000)
    assert found
    tree, flights = found.tree.copy(), found.flights.copy()
    first, second, *_ = (tree[:, 2] >= 0).nonzero()[0].tolist()
    if change == "edge":
        tree[1, 1] = 217
    elif change == "flight":
        flights[0, 1] = 217
    elif change == "leaf twice":
        tree[second, :2] = tree[first, :2]
    else:
        tree[first, :2] = tree[1, :2]
    with Graph.open(stopped, evaluator=evaluator) as graph:
        graph.in_flight = replace(found, tree=tree, flights=flights).text()
        known = set(records_below(graph, BOARD))
        analyze(graph, BOARD, Limits(visits=100), searching(16))
        check_invariants(graph, BOARD)
    assert_paid_once(evaluator)
    assert not known & {key_of(chess.Board(f"{epd} 0 1")) for epd in evaluator.asked}
