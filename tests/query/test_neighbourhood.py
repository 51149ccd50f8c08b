"""The positions around one: the best-visited ones, each once, with all their ways in, in layers."""

from __future__ import annotations

from pathlib import Path

import chess
import pytest

from graphsearch.position.board import key_of
from graphsearch.query.neighbourhood import Neighbourhood, neighbourhood

from ..support.positions import after_line
from .handmade import LINES, graph_file

START = chess.Board()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return graph_file(tmp_path / "hand.graph", LINES)


def keys_of(found: Neighbourhood) -> set[str]:
    return {node.key for node in found.nodes}


def key(line: str) -> str:
    return f"{key_of(after_line(line)):016x}"


def edges(found: Neighbourhood) -> set[tuple[str, str, str]]:
    keys = [node.key for node in found.nodes]
    return {(keys[edge.parent], edge.step.san, keys[edge.child]) for edge in found.edges}


def test_a_transposition_is_one_node_with_all_its_ways_in(file: Path) -> None:
    found = neighbourhood(file, START)
    lines = ["", "e4", "e4 e5", "e4 e5 Nf3", "e4 e5 Nf3 Nc6", "d4", "Nf3", "Nf3 e5"]
    assert keys_of(found) == {key(line) for line in lines}
    assert found.nodes[0].key == key("")
    assert edges(found) == {
        (key(""), "e4", key("e4")),
        (key(""), "d4", key("d4")),
        (key(""), "Nf3", key("Nf3")),
        (key("e4"), "e5", key("e4 e5")),
        (key("Nf3"), "e5", key("Nf3 e5")),
        (key("e4 e5"), "Nf3", key("e4 e5 Nf3")),
        (key("Nf3 e5"), "e4", key("e4 e5 Nf3")),
        (key("e4 e5 Nf3"), "Nc6", key("e4 e5 Nf3 Nc6")),
    }
    assert found.hidden == 2, "1... c5 and 1... d5 lead to positions that are not stored"


def test_depth_and_visits_are_kept_to(file: Path) -> None:
    assert keys_of(neighbourhood(file, START, depth=1)) == {key(line) for line in ("", "e4", "d4", "Nf3")}
    assert keys_of(neighbourhood(file, START, min_visits=30)) == {
        key(line) for line in ("", "e4", "d4", "e4 e5", "e4 e5 Nf3", "e4 e5 Nf3 Nc6")
    }
    assert keys_of(neighbourhood(file, after_line("e4 e5"), depth=1)) == {key("e4 e5"), key("e4 e5 Nf3")}


def test_a_shorter_way_counts_although_a_longer_one_is_wider(tmp_path: Path) -> None:
    lines = {
        "": {"Nf3": (90, 0.0), "e4": (10, 0.0)},
        "Nf3": {"Nf6": (80, 0.0)},
        "Nf3 Nf6": {"Ng1": (70, 0.0)},
        "Nf3 Nf6 Ng1": {"Ng8": (60, 0.0)},
        "e4": {"e5": (9, 0.0)},
        "e4 e5": {"d4": (8, 0.0)},
        "e4 e5 d4": None,
    }
    found = neighbourhood(graph_file(tmp_path / "a.graph", lines), START, depth=3)
    assert key("e4 e5 d4") in keys_of(found)
    assert [edge.step.san for edge in found.edges if edge.child == 0] == ["Ng8"], "it leads back to the root"
