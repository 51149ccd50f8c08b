"""`graphsearch analyze` over games and sets: tables, files, exit codes, JSON."""

from __future__ import annotations

import json
from pathlib import Path

import chess.pgn

from ..conftest import Cli

GAME = '[White "A"]\n[Black "B"]\n\n1. f3 e5 2. g4 Qh4# 0-1\n'
SET = '6k1/5ppp/8/8/8/8/5PPP/3R2K1 w - - bm Rd8#; id "mate";\nnonsense\n4k3/8/8/8/8/8/4P3/4K3 w - -\n'


def test_every_move_of_a_game_has_a_row_and_the_same_again_costs_nothing(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "a.pgn").write_text(GAME)
    words = ["analyze", tmp_path / "a.pgn", "--all", "--store", tmp_path / "a.graph", "--evaluations", 50]
    done = cli(*words).ends(0)
    rows = [line.split() for line in done.out.splitlines() if line[:1].isdigit()]
    assert [row[0] for row in rows[:4]] == ["1.", "1...", "2.", "2..."]
    assert [row[1].rstrip("?!") for row in rows[:4]] == ["f3", "e5", "g4", "Qh4#"]
    assert rows[3][2:5] == ["Qh4#", "mate", "mate"]
    assert not (tmp_path / "a-reviewed.pgn").exists()
    again = cli(*words, "-o", tmp_path / "out.pgn").ends(0)
    assert "0 positions searched" in again.out
    with (tmp_path / "out.pgn").open() as file:
        game = chess.pgn.read_game(file)
    assert game is not None
    assert all(node.eval() for node in list(game.mainline())[:-1])


def test_a_set_has_a_row_for_each_position_and_names_bad_lines(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "a.epd").write_text(SET)
    words = ["analyze", tmp_path / "a.epd", "--visits", 50, "--store", tmp_path / "a.graph"]
    done = cli(*words, "-o", tmp_path / "out.epd").ends(
        1, "line 2: a FEN needs at least four fields", "solved: 1 of 1"
    )
    assert "1 line left out" in done.err
    assert "Rd8#" in done.out
    assert len((tmp_path / "out.epd").read_text().splitlines()) == 2
    rows = [json.loads(line) for line in cli(*words, "--json").out.splitlines()]
    assert [(row["line"], row["solved"], row["known"]) for row in rows] == [(1, True, True), (3, None, True)]
    one = cli("analyze", tmp_path / "a.epd", "--game", 1, "--visits", 50).ends(0)
    assert "bestmove d1d8" in one.out
