"""The commands `study` and `note`: one line for each wrong use, JSON, and PGN in and out."""

from __future__ import annotations

import io
from pathlib import Path

import chess.pgn
import pytest

from graphsearch.store.store import Store

from ..conftest import Cli

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
