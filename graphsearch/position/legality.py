"""Checks that a Board is a legal position of standard chess or Chess960."""

from __future__ import annotations

import chess

from ..base.errors import InvalidPositionError
from .words import MOST_PAWNS


def check_rules(board: chess.Board, given: str = "") -> None:
    """Checks that a position is legal chess; raises InvalidPositionError with the reasons if not.

    Args:
      given: the FEN as the user wrote it, for the message.
    """
    check_type(board)
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


def check_type(board: object) -> None:
    """Checks that a position from a caller is a Board; raises InvalidPositionError if not."""
    if not isinstance(board, chess.Board):
        raise InvalidPositionError(
            f"the position must be a chess.Board, not {type(board).__name__}; use read_position(text).board"
        )


def fen_as_claimed(board: chess.Board) -> str:
    """Returns the FEN of a board with all its castling rights, impossible ones too.

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
    """Returns whether each of a side's pieces can be an original one or a promoted pawn.

    No move turns a True into a False. The check bounds the number of moves: with fifteen queens, records and
    kernel buffers would be too small (tests/position/test_board.py).
    """
    own = board.occupied_co[colour]
    pieces = ((board.queens, 1), (board.rooks, 2), (board.bishops, 2), (board.knights, 2))
    promoted = sum(max(0, (men & own).bit_count() - first) for men, first in pieces)
    return promoted + (board.pawns & own).bit_count() <= MOST_PAWNS


def _reason(status: chess.Status) -> str:
    return (status.name or "invalid").lower().replace("_", " ")
