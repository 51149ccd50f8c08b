"""Repertoires on the page: added by row and by line, unfolded."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphsearch.book.study.repertoire import add_line, load

from ..query.handmade import LINES, graph_file
from ..support.positions import after_line
from .client import Client, Serve, until
from .page import Page


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    return graph_file(tmp_path / "a.graph", LINES)


@pytest.fixture
def client(serve: Serve, graph: Path) -> Client:
    found = serve(graph)
    found.enter()
    return found


def moves(path: Path, side: str = "white") -> int:
    return load(path, side).size


def with_lines(path: Path, *lines: str, side: str = "white") -> None:
    for line in lines:
        add_line(path, side, after_line(line))


# ------------------------------------------------------------------ the answers
def test_a_line_is_added_and_removed_and_wrong_ones_are_refused(client: Client, graph: Path) -> None:
    assert client.post("repertoire-add", side="white", line="e2e4 e7e5 g1f3").json["added"] == 3
    assert client.get("position").json["repertoire"] == {"white": ["e2e4"]}
    assert client.post("repertoire-remove", side="white", line="e4 e5").json["removed"] == 2
    for given in (
        {"side": "white", "line": "e2e5"},
        {"line": "e2e4"},
        {"side": "red", "line": "e2e4"},
        {"side": "white"},
    ):
        for path in ("repertoire-add", "repertoire-remove"):
            assert client.post(path, **given).status == 400, given
    assert client.post("repertoire-remove", side="white", line="e4 e5").status == 400  # another tab was first


def test_a_file_that_is_only_read_is_not_changed_and_says_so(serve: Serve, graph: Path) -> None:
    with_lines(graph, "e4 e5 Nf3")
    client = serve(graph, read_only=True)
    client.enter()
    before = graph.read_bytes()
    assert "--read-only" in client.get("repertoire", side="white").json["closed"]
    for path in ("repertoire-add", "repertoire-remove", "repertoire-import?side=white"):
        answer = client.post(path, side="white", line="d4")
        assert answer.status == 400
        assert "read-only" in answer.error
    assert graph.read_bytes() == before


# ------------------------------------------------------------------ the page
def test_a_row_of_moves_adds_its_line_and_removes_it(page: Page, graph: Path) -> None:
    page.open("/p/?line=e4,e5", moves=2)
    item = "[...document.querySelectorAll('#row-menu button')].find((e) => /repertoire/.test(e.textContent))"
    for text, count in (("Add to White\u2019s repertoire", 3), ("Remove from White\u2019s repertoire", 2)):
        page.has('[data-focus="act g1f3"]')
        page.click('[data-focus="act g1f3"]')
        assert page.run(f"return {item}.textContent") == text
        page.run(f"{item}.click()")
        if text.startswith("Remove"):
            page.says("dialog.sure", "Remove Nf3, and all that only it reaches?")
            page.click("dialog.sure .primary")
        page.has('.moves [aria-label="in White\u2019s repertoire"]', count - 2)
        assert moves(graph) == count


def test_a_line_of_another_tab_is_shown_and_a_move_goes_when_asked(page: Page, graph: Path) -> None:
    page.open()
    page.view("repertoire")
    page.says(".view-repertoire", "It is empty")
    with_lines(graph, "e4 e5 Nf3")  # the other tab
    page.has('[aria-label="Remove e4"]')
    page.click('[aria-label="Remove e4"]')
    page.says("dialog.sure", "Remove e4, and all that only it reaches?")
    assert moves(graph) == 3
    page.click("dialog.sure .primary")
    until(lambda: moves(graph) == 0, "the move gone")
    page.says(".view-repertoire", "It is empty")
