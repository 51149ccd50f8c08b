"""The scores of `info` lines: of moves with a value only, and proven results of tables."""

from __future__ import annotations

import re
from pathlib import Path

import chess
import pytest

from graphsearch import Graph, Limits, analyze
from graphsearch.position.values import cp_of

from .engines import Played, best_of, field_of

SESSION = Path(__file__).parents[3] / "shared" / "faults" / "uci_multipv_mate" / "session.txt"
TABLES = Path(__file__).parents[3] / "shared" / "syzygy"
KNOWN = ((1, 1), (0, 0), (-1, -1))


def last_lines(lines: list[str]) -> dict[str, str]:
    """Returns the last `info` line of every first move."""
    return {found[1]: line for line in lines if (found := re.search(r" pv (\S+)", line))}


@pytest.mark.parametrize("fen", ["6k1/5ppp/8/8/8/8/q4PPP/3R2K1 w - - 0 1", "7k/5Q2/5K2/8/8/8/8/8 w - - 0 1"])
def test_every_line_of_a_won_position_has_a_value_of_its_own(fen: str, tmp_path: Path) -> None:
    path = tmp_path / "won.graph"
    with Graph.open(path, evaluator="uniform") as graph:
        known = {
            move.move.uci(): move for move in analyze(graph, chess.Board(fen), Limits(visits=9)).node.moves
        }
    options = {"GraphFile": str(path), "Evaluator": "uniform", "UCI_ShowWDL": "true", "MultiPV": "9"}
    with Played(options) as game:
        lines = game.ready().ask(f"position fen {fen}", "go nodes 9", until="bestmove")
    shown = last_lines(lines)
    assert best_of(lines) in shown
    for name, line in shown.items():
        move = known[name]
        assert move.n or move.bounds in KNOWN, "a line without a value"
        assert (" score mate " in line) == (move.mate is not None)
        assert (" wdl 1000 0 0 " in line) == (move.mate is not None)
    assert (
        len(shown)
        == sum(1 for move in list(known.values())[:9] if move.n or move.bounds in KNOWN)
        < len(known)
    )


@pytest.mark.skipif(not SESSION.exists(), reason="the session is outside the repository")
def test_the_known_session_shows_the_mate_alone() -> None:
    *before, go = [line for line in SESSION.read_text().splitlines() if line]
    with Played() as game:
        lines = game.ready().ask(*before, go, until="bestmove")
    scores = {line.split(" score ")[1].split(" nps")[0] for line in lines if " score " in line}
    assert "mate 1 wdl 1000 0 0" in scores
    assert not any(score.startswith("cp 12") for score in scores)


def test_a_listed_move_without_visits_is_searched_and_has_its_own_score() -> None:
    with Played({"Evaluator": "uniform"}) as game:
        game.ready().ask("position startpos", "go nodes 5", until="bestmove")
        lines = game.ask("go nodes 5 searchmoves h2h4", until="bestmove")
    (line,) = last_lines(lines).values()
    assert " pv h2h4" in line
    assert "new visits" in "".join(lines)


@pytest.mark.skipif(not TABLES.exists(), reason="the tables are outside the repository")
@pytest.mark.parametrize("clock", [0, 7])
def test_a_result_of_tables_is_the_score(clock: int) -> None:
    """Bishop and knight win at every clock that leaves time; a lone bishop draws."""
    cases = {"8/8/8/3k4/8/8/8/K2NB3 w": 1, "8/8/8/3k4/8/8/8/K2NB3 b": -1, "8/8/8/3k4/8/8/4P3/K7 w": 0}
    with Played({"SyzygyPath": str(TABLES), "UCI_ShowWDL": "true", "MultiPV": "2"}) as game:
        for fen, result in cases.items():
            board = chess.Board(f"{fen} - - {clock} 80")
            lines = game.ready().ask(f"position fen {board.fen()}", "go nodes 50", until="bestmove")
            scored = [line for line in lines if " score " in line]
            assert scored
            for line in scored:
                if " score mate " not in line:
                    assert field_of(line, "cp") == cp_of(result)
                expected = {1: "1000 0 0", 0: "0 1000 0", -1: "0 0 1000"}[result]
                assert f" wdl {expected} " in line, line
