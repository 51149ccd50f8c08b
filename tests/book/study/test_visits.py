"""Visits: what the file thought when a person last looked, and what changed since."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import chess
import pytest

from graphsearch.book.study.visits import PAUSE, changes_since, changes_since_visit, note_visit, snapshot
from graphsearch.store.plain_tables import changing
from graphsearch.store.tables import visits as rows
from graphsearch.store.upkeep.verify import verify

from ...conftest import Cli
from ...query.handmade import LINES, board_after, graph_file

BEGAN = datetime(2024, 2, 28, 23, 50, tzinfo=UTC)
NOW = BEGAN + timedelta(days=3)
FENS = [board_after(line).fen() for line in LINES]
# 1. d4 is visited most now, 1. e4 e5 is worth less
LATER = LINES | {"": {"d4": (90, 0.3), "e4": (60, 0.1)}, "e4 e5": {"Nf3": (39, -0.2)}}


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    return graph_file(tmp_path / "a.graph", LINES)


def searched(path: Path) -> None:
    """Puts other numbers into a file, and leaves what a person keeps in it."""
    with changing(path) as connection:
        kept = (
            rows.visits(connection),
            {v.id: rows.seen_in(connection, v.id) for v in rows.visits(connection)},
        )
    path.unlink()
    graph_file(path, LATER)
    with changing(path) as connection:
        for visit in kept[0][::-1]:
            number = rows.begin_visit(connection, visit.began)
            rows.end_visit(connection, number, visit.ended)
            rows.put_seen(connection, number, kept[1][visit.id])


def test_what_changed_since_the_last_visit_is_told(graph: Path) -> None:
    note_visit(graph, FENS, moment=BEGAN)
    assert changes_since_visit(graph, moment=NOW).counts == {"best": 0, "q": 0, "bounds": 0}
    searched(graph)
    found = changes_since_visit(graph, moment=NOW)
    assert (found.since, found.compared) == ("2024-02-28T23:50:00+00:00", len(FENS))
    assert found.counts["best"] == 1
    by_fen = {change.position: change for change in found.changes}
    start = by_fen[chess.STARTING_FEN]
    assert (start.old.best_san, start.new.best_san) == ("e4", "d4")
    assert found.changes[0].position == FENS[2]  # it changed most
    assert found.changes[0].what == ("q",)
    assert verify(graph).problems == []


def test_looks_within_the_pause_are_one_visit(graph: Path) -> None:
    note_visit(graph, FENS, moment=BEGAN)
    searched(graph)
    note_visit(graph, FENS[:1], moment=NOW)  # the page is closed, and loaded again
    again = changes_since_visit(graph, moment=NOW + PAUSE / 2)
    assert (again.since, again.counts["best"]) == ("2024-02-28T23:50:00+00:00", 1)
    note_visit(graph, moment=NOW + PAUSE / 2)
    later = changes_since_visit(graph, moment=NOW + 2 * PAUSE)
    assert later.since == (NOW + PAUSE / 2).isoformat()
    assert later.counts["best"] == 0
    assert later.compared == len(FENS)  # what was looked at earlier is not forgotten


def test_a_visit_of_a_clock_that_was_fast_is_over_when_it_is_right_again(graph: Path) -> None:
    note_visit(graph, FENS, moment=NOW + timedelta(days=400))
    searched(graph)
    found = changes_since_visit(graph, moment=NOW)
    assert (found.since, found.counts["best"]) == ((NOW + timedelta(days=400)).isoformat(), 1)


def test_only_the_last_two_visits_are_kept(graph: Path) -> None:
    for day in range(5):
        note_visit(graph, FENS[:1], moment=BEGAN + timedelta(days=day))
    with changing(graph) as connection:
        assert [visit.id for visit in rows.visits(connection)] == [5, 4]
        assert connection.execute("SELECT DISTINCT visit FROM seen ORDER BY 1").fetchall() == [(4,), (5,)]


def test_a_file_that_nobody_has_looked_at_has_no_last_visit(graph: Path) -> None:
    assert changes_since_visit(graph, moment=NOW).since is None
    note_visit(graph, ["nonsense", FENS[0]], moment=NOW)
    assert changes_since_visit(graph, moment=NOW).since is None  # it is the present one


def test_numbers_that_are_kept_elsewhere_are_compared(graph: Path, tmp_path: Path) -> None:
    seen = snapshot(graph, FENS)
    other = graph_file(tmp_path / "b.graph", LATER)
    assert changes_since(other, seen, "then").counts["best"] == 1


def test_the_command_says_what_changed_and_counts_as_a_visit(cli: Cli, small_graph: Path) -> None:
    first = cli("diff", small_graph, "--since", "visit")
    assert "this is its first visit" in first.out
    with changing(small_graph) as connection:
        connection.execute("UPDATE visit SET ended = '2024-02-28T23:50:00+00:00'")
        connection.execute(
            "UPDATE seen SET best_move = 'a2a3', q = -0.5 WHERE fen = ?", (chess.STARTING_FEN,)
        )
    copy = shutil.copy(small_graph, small_graph.with_name("copy.graph"))
    text = cli("diff", small_graph, "--since", "visit").out
    assert "since 2024-02-28 23:50 (UTC)" in text
    assert "best move 1, 0.20 or more 1, proven 0" in text
    assert "a3" in text
    found = cli("diff", copy, "--since", "visit", "--json").json
    assert (found["counts"]["best"], found["changes"][0]["old"]["best_san"]) == (1, "a3")
