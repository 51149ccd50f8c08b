"""Chess960 against python-chess, published counts and Stockfish's: moves, keys, FENs, castling."""

from __future__ import annotations

import os
import random
from pathlib import Path

import chess
import chess.polyglot
import pytest

from graphsearch.base.errors import InvalidPositionError
from graphsearch.position.board import (
    board_of,
    chess960_start,
    decode_move,
    encode_move,
    fen_of,
    is_chess960,
    key_of,
    legal_moves,
    pack,
    terminal_kind,
    unpack,
)
from graphsearch.position.chess960 import settled
from graphsearch.position.fens import fens, read_lines
from graphsearch.position.notation import read_position
from graphsearch.position.rules_kernel import perft
from graphsearch.position.tables import load_tables

from ..support.positions import after, listed

# GRAPHSEARCH_FULL=1 counts all 960 start positions and plays sixty times as many games
FULL = bool(os.environ.get("GRAPHSEARCH_FULL"))
GAMES, EVERY = (600, 1) if FULL else (10, 16)

PUBLISHED = [  # the chess programming wiki's Chess960 perft results, depths 1 to 5
    ("bqnb1rkr/pp3ppp/3ppn2/2p5/5P2/P2P4/NPP1P1PP/BQ1BNRKR w HFhf - 2 9", (21, 528, 12189, 326672, 8146062)),
    ("2nnrbkr/p1qppppp/8/1ppb4/6PP/3PP3/PPP2P2/BQNNRBKR w HEhe - 1 9", (21, 807, 18002, 667366, 16253601)),
    ("b1q1rrkb/pppppppp/3nn3/8/P7/1PPP4/4PPPP/BQNNRKRB w GE - 1 9", (20, 479, 10471, 273318, 6417013)),
    ("qbbnnrkr/2pp2pp/p7/1p2pp2/8/P3PP2/1PPP1KPP/QBBNNR1R w hf - 0 9", (22, 593, 13440, 382958, 9183776)),
    (
        "1nbbnrkr/p1p1ppp1/3p4/1p3P1p/3Pq2P/8/PPP1P1P1/QNBBNRKR w HFhf - 0 9",
        (28, 1120, 31058, 1171749, 34030312),
    ),
    (
        "qnbnr1kr/ppp1b1pp/4p3/3p1p2/8/2NPP3/PPP1BPPP/QNB1R1KR w HEhe - 1 9",
        (29, 899, 26578, 824055, 24851983),
    ),
    ("qbn1brkr/ppp1p1p1/2n4p/3p1p2/P7/6PP/QPPPPP2/1BNNBRKR w HFhf - 0 9", (25, 635, 17054, 465806, 13203304)),
    (
        "qnnbbrkr/1p2ppp1/2pp3p/p7/1P5P/2NP4/P1P1PPP1/Q1NBBRKR w HFhf - 0 9",
        (24, 572, 15243, 384260, 11110203),
    ),
    ("qnr1bkrb/pppp2pp/3np3/5p2/8/P2P2P1/NPP1PP1P/QN1RBKRB w GDg - 3 9", (33, 823, 26895, 713420, 23114629)),
    (
        "qb1nrkbr/1pppp1p1/1n3p2/p1B4p/8/3P1P1P/PPP1P1P1/QBNNRK1R w HEhe - 0 9",
        (31, 855, 25620, 735703, 21796206),
    ),
]

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
    (
        "4k3/8/8/8/8/8/8/RR2K2R w BH - 0 1",
        "e1b1 e1h1",
    ),  # the inner rook: the right at home is written likewise
    ("4k3/8/8/8/8/8/8/RR2K2R w AH - 0 1", "e1g1"),  # both at home: standard; b1 is in the way
]


HALF_AT_HOME = [  # start positions with the king and one rook at home: castling may become standard
    number
    for number in range(960)
    for rank in [chess.Board.from_chess960_pos(number).board_fen()[:8]]
    if rank[4] == "k" and (rank[0] == "r") != (rank[7] == "r")
]


def castlings(board: chess.Board) -> str:
    """Returns the castling moves that the kernels list, sorted."""
    moves = map(decode_move, listed(pack(board))[0].tolist())
    return " ".join(sorted(move.uci() for move in moves if board.is_castling(move)))


@pytest.mark.parametrize(("fen", "moves"), CORNERS_OF_THE_RULES)
def test_castling_is_legal_where_python_chess_says_so(fen: str, moves: str) -> None:
    board = board_of(fen)
    oracle = chess.Board(fen, chess960=True)
    assert castlings(board) == moves
    assert len(moves.split()) == sum(oracle.is_castling(move) for move in oracle.legal_moves)


def check_position(board: chess.Board, oracle: chess.Board) -> list[chess.Move]:
    """Compares a position with python-chess's; returns its legal moves."""
    words = pack(board)
    codes, kind = listed(words)
    assert int(words[9]) == chess.polyglot.zobrist_hash(oracle)
    assert board.chess960 == is_chess960(words) == oracle.has_chess960_castling_rights()
    assert fen_of(board) == fen_of(oracle)
    assert fens(words.reshape(1, 10)) == [fen_of(unpack(words.tolist()))]
    assert fen_of(unpack(words.tolist())).split()[:5] == fen_of(oracle).split()[:5]
    moves = [decode_move(code) for code in codes.tolist()]
    assert moves == legal_moves(board)
    assert {oracle.parse_uci(board.uci(move)) for move in moves} == set(oracle.legal_moves)
    assert kind == terminal_kind(oracle)
    return moves


