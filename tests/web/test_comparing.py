"""The served file beside others: they are listed, compared and merged; no page names any other file."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import chess

from graphsearch.query.diff import WHATS, diff
from graphsearch.store.store import Store

from ..query.handmade import LINES, graph_file
from .conftest import Client
from .test_work import done

MORE = LINES | {"e4": {"e5": (900, -0.5), "c5": (19, 0.0)}, "d4 d5": {"c4": (5, 0.1)}}


def test_files_of_the_folder_are_compared_and_no_others(client: Client, small_graph: Path) -> None:
    other = graph_file(small_graph.with_name("<b>.graph"), MORE)
    shutil.copy(other, small_graph.with_name("notes.txt"))
    assert client.get("others").json == {"files": ["<b>.graph"]}
    answer = client.get("diff", other="<b>.graph", top="3").json
    expected = json.loads(json.dumps(diff(other, small_graph, what=WHATS, top=3).as_dict()))
    for name in ("changes", "come", "gone"):
        ways = [row.pop("way") for row in answer[name]]
        assert all(way["start"] is None for way in ways if way), name
    assert answer | {"old": "", "new": ""} == expected | {"old": "", "new": "", "books": []}
    turned = client.get("diff", other="<b>.graph", turned="1").json
    assert (turned["old"], turned["new"]) == ("small.graph", "<b>.graph")
    for name in ("notes.txt", "../small.graph", str(other), "", "small.graph"):
        assert client.get("diff", other=name).status == 400
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
