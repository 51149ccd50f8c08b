"""`book queue` and `book todo`: what they print, and what they refuse."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import chess
import pytest

from ..conftest import ROOT, Cli, start
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
    done = cli("book", "queue", "startpos", "--store", white, "--book", "wihte")
    assert done.code == 0
    assert "has no book 'wihte' yet; it has white" in done.err


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


def test_lines_come_from_stdin(white: Path) -> None:
    lines = "1. e4 e5\n# no\nstartpos moves d2d4 d7d5\n4k3/8/8/8/8/8/4P3/4K3 w - - 0 1\nnonsense\n"
    process = start("book", "queue", "-", "--store", white, stdin=subprocess.PIPE)
    out, err = process.communicate(lines, timeout=120)
    assert (process.returncode, out) == (1, "Added 3 items to the queue: 1 to 3\n")
    assert "line 5: move 1 of the list, 'nonsense'" in err


@pytest.mark.parametrize(
    ("args", "word"),
    [
        (("nothing",), "no file 'nothing'"),
        (("startpos", "--moves", "e4 e4"), "'e4', is illegal"),
        (("startpos", "--game", "1"), "need a PGN file"),
        (("startpos", "startpos", "--moves", "e4"), "needs exactly one position"),
        (("-", "--ply", "1"), "cannot be used with stdin"),
        (("startpos", "--drop", "1"), "one of the two"),
        (("--drop", "x"), "whole number"),
        (("--drop", "77"), "has no item 77"),
        (("--drop", "1", "--book", "white"), "--book needs --drop all"),
        (("--kind", "lost"), "waiting, done, refused, dropped, all"),
    ],
)
def test_wrong_use_of_the_queue_exits_with_2(cli: Cli, white: Path, args: tuple[str, ...], word: str) -> None:
    done = cli("book", "queue", *args, "--store", white)
    assert (done.code, done.out) == (2, "")
    assert word in done.err.replace("\n", " ")
    assert cli("book", "queue", "--store", white, "--json").json["items"] == []


def test_the_to_do_list_is_printed_and_queued(cli: Cli, white: Path) -> None:
    done = cli("book", "todo", "white", "--store", white)
    row = next(line for line in done.out.splitlines() if line.startswith("1. "))
    assert row.split() == ["1.", "e4", "c5", "B20", "Sicilian", "Defense", "1.500", "2"]
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


@pytest.mark.parametrize(
    ("args", "word"),
    [
        (("wihte",), "has no book 'wihte'; its books are white"),
        (("white", "--kind", "holes"), "leaves, gaps, bottlenecks"),
    ],
)
def test_wrong_use_of_todo_exits_with_2(cli: Cli, white: Path, args: tuple[str, ...], word: str) -> None:
    done = cli("book", "todo", *args, "--store", white)
    assert (done.code, done.out) == (2, "")
    assert word in done.err.replace("\n", " ")


def test_an_empty_list_says_so(cli: Cli, tmp_path: Path) -> None:
    book = small_book()
    book.rows = {key: row for key, row in book.rows.items() if row["state"] != "leaf"}
    path = book.write(tmp_path / "a.graph")
    assert (
        cli("book", "todo", "white", "--store", path).err == "Every position of the book has been searched.\n"
    )


def test_every_fault_of_a_book_toml_has_a_line_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "b.toml").write_text("[book]\nsied = 1\n")
    script = (
        "import sys, typer\nfrom graphsearch.cli.parsing import ProgramGroup\n"
        "from graphsearch.book.toml import read_config\napp = typer.Typer(cls=ProgramGroup)\n"
        "@app.command()\ndef build(path: str) -> None:\n    read_config(path)\n"
        "@app.command()\ndef other() -> None: ...\napp()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, "build", "b.toml"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PATH": ""},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        'graphsearch: b.toml:1: [book] needs side: "white", "black" or "both"',
        "graphsearch: b.toml:1: [book] needs max_ply: from 1 to 1000",
        "graphsearch: b.toml:2: unknown key 'sied' in [book]; did you mean 'side'? allowed are name, side,"
        " max_ply",
    ]
