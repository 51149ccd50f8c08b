"""Mates in one in the kernels, against python-chess."""

from __future__ import annotations

import random
from typing import Any

import chess
import numpy as np
import pytest

from graphsearch.jit.compiler import kernel
from graphsearch.jit.pointers import ptr, zeros
from graphsearch.jit.types import uint16, uint64
from graphsearch.position.board import board_of, legal_moves, pack
from graphsearch.position.board_kernel import PW, generate_moves
from graphsearch.position.mates_kernel import mate_in_one
from graphsearch.position.tables import load_tables

ROOM = 256
KINDS = [  # a mate of every kind, and what only looks like one
    ("6k1/5ppp/8/8/8/8/5PPP/3R2K1 w - - 0 1", "d1d8"),
    ("4R3/8/8/8/8/5k1P/7P/4K2R w K - 0 1", "e1g1"),  # castling
    ("4R3/8/8/8/8/5k1P/7P/5KR1 w G - 0 1", "f1g1"),  # castling of Chess960: king and rook swap
    ("4R3/8/8/8/8/5k1P/7P/3K3R w H - 0 1", "d1h1"),
    ("8/1P4Q1/k7/1R3K2/3N4/8/8/3q4 w - - 0 1", "b7b8n"),  # underpromotion
    ("1r6/8/2k1K3/2Pp4/R2Pp3/8/8/1QRB4 w - d6 0 1", "c5d6"),  # en passant
    ("6rk/6pp/7N/8/8/1B6/8/6K1 w - - 0 1", "h6f7"),  # smothered
    ("4k3/8/4K3/2B5/8/8/4R3/8 w - - 0 1", ""),
    ("5rk1/5Npp/8/8/8/1Q6/6PP/6K1 w - - 0 1", ""),  # a double check that the king walks out of
    ("k6r/2K5/8/8/8/8/1q6/R6B b - - 0 1", ""),
    ("7k/5K2/6Q1/7b/8/8/8/8 w - - 0 1", ""),  # a pinned queen would mate on g7
    ("4R1k1/5ppp/8/8/8/8/8/4K3 b - - 0 1", ""),
]


@kernel
def find_mates(T: Any, words: Any, found: Any) -> None:
    """Fills the place of the first move that mates, -1 for none, for positions `uint64[R * 10]`."""
    moves, replies, child = zeros(uint16, ROOM), zeros(uint16, ROOM), zeros(uint64, PW)
    for i in range(found.size):
        s = ptr(words, i * PW)
        n = generate_moves(ptr(T, 0), s, moves)
        found[i] = mate_in_one(ptr(T, 0), s, moves, n, child, replies)


def by_kernel(boards: list[chess.Board]) -> list[chess.Move | None]:
    found = np.zeros(len(boards), np.int64)
    find_mates(load_tables(), np.concatenate([pack(board) for board in boards]), found)
    return [legal_moves(board)[k] if k >= 0 else None for board, k in zip(boards, found, strict=True)]


def mates(board: chess.Board) -> list[chess.Move]:
    """Returns the moves that mate, by python-chess, in canonical order."""
    found = []
    for move in legal_moves(board):
        board.push(move)
        if board.is_checkmate():
            found.append(move)
        board.pop()
    return found


def scattered(rng: random.Random) -> chess.Board:
    """Returns a legal position of men anywhere, with pawns near promotion: full of checks and pins."""
    while True:
        board = chess.Board(None)
        squares = rng.sample(range(64), rng.randint(4, 14))
        for square, piece in zip(squares, "Kk" + "".join(rng.choices("QRBNPPqrbnpp", k=12)), strict=False):
            if piece not in "Pp" or 8 <= square < 56:
                board.set_piece_at(square, chess.Piece.from_symbol(piece))
        board.turn = rng.random() < 0.5
        if board.is_valid():
            return board


def crowded(rng: random.Random) -> chess.Board:
    """Returns a position where castling or en passant is legal beside a bare king."""
    while True:
        board = chess.Board(None)
        if rng.random() < 0.5:
            board.set_fen("8/8/8/8/8/8/8/4K2R w K - 0 1")
        else:
            file = rng.randrange(7)
            board.set_piece_at(32 + file, chess.Piece.from_symbol("p"))
            board.set_piece_at(33 + file, chess.Piece.from_symbol("P"))
            board.ep_square = 40 + file
            board.set_piece_at(rng.randrange(32), chess.Piece.from_symbol("K"))
        for symbol in "k" + "".join(rng.choices("QQRRBN", k=rng.randint(2, 4))) + "p" * rng.randrange(3):
            square = rng.randrange(16, 64) if symbol in "kp" else rng.randrange(64)
            if board.piece_at(square) is None and not (symbol == "p" and square >= 56):
                board.set_piece_at(square, chess.Piece.from_symbol(symbol))
        if board.is_valid() and (board.has_castling_rights(chess.WHITE) or board.has_legal_en_passant()):
            return board


def assert_same(boards: list[chess.Board]) -> int:
    """Asserts that kernel and python-chess agree; returns how many positions have a mate in one."""
    count = 0
    for board, found in zip(boards, by_kernel(boards), strict=True):
        wanted = mates(board)
        assert found == (wanted[0] if wanted else None), board.fen()
        count += bool(wanted)
    return count


@pytest.mark.parametrize(("fen", "move"), KINDS)
def test_every_kind_of_mate_in_one_is_seen(fen: str, move: str) -> None:
    board = board_of(fen)
    assert_same([board])
    if move:
        assert [found.uci() for found in mates(board)] == [move]


def test_mates_in_one_are_those_of_python_chess_where_men_stand_anywhere() -> None:
    rng = random.Random(3)
    boards = [board for board in (scattered(rng) for _ in range(200)) if any(board.legal_moves)]
    assert assert_same(boards) > 5


def test_mates_in_one_are_those_of_python_chess_with_castling_and_en_passant() -> None:
    rng = random.Random(4)
    boards = [crowded(rng) for _ in range(250)]
    special = [
        move
        for board in boards
        for move in mates(board)
        if board.is_castling(move) or board.is_en_passant(move)
    ]
    assert assert_same(boards) > 15
    assert special
