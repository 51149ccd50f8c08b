"""`alphabeta`: what it prints, what it reuses, what it refuses, and that Ctrl-C loses nothing."""

from __future__ import annotations

import json
import signal
import sqlite3
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import chess
import pytest

from graphsearch.graph.graph import Graph
from graphsearch.graph.saving import EntryReport, GraphEntries
from graphsearch.solvers.alphabeta.search import DepthLimits, limits_alone, nodes_within

from ..conftest import Cli, Outcome, sql
from ..support.forks import Command
from ..support.pools import until

if TYPE_CHECKING:
    from graphsearch.solvers.alphabeta.search import AlphaBetaResult

KEYS = """position key store asked depth window value cp mate bound bestmove pv nodes seconds stop_reason
counts known nodes_alone nodes_saved entries graph_nodes iterations"""


def test_json_is_one_object_with_the_promised_names(cli: Cli) -> None:
    data = cli("alphabeta", "startpos", "--depth", 3, "--json").json
    assert list(data) == KEYS.split()
    assert (data["depth"], data["bound"], data["stop_reason"]) == (3, "exact", "depth")
    assert data["cp"] == round(data["value"] / 10)
    assert data["mate"] is None
    assert data["pv"][0] == data["bestmove"]
    assert [row["depth"] for row in data["iterations"]] == [1, 2, 3]
    assert sum(row["counts"]["nodes"] for row in data["iterations"]) == data["nodes"]
    assert data["nodes_saved"] is None


def test_the_table_has_a_row_for_each_depth_and_the_messages_are_on_stderr(cli: Cli) -> None:
    outcome = cli("alphabeta", "startpos", "--moves", "e4 e5", "--depth", 3)
    lines = outcome.out.splitlines()
    assert lines[0].split() == [
        "Depth",
        "Score",
        "Nodes",
        "Nodes/s",
        "Hits",
        "Cut-offs",
        "First",
        "Time",
        "Line",
    ]
    assert [line.split()[0] for line in lines[2:5]] == ["1", "2", "3"]
    assert lines[4].split("s   ")[-1].startswith("2. ")  # the line, after 1. e4 e5
    assert lines[5].startswith("bestmove ")
    assert "Nothing was saved" in outcome.err


