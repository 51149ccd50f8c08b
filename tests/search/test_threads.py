"""A search with several threads: the same records as with one, and nothing in flight after a failure."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import chess
import pytest

from graphsearch import Graph, Limits, SearchParams, analyze
from graphsearch.evaluators.factory import create
from graphsearch.evaluators.inside import Filler

from ..support.graphs import check_invariants, numbers_below

BOARD = chess.Board("r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1")
VISITS = 1200
SLICES: list[dict[str, Any]] = [{"visits": 500}, {"evaluations": 120}, {"visits": 1}]


def searching(batch: int, gather: str = "flow") -> SearchParams:
    """Returns parameters with which even a young graph has waves that overlap."""
    return SearchParams(minibatch_size=batch, max_wave_share=1.0, gather=gather)


def whole(threads: int, params: SearchParams, visits: int = VISITS) -> dict[int, Any]:
    with Graph.open(None, evaluator=create("builtin", {"threads": str(threads)})) as graph:
        analyze(graph, BOARD, Limits(visits=visits), params)
        records = numbers_below(graph, BOARD)
        graph.evaluator.close()
        return records


@pytest.mark.parametrize(("batch", "gather"), [(1, "flow"), (32, "flow"), (128, "flow"), (64, "classic")])
def test_records_do_not_depend_on_the_number_of_threads(batch: int, gather: str) -> None:
    visits = VISITS if batch > 1 else 300
    alone = whole(1, searching(batch, gather), visits)
    for threads in (2, 3):
        assert whole(threads, searching(batch, gather), visits) == alone


def test_sessions_with_different_numbers_of_threads_are_one_search(tmp_path: Path) -> None:
    params, visits, kept = searching(64), 0, 0
    for limits, threads in zip(itertools.cycle(SLICES), itertools.cycle("12")):
        evaluator = create("builtin", {"threads": threads})
        with Graph.open(tmp_path / "a.graph", evaluator=evaluator) as graph:
            visits = analyze(graph, BOARD, Limits(**limits), params).visits
            kept += graph.in_flight is not None
            found = numbers_below(graph, BOARD)
        evaluator.close()
        if visits >= VISITS:
            break
    assert kept, "a stop with a wave in flight is what this is about"
    assert found == whole(2, params, visits)


def test_waves_of_a_kernel_overlap_and_every_thread_evaluates(monkeypatch: pytest.MonkeyPatch) -> None:
    evaluator = create("builtin", {"threads": "2"})
    plain, seen = Filler._fill, set()
    with Graph.open(None, evaluator=evaluator) as graph:

        def fill(self: Filler, portion: int, thread: int) -> None:
            seen.add(thread)
            plain(self, portion, thread)

        monkeypatch.setattr(Filler, "_fill", fill)
        result = analyze(graph, BOARD, Limits(visits=3000), searching(64))
        assert result.visits >= 3000
        assert graph.in_flight, "waves overlapped to the end"
    evaluator.close()
    assert seen == {0, 1}


def test_waves_that_a_clock_keeps_small_go_alone() -> None:
    """A wave of one visit is a single path, which no wave behind it could see."""
    with Graph.open(None, evaluator=create("builtin", {"threads": "2"})) as graph:
        analyze(graph, BOARD, Limits(visits=VISITS), searching(64))
        result = analyze(graph, BOARD, Limits(visits=200), searching(64), pace=lambda leaves, seconds: 1)
        assert graph.in_flight is None
        assert result.visits >= VISITS + 200
        check_invariants(graph, BOARD)
        graph.evaluator.close()


@pytest.mark.parametrize(
    ("threads", "error", "failing"),
    [("1", KeyboardInterrupt(), 30), ("1", MemoryError("broken"), 20), ("3", KeyboardInterrupt(), 60)],
)
def test_a_thread_that_fails_leaves_nothing_in_flight(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, threads: str, error: BaseException, failing: int
) -> None:
    evaluator, params, calls = create("builtin", {"threads": threads}), searching(64), itertools.count()
    plain = Filler._fill

    def fill(self: Filler, portion: int, thread: int) -> None:
        if next(calls) == failing:
            raise error
        plain(self, portion, thread)

    with Graph.open(tmp_path / "a.graph", evaluator=evaluator) as graph:
        monkeypatch.setattr(Filler, "_fill", fill)
        with pytest.raises(type(error)):
            analyze(graph, BOARD, Limits(visits=VISITS), params)
        assert graph.pager.under_way == ()
        assert graph.in_flight is None
        visits = graph.read(BOARD).visits  # type: ignore[union-attr]
        assert 0 < visits < VISITS
        assert analyze(graph, BOARD, Limits(visits=100), params).new_visits >= 100
        check_invariants(graph, BOARD)
    evaluator.close()
