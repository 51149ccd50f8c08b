"""What a notebook shows of results, nodes, trees and graphs."""

from __future__ import annotations

from typing import Any

import chess
import pytest

from graphsearch import Graph, Limits, analyze, frame, show
from graphsearch.query.tree import tree


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    path = tmp_path_factory.mktemp("notebook") / "a.graph"
    with Graph.open(path, evaluator="uniform") as graph:
        found = {"result": analyze(graph, chess.Board(), Limits(visits=200)), "graph": repr(graph)}
    return found | {"node": show(path, chess.Board()), "tree": tree(path, chess.Board(), min_visits=5)}


@pytest.mark.parametrize("name", ["result", "node", "tree"])
def test_an_answer_is_a_short_line_a_board_with_a_table_and_a_frame(
    answers: dict[str, Any], name: str
) -> None:
    found = answers[name]
    assert len(repr(found)) < 200
    shown = found._repr_html_()
    assert "<svg" in shown
    assert shown.count("<tr>") > 5
    assert len(frame(found)) >= 20
