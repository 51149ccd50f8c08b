"""`store merge` and `diff`: what they print, write and refuse."""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing
from datetime import datetime, timedelta, timezone
from pathlib import Path

import chess
import chess.pgn
import pytest

from graphsearch.store.store import Store
from graphsearch.store.tables import history

from ..conftest import Cli, sql
from ..query.handmade import LINES, graph_file
from ..support.books import small_book
from ..support.terminals import on_a_terminal

MORE = LINES | {"e4": {"e5": (40, -0.15), "c5": (900, 0.5)}, "d4 d5": {"c4": (5, 0.1)}}


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    return graph_file(tmp_path / "a.graph", LINES), graph_file(tmp_path / "b.graph", MORE)


def test_a_merge_prints_what_came_from_each_file(cli: Cli, files: tuple[Path, Path], tmp_path: Path) -> None:
    a, b = files
    new = tmp_path / "c.graph"
    planned = cli("store", "merge", a, b, "-o", new, "--dry-run").ends(0, "Nothing was written")
    assert "would have 9 nodes" in planned.out
    assert "Most visited, changed" in planned.out
    assert not new.exists()
    data = cli("store", "merge", a, b, "-o", new, "--json").json
    assert [one["fresh"] for one in data["inputs"]] == [8, 1]
    assert (data["nodes"], data["complete"], data["dry_run"]) == (9, True, False)
    assert data["refresh"]["stale"] > 0
    refused = cli("store", "merge", a, b, "-o", new)
    assert (refused.code, "replace it with --force" in refused.err) == (1, True)
    again = cli("store", "merge", b, "--into", new)
    assert (again.code, again.err) == (0, "")
    assert f"{new} has 9 nodes" in again.out
    assert cli("store", "verify", new).code == 0


def test_what_is_left_out_is_listed_and_fails(cli: Cli, files: tuple[Path, Path], tmp_path: Path) -> None:
    a, b = files
    sql(b, "DELETE FROM block")
    outcome = cli("store", "merge", a, b, "-o", tmp_path / "c.graph").ends(1)
    assert "b.graph (salvaged)" in outcome.out
    assert "it is missing" in outcome.out
    assert cli("store", "verify", tmp_path / "c.graph").code == 0


# ------------------------------------------------------------------ diff
def test_a_diff_prints_changes_and_writes_lines(cli: Cli, files: tuple[Path, Path], tmp_path: Path) -> None:
    games = tmp_path / "out.pgn"
    outcome = cli("diff", *files, "-o", games).ends(0)
    assert "8 common positions: 7 the same; changed: best move 1, 0.20 or more 1, visits 1" in outcome.out
    assert "Only in" in outcome.out
    data = cli("diff", *files, "--json").json
    (change,) = data["changes"]
    assert (change["what"], change["old"]["best_san"], change["new"]["best_san"]) == (
        ["best", "q", "n"],
        "e5",
        "c5",
    )
    assert (data["both"], data["same"], data["only_new"]) == (8, 7, 1)
    assert data["come"][0]["worth"]["n"] == 6
    with games.open() as text:
        game = chess.pgn.read_game(text)
        assert game is not None
        assert game.errors == []
        assert chess.pgn.read_game(text) is None
    assert game.board().fen() == change["position"]
    assert [node.move.uci() for node in game.variations] == ["c7c5", "e7e5"]
    assert game.variations[1].next().move.uci() == "g1f3"  # type: ignore[union-attr]
    assert "N 60" in game.variations[1].comment


