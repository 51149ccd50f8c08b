"""Which Boards are let in: legal positions of standard chess and Chess960."""

from __future__ import annotations

import chess

from ..base.errors import InvalidPositionError
from .words import MOST_PAWNS


def check_rules(board: chess.Board, given: str = "") -> None:
    """Raises InvalidPositionError unless a position is legal; `given`: the FEN as the user wrote it."""
    if type(board).uci_variant != "chess":
        raise InvalidPositionError(
            f"only standard chess and Chess960 can be searched, not {type(board).uci_variant}"
        )
    status = board.status()
    if status != chess.STATUS_VALID:
        reasons = ", ".join(_reason(s) for s in chess.Status if s & status)
        raise InvalidPositionError(f"illegal position ({reasons}): {given or fen_as_claimed(board)}")
    for colour in chess.COLORS:
        if not _is_promotion_possible(board, colour):
            raise InvalidPositionError(
                f"illegal position ({chess.COLOR_NAMES[colour]} has more promoted pieces than pawns that are"
                f" gone): {given or fen_as_claimed(board)}"
            )


def fen_as_claimed(board: chess.Board) -> str:
    """Returns the FEN with the castling rights that it claims, impossible ones too.

    >>> fen_as_claimed(chess.Board("4k3/8/8/8/8/8/8/R3K3 w KQ - 0 1"))
    '4k3/8/8/8/8/8/8/R3K3 w KQ - 0 1'
    """
    pieces, turn, _, *rest = board.fen(en_passant="fen").split()
    claimed = sorted(chess.SquareSet(board.castling_rights), key=lambda square: (square > chess.H1, -square))
    letters = ["QBCDEFGK"[square % 8] for square in claimed]
    rights = "".join(
        s if square <= chess.H1 else s.lower() for s, square in zip(letters, claimed, strict=True)
    )
    return " ".join([pieces, turn, rights or "-", *rest])


def _is_promotion_possible(board: chess.Board, colour: chess.Color) -> bool:
    """Returns whether a side's pieces can all be those of the start or promoted pawns.

    No move changes that from yes to no. This bounds the number of moves: with fifteen queens a record and the
    buffers of the kernels would be too small (tests/position/test_material.py).
    """
    own = board.occupied_co[colour]
    pieces = ((board.queens, 1), (board.rooks, 2), (board.bishops, 2), (board.knights, 2))
    promoted = sum(max(0, (men & own).bit_count() - first) for men, first in pieces)
    return promoted + (board.pawns & own).bit_count() <= MOST_PAWNS


def _reason(status: chess.Status) -> str:
    return (status.name or "invalid").lower().replace("_", " ")
