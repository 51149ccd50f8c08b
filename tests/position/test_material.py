"""How many moves a position can have: what is let in fits every buffer, and what may not fit is refused."""

from __future__ import annotations

import chess
import pytest

from graphsearch.base.errors import InvalidPositionError
from graphsearch.position.board import check
from graphsearch.position.rules_kernel import MAX_LEGAL_MOVES
from graphsearch.store.record.node import MAX_MOVES
from graphsearch.store.record.node_layout import CAPACITIES

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
