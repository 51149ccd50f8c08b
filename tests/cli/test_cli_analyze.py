"""`analyze`, `watch`, `review`, `alphabeta`, `mate`, `lab nodetypes`: what they print and save; signals."""

from __future__ import annotations

import json
import os
import shlex
import signal
import sqlite3
import subprocess
import time
from pathlib import Path
from typing import Any

import chess
import chess.pgn
import pytest

from graphsearch.graph.graph import Graph
from graphsearch.jit.cache import COMPILING
from graphsearch.search.detached import Turns
from graphsearch.search.job import SearchJob
from graphsearch.store.entries import Entry
from tests.conftest import Cli, finish, sql, start
from tests.support.forks import Command
from tests.support.pools import until

KEYS = [
    "position", "key", "store", "opening", "nodes", "visits", "new_visits", "evaluations", "catch_ups",
    "collisions", "depth", "seldepth", "seconds", "stop_reason", "bestmove", "q", "cp", "mate", "bounds",
    "wdl", "evaluator", "parameters", "tablebase", "moves", "brief",
]  # fmt: skip


def test_json_is_one_object_with_the_promised_names(cli: Cli) -> None:
    data = cli("analyze", "startpos", "--visits", 200, "--param", "MinibatchSize=1", "--json").json
    assert list(data) == KEYS
    assert data["key"] == "463b96181691fc9c"
    assert data["store"] is None
    assert data["visits"] == data["new_visits"] == 200  # the first visit makes the node
    assert (data["bestmove"], data["stop_reason"]) == (data["moves"][0]["move"], "visits")
    assert len(data["moves"]) == 20
    for move in data["moves"]:
        assert set(move) == {"move", "san", "n", "p", "q", "wdl", "cp", "mate", "bounds", "apart", "pv"}
        assert (move["q"] is None) == (move["n"] == 0)
        assert move["pv"][:1] == [move["move"]]
        chess.Board().variation_san([chess.Move.from_uci(one) for one in move["pv"]])  # all are legal


