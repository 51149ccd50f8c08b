"""Values of the moves of a tree are those of the lines in it."""

from __future__ import annotations

from pathlib import Path

import chess
import pytest

from graphsearch.base.errors import InvalidPositionError
from graphsearch.query.line import tree_values, values


def test_the_values_of_a_tree_are_those_of_its_lines(small_graph: Path) -> None:
    lines = (["e2e4", "e7e5"], ["d2d4"], ["g2g4", "h7h5", "a2a3", "h5h4", "a3a4"])
    moves, expected = list[tuple[int, str]](), list[int | None]()
    for line in lines:
        board, parent = chess.Board(), 0
        for uci in line:
            board.push_uci(uci)
            moves.append((parent, uci))
            parent = len(moves)
        played = [point.played_q for point in values(small_graph, board).points[:-1]]
        expected += [None if q is None else 1 if q > 0 else -1 if q < 0 else 0 for q in played]
    found = tree_values(small_graph, chess.Board(), moves).values
    assert [one and (one.cp > 0) - (one.cp < 0) for one in found] == expected
    assert found[0] is not None
    assert found[0].n > 0
    assert found[-1] is None


def test_a_proven_mate_is_seen_from_white(small_graph: Path) -> None:
    from graphsearch import Graph, Limits, SearchParams, analyze

    board = chess.Board("6k1/5ppp/8/8/8/8/r4PPP/6K1 b - - 0 1")
    with Graph.open(small_graph) as graph:
        analyze(graph, board, Limits(visits=200), SearchParams(minibatch_size=1))
    (mate,) = tree_values(small_graph, board, [(0, "a2a1")]).values
    assert mate is not None
    assert mate.mate == -1


@pytest.mark.parametrize("moves", [[(0, "e2e5")], [(1, "e2e4")], [(0, "0000")], [(0, "e2e4"), (2, "e7e5")]])
def test_an_illegal_tree_is_refused(small_graph: Path, moves: list[tuple[int, str]]) -> None:
    with pytest.raises(InvalidPositionError, match="move"):
        tree_values(small_graph, chess.Board(), moves)
