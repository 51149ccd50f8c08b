"""Board kernels against python-chess: moves, keys, verdicts, perft, mates in one, Chess960."""

from __future__ import annotations

import os
import random
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import chess
import chess.pgn
import chess.polyglot
import numpy as np
import pytest

from graphsearch.base.errors import InvalidPositionError
from graphsearch.jit.compiler import kernel
from graphsearch.jit.pointers import ptr, zeros
from graphsearch.jit.types import uint16, uint64
from graphsearch.position import board as packed
from graphsearch.position.board_kernel import MAX_LEGAL_MOVES, PW, generate_moves, mate_in_one, perft
from graphsearch.position.notation import read_position
from graphsearch.position.tables import load_tables
from graphsearch.store.record_kernel import CAPACITIES
from tests.conftest import present, shared_data
from tests.support.positions import after, listed
from tests.support.positions import mate_in_one as first_mate

# GRAPHSEARCH_FULL=1 compares 40,000 positions, which takes some minutes, and all 960 start positions
FULL = bool(os.environ.get("GRAPHSEARCH_FULL"))
GAMES, EVERY = (1000, 1) if FULL else (30, 16)

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
    # the chess programming wiki's results of Chess960
    ("bqnb1rkr/pp3ppp/3ppn2/2p5/5P2/P2P4/NPP1P1PP/BQ1BNRKR w HFhf - 2 9", (21, 528, 12189, 326672, 8146062)),
    ("b1q1rrkb/pppppppp/3nn3/8/P7/1PPP4/4PPPP/BQNNRKRB w GE - 1 9", (20, 479, 10471, 273318, 6417013)),
    ("qbbnnrkr/2pp2pp/p7/1p2pp2/8/P3PP2/1PPP1KPP/QBBNNR1R w hf - 0 9", (22, 593, 13440, 382958, 9183776)),
    ("qbn1brkr/ppp1p1p1/2n4p/3p1p2/P7/6PP/QPPPPP2/1BNNBRKR w HFhf - 0 9", (25, 635, 17054, 465806, 13203304)),
]

ODD_STARTS = [
    "8/8/8/3k4/8/8/1B2K1N1/8 w - - 0 1",
    "8/6B1/8/3k4/8/2b5/4K3/8 w - - 70 90",
    "4k3/P6P/8/8/8/8/p6p/4K3 w - - 0 1",
    "r3k2r/8/8/8/8/8/8/R3K2R w KQkq - 90 100",
    "8/2k5/8/3pP3/8/8/3K4/8 w - d6 0 2",
    "8/6bb/8/8/R1pP2k1/4P3/P7/K7 b - d3 0 1",
]


@pytest.mark.parametrize(("fen", "counts"), PERFT)
def test_perft_counts_are_the_published_ones(fen: str, counts: tuple[int, ...]) -> None:
    words = packed.pack(packed.board_of(fen)).reshape(1, -1)
    assert [perft(words, d + 1) for d in range(len(counts))] == list(counts)
    assert perft(words, 0) == 1


def test_perft_file_of_tricky_positions() -> None:
    lines = shared_data("data/tricky.perft").read_text().splitlines()
    rows = [line.split() for line in lines if line and not line.startswith("#")]
    board, checked = None, 0
    for row in rows:
        if row[0] == "epd":
            board = packed.board_of(" ".join(row[1:5]) + " 0 1")
            if not board.is_valid():  # an impossible check
                board = None
        elif row[0] == "perft" and board is not None and int(row[2]) < 3_000_000:
            assert perft(packed.pack(board).reshape(1, -1), int(row[1])) == int(row[2]), board.fen()
            checked += 1
    assert checked > 20


