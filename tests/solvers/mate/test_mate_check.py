"""The check of claimed mates: it plays out every defence, and refutes what is no mate."""

from __future__ import annotations

import chess
import pytest

from graphsearch.solvers.mate.check import MateRefutedError, check_mate

from ...support.mates import mates_within
from ...support.positions import after_line

MORPHY = "kbK5/pp6/1P6/8/8/8/8/R7 w - - 0 1"


def by_trying(board: chess.Board, plies: int) -> chess.Move | None:
    """Returns an attacker's move that mates within so many plies, found by trying everything."""
    for move in board.legal_moves:
        board.push(move)
        mated = mates_within(board, plies - 1, attacks=False)
        board.pop()
        if mated is not None:
            return move
    return None


def test_a_sound_claim_stands_with_its_longest_defence() -> None:
    found = check_mate(chess.Board(MORPHY), 2, by_trying)
    assert found.plies == len(found.line) == 3
    assert found.line[0].uci() == "a1a6"
    assert found.positions > 10
    assert found.as_dict() == {"plies": 3, "positions": found.positions}


def test_a_claim_against_the_side_to_move_stands() -> None:
    assert check_mate(after_line("Ra6", MORPHY), -1, by_trying).plies == 2


def test_a_mate_on_the_board_is_a_claim_too() -> None:
    assert check_mate(chess.Board("7k/6Q1/6K1/8/8/8/8/8 b - - 0 1"), 0, by_trying).plies == 0
    with pytest.raises(MateRefutedError, match="no mate on the board"):
        check_mate(chess.Board(), 0, by_trying)


@pytest.mark.parametrize(
    ("fen", "moves", "move", "reason"),
    [
        (MORPHY, 1, "a1a6", "lasts longer"),
        (MORPHY, 2, "a1a5", "attacker has no move|lasts longer"),
        (MORPHY, 2, "a1a8", "attacker has no move"),
        ("7k/8/6K1/8/8/8/8/5Q2 w - - 0 1", 1, "f1f7", "stalemate"),
        ("7k/8/5K2/8/8/8/8/6RR w - - 99 90", 1, "g1g8", "50 moves|lasts longer"),
        ("6bk/8/5K2/8/8/8/8/B7 w - - 0 1", 3, "f6f7", "lasts longer|dead|attacker"),
    ],
)
def test_a_wrong_claim_is_refuted_with_its_line(fen: str, moves: int, move: str, reason: str) -> None:
    def attack(board: chess.Board, plies: int) -> chess.Move:
        return chess.Move.from_uci(move)

    with pytest.raises(MateRefutedError, match=reason) as refuted:
        check_mate(chess.Board(fen), moves, attack)
    board = chess.Board(fen)
    for step in refuted.value.line:
        board.push(step)


def test_fifty_moves_on_the_way_refute() -> None:
    board = chess.Board(MORPHY.replace(" 0 1", " 98 90"))
    with pytest.raises(MateRefutedError, match="50 moves"):
        check_mate(board, 2, by_trying)
    assert check_mate(chess.Board(MORPHY.replace(" 0 1", " 97 90")), 2, by_trying).plies == 3


def test_a_third_repetition_on_the_way_refutes() -> None:
    board = after_line("Ra6 Bh2 Ra1 Bb8 Ra6 Bh2 Ra1 Bb8", MORPHY)
    with pytest.raises(MateRefutedError, match="third time"):
        check_mate(board, 2, by_trying)
