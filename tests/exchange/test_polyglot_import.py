"""The Polyglot format, keys, and `import --format polyglot`."""

from __future__ import annotations

import bz2
import io
import struct
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import chess
import chess.polyglot
import pytest

from graphsearch.base.limits import BOOK
from graphsearch.exchange import polyglot
from graphsearch.exchange.importing import GivenFile
from graphsearch.exchange.imports import import_files
from graphsearch.exchange.polyglot import legal_move, written_move
from graphsearch.store.store import Store
from graphsearch.store.tables import games as tables

from ..conftest import Cli, shared_data, sql
from ..support.positions import after_line, random_games
from .exported import imported as imported_as

ENTRY = struct.Struct(">QHHI")


class Entry(NamedTuple):
    """An entry of a book file."""

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


imported = partial(imported_as, "polyglot")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "book.graph"


def test_raw_moves_are_those_that_python_chess_reads(tmp_path: Path) -> None:
    promoting = chess.Board("1n2k3/P7/8/8/8/8/8/4K3 w - - 0 1")
    for board in (CASTLING, promoting, *random_games(5, 90, 120)):
        assert [legal_move(board, raw_move_of(board, m)) for m in board.legal_moves] == list(
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
    assert legal_move(board, raw) is None
    assert written_move(raw) == chess.Move.from_uci("e1h1")
    rook = chess.Board("4k3/8/8/8/8/8/K7/4R2r w - - 0 1")
    assert legal_move(rook, raw) == chess.Move.from_uci("e1h1"), "a rook takes a rook"


def test_every_entry_is_taken_as_it_stands_and_named_where_its_position_is_known(path: Path) -> None:
    stray = Entry(12345, raw_move_of(chess.Board(), chess.Move.from_uci("e2e4")), 9, 7)
    data = book(entry(chess.Board(), "e4", 5), entry(after_line("e4"), "c5", 3, 99), stray)
    report = imported(path, data)
    assert (report.state, report.taken, report.skipped, report.problems) == ("imported", 3, 0, [])
    assert "positions whose FEN is known: 2 of 3" in report.notes
    found = sql(path, "SELECT place, raw_move, weight, learn, key FROM polyglot_entry ORDER BY place")
    assert [Entry(int(key, 16), *rest) for _, *rest, key in found] == [
        Entry._make(one) for one in ENTRY.iter_unpack(data)
    ]
    named = sql(path, "SELECT weight, move, san, fen FROM polyglot_entry ORDER BY weight")
    assert named == [
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
    report = imported(path, book(entry(chess.Board(), "e4"), entry(after_line("e4 c5"), "Nf3")))
    assert "positions whose FEN is known: 2 of 2" in report.notes
    report = imported(path, book(entry(after_line("d4"), "d5"), entry(after_line("c4"), "e5")))
    assert "positions whose FEN is known: 2 of 2" in report.notes, "a book for Black"
    line = ("e4", "e5", "Nf3", "Nc6", "Bb5", "a6")
    known = after_line(" ".join(line))
    imported_as("pgn", path, " ".join([*line, "*"]))
    report = imported(path, book(entry(known, "Ba4")))
    assert "positions whose FEN is known: 1 of 1" in report.notes
    assert sql(path, "SELECT fen FROM polyglot_entry WHERE san = 'Ba4'") == [
        (after_line(" ".join(line)).fen(),)
    ]


def test_castling_is_written_as_the_kings_two_steps_where_the_position_is_known(path: Path) -> None:
    line = ("e4", "e5", "Nf3", "Nc6", "Bc4", "Bc5")
    steps = [entry(after_line(" ".join(line[:k])), line[k]) for k in range(len(line))]
    unknown = Entry(5, chess.E1 << 6 | chess.A1, 2)
    imported(path, book(*steps, entry(after_line(" ".join(line)), "O-O", 7), unknown))
    assert sql(path, "SELECT move, san FROM polyglot_entry WHERE weight = 7") == [("e1g1", "O-O")]
    assert sql(path, "SELECT move, san FROM polyglot_entry WHERE weight = 2") == [("e1a1", None)]


def test_what_is_odd_in_a_book_is_told(path: Path) -> None:
    start = chess.polyglot.zobrist_hash(chess.Board())
    clash = Entry(start, chess.E2 << 6 | chess.E5, 4)
    no_move = Entry(start, 0x7FFF, 3)
    data = book(entry(chess.Board(), "e4", 0), clash, no_move) + ENTRY.pack(1, 1, 1, 0) + b"tail"
    report = imported(path, data)
    assert (report.taken, report.skipped) == (4, 1)
    reasons = {problem.place: problem.reason for problem in report.problems}
    assert "e2e5 (0x0324) is illegal in its position" in reasons[1]
    assert "0000 (0x7fff) is illegal in its position" in reasons[2]
    assert "4 bytes at the end" in reasons[4]
    assert any("out of order from entry 3 on" in note for note in report.notes)
    assert any("weight 0" in note and note.endswith(": 1") for note in report.notes)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"1. e4 e5 *\n", "is a text"),
        (b"", "has no entries"),
        (b"\x00\x01", "2 bytes at the end"),
        (bz2.compress(bytes(99)), "is packed by bzip2"),
    ],
)
def test_what_is_no_book_is_told(path: Path, data: bytes, text: str) -> None:
    report = imported(path, data)
    assert text in " ".join([report.error, *report.notes, *(problem.reason for problem in report.problems)])


def test_a_book_above_the_limit_costs_no_other_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(BOOK.variable, "20")
    monkeypatch.setattr(polyglot, "ENTRIES_AT_ONCE", 1)
    data = book(entry(chess.Board(), "e4"))
    files = [GivenFile(name, io.BytesIO(data * count)) for name, count in (("large", 3), ("small", 1))]
    large, small = import_files("polyglot", path, files)
    assert (large.state, "the most for a Polyglot book" in large.error) == ("failed", True)
    assert (small.state, small.taken) == ("imported", 1)


def test_the_same_book_is_taken_once_and_goes_on_after_a_fault(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
            imported(path, data)
    assert sql(path, "SELECT taken, finished FROM source") == [(48, None)]
    report = imported(path, data)
    assert (report.state, report.taken, report.new_taken) == ("continued", len(entries), len(entries) - 48)
    assert imported(path, data).state == "known"
    assert sql(path, "SELECT count(*) FROM polyglot_entry") == [(len(entries),)]


def test_the_command_counts_entries(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(book(entry(chess.Board(), "e4"), entry(after_line("e4"), "e5")))
    done = cli("import", "--format", "polyglot", tmp_path / "a.bin", "--store", tmp_path / "a.graph").ends(0)
    assert "a.bin: 2 entries imported" in done.out
    assert "known: 2 of 2" in done.err
    assert "Polyglot:  2 entries" in cli("store", "info", tmp_path / "a.graph").out
