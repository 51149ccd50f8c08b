"""`book queue` and `book todo`: what they print, and what they refuse."""

from __future__ import annotations

import io
from pathlib import Path

import chess
import pytest

from ..conftest import Cli
from ..support.books import small_book

GAMES = '[White "A"]\n\n1. e4 e5 *\n\n[White "B"]\n\n1. d4 d5 2. c4 *\n\n[White "C"]\n\n1. e4 Ke4 *\n'


@pytest.fixture
def white(tmp_path: Path) -> Path:
    return small_book().write(tmp_path / "white.graph")


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


def test_a_duplicate_is_said_and_not_added(cli: Cli, white: Path) -> None:
    add = ("book", "queue", "startpos", "--store", white, "--book", "white")
    assert cli(*add).err == ""
    again = cli(*add)
    assert again.out == "Added 0 items to the queue\n"
    assert "already waiting as item 1" in again.err
    assert cli(*add, "--json").json["duplicates"][0]["id"] == 1


def test_a_book_that_is_not_there_yet_is_noted(cli: Cli, white: Path) -> None:
    said = "has no book 'wihte' yet; it has white"
    cli("book", "queue", "startpos", "--store", white, "--book", "wihte").ends(0, said)


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
    lines = "1. e4 e5\n# no\nstartpos moves d2d4 d7d5\n4k3/8/8/8/8/8/4P3/4K3 w - - 0 1\nnonsense\n"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(lines.encode())))
    done = cli("book", "queue", "-", "--store", white).ends(1, "line 5: move 1 of the list, 'nonsense'")
    assert done.out == "Added 3 items to the queue: 1 to 3\n"


def test_the_to_do_list_is_printed_and_queued(cli: Cli, white: Path) -> None:
    done = cli("book", "todo", "white", "--store", white)
    row = next(line for line in done.out.splitlines() if line.startswith("1. "))
    assert row.split() == ["1.", "e4", "c5", "B20", "Sicilian", "Defense", "1.500", "2"]
    assert cli("book", "todo", white).out == done.out
    data = cli("book", "todo", "white", "--store", white, "--json", "--queue")
    assert [item["line"] for item in data.json["items"]] == ["1. e4 c5", "1. e4 e5", "1. d4 d5"]
    assert "Added 3 items to the queue" in data.err
    assert "3 items already waiting" in cli("book", "todo", "white", "--store", white, "--queue").err
    queued = cli("book", "queue", "--store", white, "--json").json["items"]
    assert [(item["book"], item["origin"]) for item in queued] == [("white", "todo: leaves")] * 3
    assert [item["fen"] for item in queued] == [item["position"] for item in data.json["items"]]


@pytest.mark.parametrize("kind", ["gaps", "bottlenecks"])
def test_every_kind_has_a_table_and_json(cli: Cli, white: Path, kind: str) -> None:
    table = cli("book", "todo", "white", "--kind", kind, "--store", white)
    data = cli("book", "todo", "white", "--kind", kind, "--store", white, "--json").json
    assert (data["book"], data["kind"]) == ("white", kind)
    assert data["items"]
    assert "1. e4 e5" in table.out
    assert "1. e4 e5" in str(data)


def test_an_empty_list_says_so(cli: Cli, tmp_path: Path) -> None:
    book = small_book()
    book.rows = {key: row for key, row in book.rows.items() if row["state"] != "leaf"}
    path = book.write(tmp_path / "a.graph")
    assert (
        cli("book", "todo", "white", "--store", path).err == "Every position of the book has been searched.\n"
    )


def test_every_fault_of_a_toml_has_a_line(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("b.toml").write_text("[book]\nsied = 1\n")
    assert cli("book", "build", "b.toml", "--store", "a.graph").ends(2).err.splitlines() == [
        "graphsearch: b.toml:1: [book] side: Field required",
        "graphsearch: b.toml:1: [book] max_ply: Field required",
        "graphsearch: b.toml:2: [book] sied: Extra inputs are not permitted; did you mean 'side'?",
    ]
