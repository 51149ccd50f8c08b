"""Lines to the positions of a list: from a root, through transpositions, by name."""

from __future__ import annotations

from pathlib import Path

import chess
import numpy as np
import pytest
from numpy.typing import NDArray

from graphsearch.position.words import KEY
from graphsearch.query.routes import Way, routes
from graphsearch.store.store import Store

from .handmade import LINES, board_after, graph_file


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return graph_file(tmp_path_factory.mktemp("routes") / "hand.graph", LINES)


def _way(file: Path, line: str) -> Way | None:
    fen = board_after(line).fen()
    return routes(file, [fen]).get(fen)


def test_a_stored_position_has_the_line_of_most_visits(file: Path) -> None:
    found = _way(file, "Nf3 e5 e4 Nc6")
    assert found is not None
    assert (found.start, found.line) == (None, ("e4", "e5", "Nf3", "Nc6"))
    assert str(found.opening) == "C44 King's Knight Opening: Normal Variation"


def test_outside_the_part_read_lines_are_moves_taken_back(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("graphsearch.query.routes.WALKED", 0)
    found = _way(file, "Nf3 e5 e4 Nc6")
    assert found is not None
    assert (found.start, found.line) == (None, ("e4", "e5", "Nf3", "Nc6"))


def test_the_start_position_has_an_empty_line(file: Path) -> None:
    assert _way(file, "") == Way(None, (), None)


def test_a_position_that_no_visit_leads_to_is_known_by_its_name_only(file: Path) -> None:
    named = _way(file, "c4 c5")
    assert named is not None
    assert (named.line, str(named.opening)) == (("c4", "c5"), "A30 English Opening: Symmetrical Variation")
    assert _way(file, "h4 a5 Na3 Na6") is None


def test_a_root_with_a_name_is_reached_by_its_moves(tmp_path: Path) -> None:
    root = board_after("e4 c5").fen()
    file = graph_file(tmp_path / "b.graph", {"": {"Nf3": (9, 0.1)}, "Nf3": None}, fen=root)
    fen = board_after("e4 c5 Nf3").fen()
    assert routes(file, [fen])[fen].line == ("e4", "c5", "Nf3")


def test_a_root_without_a_name_begins_its_lines(tmp_path: Path) -> None:
    root = "8/8/4k3/8/8/4K3/4P3/8 w - - 0 1"
    file = graph_file(tmp_path / "b.graph", {"": {"Kd4": (9, 0.1)}, "Kd4": None}, fen=root)
    fen = board_after("Kd4", root).fen()
    assert routes(file, [fen])[fen] == Way(chess.Board(root).fen(), ("Kd4",), None)


def test_no_line_leads_around_a_circle_back_to_a_root(tmp_path: Path) -> None:
    named, unnamed = board_after("e4 c5").fen(), "8/8/4k3/8/8/4K3/4P3/8 w - - 0 1"
    for root, there, back in ((named, "Nf3 Nf6", "Ng1 Ng8"), (unnamed, "Kd3 Kd6", "Ke3 Ke6")):
        moves = [*there.split(), *back.split()]
        lines = {" ".join(moves[:k]): {moves[k]: (9, 0.1)} for k in range(4)}
        file = graph_file(tmp_path / f"{moves[0]}.graph", lines, fen=root)
        found = routes(file, [root])[root]
        assert (found.start, found.line) == ((None, ("e4", "c5")) if root == named else (root, ()))


def test_a_line_is_found_without_asking_for_high_clocks(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    may_hold = Store.may_hold

    def counting(store: Store, words: NDArray[np.uint64], keys: NDArray[np.uint64]) -> NDArray[np.bool_]:
        asked.append(len(keys) - len(np.unique(words[:, KEY])))
        return may_hold(store, words, keys)

    monkeypatch.setattr("graphsearch.query.routes.WALKED", 0)
    monkeypatch.setattr(Store, "may_hold", counting)
    found = _way(file, "Nf3 e5 e4 Nc6")
    assert found is not None
    assert asked
    assert not any(asked)
