"""The table of openings: legal lines, true keys, every code once at least."""

from __future__ import annotations

import chess

from graphsearch.position.openings import DEEPEST, opening_at, opening_of
from tools.openings import TABLE, written


def _board(moves: str) -> chess.Board:
    board = chess.Board()
    for san in moves.split():
        board.push_san(san)
    return board


def test_the_table_is_what_its_tool_writes() -> None:
    lines = TABLE.read_text("utf-8").splitlines()
    assert lines == list(written(lines))


def test_every_code_has_a_line() -> None:
    rows = [line for line in TABLE.read_text("utf-8").splitlines() if line[0] != "#"]
    assert {row.split()[1] for row in rows} == {f"{a}{n:02}" for a in "ABCDE" for n in range(100)}
    assert max(len(row.partition(" | ")[2].split()) for row in rows) < DEEPEST


def test_a_transposition_has_the_same_name() -> None:
    for moves in (
        "d4 Nf6 c4 g6 Nc3 Bg7 e4 d6 Nf3",
        "c4 g6 e4 Bg7 d4 d6 Nc3 Nf6 Nf3",
        "Nf3 Nf6 c4 g6 Nc3 Bg7 e4 d6 d4",
    ):
        assert str(opening_at(_board(moves))).startswith("E90 King's Indian Defense")


def test_a_game_keeps_the_last_name_that_it_had() -> None:
    board = _board("e4 e5 Nf3 Nc6 Bb5 a6 Ba4 Nf6 O-O h6 h3 Rg8")
    assert opening_at(board) is None
    assert str(opening_of(board)) == "C78 Ruy Lopez: Morphy Defense"
    assert opening_of(chess.Board()) is None
