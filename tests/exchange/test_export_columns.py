"""Exports write, byte for byte, what they always wrote; their columns are what single records say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from graphsearch.exchange import walk
from graphsearch.exchange.selection import Selection

from .golden_exports import FILES, PATH, digests, make_graph, result_of


@pytest.fixture(scope="module", params=FILES)
def graph(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    path = tmp_path_factory.mktemp("graph") / f"{request.param}.graph"
    return make_graph(path, request.param), request.param


def test_exports_write_the_bytes_that_they_always_wrote(graph: tuple[Path, str], tmp_path: Path) -> None:
    assert digests(*graph, tmp_path) == json.loads(PATH.read_text())[graph[1]]


@pytest.mark.parametrize("graph", ["lines"], indirect=True)
@pytest.mark.parametrize("form", ["jsonl", "epd", "pgn"])
def test_it_does_not_matter_how_many_records_are_read_together(
    form: str, graph: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = result_of(form, graph[0], tmp_path / "out", Selection())
    monkeypatch.setattr(walk, "BATCH", 7)
    assert result_of(form, graph[0], tmp_path / "out", Selection()) == whole
    assert whole[1]