def test_the_printed_command_resumes_the_search(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "it's mine.graph"
    params = ("--param", "MinibatchSize=1", "--param", "CatchUpRatio=inf")
    outcome = cli("analyze", chess.STARTING_FEN, "--moves", "e4 e5", "--visits", 50, *params, "--store", path)
    command = next(line for line in outcome.err.splitlines() if line.startswith("Resume with: "))
    words = shlex.split(command.removeprefix("Resume with: "))
    assert words[:2] == ["graphsearch", "analyze"]
    found = cli(*words[1:], "--json").json
    assert (found["visits"], found["parameters"]["CatchUpRatio"]) == (100, "inf")
    assert cli("store", "info", path, "--json").json["runs"][1]["params"] == found["parameters"]


def started_analysis(path: Path, before: str = "") -> subprocess.Popen[str]:
    """Returns a running `analyze` without limits, when it has begun to search."""
    runs = runs_in(path)
    words = ("analyze", "startpos", "--store", path, "--json")
    process = start(*words, before=before)
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("No limit"):
            break
    until(lambda: runs_in(path) > runs)
    time.sleep(0.2)  # some waves
    return process


def runs_in(path: Path) -> int:
    """Returns how many runs a file tells of; a search inserts its own when signals no longer end it."""
    try:
        return int(sql(path, "SELECT count(*) FROM run")[0][0]) if path.exists() else 0
    except sqlite3.OperationalError:  # it is being made
        return 0


PATIENT = """
import os, time
from graphsearch.search.loop import GraphSearch

end = GraphSearch._end

def end_when_all_is_heard(search):
    while not os.path.exists(HEARD):
        time.sleep(0.01)
    return end(search)

GraphSearch._end = end_when_all_is_heard
"""


def test_signals_end_the_search_with_everything_saved_and_printed(cli: Cli, tmp_path: Path) -> None:
    path, heard = tmp_path / "a.graph", tmp_path / "heard"
    process = started_analysis(path, before=f"HEARD = {str(heard)!r}\n{PATIENT}")
    for number, said in ((signal.SIGTERM, "Stopping"), (signal.SIGINT, "Still saving")):
        process.send_signal(number)  # of two the first one counts
        assert process.stderr is not None
        while said not in (line := process.stderr.readline()):
            assert line, "it has ended"
    heard.touch()
    outcome = finish(process).ends(143)
    assert "Traceback" not in outcome.err
    shown = cli("show", "startpos", "--store", path, "--json").json
    assert outcome.json["visits"] == shown["visits"]
    assert outcome.json["moves"] == shown["moves"]
    assert cli("store", "verify", path, "--json").ends(0).json["ok"]


def test_stockfish_is_named_for_new_files(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = tmp_path / "stockfish"
    engine.write_text("#!/bin/sh\n")
    engine.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    search = ("analyze", "startpos", "--visits", 3, "--store")
    assert "nnue:stockfish" in cli(*search, tmp_path / "a.graph").err
    assert "nnue:stockfish" not in cli(*search, tmp_path / "a.graph").err
    assert "nnue:stockfish" not in cli(*search, tmp_path / "b.graph", "--evaluator", "builtin").err


def test_more_memory_than_the_machine_has_is_told(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graphsearch.base.system.memory_bytes", lambda: 64 * 10**6)
    words = ("analyze", "--evaluator", "uniform", "--visits", 2, "--ram")
    cli(*words, "1GB").ends(0, "--ram 1GB is more than the memory of this machine, 0.1 GB")
    assert "--ram" not in cli(*words, "64MB").ends(0).err


# ------------------------------------------------------------------ games and sets
GAME = '[White "A"]\n[Black "B"]\n\n1. f3 e5 2. g4 Qh4# 0-1\n'
SET = '6k1/5ppp/8/8/8/8/5PPP/3R2K1 w - - bm Rd8#; id "mate";\nnonsense\n4k3/8/8/8/8/8/4P3/4K3 w - -\n'


def test_every_move_of_a_game_has_a_row_and_the_same_again_costs_nothing(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "a.pgn").write_text(GAME)
    words = ["analyze", tmp_path / "a.pgn", "--all", "--store", tmp_path / "a.graph", "--evaluations", 50]
    rows = [line.split() for line in cli(*words).ends(0).out.splitlines() if line[:1].isdigit()]
    assert [row[0] for row in rows[:4]] == ["1.", "1...", "2.", "2..."]
    assert [row[1].rstrip("?!") for row in rows[:4]] == ["f3", "e5", "g4", "Qh4#"]
    assert rows[3][2:5] == ["Qh4#", "mate", "mate"]
    assert not (tmp_path / "a-reviewed.pgn").exists()
    assert "0 positions searched" in cli(*words, "-o", tmp_path / "out.pgn").ends(0).out
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
    assert cli(*words, "-o", "-").out == (tmp_path / "out.epd").read_text()
    rows = [json.loads(line) for line in cli(*words, "--json").out.splitlines()]
    assert [(row["line"], row["solved"], row["known"]) for row in rows] == [(1, True, True), (3, None, True)]
    assert rows[0]["pv"] == [rows[0]["best_move"]] == ["d1d8"]
    assert "bestmove d1d8" in cli("analyze", tmp_path / "a.epd", "--game", 1, "--visits", 50).ends(0).out


# ------------------------------------------------------------------ watch
MATE = "6k1/5ppp/8/8/8/8/5PPP/3R2K1 w - - 0 1"


def rows(out: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.splitlines()]


@pytest.fixture
def _until_each_had_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Turns of 0.2 s, and Ctrl-C after one of each and the proof: no machine is too slow for that."""
    real, had = Turns.count, set[str]()

    def count(turns: Turns, job: SearchJob, seconds: float, reason: str) -> None:
        real(turns, job, seconds, reason)
        had.add(job.title)
        if len(had) == 3 and any(turns.ended(each) for each in turns.jobs):
            had.clear()
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr("graphsearch.cli.analyze.ROUND_SECONDS", 0.6)
    monkeypatch.setattr(Turns, "count", count)


@pytest.mark.usefixtures("_until_each_had_its_turn")
def test_every_position_has_its_turn_and_is_listed_in_the_file(cli: Cli, tmp_path: Path) -> None:
    store = tmp_path / "a.graph"
    done = cli("watch", store, "1. e4 e5", MATE, "1. d4").ends(130, "Resume with: graphsearch watch")
    assert "'1. e4 e5'" in done.err
    lines = {line.split("  ")[0]: line for line in done.out.splitlines() if "  " in line}
    assert {"1. e4 e5", MATE, "1. d4"} <= set(lines)
    assert "proven" in lines[MATE]
    assert "White plays 1. Rd8# and mates in 1." in done.out
    assert len(sql(store, "SELECT * FROM root")) == 3
    again = rows(cli("watch", store, "--json").ends(130).out)
    assert {row["line"] for row in again} == {"1. e4 e5", MATE, "1. d4"}
    assert [row["ended"] for row in again if row["line"] == MATE][-1] == "proven"


def test_positions_are_watched_by_workers_in_turns_that_are_saved(cli: Cli, tmp_path: Path) -> None:
    store, uniform = tmp_path / "a.graph", ("--evaluator", "uniform")
    limits = ("--workers", 2, "--evaluations", 4000, "--json")
    done = cli("watch", store, "1. e4", "1. d4", "1. c4", *uniform, *limits).ends(0, "Resume with")
    assert "--workers 2" in done.err
    assert {row["line"] for row in rows(done.out)} == {"1. e4", "1. d4"}  # each got its half at once
    assert all(row["visits"] >= 2000 for row in rows(done.out))
    assert len(sql(store, "SELECT * FROM root")) == 2
    ((evaluations,),) = sql(store, "SELECT evaluations FROM run")
    assert 4000 <= evaluations < 4500


# ------------------------------------------------------------------ review
@pytest.fixture
def games(tmp_path: Path) -> Path:
    path = tmp_path / "games.pgn"
    path.write_text(f'{GAME}\n[White "B"]\n\n1. e4 Ke5 *\n')
    return path


def test_a_review_prints_figures_names_what_is_broken_and_writes_beside_it(cli: Cli, games: Path) -> None:
    done = cli("review", games, "--store", games.with_name("a.graph"), "--visits", 30).ends(0)
    assert f"{games}, line 8: game 2: Ke5 is illegal" in done.err
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
    assert (found["reviewed"], found["skipped"], found["problems"][0]["line"]) == (1, 1, 8)
    assert [move["san"] for move in found["games"][0]["moves"]] == ["f3", "e5", "g4", "Qh4#"]
    assert {player["name"] for player in found["players"]} == {"A", "B"}


# ------------------------------------------------------------------ alphabeta
ALPHABETA_KEYS = """position key store asked depth value cp mate bound bestmove pv nodes seconds stop_reason
counts known entries graph_nodes iterations"""


def test_json_of_alphabeta_is_one_object_with_the_promised_names(cli: Cli) -> None:
    data = cli("alphabeta", "startpos", "--depth", 3, "--json").json
    assert list(data) == ALPHABETA_KEYS.split()
    assert (data["depth"], data["bound"], data["stop_reason"]) == (3, "exact", "depth")
    assert data["cp"] == round(data["value"] / 10)
    assert data["mate"] is None
    assert data["pv"][0] == data["bestmove"]
    assert [row["depth"] for row in data["iterations"]] == [1, 2, 3]
    assert sum(row["counts"]["nodes"] for row in data["iterations"]) == data["nodes"]


def _depths_in(path: Path) -> int:
    try:
        return int(sql(path, "SELECT count(*) FROM entry_iteration")[0][0]) if path.exists() else 0
    except sqlite3.Error:  # it is being made
        return 0


def test_a_signal_ends_the_search_with_what_is_known_saved_and_printed(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "a.graph"
    cli("alphabeta", "startpos", "--depth", 1)  # compiles
    process = Command("alphabeta", "startpos", "--depth", 99, "--store", path, "--json")
    until(lambda: _depths_in(path) > 0)
    process.send_signal(signal.SIGINT)
    outcome = process.end().ends(130)
    assert "Traceback" not in outcome.err
    data = outcome.json
    assert data["stop_reason"] == "stop"
    assert chess.Move.from_uci(data["bestmove"]) in chess.Board().legal_moves
    again = cli("alphabeta", "startpos", "--depth", max(data["depth"], 1), "--store", path, "--json").json
    assert again["value"] == data["value"]
    assert again["stop_reason"] == "known"
    assert cli("store", "verify", path).code == 0


# ------------------------------------------------------------------ mate
TWO = "kbK5/pp6/1P6/8/8/8/8/R7 w - - 0 1"


def test_json_has_moves_line_and_what_is_excluded(cli: Cli) -> None:
    data = cli("mate", TWO, "--moves", "Ra6", "--json", "--check").json
    assert (data["mate"], data["shortest"], data["excluded"], data["stop_reason"]) == (-1, True, 0, "proven")
    assert (len(data["pv"]), data["checked"]["plies"], data["stored"]) == (2, 2, False)
    assert "\n1... " in cli("mate", TWO, "--moves", "Ra6").out
    assert not cli("mate", TWO, "--moves", "Ra6 Bc7 Rxa7#").err, "there is nothing to save"
    none = cli("mate", "startpos", "--within", "1", "--json").json
    assert (none["mate"], none["pv"], none["excluded"], none["shortest"]) == (None, [], 1, False)


def test_a_file_keeps_proofs_without_its_evaluator(cli: Cli, small_graph: Path, tmp_path: Path) -> None:
    for path in (small_graph, tmp_path / "new.graph"):
        first = cli("mate", TWO, "--store", path, "--json").json
        assert first["stored"]
        again = cli("mate", TWO, "--store", path, "--json").json
        assert (again["mate"], again["pv"], again["shortest"]) == (2, first["pv"], True)
        assert not again["stored"]
        assert again["visits"] <= first["visits"]
        assert cli("store", "verify", path).code == 0


def test_ctrl_c_ends_with_what_is_excluded(tmp_path: Path) -> None:
    path = tmp_path / "a.graph"
    process = Command("mate", chess.STARTING_FEN, "--store", path, "--json")
    until(path.exists)  # just before it begins
    time.sleep(0.4)
    process.send_signal(signal.SIGINT)
    done = process.end().ends(130)
    if done.out:  # else it was still compiling
        assert (done.json["mate"], done.json["stop_reason"]) == (None, "stop")


def test_every_position_of_a_file_is_searched_and_its_result_counted(cli: Cli, tmp_path: Path) -> None:
    file, bare = tmp_path / "problems.epd", TWO.rsplit(" ", 2)[0]
    lines = [
        f'{bare} dm 2; id "two";',
        "nonsense",
        f"{bare} bm #3;",
        f"{bare} bm Ra2;",
        "",
        f"{bare} am Ra6;",
    ]
    file.write_text("\n".join([*lines, TWO, f"{bare} bm nonsense;"]) + "\n")
    done = cli("mate", file).ends(1, "line 2: a FEN needs", "solved: 2 of 4")
    assert "line 8: bm: move 1 of the list, 'nonsense', is neither a SAN nor a UCI move" in done.err
    assert done.out.count("White mates in 2; there is no shorter mate") == 6
    rows = [json.loads(line) for line in cli("mate", file, "--json").out.splitlines()]
    solved = {1: True, 3: True, 4: False, 6: False, 7: None, 8: None}
    assert {row["line"]: row["solved"] for row in rows} == solved
    assert cli("mate", file, "--game", 1, "--json").json["mate"] == 2


# ------------------------------------------------------------------ nodetypes
@pytest.fixture
def entries_file(tmp_path: Path) -> Path:
    path = tmp_path / "entries.graph"
    board = chess.Board()
    with Graph.open(path) as graph:
        table = graph.use_entries(1 << 20)
        table.put(board, Entry(20, 2, "exact", board.parse_san("e4"), "pv", 0))
        for san, entry in (
            ("e4", Entry(-20, 1, "exact", chess.Move.from_uci("e7e5"), "pv", 0)),
            ("d4", Entry(-10, 1, "lower", chess.Move.from_uci("d7d5"), "cut", 1)),
            ("c4", Entry(-15, 1, "lower", chess.Move.from_uci("e7e5"), "cut", 2)),
        ):
            after = board.copy()
            after.push_san(san)
            table.put(after, entry)
    return path


def test_damage_is_told_first_and_is_exit_code_1(cli: Cli, entries_file: Path) -> None:
    board = chess.Board()
    board.push_san("a3")
    with Graph.open(entries_file) as graph:
        graph.use_entries(1 << 20).put(board, Entry(0, 1, "upper", None, "all", 0))
    sql(entries_file, "UPDATE entry_piece SET checksum = 1 WHERE id = (SELECT max(id) FROM entry_piece)")
    for options in ((), ("--json",)):
        done = cli("lab", "nodetypes", "startpos", "--store", entries_file, *options).ends(1)
        lines = [line for line in done.err.splitlines() if COMPILING not in line]
        assert lines[0].startswith("damaged: ")
        assert "of the entries is damaged: checksum" in lines[0]
        assert lines[-1] == f"graphsearch: {entries_file} is damaged; only its readable part was counted"
    assert (done.json["nodes"], len(done.json["problems"])) == (4, 1)
