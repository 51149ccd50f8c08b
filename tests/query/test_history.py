"""What a root was worth: a point for every save of every run, as the records have it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import chess
import pytest

from graphsearch import Graph, Limits, SearchParams, analyze
from graphsearch.book.build import build
from graphsearch.book.config import BuildSettings, parse_config
from graphsearch.evaluators.factory import create
from graphsearch.graph.sweeps.refresh import refresh
from graphsearch.position.board import key_text
from graphsearch.query.history import history
from graphsearch.query.line import pv
from graphsearch.store.ranking import best_move, node_mean
from graphsearch.store.store import Store
from graphsearch.store.tables import history as table
from graphsearch.store.tables.history import RootValues

from ..conftest import present
from ..support.positions import after_line

SMALL = SearchParams(minibatch_size=1)


def test_every_run_leaves_what_its_root_was_worth_at_its_end(small_graph: Path) -> None:
    with Graph.open(small_graph) as graph:
        analyze(graph, chess.Board(), Limits(visits=50), SMALL)
        record = present(graph.read(chess.Board()))
    found = history(small_graph).by_run  # a first search that compiles saves amid it too
    assert [(point.run, point.kind, point.evaluator) for point in found] == [
        (1, "search", 1),
        (2, "search", 1),
    ]
    last = found[-1]
    best = present(best_move(record, chess.Board()))
    assert (last.n, last.q, last.draw) == (record.visits, *node_mean(record))
    assert last.win == pytest.approx((1 - node_mean(record)[1] + last.q) / 2)
    assert (last.best_move, last.best_san) == (best.uci(), chess.Board().san(best))
    assert present(last.depth) > 0
    assert found[0].n == record.visits - 50


def test_draws_by_the_game_before_are_not_in_it(small_graph: Path) -> None:
    board = after_line("Nf3 Nf6 Ng1 Ng8 Nf3 Nf6 Ng1")
    with Graph.open(small_graph) as graph:
        result = analyze(graph, board, Limits(visits=100), SMALL, searchmoves=[board.parse_san("Ng8")])
        record = present(graph.read(board))
    point, refreshed = history(small_graph, board).by_run
    assert (point.kind, refreshed.kind) == ("search", "refresh")
    assert point.q == node_mean(record)[0]
    assert point.q != result.node.q, "Ng8 is a draw by repetition in this game"


def test_the_line_is_of_the_most_visits_and_a_change_of_the_best_move_is_marked(
    small_graph: Path,
) -> None:
    with Graph.open(small_graph) as graph:
        analyze(graph, chess.Board(), Limits(visits=50), SMALL)
        values = present(graph.root_values(chess.Board()))
        other = replace(values, n=values.n + 1, best_move="a2a3", pv="a2a3 e7e5 a3a5")
        for root in (other, replace(values, n=values.n + 2)):
            graph.call(lambda store, root=root: table.write(store, 2, root))  # type: ignore[misc]
    found = history(small_graph)
    before, odd, after = found.points[-3:]
    (line,) = pv(small_graph, chess.Board()).lines
    assert before.pv == after.pv == tuple(ply.step.move.uci() for ply in line.plies[: table.PV_MOVES])
    assert len(before.line) == len(before.pv) > 1
    assert odd.line == ("a3", "e5"), "a move that is none ends the line"
    assert [point.changed for point in (before, odd, after)] == [False, True, True]
    assert [point for point in found.points if point.changed] == [found.points[0], odd, after]


def test_a_refresh_notes_all_roots(small_graph: Path) -> None:
    with Graph.open(small_graph) as graph:
        analyze(graph, after_line("e4"), Limits(visits=60), SMALL)
    before = history(small_graph).points
    assert refresh(small_graph).stale
    *rest, last = history(small_graph).points
    assert tuple(rest) == before
    assert (last.kind, last.n, last.depth) == ("refresh", before[-1].n, None)
    assert history(small_graph, after_line("e4")).points[-1].run == last.run
    assert not refresh(small_graph).stale
    assert history(small_graph).points[-1] == last, "nothing has changed"


def test_without_a_position_it_is_the_last_root_with_saves(small_graph: Path) -> None:
    with Store.open(small_graph) as store:  # as a review does
        store.record_root(key_text(after_line("e4")), after_line("e4").fen(), 1)
    assert history(small_graph) == history(small_graph, chess.Board())


def test_a_book_notes_its_roots_when_they_change(tmp_path: Path) -> None:
    path = tmp_path / "book.graph"
    head = '[book]\nname = "w"\nside = "white"\nmax_ply = 4\n'
    config = parse_config(f'{head}[[root]]\nfen = "startpos"\n[leaf]\nevaluations = 20\n', tmp_path, "w.toml")
    reports = [build(path, config, settings=BuildSettings(evaluations=n)) for n in (100, 400)]
    points = history(path, chess.Board()).points
    assert history(path).points == points, "the file has no other root"
    assert [(point.kind, point.book) for point in points] == [("book", "w")] * len(points)
    for report, point in zip(reports, history(path, chess.Board()).by_run, strict=True):
        (root,) = report.roots
        assert (point.q, point.best_san) == (root.value, root.best)
        assert point.line[0] == root.best
    assert points[-1].positions == reports[-1].positions
    count = len(points)
    while build(path, config).ended != "complete":
        pass
    assert build(path, config).searched == 0
    done = history(path, chess.Board()).points
    assert build(path, config).searched == 0
    assert history(path, chess.Board()).points == done, "a build that changes nothing notes nothing"
    assert len(done) >= count


# ------------------------------------------------------------------ thinning
def test_a_year_of_runs_stays_small_with_its_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A search a day on each of two roots, a save each half hour: 4,380 saves."""
    path, began = tmp_path / "year.graph", datetime(2025, 1, 1, tzinfo=UTC)
    changes: dict[str, list[tuple[int, int, str]]] = {}
    with Store.open(path, create=True, identity=create("uniform").identity) as store, store.transaction():
        n, best = 100, "e2e4"
        for run in range(1, 366):
            for step in range(6):
                when = began + timedelta(days=run, minutes=30 * step)
                monkeypatch.setattr(table, "now", lambda when=when: when.isoformat(timespec="seconds"))
                n += 50_000
                for root in range(2):
                    key = f"{root:016x}"
                    if (run * 6 + step) % 97 == 10 * root:
                        best = "d2d4" if best == "e2e4" else "e2e4"
                    if not changes.get(key) or changes[key][-1][2] != best:
                        changes.setdefault(key, []).append((run, n, best))
                    line = " ".join(("e2e4", "e7e5") * 4)
                    values = RootValues(key=key, n=n, q=0.1, draw=0.5, best_move=best, depth=30, pv=line)
                    table.write(store, run, values)
    with Store.open(path, read_only=True) as store:
        size = "SELECT sum(pgsize) FROM dbstat WHERE name = 'root_history'"
        assert store.connection.execute(size).fetchone()[0] < 1_000_000
        for root in range(2):
            rows = table.of_root(store, f"{root:016x}")
            assert table.ROWS_LEFT <= len(rows) <= table.MOST_ROWS
            kept = {(row.run, row.n, row.best_move) for row in rows}
            assert set(changes[f"{root:016x}"]) <= kept
            recent = sum(row.run > 182 for row in rows)
            assert recent > len(rows) / 2, "old times keep fewer rows"
