"""Board kernels against python-chess: moves, order, keys, verdicts, perft, mates in one."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from typing import Any

import chess
import chess.pgn
import numpy as np
import pytest

from graphsearch.base.errors import InvalidPositionError
from graphsearch.jit.compiler import kernel
from graphsearch.jit.pointers import ptr, zeros
from graphsearch.jit.types import uint16, uint64
from graphsearch.position.board import (
    board_of,
    canonical_rank,
    check,
    decode_move,
    encode_move,
    key_of,
    key_of_words,
    legal_moves,
    pack,
    terminal_kind,
    unpack,
)
from graphsearch.position.board_kernel import PW, generate_moves
from graphsearch.position.mates_kernel import mate_in_one
from graphsearch.position.rules_kernel import MAX_LEGAL_MOVES, perft
from graphsearch.position.tables import load_tables
from graphsearch.store.record.node import MAX_MOVES
from graphsearch.store.record.node_layout import CAPACITIES
from tests.conftest import shared_data
from tests.support.positions import after, listed

# GRAPHSEARCH_FULL=1 compares 100,000 positions, which takes about a minute
POSITIONS = 100_000 if os.environ.get("GRAPHSEARCH_FULL") else 800

PERFT = [  # published counts
    (chess.STARTING_FEN, (20, 400, 8902, 197281, 4865609)),
    (
        "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1",
        (48, 2039, 97862, 4085603),
    ),
    ("8/2p5/3p4/KP5r/1R3p1k/8/4P1P1/8 w - - 0 1", (14, 191, 2812, 43238, 674624)),
    ("r3k2r/Pppp1ppp/1b3nbN/nP6/BBP1P3/q4N2/Pp1P2PP/R2Q1RK1 w kq - 0 1", (6, 264, 9467, 422333)),
    ("rnbq1k1r/pp1Pbppp/2p5/8/2B5/8/PPP1NnPP/RNBQK2R w KQ - 1 8", (44, 1486, 62379, 2103487)),
    ("r4rk1/1pp1qppp/p1np1n2/2b1p1B1/2B1P1b1/P1NP1N2/1PP1QPPP/R4RK1 w - - 0 10", (46, 2079, 89890, 3894594)),
]

ODD_STARTS = [
    "8/8/8/3k4/8/8/1B2K1N1/8 w - - 0 1",
    "8/6B1/8/3k4/8/2b5/4K3/8 w - - 70 90",
    "4k3/P6P/8/8/8/8/p6p/4K3 w - - 0 1",
    "r3k2r/8/8/8/8/8/8/R3K2R w KQkq - 90 100",
    "8/2k5/8/3pP3/8/8/3K4/8 w - d6 0 2",
    "8/6bb/8/8/R1pP2k1/4P3/P7/K7 b - d3 0 1",
]


def random_games(count: int, seed: int) -> Iterator[chess.Board]:
    """Yields the positions of random games, odd starts among them."""
    chance = random.Random(seed)
    while True:
        board = chess.Board() if chance.random() < 0.8 else chess.Board(chance.choice(ODD_STARTS))
        for _ in range(160):
            yield board
            count -= 1
            if count == 0:
                return
            moves = list(board.legal_moves)
            if not moves or board.is_insufficient_material():
                break
            board.push(chance.choice(moves))


def check_position(board: chess.Board) -> None:
    words = pack(board)
    codes, kind = listed(words)
    moves = [decode_move(code) for code in codes.tolist()]
    assert moves == legal_moves(board), board.fen()
    assert set(moves) == set(board.legal_moves), board.fen()
    assert kind == terminal_kind(board), board.fen()
    assert key_of_words(words) == key_of(board)
    for move in moves:
        child = after(words, encode_move(move))
        board.push(move)
        assert child.tolist() == pack(board).tolist(), (board.fen(), move.uci())
        board.pop()


def test_moves_keys_and_verdicts_are_those_of_python_chess_in_random_games() -> None:
    for board in random_games(POSITIONS // 12, seed=1):
        check_position(board)


def test_moves_keys_and_verdicts_are_those_of_python_chess_on_many_positions() -> None:
    for board in random_games(POSITIONS, seed=2):
        codes, kind = listed(pack(board))
        moves = [decode_move(code) for code in codes.tolist()]
        assert set(moves) == set(board.legal_moves)
        assert len(moves) == len(set(moves))
        assert kind == terminal_kind(board), board.fen()


def test_moves_and_keys_are_those_of_python_chess_in_real_games() -> None:
    with shared_data("data/8moves_v3_first8000.pgn").open() as file:
        for _ in range(20 if POSITIONS < 100_000 else 2000):
            game = chess.pgn.read_game(file)
            assert game is not None
            board = game.board()
            for move in game.mainline_moves():
                board.push(move)
            check_position(board)


@pytest.mark.parametrize(("fen", "counts"), PERFT)
def test_perft_counts_are_the_published_ones(fen: str, counts: tuple[int, ...]) -> None:
    words = pack(chess.Board(fen))
    assert [perft(load_tables(), words, d + 1) for d in range(len(counts))] == list(counts)
    assert perft(load_tables(), words, 0) == 1


def test_perft_file_of_tricky_positions() -> None:
    lines = shared_data("data/tricky.perft").read_text().splitlines()
    rows = [line.split() for line in lines if line and not line.startswith("#")]
    board, checked = None, 0
    for row in rows:
        if row[0] == "epd":
            board = board_of(" ".join(row[1:5]) + " 0 1")
            if not board.is_valid():  # an impossible check
                board = None
        elif row[0] == "perft" and board is not None and int(row[2]) < 3_000_000:
            assert perft(load_tables(), pack(board), int(row[1])) == int(row[2]), board.fen()
            checked += 1
    assert checked > 20


@pytest.mark.parametrize("clock", [0, 75, 76, 99, 100, 149])
def test_the_key_holds_the_clock_only_above_75(clock: int) -> None:
    board = chess.Board("8/8/4k3/8/8/4K3/4P3/R6r w - - 0 80")
    plain = key_of(board)
    board.halfmove_clock = clock
    assert (key_of(board) == plain) == (clock <= 75)
    assert key_of_words(pack(board)) == key_of(board)
    assert unpack(pack(board).tolist()).halfmove_clock == clock


def test_the_canonical_order_has_no_ties() -> None:
    for board in random_games(200, seed=3):
        ranks = [canonical_rank(board, move) for move in board.legal_moves]
        assert len(set(ranks)) == len(ranks), board.fen()


# ------------------------------------------------------------------ how many moves a position can have
FIFTEEN_QUEENS = "2QQ2Q1/Q4Q2/3Q3Q/1k6/4Q3/2Q4Q/Q4Q2/1KQQ2Q1 w - - 0 1"  # 248 moves
MOST = 253  # moves of any position that is let in, by the linear program of its men; 218 are known


def test_every_buffer_holds_more_moves_than_any_position_has() -> None:
    assert MOST < MAX_MOVES < MAX_LEGAL_MOVES <= CAPACITIES[-1]


@pytest.mark.parametrize(
    ("fen", "side"),
    [
        (FIFTEEN_QUEENS, "white"),
        ("qqqqqqqq/qq6/8/8/8/8/8/K1k5 w - - 0 1", "black"),
        ("4k3/8/8/8/8/8/PPPPPPPP/RNBQKBNQ w - - 0 1", "white"),
        ("4k3/8/8/8/8/NNN5/PPPPPPPP/4K3 w - - 0 1", "white"),
    ],
)
def test_more_promoted_pieces_than_pawns_that_are_gone_are_refused(fen: str, side: str) -> None:
    with pytest.raises(InvalidPositionError, match=f"{side} has more promoted pieces than pawns"):
        check(chess.Board(fen))


@pytest.mark.parametrize(
    "fen",
    [
        "R6R/3Q4/1Q4Q1/4Q3/2Q4Q/Q4Q2/pp1Q4/kBNN1KB1 w - - 0 1",  # nine queens, 218 moves
        "4k3/8/8/8/8/NNN5/PPPPPPP1/4K3 w - - 0 1",
        "4k3/8/8/8/8/NNNNNN2/NNNN4/4K3 w - - 0 1",
    ],
)
def test_as_many_promoted_pieces_as_pawns_are_gone_are_let_in(fen: str) -> None:
    check(chess.Board(fen))


# ------------------------------------------------------------------ mates in one
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
