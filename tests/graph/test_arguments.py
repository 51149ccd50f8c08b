"""Arguments of the wrong kind to the public functions: one clear line, before anything is searched."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import chess
import pytest

from graphsearch import Graph, GraphSearchError, Limits, analyze, frame, show

BOARD = chess.Board()
CALLS: dict[str, Callable[[Any, Any], object]] = {
    "path": lambda graph, bad: Graph.open(bad, evaluator="uniform"),
    "path unevaluated": lambda graph, bad: Graph.open_unevaluated(bad),
    "table_bytes": lambda graph, bad: graph.use_entries(bad),
    "board of read": lambda graph, bad: graph.read(bad),
    "board of show": lambda graph, bad: show(graph, bad),
    "source": lambda graph, bad: show(bad, BOARD),
    "answer": lambda graph, bad: frame(bad),
    "graph": lambda graph, bad: analyze(bad, BOARD, Limits(visits=1)),
    "board": lambda graph, bad: analyze(graph, bad, Limits(visits=1)),
    "limits": lambda graph, bad: analyze(graph, BOARD, bad),
    "params": lambda graph, bad: analyze(graph, BOARD, Limits(visits=1), bad),
    **{
        name: lambda graph, bad, name=name: analyze(graph, BOARD, Limits(visits=1), **{name: bad})  # type: ignore[misc]
        for name in ("on_progress", "stop", "searchmoves", "pace", "mates", "lines", "run")
    },
}


@pytest.fixture(scope="module")
def graph() -> Graph:
    return Graph.open(None, evaluator="uniform")


@pytest.mark.parametrize("name", CALLS)
def test_an_argument_of_the_wrong_kind_is_named_in_one_line(name: str, graph: Graph) -> None:
    if name == "answer":
        pytest.importorskip("pandas")
    for bad in (3.5, {1: 2}, ["x" * 999], object()):
        with pytest.raises(GraphSearchError) as caught:
            CALLS[name](graph, bad)
        assert "\n" not in str(caught.value)
        assert len(str(caught.value)) < 300


def test_empty_limits_are_not_taken_for_none(graph: Graph) -> None:
    with pytest.raises(GraphSearchError, match="limits must be Limits, not 0"):
        analyze(graph, BOARD, 0)  # type: ignore[arg-type]
    with pytest.raises(GraphSearchError, match="interval must be a number of seconds, not 'x'"):
        analyze(graph, BOARD, Limits(visits=1), interval="x")  # type: ignore[arg-type]