def test_random_games_are_those_of_python_chess() -> None:
    chance, castled, mixed = random.Random(3), 0, 0
    for game in range(GAMES):
        number = chance.choice(HALF_AT_HOME) if game % 2 else chance.randrange(960)
        board, oracle = chess960_start(number), chess.Board.from_chess960_pos(number)
        for _ in range(50):
            moves = check_position(board, oracle)
            if not moves:
                break
            some = [move for move in moves if board.is_castling(move)]
            move = chance.choice(some if some and chance.random() < 0.4 else moves)
            child = after(pack(board), encode_move(move))
            castled += move in some
            mixed += oracle.chess960 and not board.chess960 and bool(board.castling_rights)
            san = board.san(move)
            assert san == oracle.san(oracle.parse_san(san))
            board.push(move)
            oracle.push_san(san)
            assert child.tolist() == pack(board).tolist() == pack(oracle).tolist(), board.fen()
        while board.move_stack:
            board.pop()
            oracle.pop()
        assert fen_of(board) == fen_of(oracle)
        assert board.chess960 == oracle.has_chess960_castling_rights()
    assert castled > GAMES / 4
    assert mixed


@pytest.mark.parametrize(("fen", "counts"), PUBLISHED)
def test_perft_counts_are_the_published_ones(fen: str, counts: tuple[int, ...]) -> None:
    words = pack(board_of(fen))
    assert [perft(load_tables(), words, d + 1) for d in range(len(counts))] == list(counts)


def test_perft_of_the_start_positions_is_stockfishs() -> None:
    text = (Path(__file__).parent / "chess960.perft").read_text()
    rows = [[int(x) for x in line.split()] for line in text.splitlines()[1:]]
    assert [number for number, _ in rows] == list(range(960))
    for number, count in rows[::EVERY]:
        assert perft(load_tables(), pack(chess960_start(number)), 4) == count, number


def test_a_position_at_home_is_the_standard_one_wherever_it_comes_from() -> None:
    standard = pack(chess.Board()).tolist()
    shredder = chess.STARTING_FEN.replace("KQkq", "HAha")
    boards = [chess.Board.from_chess960_pos(518), board_of(shredder), read_position("chess960:518").board]
    for board in [*boards, settled(boards[0])]:
        assert pack(board).tolist() == standard
        assert key_of(board) == chess.polyglot.zobrist_hash(chess.Board())
    assert [move.uci() for move in legal_moves(settled(boards[0]))] == [
        move.uci() for move in legal_moves(chess.Board())
    ]


@pytest.mark.parametrize("text", ["rkbbqrnn w KQkq", "rkbbqrnn w FAfa"])
def test_both_spellings_of_castling_are_one_position_written_as_x_fen(text: str) -> None:
    men, turn, rights = text.split()
    board = board_of(f"{men}/pppppppp/8/8/8/8/PPPPPPPP/{men.upper()} {turn} {rights} - 0 1")
    assert board.fen().split()[2] == "KQkq"
    assert pack(board).tolist() == pack(chess.Board(board.fen(), chess960=True)).tolist()


def test_which_rook_may_castle_makes_another_position() -> None:
    inner, outer = (board_of(f"4k3/8/8/8/8/8/8/RR2K3 w {right} - 0 1") for right in "BA")
    assert inner.fen().split()[2] == "B"
    assert outer.fen().split()[2] == "Q"
    assert key_of(inner) == key_of(outer)  # Polyglot's knows no files
    assert pack(inner).tolist() != pack(outer).tolist()


def test_many_lines_are_read_as_one_by_one() -> None:
    lines = [board_of(fen).epd().encode() for fen, _ in (*PUBLISHED, *CORNERS_OF_THE_RULES)]
    refused: list[InvalidPositionError] = []
    words, _ = read_lines(
        [*lines, b"rkbbqrnn/pppppppp/8/8/8/8/PPPPPPPP/RKBBQRNN w FAfa -"],
        1,
        lambda _, error: refused.append(error),
    )
    assert refused == []
    want = [pack(board_of(line.decode() + " 0 1")).tolist() for line in lines]
    assert words.tolist() == [*want, pack(chess960_start(int(_number("RKBBQRNN")))).tolist()]


def _number(rank: str) -> str:
    board = chess.Board(f"{rank.lower()}/pppppppp/8/8/8/8/PPPPPPPP/{rank} w KQkq - 0 1", chess960=True)
    return str(board.chess960_pos())


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("chess960:960", "0 to 959"),
        ("4k3/8/8/8/8/8/8/R3K3 w K - 0 1", "bad castling rights.*: '4k3/8/8/8/8/8/8/R3K3 w K - 0 1"),
        ("4k3/8/8/8/8/8/8/4K1RR w E - 0 1", "bad castling rights.* w E - "),
        ("4k3/8/8/8/8/4K3/8/R7 w A - 0 1", "bad castling rights"),
    ],
)
def test_what_is_no_position_of_chess960_is_refused(text: str, problem: str) -> None:
    with pytest.raises(InvalidPositionError, match=problem):
        read_position(text)
