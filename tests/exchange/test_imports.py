"""`import` of PGN, Polyglot books and EPD: counts, what is refused, and what survives an interruption."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import itertools
import json
import os
import random
import re
import signal
import sqlite3
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import chess
import chess.pgn
import chess.polyglot
import pytest
import zstandard

from graphsearch import Graph
from graphsearch.base.errors import EvaluatorMismatchError, InvalidPositionError, StoreError
from graphsearch.base.limits import BOOK, LINE
from graphsearch.exchange import importing, pgn_import, polyglot
from graphsearch.exchange.epd_import import read_epd
from graphsearch.exchange.importing import FileReport, GivenFile
from graphsearch.exchange.imports import import_files
from graphsearch.position.board import key_of, key_text
from graphsearch.position.notation import board_from_fen
from graphsearch.position.pgn import cut_games
from graphsearch.store.info import info
from graphsearch.store.store import Store
from graphsearch.store.tables import games as tables

from ..conftest import Cli, shared_data, sql
from ..fuzz.pgn_games import generated, mutated
from ..support.forks import Command
from ..support.pools import until
from ..support.positions import after_line, random_games
from .exported import imported as imported_as

SAMPLES = (
    "chessbase-empty-line.pgn",
    "cutechess-fischerrandom.pgn",
    "kasparov-deep-blue-1997.pgn",
    "nepomniachtchi-liren-game1.pgn",
    "utf8-bom.pgn",
)
LARGE = "8moves_v3_first8000.pgn"

imported = partial(imported_as, "pgn")


def moves_of(path: Path, board: chess.Board) -> dict[str, tuple[int, ...]]:
    key = key_text(board)
    with Store.open(path, read_only=True) as store:
        found = tables.counts(store, [key]).get(key, [])
    return {one.san: tuple(asdict(one.results).values()) for one in found}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "games.graph"


THREE = """[Result "1-0"]

1. e4 e5 2. Nf3 1-0

[Result "0-1"]

1. e4 c5 0-1

[Result "*"]

