"""`graphsearch lab refresh`: what it prints, and what it refuses."""

from __future__ import annotations

import importlib
from functools import partial
from pathlib import Path

import chess
import pytest
import typer

from graphsearch import Graph, Limits, analyze
from graphsearch.graph.sweeps import refresh as module

from ..conftest import Cli


@pytest.fixture
def stale(small_graph: Path) -> Path:
    board = chess.Board()
    board.push_san("e4")
    with Graph.open(small_graph) as graph:
        analyze(graph, board, Limits(visits=200))
    return small_graph


def test_it_tells_what_it_did(cli: Cli, stale: Path) -> None:
    found = cli("lab", "refresh", stale, "--tolerance", "0.0001", "--json").json
    assert found["records"] > 350
    assert found["settled"] is True
    assert found["stale"] > 0
    assert 0 < found["changed_records"] <= found["changed_edges"]
    assert found["last_change"] < 0.0001 < found["first_change"]
    assert found.keys() >= {"sweeps", "lost", "missing", "seconds"}
    done = cli("lab", "refresh", stale, "--tolerance", "0.0001").ends(0)
    assert "sweep" in done.out
    assert "0 stale edges; written: 0 edges of 0 records" in done.out


def test_values_that_do_not_settle_are_told(cli: Cli, stale: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "refresh", partial(module.refresh, max_sweeps=1))
    done = cli("lab", "refresh", stale, "--tolerance", "0.00001").ends(0)
    assert done.err.endswith("have not settled after 1 sweep; refresh again to continue.\n")


def test_a_size_has_a_unit_or_is_in_bytes() -> None:
    byte_count = importlib.import_module("graphsearch.cli.options").byte_count
    assert [byte_count(text) for text in ("1kB", "2 mb", "1GiB", "7")] == [1000, 2_000_000, 1 << 30, 7]
    for text in ("", "MB", "-1", "1.5.2", "1XB", "1 e3"):
        with pytest.raises(typer.BadParameter, match="a size must be"):
            byte_count(text)
