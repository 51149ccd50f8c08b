"""Polyglot books merged and compared; python-chess and the program `polyglot` read and merge them, too."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import chess
import chess.polyglot
import numpy as np
import pytest

from graphsearch.base.errors import InputFileError
from graphsearch.exchange.polyglot import ENTRIES, MAX_WEIGHT, merge_books, read_book
from graphsearch.exchange.polyglot_diff import diff_books

from ..conftest import Cli
from ..query.handmade import board_after
from .exported import run_polyglot
from .test_polyglot_import import raw_move_of

Weights = Mapping[str, Mapping[str, int]]  # line in SAN -> move in SAN -> weight


def write(path: Path, weights: Weights, learn: int = 0, *, ordered: bool = True) -> Path:
    rows = [
        (chess.polyglot.zobrist_hash(board), raw_move_of(board, board.parse_san(san)), weight, learn)
        for line, moves in weights.items()
        for board in [board_after(line)]
        for san, weight in moves.items()
    ]
    path.write_bytes(np.array(sorted(rows) if ordered else rows, ENTRIES).tobytes())
    return path


def read(path: Path, line: str) -> dict[str, int]:
    """Returns the moves that python-chess finds for a position, with their weights."""
    board = board_after(line)
    with chess.polyglot.open_reader(path) as reader:
        return {board.san(entry.move): entry.weight for entry in reader.find_all(board, minimum_weight=0)}


CASTLES = "e4 e5 Nf3 Nc6 Bc4 Bc5"
OLD: Weights = {"": {"e4": 3, "d4": 1}, "e4": {"e5": 2}, CASTLES: {"O-O": 5}}
NEW: Weights = {"": {"e4": 1, "c4": 7}, "d4": {"d5": 4}, CASTLES: {"O-O": 2, "c3": 2}}


def test_weights_of_a_move_are_added_and_entries_are_sorted(tmp_path: Path) -> None:
    old, new = write(tmp_path / "a.bin", OLD, learn=4), write(tmp_path / "b.bin", NEW, learn=9)
    report = merge_books([old, new], tmp_path / "c.bin")
    assert (report.positions, report.moves, report.added, report.scaled) == (4, 7, 2, 0)
    assert read(tmp_path / "c.bin", "") == {"c4": 7, "e4": 4, "d4": 1}
    assert read(tmp_path / "c.bin", "d4") == {"d5": 4}
    assert read(tmp_path / "c.bin", CASTLES) == {"O-O": 7, "c3": 2}
    with chess.polyglot.open_reader(tmp_path / "c.bin") as reader:
        found = list(reader)
    assert [entry.key for entry in found] == sorted(entry.key for entry in found)
    e4 = raw_move_of(chess.Board(), chess.Move.from_uci("e2e4"))
    assert {entry.learn for entry in found if entry.weight == 4 and entry.raw_move == e4} == {4}


def test_weights_beyond_16_bits_are_scaled_by_position_and_none_is_lost(tmp_path: Path) -> None:
    heavy: Weights = {"": {"e4": MAX_WEIGHT, "d4": MAX_WEIGHT // 2, "a3": 1, "h3": 0}, "e4": {"e5": 7}}
    books = [write(tmp_path / f"{name}.bin", heavy) for name in "ab"]
    report = merge_books(books, tmp_path / "c.bin")
    assert read(tmp_path / "c.bin", "") == {"e4": 65535, "d4": 32767, "a3": 1, "h3": 0}
    assert read(tmp_path / "c.bin", "e4") == {"e5": 14}
    assert report.scaled == 4


def test_the_program_polyglot_merges_books_without_common_positions_alike(tmp_path: Path) -> None:
    old = write(tmp_path / "a.bin", {"": {"e4": 3, "d4": 1}, "e4": {"e5": 2}})
    new = write(tmp_path / "b.bin", {"d4": {"d5": 4, "Nf6": 1}, CASTLES: {"O-O": 2}})
    run_polyglot(tmp_path, "merge-book", "-in1", old, "-in2", new, "-out", tmp_path / "oracle.bin")
    merge_books([old, new], tmp_path / "c.bin")
    entries = [sorted(read_book(tmp_path / name).rows.tolist()) for name in ("c.bin", "oracle.bin")]
    assert entries[0] == entries[1]


def test_a_book_merged_with_nothing_is_itself(tmp_path: Path) -> None:
    (tmp_path / "empty.bin").write_bytes(b"")
    old = write(tmp_path / "a.bin", OLD)
    merge_books([old, tmp_path / "empty.bin"], tmp_path / "c.bin")
    assert sorted(read_book(tmp_path / "c.bin").rows.tolist()) == sorted(read_book(old).rows.tolist())


def test_a_difference_has_lines_shares_and_positions_of_one_book_alone(tmp_path: Path) -> None:
    books = [
        read_book(write(tmp_path / f"{name}.bin", weights)) for name, weights in (("a", OLD), ("b", NEW))
    ]
    found = diff_books(books[0], books[1], top=10)
    assert (found.both, found.same, found.only_old, found.only_new) == (2, 0, 1, 1)
    start, castles = found.changes
    assert (start.line, castles.line) == ((), None)  # no moves of the books lead there
    assert start.difference == pytest.approx(0.5 * (abs(3 / 4 - 1 / 8) + 1 / 4 + 7 / 8))
    assert [(move.move, move.old, move.new) for move in start.moves] == [
        ("c4", None, 7),
        ("e4", 3, 1),
        ("d4", 1, None),
    ]
    assert castles.moves[0].move == "e1h1"  # as written: the position is unknown
    assert [row.line for row in (*found.gone, *found.come)] == [("e4",), ("d4",)]
    equal = diff_books(books[0], books[0], top=10)
    assert (equal.same, equal.changes, equal.gone, equal.come) == (3, [], [], [])


def test_positions_of_a_book_for_one_side_get_lines(tmp_path: Path) -> None:
    book = read_book(write(tmp_path / "a.bin", {"e4": {"e5": 1}, "e4 e5 Nf3": {"Nc6": 1}, "d4": {"d5": 1}}))
    found = diff_books(book, read_book(write(tmp_path / "b.bin", {})), top=20)
    assert sorted(row.line or () for row in found.gone) == [("d4",), ("e4",), ("e4", "e5", "Nf3")]


def test_a_castling_move_of_a_line_is_followed(tmp_path: Path) -> None:
    words = [*CASTLES.split(), "O-O", "Nf6", "d3"]
    line: Weights = {" ".join(words[:k]): {san: 1} for k, san in enumerate(words)}
    book = read_book(write(tmp_path / "a.bin", line))
    empty = read_book(write(tmp_path / "b.bin", {}))
    found = diff_books(book, empty, top=20)
    assert max(len(row.line or ()) for row in found.gone) == 8
    assert all(row.line is not None for row in found.gone)


def test_the_command_line_merges_compares_and_refuses_in_one_line(cli: Cli, tmp_path: Path) -> None:
    old, new = write(tmp_path / "a.bin", OLD), write(tmp_path / "b.bin", NEW, ordered=False)
    out = tmp_path / "c.bin"
    tried = cli("store", "merge", old, new, "-o", out, "--dry-run").ends(0)
    assert "would have 4 positions, 7 moves" in tried.out
    assert not out.exists()
    assert cli("store", "merge", old, new, "-o", out, "--json").ends(0).json["added"] == 2
    cli("store", "merge", old, new, "-o", out).ends(2, "exists already")
    cli("store", "merge", old, new, "-o", out, "--force").ends(0)
    told = cli("diff", old, out).ends(0)
    assert "3 common positions: 1 the same" in told.out
    assert "e4 75%, d4 25%" in told.out
    cut = tmp_path / "cut.bin"
    cut.write_bytes(old.read_bytes()[:-3])
    for words in (("diff", old, cut), ("store", "merge", old, cut, "-o", tmp_path / "d.bin")):
        cli(*words).ends(2, "is cut short")
    cli("store", "merge", old, tmp_path / "x.graph", "-o", tmp_path / "d.bin").ends(2, "cannot be merged")
    cli("store", "merge", old, new, "--into", out).ends(2, "-o NEW.bin")
    cli("diff", old, tmp_path / "none.bin").ends(2, "none.bin")


def test_an_unsorted_book_is_named_and_sorted(tmp_path: Path) -> None:
    rows = read_book(write(tmp_path / "a.bin", OLD)).rows
    (tmp_path / "b.bin").write_bytes(rows[::-1].tobytes())
    found = read_book(tmp_path / "b.bin")
    assert "out of order from entry" in found.notes[0]
    assert (np.diff(found.rows["key"].astype(np.float64)) >= 0).all()
    with pytest.raises(InputFileError, match="is a directory"):
        read_book(tmp_path)
