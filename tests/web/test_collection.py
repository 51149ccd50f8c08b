"""The list of games on the page, games out of it in the notation, and tables as CSV."""

from __future__ import annotations

import csv
import io
import shutil
from pathlib import Path
from typing import Any

import chess.pgn
import pytest

from graphsearch.exchange.answer_csv import csv_text
from graphsearch.exchange.pgn_import import import_pgn
from graphsearch.exchange.sources import GivenFile
from graphsearch.query.filters import Filters
from graphsearch.query.find import find
from graphsearch.query.games import games
from graphsearch.query.moves import moves

from .conftest import Client, Serve
from .test_page import Page

EVIL = "<img src=x onerror=alert(1)>"
LICHESS = f"""[Event "Rated blitz game"]
[Site "https://lichess.org/abcdefgh"]
[Date "2024.05.17"]
[White "{EVIL}"]
[Black "=cmd()"]
[Result "1-0"]
[GameId "abcdefgh"]
[UTCDate "2024.05.17"]
[UTCTime "10:11:12"]
[WhiteElo "2100"]
[BlackElo "2050"]
[WhiteRatingDiff "+5"]
[Variant "Standard"]
[TimeControl "180+2"]
[ECO "C44"]
[Opening "King's Pawn Game"]
[Termination "Normal"]

1. e4 {{ [%eval 0.18] [%clk 0:03:00] }} 1... e5 {{ [%eval 0.2] [%clk 0:03:00] }} 2. Nf3 {{ [%clk 0:02:58] }} \
2... Nc6?! {{ (0.20 -> 0.80) Inaccuracy. {EVIL} }} {{ [%clk 0:02:57] }} (2... Nf6 3. Nxe5) 3. d4 1-0

"""
CHESS_COM = """[Event "Live Chess"]
[Site "Chess.com"]
[Date "2023.01.02"]
[Round "-"]
[White "anna"]
[Black "bert"]
[Result "0-1"]
[CurrentPosition "rnbqkbnr/pppp1ppp/8/4p3/4P3/8/PPPP1PPP/RNBQKBNR w KQkq - 0 2"]
[Timezone "UTC"]
[ECO "C20"]
[ECOUrl "https://www.chess.com/openings/Kings-Pawn-Opening"]
[UTCDate "2023.01.02"]
[WhiteElo "1500"]
[BlackElo "1510"]
[TimeControl "600"]
[Termination "bert won by resignation"]
[StartTime "10:00:00"]
[EndDate "2023.01.02"]
[Link "https://www.chess.com/game/live/1"]

1. e4 {[%clk 0:09:58.1]} 1... c5 {[%clk 0:09:57]} 2. d4 {[%clk 0:09:50]} 2... e5 {[%clk 0:09:49.9]} 0-1

"""
DEEP = (
    '[White "deep"]\n[Black "nest"]\n[Date "2022.01.01"]\n\n1. e4 '
    + "(1. d4 " * 900
    + ")" * 900
    + " e5 *\n\n"
)


@pytest.fixture
def collection(small_graph: Path, tmp_path: Path) -> Path:
    path, file = tmp_path / "games.graph", tmp_path / "all.pgn"
    shutil.copyfile(small_graph, path)
    file.write_text(LICHESS + CHESS_COM + DEEP, encoding="utf-8")
    (report,) = import_pgn(path, [GivenFile(str(file))], players=True)
    assert (report.taken, report.problems) == (3, [])
    file.unlink()
    return path


@pytest.fixture
def visitor(serve: Serve, collection: Path) -> Client:
    found = serve(collection)
    found.enter()
    return found


def rows(answer: Any) -> list[dict[str, str]]:
    assert answer.status == 200, answer.body
    assert answer.headers["content-disposition"].startswith("attachment; filename=")
    return list(csv.DictReader(io.StringIO(answer.body.decode())))


