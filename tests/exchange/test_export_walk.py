"""Exports of any format: what is taken, what memory it takes, and what is left when something goes wrong."""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import chess
import numpy as np
import pytest

from graphsearch.base.errors import InvalidParameterError, InvalidPositionError
from graphsearch.exchange.pgn_export import export_pgn
from graphsearch.exchange.rows_export import export_jsonl
from graphsearch.exchange.selection import Selection
from graphsearch.position.board import board_of, encode_move, key_of, legal_moves, pack
from graphsearch.position.notation import read_position
from graphsearch.query.steps import legal_codes, positions_after, uci_of

from ..conftest import Cli, finish, start
from ..store.records import filled, random_board
from ..store.test_damage import flip
from ..support.pools import until
from .exported import ENDGAME, after, known_below, made_record, searched, uniform_graph

FORMATS = ("polyglot", "pgn", "epd", "jsonl", "csv")


def left_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if not path.name.endswith(("-wal", "-shm"))}


def test_moves_and_children_are_those_of_python_chess() -> None:
    import random

    rng = random.Random(5)
    boards = [random_board(rng, 150) for _ in range(30)]
    words = np.array([pack(board) for board in boards])
    counts, codes, _ = legal_codes(words)
    for board, row, count, moves in zip(boards, words, counts.tolist(), codes.tolist(), strict=True):
        legal = legal_moves(board)
        assert moves[:count] == [encode_move(move) for move in legal]
        assert [uci_of(code) for code in moves[:count]] == [move.uci() for move in legal]
        if legal:
            _, keys = positions_after(row.reshape(1, -1), [0] * len(legal), moves[:count])
            clocks = [after(board, move).halfmove_clock <= 255 for move in legal]
            assert [int(k) for k, fine in zip(keys, clocks, strict=True) if fine] == [
                key_of(after(board, move)) for move, fine in zip(legal, clocks, strict=True) if fine
            ]


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_is_written_whole_and_leaves_nothing_else(
    form: str, cli: Cli, small_graph: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    out = folder / f"some.{form}"
    out.write_text("before")
    done = cli("export", "--format", form, "--store", small_graph, "-o", out, "--json", "--min-visits", 2)
    assert done.code == 0, done.err
    assert done.json["form"] == form
    assert (done.json["positions"] > 10, done.json["moves"] > 10) == (True, True)
    assert left_in(folder) == {out.name}
    assert b"before" not in out.read_bytes()
    text = cli("export", "--format", form, "--store", small_graph, "-o", out)
    assert text.out.startswith(f"{out}: ")
    if form != "polyglot":
        streamed = cli("export", "--format", form, "--store", small_graph, "-o", "-")
        assert streamed.out.replace("\r", "") == out.read_text().replace("\r", "")
        assert streamed.err.splitlines()[0].startswith("-: ")


@pytest.mark.parametrize("form", FORMATS)
def test_an_export_that_finds_nothing_leaves_the_file_of_before(
    form: str, cli: Cli, small_graph: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    unknown = "8/8/4k3/8/8/4K3/4P3/8 w - - 0 1"
    done = cli("export", "--format", form, "--store", small_graph, "-o", folder / "none", unknown)
    assert (done.code, done.out, left_in(folder)) == (1, "", set())
    assert "nothing to export" in done.err.splitlines()[-1]
    (folder / "old").write_text("before")
    assert cli("export", "--format", form, "--store", small_graph, "-o", folder / "old", unknown).code == 1
    assert (folder / "old").read_text() == "before"
    assert left_in(folder) == {"old"}


def test_wrong_use_is_one_line_and_exit_code_2(cli: Cli, small_graph: Path, tmp_path: Path) -> None:
    out = ("--store", small_graph, "-o", tmp_path / "x")
    for args, what in (
        (("pgn", *out, "e9"), "'e9'"),
        (("pgn", *out, "nofile.pgn"), "no file 'nofile.pgn'"),
        (("pgn", *out, "--side", "red"), "not 'red'"),
        (("pgn", *out, "--book", "mine"), "has no book 'mine'; it has none"),
        (("polyglot", "--store", small_graph, "-o", "-"), "name a file"),
        (("epd", "--store", small_graph, "-o", "-", "--json"), "--json and -o - both write to stdout"),
    ):
        done = cli("export", "--format", *args)
        assert (done.code, done.out) == (2, ""), args
        assert what in done.err
    assert not (tmp_path / "x").exists()
    for target, what in (
        (tmp_path / "no" / "x.pgn", "make this folder first"),
        (tmp_path, "is a folder"),
        (small_graph, "is the graph file itself"),
    ):
        done = cli("export", "--format", "pgn", "--store", small_graph, "-o", target)
        assert done.code == 2
        assert what in done.err.splitlines()[-1]
    assert cli("store", "verify", small_graph).code == 0
    for wrong in ({"depth": -1}, {"max_moves": 0}, {"min_visits": -1}, {"side": "red"}):
        with pytest.raises(InvalidParameterError):
            Selection(**wrong)


def test_a_root_is_a_position_a_game_or_a_line(tmp_path: Path) -> None:
    (tmp_path / "game.pgn").write_text("1. e4 e5 *\n")
    wanted = "rnbqkbnr/pppp1ppp/8/4p3/4P3/8/PPPP1PPP/RNBQKBNR w KQkq - 0 2"
    for text in ("1. e4 e5", "e2e4 e7e5", "startpos moves e4 e5", wanted, str(tmp_path / "game.pgn")):
        assert read_position(text).board.fen() == wanted
    assert read_position(f"{wanted} moves Nf3").board.fullmove_number == 2
    for text in ("", "1. e4 Ke2", "startpos moves", "what"):
        with pytest.raises(InvalidPositionError):
            read_position(text)


@pytest.mark.parametrize("form", FORMATS)
def test_damage_is_told_and_what_can_be_read_is_exported(form: str, cli: Cli, tmp_path: Path) -> None:
    path = searched(tmp_path / "some.graph", visits=400)
    whole = cli("export", "--format", form, "--store", path, "-o", tmp_path / "whole", "--json").json
    flip(path, "block", "data", 3, 50)
    done = cli("export", "--format", form, "--store", path, "-o", tmp_path / "out", "--json")
    assert done.code == 1
    assert "block 3: checksum" in done.err
    assert done.json["positions"] < whole["positions"]
    assert done.json["left_out"]["missing"] > 0
    assert (tmp_path / "out").stat().st_size > 0


def test_positions_that_the_file_has_lost_are_counted(tmp_path: Path) -> None:
    board = chess.Board()
    child = after(board, chess.Move.from_uci("e2e4"))
    records = [made_record(board, {"e4": (5, 0.1), "d4": (4, 0.1)}), made_record(child, {})]
    path = filled(tmp_path / "lost.graph", records)
    report = export_jsonl(path, tmp_path / "out", Selection())
    assert (report.positions, report.left_out["missing"]) == (2, 1)


def test_a_finished_game_is_a_position_without_moves(cli: Cli, tmp_path: Path) -> None:
    mate = "rnb1kbnr/pppp1ppp/8/4p3/6Pq/5P2/PPPPP2P/RNBQKBNR w KQkq - 1 3"
    path = filled(tmp_path / "mate.graph", [made_record(chess.Board(mate), {}, v=-1.0)])
    for form in FORMATS[1:]:
        done = cli("export", "--format", form, "--store", path, "-o", "-", mate)
        assert done.code == 0, done.err
        assert "checkmate" in done.out
    assert cli("export", "--format", "polyglot", "--store", path, "-o", tmp_path / "x", mate).code == 1


def test_ctrl_c_leaves_neither_a_part_nor_the_temporary_file(tmp_path: Path) -> None:
    path = uniform_graph(tmp_path / "wide.graph", 100)
    folder, begun = tmp_path / "out", tmp_path / "begun"
    folder.mkdir()
    # short sleeps: another thread may get the signal, and a long sleep then goes on
    endless = "import time; from graphsearch.exchange import rows_export as csv; csv._csv_rows = lambda _: "
    endless += f"[open({str(begun)!r}, 'w').close(), *[time.sleep(0.05) for _ in range(1800)]]"
    process = start("export", "--format", "csv", "--store", path, "-o", folder / "big.csv", before=endless)
    until(begun.exists)
    assert "big.csv.part" in left_in(folder)
    os.kill(process.pid, signal.SIGINT)
    assert finish(process).code == 130
    assert left_in(folder) == set()


GROWTH = """
import resource, sys
from graphsearch.exchange.epd_export import export_epd
from graphsearch.exchange.pgn_export import export_pgn
from graphsearch.exchange.polyglot_export import export_polyglot
from graphsearch.exchange.rows_export import export_csv, export_jsonl
exports = dict(epd=export_epd, pgn=export_pgn, polyglot=export_polyglot, csv=export_csv, jsonl=export_jsonl)
def export(path):
    return exports[sys.argv[1]](path, sys.argv[4]).positions
small = export(sys.argv[2])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
large = export(sys.argv[3])
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(small, large, after - before)
"""
FULL = bool(os.environ.get("GRAPHSEARCH_FULL"))
SIZES = (10_000, 100_000) if FULL else (4_000, 20_000)
MOST_GROWTH_KIB = 32 << 10  # caches of SQLite may fill meanwhile: 8 MiB each, of both files


@pytest.fixture(scope="module")
def two_sizes(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("sizes")
    small, large = (uniform_graph(folder / f"{nodes}.graph", nodes) for nodes in SIZES)
    return small, large


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMATS if FULL else ("polyglot", "pgn"))
def test_memory_does_not_grow_with_the_book(form: str, two_sizes: tuple[Path, Path], tmp_path: Path) -> None:
    args = [sys.executable, "-c", GROWTH, form, *two_sizes, tmp_path / "out"]
    done = subprocess.run([str(arg) for arg in args], capture_output=True, text=True, check=True)
    small, large, growth = (int(number) for number in done.stdout.split())
    assert large > 2 * small
    assert growth < MOST_GROWTH_KIB, f"{growth} KiB"


def test_files_that_a_kill_left_are_no_trouble(small_graph: Path, tmp_path: Path) -> None:
    (tmp_path / "out.pgn.part").write_text("left by a kill")
    assert export_pgn(small_graph, tmp_path / "out.pgn").positions > 100
    assert "out.pgn.part" not in left_in(tmp_path)


@pytest.mark.parametrize("form", FORMATS)
def test_an_export_into_a_pipe_says_now_and_then_how_far_it_is(
    form: str, cli: Cli, small_graph: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("graphsearch.cli.progress.LINE_SECONDS", 0.0)
    done = cli("export", "--format", form, "--store", small_graph, "-o", tmp_path / "out")
    lines = [line for line in done.err.splitlines() if line.startswith("Positions: ")]
    assert lines
    assert re.fullmatch(r"Positions: [\d,]+ of [\d,]+", lines[-1])
    assert "Positions: " not in done.out


def test_cycles_end(tmp_path: Path) -> None:
    path = searched(tmp_path / "cycles.graph", ENDGAME, visits=150)
    report = export_jsonl(path, tmp_path / "out")
    assert report.positions == len(known_below(path, ENDGAME))
    assert sqlite3.sqlite_version


def test_a_walk_from_one_root_keeps_its_halfmove_clock(tmp_path: Path) -> None:
    root = "8/8/8/2k5/4r3/3R4/3K4/8 w - - 72 80"
    path = searched(tmp_path / "late.graph", root, visits=150)
    out = tmp_path / "late.jsonl"
    report = export_jsonl(path, out, Selection(roots=(board_of(root),)))
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert rows[0]["fen"] == root
    assert {row["key"] for row in rows} == {f"{key:016x}" for key in known_below(path, root)}
    assert report.left_out["missing"] == 0