1. d4 (1. e4 e5 (1... c5)) d5 *
"""


@pytest.mark.parametrize("variations", [False, True])
def test_games_count_by_position_move_and_result(path: Path, variations: bool) -> None:
    report, more = imported(path, THREE, variations=variations), int(variations)  # in a column of their own
    assert (report.state, report.taken, report.skipped, report.problems) == ("imported", 3, 0, [])
    assert moves_of(path, chess.Board()) == {"e4": (1, 0, 1, 0, more), "d4": (0, 0, 0, 1, 0)}
    assert moves_of(path, after_line("e4")) == {"c5": (0, 0, 1, 0, more), "e5": (1, 0, 0, 0, more)}
    facts = sql(path, "SELECT key, fen, ply FROM game_position ORDER BY ply LIMIT 1")
    assert facts == [(f"{key_of(chess.Board()):016x}", chess.STARTING_FEN, 0)]


def test_a_game_counts_once_for_what_it_repeats_and_a_position_has_the_fewest_half_moves(path: Path) -> None:
    imported(path, "1. Nf3 Nf6 2. Ng1 Ng8 3. Nf3 Nf6 4. Ng1 Ng8 5. e4 1-0\n\n1. e4 0-1\n")
    assert moves_of(path, chess.Board()) == {"Nf3": (1, 0, 0, 0, 0), "e4": (1, 0, 1, 0, 0)}
    board = after_line("e4")
    [(fen, ply)] = sql(path, f"SELECT fen, ply FROM game_position WHERE key = '{key_of(board):016x}'")
    assert (fen, ply) == (board.fen(), 1)


def test_half_moves_from_max_ply_on_are_not_read(path: Path) -> None:
    assert imported(path, "1. e4 e5 2. Ke3 *", max_ply=2).taken == 1
    assert sql(path, "SELECT san FROM game_move ORDER BY san") == [("e4",), ("e5",)]
    text = '[FEN "4k3/8/8/8/8/8/8/4K3 w - - 0 9"]\n\n9. Ke2 *\n'
    assert imported(path, text, max_ply=2).taken == 1
    assert len(sql(path, "SELECT 1 FROM game_move")) == 2


def test_castling_is_the_kings_two_steps_and_games_may_start_from_a_fen(path: Path) -> None:
    fen = "r3k2r/8/8/8/8/8/8/R3K2R w KQkq - 3 20"
    imported(path, f'[SetUp "1"]\n[FEN "{fen}"]\n[Variant "From Position"]\n\n20. 0-0 O-O-O *\n')
    assert sql(path, "SELECT move, san FROM game_move ORDER BY move") == [("e1g1", "O-O"), ("e8c8", "O-O-O")]
    assert sql(path, "SELECT fen, ply FROM game_position ORDER BY ply LIMIT 1") == [(fen, 38)]


@pytest.mark.parametrize(
    ("headers", "marker", "expected", "notes"),
    [
        ('[Result "1-0"]\n\n', "1-0", (1, 0, 0, 0), 0),
        ('[Result "1-0"]\n\n', "", (1, 0, 0, 0), 0),
        ('[Result "1-0"]\n\n', "*", (1, 0, 0, 0), 0),
        ("", "1/2", (0, 1, 0, 0), 0),
        ('[Result "?"]\n\n', "0-1", (0, 0, 1, 0), 0),
        ("", "", (0, 0, 0, 1), 0),
        ('[Result "1-0"]\n\n', "0-1", (0, 0, 0, 1), 1),
    ],
)
def test_a_result_that_contradicts_the_ending_is_none(
    path: Path, headers: str, marker: str, expected: tuple[int, ...], notes: int
) -> None:
    report = imported(path, f"{headers}1. e4 {marker}\n")
    assert moves_of(path, chess.Board()) == {"e4": (*expected, 0)}
    assert len(report.notes) == notes


BROKEN = [
    ("1. e4 e5\n2. Ke3 *", 2, "Ke3 is illegal"),
    ("1. Nf3 d5 2. d3 e5 3. Nd2 *", 1, "Nd2 is ambiguous (Nbd2 or Nfd2)"),
    ("1. e4 Nf9 *", 1, "which is not a move"),
    ('[FEN "8/8/8/8/8/8/8/8 w - - 0 1"]\n\n1. e4 *', 1, "illegal position"),
    ("1. e4 e5 2. Qh5 Nc6 3. Bc4 Nf6 4. Qxf7# a6 *", 1, "a6 is illegal"),
]


def test_a_game_counts_up_to_its_null_move_and_that_is_told(path: Path) -> None:
    text = "1. e4\n\n(1. d4) 1... e5\n2. -- (2. Nf3 Nc6) 2... d5 3. d4 1-0\n\n1. d4 d5 0-1\n"
    report = imported(path, text, players=True)
    assert (report.taken, report.skipped, report.players) == (2, 0, 2)
    assert [(one.place, "null move" in one.reason) for one in report.problems] == [(4, True)]
    assert moves_of(path, chess.Board()) == {"e4": (1, 0, 0, 0, 0), "d4": (0, 0, 1, 0, 0)}
    assert moves_of(path, after_line("e4")) == {"e5": (1, 0, 0, 0, 0)}
    assert moves_of(path, after_line("e4 e5")) == {}


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (
            "1. e4 resigns e5\n[diagram]\n2. Nf3 1-0\n\nsome prose\n",
            "'resigns' in line 1, '[diagram]' in line 2",
        ),
        (
            "1. e4 zebras e5 and 1-0\n\n1. d4 resigns and *\n",
            "'zebras' in line 1, 'and' in line 1, 'resigns' in line 3, 'and' in line 3",
        ),
    ],
)
def test_words_that_are_no_moves_are_named_and_cost_no_game(path: Path, text: str, named: str) -> None:
    report = imported(path, text)
    assert (report.skipped, report.problems) == (0, [])
    assert report.notes == [f"words that are not moves, skipped (as {named}): 4"]


@pytest.mark.parametrize(("text", "line", "reason"), BROKEN)
def test_a_broken_game_is_told_with_line_and_reason_and_counts_nothing(
    path: Path, text: str, line: int, reason: str
) -> None:
    report = imported(path, text + '\n\n[Event "sound"]\n\n1. d4 d5 1-0\n')
    assert (report.taken, report.skipped, len(report.problems)) == (1, 1, 1)
    assert report.as_dict()["variants"] == {}
    assert report.problems[0].place == line
    assert reason in report.problems[0].reason
    assert sql(path, "SELECT san FROM game_move ORDER BY san") == [("d4",), ("d5",)]


def test_a_fault_in_a_variation_counts_where_variations_are_read(path: Path) -> None:
    text = "1. e4 (1. Ke3) e5 (1... -- 2. d4) *"
    assert imported(path, text).taken == 1
    assert imported(path, text, variations=True).skipped == 1
    report = imported(path, "1. d4 (1. e4 -- 2. d4 (2. c4)) d5 *", variations=True)
    assert (report.taken, len(report.notes)) == (1, 2)  # and that the file has changed
    assert moves_of(path, chess.Board())["e4"] == (0, 0, 0, 1, 1)


def test_other_variants_are_left_out_by_name(path: Path) -> None:
    report = imported(path, '[Variant "Crazyhouse"]\n\n1. e4 *\n\n[Variant "made up"]\n\n1. e4 *\n')
    assert report.variants == {"Crazyhouse": 1, "made up": 1}
    assert (report.taken, report.skipped, report.failed) == (0, 2, True)


@pytest.mark.parametrize(
    ("form", "data", "error"),
    [
        ("pgn", b"SQLite format 3\0", "is a database"),
        ("pgn", bytes(range(256)), "not a text"),
        ("pgn", "1. e4 *".encode("utf-16"), "UTF-16"),
        ("pgn", gzip.compress(b"1. e4 *" * 999, mtime=0)[:-5], "cut short"),
        ("pgn", zstandard.compress(b"1. e4 *" * 999)[:-5], "cut short"),
        ("pgn", b"\x1f\x8b\x08 this is no gzip", "damaged"),
        ("pgn", bz2.compress(b"1. e4 *"), "is packed by bzip2"),
        ("pgn", b"PK\x03\x04" + bytes(99), "is packed by zip"),
        ("pgn", b"x" * (1 << 21), "too long"),
        ("pgn", b"hello strangers, this is no PGN\n", "has no games, only 6 words"),
        ("polyglot", b"1. e4 e5 *\n", "is a text"),
        ("polyglot", bz2.compress(bytes(99)), "is packed by bzip2"),
    ],
)
def test_what_is_no_text_or_no_book_is_refused_and_nothing_of_it_counts(
    path: Path, form: str, data: bytes, error: str
) -> None:
    report = imported_as(form, path, data)
    assert (report.state, report.failed) == ("failed", True)
    assert error in report.error
    assert not report.notes, "it is not said to hold no games"
    assert sql(path, "SELECT 1 FROM game_move UNION SELECT 1 FROM polyglot_entry") == []


def test_an_empty_file_has_nothing_that_counts(path: Path) -> None:
    for state, notes in (("imported", ["it has no games"]), ("known", [])):
        report = imported(path, b"")
        assert (report.state, report.failed, report.notes) == (state, True, notes)


@pytest.mark.parametrize(
    "packed",
    [
        lambda data: data,
        gzip.compress,
        lambda data: gzip.compress(data[:70]) + gzip.compress(data[70:]),
        zstandard.compress,
        lambda data: zstandard.compress(data[:70]) + zstandard.compress(data[70:]),
        lambda data: data.replace(b"\n", b"\r\n"),
        lambda data: data.replace(b"\n", b"\r"),
        lambda data: b"\xef\xbb\xbf" + data,
        lambda data: '[White "Ruy L\xf3pez"]\n'.encode("latin-1") + data,
        lambda data: '[White "Ruy L\xf3pez"]\n'.encode() + data,
    ],
)
def test_packing_line_ends_and_encoding_make_no_difference(path: Path, packed: Any) -> None:
    plain = path.with_name("plain.graph")
    imported(plain, THREE)
    assert imported(path, packed(THREE.encode())).taken == 3
    query = "SELECT * FROM game_move ORDER BY key, move"
    assert sql(path, query) == sql(plain, query)


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress])
def test_a_packed_file_is_read_for_its_digest_to_check_it_and_to_import_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pack: Callable[[bytes], bytes]
) -> None:
    data, read = random.Random(1).randbytes(1 << 20), [0]
    (tmp_path / "packed").write_bytes(pack(data))

    class Counted(io.FileIO):
        def read(self, size: int | None = -1) -> bytes:
            read[0] += len(piece := super().read(size))
            return piece

    monkeypatch.setattr("graphsearch.base.limits.open_file", lambda name, **_: Counted(name))
    with importing.opened(GivenFile(str(tmp_path / "packed")), tmp_path) as file:
        assert b"".join(file.pieces(1 << 16)) == data
        assert 3.0 < read[0] / file.size < 3.1


def test_lines_may_end_in_carriage_returns_alone_in_a_file_of_any_length(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(LINE.variable, "100")
    assert imported(path, (THREE * 10).replace("\n", "\r")).taken == 30
    assert "line 2: it is too long" in imported(path, "1. e4 *\r" + "x" * 101).error


def test_the_games_before_an_error_of_the_file_count(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LINE.variable, "100")
    report = imported(path, f"{THREE}\n1. c4 {{\n{'x' * 101}}} *\n", players=True)
    assert (report.state, report.taken, report.players) == ("failed", 3, 3)
    assert len(sql(path, "SELECT 1 FROM game")) == 3


def test_memory_does_not_grow_with_long_games_and_words(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes, play = list[int](), pgn_import.play

    def spied(games: Sequence[pgn_import.GivenGame], max_ply: int | None = None) -> pgn_import.PlayedBlock:
        sizes.append(len(games))
        return play(games, max_ply)

    monkeypatch.setattr(pgn_import, "play", spied)
    monkeypatch.setattr(pgn_import, "BYTES_IN_BLOCK", len(THREE))
    cached = pgn_import.wanted_move.cache_info().currsize
    long = f"1. e4 {'Nf3' * 1000} *\n\n"
    report = imported(path, THREE * 9 + long + f"1. {'Nf3 Nf6 Ng1 Ng8 ' * 1000} *\n")
    assert (report.taken, report.skipped) == (28, 1)
    assert max(sizes) <= 4
    assert pgn_import.wanted_move.cache_info().currsize < cached + 50


@pytest.mark.parametrize("name", [*SAMPLES, LARGE])
def test_counts_are_those_of_python_chess(path: Path, tmp_path: Path, name: str) -> None:
    parts = shared_data(f"data/{name}").read_bytes().split(b"\n\n")
    (some := tmp_path / "some.pgn").write_bytes(b"\n\n".join(parts[:240]) + b"\n")
    [report] = import_files("pgn", path, [GivenFile(str(some))])
    counts, games = expected(some)
    assert (report.taken, report.skipped) == (games, 0)
    assert stored(path) == counts
    for key, fen, ply in sql(path, "SELECT key, fen, ply FROM game_position") if name == LARGE else ():
        board = chess.Board(fen)
        assert (f"{chess.polyglot.zobrist_hash(board):016x}", board.ply()) == (key, ply)


def expected(source: Path) -> tuple[Counter[tuple[str, ...]], int]:
    """Returns how many games python-chess finds with each (key, move, SAN, result), and how many games."""
    counts: Counter[tuple[str, ...]] = Counter()
    games = 0
    with source.open(encoding="utf-8-sig") as handle:
        while game := chess.pgn.read_game(handle):
            board, seen = game.board(), set()
            for move in game.mainline_moves():
                seen.add((key_text(board), move.uci(), board.san(move), game.headers["Result"]))
                board.push(move)
            counts.update(seen)
            games += 1
    return counts, games


def stored(path: Path) -> Counter[tuple[str, ...]]:
    counts: Counter[tuple[str, ...]] = Counter()
    for key, move, san, *numbers, variations in sql(path, "SELECT * FROM game_move"):
        assert variations == 0
        for result, number in zip(("1-0", "1/2-1/2", "0-1", "*"), numbers, strict=True):
            counts[key, move, san, result] += number
    return +counts


def test_the_same_content_counts_once_however_packed_unless_asked_for_again(path: Path) -> None:
    plain, packed = THREE.encode(), gzip.compress(THREE.encode(), mtime=0)
    imported(path, packed)
    for data in (plain, packed, zstandard.compress(plain)):
        report = imported(path, data)
        assert (report.state, report.taken, report.new) == ("known", 3, 0)
    older, new = (hashlib.sha256(data).hexdigest() for data in (packed, plain))
    sql(path, "UPDATE source SET digest = ?", older)  # of the packed file, as once
    assert imported(path, packed).digest == older
    sql(path, "UPDATE source SET digest = ?", new)
    assert moves_of(path, chess.Board())["e4"] == (1, 0, 1, 0, 0)
    other = imported(path, THREE, variations=True)
    assert other.state == "imported", "other options take in other counts"
    assert "with other options; its content counts again" in other.notes[0]
    assert imported(path, THREE, again=True).state == "imported"
    assert moves_of(path, chess.Board())["e4"] == (3, 0, 3, 0, 1)
    assert "what it held before counts twice" in imported(path, THREE + "\n").notes[0]


def test_counts_and_their_place_reach_the_file_together(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, calls = tables.update_source, itertools.count(1)

    def failing(*args: Any, **options: Any) -> tables.GameSource:
        if next(calls) == 3:
            raise StoreError("no room")
        return real(*args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(tables, "update_source", failing)
        patch.setattr(pgn_import, "GAMES_AT_ONCE", 10)
        with pytest.raises(StoreError, match="no room"):
            imported(path, THREE * 20)
    [source] = sql(path, "SELECT taken FROM source")
    played = sum(sum(counts) for counts in moves_of(path, chess.Board()).values())
    assert source[0] == played
    assert 0 < played < 60
    imported(path, THREE * 20)
    assert moves_of(path, chess.Board())["d4"] == (0, 0, 0, 20, 0)


def test_a_killed_import_loses_nothing_that_it_said_was_taken(tmp_path: Path) -> None:
    text = tmp_path / "games.pgn"
    text.write_text(THREE * 2000)
    path = tmp_path / "games.graph"
    with Command("import", text, "--store", path):
        until(lambda: bool(_taken(path)))
    taken = _taken(path)
    assert 0 < taken <= 6000
    assert sum(sum(counts) for counts in moves_of(path, chess.Board()).values()) == taken
    [report] = import_files("pgn", path, [GivenFile(str(text))])
    assert report.taken == 6000
    assert moves_of(path, chess.Board()) == {"e4": (2000, 0, 2000, 0, 0), "d4": (0, 0, 0, 2000, 0)}


def _taken(path: Path) -> int:
    try:
        found = sql(path, "SELECT taken FROM source") if path.exists() else []
    except sqlite3.Error:
        return 0
    return found[0][0] if found else 0


def test_the_command_tells_what_it_took_and_what_it_left_out(cli: Cli, tmp_path: Path) -> None:
    good, bad, other = (tmp_path / name for name in ("good.pgn", "bad.pgn", "atomic.pgn"))
    good.write_text(THREE)
    bad.write_text("1. e4 e9 *\n\n" * 25 + "1. d4 *\n")
    other.write_text('[Variant "Atomic"]\n\n1. e4 *\n')
    path = tmp_path / "new.graph"
    missing = cli("import", good, tmp_path / "none.pgn", "--store", path)
    assert (missing.code, path.exists()) == (2, False)
    assert "there is no file" in missing.err
    done = cli("import", good, bad, other, "--store", path)
    assert done.code == 1, "one without any standard game"
    assert "good.pgn: 3 games imported" in done.out
    assert "bad.pgn: 1 game imported, skipped: 25 broken" in done.out
    assert done.err.count("bad.pgn, line") == 20
    assert "and 5 more; --json lists 25" in done.err
    assert "1 game of Atomic skipped" in done.err
    found = cli("import", good, bad, "--store", path, "--again", "--json").ends(0)
    assert [file["taken"] for file in found.json["files"]] == [3, 1]
    assert len(found.json["files"][1]["problems"]) == 25
    assert (found.json["games"], found.json["positions"]) == (8, 7)


def test_standard_input_is_known_by_its_bytes_too(
    cli: Cli, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for said in ("1 game imported", "imported before (1 game)"):
        with io.TextIOWrapper(io.BytesIO(b"1. e4 *\n")) as given:
            monkeypatch.setattr("sys.stdin", given)
            assert said in cli("import", "-", "--store", path).ends(0).out
    assert list(path.parent.iterdir()) == [path], "nothing is left of what was kept"


def test_nothing_is_taken_from_a_pipe_that_ended_because_of_a_stop(path: Path) -> None:
    stop = threading.Event()

    class Ending(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            stop.set()
            return super().read(size)

    [report] = import_files("pgn", path, [GivenFile("-", Ending(THREE.encode()))], stop=stop)
    assert (report.state, report.taken, report.failed) == ("stopped", 0, False)
    assert sql(path, "SELECT 1 FROM source") == []


def test_ctrl_c_saves_and_says_what_was_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text, path = tmp_path / "games.pgn", tmp_path / "a.graph"
    text.write_text(THREE * 2000)
    save = pgn_import._PgnImport._save

    def save_slowly(self: pgn_import._PgnImport, **options: Any) -> None:
        save(self, **options)
        time.sleep(0.2)

    monkeypatch.setattr(pgn_import, "GAMES_AT_ONCE", 50)
    monkeypatch.setattr(pgn_import._PgnImport, "_save", save_slowly)
    with Command("import", text, "--store", path) as command:
        until(lambda: bool(_taken(path)))
        os.kill(command.process, signal.SIGINT)
        done = command.end()
    assert done.code == 130
    assert "Saved: " in done.err
    assert _taken(path) == sum(sum(counts) for counts in moves_of(path, chess.Board()).values())


def test_a_file_of_games_is_bound_by_the_first_that_opens_it_with_an_evaluator(path: Path) -> None:
    imported(path, THREE)
    facts = info(path)
    assert (facts.as_dict()["evaluator"], facts.nodes, facts.evaluators) == (None, 0, {})
    created = sql(path, "SELECT value FROM store_info WHERE name = 'created'")
    with Store.open(path) as store:
        assert not store.is_bound
    with Graph.open(path, evaluator="uniform") as graph:
        assert graph.store is not None
        assert graph.store.is_bound
    assert info(path).evaluator.kind == "uniform"
    assert sql(path, "SELECT value FROM store_info WHERE name = 'created'") == created
    with pytest.raises(EvaluatorMismatchError):
        Graph.open(path, evaluator="builtin")
    assert info(path).imported.games == 3


def test_commands_work_on_a_file_of_games(cli: Cli, path: Path, tmp_path: Path) -> None:
    imported(path, THREE)
    for command, code, text in (
        (["store", "info"], 0, "none yet; the first search sets it"),
        (["store", "verify"], 0, "0 records, sound"),
        (["store", "compact"], 0, "0 superseded"),
        (["store", "compact", "--min-visits", "2"], 0, "0 nodes before"),
    ):
        done = cli(*command, path)
        assert (done.code, text in done.out + done.err) == (code, True), done
        assert info(path).imported.moves == 6
    assert "not searched" in cli("show", "startpos", "--store", path).ends(0).out, "the games are known"
    for copying in ("backup", "salvage"):
        copy = tmp_path / f"{copying}.graph"
        cli("store", copying, path, copy).ends(0)
        assert moves_of(copy, chess.Board()) == moves_of(path, chess.Board())
        assert info(copy).imported == info(path).imported


# -------------------------------------------------------------- sure games, and those that chess.pgn reads
LICHESS = (
    '[Event "Rated Blitz game"]\n[Site "https://lichess.org/abcdefgh"]\n[Date "2024.01.31"]\n[White "A"]\n'
    '[Black "B"]\n[Result "1-0"]\n[UTCDate "2024.01.31"]\n[WhiteElo "1900"]\n[BlackElo "?"]\n'
    '[Variant "Standard"]\n[ECO "B20"]\n\n'
    "1. e4 { [%eval 0.2] [%clk 0:03:00] } 1... c5?! { [%eval 0.5] } 2. Nf3 d6?! 1-0\n\n\n"
)
CHESS_COM = (
    '[Event "Live Chess"]\n[Site "Chess.com"]\n[Date "2024.02.01"]\n[Round "-"]\n[White "A"]\n[Black "C"]\n'
    '[Result "0-1"]\n[CurrentPosition "8/8/8/8/8/8/8/8 w - -"]\n[ECOUrl "https://www.chess.com/openings/x"]\n\n'
    "1. d4 {[%clk 0:09:59.9]} 1... d5 {[%clk 0:09:58]} 2. c4 {[%clk 0:09:50]} 2... dxc4 0-1\n\n"
)
LONG = (
    '[White "A"]\n[FEN "r3k2r/1P6/8/4Pp2/8/8/1p6/R3K2R w KQkq f6 0 30"]\n[SetUp "1"]\n\n'
    "30. exf6 bxa1=Q+ 31. Kf2 Qd4+ 32. Kf3 O-O-O {a\n\nb} 33. bxc8Q (33. Rh8 {(} Rxh8) ; ) } [\n"
    "33... Kxc8 *\n\n"
)
KNIGHT_MOVES = '[Black "D"]\n\n1. Nf3 Nf6 2. Nc3 Nc6 3. Nb5 a6 4. Nbd4 e5 5. Nb1 *\n\n'
ODD = (
    "1. e4 e5 *\n\n",
    '[White "B"]\n\n1. e4 e5 2. Ke3 *\n\n',
    '[White "C"]\n\n1. e4 e5 2. -- d5 1-0\n\n',
    '[White "D\\"x"]\n\n1. e4 (1. d4 resigns) e5 resigns 1-0\n\n',
    '[White "E"]\n\n1. e2e4 e7e5 1/2\n\n',
    '[White "F"]\n\n1. e4 {open e5\n\n[Event "G"]\n\n1. d4 d5 1/2-1/2 {after}\n\n',
    '[Event "H"]\n[Variant "Atomic"]\n\n1. e4 *\n\n',
    '[Event "I"]\n[Variant "Chess960"]\n'
    '[FEN "nbbrknrq/pppppppp/8/8/8/8/PPPPPPPP/NBBRKNRQ w GDgd - 0 1"]\n\n1. f3 f6 *\n\n',
    '[Event "J"]\n[SetUp "1"]\n\n1. e4 *\n\n',
    '[Event "K"]\n[FEN "8/8/8/8/8/8/8/8 w - - 0 1"]\n\n1. e4 *\n\n',
    '[Event "L"]\n[FEN "7k/8/8/8/8/8/8/K6R w - - 254 200"]\n\n200. Rh2+ Kg7 201. Rh3 Kg6 *\n\n',
    '[Event "M"]\r\n\r\n1. e4 e5\r\n% a line\r\n2. Nf3 *\r\n\r\n',
    '[Event "N"]\r\r1. e4 e5 *\r\r',
    '[Event "O"]\n\n1. Nf3 Nf6 2. Ng1 Ng8 3. Nf3 Nf6 4. Ng1 Ng8 5. e4 0-1\n\n',
    '[Event "P"]\n\n' + "1. e4 " + "(1. d4 " * 1001 + ")" * 1001 + " e5 *\n\n",
    '[Event "Q"]\n\n' + "1. e4 " + "(1. d4 " * 999 + ")" * 999 + " e5 *\n\n",
    '[Event "R"]\n\n1. e4 e5 2. Pd4 *\n\n',
    '[Event "S"]\n\n*\n\n',
    '[Event "T"]\n[Result "1-0"]\n\n1. e4 0-1\n\n',
    '[Event "U"]\n\n1. e4 e5 20000. Nf3 *\n\n',
    '[Event "V"]\n\n00001.e4 e5 *\n\n',
)
SOUND = (LICHESS, CHESS_COM, LONG, KNIGHT_MOVES)
TEXTS = [
    "".join(SOUND),
    "".join(odd + SOUND[i % 4] for i, odd in enumerate(ODD)),
    "".join(ODD),
    KNIGHT_MOVES.strip(),
]


def test_mutated_games_are_the_same_both_ways(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(20):
        rng = random.Random(seed)
        bases = [generated(rng) for _ in range(10)]
        parts = (mutated(base, rng) if rng.random() < 0.3 else f"{base}\n" for base in bases)
        data = "".join(parts).encode(rng.choice(("utf-8", "cp1252")), "replace").replace(b"\0", b"")
        (tmp_path / str(seed)).mkdir()
        monkeypatch.setattr(pgn_import, "GAMES_IN_BLOCK", rng.choice((3, 500)))
        monkeypatch.setattr(pgn_import, "TEXTS_AT_ONCE", rng.choice((2, 20_000)))
        check_same(data, tmp_path / str(seed), monkeypatch)


def check_same(
    text: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **options: int | None
) -> FileReport:
    """Checks that reports and tables are the same whichever way the games are read and played."""
    fast, slow = tmp_path / "fast.graph", tmp_path / "slow.graph"
    report = imported(fast, text, players=True, **options)
    monkeypatch.setattr(pgn_import, "sure_game", lambda text: None)
    expected = imported(slow, text, players=True, **options)
    monkeypatch.undo()
    assert replace(report, seconds=0.0) == replace(expected, seconds=0.0)
    for query in (
        "SELECT * FROM game_position ORDER BY key",
        "SELECT * FROM game_move ORDER BY key, move",
        "SELECT number, place, bytes, result, date, eco, fen, moves, white_elo FROM game ORDER BY number",
        "SELECT number, name FROM game LEFT JOIN player ON player.id = game.white ORDER BY number",
    ):
        assert sql(fast, query) == sql(slow, query)
    return report


@pytest.mark.parametrize(("max_ply", "size"), [(None, 500), (None, 1), (3, 500)])
@pytest.mark.parametrize("text", TEXTS)
def test_tables_and_reports_are_the_same(
    text: str, max_ply: int | None, size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pgn_import, "GAMES_IN_BLOCK", size)
    check_same(text.encode(), tmp_path, monkeypatch, max_ply=max_ply)


def test_games_of_lichess_and_chess_com_are_sure() -> None:
    texts = cut_games((LICHESS + CHESS_COM + KNIGHT_MOVES).splitlines(keepends=True))
    assert [len(game.moves) for text in texts if (game := pgn_import.sure_game(text))] == [4, 4, 9]


# ------------------------------------------------------------------ Polyglot books
ENTRY = struct.Struct(">QHHI")


class Entry(NamedTuple):
    key: int
    raw_move: int
    weight: int
    learn: int = 0


def raw_move_of(board: chess.Board, move: chess.Move) -> int:
    """Returns a legal move of a position as a book writes it."""
    target = move.to_square
    if board.is_castling(move) and not board.chess960:
        target = chess.square(7 if target > move.from_square else 0, chess.square_rank(target))
    return target | move.from_square << 6 | (move.promotion - 1 if move.promotion else 0) << 12


CASTLING = chess.Board("r3k2r/8/8/8/8/8/8/R3K2R w KQkq - 0 1")


def entry(board: chess.Board, san: str, weight: int = 1, learn: int = 0) -> Entry:
    return Entry(chess.polyglot.zobrist_hash(board), raw_move_of(board, board.parse_san(san)), weight, learn)


def book(*entries: Entry) -> bytes:
    return b"".join(ENTRY.pack(*one) for one in sorted(entries, key=lambda one: one.key))


book_taken = partial(imported_as, "polyglot")
epd = partial(imported_as, "epd")


def test_raw_moves_are_those_that_python_chess_reads(tmp_path: Path) -> None:
    promoting = chess.Board("1n2k3/P7/8/8/8/8/8/4K3 w - - 0 1")
    for board in (CASTLING, promoting, *random_games(5, 90, 120)):
        assert [polyglot.legal_move(board, raw_move_of(board, m)) for m in board.legal_moves] == list(
            board.legal_moves
        )
        file = tmp_path / "book.bin"
        file.write_bytes(
            b"".join(
                ENTRY.pack(chess.polyglot.zobrist_hash(board), raw_move_of(board, m), 1, 0)
                for m in board.legal_moves
            )
        )
        with chess.polyglot.open_reader(file) as reader:
            assert [found.move for found in reader.find_all(board)] == list(board.legal_moves)


def test_a_king_that_may_not_castle_takes_no_rook() -> None:
    board = chess.Board("r3k2r/8/8/8/8/8/8/R3K2R w kq - 0 1")
    raw = chess.E1 << 6 | chess.H1
    assert polyglot.legal_move(board, raw) is None
    assert polyglot.written_move(raw) == chess.Move.from_uci("e1h1")
    rook = chess.Board("4k3/8/8/8/8/8/K7/4R2r w - - 0 1")
    assert polyglot.legal_move(rook, raw) == chess.Move.from_uci("e1h1"), "a rook takes a rook"


def test_every_entry_is_taken_as_it_stands_and_named_where_its_position_is_known(path: Path) -> None:
    stray = Entry(12345, raw_move_of(chess.Board(), chess.Move.from_uci("e2e4")), 9, 7)
    data = book(entry(chess.Board(), "e4", 5), entry(after_line("e4"), "c5", 3, 99), stray)
    report = book_taken(path, data)
    assert (report.state, report.taken, report.skipped, report.problems) == ("imported", 3, 0, [])
    assert "positions whose FEN is known: 2 of 3" in report.notes
    found = sql(path, "SELECT place, raw_move, weight, learn, key FROM polyglot_entry ORDER BY place")
    assert [Entry(int(key, 16), *rest) for _, *rest, key in found] == [
        Entry._make(one) for one in ENTRY.iter_unpack(data)
    ]
    assert sql(path, "SELECT weight, move, san, fen FROM polyglot_entry ORDER BY weight") == [
        (3, "c7c5", "c5", after_line("e4").fen()),
        (5, "e2e4", "e4", chess.STARTING_FEN),
        (9, "e2e4", None, None),
    ]


def test_a_whole_book_is_in_the_file_entry_by_entry(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names are looked for along the moves of the book only: everything else takes a minute."""
    monkeypatch.setattr("graphsearch.exchange.polyglot.Finder._look_around", lambda *_: None)
    source = path.with_name("book.bin")
    source.write_bytes(shared_data("data/performance.bin").read_bytes()[: 5000 * ENTRY.size])
    [report] = import_files("polyglot", path, [GivenFile(str(source))])
    assert (report.taken, report.problems) == (source.stat().st_size // ENTRY.size, [])
    found = sql(path, "SELECT key, raw_move, weight, learn FROM polyglot_entry ORDER BY place")
    for fen, move, san, key in sql(path, "SELECT fen, move, san, key FROM polyglot_entry WHERE fen NOT NULL"):
        board = chess.Board(fen)
        assert f"{chess.polyglot.zobrist_hash(board):016x}" == key
        assert board.parse_san(san) == chess.Move.from_uci(move)
    with chess.polyglot.open_reader(source) as reader:
        read = [(f"{e.key:016x}", e.raw_move, e.weight, e.learn) for e in reader]
    assert found == read


def test_positions_are_found_over_a_move_that_the_book_leaves_out_and_among_those_of_the_file(
    path: Path,
) -> None:
    report = book_taken(path, book(entry(chess.Board(), "e4"), entry(after_line("e4 c5"), "Nf3")))
    assert "positions whose FEN is known: 2 of 2" in report.notes
    report = book_taken(path, book(entry(after_line("d4"), "d5"), entry(after_line("c4"), "e5")))
    assert "positions whose FEN is known: 2 of 2" in report.notes, "a book for Black"
    line = ("e4", "e5", "Nf3", "Nc6", "Bb5", "a6")
    known = after_line(" ".join(line))
    imported_as("pgn", path, " ".join([*line, "*"]))
    report = book_taken(path, book(entry(known, "Ba4")))
    assert "positions whose FEN is known: 1 of 1" in report.notes
    assert sql(path, "SELECT fen FROM polyglot_entry WHERE san = 'Ba4'") == [
        (after_line(" ".join(line)).fen(),)
    ]


def test_castling_is_written_as_the_kings_two_steps_where_the_position_is_known(path: Path) -> None:
    line = ("e4", "e5", "Nf3", "Nc6", "Bc4", "Bc5")
    steps = [entry(after_line(" ".join(line[:k])), line[k]) for k in range(len(line))]
    unknown = Entry(5, chess.E1 << 6 | chess.A1, 2)
    book_taken(path, book(*steps, entry(after_line(" ".join(line)), "O-O", 7), unknown))
    assert sql(path, "SELECT move, san FROM polyglot_entry WHERE weight = 7") == [("e1g1", "O-O")]
    assert sql(path, "SELECT move, san FROM polyglot_entry WHERE weight = 2") == [("e1a1", None)]


def test_what_is_odd_in_a_book_is_told(path: Path) -> None:
    start = chess.polyglot.zobrist_hash(chess.Board())
    clash = Entry(start, chess.E2 << 6 | chess.E5, 4)
    no_move = Entry(start, 0x7FFF, 3)
    data = book(entry(chess.Board(), "e4", 0), clash, no_move) + ENTRY.pack(1, 1, 1, 0) + b"tail"
    report = book_taken(path, data)
    assert (report.taken, report.skipped) == (4, 1)
    reasons = {problem.place: problem.reason for problem in report.problems}
    assert "e2e5 (0x0324) is illegal in its position" in reasons[1]
    assert "0000 (0x7fff) is illegal in its position" in reasons[2]
    assert "4 bytes at the end" in reasons[4]
    assert any("out of order from entry 3 on" in note for note in report.notes)
    assert any("weight 0" in note and note.endswith(": 1") for note in report.notes)
    assert "has no entries" in " ".join(book_taken(path, b"").notes)
    assert "2 bytes at the end" in book_taken(path, b"\x00\x01").problems[0].reason


def test_a_book_above_the_limit_costs_no_other_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(BOOK.variable, "20")
    monkeypatch.setattr(polyglot, "ENTRIES_AT_ONCE", 1)
    data = book(entry(chess.Board(), "e4"))
    files = [GivenFile(name, io.BytesIO(data * count)) for name, count in (("large", 3), ("small", 1))]
    large, small = import_files("polyglot", path, files)
    assert (large.state, "the most for a Polyglot book" in large.error) == ("failed", True)
    assert (small.state, small.taken) == ("imported", 1)


def test_a_book_is_taken_once_and_goes_on_after_a_fault(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entries = [
        Entry(chess.polyglot.zobrist_hash(b), raw_move_of(b, next(iter(b.legal_moves))), 1)
        for b in random_games(9, 90, 60)
    ]
    data = book(*entries)
    real, calls = tables.add_entries, 0

    def failing(store: Store, some: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == 4:
            raise KeyboardInterrupt
        real(store, some)

    with monkeypatch.context() as patch:
        patch.setattr(tables, "add_entries", failing)
        patch.setattr(polyglot, "ENTRIES_AT_ONCE", 16)
        with pytest.raises(KeyboardInterrupt):
            book_taken(path, data)
    assert sql(path, "SELECT taken, finished FROM source") == [(48, None)]
    report = book_taken(path, data)
    assert (report.state, report.taken, report.new_taken) == ("continued", len(entries), len(entries) - 48)
    assert book_taken(path, data).state == "known"
    assert sql(path, "SELECT count(*) FROM polyglot_entry") == [(len(entries),)]


def test_the_command_counts_entries(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(book(entry(chess.Board(), "e4"), entry(after_line("e4"), "e5")))
    done = cli("import", "--format", "polyglot", tmp_path / "a.bin", "--store", tmp_path / "a.graph").ends(0)
    assert "a.bin: 2 entries imported" in done.out
    assert "known: 2 of 2" in done.err
    assert "Polyglot:  2 entries" in cli("store", "info", tmp_path / "a.graph").out


# ------------------------------------------------------------------ EPD
BOARD = "4k3/8/8/8/8/8/4P3/4K3 w - -"


def stored_epd(path: Path) -> list[tuple[int, str, str, dict[str, Any]]]:
    found = sql(path, "SELECT place, key, fen, operations FROM epd_position ORDER BY source, place")
    return [(place, key, fen, json.loads(text)) for place, key, fen, text in found]


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
    report = epd(path, f"\n{text}\n{BOARD} bm e4;\n")
    assert (report.taken, report.skipped) == (1, 1)
    assert (report.problems[0].place, reason in report.problems[0].reason) == (2, True)
    assert [place for place, *_ in stored_epd(path)] == [3]


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
    report = epd(path, f'{BOARD} {wrong} id "a"')
    assert (report.taken, report.skipped, len(report.problems)) == (1, 0, 1)
    assert re.search(reason, report.problems[0].reason)
    [(*_, found)] = stored_epd(path)
    assert found == {"id": "a"} | ({"ce": 3} if "ce" in wrong else {})
    assert board_from_fen(f"{BOARD} {wrong}").fen() == f"{BOARD} 0 1"


def test_positions_are_stored_with_key_fen_and_operations(path: Path) -> None:
    report = epd(path, f'{BOARD} bm e4; id "caf\u00e9"; hmvc 80;\r\n'.encode())
    board = chess.Board(BOARD + " 80 1")
    assert report.taken == 1
    operations = {"bm": ["e2e4"], "id": "caf\u00e9", "hmvc": 80}
    assert stored_epd(path) == [(1, f"{key_of(board):016x}", board.fen(), operations)]
    assert epd(path, f'{BOARD} bm e4; id "caf\u00e9"; hmvc 80;\r\n'.encode()).state == "known"
    assert epd(path, f'{BOARD} id "caf\u00e9";'.encode("latin-1")).taken == 1
    assert stored_epd(path)[1][3] == {"id": "caf\u00e9"}


def test_a_stop_is_heeded_at_wrong_lines_too_and_comments_do_not_count_when_it_goes_on(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importing, "SAY_SECONDS", -1.0)
    text = f"# four\n{BOARD} bm e4;\nwrong\n{BOARD} bm Kd2;\n# and\n{BOARD} bm e3;\n"
    stop = threading.Event()
    report = epd(path, text, stop=stop, on_progress=lambda now: stop.set() if now.count == 2 else None)
    assert (report.state, report.taken, report.skipped) == ("stopped", 1, 1)
    report = epd(path, text)
    assert (report.state, report.taken, report.skipped) == ("continued", 3, 1)
    assert [place for place, *_ in stored_epd(path)] == [2, 4, 6]


@pytest.mark.parametrize(("name", "count"), [("bratko-kopec.epd", 24), ("mates_500.epd", 500)])
def test_the_samples_are_taken_whole(path: Path, name: str, count: int) -> None:
    source = shared_data(f"data/{name}")
    [report] = import_files("epd", path, [GivenFile(str(source))])
    assert (report.taken, report.skipped) == (count, 0)
    lines = source.read_text().splitlines()
    for place, key, fen, operations in stored_epd(path):
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
