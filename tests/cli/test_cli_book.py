"""The commands of books, studies, notes and repertoires, as a person uses them."""

from __future__ import annotations

import io
import signal
import sqlite3
from pathlib import Path

import chess
import chess.pgn
import pytest

from graphsearch.store.store import Store
from tests.conftest import Cli, sql
from tests.query.handmade import book_file
from tests.support.forks import Command
from tests.support.pools import until

WHITE = """
[book]
name = "white"
side = "white"
max_ply = 4
[[root]]
moves = "1. d4"
[[window]]
plies = [0, 4]
own_cp = 10
reply_p = 0.1
reply_cp = 20
reply_moves = 3
[[exclude]]
moves = "1. d4 Nf6"
play = ["Bg5"]
[leaf]
evaluations = 20
params = { MinibatchSize = 1 }
"""


@pytest.fixture
def toml(tmp_path: Path) -> Path:
    path = tmp_path / "white.toml"
    path.write_text(WHITE)
    return path


def test_a_signal_saves(tmp_path: Path, toml: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "b.graph"
    toml.write_text(WHITE.replace("max_ply = 4", "max_ply = 30"))
    monkeypatch.setattr("graphsearch.book.build.SAVE_SECONDS", 0.0)
    process = Command("book", "build", toml, "--store", path, "--forever", "--json")
    until(lambda: path.exists() and searched(path) > 0)
    process.send_signal(signal.SIGINT)
    done = process.end().ends(130, "Stopping")
    assert done.json["ended"] == "stop"
    assert cli("book", "status", "--store", path, "--json").json["books"][0]["runs"][0]["ended"] == "stop"


def searched(path: Path) -> int:
    """Returns how many positions of a book are searched, as far as that is saved."""
    try:
        return int(sql(path, "SELECT coalesce(max(searched), 0) FROM book_run")[0][0])
    except sqlite3.Error:  # it is being made
        return 0


@pytest.mark.parametrize("ending", ["pgn", "csv", "bin"])
def test_an_export_of_a_file_with_only_books_asks_for_one(
    tmp_path: Path, toml: Path, cli: Cli, ending: str
) -> None:
    path, out = tmp_path / "b.graph", tmp_path / f"out.{ending}"
    cli("book", "build", toml, "--store", path, "--evaluations", 20).ends(0)
    cli("export", "--store", path, "-o", out).ends(2, "has only books; name one with --book: 'white'")
    cli("export", "--store", path, "-o", out, "--book", "white").ends(0)
    cli("export", "1. d4", "--store", path, "-o", out).ends(0)


# ------------------------------------------------------------------ queue and to-do list
GAMES = '[White "A"]\n\n1. e4 e5 *\n\n[White "B"]\n\n1. d4 d5 2. c4 *\n\n[White "C"]\n\n1. e4 Ke4 *\n'


@pytest.fixture
def white(tmp_path: Path) -> Path:
    return book_file(tmp_path / "white.graph")


def test_what_is_added_is_listed_and_dropped(cli: Cli, white: Path) -> None:
    done = cli("book", "queue", "startpos", "--moves", "1. d4 d5 2. c4", "--store", white)
    assert (done.code, done.out) == (0, "Added 1 item to the queue: 1\n")
    listed = cli("book", "queue", "--store", white).out
    assert "1. d4 d5 2. c4" in listed
    (item,) = cli("book", "queue", "--store", white, "--json").json["items"]
    assert (item["fen"], item["moves"]) == (chess.STARTING_FEN, ["d2d4", "d7d5", "c2c4"])
    assert cli("book", "queue", "--drop", 1, "--store", white).out == "Dropped 1 item\n"
    again = cli("book", "queue", "--drop", 1, "--store", white)
    assert (again.code, again.out) == (0, "Dropped 0 items\n")
    assert "item 1 is already dropped" in again.err
    assert cli("book", "queue", "--store", white).err == "No item is waiting.\n"
    states = cli("book", "queue", "--kind", "all", "--store", white, "--json").json["items"]
    assert [item["state"] for item in states] == ["dropped"]


def test_games_are_added_and_broken_ones_reported(cli: Cli, white: Path, tmp_path: Path) -> None:
    path = tmp_path / "games.pgn"
    path.write_text(GAMES)
    done = cli("book", "queue", path, "--store", white, "--json").ends(1, "game 3")
    assert done.json["added"] == [1, 2]
    assert len(done.json["problems"]) == 1
    one = cli("book", "queue", path, "--game", 2, "--ply", 1, "--store", white)
    assert (one.code, one.out) == (0, "Added 1 item to the queue: 3\n")
    (item,) = cli("book", "queue", "--store", white, "--json").json["items"][2:]
    assert (item["moves"], item["origin"]) == (["d2d4"], "games.pgn, game 2")


def test_lines_come_from_stdin(cli: Cli, white: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fen = "4k3/8/8/8/8/8/4P3/4K3 w - -"
    lines = f"\ufeff# no\n1. e4 e5\nposition fen {fen} 0 1 moves e2e4 e8e7\n{fen} bm e4;\nnonsense\n"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(lines.encode())))
    done = cli("book", "queue", "-", "--store", white).ends(1, "line 5: move 1 of the list, 'nonsense'")
    assert done.out == "Added 3 items to the queue: 1 to 3\n"
    added = cli("book", "queue", "--store", white, "--json").json["items"]
    assert [item["moves"] for item in added] == [["e2e4", "e7e5"], ["e2e4", "e8e7"], []]
    assert [item["origin"] for item in added] == ["line 2", "line 3", "line 4"]


# ------------------------------------------------------------------ studies and notes
PGN = '[White "Ann"]\n[Black "B\xf6b"]\n\n1. e4 e5 (1... c5 {open}) 2. Nf3 $1 Nc9 *\n'


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "a.pgn"
    path.write_text(PGN, encoding="latin-1")
    return path


def test_a_file_that_is_missing_is_made_unless_nothing_is_read(cli: Cli, file: Path, tmp_path: Path) -> None:
    new, bad = tmp_path / "new.graph", tmp_path / "bad.pgn"
    bad.write_text("nothing")
    for words in (("study", "import"), ("repertoire", "import", "--side", "white")):
        cli(*words, new, bad).ends(1)
        assert not new.exists()
        cli(*words, new, file).ends(0)
        new.unlink()


def test_a_note_is_written_shown_listed_and_deleted(cli: Cli, small_graph: Path) -> None:
    assert cli("note", small_graph, "1. e4").code == 1
    assert cli("note", small_graph, "1. e4 e5 2. Nf3", "--text", "a\nb").code == 0
    assert cli("note", small_graph, "1. Nf3 e5 2. e4").out == "a\nb\n"
    assert "note: a\nb\n" in cli("show", small_graph, "1. e4 e5 2. Nf3").out
    assert cli("show", small_graph, "1. e4 e5 2. Nf3", "--json").json["note"] == "a\nb"
    assert cli("note", small_graph, "--json").json["notes"][0]["text"] == "a\nb"
    assert "a b" in cli("note", small_graph).out
    assert cli("note", small_graph, "1. e4 e5 2. Nf3", "--text", " ").code == 0
    assert cli("note", small_graph, "1. e4 e5 2. Nf3").code == 1


def test_studies_are_written_while_a_search_has_the_file(cli: Cli, small_graph: Path, file: Path) -> None:
    with Store.open(small_graph):
        assert cli("study", "import", small_graph, file).code == 0
        assert cli("note", small_graph, "startpos", "--text", "x").code == 0
