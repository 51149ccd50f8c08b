"""Endings against a bare king: which positions they are, and that a search mates in them."""

from __future__ import annotations

import itertools

import chess
import numpy as np
import pytest
from numpy.typing import NDArray

from graphsearch import Graph, Limits, analyze
from graphsearch.evaluators.batch_kernel import bare_king_score
from graphsearch.evaluators.factory import create
from graphsearch.jit.compiler import kernel
from graphsearch.jit.pointers import ptr
from graphsearch.jit.types import int64
from graphsearch.position.board import pack
from graphsearch.position.scores import LEAST_MATE, LEAST_WON


@kernel
def score_of(s: NDArray[np.uint64]) -> int64:
    """Returns `bare_king_score` of a position."""
    return bare_king_score(ptr(s, 0))


def score(fen: str) -> int:
    """Returns `bare_king_score` of White to move, after a look at Black to move."""
    white, black = chess.Board(fen), chess.Board(fen)
    black.turn = chess.BLACK
    value = int(score_of(pack(white)))
    assert score_of(pack(black)) == score_of(pack(black.mirror())) == -value
    return value


def test_scores_stay_in_their_range() -> None:
    """Between the scores of networks and those of mates, wherever the kings stand."""
    for men in ("BN", "BB", "R", "QQQQ"):
        for king, bare in itertools.product(range(16, 64, 5), range(16, 64)):
            if chess.square_distance(king, bare) > 1:
                board = chess.Board(None)
                for k, man in enumerate(men):
                    board.set_piece_at(k, chess.Piece.from_symbol(man))
                board.set_piece_at(king, chess.Piece(chess.KING, chess.WHITE))
                board.set_piece_at(bare, chess.Piece(chess.KING, chess.BLACK))
                board.turn = chess.BLACK
                assert LEAST_WON <= -score_of(pack(board)) < LEAST_MATE


def test_bishop_and_knight_need_the_bishops_corner() -> None:
    dark, light = "k7/8/1K6/8/8/8/8/N1B5", "k7/8/1K6/8/8/8/8/NB6"
    assert score(light + " w - - 0 1") > score(dark + " w - - 0 1")


@pytest.mark.parametrize(
    "fen",
    [
        chess.STARTING_FEN,
        "8/8/8/4k3/8/8/8/K5NN w - - 0 1",
        "8/8/8/4k3/8/8/8/K6B w - - 0 1",
        "8/8/8/4k3/8/8/P7/K6R w - - 0 1",
        "8/8/8/4k3/4r3/8/8/K6Q w - - 0 1",
        "8/8/8/4k3/8/8/8/K7 w - - 0 1",
    ],
)
def test_other_positions_have_no_score(fen: str) -> None:
    assert score_of(pack(chess.Board(fen))) == 0


@pytest.mark.parametrize("men", ["R", "Q"])
def test_a_search_mates_a_bare_king(men: str) -> None:
    """The defender takes the reply that the search thinks best."""
    board = chess.Board(f"8/8/8/4k3/8/8/8/K6{men} w - - 0 1")
    with Graph.open(None, evaluator=create("builtin")) as graph:
        while not board.is_checkmate() and board.halfmove_clock < 100 and not board.is_repetition(3):
            move = analyze(graph, board, Limits(evaluations=1000, visits=20_000)).bestmove
            assert move is not None
            board.push(move)
    assert board.is_checkmate(), board.fen()
    assert board.turn == chess.BLACK
