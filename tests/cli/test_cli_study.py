"""The commands `study`, `note` and `repertoire`: wrong use, JSON, and PGN in and out."""

from __future__ import annotations

import io
from pathlib import Path

import chess.pgn
import pytest

from graphsearch.store.store import Store

from ..conftest import Cli
from ..query.handmade import LINES, graph_file

PGN = '[White "Ann"]\n[Black "B\xf6b"]\n\n1. e4 e5 (1... c5 {open}) 2. Nf3 $1 Nc9 *\n'
NAME = "Ann \N{EN DASH} B\xf6b"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "a.pgn"
    path.write_text(PGN, encoding="latin-1")
    return path


def test_a_pgn_goes_in_and_comes_out(cli: Cli, small_graph: Path, file: Path, tmp_path: Path) -> None:
    found = cli("study", "import", small_graph, file)
    assert (found.code, found.out) == (0, f"{NAME}: 4 moves\n")
    assert "left out" in found.err
    assert "the line ends before 'Nc9'" in found.err
    out = tmp_path / "out.pgn"
    assert cli("study", "export", small_graph, NAME, "-o", out).code == 0
    text = out.read_text("utf-8")
    game = chess.pgn.read_game(io.StringIO(text))
    assert game is not None
    assert game.accept(chess.pgn.StringExporter()) + "\n" == text
    assert cli("study", "export", small_graph).out == text
    assert cli("study", "export", small_graph, "--json").json == {"pgn": text}
    again = cli("study", "import", small_graph, out, "--name", "Again", "--json").json
    assert (again["studies"][0]["name"], again["left_out"]) == ("Again", [])
    assert cli("study", "export", small_graph, "Again").out == text


def test_a_file_that_is_missing_is_made_unless_nothing_is_read(cli: Cli, file: Path, tmp_path: Path) -> None:
    new, bad = tmp_path / "new.graph", tmp_path / "bad.pgn"
    bad.write_text("nothing")
    for words in (("study", "import"), ("repertoire", "import", "--side", "white")):
        cli(*words, new, bad).ends(1)
        assert not new.exists()
        cli(*words, new, file).ends(0)
        new.unlink()


def test_studies_are_listed_renamed_and_deleted(cli: Cli, small_graph: Path, file: Path) -> None:
    assert cli("study", "list", small_graph).out == "There are no studies.\n"
    cli("study", "import", small_graph, file, "--name", "One")
    assert cli("study", "rename", small_graph, "One", "Two").out == "Two: renamed\n"
    assert [one["name"] for one in cli("study", "list", small_graph, "--json").json["studies"]] == ["Two"]
    assert cli("study", "delete", small_graph, "One").code == 2
    assert cli("study", "delete", small_graph, "Two", "--json").json["name"] == "Two"
    assert cli("study", "list", small_graph, "--json").json == {"studies": []}


def test_a_note_is_written_shown_listed_and_deleted(cli: Cli, small_graph: Path) -> None:
    assert cli("note", "show", small_graph, "1. e4").code == 1
    assert cli("note", "write", small_graph, "1. e4 e5 2. Nf3", "--text", "a\nb").code == 0
    assert cli("note", "show", small_graph, "1. Nf3 e5 2. e4").out == "a\nb\n"
    assert "note: a\nb\n" in cli("show", small_graph, "1. e4 e5 2. Nf3").out
    assert cli("show", small_graph, "1. e4 e5 2. Nf3", "--json").json["note"] == "a\nb"
    assert cli("note", "list", small_graph, "--json").json["notes"][0]["text"] == "a\nb"
    assert "a b" in cli("note", "list", small_graph).out
    assert cli("note", "write", small_graph, "1. e4", "--text", " ").code == 2
    assert cli("note", "delete", small_graph, "1. e4 e5 2. Nf3", "--json").json == {"deleted": True}
    assert cli("note", "delete", small_graph, "1. e4 e5 2. Nf3").code == 1


def test_studies_are_written_while_a_search_has_the_file(cli: Cli, small_graph: Path, file: Path) -> None:
    with Store.open(small_graph):
        assert cli("study", "import", small_graph, file).code == 0
        assert cli("note", "write", small_graph, "--text", "x").code == 0


# ------------------------------------------------------------------ repertoires
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
