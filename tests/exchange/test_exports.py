"""Exports: what is written is what the records say; what is chosen, what a fault leaves; a site."""

from __future__ import annotations

import csv
import errno
import gc
import inspect
import io
import json
import os
import random
import re
import shutil
import signal
import struct
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from importlib.resources import files
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import chess
import chess.pgn
import chess.polyglot
import numpy as np
import pytest

from graphsearch import brief
from graphsearch.base.errors import ExportError, InvalidParameterError
from graphsearch.exchange import polyglot, rows_export, walk
from graphsearch.exchange.exports import export
from graphsearch.exchange.output import COLUMNS as TEXT_COLUMNS
from graphsearch.exchange.polyglot import MAX_WEIGHT, fitted, weight_of_loss
from graphsearch.exchange.rows_export import COLUMNS, EDGES, MOVE, NODE, NODES, Table
from graphsearch.exchange.selection import Selection
from graphsearch.exchange.site.export import NAMES, OWN, SHARED, script
from graphsearch.position.board import after, board_of, key_of, legal_moves, unpack
from graphsearch.position.values import cp_of
from graphsearch.query.tree import neighbourhood
from graphsearch.store.ranking import has_best_move, node_mean, ranking
from graphsearch.store.record import NodeRecord
from graphsearch.store.store import Store

from ..conftest import ROOT, Cli, sql
from ..query.handmade import LINES as BY_HAND
from ..query.handmade import add_book, execute, graph_file
from ..store.records import filled, held
from ..store.test_damage import flip
from ..support.forks import Command, Fork
from ..support.graphs import ENDGAME, searched
from ..support.pools import until
from ..support.positions import after_line
from . import exported as made

parquet: Any = import_module("pyarrow.parquet") if find_spec("pyarrow") else None
needs_parquet = pytest.mark.skipif(parquet is None, reason="needs pyarrow: pip install '.[parquet]'")


