"""Positions with equal Polyglot keys, where an inner or an outer rook may castle: each has its own rows."""

from __future__ import annotations

import json
from pathlib import Path

import chess
import pytest

from graphsearch import Graph, Limits, analyze
from graphsearch.exchange.exports import export
from graphsearch.exchange.importing import GivenFile
from graphsearch.exchange.imports import import_files
from graphsearch.graph.sweeps.refresh import refresh
from graphsearch.position.board import board_of, key_text
from graphsearch.query.find import Filters, find
from graphsearch.query.history import history
from graphsearch.query.sql import sql
from graphsearch.query.tree import neighbourhood
from graphsearch.store.info import info
from graphsearch.store.salvage import salvage
from graphsearch.store.verify import verify

from ..conftest import sql as rows

INNER, OUTER = (f"4k3/p6p/8/8/8/8/P6P/4KRR1 w {rook} - 0 1" for rook in "FG")
BOARDS = [board_of(INNER), board_of(OUTER)]
KEYS = [key_text(board) for board in BOARDS]
TABLES = ("root", "top_position", "root_history")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a file in which both were searched, and two games of each."""
    folder = tmp_path_factory.mktemp("equal")
    games = folder / "games.pgn"
    games.write_text("\n\n".join(_game(board) for board in BOARDS for _ in range(2)) + "\n")
    file = folder / "equal.graph"
    with Graph.open(file, evaluator="uniform") as graph:
        for visits, board in zip((60, 90), BOARDS, strict=True):
            analyze(graph, board, Limits(visits=visits))
    import_files("pgn", file, [GivenFile(str(games))])
    return file


def _game(board: chess.Board) -> str:
    head = f'[Variant "Chess960"]\n[SetUp "1"]\n[FEN "{board.fen()}"]\n[Result "1-0"]\n'
    return f"{head}\n1. h3 Kd7 1-0"


def keys_in(file: Path, table: str) -> list[str]:
    """Returns which of the two positions have rows in a table, in any order."""
    found = {key for (key,) in rows(file, f"SELECT key FROM {table}")}
    return [key for key in KEYS if key in found]


def test_both_have_their_rows_are_listed_and_are_found_under_the_key_that_sql_computes(path: Path) -> None:
    for table in (*TABLES, "game_position", "game_move"):
        assert keys_in(path, table) == KEYS, table
    assert {(root.key, root.visits) for root in info(path).roots} == {(KEYS[0], 60), (KEYS[1], 90)}
    for fen, board, visits in zip((INNER, OUTER), BOARDS, (60, 90), strict=True):
        assert history(path, board).points[-1].n == visits
        assert neighbourhood(path, board, depth=1).nodes[0].n == visits
        with sql(path, f"SELECT n FROM top_position WHERE key = key('{fen}')") as result:
            assert list(result.rows) == [(visits,)]
    assert {found.key for found in find(path, Filters(min_n=60))} == set(KEYS)


def test_a_file_of_both_is_sound_and_stays_so_when_refreshed_and_salvaged(path: Path, tmp_path: Path) -> None:
    assert verify(path).problems == []
    refresh(path)
    assert verify(path).problems == []
    rescued = tmp_path / "rescued.graph"
    salvage(path, rescued)
    for table in (*TABLES, "game_move"):
        assert keys_in(rescued, table) == KEYS


def test_exports_tell_them_apart(path: Path, tmp_path: Path) -> None:
    export("jsonl", path, tmp_path / "all.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "all.jsonl").read_text().splitlines()]
    by_key = {row["key"]: row for row in rows}
    assert len(by_key) == len(rows)
    assert [by_key[key]["fen"] for key in KEYS] == [board.fen() for board in BOARDS]
    children = {move["child"] for row in rows for move in row["moves"] if move["n"]}
    assert children <= set(by_key)
    export("csv", path, tmp_path / "all.csv")
    assert set(KEYS) <= {line.split(",")[0] for line in (tmp_path / "all.csv").read_text().splitlines()}
    export("epd", path, tmp_path / "all.epd")
    assert all(f'id "{key}";' in (tmp_path / "all.epd").read_text() for key in KEYS)