def test_a_diff_has_room_in_a_terminal(files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    text = on_a_terminal(monkeypatch, [["diff", *files]])
    (row,) = [line for line in text.splitlines() if " c5 " in line]
    assert len(row) <= 80
    assert row.startswith("1. e4 ")


def test_a_diff_without_changes_leaves_files_alone(
    cli: Cli, files: tuple[Path, Path], tmp_path: Path
) -> None:
    out = tmp_path / "out.pgn"
    out.write_text("kept")
    same = cli("diff", files[0], files[0], "-o", out)
    assert (same.code, out.read_text(), "was not changed" in same.err) == (0, "kept", True)
    for graph in files:
        refused = cli("diff", *files, "-o", graph)
        assert (refused.code, refused.out) == (2, ""), "before anything is compared"


def test_a_merge_replaces_no_pipe_or_device(cli: Cli, files: tuple[Path, Path], tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    outcome = cli("store", "merge", *files, "-o", pipe, "--force")
    assert (outcome.code, pipe.is_fifo()) == (1, True)
    assert "not a regular file" in outcome.err


def test_a_file_is_compared_with_itself_as_it_was_before_a_run(cli: Cli, files: tuple[Path, Path]) -> None:
    a, _ = files
    key = "463b96181691fc9c"
    with Store.open(a) as store:
        for k, best in enumerate(("e2e4", "e2e4", "d2d4")):
            run = store.begin_run(chess.STARTING_FEN, {}, {})
            values = history.RootValues(key=key, n=50 * (k + 1), q=0.1 * k, draw=0.5, best_move=best)
            with store.transaction():
                history.write(store, run, values)
    data = cli("diff", a, "--since", "3", "--json").json
    (root,) = data["roots"]
    assert (root["old"]["run"], root["old"]["n"], root["old"]["best_san"]) == (2, 100, "e4")
    assert (root["new"]["run"], root["new"]["n"], root["new"]["best_san"]) == (3, 150, "d4")
    assert (data["evaluated"], data["come"]) == (0, [])
    assert cli("diff", a, "--since", "2000-01-01").code == 0
    assert cli("diff", a, "--since", "last", "--json").json["run"] == 3
    with Store.open(a, read_only=True) as store:
        began = datetime.fromisoformat(store.runs()[2].started)
    west = began.astimezone(timezone(timedelta(hours=-9)))
    for moment in (began, west, began.replace(tzinfo=None)):
        assert cli("diff", a, "--since", moment.isoformat(), "--json").json["runs"] >= 1
    late = (west + timedelta(hours=1)).isoformat()
    for period in ("yesterday", "7d", "1h"):
        assert cli("diff", a, "--since", period, "--json").json["run"] == 1
    text = cli("diff", a, "--since", "3").ends(0).out
    assert "start: d4 +0.29 takes over from e4 +0.14; 100 -> 150 visits" in text
    assert max(map(len, text.splitlines()[1:])) <= 100
    for wrong in ("9", "7w", "tomorrow", "2099-01-01", "2026-13-45", late):
        outcome = cli("diff", a, "--since", wrong)
        assert (outcome.code, len(outcome.faults)) == (2, 1)
    assert cli("diff", a).code == 2
    assert cli("diff", a, a, "--kind", "colour").code == 2


def test_what_changed_since_a_run_has_the_new_proofs(cli: Cli, tmp_path: Path) -> None:
    path, mate = tmp_path / "a.graph", "6k1/5ppp/8/8/8/8/5PPP/3R2K1 w - - 0 1"
    assert cli("analyze", mate, "--visits", "200", "--store", path).code == 0
    since = ("diff", path, "--since", "last")
    data = cli(*since, "--min-visits", 1, "--json").json
    assert data["proven"] >= len(data["proofs"]) > 0
    assert data["proofs"][0]["position"] == mate
    assert data["proofs"][0]["worth"]["bounds"] == [1, 1]
    visited = [row for row in data["proofs"] if row["worth"]["n"] >= 10]
    assert cli(*since, "--json").json["proofs"] == visited != data["proofs"], "few visits only if asked for"
    found = cli(*since, "--min-visits", 1).out
    assert "of them proven" in found
    assert "New proofs" in found


def test_moves_that_came_into_a_book_or_went_have_reasons(cli: Cli, tmp_path: Path) -> None:
    a, b = tmp_path / "a.graph", tmp_path / "b.graph"
    small_book().write(a)
    shutil.copy(a, b)
    with closing(sqlite3.connect(b, isolation_level=None)) as connection:
        (gone,) = connection.execute("SELECT san FROM book_move ORDER BY key, move LIMIT 1").fetchone()
        first = "SELECT key, move FROM book_move ORDER BY key, move LIMIT 1"
        connection.execute(f"DELETE FROM book_move WHERE (key, move) IN ({first})")
    (book,) = cli("diff", a, b, "--json").json["books"]
    assert (book["came"], book["went"]) == (0, 1)
    (change,) = book["changes"]
    assert (change["san"], change["came"]) == (gone, False)
    assert change["reason"]
    (turned,) = cli("diff", b, a, "--json").json["books"]
    assert (turned["came"], turned["went"]) == (1, 0)
    assert "1 move came, 0 went" in cli("diff", b, a).out