@pytest.mark.parametrize("clock", [0, 75, 76, 99, 100, 149, 300])
def test_the_key_holds_the_clock_only_above_75(clock: int) -> None:
    board = chess.Board(f"8/8/4k3/8/8/4K3/4P3/R6r w - - {clock} 80")
    assert (packed.key_of(board) == chess.polyglot.zobrist_hash(board)) == (clock <= 75)
    assert packed.key_of_words(packed.pack(board)) == packed.key_of(board)
    kept = packed.unpack(packed.pack(board).tolist()).halfmove_clock
    assert (kept, packed.fen_of(board).split()[4]) == (min(clock, 255), str(kept))


# ------------------------------------------------------------------ how many moves a position can have
MOST = 253  # moves of any position that is let in, by the linear program of its men; 218 are known


def test_every_buffer_holds_more_moves_than_any_position_has() -> None:
    assert MOST < packed.MAX_MOVES < MAX_LEGAL_MOVES <= CAPACITIES[-1]


@pytest.mark.parametrize(
    ("fen", "problem"),
    [
        (
            "2QQ2Q1/Q4Q2/3Q3Q/1k6/4Q3/2Q4Q/Q4Q2/1KQQ2Q1 w - - 0 1",
            "white has more promoted pieces",
        ),  # 248 moves
        ("qqqqqqqq/qq6/8/8/8/8/8/K1k5 w - - 0 1", "black has more promoted pieces than pawns"),
        ("4k3/8/8/8/8/NNN5/PPPPPPPP/4K3 w - - 0 1", "white has more promoted pieces than pawns"),
        ("R6R/3Q4/1Q4Q1/4Q3/2Q4Q/Q4Q2/pp1Q4/kBNN1KB1 w - - 0 1", ""),  # nine queens, 218 moves
        ("4k3/8/8/8/8/NNN5/PPPPPPP1/4K3 w - - 0 1", ""),
    ],
)
def test_pieces_need_pawns_that_are_gone(fen: str, problem: str) -> None:
    with pytest.raises(InvalidPositionError, match=problem) if problem else nullcontext():
        packed.check(chess.Board(fen))