# ------------------------------------------------------------ the list
def test_exports_of_servers_are_listed_with_all_that_they_say(visitor: Client) -> None:
    found = visitor.get("game-list").json
    assert [(one["date"], one["white_elo"], one["eco"]) for one in found["games"]] == [
        *(("2024-05-17", 2100, "C44"), ("2023-01-02", 1500, "C20"), ("2022-01-01", None, "C20"))
    ]
    pgn = visitor.get("game-list-pgn", by="number", down="false").body.decode()
    again = io.StringIO(pgn)
    for text in (LICHESS, CHESS_COM):
        assert str(chess.pgn.read_game(again)) == str(chess.pgn.read_game(io.StringIO(text)))


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        ({"by": "moves"}, 400), ({"result": "x"}, 400), ({"since": "x"}, 400), ({"most": 10**6}, 400),
        ({"player": "%"}, 200), ({"opening": "'; DROP TABLE game"}, 200), ({"first": 10**9}, 200),
    ],
)  # fmt: skip
def test_wrong_conditions_get_one_line(visitor: Client, asked: dict[str, object], status: int) -> None:
    answer = visitor.get("game-list", **asked)
    assert answer.status == status
    assert status == 200 or answer.error


def test_a_game_comes_with_variations_and_the_ply_of_the_position(visitor: Client) -> None:
    whole = visitor.get("game", source=1, number=1, line="e4 e5 Nf3").json
    assert whole["ply"] == 3
    assert any(EVIL in move["comment"] for move in whole["moves"])
    assert visitor.get("game", source=1, number=3).json["left_out"] == []
    assert len(visitor.get("game", source=1, number=3).json["moves"]) == 902
    assert visitor.get("game", source=9, number=1).status == 400


def test_a_click_opens_the_game_at_the_position_on_the_board(driver: Any, visitor: Client) -> None:
    page = Page(driver, visitor)
    driver.get(f"http://{visitor.host}/p/?line=e4,e5")
    page.wait('return document.querySelectorAll("#line button").length === 2', "the line")
    page.view("list")
    listed = 'return document.querySelectorAll(".view-list tr.game").length'
    page.wait(f"{listed} === 3", "all games")
    page.click("#list-here")
    page.wait(f"{listed} === 2", "the games that reach the position")
    page.click(".view-list tr.game button")
    page.wait('return document.querySelector("#line").textContent.includes("Nxe5")', "the game")
    current = 'document.querySelector("#line [aria-current]")?.textContent'
    page.wait(f'return {current} === "e5"', "the position")
    assert EVIL in page.text("#game")
    assert page.run('return document.querySelectorAll("#line img, #game img, .view-list img").length') == 0
    page.click('.view-list [data-focus="sort white"]')
    page.wait(
        'return document.querySelector(".view-list [aria-sort]")?.textContent.includes("White")', "sorted"
    )
    assert page.errors() == []


# ------------------------------------------------------------ CSV
def test_tables_as_csv_are_the_rows_of_the_query(visitor: Client, collection: Path) -> None:
    board = chess.Board()
    found_5 = [one.as_dict() for one in find(collection, Filters(min_n=5))]
    for answer, wanted in (
        (visitor.get("games", csv="moves"), games(collection, board).as_dict()["moves"]),
        (visitor.get("find", csv="positions", min_n=5), found_5),
        (visitor.get("position", csv="node.moves"), moves(collection, board).as_dict()["moves"]),
    ):
        found = rows(answer)
        expected = list(csv.DictReader(io.StringIO(csv_text(wanted))))
        shared = sorted(set(found[0]) & set(expected[0]))
        assert {"position", "move"} & set(shared)
        assert [[row[name] for name in shared] for row in found] == [
            [row[name] for name in shared] for row in expected
        ]
    names = {row["name"] for row in rows(visitor.get("players", csv="players"))}
    assert {"'=cmd()", "anna", EVIL} <= names


def test_a_formula_in_a_name_stays_text(visitor: Client) -> None:
    assert rows(visitor.get("game-list", csv="games"))[0]["black"] == "'=cmd()"
    answer = visitor.ask("POST", "/api/sql?csv=rows", b'{"statement": "SELECT name AS \'@x\' FROM player"}')
    assert "'=cmd()" in {row["'@x"] for row in rows(answer)}


@pytest.mark.parametrize("table", ["nothing", "moves.san", "position", "moves.0"])
def test_a_table_that_is_none_is_refused(visitor: Client, table: str) -> None:
    assert "no table" in visitor.get("games", csv=table).error


def test_every_view_with_a_table_has_a_link(driver: Any, visitor: Client) -> None:
    page = Page(driver, visitor)
    for view, links in (("moves", 1), ("games", 1), ("list", 1), ("prepare", 1)):
        page.view(view)
        page.wait(f'return document.querySelectorAll(".view-{view} a.csv").length >= {links}', view)
    assert page.errors() == []
