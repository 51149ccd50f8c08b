"""What a root was worth: a point for every save of every run, as the records have it."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import chess
import pytest

from graphsearch import Graph, Limits, SearchParams, analyze
from graphsearch.errors import UnknownPositionError
from graphsearch.evaluators.factory import create
from graphsearch.graph.ranking import best_move, node_mean
from graphsearch.query.history import history
from graphsearch.store.migrations import FORMAT_VERSION
from graphsearch.store.store import Store
from graphsearch.store.upkeep.prune import prune
from graphsearch.sweep.reevaluate import reevaluate

from ..conftest import ROOT, Cli
from .handmade import board_after, graph_file

SMALL = SearchParams(minibatch_size=1)


def test_every_run_leaves_what_its_root_was_worth_at_its_end(small_graph: Path) -> None:
    with Graph.open(small_graph) as graph:
        analyze(graph, chess.Board(), Limits(visits=50), SMALL)
        record = graph.read(chess.Board())
    assert record is not None
    found = history(small_graph).by_run  # a first search that compiles saves amid it too
    assert [(point.run, point.kind, point.evaluator) for point in found] == [
        (1, "search", 1),
        (2, "search", 1),
    ]
    last = found[-1]
    best = best_move(record, chess.Board())
    assert best is not None
    assert (last.n, last.q, last.draw) == (record.visits, *node_mean(record))
    assert (last.best_move, last.best_san) == (best.uci(), chess.Board().san(best))
    assert found[0].n == record.visits - 50


def test_a_save_amid_a_search_is_a_point_and_one_at_the_same_n_takes_its_place(small_graph: Path) -> None:
    with Graph.open(small_graph) as graph:
        values = graph.root_values(chess.Board())
        assert values is not None
        analyze(graph, chess.Board(), Limits(visits=20), SMALL)
        assert graph.store is not None
        from graphsearch.store.tables.history import write

        for _ in range(2):
            graph.call(lambda store: write(store, 2, values))
    points = [(point.run, point.n) for point in history(small_graph).points]
    assert points[-3:] == [(1, values.n), (2, values.n), (2, values.n + 20)]
    assert [point.n for point in history(small_graph).by_run] == [values.n, values.n + 20]


def test_draws_by_the_game_before_are_not_in_it(small_graph: Path) -> None:
    board = board_after("Nf3 Nf6 Ng1 Ng8 Nf3 Nf6 Ng1")
    with Graph.open(small_graph) as graph:
        result = analyze(graph, board, Limits(visits=100), SMALL, searchmoves=[board.parse_san("Ng8")])
        record = graph.read(board)
    assert record is not None
    (point,) = history(small_graph, board).by_run
    assert point.q == node_mean(record)[0]
    assert point.q != result.node.q, "Ng8 is a draw by repetition in this game"


def test_searches_in_a_hurry_are_in_it_once_they_are_saved(small_graph: Path) -> None:
    with Graph.open(small_graph) as graph:
        for _ in range(2):
            analyze(graph, chess.Board(), Limits(visits=30), SMALL, hurry=True)
    first, second, third = history(small_graph).by_run
    assert [point.run for point in (first, second, third)] == [1, 2, 3]
    assert third.n - second.n == second.n - first.n == 30


def test_a_search_that_is_part_of_another_run_leaves_nothing(small_graph: Path) -> None:
    with Graph.open(small_graph) as graph:
        assert graph.store is not None
        run = graph.store.begin_run("", {}, {}, kind="book")
        analyze(graph, board_after("e4"), Limits(visits=10), SMALL, run=run)
    assert history(small_graph, board_after("e4")).points == ()


def test_another_evaluator_is_a_point_of_its_own(small_graph: Path) -> None:
    reevaluate(small_graph, create("uniform"))
    first, second = history(small_graph).by_run
    assert (second.kind, second.evaluator, second.n) == ("reevaluate", 2, first.n)
    assert second.q != first.q


def test_it_outlives_pruning_and_the_list_of_runs(small_graph: Path) -> None:
    before = history(small_graph).points
    prune(small_graph, 5)
    assert history(small_graph).points == before
    with closing(sqlite3.connect(small_graph, isolation_level=None)) as connection:
        connection.execute("DELETE FROM run")
    (point,) = history(small_graph).by_run
    assert (point.kind, point.evaluator, point.q) == (None, None, before[-1].q)


def test_a_file_of_an_older_format_has_none_until_a_search_writes_it(tmp_path: Path) -> None:
    path = Path(shutil.copy(ROOT / "tests" / "golden" / "format4.graph", tmp_path / "old.graph"))
    assert history(path, chess.Board()).points == ()
    with pytest.raises(UnknownPositionError, match="no root of a search; name a position"):
        history(path)
    with Graph.open(path, evaluator="uniform") as graph:
        analyze(graph, chess.Board("8/2p5/3p4/KP5r/1R3p1k/8/4P1P1/8 w - - 0 1"), Limits(visits=20), SMALL)
    assert len(history(path).by_run) == 1
    with Store.open(path, read_only=True) as store:
        assert store.format_version == FORMAT_VERSION


# ------------------------------------------------------------------ the command
def test_the_command_prints_a_table_or_an_object(cli: Cli, small_graph: Path) -> None:
    with Graph.open(small_graph) as graph:
        analyze(graph, chess.Board(), Limits(visits=50), SMALL)
    text = cli("query", "history", small_graph, "--by-run")
    assert text.code == 0
    assert [line.split()[:2] for line in text.out.splitlines()[3:]] == [["1", "search"], ["2", "search"]]
    data = cli("query", "history", small_graph, "startpos", "--by-run", "--json").json
    assert [point["run"] for point in data["points"]] == [1, 2]
    assert set(data["points"][0]) == {
        "run", "kind", "evaluator", "saved", "n", "q", "draw", "cp", "best_move", "best_san",
    }  # fmt: skip


def test_the_command_says_what_is_wrong_in_one_line(cli: Cli, tmp_path: Path) -> None:
    file = graph_file(tmp_path / "hand.graph", {"": {"e4": (60, 0.1)}})
    nothing = cli("query", "history", file)
    assert (nothing.code, len(nothing.err.splitlines())) == (0, 1)
    assert "no search of this position was saved" in nothing.err
    for words, code in (((file, "nonsense"), 2), ((file, "--moves", "e4"), 2), ((tmp_path / "none",), 1)):
        wrong = cli("query", "history", *words)
        assert (wrong.code, wrong.out, len(wrong.err.splitlines()) > 0) == (code, "", True)
