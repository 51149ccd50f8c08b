"""The list of games on the page, games out of it in the notation."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from graphsearch.exchange.importing import GivenFile
from graphsearch.exchange.imports import import_files

from .client import Client
from .conftest import serving
from .page import Page
from .test_hands import sized

EVIL = "<img src=x onerror=alert(1)>"
LICHESS = f"""[Event "Rated blitz game"]
[Date "2024.05.17"]
[White "{EVIL}"]
[Black "=cmd()"]
[Result "1-0"]
[WhiteElo "2100"]
[BlackElo "2050"]
[ECO "C44"]

1. e4 {{ [%eval 0.18] [%clk 0:03:00] }} 1... e5 {{ [%eval 0.2] [%clk 0:03:00] }} 2. Nf3 {{ [%clk 0:02:58] }} \
2... Nc6?! {{ (0.20 -> 0.80) Inaccuracy. {EVIL} }} {{ [%clk 0:02:57] }} (2... Nf6 3. Nxe5) 3. d4 1-0

"""
CHESS_COM = """[Event "Live Chess"]
[Date "2023.01.02"]
[White "anna"]
[Black "bert"]
[Result "0-1"]
[ECO "C20"]
[WhiteElo "1500"]
[BlackElo "1510"]

1. e4 {[%clk 0:09:58.1]} 1... c5 {[%clk 0:09:57]} 2. d4 {[%clk 0:09:50]} 2... e5 {[%clk 0:09:49.9]} 0-1

"""
DEEP = (
    '[White "deep"]\n[Black "nest"]\n[Date "2022.01.01"]\n\n1. e4 '
    + "(1. d4 " * 900
    + ")" * 900
    + " e5 *\n\n"
)


@pytest.fixture(scope="module")
def collection(_filled_graph: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("collection")
    path, file = folder / "games.graph", folder / "all.pgn"
    shutil.copyfile(_filled_graph, path)
    file.write_text(LICHESS + CHESS_COM + DEEP, encoding="utf-8")
    (report,) = import_files("pgn", path, [GivenFile(str(file))], players=True)
    assert (report.taken, report.problems) == (3, [])
    file.unlink()
    return path


@pytest.fixture(scope="module")
def client(collection: Path) -> Iterator[Client]:
    """One who has come in to the collection, which no test changes."""
    with serving(collection) as found:
        found.enter()
        yield found


# ------------------------------------------------------------ the list
def test_a_game_comes_with_variations_and_the_ply_of_the_position(client: Client) -> None:
    whole = client.get("game", source=1, number=1, line="e4 e5 Nf3").json
    assert whole["ply"] == 3
    assert any(EVIL in move["comment"] for move in whole["moves"])
    assert client.get("game", source=1, number=3).json["left_out"] == []
    assert len(client.get("game", source=1, number=3).json["moves"]) == 902
    assert client.get("game", source=9, number=1).status == 400


def test_tables_have_links_and_a_click_opens_the_game_at_the_position_on_the_board(page: Page) -> None:
    page.open("/p/?line=e4,e5", moves=2)
    page.view("list")
    listed = ".view-list tr.game"
    page.has(listed, 3)
    assert "2100" in page.text(listed)
    page.click("#list-here")
    page.has(listed, 2)  # the games that reach the position
    page.click(f"{listed} button")
    page.says("#line", "Nxe5")
    page.reaches("e5")
    assert EVIL in page.text("#game")
    with sized(page, 416, 800):  # a line of a table stays legible beside its numbers
        page.view("find")
        page.run("document.querySelector('.view-find form').requestSubmit()")
        page.has(".view-find td")
        assert page.run("return document.querySelector('.view-find td').offsetWidth") > 160
    assert page.errors() == []
