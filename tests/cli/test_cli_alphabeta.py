"""`alphabeta`, `mate` and `lab nodetypes`: what they print, keep and refuse."""

from __future__ import annotations

import json
import signal
import sqlite3
import time
from pathlib import Path

import chess
import pytest

from graphsearch.graph.graph import Graph
from graphsearch.jit.cache import COMPILING
from graphsearch.store.entries import Entry

from ..conftest import Cli, sql
from ..support.forks import Command
from ..support.pools import until

KEYS = """position key store asked depth value cp mate bound bestmove pv nodes seconds stop_reason
counts known entries graph_nodes iterations"""


def test_json_is_one_object_with_the_promised_names(cli: Cli) -> None:
    data = cli("alphabeta", "startpos", "--depth", 3, "--json").json
    assert list(data) == KEYS.split()
    assert (data["depth"], data["bound"], data["stop_reason"]) == (3, "exact", "depth")
    assert data["cp"] == round(data["value"] / 10)
    assert data["mate"] is None
    assert data["pv"][0] == data["bestmove"]
    assert [row["depth"] for row in data["iterations"]] == [1, 2, 3]
    assert sum(row["counts"]["nodes"] for row in data["iterations"]) == data["nodes"]


def _depths_in(path: Path) -> int:
    """Returns how many finished depths a file has."""
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
