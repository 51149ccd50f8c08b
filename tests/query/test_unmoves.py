"""Moves taken back: what leads to a position, and nothing else."""

from __future__ import annotations

import random

import chess
import pytest

from graphsearch.position.board import board_of, key_of, pack
from graphsearch.query.parents import predecessors
from graphsearch.query.source import after
from graphsearch.store.record import identities

from ..store.records import STARTS

SPECIAL = (  # position, move: each kind of move, with what it takes along
    ("r3k2r/8/8/8/8/8/8/R3K2R w KQkq - 0 1", "e1g1"),
    ("r3k2r/8/8/8/8/8/8/R3K2R b KQkq - 0 1", "e8c8"),
    ("rnbqkbnr/ppp1p1pp/8/3pPp2/8/8/PPPP1PPP/RNBQKBNR w KQkq f6 0 3", "e5f6"),
    ("4k3/8/8/8/3pP3/8/8/4K3 b - e3 0 1", "e8e7"),
    ("1n2k3/P7/8/8/8/8/8/4K3 w - - 0 1", "a7b8n"),
    ("4k3/8/8/8/8/8/1p6/N3K3 b - - 0 1", "b2a1r"),
    ("4k3/8/8/8/8/8/4P3/4K3 w - - 70 160", "e2e4"),
    ("4k3/8/8/8/8/8/4P3/4K3 w - - 75 160", "e1d1"),
    ("4k3/8/8/8/8/8/4P3/4K3 w - - 83 160", "e1d1"),
    ("5k2/8/8/8/8/8/8/1R3K1R w HB - 0 1", "f1b1"),
    ("1r3kr1/8/8/8/8/8/8/R3K3 b Qgb - 0 1", "f8g8"),
    ("1r3kr1/8/8/8/8/8/8/RR2K3 w Bgb - 0 1", "b1b8"),
)


def place_of(board: chess.Board) -> tuple[int, ...]:
    """Returns what tells positions apart."""
    return tuple(identities(pack(board).reshape(1, -1))[0].tolist())


def is_among(before: chess.Board, move: chess.Move, found: list[tuple[chess.Board, chess.Move]]) -> bool:
    place = place_of(before)
    return any(its == move and place_of(board) == place for board, its in found)


@pytest.mark.parametrize(("fen", "uci"), SPECIAL)
def test_every_kind_of_move_can_be_taken_back(fen: str, uci: str) -> None:
    before, move = board_of(fen), chess.Move.from_uci(uci)
    assert before.is_legal(move)
    assert is_among(before, move, list(predecessors(after(before, move))))


def random_moves(seed: int, games: int, plies: int) -> list[tuple[chess.Board, chess.Move]]:
    """Returns positions of random games with a move each; rare kinds of moves are preferred."""
    rng = random.Random(seed)
    found = []
    for number in range(games):
        board = board_of(STARTS[number % len(STARTS)])
        for _ in range(plies):
            moves = list(board.legal_moves)
            if not moves:
                break
            rare = [m for m in moves if board.is_en_passant(m) or board.is_castling(m) or m.promotion]
            move = rng.choice(rare if rare and rng.random() < 0.5 else moves)
            if rare or rng.random() < 0.15:
                found.append((board.copy(stack=False), move))
            board.push(move)
    return found


def test_what_is_taken_back_is_legal_leads_here_and_comes_once() -> None:
    for before, move in random_moves(3, 6, 40)[::31]:
        board = after(before, move)
        found = list(predecessors(board))
        assert is_among(before, move, found)
        for parent, its in found:
            assert parent.is_valid()
            assert parent.is_legal(its)
            assert key_of(after(parent, its)) == key_of(board), (parent.fen(), its)
        ways = [(place_of(parent), its) for parent, its in found]
        assert len(ways) == len(set(ways))


def test_above_75_the_clock_tells_what_came_before() -> None:
    quiet = chess.Board("4k3/8/8/8/8/8/4P3/3K4 b - - 84 160")
    assert {board.halfmove_clock for board, _ in predecessors(quiet)} == {83}
    just_above = chess.Board("4k3/8/8/8/8/8/4P3/3K4 b - - 76 160")
    assert {board.halfmove_clock for board, _ in predecessors(just_above)} == {0}
