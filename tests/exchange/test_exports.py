"""Exports: what is written is what the records say; what is chosen, and what is left after a fault."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import time
from pathlib import Path
from typing import Any

import chess
import pytest

from graphsearch.base.errors import InvalidParameterError
from graphsearch.exchange import rows_export, walk
from graphsearch.exchange.exports import export
from graphsearch.exchange.rows_export import COLUMNS
from graphsearch.exchange.selection import Selection
from graphsearch.position.board import board_of, key_of, legal_moves, terminal_kind
from graphsearch.position.values import cp_of
from graphsearch.store.ranking import edge_of, has_best_move, node_mean, ranking
from graphsearch.store.record import NodeRecord

from ..conftest import Cli
from ..store.records import filled
from ..store.test_damage import flip
from ..support.forks import Command, needs_fork
from ..support.pools import until
from .exported import ENDGAME, PROMOTES, add_book, after, known_below, made_record, searched, uniform_graph
from .golden_exports import FILES, MATES, PATH, digests, make_graph, result_of


@pytest.fixture(scope="module", params=(ENDGAME, MATES, PROMOTES), ids=["endgame", "mates", "promotions"])
def graph(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    path = tmp_path_factory.mktemp("graph") / "some.graph"
    return searched(path, request.param, visits=60), request.param


def json_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def check_moves(record: NodeRecord, board: chess.Board, moves: list[dict[str, Any]]) -> None:
    """Asserts that moves have the numbers of a record, in its order, and that N, P and Q follow from them."""
    legal = legal_moves(board) if record.codes else []
    ranked = ranking(record, board.halfmove_clock)
    assert [move["move"] for move in moves] == [legal[record.order[k]].uci() for k in ranked]
    for k, move in zip(ranked, moves, strict=True):
        edge = edge_of(record, k)
        child = after(board, legal[record.order[k]])
        assert (move["n"], move["r"]) == (edge.n, edge.r)
        assert move["p"] == record.priors[record.order[k]]
        assert move["q"] == (edge.value if edge.n else None)
        assert move["cp"] == (cp_of(edge.value) if edge.n else None)
        assert move["san"] == board.san(legal[record.order[k]])
        assert move["child"] == f"{key_of(child):016x}"
        proven = edge.proof.moves if edge.proof and edge.proof.holds_at(board.halfmove_clock) else None
        assert move["mate"] == (1 if child.is_checkmate() else proven)


def check_node(record: NodeRecord, node: dict[str, Any], moves: list[dict[str, Any]]) -> None:
    assert node["n"] == record.visits == 1 + sum(move["n"] for move in moves)
    assert node["q"] == node_mean(record)[0]
    mean = (node["v"] + sum(move["n"] * (move["q"] or 0.0) for move in moves)) / node["n"]
    assert min(max(mean, node["lower"]), node["upper"]) == pytest.approx(node["q"], abs=1e-12)
    assert (node["evaluator"], node["run"]) == (record.evaluator, record.run)


def test_json_lines_hold_every_record(graph: tuple[Path, str], tmp_path: Path) -> None:
    path, fen = graph
    report = export("jsonl", path, tmp_path / "out.jsonl", Selection(all_moves=True))
    known = known_below(path, fen)
    rows = json_lines(tmp_path / "out.jsonl")
    assert report.positions == len(rows) == len(known)
    assert {row["key"] for row in rows} == {f"{key:016x}" for key in known}
    for row in rows:
        board, record = known[int(row["key"], 16)]
        assert chess.Board(row["fen"]).epd() == board.epd()
        assert (row["fen"].split()[5], row["ply"]) == (str(board.fullmove_number), board.ply())
        assert sum(row["wdl"]) == pytest.approx(1)
        assert (row["terminal"] is None) == (terminal_kind(board) == 0)
        check_moves(record, board, row["moves"])
        node = row | {"lower": row["bounds"][0], "upper": row["bounds"][1]}
        check_node(record, node, row["moves"])


def test_csv_has_the_values_of_json_lines(graph: tuple[Path, str], tmp_path: Path) -> None:
    path, _ = graph
    export("jsonl", path, tmp_path / "out.jsonl", Selection(all_moves=True))
    export("csv", path, tmp_path / "out.csv", Selection(all_moves=True))
    data = (tmp_path / "out.csv").read_bytes()
    assert data.count(b"\r\n") == data.count(b"\n")
    expected = list[list[Any]]()
    for row in json_lines(tmp_path / "out.jsonl"):
        node = row | dict(zip(("win", "draw", "loss"), row["wdl"], strict=True))
        node |= dict(zip(("lower", "upper"), row["bounds"], strict=True))
        names = (name.removeprefix("node_") for name in COLUMNS[: COLUMNS.index("move")])
        of_node = [node[name] for name in names]
        moves = row["moves"] or [dict.fromkeys(COLUMNS)]
        expected += [[*of_node, *(move[name] for name in COLUMNS[len(of_node) :])] for move in moves]
    found = list(csv.reader(data.decode().splitlines()))
    assert tuple(found[0]) == COLUMNS
    assert found[1:] == [["" if v is None else str(v) for v in row] for row in expected]


def test_moves_without_visits_are_written_if_asked_for(
    graph: tuple[Path, str], tmp_path: Path, cli: Cli
) -> None:
    path, _ = graph
    visited = export("jsonl", path, tmp_path / "visited.jsonl")
    every = export("jsonl", path, tmp_path / "every.jsonl", Selection(all_moves=True))
    assert visited.positions == every.positions
    assert visited.moves < every.moves
    for some, all_ in zip(
        *(json_lines(tmp_path / f"{name}.jsonl") for name in ("visited", "every")), strict=True
    ):
        assert some == all_ | {"moves": [move for move in all_["moves"] if move["n"]]}
    assert export("csv", path, tmp_path / "visited.csv").moves == visited.moves
    cli("export", path, "-o", tmp_path / "x.pgn", "--all-moves").ends(2, "--all-moves does not apply to pgn")
    cli("export", path, "-o", tmp_path / "x.csv", "--all-moves", "--min-visits", 1).ends(
        2, "exclude each other"
    )


def test_python_chess_reads_every_line_of_epd(graph: tuple[Path, str], tmp_path: Path) -> None:
    path, fen = graph
    export("epd", path, tmp_path / "out.epd")
    known = known_below(path, fen)
    lines = (tmp_path / "out.epd").read_text().splitlines()
    assert len(lines) == len(known)
    for line in lines:
        board, read = chess.Board.from_epd(line)
        found: dict[str, Any] = dict(read)
        assert found["id"] == f"{key_of(board):016x}"
        _, record = known[key_of(board)]
        assert found["acn"] == record.visits
        pv = found.get("pv", [])
        assert len(pv) == found["acd"]
        assert found.get("bm", []) == pv[:1]
        assert bool(pv) == has_best_move(record)
        mates = any(after(board, move).is_checkmate() for move in board.legal_moves)
        expected = 32766 if mates else -32767 if board.is_checkmate() else cp_of(node_mean(record)[0])
        assert (found["ce"], found.get("dm")) == (expected, 1 if mates else None)
        walk = board.copy()
        for move in pv:
            record = known[key_of(walk)][1]
            assert move == legal_moves(walk)[record.order[ranking(record)[0]]]
            walk.push(move)


def test_a_book_has_its_moves_and_values(tmp_path: Path) -> None:
    visits = {"e4": (90, 0.1), "d4": (5, 0.3), "a3": (50, 0.0)}
    path = filled(tmp_path / "book.graph", [made_record(chess.Board(), visits)])
    add_book(path, "mine", "both", [chess.STARTING_FEN], {"e4": 0.2, "d4": -0.2, "e4 e5": 0.3})
    report = export("jsonl", path, tmp_path / "out.jsonl", Selection(book="mine"))
    rows = json_lines(tmp_path / "out.jsonl")
    assert report.positions == len(rows) == 4
    assert [(row["ply"], row["n"], row["book"]["value"]) for row in rows] == [
        (0, 146, None),
        (1, None, -0.2),
        (1, None, 0.2),
        (2, None, 0.3),
    ]
    assert [move["move"] for move in rows[0]["moves"]] == ["d2d4", "e2e4"]
    export("epd", path, tmp_path / "out.epd", Selection(book="mine", side="black"))
    found = [chess.Board.from_epd(line)[1] for line in (tmp_path / "out.epd").read_text().splitlines()]
    assert [row.get("ce") for row in found] == [cp_of(-0.2), cp_of(0.2)]
    assert [row.get("bm") for row in found] == [None, [chess.Move.from_uci("e7e5")]]


def test_limits_leave_out_moves_and_the_report_counts_them(graph: tuple[Path, str], tmp_path: Path) -> None:
    path, fen = graph
    known = known_below(path, fen)
    report = export("jsonl", path, tmp_path / "out.jsonl", Selection(min_visits=3))
    rows = json_lines(tmp_path / "out.jsonl")
    assert min(row["n"] for row in rows) >= 3
    assert all(move["n"] >= 3 for row in rows for move in row["moves"])
    few = sum(0 < edge.n < 3 for row in rows for edge in known[int(row["key"], 16)][1].edges)
    assert report.left_out["moves_few_visits"] == few
    one = export(
        "jsonl", path, tmp_path / "one.jsonl", Selection(roots=(chess.Board(fen),), max_moves=1, depth=2)
    )
    rows = json_lines(tmp_path / "one.jsonl")
    assert [row["depth"] for row in rows] == list(range(len(rows)))
    assert max(len(row["moves"]) for row in rows) == 1
    assert one.left_out["moves_beyond"] > 0


# ------------------------------------------------------------------ bytes
@pytest.fixture(scope="module", params=FILES)
def golden(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    path = tmp_path_factory.mktemp("graph") / f"{request.param}.graph"
    return make_graph(path, request.param), request.param


def test_exports_write_the_bytes_that_they_always_wrote(golden: tuple[Path, str], tmp_path: Path) -> None:
    assert digests(*golden, tmp_path) == json.loads(PATH.read_text())[golden[1]]


@pytest.mark.parametrize("golden", ["lines"], indirect=True)
@pytest.mark.parametrize("form", ["jsonl", "epd", "pgn"])
def test_it_does_not_matter_how_many_records_are_read_together(
    form: str, golden: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = result_of(form, golden[0], tmp_path / "out", Selection())
    monkeypatch.setattr(walk, "BATCH", 7)
    assert result_of(form, golden[0], tmp_path / "out", Selection()) == whole
    assert whole[1]


# ------------------------------------------------------------------ files
FORMATS = ("polyglot", "pgn", "epd", "jsonl", "csv")


def left_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if not path.name.endswith(("-wal", "-shm"))}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "out").mkdir()
    return tmp_path / "out"


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_is_written_whole_and_leaves_nothing_else(
    form: str, cli: Cli, small_graph: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("graphsearch.cli.progress.FIRST_LINE_S", 0.0)
    out = folder / f"some.{form}"
    out.write_text("before")
    done = cli("export", "--format", form, "--store", small_graph, "-o", out, "--json", "--min-visits", 2)
    assert done.code == 0, done.err
    assert done.json["form"] == form
    assert min(done.json["positions"], done.json["moves"]) > 10
    assert left_in(folder) == {out.name}
    assert b"before" not in out.read_bytes()
    text = cli("export", "--format", form, "--store", small_graph, "-o", out)
    assert text.out.startswith(f"{out}: ")
    assert "Positions: " not in text.out
    lines = [line for line in text.err.splitlines() if line.startswith("Positions: ")]
    assert re.fullmatch(r"Positions: [\d,]+ of [\d,]+", lines[-1])
    if form != "polyglot":
        streamed = cli("export", "--format", form, "--store", small_graph, "-o", "-")
        assert streamed.out.replace("\r", "") == out.read_text().replace("\r", "")
        assert "\n-: " in f"\n{streamed.err}"


@pytest.mark.parametrize("form", FORMATS)
def test_an_export_that_finds_nothing_leaves_the_file_of_before(
    form: str, cli: Cli, small_graph: Path, folder: Path
) -> None:
    unknown = "8/8/4k3/8/8/4K3/4P3/8 w - - 0 1"
    done = cli("export", "--format", form, "--store", small_graph, "-o", folder / "none", unknown)
    assert (done.code, done.out, left_in(folder)) == (1, "", set())
    assert "nothing to export" in done.err.splitlines()[-1]
    (folder / "old").write_text("before")
    assert cli("export", "--format", form, "--store", small_graph, "-o", folder / "old", unknown).code == 1
    assert (folder / "old").read_text() == "before"
    assert left_in(folder) == {"old"}


@pytest.mark.parametrize("form", FORMATS)
def test_damage_is_told_and_what_can_be_read_is_exported(form: str, cli: Cli, tmp_path: Path) -> None:
    path = searched(tmp_path / "some.graph", visits=400)
    whole = cli("export", "--format", form, "--store", path, "-o", tmp_path / "whole", "--json").json
    flip(path, "block", "data", 3, 50)
    done = cli("export", "--format", form, "--store", path, "-o", tmp_path / "out", "--json").ends(1)
    assert "block 3: checksum" in done.err
    assert done.json["positions"] < whole["positions"]
    assert done.json["left_out"]["missing"] > 0
    assert (tmp_path / "out").stat().st_size > 0


def test_a_finished_game_is_a_position_without_moves(cli: Cli, tmp_path: Path) -> None:
    mate = "rnb1kbnr/pppp1ppp/8/4p3/6Pq/5P2/PPPPP2P/RNBQKBNR w KQkq - 1 3"
    path = filled(tmp_path / "mate.graph", [made_record(chess.Board(mate), {}, v=-1.0)])
    for form in FORMATS[1:]:
        words = ["--comments"] if form == "pgn" else []
        done = cli("export", "--format", form, "--store", path, "-o", "-", mate, *words).ends(0)
        assert "checkmate" in done.out
    assert cli("export", "--format", "polyglot", "--store", path, "-o", tmp_path / "x", mate).code == 1


@needs_fork
def test_ctrl_c_leaves_neither_a_part_nor_the_temporary_file(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, begun = uniform_graph(tmp_path / "wide.graph", 100), tmp_path / "begun"

    def endless(_: object) -> None:
        begun.touch()
        for _pause in range(1800):  # short: another thread may get the signal, and a long sleep then goes on
            time.sleep(0.05)

    monkeypatch.setattr(rows_export, "_csv_rows", endless)
    words = "export", "--format", "csv", "--store", path, "-o", folder / "big.csv"
    with Command(*words) as command:
        until(begun.exists)
        assert "big.csv.part" in left_in(folder)
        os.kill(command.process, signal.SIGINT)
        assert command.end().code == 130
    assert left_in(folder) == set()


@pytest.mark.parametrize("wrong", [{"depth": -1}, {"max_moves": 0}, {"min_visits": -1}, {"side": "red"}])
def test_a_selection_that_selects_nothing_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameterError):
        Selection(**wrong)


def test_files_that_a_kill_left_are_no_trouble(small_graph: Path, tmp_path: Path) -> None:
    (tmp_path / "out.pgn.part").write_text("left by a kill")
    assert export("pgn", small_graph, tmp_path / "out.pgn").positions > 100
    assert "out.pgn.part" not in left_in(tmp_path)


def test_a_walk_from_one_root_keeps_its_halfmove_clock(tmp_path: Path) -> None:
    root = "8/8/8/2k5/4r3/3R4/3K4/8 w - - 72 80"
    path = searched(tmp_path / "late.graph", root, visits=150)
    out = tmp_path / "late.jsonl"
    report = export("jsonl", path, out, Selection(roots=(board_of(root),)))
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert rows[0]["fen"] == root
    assert {row["key"] for row in rows} == {f"{key:016x}" for key in known_below(path, root)}
    assert report.left_out["missing"] == 0
