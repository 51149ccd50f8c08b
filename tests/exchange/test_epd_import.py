"""`import --format epd`: positions and their operations, strictly read."""

from __future__ import annotations

import json
import re
import threading
from functools import partial
from pathlib import Path
from typing import Any

import chess
import pytest

from graphsearch.base.errors import InvalidPositionError
from graphsearch.exchange import importing
from graphsearch.exchange.epd_import import read_epd
from graphsearch.exchange.importing import GivenFile
from graphsearch.exchange.imports import import_files
from graphsearch.position.board import key_of
from graphsearch.position.notation import board_from_fen

from ..conftest import Cli, shared_data, sql
from .exported import imported as imported_as

BOARD = "4k3/8/8/8/8/8/4P3/4K3 w - -"


imported = partial(imported_as, "epd")


def stored(path: Path) -> list[tuple[int, str, str, dict[str, Any]]]:
    found = sql(path, "SELECT place, key, fen, operations FROM epd_position ORDER BY source, place")
    return [(place, key, fen, json.loads(text)) for place, key, fen, text in found]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "epd.graph"


@pytest.mark.parametrize(
    ("operations", "expected"),
    [
        ("", {}),
        (";", {}),
        ("bm e4 Kd2;", {"bm": ["e2e4", "e1d2"]}),
        ("am e3", {"am": ["e2e3"]}),
        ("pv e4 Ke7 e5;", {"pv": ["e2e4", "e8e7", "e4e5"]}),
        ("bm;", {"bm": []}),
        ('id "a; \\"b\\" c";', {"id": 'a; "b" c'}),
        ("ce -31; acd 12; x 1.5; y 1e3", {"ce": -31, "acd": 12, "x": 1.5, "y": 1000.0}),
        ("draw_offer; c0 plain text;", {"draw_offer": None, "c0": "plain text"}),
        ("bm #3;", {"bm": "#3"}),
        ('id "x"; bm e4', {"id": "x", "bm": ["e2e4"]}),
        ('c0 "1"; n 1.', {"c0": "1", "n": "1."}),
        ('id "open; bm e4', {"id": "open", "bm": ["e2e4"]}),
        ('bm e4, e1d2; am "Kd1"', {"bm": ["e2e4", "e1d2"], "am": ["e1d1"]}),
    ],
)
def test_operations_are_moves_numbers_and_strings(operations: str, expected: dict[str, Any]) -> None:
    *_, board, found, _ = read_epd(f"{BOARD} {operations}")
    assert found == expected
    assert board.fen() == BOARD + " 0 1"


@pytest.mark.parametrize(
    ("text", "clocks"),
    [
        (f"{BOARD} hmvc 7; fmvn 30;", (7, 30)),
        (f"{BOARD} 7 30", (7, 30)),
        (f"{BOARD} 7 30 bm e4;", (7, 30)),
        (f"{BOARD} bm e4;", (0, 1)),
        (f"{BOARD} 7 30 hmvc 8", (7, 30)),
        (f"{BOARD} hmvc 7; fmvn 0", (7, 1)),
    ],
)
def test_clocks_come_from_hmvc_and_fmvn_or_stand_as_in_a_fen(text: str, clocks: tuple[int, int]) -> None:
    board = read_epd(text).board
    assert board_from_fen(text) == board
    assert (board.halfmove_clock, board.fullmove_number) == clocks