# ------------------------------------------------------------------ mates in one
KINDS = [  # a mate of every kind, and what only looks like one
    ("6k1/5ppp/8/8/8/8/5PPP/3R2K1 w - - 0 1", "d1d8"),
    ("4R3/8/8/8/8/5k1P/7P/4K2R w K - 0 1", "e1g1"),  # castling
    ("4R3/8/8/8/8/5k1P/7P/5KR1 w G - 0 1", "f1g1"),  # castling of Chess960: king and rook swap
    ("4R3/8/8/8/8/5k1P/7P/3K3R w H - 0 1", "d1h1"),
    ("8/1P4Q1/k7/1R3K2/3N4/8/8/3q4 w - - 0 1", "b7b8n"),  # underpromotion
    ("1r6/8/2k1K3/2Pp4/R2Pp3/8/8/1QRB4 w - d6 0 1", "c5d6"),  # en passant
    ("6Q1/3k4/4R3/1pP5/B7/8/1K6/8 w - b6 0 1", "c5b6"),  # the pawn that is taken stood in the way
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
    moves, replies, child = zeros(uint16, MAX_LEGAL_MOVES), zeros(uint16, MAX_LEGAL_MOVES), zeros(uint64, PW)
    for i in range(found.size):
        s = ptr(words, i * PW)
        n = generate_moves(ptr(T, 0), s, moves)
        found[i] = mate_in_one(ptr(T, 0), s, moves, n, child, replies)


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


def assert_same(boards: list[chess.Board]) -> int:
    """Asserts that kernel and python-chess agree; returns how many positions have a mate in one."""
    found = np.zeros(len(boards), np.int64)
    find_mates(load_tables(), np.concatenate([packed.pack(board) for board in boards]), found)
    for board, place in zip(boards, found.tolist(), strict=True):
        first = first_mate(board)
        assert place == (-1 if first is None else first), board.fen()
    return int((found >= 0).sum())


@pytest.mark.parametrize(("fen", "move"), KINDS)
def test_every_kind_of_mate_in_one_is_seen(fen: str, move: str) -> None:
    board = packed.board_of(fen)
    found = assert_same([board])
    assert not move or (found, packed.legal_moves(board)[first_mate(board) or 0].uci()) == (1, move)


def test_mates_in_one_are_those_of_python_chess() -> None:
    rng = random.Random(3)
    boards = [board for board in (scattered(rng) for _ in range(200)) if any(board.legal_moves)]
    assert assert_same(boards) > 5


# ------------------------------------------------------------------ chess960
CORNERS_OF_THE_RULES = [  # FEN, the castling moves of the side to move
    ("1rk5/8/8/8/8/8/8/1R4KR w H - 0 1", "g1h1"),  # the king stays
    ("1rk5/8/8/8/8/8/8/1R2KR2 w F - 0 1", "e1f1"),  # the rook stays
    ("1rk5/8/8/8/8/8/8/1R3RK1 w F - 0 1", "g1f1"),  # across the board
    ("1rk5/8/8/8/8/8/8/1R4RK w G - 0 1", "h1g1"),
    ("2k5/8/8/8/8/8/8/RK6 w A - 0 1", "b1a1"),  # to the right, on the queen's side
    ("3k4/8/8/8/8/8/8/5KR1 w G - 0 1", "f1g1"),  # they swap
    ("3k4/8/8/8/8/8/8/r1R1K3 w C - 0 1", ""),  # the king would leave the rook's cover
    ("3k4/8/8/8/8/8/8/qRK5 w B - 0 1", ""),  # it would no longer: the king stays on c1, the rook leaves b1
    ("3k4/8/8/8/8/8/8/1RN1K3 w B - 0 1", ""),  # a man on the rook's way
    ("3k4/8/8/8/8/8/8/NR2K3 w B - 0 1", "e1b1"),  # one beyond it
    ("1r1k4/8/8/8/8/8/8/1R2K3 w B - 0 1", "e1b1"),  # only the rook is attacked
    ("3rk3/8/8/8/8/8/8/1R2K3 w B - 0 1", ""),  # a square of the king's way is
    ("4k3/8/8/8/8/8/8/RR2K2R w BH - 0 1", "e1b1 e1h1"),  # the inner rook: that at home is written likewise
    ("4k3/8/8/8/8/8/8/RR2K2R w AH - 0 1", "e1g1"),  # both at home: standard; b1 is in the way
]

HALF_AT_HOME = [  # start positions with the king and one rook at home: castling may become standard
    number
    for number in range(960)
    for rank in [chess.Board.from_chess960_pos(number).board_fen()[:8]]
    if rank[4] == "k" and (rank[0] == "r") != (rank[7] == "r")
]


@pytest.mark.parametrize(("fen", "moves"), CORNERS_OF_THE_RULES)
def test_castling_is_legal_where_python_chess_says_so(fen: str, moves: str) -> None:
    board = packed.board_of(fen)
    oracle = chess.Board(fen, chess960=True)
    found = map(packed.decode_move, listed(packed.pack(board))[0].tolist())
    assert " ".join(sorted(move.uci() for move in found if board.is_castling(move))) == moves
    assert len(moves.split()) == sum(oracle.is_castling(move) for move in oracle.legal_moves)


def check_position(board: chess.Board, oracle: chess.Board) -> list[chess.Move]:
    """Compares a position and what moves lead to with python-chess's; returns its legal moves."""
    words = packed.pack(board)
    codes, kind = listed(words)
    assert int(words[9]) == chess.polyglot.zobrist_hash(oracle)
    assert packed.key_of_words(words) == packed.key_of(board)
    assert board.chess960 == bool(int(words[packed.META]) & packed.CHESS960)
    assert board.chess960 == oracle.has_chess960_castling_rights()
    assert packed.fen_of(board) == packed.fen_of(oracle)
    assert packed.fens(words.reshape(1, 10)) == [packed.fen_of(packed.unpack(words.tolist()))]
    assert packed.fen_of(packed.unpack(words.tolist())).split()[:5] == packed.fen_of(oracle).split()[:5]
    moves = [packed.decode_move(code) for code in codes.tolist()]
    assert moves == packed.legal_moves(board)
    assert {oracle.parse_uci(board.uci(move)) for move in moves} == set(oracle.legal_moves)
    assert kind == packed.terminal_kind(oracle), board.fen()
    for move in moves[board.ply() % 6 :: 6]:
        child = after(words, packed.encode_move(move))
        board.push(move)
        assert child.tolist() == packed.pack(board).tolist(), (board.fen(), move.uci())
        board.pop()
    return moves


def test_positions_of_real_games_are_those_of_python_chess() -> None:
    with shared_data("data/8moves_v3_first8000.pgn").open() as file:
        for _ in range(2000 if FULL else 20):
            board = present(chess.pgn.read_game(file)).end().board()
            check_position(board, board)


def test_random_games_are_those_of_python_chess() -> None:
    chance, castled, mixed = random.Random(3), 0, 0
    for game in range(GAMES):
        number = chance.choice(HALF_AT_HOME) if game % 2 else chance.randrange(960)
        board, oracle = packed.chess960_start(number), chess.Board.from_chess960_pos(number)
        if game % 5 == 0:
            board, oracle = (chess.Board(ODD_STARTS[game // 5 % len(ODD_STARTS)]) for _ in range(2))
        for _ in range(50):
            moves = check_position(board, oracle)
            if not moves:
                break
            some = [move for move in moves if board.is_castling(move)]
            move = chance.choice(some if some and chance.random() < 0.4 else moves)
            castled += move in some
            mixed += oracle.chess960 and not board.chess960 and bool(board.castling_rights)
            san = board.san(move)
            assert san == oracle.san(oracle.parse_san(san))
            child = after(packed.pack(board), packed.encode_move(move))
            board.push(move)
            oracle.push_san(san)
            assert child.tolist() == packed.pack(board).tolist() == packed.pack(oracle).tolist(), board.fen()
        while board.move_stack:
            board.pop()
            oracle.pop()
        assert packed.fen_of(board) == packed.fen_of(oracle)
        assert board.chess960 == oracle.has_chess960_castling_rights()
    assert castled > GAMES / 4
    assert mixed


def test_perft_of_the_start_positions_is_stockfishs() -> None:
    text = (Path(__file__).parent / "chess960.perft").read_text()
    rows = [[int(x) for x in line.split()] for line in text.splitlines()[1:]]
    assert [number for number, _ in rows] == list(range(960))
    for number, count in rows[::EVERY]:
        assert perft(packed.pack(packed.chess960_start(number)).reshape(1, -1), 4) == count, number


@pytest.mark.parametrize("fen", [chess.STARTING_FEN, packed.chess960_start(0).fen()])
def test_a_clock_out_of_range_is_refused_in_one_line(fen: str) -> None:
    for name, value in (("halfmove_clock", -5), ("fullmove_number", -1)):
        board = chess.Board(fen, chess960=True)
        setattr(board, name, value)
        with pytest.raises(
            InvalidPositionError, match=rf"^(halfmove clock|move number) {value} is out of .*$"
        ):
            packed.check(packed.settled(board))
    with pytest.raises(InvalidPositionError, match=r"^half-move clock cannot be negative: .*$"):
        packed.board_of(fen.replace("0 1", "-5 1"))


def test_a_position_at_home_is_the_standard_one_wherever_it_comes_from() -> None:
    standard = packed.pack(chess.Board()).tolist()
    shredder = chess.STARTING_FEN.replace("KQkq", "HAha")
    boards = [
        chess.Board.from_chess960_pos(518),
        packed.board_of(shredder),
        read_position("chess960:518").board,
    ]
    for board in [*boards, packed.settled(boards[0])]:
        assert packed.pack(board).tolist() == standard
        assert packed.key_of(board) == chess.polyglot.zobrist_hash(chess.Board())
    assert [move.uci() for move in packed.legal_moves(packed.settled(boards[0]))] == [
        move.uci() for move in packed.legal_moves(chess.Board())
    ]
