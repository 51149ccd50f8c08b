"""The Datasette plugin: functions that know positions, boards for FENs, also while a search writes."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import chess
import pytest

from graphsearch import Graph, Limits, SearchParams, analyze
from graphsearch.position.board import key_of

from ..conftest import sql

pytest.importorskip("datasette", reason="the extra datasette is not installed")
sqlite3.enable_callback_tracebacks(False)  # Datasette turns them on for the whole process
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")

E4 = "rnbqkbnr/pppppppp/8/8/4P3/8/PPPP1PPP/RNBQKBNR b KQkq - 0 1"
UNKNOWN = "8/8/8/4k3/8/4K3/4P3/8 w - - 0 1"
NO_FENS = (
    None,
    7,
    b"x",
    "e4",
    "<script>",
    f"{E4}<script>",
    "9/8/8/8/8/8/8/8 w - - 0 1",
    E4.replace("8", "9"),
)


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    """Registers the plugin as its entry point does where it is installed."""
    from datasette.plugins import pm

    from graphsearch.query import datasette_plugin

    ours = not pm.is_registered(datasette_plugin)
    if ours:
        pm.register(datasette_plugin)
    yield
    if ours:
        pm.unregister(datasette_plugin)


class Site:
    """A Datasette of some files, asked in this process."""

    def __init__(self, *paths: Path) -> None:
        from datasette.app import Datasette

        self._datasette = Datasette([str(path) for path in paths])

    def get(self, address: str, **words: str) -> Any:
        async def ask() -> Any:
            return await self._datasette.client.get(address, params=words)

        return asyncio.run(ask())

    def sql(self, name: str, statement: str) -> list[dict[str, Any]]:
        answer = self.get(f"/{name}.json", sql=statement, _shape="array")
        assert answer.status_code == 200, answer.text
        found = answer.json()
        assert isinstance(found, list)
        return found


def test_sql_knows_records_and_moves(small_graph: Path) -> None:
    site = Site(small_graph)
    (row,) = site.sql(
        "small",
        f"SELECT record('startpos') AS r, record(NULL) AS none, record('{UNKNOWN}') AS unknown,"
        f" san('{E4}', 'g8f6') AS san, key('startpos') AS key, after('startpos', 'e4') AS after,"
        " cp(0) AS cp",
    )
    record = json.loads(row["r"])
    with Graph.open(small_graph) as graph:
        stored = graph.read(chess.Board())
    assert stored is not None
    assert record["visits"] == stored.visits
    assert (row["san"], row["after"], row["cp"]) == ("Nf6", E4, 0)
    assert row["key"] == f"{key_of(chess.Board()):016x}"
    assert (row["none"], row["unknown"]) == (None, None)
    assert site.get("/small.json", sql="SELECT record('nonsense')").status_code == 400


def test_a_fen_is_a_board_and_nothing_else_is(small_graph: Path) -> None:
    from graphsearch.query import datasette_plugin

    page = Site(small_graph).get("/small/top_position").text
    assert page.count("<svg") >= 20
    assert chess.STARTING_FEN in page
    for value in NO_FENS:
        assert datasette_plugin.render_cell(value) is None, value
    assert "<svg" in str(datasette_plugin.render_cell(E4))


def test_it_sees_what_a_search_writes_meanwhile(small_graph: Path) -> None:
    site = Site(small_graph)
    statement = "SELECT json_extract(record('startpos'), '$.visits') AS n"
    (before,) = site.sql("small", statement)
    with Graph.open(small_graph) as graph:
        analyze(graph, chess.Board(), Limits(visits=100), SearchParams(minibatch_size=1))
        (after,) = site.sql("small", statement)
    assert after["n"] == before["n"] + 100
    (closed,) = site.sql("small", statement)
    assert closed == after


def test_other_databases_have_no_records(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    sql(path, "CREATE TABLE t (a)")
    site = Site(path)
    assert site.sql("other", "SELECT san('startpos', 'e4') AS san") == [{"san": "e4"}]
    assert "no such function: record" in site.get("/other.json", sql="SELECT record('startpos')").text