@pytest.fixture(
    scope="module", params=(ENDGAME, made.MATES, made.PROMOTES), ids=["endgame", "mates", "promotions"]
)
def graph(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    path = tmp_path_factory.mktemp("graph") / "some.graph"
    return searched(path, request.param, visits=60), request.param


def json_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_json_lines_hold_every_record(graph: tuple[Path, str], tmp_path: Path) -> None:
    path, fen = graph
    report = export("jsonl", path, tmp_path / "out.jsonl", Selection(all_moves=True))
    known = made.known_below(path, fen)
    rows = json_lines(tmp_path / "out.jsonl")
    assert report.positions == len(rows) == len(known)
    assert {row["key"] for row in rows} == {f"{key:016x}" for key in known}
    for row in rows:
        board, record = known[int(row["key"], 16)]
        assert chess.Board(row["fen"]).epd() == board.epd()
        assert (row["fen"].split()[5], row["ply"]) == (str(board.fullmove_number), board.ply())
        assert sum(row["wdl"]) == pytest.approx(1)
        node = row | {"draw": row["wdl"][1], "lower": row["bounds"][0], "upper": row["bounds"][1]}
        own = made.node_row(board, record, {record.evaluator: ""})
        made.check_rows([{name: node[name] for name in NODE[4:]}], [{name: own[name] for name in NODE[4:]}])
        moves = sorted(made.edge_rows(board, record), key=lambda move: move["rank"])
        for move in moves:
            move["cp"] = None if move["q"] is None else cp_of(move["q"])
            move["child"] = f"{move['child']:016x}"
        made.check_rows(row["moves"], [{name: move[name] for name in MOVE} for move in moves])
        mean = (row["v"] + sum(move["n"] * (move["q"] or 0.0) for move in row["moves"])) / row["n"]
        assert min(max(mean, node["lower"]), node["upper"]) == pytest.approx(row["q"], abs=1e-12)
        assert row["n"] == 1 + sum(move["n"] for move in row["moves"])


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
    known = made.known_below(path, fen)
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
    path = filled(tmp_path / "book.graph", [made.made_record(chess.Board(), visits)])
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
    board, out = chess.Board(), tmp_path / "book.bin"
    export("polyglot", path, out, Selection(book="mine", side="white"), weights="n")
    assert read_book(out, [board])[key_of(board)] == [("e2e4", 90), ("d2d4", 5)]
    report = export("polyglot", path, out, Selection(book="mine", side="white"), weights="q")
    weights = scaled([1.0, loss_weight(0.2, -0.2)], fill=True)
    assert read_book(out, [board])[key_of(board)] == [("d2d4", 65535), ("e2e4", weights[1])]
    assert report.left_out["other_side"] == 1  # e4 e5
    with pytest.raises(InvalidParameterError, match="has no book 'yours'; it has 'mine'"):
        export("polyglot", path, out, Selection(book="yours"))


def test_limits_leave_out_moves_and_the_report_counts_them(graph: tuple[Path, str], tmp_path: Path) -> None:
    path, fen = graph
    known = made.known_below(path, fen)
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
@pytest.fixture(scope="module", params=made.FILES)
def golden(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    path = tmp_path_factory.mktemp("graph") / f"{request.param}.graph"
    return made.make_graph(path, request.param), request.param


def test_exports_write_the_bytes_that_they_always_wrote(golden: tuple[Path, str], tmp_path: Path) -> None:
    assert made.digests(*golden, tmp_path) == json.loads(made.PATH.read_text())[golden[1]]


@pytest.mark.parametrize("golden", ["lines"], indirect=True)
@pytest.mark.parametrize("form", ["jsonl", "epd", "pgn"])
def test_it_does_not_matter_how_many_records_are_read_together(
    form: str, golden: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = made.result_of(form, golden[0], tmp_path / "out", Selection())
    monkeypatch.setattr(walk, "BATCH", 7)
    assert made.result_of(form, golden[0], tmp_path / "out", Selection()) == whole
    assert whole[1]


# ------------------------------------------------------------------ files
FORMATS = ("polyglot", "pgn", "epd", "jsonl", "csv")
WITH_TABLES = (*FORMATS, pytest.param("parquet", marks=needs_parquet))


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
    (folder / f"{out.name}.part").write_text("left by a kill")
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


@pytest.mark.parametrize("form", WITH_TABLES)
def test_an_export_that_finds_nothing_leaves_the_file_of_before(
    form: str, cli: Cli, small_graph: Path, folder: Path
) -> None:
    unknown = "8/8/4k3/8/8/4K3/4P3/8 w - - 0 1"
    done = cli("export", "--format", form, "--store", small_graph, "-o", folder / "none", unknown)
    assert (done.code, done.out, left_in(folder)) == (1, "", set())
    assert "nothing to export" in done.err.splitlines()[-1]
    if form == "parquet":  # a folder
        return
    (folder / "old").write_text("before")
    assert cli("export", "--format", form, "--store", small_graph, "-o", folder / "old", unknown).code == 1
    assert (folder / "old").read_text() == "before"
    assert left_in(folder) == {"old"}


def test_progress_is_told_of_every_batch(
    small_graph: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walk, "BATCH", 20)
    told: list[int] = []
    export("epd", small_graph, folder / "a.epd", on_progress=lambda done, _: told.append(done))
    assert told[-1] > 200
    assert max(after - before for before, after in pairwise(told)) == 20


@pytest.mark.parametrize("form", WITH_TABLES)
def test_damage_is_told_and_what_can_be_read_is_exported(form: str, cli: Cli, tmp_path: Path) -> None:
    path = searched(tmp_path / "some.graph", visits=400)
    whole = cli("export", "--format", form, "--store", path, "-o", tmp_path / "whole", "--json").json
    flip(path, "block", "data", 3, 50)
    done = cli("export", "--format", form, "--store", path, "-o", tmp_path / "out", "--json").ends(1)
    assert "block 3: checksum" in done.err
    assert done.json["positions"] < whole["positions"]
    assert form == "parquet" or done.json["left_out"]["missing"] > 0
    assert (tmp_path / "out").stat().st_size > 0


def test_a_finished_game_is_a_position_without_moves(cli: Cli, tmp_path: Path) -> None:
    mate = "rnb1kbnr/pppp1ppp/8/4p3/6Pq/5P2/PPPPP2P/RNBQKBNR w KQkq - 1 3"
    path = filled(tmp_path / "mate.graph", [made.made_record(chess.Board(mate), {}, v=-1.0)])
    for form in FORMATS[1:]:
        words = ["--comments"] if form == "pgn" else []
        done = cli("export", "--format", form, "--store", path, "-o", "-", mate, *words).ends(0)
        assert "checkmate" in done.out
    assert cli("export", "--format", "polyglot", "--store", path, "-o", tmp_path / "x", mate).code == 1


def test_ctrl_c_leaves_neither_a_part_nor_the_temporary_file(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, begun = made.uniform_graph(tmp_path / "wide.graph", 100), tmp_path / "begun"

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


def test_a_walk_from_one_root_keeps_its_halfmove_clock(tmp_path: Path) -> None:
    root = "8/8/8/2k5/4r3/3R4/3K4/8 w - - 72 80"
    path = searched(tmp_path / "late.graph", root, visits=150)
    out = tmp_path / "late.jsonl"
    report = export("jsonl", path, out, Selection(roots=(board_of(root),)))
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert rows[0]["fen"] == root
    assert {row["key"] for row in rows} == {f"{key:016x}" for key in made.known_below(path, root)}
    assert report.left_out["missing"] == 0


# ------------------------------------------------------------------ Polyglot books
Book = dict[int, list[tuple[str, int]]]  # key -> moves in UCI and their weights, in order


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return searched(
        tmp_path_factory.mktemp("graph") / "lines.graph", chess.STARTING_FEN, *made.LINES, visits=60
    )


def read_book(path: Path, boards: list[chess.Board]) -> Book:
    """Returns what python-chess finds for these positions."""
    with chess.polyglot.open_reader(path) as reader:
        return {
            key_of(board): [(entry.move.uci(), entry.weight) for entry in reader.find_all(board)]
            for board in boards
        }


def entries(path: Path) -> list[tuple[int, int, int, int]]:
    return list(struct.iter_unpack(">QHHI", path.read_bytes()))


def scaled(weights: Sequence[float], *, fill: bool) -> list[int]:
    largest = np.full(len(weights), max(weights, default=0))
    return list(fitted(np.array(weights), largest, fill=fill).tolist())


def expected(numbers: dict[int, dict[chess.Move, float]], *, fill: bool) -> Book:
    """Returns the book of these weights, scaled as documented."""
    return {
        key: [(move.uci(), w) for move, w in zip(of, scaled(list(of.values()), fill=fill), strict=True) if w]
        for key, of in numbers.items()
    }


def loss_weight(best: float, value: float) -> float:
    """Returns the weight of a value in [-1, 1] beside the best one of its position."""
    return weight_of_loss(max(0, cp_of(best) - cp_of(value)))


@pytest.mark.parametrize("weights", ["n", "q"])
@pytest.mark.parametrize("fen", [chess.STARTING_FEN, made.CASTLES, made.CHESS960, made.PROMOTES, ENDGAME])
def test_python_chess_finds_the_visited_moves_of_every_position(
    tmp_path: Path, fen: str, weights: str
) -> None:
    """By visits, or half the weight for every 25 centipawns that a move loses."""
    path = searched(tmp_path / "some.graph", fen, visits=80)
    out = tmp_path / "book.bin"
    report = export("polyglot", path, out, weights=weights)
    known = made.known_below(path, fen)
    numbers: dict[int, dict[chess.Move, float]] = {}
    for key, pair in known.items():
        best = max((edge.value for _, edge in made.edges(*pair)), default=0.0)
        numbers[key] = {
            move: edge.n if weights == "n" else loss_weight(best, edge.value)
            for move, edge in made.edges(*pair)
        }
    wanted = expected(numbers, fill=weights == "q")
    found = read_book(out, [board for board, _ in known.values()])
    for rows in found.values():
        assert [w for _, w in rows] == sorted((w for _, w in rows), reverse=True)
    assert {key: sorted(rows) for key, rows in found.items()} == {k: sorted(r) for k, r in wanted.items()}
    assert report.moves == len(entries(out)) == sum(len(rows) for rows in wanted.values())
    keys = [entry[0] for entry in entries(out)]
    assert keys == sorted(keys)
    assert report.positions == len(set(keys))


def test_weights_are_scaled_by_position_and_the_best_is_never_0(tmp_path: Path) -> None:
    board = chess.Board()
    visits = {"e4": (4_000_000_000, 0.1), "d4": (65_536, 0.0), "c4": (1, -0.5)}
    path = filled(tmp_path / "big.graph", [made.made_record(board, visits)])
    report = export("polyglot", path, tmp_path / "book.bin", Selection(depth=1))
    assert read_book(tmp_path / "book.bin", [board])[key_of(board)] == [("e2e4", MAX_WEIGHT), ("d2d4", 1)]
    assert (report.scaled, report.left_out["moves_scaled_away"]) == (3, 1)
    assert report.as_dict()["left_out"] == {"moves_scaled_away": 1, "at_depth": 3}


def test_of_two_positions_with_one_polyglot_key_the_more_visited_one_is_written(tmp_path: Path) -> None:
    fens = [f"8/8/4k3/8/8/4K3/4P3/R6r w - - {clock} 60" for clock in (80, 90)]
    first, second = (chess.Board(fen) for fen in fens)
    records = [made.made_record(first, {"Ra6+": (5, 0.0)}), made.made_record(second, {"Rxh1": (7, 0.9)})]
    path = filled(tmp_path / "clock.graph", records)
    report = export("polyglot", path, tmp_path / "book.bin", Selection(roots=(first, second)))
    assert report.left_out["clashes"] == 1
    assert [
        (m.move.uci(), m.weight) for m in chess.polyglot.open_reader(tmp_path / "book.bin").find_all(first)
    ] == [("a1h1", 7)]


def test_the_polyglot_tool_lists_the_lines_of_the_book(lines: Path, tmp_path: Path) -> None:
    export("polyglot", lines, tmp_path / "book.bin")
    for colour, turn in (("white", chess.WHITE), ("black", chess.BLACK)):
        made.run_polyglot(tmp_path, "dump-book", "-bin", "book.bin", "-color", colour, "-out", "lines.txt")
        seen: dict[int, dict[str, int]] = defaultdict(dict)
        boards: dict[int, chess.Board] = {}
        for line in (tmp_path / "lines.txt").read_text().splitlines():
            board = chess.Board()
            text = re.sub(r"\{(?:trans|cycle)[^}]*\}", "", line.partition(":")[2])
            for san, percent in re.findall(r"([a-hKQRBNO][\w+#=-]+)(?:\{(\d+)%\})?", text):
                move = board.parse_san(san)
                if percent:
                    assert board.turn == turn
                    seen[key_of(board)][move.uci()] = int(percent)
                    boards[key_of(board)] = board.copy(stack=False)
                board.push(move)
        assert len(seen) > 20
        for key, rows in read_book(tmp_path / "book.bin", list(boards.values())).items():
            total = sum(weight for _, weight in rows)
            assert set(seen[key]) == {move for move, _ in rows}
            assert all(abs(seen[key][move] - 100 * weight / total) <= 1 for move, weight in rows)


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
def test_a_disk_that_fills_up_is_one_error_that_names_the_book(
    lines: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(polyglot, "entries_of", full)
    with pytest.raises(ExportError, match=r"full\.bin cannot be written: No space left on device"):
        export("polyglot", lines, tmp_path / "full.bin")
    gc.collect()
    assert not list(tmp_path.iterdir())


# ------------------------------------------------------------------ PGN
REFERENCE = re.compile(
    r"(transposes to|repeats) (?:game (\d+),? ?)?(the first position|)((?:\d+\.+|\S+| )*)$"
)
Tree = dict[int, chess.pgn.GameNode]  # the node that expands each position, by key


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made.uniform_graph(tmp_path_factory.mktemp("graph") / "wide.graph", 600)


@pytest.fixture(scope="module")
def cycles(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return searched(tmp_path_factory.mktemp("graph") / "cycles.graph", ENDGAME, visits=600)


def read_games(text: str) -> list[chess.pgn.Game]:
    """Returns the games of a PGN text, each read without an error."""
    handle = io.StringIO(text)
    games = []
    while (game := chess.pgn.read_game(handle)) is not None:
        assert game.errors == []
        games.append(game)
    return games


def exported(
    path: Path, out: Path, selection: Selection | None = None, *, comments: bool = True
) -> list[chess.pgn.Game]:
    report = export("pgn", path, out, selection or Selection(roots=(chess.Board(),)), comments=comments)
    text = out.read_text()
    assert comments or max(len(line) for line in text.splitlines()) <= TEXT_COLUMNS
    games = read_games(text)
    assert report.games == len(games)
    return games


def nodes_of(game: chess.pgn.Game) -> list[chess.pgn.GameNode]:
    found: list[chess.pgn.GameNode] = []
    stack: list[chess.pgn.GameNode] = [game]
    while stack:
        node = stack.pop()
        found.append(node)
        stack += node.variations
    return found


def tree_of(games: list[chess.pgn.Game]) -> Tree:
    """Returns who expands each position; none may be expanded twice."""
    tree: Tree = {}
    for game in games:
        for node in nodes_of(game):
            if node.variations:
                assert key_of(node.board()) not in tree
                tree[key_of(node.board())] = node
    return tree


def moves_in(tree: Tree) -> dict[int, set[str]]:
    return {key: {child.move.uci() for child in node.variations if child.move} for key, node in tree.items()}


def moves_known(known: made.Known) -> dict[int, set[str]]:
    found = {key: {move.uci() for move, _ in made.edges(*pair)} for key, pair in known.items()}
    return {key: moves for key, moves in found.items() if moves}


@pytest.mark.parametrize("name", ["lines", "cycles"])
def test_the_tree_has_every_move_of_the_graph_and_each_position_once(
    name: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    path = request.getfixturevalue(name)
    fen = ENDGAME if name == "cycles" else chess.STARTING_FEN
    games = exported(path, tmp_path / "out.pgn", Selection(roots=(chess.Board(fen),)))
    assert moves_in(tree_of(games)) == moves_known(made.known_below(path, fen))


def test_roots_below_another_root_have_no_tree_of_their_own_unless_they_are_asked_for(
    lines: Path, tmp_path: Path
) -> None:
    start = made.known_below(lines)[key_of(chess.Board())]
    best = max(made.edges(*start), key=lambda pair: pair[1].n)[0]
    path = Path(shutil.copy(lines, tmp_path / "best.graph"))
    for board in (start[0], after(start[0], best)):
        execute(
            path,
            "INSERT OR REPLACE INTO root (key, position, visits, last_searched) VALUES (?, ?, 9999, '')",
            [(f"{key_of(board):016x}", board.fen())],
        )
    games = exported(path, tmp_path / "one.pgn", Selection())
    assert [game.headers.get("FEN") for game in games].count(None) == 1
    assert after(start[0], best).fen() not in [game.headers.get("FEN") for game in games]
    assert moves_in(tree_of(games)).items() >= moves_known(made.known_below(path)).items()
    roots = (chess.Board(), chess.Board("rnbqkbnr/pppppppp/8/8/4P3/8/PPPP1PPP/RNBQKBNR b KQkq - 0 1"))
    games = exported(lines, tmp_path / "two.pgn", Selection(roots=roots))
    assert [game.headers.get("FEN") for game in games] == [None, roots[1].fen()]
    assert moves_in(tree_of(games)) == moves_known(made.known_below(lines))
    reference = next(child for child in games[0].variations if child.san() == "e4")
    assert reference.comment.endswith("transposes to game 2")
    assert not reference.variations


@pytest.mark.parametrize("name", ["wide", "cycles"])
def test_a_transposition_names_the_line_that_expands_it(
    name: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    root = chess.Board(ENDGAME if name == "cycles" else chess.STARTING_FEN)
    games = exported(request.getfixturevalue(name), tmp_path / "out.pgn", Selection(roots=(root,)))
    assert len(games) == 1
    tree = tree_of(games)
    found = 0
    for node in nodes_of(games[0]):
        comment = " ".join(node.comment.split())
        reference = REFERENCE.search(comment)
        assert bool(reference) == (not node.variations and key_of(node.board()) in tree), comment
        if not reference:
            continue
        found += 1
        target: chess.pgn.GameNode = games[0]
        for word in reference[4].split():
            if not word[0].isdigit():
                target = target.variation(target.board().parse_san(word))
        assert target is tree[key_of(node.board())]
        assert (reference[1] == "repeats") == (target in ancestors(node))
    assert found > 10


def ancestors(node: chess.pgn.GameNode) -> list[chess.pgn.GameNode]:
    found = []
    while node.parent is not None:
        node = node.parent
        found.append(node)
    return found


def test_comments_have_the_numbers_of_the_records(lines: Path, tmp_path: Path) -> None:
    games = exported(lines, tmp_path / "out.pgn")
    known = made.known_below(lines)
    root = known[key_of(chess.Board())][1]
    said = " ".join(brief(lines, chess.Board()).lines[:3])
    assert games[0].comment == f"{said} N {root.visits} Q {node_mean(root)[0]:+.3f} for White"
    for key, node in tree_of(games).items():
        board, record = known[key]
        values = dict(made.edges(board, record))
        best = legal_moves(board)[record.order[ranking(record)[0]]]
        moves = [child.move for child in node.variations]
        assert moves[0] == best
        assert set(moves) == set(values)
        for child in node.variations:
            assert child.move is not None
            edge = values[child.move]
            assert f"N {edge.n} Q {edge.value:+.3f} P " in " ".join(child.comment.split())
            shown = child.eval()
            mate = any(after(child.board(), reply).is_checkmate() for reply in child.board().legal_moves)
            if child.board().is_checkmate():
                assert shown is None
            elif mate:
                assert shown is not None
                assert shown.white().mate() == (-1 if board.turn else 1)
            else:
                assert shown is not None
                assert shown.pov(board.turn).score() == cp_of(edge.value)


def test_moves_have_their_values_and_notes_and_no_other_words(lines: Path, tmp_path: Path, cli: Cli) -> None:
    path = Path(shutil.copy(lines, tmp_path / "noted.graph"))
    e4 = after(chess.Board(), chess.Move.from_uci("e2e4"))
    for board, text in ((chess.Board(), "where it begins"), (e4, "my move\nagainst all")):
        note = (f"{key_of(board):016x}", board.fen(), text)
        execute(path, "INSERT INTO note VALUES (?, ?, ?, 1, '2026-01-01')", [note])
    (game,) = exported(path, tmp_path / "out.pgn", comments=False)
    assert game.comment == "where it begins"
    for node in nodes_of(game)[1:]:
        comment = re.sub(r"\[%eval \S+\]", "", node.comment).strip()
        assert comment == ("my move against all" if key_of(node.board()) == key_of(e4) else "")
    said = cli("export", path, "-o", tmp_path / "x.csv", "--comments").ends(2)
    assert "--comments does not apply to csv" in said.err


def test_the_tags_of_the_game_before_the_root_stay(lines: Path, tmp_path: Path, cli: Cli) -> None:
    tags = '[Event "Cup"]\n[Site "Oslo"]\n[Date "2024.05.01"]\n[White "A"]\n[Black "B"]\n[Annotator "Me"]\n'
    (tmp_path / "game.pgn").write_text(f'{tags}[Result "1-0"]\n\n1. e4 e5 2. Nf3 1-0\n')
    cli("export", "--store", lines, tmp_path / "game.pgn", "--ply", 2, "-o", tmp_path / "out.pgn").ends(0)
    (game,) = read_games((tmp_path / "out.pgn").read_text())
    kept = [game.headers[name] for name in ("Event", "Site", "Date", "White", "Black", "Result")]
    assert kept == ["Cup", "Oslo", "2024.05.01", "A", "B", "1-0"]
    assert [move.uci() for move in game.mainline_moves()][:2] == ["e2e4", "e7e5"]
    assert game.headers["Annotator"] == "Me; graphsearch"
    assert (game.headers["ECO"], game.headers["Opening"]) == ("C20", "King's Pawn Game")


def test_a_move_that_loses_clearly_is_marked_if_it_was_visited_enough(tmp_path: Path) -> None:
    visits = {
        "e4": (90, 0.2),
        "d4": (20, 0.05),
        "c4": (20, 0.0),
        "b4": (20, -0.1),
        "a4": (9, -0.9),
        "f3": (10, 0.11),
    }
    path = filled(tmp_path / "bad.graph", [made.made_record(chess.Board(), visits)])
    (game,) = exported(path, tmp_path / "out.pgn")
    marks = {child.san(): child.nags for child in game.variations}
    assert marks == {"e4": set(), "d4": {6}, "c4": {2}, "b4": {4}, "a4": set(), "f3": set()}


def test_a_repertoire_has_one_move_of_its_side_against_all_replies(lines: Path, tmp_path: Path) -> None:
    known = made.known_below(lines)
    for side, turn in (("white", chess.WHITE), ("black", chess.BLACK)):
        games = exported(lines, tmp_path / "out.pgn", Selection(roots=(chess.Board(),), side=side))  # type: ignore[arg-type]
        for key, node in tree_of(games).items():
            moves = made.edges(*known[key])
            assert len(node.variations) == (1 if node.turn() == turn else len(moves))


def long_line(plies: int) -> tuple[list[chess.Board], list[chess.Move]]:
    """Returns positions and moves of one line, no two of them equal; pawns keep the clock below 76."""
    rng = random.Random(3)
    board = chess.Board("4k3/ppppp3/8/8/8/8/PPPPP3/4K3 w - - 0 1")
    found, played, seen = [board.copy(stack=False)], list[chess.Move](), {key_of(board)}
    while len(found) < plies:
        moves = [m for m in board.legal_moves if board.is_zeroing(m) == (board.halfmove_clock > 60)]
        rng.shuffle(moves)
        quiet = (m for m in moves if not board.is_capture(m) and not m.promotion and not board.gives_check(m))
        played.append(next(m for m in quiet if key_of(after(board, m)) not in seen))
        board = after(board, played[-1])
        seen.add(key_of(board))
        found.append(board)
    return found, played


def test_a_line_may_be_longer_than_pythons_stack(tmp_path: Path) -> None:
    boards, moves = long_line(400)
    records = [made.made_record(a, {a.san(m): (3, 0.0)}) for a, m in zip(boards[:-1], moves, strict=True)]
    path = filled(tmp_path / "long.graph", [*records, made.made_record(boards[-1], {})])
    usual = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack()) + 250)
    try:
        report = export("pgn", path, tmp_path / "out.pgn", Selection(roots=(boards[0],)))
    finally:
        sys.setrecursionlimit(usual)
    assert report.moves == 399
    (game,) = read_games((tmp_path / "out.pgn").read_text())
    assert [node.move for node in game.mainline()] == moves


def test_a_game_of_chess960_says_so_and_has_every_move(tmp_path: Path) -> None:
    path = searched(tmp_path / "some.graph", made.CHESS960, visits=200)
    games = exported(path, tmp_path / "out.pgn", Selection(roots=(board_of(made.CHESS960),)))
    assert [game.headers["Variant"] for game in games] == ["Chess960"]
    found = moves_in(tree_of(games))
    assert found == moves_known(made.known_below(path, made.CHESS960))
    assert "e1b1" in found[key_of(board_of(made.CHESS960))]  # castling


# ------------------------------------------------------------------ Parquet
IN_FOUR = "kbK5/pp6/1P6/8/8/8/8/R7 w - - 0 1"  # in four
LATE = "8/8/8/8/8/k1K5/7q/8 b - - 94 90"  # the 50-move rule is near


def tables_in(folder: Path) -> tuple[made.Rows, made.Rows]:
    return parquet.read_table(folder / NODES).to_pylist(), parquet.read_table(folder / EDGES).to_pylist()


def records(path: Path) -> list[tuple[chess.Board, NodeRecord]]:
    return [(unpack(record.words), record) for record in held(path).values()]


@needs_parquet
@pytest.mark.parametrize("fen", [ENDGAME, made.CASTLES, made.PROMOTES, IN_FOUR, LATE])
def test_every_row_is_what_the_record_says(fen: str, tmp_path: Path) -> None:
    path = searched(tmp_path / "some.graph", fen, visits=200 if fen == IN_FOUR else 30)
    report = export("parquet", path, tmp_path / "tables", Selection(all_moves=True))
    nodes, edges = tables_in(tmp_path / "tables")
    known = records(path)
    with Store.open(path, read_only=True) as store:
        names = {number: identity.describe() for number, identity in store.evaluators().items()}
    made.check_rows(nodes, [made.node_row(board, record, names) for board, record in known])
    made.check_rows(edges, [row for board, record in known for row in made.edge_rows(board, record)])
    assert (report.positions, report.moves) == (len(nodes), len(edges))
    assert (report.positions > 20, report.left_out.total()) == (True, 0)
    if fen == IN_FOUR:
        assert sum(row["mate"] is not None for row in nodes) > 2
        assert any(row["mate"] not in (None, 1) for row in edges)


@needs_parquet
def test_a_walk_takes_what_the_other_exports_take(tmp_path: Path) -> None:
    path = searched(tmp_path / "some.graph", visits=70)
    add_book(path, "mine", "white", [chess.STARTING_FEN], {"e4": 0.1, "e4 a5 h4 Na6": 0.2})
    for selection in (
        Selection(depth=2),
        Selection(depth=2, all_moves=True),
        Selection(side="white", max_moves=2),
        Selection(roots=(chess.Board(),), min_visits=3),
        Selection(book="mine", side="both"),
    ):
        export("jsonl", path, tmp_path / "rows.jsonl", selection)
        report = export("parquet", path, tmp_path / "tables", selection)
        nodes, edges = tables_in(tmp_path / "tables")
        wanted = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
        assert [(row["key_hex"], row["fen"], row["ply"], row["depth"], row["n"]) for row in nodes] == [
            (row["key"], row["fen"], row["ply"], row["depth"], row["n"]) for row in wanted
        ]
        assert sorted((f"{row['key']:016x}", row["move"], row["n"]) for row in edges) == sorted(
            (row["key"], move["move"], move["n"]) for row in wanted for move in row["moves"]
        )
        assert report.moves == len(edges)
    unknown = [row for row in nodes if row["n"] is None]  # positions of the book that the graph lacks
    assert {row["move"] for row in edges if row["key"] == key_of(chess.Board())} == {"e2e4"}
    names = ("q", "v", "best_move", "evaluator", "lower", "mate")
    assert {row[name] for row in unknown for name in names} == {None}


@needs_parquet
def test_visits_choose_rows_of_a_whole_file(tmp_path: Path) -> None:
    path = searched(tmp_path / "some.graph", visits=70)
    report = export("parquet", path, tmp_path / "tables", Selection(min_visits=3))
    nodes, edges = tables_in(tmp_path / "tables")
    known = [(board, record) for board, record in records(path) if record.visits >= 3]
    assert [row["key"] for row in nodes] == [key_of(board) for board, _ in known]
    expected = [row for board, record in known for row in made.edge_rows(board, record) if row["n"] >= 3]
    made.check_rows(edges, expected)
    assert report.left_out["few_visits"] == len(records(path)) - len(known) > 0
    assert report.left_out["moves_few_visits"] == sum(0 < e.n < 3 for _, r in known for e in r.edges) > 0


@needs_parquet
def test_rows_are_written_in_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = searched(tmp_path / "some.graph", visits=60)
    export("parquet", path, tmp_path / "one")
    for name in ("walk.BATCH", "rows_export.NODES_PER_GROUP", "rows_export.EDGES_PER_GROUP"):
        monkeypatch.setattr(f"graphsearch.exchange.{name}", 16)
    export("parquet", path, tmp_path / "many")
    assert parquet.ParquetFile(tmp_path / "many" / NODES).num_row_groups > 2
    assert tables_in(tmp_path / "one") == tables_in(tmp_path / "many")


@needs_parquet
def test_columns_are_typed_and_documented_as_they_are(tmp_path: Path) -> None:
    export("parquet", searched(tmp_path / "some.graph", visits=20), tmp_path / "tables")
    page = (ROOT / "schema" / "exports.md").read_text(encoding="utf-8")
    for file in (NODES, EDGES):
        schema = parquet.read_schema(tmp_path / "tables" / file)
        columns = [(one.name, re.sub("dictionary.*", "text", str(one.type))) for one in schema]
        section = page.partition(f"`{file}`, ")[2].partition("\n\n")[2].partition("\n\n")[0]
        told = [line.split("|")[1:3] for line in section.splitlines()[2:]]
        assert [
            (name.strip(" `"), kind.strip().replace("float32", "float")) for name, kind in told
        ] == columns
        assert json.loads(schema.metadata[b"graphsearch"])["program"] == "graphsearch"


# ------------------------------------------------------------------ the folder
@needs_parquet
def test_only_tables_of_before_are_replaced(cli: Cli, tmp_path: Path) -> None:
    path = searched(tmp_path / "some.graph", visits=20)
    export = ("export", "--format", "parquet", "--store", path, "-o")
    for _ in range(2):
        done = cli(*export, tmp_path / "tables", "--json")
        assert (done.code, done.json["form"]) == (0, "parquet"), done.err
    assert {entry.name for entry in tmp_path.iterdir()} == {"some.graph", "tables"}
    (tmp_path / "tables" / "notes.txt").write_text("mine")
    for target, what in (
        (tmp_path / "tables", "holds other files"),
        (path, "is a file; name a folder"),
        (tmp_path / "no" / "tables", "make this folder first"),
    ):
        done = cli(*export, target)
        assert (done.code, what in done.err.splitlines()[-1]) == (2, True), done.err
    assert (tmp_path / "tables" / "notes.txt").read_text() == "mine"


@needs_parquet
def test_a_missing_package_is_named_with_its_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = searched(tmp_path / "some.graph", visits=4)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(ExportError, match=r"pyarrow .*pip install '\.\[parquet\]'"):
        export("parquet", path, tmp_path / "tables")
    assert not (tmp_path / "tables").exists()


@needs_parquet
def test_a_killed_export_leaves_the_tables_of_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = searched(tmp_path / "some.graph", visits=60)
    export("parquet", path, tmp_path / "tables", Selection(min_visits=9))
    before = tables_in(tmp_path / "tables")
    monkeypatch.setattr(Table, "flush", lambda table: os.kill(os.getpid(), signal.SIGKILL))
    with Fork(lambda _: export("parquet", path, tmp_path / "tables")) as fork:
        fork.rest()
    assert fork.status == -signal.SIGKILL
    assert tables_in(tmp_path / "tables") == before


# ------------------------------------------------------------------ a site
PAGE = ("index.html", "site.css", "site.js")
DECLARED = r"(?:class|const|function|let) (\w+)"
EVIL = '<script>document.title = "broken"</script><b>\u2028'


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return graph_file(tmp_path / "hand.graph", {line: BY_HAND[line] for line in BY_HAND if line != "d4"})


def rows_of(folder: Path) -> list[list[Any]]:
    """Returns the rows of all parts, as the page reads them."""
    found: list[list[Any]] = []
    for number in range(len(list((folder / "data").glob("[0-9]*.js")))):
        text = (folder / "data" / f"{number}.js").read_text("ascii")
        assert text.startswith(f"graphsearchPart({number},[")
        found += json.loads(text[text.index("[") : text.rindex(")")])
    return found


def site_of(folder: Path) -> dict[str, Any]:
    text = (folder / "data" / "site.js").read_text("ascii")
    data = json.loads(text.removeprefix("const SITE = ").rstrip().removesuffix(";"))
    assert isinstance(data, dict)
    return data


# ------------------------------------------------------------------ the data
def test_every_position_is_a_row_with_its_moves_and_ways_in(small_graph: Path, tmp_path: Path) -> None:
    report = export("site", small_graph, tmp_path / "site", Selection(min_visits=0))
    known = made.known_below(small_graph)
    rows = rows_of(tmp_path / "site")
    assert report.positions == len(rows) == len(known)
    assert {key_of(chess.Board(row[0])) for row in rows} == set(known)
    leads = set()
    for number, (fen, n, q, _, _, level, _, moves, _) in enumerate(rows):
        board, record = known[key_of(chess.Board(fen))]
        assert (n, abs(q) <= 10_000, level == 0) == (record.visits, True, number == 0)
        assert {move[0]: move[3] for move in moves} == {
            m.uci(): edge.n for m, edge in made.edges(board, record)
        }
        for uci, san, child, visits, *_ in moves:
            assert board.san(chess.Move.from_uci(uci)) == san
            if child >= 0:
                after = board.copy()
                after.push_uci(uci)
                assert key_of(chess.Board(rows[child][0])) == key_of(after)
                leads.add((number, san, visits, child))
    assert leads == {(way[0], way[1], way[2], k) for k, row in enumerate(rows) for way in row[8]}
    assert all(rows[row[8][0][0]][5] == row[5] - 1 for row in rows if row[5]), "the first one is a shortest"


def test_a_book_has_its_own_positions_values_and_reasons(file: Path, tmp_path: Path) -> None:
    add_book(file, EVIL, "black", [chess.STARTING_FEN], {"e4": -0.3, "e4 e5": 0.2})
    report = export("site", file, tmp_path / "site", Selection(book=EVIL))
    rows = rows_of(tmp_path / "site")
    assert report.positions == len(rows) == 3
    assert [row[2] for row in rows[1:]] == [-3000, 2000]
    uci, *_, value, rule = rows[0][7][0]
    assert (uci, value, bool(rule), rows[1][6]) == ("e2e4", 3000, True, "open")
    assert (site_of(tmp_path / "site")["book"], site_of(tmp_path / "site")["black"]) == (EVIL, True)


def test_the_page_names_nothing_outside_its_folder(file: Path, tmp_path: Path) -> None:
    export("site", file, tmp_path / "site")
    assert {path.name for path in (tmp_path / "site").iterdir()} == {*PAGE, "data"}
    texts = {name: (tmp_path / "site" / name).read_text("utf-8") for name in PAGE}
    addresses = {found for text in texts.values() for found in re.findall(r"https?://[^\"'\s)]+", text)}
    assert addresses == {"http://www.w3.org/2000/svg", *()}
    assert re.findall(r'(?:src|href)="([^"]*)"', texts["index.html"]) == [
        "site.css",
        "data/site.js",
        "site.js",
    ]
    assert not re.search(r"^(import|export)\b", script(), re.MULTILINE), "a classic script"


def test_the_page_of_the_explorer_exports_the_names_that_a_site_takes_from_it() -> None:
    root = files("graphsearch")
    shared = "".join((root / "web" / "static" / name).read_text("utf-8") for name in SHARED)
    own = "".join((root / "exchange" / "site" / "static" / name).read_text("utf-8") for name in OWN)
    taken = NAMES.split(", ")
    assert {*taken} <= {*re.findall(rf"^export {DECLARED}", shared, re.MULTILINE)}
    for names in (
        re.findall(rf"^(?:export )?{DECLARED}", shared, re.MULTILINE),
        [*taken, *re.findall(rf"^{DECLARED}", own, re.MULTILINE)],
    ):
        assert len(names) == len({*names}), "each part of the script is one scope"


def test_an_older_site_is_replaced_and_stays_if_nothing_is_exported(file: Path, tmp_path: Path) -> None:
    target = tmp_path / "site"
    export("site", file, target, Selection(depth=0, min_visits=10))
    (target / "data" / "77.js").write_text("old")
    export("site", file, target)
    assert not (target / "data" / "77.js").exists()
    with pytest.raises(ExportError, match="nothing to export"):
        export("site", file, target, Selection(roots=(after_line("a4"),), min_visits=10))
    assert (target / "index.html").exists()
    shutil.copy(file, target / "own.graph")
    with pytest.raises(ExportError, match="holds other files"):
        export("site", target / "own.graph", target)


def test_the_command_says_what_it_wrote(cli: Cli, file: Path, tmp_path: Path) -> None:
    words = ("export", "--format", "site", "--store", file, "-o", tmp_path / "site")
    assert "5 positions" in cli(*words, "--min-visits", 20).ends(0).out
    data = cli(*words, "startpos", "--json").json
    assert (data["form"], data["positions"]) == ("site", 6)


# ------------------------------------------------------------------ the page
Page = Callable[[Path, str], Any]


@pytest.fixture
def page(driver: Any) -> Iterator[Page]:
    """Opens a site from disk, at an address in it; at the end nothing was wrong in the console."""
    from selenium.webdriver.support.wait import WebDriverWait

    def opened(folder: Path, address: str = "") -> Any:
        driver.get("about:blank")
        driver.get(f"{(folder / 'index.html').as_uri()}{address}")
        WebDriverWait(driver, 20).until(lambda one: one.execute_script("return document.body.dataset.shown"))
        return driver

    driver.get("about:blank")
    driver.get_log("browser")  # of the page that the test before has left open
    yield opened
    assert [entry for entry in driver.get_log("browser") if entry["level"] == "SEVERE"] == []


def texts(browser: Any, selector: str) -> list[str]:
    found = browser.execute_script(
        "return [...document.querySelectorAll(arguments[0])].map((one) => one.textContent)", selector
    )
    assert isinstance(found, list)
    return found


def shows(browser: Any, selector: str, wanted: list[str]) -> None:
    """Waits until the texts of some elements are as wanted."""
    from selenium.webdriver.support.wait import WebDriverWait

    WebDriverWait(browser, 10, 0.05).until(
        lambda one: texts(one, selector) == wanted, f"{texts(browser, selector)} is not {wanted}"
    )


def click(browser: Any, selector: str) -> None:
    browser.find_element("css selector", selector).click()


def test_a_site_on_disk_shows_moves_plays_them_and_finds_back(page: Page, file: Path, tmp_path: Path) -> None:
    export("site", file, tmp_path / "site")
    browser = page(tmp_path / "site", "")
    shows(browser, "tbody td:first-child", ["e4", "d4", "Nf3"])
    assert texts(browser, "tbody tr:first-child td")[1:3] == ["+0.14", "60"]
    for _ in range(3):  # the best moves
        browser.find_element("css selector", "body").send_keys("\ue014")
    shows(browser, "#line button", ["Start", "e4", "e5", "Nf3"])
    assert browser.current_url.endswith("#0/e2e4/e7e5/g1f3")
    click(browser, "[data-view=ways]")
    shows(browser, ".ways button", ["2. Nf3", "2. e4"])
    click(browser, ".ways li:last-child button")
    shows(browser, "#line button", ["Start", "Nf3", "e5"])
    page(tmp_path / "site", "#0/g1f3/e7e5/e2e4/nonsense")
    shows(browser, "#line button", ["Start", "Nf3", "e5", "e4"])
    click(browser, "#first")
    shows(browser, "#line [aria-current]", ["Start"])


def test_the_graph_and_its_colours_are_those_of_the_query(
    page: Page, small_graph: Path, tmp_path: Path
) -> None:
    export("site", small_graph, tmp_path / "site", Selection(min_visits=0))
    browser = page(tmp_path / "site", "")
    click(browser, "[data-view=graph]")
    from selenium.webdriver.support.wait import WebDriverWait

    wanted = neighbourhood(small_graph, chess.Board(), depth=4, most=60)
    WebDriverWait(browser, 10).until(lambda one: len(texts(one, ".picture .box")) == len(wanted.nodes))
    assert len(texts(browser, ".picture > g > path:first-of-type")) == len(wanted.edges)
    drawn = {text.split("  ")[0] for text in texts(browser, ".picture .box title")}
    assert {" ".join(fen.split()[:4]) for fen in drawn} == {
        " ".join(node.position.split()[:4]) for node in wanted.nodes
    }


def test_names_with_scripts_stay_texts(page: Page, file: Path, tmp_path: Path) -> None:
    add_book(file, EVIL, "white", [chess.STARTING_FEN], {"e4": -0.3, "e4 e5": 0.2})
    sql(file, "UPDATE book_move SET rule = ?", EVIL)
    export("site", file, tmp_path / "site", Selection(book=EVIL))
    browser = page(tmp_path / "site", "")
    assert browser.title.startswith("<script>")
    assert texts(browser, "h1") == [EVIL]
    assert texts(browser, "tbody td:last-child") == [EVIL]
    assert texts(browser, "b b, h1 *") == []


def test_a_missing_part_is_said(driver: Any, file: Path, tmp_path: Path) -> None:
    export("site", file, tmp_path / "site")
    (tmp_path / "site" / "data" / "0.js").unlink()
    driver.get((tmp_path / "site" / "index.html").as_uri())
    shows(driver, "#facts", ["data/0.js is missing"])
    driver.get_log("browser")


def test_positions_met_are_numbered_in_the_order_of_their_first_meeting() -> None:
    rng, met, ids = np.random.default_rng(1), walk.Met(), dict[bytes, int]()
    pool = rng.integers(0, 4, (3 * walk.LEAST_ROOM, 10), np.uint64)  # more than there is room for
    for size in (1, 0, 300, 5000, 5000, 5000):
        words, follow = pool[rng.integers(0, len(pool), size)], rng.random(size) < 0.9
        marks, before = [row[:9].tobytes() for row in words], len(ids)
        for mark in (mark for mark, is_followed in zip(marks, follow, strict=True) if is_followed):
            ids.setdefault(mark, len(ids) + 1)
        found, new = met.meet(words, follow)
        assert found.tolist() == [ids.get(mark, 0) for mark in marks]
        assert found[new].tolist() == list(range(before + 1, len(ids) + 1))
        assert (met.rows["words"][found[new] - 1] == words[new]).all()
    assert len(met) == len(ids) > walk.LEAST_ROOM
