"""Games against another engine: no time loss, no illegal move, no crash."""

from __future__ import annotations

import json
import math
import shutil
import sys
from itertools import cycle
from pathlib import Path

import chess
import chess.pgn
import pytest

from tools import play_games
from tools.match_score import SURE, Sprt, table

STOCKFISH = shutil.which("stockfish") or shutil.which("stockfish", path="/usr/games")


@pytest.mark.slow
@pytest.mark.skipif(STOCKFISH is None, reason="stockfish is not installed")
def test_a_short_match_is_played_to_its_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pgn = tmp_path / "games.pgn"
    code = play_games.main(
        [
            *("--games", "2", "--tc", "10+0.1", "--engine", str(STOCKFISH), "--max-plies", "4", "--json"),
            *("--engine-option", "UCI_LimitStrength=true", "--engine-option", "UCI_Elo=1350"),
            *("--option", f"GraphFile={tmp_path / 'a.graph'}", "--option", "RAM=64MB", "--pgn", str(pgn)),
        ]
    )
    score = json.loads(capsys.readouterr().out)
    assert code == 0, score
    assert score["games"] == 2 == score["wins"] + score["draws"] + score["losses"] + score["broken_off"]
    assert {result["ours_is_white"] for result in score["results"]} == {True, False}
    with pgn.open() as stream:
        games = [chess.pgn.read_game(stream), chess.pgn.read_game(stream)]
    assert all(game is not None and not game.errors for game in games)
    assert (tmp_path / "a.graph").exists()


LATE = "import time\nfor line in iter(input, 'quit'):\n" + (
    " if line == 'uci': print('uciok', flush=True)\n"
    " if line == 'isready': print('readyok', flush=True)\n"
    " if line.startswith('go'): time.sleep(0.4); print('bestmove %s', flush=True)\n"
)


@pytest.mark.parametrize(
    ("tc", "answer", "fault"), [("0.2", "a2a3", "time"), ("900", "a1a8", "illegal move")]
)
def test_the_faults_of_a_player_are_counted(tmp_path: Path, tc: str, answer: str, fault: str) -> None:
    script = tmp_path / "late.py"
    script.write_text(LATE % answer)
    ours, theirs = (
        play_games.Player(name, [sys.executable, str(script)], {}) for name in ("graphsearch", "opponent")
    )
    control = play_games.TimeControl.read(tc)
    games = list(play_games.match(ours, theirs, control, cycle([""]), 2, 20))
    ours.end()
    theirs.end()
    score = play_games.score_of(games)
    assert [game.result for game in games] == ["0-1", "0-1"]
    assert fault in games[0].ending
    assert (score.wins, score.losses, score.opponent_faults) == (1, 1, 1)
    assert (score.time_losses, score.illegal_moves) == ((1, 0) if fault == "time" else (0, 1))


def test_a_score_has_an_elo_difference_with_its_error_and_draws_by_kind() -> None:
    def game(points: float, ending: str = "") -> play_games.Game:
        result = {1.0: "1-0", 0.5: "1/2-1/2", 0.0: "0-1"}[points]
        return play_games.Game("", True, chess.Board(), {}, result=result, ending=ending)

    draws = [game(0.5, ending) for ending in ("threefold_repetition", "stalemate", "threefold_repetition")]
    score = play_games.score_of([*draws, game(1.0), game(1.0), game(0.0)])
    assert (score.wins, score.draws, score.losses) == (2, 3, 1)
    assert score.draws_by == {"threefold_repetition": 2, "stalemate": 1}
    assert score.elo == pytest.approx(-400 * math.log10(6 / 3.5 - 1))
    assert score.elo is not None
    assert score.elo_low is not None
    assert score.elo_low < score.elo
    assert play_games.score_of([game(1.0)]).elo is None
    assert "+2 =3 -1" in table(score)
    assert "draws: 2 threefold_repetition, 1 stalemate" in table(score)


def test_openings_come_from_a_pgn_or_from_the_tool(tmp_path: Path) -> None:
    path = tmp_path / "a.pgn"
    path.write_text("1. e4 e5 2. Nf3 Nc6 *\n\n1. d4 d5 *\n")
    assert play_games.openings_of(path, 3) == ["e4 e5 Nf3", "d4 d5"]
    for line in play_games.openings_of(None, 8):
        board = chess.Board()
        for san in line.split():
            board.push_san(san)


SHUFFLE = ["Nf3", "Nf6", "Ng1", "Ng8"]


def test_a_game_is_drawn_by_a_third_repetition_that_happened() -> None:
    board = chess.Board()
    for san in [*SHUFFLE, *SHUFFLE[:3]]:
        board.push_san(san)
        assert play_games.outcome_of(board) is None
    assert board.outcome(claim_draw=True) is not None  # Black could repeat
    board.push_san(SHUFFLE[3])
    outcome = play_games.outcome_of(board)
    assert outcome is not None
    assert outcome.termination is chess.Termination.THREEFOLD_REPETITION


def test_a_game_is_drawn_after_fifty_moves_unless_the_last_one_mates() -> None:
    quiet, mate = "8/8/8/8/8/5k2/8/4QK2 w - - 99 90", "8/8/8/8/8/5k2/4q3/6K1 b - - 99 90"
    for fen, move, ending in ((quiet, "e1a5", "FIFTY_MOVES"), (mate, "e2g2", "CHECKMATE")):
        board = chess.Board(fen)
        assert play_games.outcome_of(board) is None
        board.push_uci(move)
        outcome = play_games.outcome_of(board)
        assert outcome is not None
        assert outcome.termination.name == ending


def test_a_sequential_test_decides_when_the_games_do() -> None:
    test = Sprt.read("0,50")
    assert test.ratio([]) == 0
    assert abs(test.ratio([1.0, 0.5] * 3)) < SURE
    assert "not decided" in test.verdict([1.0, 0.5] * 3)
    assert test.verdict([1.0, 0.5, 0.5, 0.5] * 60) == "+50 Elo rather than +0"
    assert test.verdict([0.5, 0.5, 1.0, 0.0] * 100) == "+0 Elo rather than +50"
    with pytest.raises(ValueError, match="the lower first"):
        Sprt.read("10,0")
