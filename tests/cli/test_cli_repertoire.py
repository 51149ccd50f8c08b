"""The command `repertoire`: lines in and out, gaps and weak spots."""

from __future__ import annotations

import io
from pathlib import Path

import chess.pgn
import pytest

from ..conftest import Cli
from ..query.handmade import LINES, graph_file

LINE = "1. e4 e5 2. Nf3"


@pytest.fixture
def graph(tmp_path: Path, cli: Cli) -> Path:
    path = graph_file(tmp_path / "a.graph", LINES)
    found = cli("repertoire", "add", path, LINE, "--side", "white")
    assert (found.code, found.out) == (0, "White's repertoire: 3 moves added, 3 moves now\n")
    return path


def test_a_repertoire_is_shown_with_its_gaps_and_weak_spots(cli: Cli, graph: Path) -> None:
    cli("repertoire", "add", graph, "1. e4 c5 2. Bb5", "--side", "white")
    text = cli("repertoire", "show", graph).out
    assert "White: 3 own moves, 2 replies; " in text
    assert "B20 Sicilian Defense" in text
    assert "never searched" in text.split("Weak spots")[1]
    assert "Nc6" in text.split("Gaps")[1]
    found = cli("repertoire", "show", graph, "--side", "white", "--json").json["repertoires"]
    assert [one["side"] for one in found] == ["white"]
    assert found[0]["weak"][0]["move"]["san"] == "Bb5"
    assert cli("repertoire", "show", graph, "--depth", "1").out.count("e5") < text.count("e5")


def test_an_empty_file_has_no_repertoires(cli: Cli, small_graph: Path) -> None:
    assert cli("repertoire", "show", small_graph).out == "There are no repertoires.\n"
    assert cli("repertoire", "export", small_graph, "--side", "white").code == 2


def test_lines_go_out_and_in_as_pgn_and_into_a_book(cli: Cli, graph: Path, tmp_path: Path) -> None:
    out, book = tmp_path / "white.pgn", tmp_path / "mine.toml"
    assert cli("repertoire", "export", graph, "--side", "white", "-o", out).code == 0
    text = out.read_text("utf-8")
    assert cli("repertoire", "export", graph, "--side", "white").out == text
    assert chess.pgn.read_game(io.StringIO(text)) is not None
    other = graph_file(tmp_path / "b.graph", LINES)
    assert (
        cli("repertoire", "import", other, out, "--side", "white").out
        == "1 game: 3 moves added, 3 moves now\n"
    )
    assert cli("repertoire", "import", other, out, "--side", "white", "--json").json["added"] == 0
    assert cli("repertoire", "export", graph, "--side", "white", "-o", book).code == 0
    assert cli("book", "build", book, "--store", tmp_path / "book.graph", "--evaluations", "60").code == 0
    why = cli("book", "why", LINE, "--store", tmp_path / "book.graph").out
    assert "no book" not in why


def test_a_move_is_removed_with_what_only_it_reached(cli: Cli, graph: Path) -> None:
    found = cli("repertoire", "remove", graph, "1. e4 e5", "--side", "white")
    assert found.out == "White's repertoire: 2 moves removed, 1 move now\n"
    assert cli("repertoire", "remove", graph, "1. e4 e5", "--side", "white").code == 2
