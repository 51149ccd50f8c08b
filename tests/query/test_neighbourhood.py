"""The positions around one: the best-visited ones, each once, with all their ways in, in layers."""

from __future__ import annotations

import itertools
from pathlib import Path

import chess
import pytest

from graphsearch.base.errors import InvalidParameterError, UnknownPositionError
from graphsearch.position.board import key_of
from graphsearch.query.neighbourhood import Neighbourhood, neighbourhood

from ..exchange.exported import add_book
from ..support.positions import after_line
from .handmade import LINES, graph_file

START = chess.Board()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return graph_file(tmp_path / "hand.graph", LINES)


def levels(found: Neighbourhood) -> dict[str, int]:
    return {node.key: node.level for node in found.nodes}


def key(line: str) -> str:
    return f"{key_of(after_line(line)):016x}"


def edges(found: Neighbourhood) -> set[tuple[str, str, str, bool]]:
    keys = [node.key for node in found.nodes]
    return {(keys[edge.parent], edge.san, keys[edge.child], edge.main) for edge in found.edges}


def test_a_transposition_is_one_node_with_all_its_ways_in(file: Path) -> None:
    found = neighbourhood(file, START)
    lines = ["", "e4", "e4 e5", "e4 e5 Nf3", "e4 e5 Nf3 Nc6", "d4", "Nf3", "Nf3 e5"]
    assert levels(found) == {key(line): len(line.split()) for line in lines}
    assert edges(found) == {
        (key(""), "e4", key("e4"), True),
        (key(""), "d4", key("d4"), True),
        (key(""), "Nf3", key("Nf3"), True),
        (key("e4"), "e5", key("e4 e5"), True),
        (key("Nf3"), "e5", key("Nf3 e5"), True),
        (key("e4 e5"), "Nf3", key("e4 e5 Nf3"), True),
        (key("Nf3 e5"), "e4", key("e4 e5 Nf3"), False),
        (key("e4 e5 Nf3"), "Nc6", key("e4 e5 Nf3 Nc6"), True),
    }
    assert found.transpositions == 1
    assert found.hidden == 2, "1... c5 and 1... d5 lead to positions that are not stored"


def test_values_are_those_of_the_records_and_white_sees_them_too(file: Path) -> None:
    found = neighbourhood(file, START)
    by_key = {node.key: node for node in found.nodes}
    node = by_key[key("e4")]
    assert (node.n, node.white_q) == (60, -node.q if node.q is not None else None)
    edge = next(edge for edge in found.edges if edge.move == "e7e5" and edge.n == 40)
    assert edge.white_q == pytest.approx(0.15)


def test_few_positions_are_those_at_the_end_of_the_widest_lines(file: Path) -> None:
    found = neighbourhood(file, START, most=5)
    wanted = ("", "e4", "e4 e5", "e4 e5 Nf3", "e4 e5 Nf3 Nc6")
    assert set(levels(found)) == {key(line) for line in wanted}


def test_depth_and_visits_are_kept_to(file: Path) -> None:
    assert set(levels(neighbourhood(file, START, depth=1))) == {key(line) for line in ("", "e4", "d4", "Nf3")}
    assert set(levels(neighbourhood(file, START, min_visits=30))) == {
        key(line) for line in ("", "e4", "d4", "e4 e5", "e4 e5 Nf3", "e4 e5 Nf3 Nc6")
    }
    assert set(levels(neighbourhood(file, after_line("e4 e5"), depth=1))) == {key("e4 e5"), key("e4 e5 Nf3")}


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
    assert key("e4 e5 d4") in levels(found)
    assert [edge.san for edge in found.edges if edge.child == 0] == ["Ng8"], "it leads back to the root"
    assert levels(found)[key("")] == 0


def test_a_book_is_its_own_positions_with_its_values(file: Path) -> None:
    add_book(file, "mine", "white", [chess.STARTING_FEN], {"e4": -0.3, "e4 e5": 0.2, "Nf3": None})  # type: ignore[dict-item]
    found = neighbourhood(file, START, min_visits=0, book="mine")
    assert set(levels(found)) == {key(line) for line in ("", "e4", "e4 e5", "Nf3")}
    by_key = {node.key: node for node in found.nodes}
    assert (by_key[key("e4")].q, by_key[key("e4")].white_q) == (-0.3, 0.3)
    assert next(edge.white_q for edge in found.edges if edge.san == "e4") == 0.3
    leaf = by_key[key("Nf3")]
    assert (leaf.n, leaf.q is not None) == (20, True), "not searched for the book, and known to the graph"
    with pytest.raises(InvalidParameterError, match="it has 'mine'"):
        neighbourhood(file, START, book="yours")
    with pytest.raises(UnknownPositionError, match="the book 'mine'"):
        neighbourhood(file, after_line("d4"), book="mine")


@pytest.mark.parametrize("wrong", [{"depth": -1}, {"min_visits": -1}, {"most": 0}])
def test_numbers_out_of_range_are_refused(file: Path, wrong: dict[str, int]) -> None:
    with pytest.raises(InvalidParameterError, match=next(iter(wrong))):
        neighbourhood(file, START, **wrong)  # type: ignore[arg-type]


# ------------------------------------------------------------------ the layout
def test_nodes_of_a_layer_keep_apart_and_edges_of_the_tree_do_not_cross(small_graph: Path) -> None:
    found = neighbourhood(small_graph, START, depth=6, most=120)
    assert len(found.nodes) > 60
    for level in range(7):
        stand = [node.place for node in found.nodes if node.level == level]
        assert all(b - a >= 0.999 for a, b in itertools.pairwise(stand)), level
    ends = [(found.nodes[e.parent], found.nodes[e.child]) for e in found.edges if e.main]
    for level in range(6):
        pairs = sorted((p.place, c.place) for p, c in ends if p.level == level)
        assert [child for _, child in pairs] == sorted(child for _, child in pairs), level
    assert min(node.place for node in found.nodes) == 0.0
