"""The commands of books: building, status, why, queue and to-do list, as a person uses them."""

from __future__ import annotations

import io
import shutil
import signal
import sqlite3
from pathlib import Path

import chess
import chess.pgn
import pytest

from graphsearch.book.build import build
from graphsearch.book.config import parse_config

from ..conftest import Cli
from ..support.books import small_book
from ..support.forks import Command
from ..support.pools import until

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


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished book of three plies."""
    folder = tmp_path_factory.mktemp("book")
    build(folder / "b.graph", parse_config(WHITE, folder, "white.toml"))
    return folder / "b.graph"


@pytest.fixture
def book(finished: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copy(finished, tmp_path / "b.graph"))


def test_a_build_says_what_it_did(tmp_path: Path, toml: Path, cli: Cli) -> None:
    path = tmp_path / "b.graph"
    first = cli("book", "build", toml, "--store", path, "--evaluations", 40, "--json").ends(0)
    assert first.json["ended"] == "evaluations"
    assert (first.json["searched"], first.json["evaluations"]) == (2, 40)
    assert first.json["roots"][0]["origin"] == "root 1"
    rest = cli("book", "build", toml, "--store", path).ends(0, "book status")
    assert "nothing is left to search" in rest.out
    again = cli("book", "build", toml, "--store", path, "--json").json
    assert (again["searched"], again["evaluations"], again["leaves"]) == (0, 0, 0)


def test_status_has_plies_runs_and_roots(book: Path, toml: Path, cli: Cli) -> None:
    cli("book", "build", toml, "--store", book)
    found = cli("book", "status", "--store", book, "--json").json["books"]
    assert [item["name"] for item in found] == ["white"]
    assert [run["ended"] for run in found[0]["runs"]] == ["complete", "complete"]
    assert found[0]["runs"][1]["searched"] == 0
    assert [row["ply"] for row in found[0]["plies"]] == [1, 2, 3, 4]
    total = sum(row["open"] + row["leaf"] + row["end"] for row in found[0]["plies"])
    connection = sqlite3.connect(book)
    assert total == connection.execute("SELECT count(*) FROM book_position").fetchone()[0]
    connection.execute("UPDATE book_run SET ended = NULL WHERE id = 1")
    connection.commit()
    connection.close()
    text = cli("book", "status", "--store", book).out
    assert ("killed" in text, "active" in text) == (True, False)  # a later run has begun since
    assert "Book white (white)" in text
    assert "nothing is left to search" in text


def test_why_gives_a_reason_for_every_legal_move(book: Path, cli: Cli) -> None:
    found = cli("book", "why", "startpos", "--moves", "d4", "--store", book, "--json").json
    board = chess.Board()
    board.push_san("d4")
    assert {move["move"] for move in found["moves"]} == {move.uci() for move in board.legal_moves}
    assert all(move["reason"] for move in found["moves"])
    taken = [move for move in found["moves"] if move["in_book"]]
    assert 1 <= len(taken) < len(found["moves"])
    assert taken[0]["rule"] == "best"
    assert all(move["since_run"] == 1 for move in taken)
    assert found["line"] == "1. d4"
    text = cli("book", "why", "startpos", "--moves", "d4", "--store", book).out
    assert "the best reply" in text


def test_why_says_where_a_game_leaves_the_book(book: Path, cli: Cli) -> None:
    done = cli("book", "why", "startpos", "--moves", "d4 a5 a3", "--store", book).ends(1)
    assert "Not in book white." in done.out
    assert "a5 is not in it" in done.out
    found = cli("book", "why", "startpos", "--moves", "d4 a5 a3", "--store", book, "--json").json
    assert found["left_at"]["move"] == "a5"
    assert found["moves"] == []
    elsewhere = cli("book", "why", "startpos", "--store", book).ends(1)
    assert "leaves" not in elsewhere.out
    assert (
        "Why: the book begins at rnbqkbnr/pppppppp/8/8/3P4/8/PPP1PPPP/RNBQKBNR b KQkq - 0 1" in elsewhere.out
    )


def test_why_finds_the_move_into_a_position_without_its_game(book: Path, cli: Cli) -> None:
    fen = "rnbqkbnr/1ppppppp/8/p7/3P4/8/PPP1PPPP/RNBQKBNR w KQkq - 0 2"
    bare = cli("book", "why", fen, "--store", book, "--json").json
    played = cli("book", "why", "startpos", "--moves", "d4 a5", "--store", book, "--json").json
    assert bare["left_at"] == played["left_at"]
    assert bare["left_at"]["reason"]


def test_a_book_as_pgn_begins_at_move_one(book: Path, cli: Cli, tmp_path: Path) -> None:
    assert (
        cli("export", "--format", "pgn", "--book", "white", "--store", book, "-o", tmp_path / "b.pgn").code
        == 0
    )
    game = chess.pgn.read_game(io.StringIO((tmp_path / "b.pgn").read_text()))
    assert game is not None
    assert "FEN" not in game.headers
    moves = [node.move.uci() for node in game.variations]
    assert moves == ["d2d4"]
    assert len(game.variations[0].variations) > 1


def test_a_root_that_is_a_line_begins_where_the_line_begins(book: Path, cli: Cli) -> None:
    text = cli("export", "--format", "pgn", "1. d4", "--store", book, "-o", "-").out
    assert "FEN" not in text
    assert "\n1. d4 " in text


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
        connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        try:
            return int(connection.execute("SELECT coalesce(max(searched), 0) FROM book_run").fetchone()[0])
        finally:
            connection.close()
    except sqlite3.Error:
        return 0


# ------------------------------------------------------------------ queue and to-do list
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
