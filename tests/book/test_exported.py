"""Exports of a book hold the moves that its rules admit now, as `book why` states them."""

from __future__ import annotations

from pathlib import Path

import chess
import chess.pgn
import chess.polyglot
import pytest

from graphsearch.book.build import build
from graphsearch.book.config import BuildSettings, parse_config
from graphsearch.book.why import admitted_moves, why
from graphsearch.exchange.exports import export
from graphsearch.exchange.selection import Selection

from ..support.positions import after_line
from ..support.reference import HashEvaluator

TOML = """
[book]
name = "white"
side = "white"
max_ply = 9
[[root]]
moves = "1. d4 Nf6 2. c4 e6"
[[window]]
own_moves = 1
reply_cp = 300
reply_moves = 3
[leaf]
evaluations = 12
params = { MinibatchSize = 1 }
"""
LINE = "d4 Nf6 c4 e6"


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a book whose values changed so often that it has several own moves in some positions."""
    path = tmp_path_factory.mktemp("book") / "b.graph"
    settings = BuildSettings(evaluations=1500)
    build(path, parse_config(TOML, path.parent, "white.toml"), settings=settings, evaluator=HashEvaluator())
    return path


def walked(path: Path, board: chess.Board, keeps_all: bool) -> list[tuple[chess.Board, set[str]]]:
    """Returns own positions below a board with the moves of the book there, as `book why` says."""
    found, waiting = [], [board]
    while waiting:
        board = waiting.pop()
        verdicts = [one for one in why(path, board).verdicts if one.rule and (one.admitted or keeps_all)]
        if board.turn == chess.WHITE and verdicts:
            found.append((board, {one.candidate.move for one in verdicts}))
        for one in verdicts:
            child = board.copy()
            child.push_uci(one.candidate.move)
            waiting.append(child)
    return found


def exported(target: Path, board: chess.Board) -> set[str]:
    with chess.polyglot.open_reader(target) as reader:
        return {entry.move.uci() for entry in reader.find_all(board)}


def test_a_book_in_polyglot_has_the_moves_that_its_rules_admit(book: Path, tmp_path: Path) -> None:
    target, whole = tmp_path / "b.bin", tmp_path / "all.bin"
    report = export("polyglot", book, target, Selection(book="white", admits=admitted_moves))
    export("polyglot", book, whole, Selection(book="white"))
    root = after_line(LINE)
    admitted, kept = walked(book, root, keeps_all=False), walked(book, root, keeps_all=True)
    assert all(len(moves) == 1 for _, moves in admitted)  # own_moves = 1
    assert any(len(moves) > 1 for _, moves in kept)
    for board, moves in admitted:
        assert exported(target, board) == moves
    for board, moves in kept:
        assert exported(whole, board) == moves
    own = {chess.polyglot.zobrist_hash(board) for board, _ in admitted}
    before = {chess.polyglot.zobrist_hash(after_line(line)) for line in ("", "d4 Nf6")}
    with chess.polyglot.open_reader(target) as reader:
        assert {entry.key for entry in reader} == own | before
    assert report.left_out["moves_not_admitted"] > 0
    assert exported(target, chess.Board()) == {"d2d4"}
    assert exported(target, after_line("d4 Nf6")) == {"c2c4"}
