"""The plain tables by sqlite-utils: the rows of a file, and nothing that writes."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import chess
import pytest

from graphsearch import Graph, Limits, analyze
from graphsearch.query.sql import plain_tables


@pytest.fixture
def searched(tmp_path: Path) -> Path:
    path = tmp_path / "a.graph"
    with Graph.open(path) as graph:
        analyze(graph, chess.Board(), Limits(visits=300))
    return path


def test_rows_views_and_functions_are_there(searched: Path) -> None:
    with plain_tables(searched) as tables:
        assert [row["visits"] for row in tables["run"].rows] == [300]
        assert tables["top_position"].count >= 1
        (row,) = tables.query("SELECT key(?) AS key", [chess.STARTING_FEN])
        assert row["key"] in {root["key"] for root in tables["root"].rows}


def test_nothing_can_be_written(searched: Path) -> None:
    before = searched.read_bytes()
    with plain_tables(searched) as tables, pytest.raises(sqlite3.DatabaseError):
        tables.execute("DELETE FROM root")
    assert searched.read_bytes() == before
