"""`top_position` and `top_edge` say what the records say, whatever was done and whatever ended it."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import chess
import pytest

from graphsearch.evaluators.factory import create
from graphsearch.graph.sweeps.merge import merge
from graphsearch.graph.sweeps.reevaluate import reevaluate
from graphsearch.graph.sweeps.refresh import WRITING, refresh
from graphsearch.graph.view import view
from graphsearch.store.index import Sizes
from graphsearch.store.rewrite import compact
from graphsearch.store.salvage import salvage
from graphsearch.store.store import Store
from graphsearch.store.verify import verify

from ...conftest import sql
from ...store.records import sized
from ...support.graphs import searched
from .test_refresh import Stop, stopping

LINES = ("", "e4", "d4", "Nf3 Nf6 g3", "g3 Nf6 Nf3", "e4 e5 Nf3")  # transpositions among them
TABLES = ("top_position", "top_edge")
Rows = list[tuple[Any, ...]]


@pytest.fixture(autouse=True)
def few_top_rows() -> None:
    """Leaves the tables as they are: these tests are about them."""


def search(path: Path, line: str = "", visits: int = 40) -> Path:
    return searched(path, chess.STARTING_FEN, line, visits=visits)


def tables(path: Path) -> dict[str, Rows]:
    return {name: sql(path, f"SELECT * FROM {name} ORDER BY 1, 2") for name in TABLES}


def by_records(path: Path, fens: list[str]) -> tuple[dict[str, tuple[Any, ...]], dict[tuple[str, str], int]]:
    """Returns N, Q and best move of positions, and N of their moves, as views of their records have them."""
    positions: dict[str, tuple[Any, ...]] = {}
    moves: dict[tuple[str, str], int] = {}
    with Store.open(path, read_only=True) as store:
        for fen in fens:
            node = view(store.read, chess.Board(fen), lines=0)  # no PVs: they take the longest
            assert node is not None
            key = node.key
            positions[key] = (node.visits, node.q, node.moves[0].move.uci() if node.moves else None)
            moves |= {(key, move.move.uci()): move.n for move in node.moves if move.n}
    return positions, moves


def check(path: Path) -> None:
    """Compares the tables with records: all as `verify` does, every tenth position by views of the graph."""
    assert verify(path).problems == []
    found = tables(path)
    rows = found["top_position"][::10]
    positions, moves = by_records(path, [row[1] for row in rows])
    assert {row[0]: (row[2], row[3], row[7]) for row in rows} == positions
    assert {(row[0], row[1]): row[3] for row in found["top_edge"] if row[0] in positions} == moves


def test_the_tables_follow_any_sequence_of_commands(tmp_path: Path) -> None:
    rng = random.Random(0)
    path, other = tmp_path / "a.graph", tmp_path / "b.graph"
    search(path)
    steps: list[Callable[[], object]] = [
        lambda: search(path, rng.choice(LINES), rng.randrange(20, 60)),
        lambda: refresh(path, rng.choice((1e-6, 1e-3))),
        lambda: compact(path, min_visits=2),
        lambda: merge([search(other, rng.choice(LINES))], into=path),
        lambda: stopped_refresh(path, rng.randrange(1, 4)),
    ]
    for step in rng.sample(steps, len(steps)):
        step()
        check(path)
    reevaluate(path, create("uniform"))
    check(path)


def stopped_refresh(path: Path, step: int) -> bool:
    """Refreshes a file; stops at the given step of writing, and returns True, if there is one."""
    with suppress(Stop):
        sized(
            Sizes(step_blocks=2, scan_blocks=2), refresh, path, 1e-6, on_progress=stopping(WRITING, step - 1)
        )
        return False
    return True


DIFFER = "it, or its moves, differ from its record"
CHANGES = {
    "UPDATE top_position SET n = n + 5 WHERE best_move IS NOT NULL": DIFFER,
    "UPDATE top_position SET q = -q, win = loss, loss = win": DIFFER,
    "UPDATE top_edge SET n = 1 WHERE n > 1": DIFFER,
    "DELETE FROM top_edge": DIFFER,
    "DELETE FROM top_position": "has no such position",
    "UPDATE top_position SET fen = '8/8/4k3/8/8/4K3/4P3/8 w - - 0 1'": DIFFER,
}


@pytest.mark.parametrize("statement", CHANGES)
def test_rows_that_say_something_else_are_named_and_mended(statement: str, tmp_path: Path) -> None:
    path = search(tmp_path / "a.graph")
    right = tables(path)
    sql(path, statement)
    found = [line for line in verify(path).problems if "table top_" in line]
    assert found
    assert all(CHANGES[statement] in line and "`graphsearch lab refresh` mends it" in line for line in found)
    assert not salvage(path, tmp_path / "new.graph").problems
    assert [line for line in verify(tmp_path / "new.graph").problems if "table top_" in line] == []
    refresh(path)
    check(path)
    assert tables(path) == right
