"""`graphsearch lab nodetypes`: tables, JSON; wrong use in one line."""

from __future__ import annotations

from pathlib import Path

import chess
import pytest

from graphsearch import Graph
from graphsearch.jit.places import COMPILING
from graphsearch.store.record.transposition import Entry

from ..conftest import Cli, sql


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


def test_stored_positions_are_tabled_by_ply_and_type(cli: Cli, entries_file: Path) -> None:
    done = cli("lab", "nodetypes", "startpos", "--store", entries_file).ends(0)
    assert "4 stored positions, 4 of 4 entries, 1 ply deep, 20.0 moves a position; 0 proven" in done.out
    assert "Cut by the first move: 50.0 % of 2 Cut nodes (Hyatt: more than 90 %)" in done.out
    assert "Distance from the PV: odd for 2 of 2 Cut nodes" in done.out
    data = cli("lab", "nodetypes", "startpos", "--store", entries_file, "--json").json
    assert data["actual"] == {"pv": 2, "cut": 2, "all": 0, "unknown": 0}
    assert data["agreement"]["garms"]["share"] == 1
    assert data["plies"][1]["formula"] == {"pv": 1, "cut": 19, "all": 0, "total": 20, "worst": 20}
    below = cli("lab", "nodetypes", "startpos", "--moves", "e4", "--store", entries_file, "--json").json
    assert (below["nodes"], below["reached"], below["entries"]) == (1, 1, 4)


def test_a_cut_start_is_expected_to_be_and_nothing_is_told_of_no_nodes(cli: Cli, entries_file: Path) -> None:
    done = cli("lab", "nodetypes", "startpos", "--moves", "d4", "--store", entries_file)
    assert "The start is Cut by its bound: that is expected of it, and the minimal tree is" in done.out
    assert "Expected by Garms: 100.0 % of 1 node agree" in done.out
    assert "Distance from the PV" not in done.out
    done = cli("lab", "nodetypes", "startpos", "--moves", "e4", "--store", entries_file)
    assert "The start is" not in done.out
    assert "Cut by the first move: unknown" in done.out
    assert " 0 " not in done.out.partition("Cut by the first move")[2]


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


def test_the_limit_is_told_when_it_is_met(cli: Cli, entries_file: Path) -> None:
    done = cli("lab", "nodetypes", "startpos", "--store", entries_file, "--nodes", 2, "--json")
    assert (done.code, done.json["complete"], done.json["nodes"]) == (0, False, 2)
    assert "the limit of 2 positions was reached; raise it with --nodes" in done.err


def test_what_cannot_be_classified_is_exit_code_1(cli: Cli, entries_file: Path, small_graph: Path) -> None:
    done = cli("lab", "nodetypes", "startpos", "--store", small_graph)
    assert (done.code, done.out) == (1, "")
    assert "has no entries; graphsearch alphabeta" in done.err
    done = cli("lab", "nodetypes", "startpos", "--moves", "a3", "--store", entries_file)
    assert (done.code, done.out) == (1, "")
    assert "no fixed-depth search and no mate proof has left an entry" in done.err
    assert cli("lab", "nodetypes", "startpos", "--store", entries_file.parent / "none.graph").code == 2
    assert cli("lab", "nodetypes", "8/8 w", "--store", entries_file).code == 2