def test_moves_of_chess960_are_read() -> None:
    *_, operations, _ = read_epd("5k2/8/8/8/8/8/8/1R3K1R w HB - bm O-O; am O-O-O;")
    assert operations == {"bm": ["f1h1"], "am": ["f1b1"]}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("nonsense", "four fields"),
        ("8/8/8/8/8/8/8/8 w - - bm e4;", "illegal position"),
        ("nbbrknrq/pppppppp/8/8/8/8/PPPPPPPP/NBBRKNRQ w GAgd - bm d4;", "bad castling rights"),
        (f"{BOARD} hmvc many;", "hmvc must be a number"),
        (f"{BOARD} e4", "moves follow"),
        (f"{BOARD} - -", "expected two clocks"),
    ],
)
def test_a_wrong_line_is_told_with_its_reason_and_left_out(path: Path, text: str, reason: str) -> None:
    for read in (read_epd, board_from_fen):
        with pytest.raises(InvalidPositionError, match=reason):
            read(text)
    report = imported(path, f"\n{text}\n{BOARD} bm e4;\n")
    assert (report.taken, report.skipped) == (1, 1)
    assert (report.problems[0].place, reason in report.problems[0].reason) == (2, True)
    assert [place for place, *_ in stored(path)] == [3]


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ("bm e5;", "bm: .* illegal"),
        ("bm Nf3 e4;", "bm: .* illegal"),
        ("pv e4 e5;", "pv: .* illegal"),
        ("bm --;", "null move"),
        ("ce 4; ce 3;", "twice"),
        ("- -;", "not an EPD operation: - -"),
    ],
)
def test_a_wrong_operation_is_told_and_the_position_is_taken(path: Path, wrong: str, reason: str) -> None:
    report = imported(path, f'{BOARD} {wrong} id "a"')
    assert (report.taken, report.skipped, len(report.problems)) == (1, 0, 1)
    assert re.search(reason, report.problems[0].reason)
    [(*_, found)] = stored(path)
    assert found == {"id": "a"} | ({"ce": 3} if "ce" in wrong else {})
    assert board_from_fen(f"{BOARD} {wrong}").fen() == f"{BOARD} 0 1"


def test_positions_are_stored_with_key_fen_and_operations(path: Path) -> None:
    report = imported(path, f'{BOARD} bm e4; id "caf\u00e9"; hmvc 80;\r\n'.encode())
    board = chess.Board(BOARD + " 80 1")
    assert report.taken == 1
    operations = {"bm": ["e2e4"], "id": "caf\u00e9", "hmvc": 80}
    assert stored(path) == [(1, f"{key_of(board):016x}", board.fen(), operations)]
    assert imported(path, f'{BOARD} bm e4; id "caf\u00e9"; hmvc 80;\r\n'.encode()).state == "known"
    assert imported(path, f'{BOARD} id "caf\u00e9";'.encode("latin-1")).taken == 1
    assert stored(path)[1][3] == {"id": "caf\u00e9"}


def test_a_stop_is_heeded_at_wrong_lines_too_and_comments_do_not_count_when_it_goes_on(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importing, "SAY_SECONDS", -1.0)
    text = f"# four\n{BOARD} bm e4;\nwrong\n{BOARD} bm Kd2;\n# and\n{BOARD} bm e3;\n"
    stop = threading.Event()
    report = imported(path, text, stop=stop, on_progress=lambda now: stop.set() if now.count == 2 else None)
    assert (report.state, report.taken, report.skipped) == ("stopped", 1, 1)
    report = imported(path, text)
    assert (report.state, report.taken, report.skipped) == ("continued", 3, 1)
    assert [place for place, *_ in stored(path)] == [2, 4, 6]


@pytest.mark.parametrize(("name", "count"), [("bratko-kopec.epd", 24), ("mates_500.epd", 500)])
def test_the_samples_are_taken_whole(path: Path, name: str, count: int) -> None:
    source = shared_data(f"data/{name}")
    [report] = import_files("epd", path, [GivenFile(str(source))])
    assert (report.taken, report.skipped) == (count, 0)
    lines = source.read_text().splitlines()
    for place, key, fen, operations in stored(path):
        board, line = chess.Board(fen), lines[place - 1]
        assert f"{key_of(board):016x}" == key
        assert line.startswith(board.fen().split()[0])
        if "#" not in line:
            best = chess.Board().set_epd(line)["bm"]
            assert isinstance(best, list)
            assert operations["bm"] == [move.uci() for move in best]


def test_the_command_counts_positions(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "a.epd").write_text(f"{BOARD} bm e4;\nwrong\n")
    done = cli("import", "--format", "epd", tmp_path / "a.epd", "--store", tmp_path / "a.graph").ends(0)
    assert "1 position imported, skipped: 1 broken" in done.out
    assert "a.epd, line 2: a" in done.err
    assert "EPD:       1 position" in cli("store", "info", tmp_path / "a.graph").out
