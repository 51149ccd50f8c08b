"""Exports of any format: what is taken, what memory it takes, and what is left when something goes wrong."""

from __future__ import annotations

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
from graphsearch.exchange import rows_export
from graphsearch.exchange.exports import export
from graphsearch.exchange.selection import Selection
from graphsearch.position.board import board_of

from ..conftest import Cli
from ..store.records import filled
from ..store.test_damage import flip
from ..support.forks import Command, needs_fork
from ..support.pools import until
from .exported import after, known_below, made_record, searched, uniform_graph

FORMATS = ("polyglot", "pgn", "epd", "jsonl", "csv")


def left_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if not path.name.endswith(("-wal", "-shm"))}


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_is_written_whole_and_leaves_nothing_else(
    form: str, cli: Cli, small_graph: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("graphsearch.cli.progress.FIRST_LINE_S", 0.0)
    folder = tmp_path / "out"
    folder.mkdir()
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


def test_positions_that_the_file_has_lost_are_counted(tmp_path: Path) -> None:
    board = chess.Board()
    child = after(board, chess.Move.from_uci("e2e4"))
    records = [made_record(board, {"e4": (5, 0.1), "d4": (4, 0.1)}), made_record(child, {})]
    path = filled(tmp_path / "lost.graph", records)
    report = export("jsonl", path, tmp_path / "out", Selection())
    assert (report.positions, report.left_out["missing"]) == (2, 1)


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
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = uniform_graph(tmp_path / "wide.graph", 100)
    folder, begun = tmp_path / "out", tmp_path / "begun"
    folder.mkdir()

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
