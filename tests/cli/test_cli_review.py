"""`graphsearch review` on the command line: tables, files, exit codes, JSON."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..conftest import Cli

GAMES = """[White "A"]
[Black "B"]
[Result "0-1"]

1. f3 e5 2. g4 Qh4# 0-1

[White "B"]

1. e4 Ke5 *
"""


@pytest.fixture
def games(tmp_path: Path) -> Path:
    path = tmp_path / "games.pgn"
    path.write_text(GAMES)
    return path


def test_a_review_prints_figures_names_what_is_broken_and_writes_beside_it(cli: Cli, games: Path) -> None:
    done = cli("review", games, "--store", games.with_name("a.graph"), "--visits", 30).ends(0)
    assert f"{games}, line 9: game 2: illegal san: 'Ke5'" in done.err
    head, _, *rows = done.out.splitlines()
    assert head.split()[:4] == ["Player", "Games", "Moves", "Accuracy"]
    assert sorted(row.split()[0] for row in rows[:2]) == ["A", "B"]
    assert "2. g4??" in done.out
    assert "1 game reviewed, 1 skipped" in done.out
    assert "Qh4# 0-1" in games.with_name("games-reviewed.pgn").read_text()
    cli("review", games, "--store", games.with_name("a.graph"), "--game", 2).ends(
        1, "the chosen game cannot be reviewed"
    )


def test_games_on_stdout_come_alone_and_json_has_every_move(cli: Cli, games: Path) -> None:
    words = ["review", games, "--store", games.with_name("a.graph"), "--visits", 10]
    done = cli(*words, "-o", "-")
    assert done.out.startswith("[White")
    assert "1 game reviewed" in done.err
    found = cli(*words, "--json").json
    assert (found["reviewed"], found["skipped"], found["problems"][0]["line"]) == (1, 1, 9)
    assert [move["san"] for move in found["games"][0]["moves"]] == ["f3", "e5", "g4", "Qh4#"]
    assert {player["name"] for player in found["players"]} == {"A", "B"}


def test_a_game_without_marked_moves_has_no_empty_table(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "quiet.pgn").write_text("1. e4 *\n")
    asked = ("--store", tmp_path / "a.graph", "--visits", 10)
    outcome = cli("review", tmp_path / "quiet.pgn", *asked, "-o", tmp_path / "out.pgn").ends(0)
    assert "Accuracy" in outcome.out
    assert "Its value" not in outcome.out


def test_a_name_of_many_kilobytes_takes_no_figure_off_the_table(cli: Cli, games: Path) -> None:
    games.write_text(GAMES.replace('"A"', f'"{"A" * 9000}"'))
    done = cli("review", games, "--store", games.with_name("a.graph"), "--visits", 10)
    head, _, *rows = done.out.splitlines()
    assert head.split()[-3:] == ["Opening", "Middlegame", "Endgame"]
    assert rows[0].split()[2] == "2"  # moves
