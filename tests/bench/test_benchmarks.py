"""Benchmarks at a tiny scale, what their figures must agree on, and games against another engine."""

from __future__ import annotations

import doctest
import gzip
import importlib
import io
import json
import math
import os
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stdout
from itertools import cycle
from pathlib import Path
from typing import Any

import chess
import chess.pgn
import pytest

from tests.conftest import ROOT
from tests.support.engines import fake_engine, stockfish
from tests.support.positions import after_line, random_games
from tools import judge_positions, play_games
from tools.benchmarks import harness, memory
from tools.benchmarks.__main__ import main, tables
from tools.benchmarks.harness import REGISTRY, Row, benchmark, find, run, summarised
from tools.benchmarks.positions import read_reference
from tools.benchmarks.scale import measured
from tools.match_score import SURE, Sprt, table

Check = Callable[[list[Row]], object]
GAME = '[White "A"]\n[Black "B"]\n\n1. e4 e5 2. Nf3 Nc6 3. Bb5 a6 4. Ba4 Nf6 5. O-O Be7 6. Re1 b5 *\n'


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    rows = []
    for board in random_games(5, 2, 20):
        moves = sorted(str(move) for move in board.legal_moves)
        scores = {move: {"cp": -100 * i} for i, move in enumerate(moves)}
        row = {"fen": board.fen(), "bestmove": moves[0], "wdl": [500, 0, 500]}
        rows.append(row | {"moves_depth10": scores})
    names = ("reference", "games", "scale")
    found = {name: tmp_path / name for name in names}
    found["reference"].write_bytes(gzip.compress("\n".join(map(json.dumps, rows)).encode()))
    found["games"].write_text(GAME)
    return found


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs here what a benchmark runs in new processes, which would import everything; uses few positions."""
    command_line = importlib.import_module("graphsearch.cli").main

    def cpu_seconds(words: Sequence[str]) -> float:
        began = time.process_time()
        with redirect_stdout(io.StringIO()):
            assert command_line(list(words)) == 0
        return time.process_time() - began

    def measured(words: list[str], *files: Path) -> Iterator[tuple[str, float]]:
        yield from {"s": 1.0, "cpu_s": cpu_seconds(words), "peak": 1e8, "written": 0.0, "log": 0.0}.items()

    for module in (memory, harness):
        monkeypatch.setattr(module, "fresh", lambda work, *arguments: work(*arguments))
    monkeypatch.setattr("tools.benchmarks.scale.measured", measured)


def by(rows: list[Row], *keys: str) -> dict[Any, Row]:
    return {row[keys[0]] if len(keys) == 1 else tuple(row[key] for key in keys): row for row in rows}


# ------------------------------------------------------------------ what figures agree on
def check_rows(rows: list[Row]) -> None:
    figures = [value for row in rows for value in row.values() if isinstance(value, float)]
    assert figures
    assert all(map(math.isfinite, figures))


def check_batches(rows: list[Row]) -> None:
    base, *others = rows
    assert (base["same"], base["equal"], base["distance"], base["samples"]) == (1.0, 1.0, 0.0, 2)
    assert [row["variant"].split()[-1] for row in rows] == [f"MinibatchSize={n}" for n in (1, 32, 256)]
    for row in others:
        assert row["regret_less"] == pytest.approx(row["regret"] - base["regret"])


def check_scale(rows: list[Row]) -> None:
    found = by(rows, "phase")
    assert list(found) == ["grow", "curve", "compact", "merge_small", "search"]
    assert found["compact"]["units"] == found["grow"]["units"] >= 6000
    assert found["curve"]["unit"] == "call"
    assert found["search"]["units"] == 3000
    assert 30 < found["merge_small"]["units"] < 90
    assert all(row["peak_mb"] > 10 and row["file_mb"] > 0 for row in rows)


BATCHES = " ".join(f"'builtin MinibatchSize={n}'" for n in (1, 32, 256))
QUICK: list[tuple[str, str, Check]] = [
    ("quality", f"--evaluations 60 --reference {{reference}} --variant {BATCHES}", check_batches),
]
BEYOND = "--nodes 40000 --ram-mb 2 --wave 64 --visits 3000 --builtin-nodes 20000 --builtin-ram-mb 2"
SLOW: list[tuple[str, str, Check]] = [
    ("saving", "--nodes 2000 --builtin-nodes 1000 --pairs 2", check_rows),
]
FULL: list[tuple[str, str, Check]] = [  # a minute, for GRAPHSEARCH_FULL=1
    ("beyond-memory", BEYOND, check_rows),
    ("scale", "--nodes 6000 --first 6000 --ram-mb 16 --phases curve compact merge_small search", check_scale),
    ("page", "--nodes 2000 --repeats-in-page 1", check_rows),
]


@pytest.mark.parametrize(
    ("name", "words", "check"),
    [
        *QUICK,
        *(pytest.param(*one, marks=pytest.mark.slow) for one in SLOW),
        *(FULL if os.environ.get("GRAPHSEARCH_FULL") else ()),
    ],
    ids=lambda value: value.replace(" ", "_")[:40] if isinstance(value, str) else "",
)
def test_a_benchmark_gives_figures_that_agree(
    name: str,
    words: str,
    check: Check,
    files: dict[str, Path],
    capsys: pytest.CaptureFixture[str],
    small: None,
) -> None:
    assert main([name, *shlex.split(words.format(**files)), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["benchmark"] == name
    check(found["rows"])
    head, line, *_ = list(tables(found["rows"], find(name).keys))[1:]
    assert len(head) == len(line)


def test_every_benchmark_runs_in_a_test() -> None:
    assert {name for name, *_ in (*QUICK, *SLOW, *FULL)} == set(REGISTRY)


# ------------------------------------------------------------------ the harness
def test_rows_with_equal_keys_are_repeats_and_ratios_are_those_of_each() -> None:
    how = benchmark("batch", "threads", across="threads", compare=("per_s",))(lambda: iter(()))
    runs = [(1, 1, 10.0), (1, 2, 30.0), (1, 1, 20.0), (1, 2, 40.0), (1, 1, 40.0), (1, 2, 60.0), (2, 2, 5.0)]
    samples = [{"batch": a, "threads": b, "per_s": c, "ok": True} for a, b, c in runs]
    assert summarised(how, samples) == [
        {"batch": 1, "threads": 1, "per_s": 20.0, "ok": True, "samples": 3},
        {"batch": 1, "threads": 2, "per_s": 40.0, "per_s_ratio": 2.0, "ok": True, "samples": 3},
        {"batch": 2, "threads": 2, "per_s": 5.0, "ok": True},
    ]


def test_positions_give_means_with_errors_and_paired_differences() -> None:
    how = benchmark("variant", across="variant", compare=("regret",), positions=True)(lambda: iter(()))
    values = {"base": (0.1, 0.5, None), "other": (0.3, 0.9, 0.2)}
    samples = [{"variant": name, "regret": values[name][k]} for k in range(3) for name in values]
    base, other = summarised(how, samples)
    assert base["regret"] == pytest.approx(0.3)
    assert (other["regret_less"], other["regret_less_error"]) == pytest.approx((0.3, 0.1))


def test_work_in_a_new_process_and_the_cost_of_a_command(tmp_path: Path) -> None:
    assert harness.fresh(os.getpid) != os.getpid()
    nothing = tmp_path / "a.graph", tmp_path / "b.graph"
    figures = dict(measured(["--version"], *nothing))
    assert figures.keys() == {"s", "cpu_s", "peak", "written", "log"}
    assert min(figures["s"], figures["cpu_s"], figures["peak"] / 1e6) > 0.01
    with pytest.raises(SystemExit, match="graphsearch --nonsense ended with exit code 2"):
        _ = [*measured(["--nonsense"], *nothing)]


def test_examples_of_the_tools_are_true() -> None:
    names = sorted(path.stem for path in (ROOT / "tools" / "benchmarks").glob("[a-z]*.py"))
    modules = [importlib.import_module(f"tools.benchmarks.{name}") for name in names]
    found = [doctest.testmod(module) for module in (*modules, judge_positions)]
    assert sum(one.failed for one in found) == 0
    assert sum(one.attempted for one in found) >= 9


# ------------------------------------------------------------------ parts
def test_a_uci_engine_is_a_variant(files: dict[str, Path], tmp_path: Path) -> None:
    """The one plays the first move, the other the second one, and says how much it has evaluated."""
    head = "import chess\n\n\ndef go(board, words, k):\n    say('info nodes', words[1], {said})\n"
    play = "    say('bestmove', sorted(map(str, board.legal_moves))[{move}])\n"
    first, second = (
        fake_engine(tmp_path / str(move), (head + play).format(said=said, move=move))
        for move, said in ((0, "'depth 1'"), (1, "'string 50 evaluations'"))
    )
    options = {"variant": (f"engine={first}", f"engine={second}"), "reference": files["reference"]}
    rows = run("quality", options | {"evaluations": (100,)})["rows"]
    assert [(row["same"], row["best_move"], row["done"]) for row in rows] == [(1.0, 1.0, 100), (0.0, 0.0, 50)]
    assert rows[1]["best_move_less"] == -1.0
    assert rows[1]["regret_less"] == pytest.approx(rows[1]["regret"]) != 0


def test_chosen_moves_are_judged_again(tmp_path: Path) -> None:
    """The reference prefers a move that loses the queen; the judge sees that it does."""
    head = "import chess\n\n\ndef go(board, words, k):\n    legal = sorted(map(str, board.legal_moves))\n"
    reply = head + "    say('bestmove', '{move}' if '{move}' in legal else legal[0])\n"
    good, bad = (
        f"engine={fake_engine(tmp_path / move, reply.format(move=move))}" for move in ("d1d3", "d1d5")
    )
    row = {"fen": "4k3/2p5/4p3/3r4/8/8/8/3QK3 w - - 0 1", "bestmove": "d1d3"}
    scores = {"d1d3": {"cp": 0}, "d1d5": {"cp": 10}}
    reference = tmp_path / "reference.jsonl"
    reference.write_text(json.dumps(row | {"moves_depth10": scores}))
    options = {"variant": (good, bad), "reference": reference, "evaluations": (10,)}
    assert run("quality", options)["rows"][0]["regret"] > 0
    rows = run("quality", options | {"judge": 2000, "program": stockfish()})["rows"]
    assert [row["best_move"] for row in rows] == [1.0, 0.0]
    assert rows[0]["regret"] == 0 < rows[1]["regret"]
    rows = run("quality", options | {"variant": (good,), "judge": 2000, "program": stockfish()})["rows"]
    assert (rows[0]["best_move"], rows[0]["regret"]) == (1.0, 0.0), "nothing to compare it with"


def test_judged_positions_are_appended_until_there_are_enough(files: dict[str, Path], tmp_path: Path) -> None:
    path = tmp_path / "judged.jsonl"
    common = ["--openings", str(files["games"]), "--engine", stockfish(), "--nodes", "500", "--depth", "2"]
    judge_positions.main([*common, "--out", str(path), "--count", "1"])
    first = path.read_text()
    judge_positions.main([*common, "--out", str(path), "--count", "3"])
    assert path.read_text().startswith(first)
    cases = read_reference(path)
    assert len(cases) == 3
    for case in cases:
        assert set(case.worth) == {move.uci() for move in case.board.legal_moves} >= set(case.best)


def test_a_run_of_scale_continues_where_it_stopped(files: dict[str, Path], small: None) -> None:
    options: Row = {"nodes": 600, "first": 600, "ram_mb": 16, "phases": ("info",), "folder": files["scale"]}
    first = run("scale", options)["samples"]
    again = run("scale", options | {"phases": ("info", "verify")})["samples"]
    assert [row["phase"] for row in again] == ["grow", "info", "verify"]
    assert again[:2] == first
    kept = {path.name for path in files["scale"].iterdir()}
    assert kept == {"grown.graph", "tiny-grown.graph", "scale.json"}
    with pytest.raises(SystemExit, match="another --folder"):
        run("scale", options | {"ram_mb": 17})
    with pytest.raises(SystemExit, match=r"no phase grow up.*salvage"):
        run("scale", {"phases": ("grow up",)})


# ------------------------------------------------------------------ games against another engine
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
        after_line(line)


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