def test_a_second_run_says_what_it_reused_and_what_that_saved(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "a.graph"
    first = cli("alphabeta", "startpos", "--depth", 4, "--store", path, "--json").json
    second = cli("alphabeta", "startpos", "--depth", 5, "--store", path, "--compare")
    assert "The file knew depth 4; the search started with the next one." in second.out
    assert f"Earlier searches took {first['nodes']:,} nodes to get there." in second.out
    assert "saved." in second.out
    assert " entries (" in second.err
    again = cli("alphabeta", "startpos", "--depth", 5, "--store", path, "--compare", "--json").json
    assert (again["nodes"], again["stop_reason"], again["known"]["depth"]) == (0, "known", 5)
    assert again["nodes_saved"] == again["nodes_alone"] > first["nodes"]
    info = cli("store", "info", path)
    assert "Entries:" in info.out
    assert "Fixed depth and mates (2)" in info.out
    held = cli("store", "info", path, "--json").json
    assert [run["depth"] for run in held["entry_runs"]] == [4, 5]
    verdict = cli("store", "verify", path).ends(0)
    assert "entries, sound" in verdict.out


def test_one_file_serves_both_searches(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "a.graph"
    assert cli("alphabeta", "startpos", "--depth", 3, "--store", path).code == 0
    assert (
        cli("analyze", "startpos", "--visits", 200, "--param", "MinibatchSize=1", "--store", path).code == 0
    )
    data = cli("alphabeta", "startpos", "--depth", 4, "--store", path, "--json").json
    assert data["graph_nodes"] > 150
    assert data["counts"]["ordered"] > 0
    without = cli("alphabeta", "startpos", "--depth", 5, "--store", path, "--no-graph", "--json").json
    assert without["graph_nodes"] == 0
    assert cli("show", "startpos", "--store", path, "--json").json["visits"] == 200


def test_a_window_is_given_in_centipawns(cli: Cli) -> None:
    outcome = cli("alphabeta", "startpos", "--depth", 3, "--window", -900, -800, "--json")
    assert (outcome.json["window"], outcome.json["bound"]) == ([-9000, -8000], "lower")
    text = cli("alphabeta", "startpos", "--depth", 3, "--window", 800, 900).out
    assert "score <=" in text


@pytest.mark.parametrize(
    ("fen", "words"),
    [
        ("6k1/5ppp/8/8/8/8/8/R3K3 w - - 0 1", ("score #1 (White's view)", "This mate is the shortest")),
        ("7k/6Q1/6K1/8/8/8/8/8 b - - 0 1", ("Black to move: checkmate", "score #0")),
        ("7k/5Q2/6K1/8/8/8/8/8 b - - 0 1", ("stalemate", "score 0.00")),
    ],
)
def test_mates_and_ends_are_said(cli: Cli, fen: str, words: tuple[str, ...]) -> None:
    outcome = cli("alphabeta", fen, "--depth", 9).ends(0)
    assert all(word in outcome.out for word in words)


def _interrupted(path: Path) -> Outcome:
    """Returns how a search without a limit ended that got Ctrl-C when its first depth was saved."""
    process = Command("alphabeta", "startpos", "--depth", 99, "--store", path, "--json")
    until(lambda: _depths_in(path) > 0)
    process.send_signal(signal.SIGINT)
    outcome = process.end().ends(130)
    assert "Traceback" not in outcome.err
    return outcome


def _depths_in(path: Path) -> int:
    """Returns how many finished depths a file has."""
    try:
        return int(sql(path, "SELECT count(*) FROM entry_iteration")[0][0]) if path.exists() else 0
    except sqlite3.Error:  # it is being made
        return 0


def test_a_signal_ends_the_search_with_what_is_known_saved_and_printed(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "a.graph"
    cli("alphabeta", "startpos", "--depth", 1)  # compiles
    data = json.loads(_interrupted(path).out)
    assert data["stop_reason"] == "stop"
    assert chess.Move.from_uci(data["bestmove"]) in chess.Board().legal_moves
    again = cli("alphabeta", "startpos", "--depth", max(data["depth"], 1), "--store", path, "--json").json
    assert again["value"] == data["value"]
    assert again["stop_reason"] == "known"
    assert cli("store", "verify", path).code == 0


MATE_IN_2 = "kbK5/pp6/1P6/8/8/8/8/R7 w - - 0 1"


def test_comparing_goes_no_deeper_than_a_known_mate(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "a.graph"
    assert cli("alphabeta", MATE_IN_2, "--depth", 3, "--store", path, "--json").json["mate"] == 2
    again = cli("alphabeta", MATE_IN_2, "--time", "1m", "--store", path, "--compare", "--json").json
    assert (again["stop_reason"], again["depth"], again["mate"]) == ("known", 126, 2)
    result = SimpleNamespace(depth=126, value=-99_996)
    limits = limits_alone(DepthLimits(depth=126, window=(-5, 5), seconds=1), cast("AlphaBetaResult", result))
    assert (limits.depth, limits.window, limits.seconds) == (4, None, 1)
    assert again["nodes_alone"] == again["nodes_saved"] > 0


def test_comparing_ends_at_the_limits_of_the_search(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "a.graph"
    assert cli("alphabeta", "startpos", "--depth", 4, "--store", path).code == 0
    outcome = cli(
        "alphabeta", "startpos", "--depth", 4, "--nodes", 50, "--store", path, "--compare", "--json"
    )
    assert (outcome.json["stop_reason"], outcome.json["nodes_alone"]) == ("known", None)
    assert "Without the file, depth 4 was not reached within the limits" in outcome.err
    limits = DepthLimits(depth=30, seconds=1e-9)
    assert nodes_within(chess.Board(), limits, table_bytes=0, stop=threading.Event()) is None


def test_too_little_memory_names_the_option(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(Graph, "use_entries", fail)
    said = "--ram 512MB: not enough memory for a table of this size"
    cli("alphabeta", "startpos", "--depth", 1, "--ram", "512MB").ends(1, said)


@pytest.mark.parametrize(("left_out", "is_said"), [(4, False), (500, True)])
def test_a_larger_table_is_advised_only_if_many_entries_had_no_room(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left_out: int, is_said: bool
) -> None:
    path = tmp_path / "a.graph"
    assert cli("alphabeta", "startpos", "--depth", 1, "--store", path).code == 0

    def load(entries: GraphEntries, *_: object) -> None:
        entries.report = EntryReport(loaded=5000, left_out=left_out)

    monkeypatch.setattr(GraphEntries, "_load", load)
    outcome = cli("alphabeta", "startpos", "--depth", 1, "--store", path, "--json")
    assert ("A larger --ram" in outcome.err) == is_said
    assert outcome.json["entries"]["left_out"] == left_out
