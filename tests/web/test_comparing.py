"""The served file beside others: they are listed, compared and merged; no page names any other file."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import chess

from graphsearch.query.diff import WHATS, diff
from graphsearch.store.store import Store

from ..query.handmade import LINES, graph_file
from .client import Client, done
from .page import Page

MORE = LINES | {"e4": {"e5": (900, -0.5), "c5": (19, 0.0)}, "d4 d5": {"c4": (5, 0.1)}}


def compared(client: Client, **given: object) -> Any:
    """Returns what a comparison finds, which the queue does."""
    job = client.post("compare", **given).json
    ended = done(client, job["number"])
    assert (ended["kind"], ended["state"], ended["error"]) == ("compare", "done", "")
    return client.get("compared", number=job["number"]).json


def test_files_of_the_folder_are_compared_and_no_others(client: Client, small_graph: Path) -> None:
    other = graph_file(small_graph.with_name("<b>.graph"), MORE)
    shutil.copy(other, small_graph.with_name("notes.txt"))
    assert client.get("others").json == {"files": ["<b>.graph"]}
    answer = compared(client, other="<b>.graph", top="3")
    expected = json.loads(json.dumps(diff(other, small_graph, what=WHATS, top=3).as_dict()))
    for name in ("changes", "come", "gone"):
        ways = [row.pop("way") for row in answer[name]]
        assert all(way["start"] is None for way in ways if way), name
    assert answer | {"old": "", "new": ""} == expected | {"old": "", "new": "", "books": []}
    turned = compared(client, other="<b>.graph", turned="1")
    assert (turned["old"], turned["new"]) == ("small.graph", "<b>.graph")
    for name in ("notes.txt", "../small.graph", str(other), "", "small.graph"):
        assert client.post("compare", other=name).status == 400
        assert client.post("merge", other=name).status == 400


def test_another_file_is_merged_as_a_task(client: Client, small_graph: Path) -> None:
    other = shutil.copy(small_graph, small_graph.with_name("other.graph"))
    with Store.open(other) as store:
        store.begin_run(chess.STARTING_FEN, {}, {})
    before = Path(other).read_bytes()
    with Store.open(small_graph, read_only=True) as store:
        runs = len(store.runs())
    job = client.post("merge", other="other.graph").json
    ended = done(client, job["number"])
    assert (ended["kind"], ended["state"], ended["error"]) == ("merge", "done", "")
    assert (ended["facts"]["added"], ended["facts"]["changed"], ended["facts"]["found"]) == (0, 0, 0)
    with Store.open(small_graph, read_only=True) as store:
        assert len(store.runs()) == runs + 1
    assert Path(other).read_bytes() == before
    assert "compared nothing" in client.get("compared", number=job["number"]).error
    assert client.get("compared", number=99).status == 400
    assert "one of" in client.post("compare", other="x.graph", what="nothing").error


def test_the_page_compares_in_the_queue_and_shows_what_changed(page: Page, small_graph: Path) -> None:
    page.open()
    graph_file(small_graph.with_name("older.graph"), MORE)
    page.view("diff")
    page.wait('return document.querySelector("#diff-other")?.value === "older.graph"', "the other file")
    page.click(".view-diff form .primary")
    page.has(".view-diff a.csv", 3)
    assert "common positions" in page.text(".view-diff .answer")
    link = page.run('return document.querySelector(".view-diff a.csv").getAttribute("href")')
    assert page.client.ask("GET", link).body.startswith(b"position,")
    page.view("moves")
    page.view("diff")  # what was compared is still there
    page.has(".view-diff a.csv", 3)
    assert page.errors() == []
