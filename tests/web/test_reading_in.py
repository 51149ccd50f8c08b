"""What the page is told while a search reads its file into memory."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import chess
import pytest

from graphsearch import Graph, Limits, analyze
from graphsearch.graph.reading import Loader
from graphsearch.web.jobs.searching import do_search
from graphsearch.web.jobs.tasks import SearchTask


def test_a_search_tells_how_far_its_file_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.graph"
    with Graph.open(path) as graph:
        nodes = analyze(graph, chess.Board(), Limits(visits=1000)).nodes
    monkeypatch.setattr("graphsearch.graph.graph.LOADED_AT_ONCE", 0)
    monkeypatch.setattr("graphsearch.graph.reading.LEAST_SINGLE_READS", 8)
    monkeypatch.setattr(Loader, "advance", lambda self, seconds: True)  # it never ends
    told: list[dict[str, Any]] = []
    stop = SimpleNamespace(is_set=lambda: any(facts.get("reading") for facts in told))
    orders: Any = SimpleNamespace(stop=stop, watched=(), answer=lambda records: None)
    task = SearchTask(title="search", path=path, boards=(chess.Board(),), limits=Limits(seconds=240))
    do_search(task, orders, told.append)
    reading = [facts["reading"] for facts in told if facts.get("reading")]
    assert reading[0] == (0, nodes)
