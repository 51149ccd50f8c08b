"""Chooses a reasonable legal move at once, without a search."""

from __future__ import annotations

from collections.abc import Collection, Set

import chess

MATE, DRAW = 1000.0, 500.0  # pawns
CENTRE = 0.01  # pawns for each step towards the centre, to choose among equals
WORTH = {chess.PAWN: 1, chess.KNIGHT: 3, chess.BISHOP: 3, chess.ROOK: 5, chess.QUEEN: 9, chess.KING: 0}


def quick_move(
    board: chess.Board, listed: Collection[chess.Move] = (), drawing: Set[chess.Move] = frozenset()
) -> chess.Move | None:
    """Returns a legal move, None if there is none: a mate, else the move with the largest gain of material.

    Args:
      listed: the moves to choose from; none: all.
      drawing: moves that draw the game; only the side with less material prefers them.

    >>> quick_move(chess.Board("6k1/5ppp/8/8/8/8/5PPP/3R2K1 w - - 0 1"))
    Move.from_uci('d1d8')
    """
    moves = [move for move in board.legal_moves if not listed or move in listed]
    is_behind = sum(_men(board, kind) * worth for kind, worth in WORTH.items()) < 0
    draw = DRAW if is_behind else -DRAW
    return max(moves, key=lambda move: _gain(board, move) + draw * (move in drawing), default=None)


def _men(board: chess.Board, kind: chess.PieceType) -> int:
    """Returns the number of own men of a kind less the opponent's."""
    return len(board.pieces(kind, board.turn)) - len(board.pieces(kind, not board.turn))


def _gain(board: chess.Board, move: chess.Move) -> float:
    """Returns the gain of a move in pawns, at most one capture deep."""
    mover = board.piece_type_at(move.from_square) or chess.PAWN
    taken = chess.PAWN if board.is_en_passant(move) else board.piece_type_at(move.to_square)
    gain = float(WORTH[taken] if taken and not board.is_castling(move) else 0)
    if move.promotion:
        mover, gain = move.promotion, gain + WORTH[move.promotion] - 1
    hung = WORTH[mover] if board.is_attacked_by(not board.turn, move.to_square) else 0
    board.push(move)
    mates = board.is_checkmate()
    board.pop()
    return MATE if mates else gain - hung - CENTRE * chess.square_distance(move.to_square, chess.E4)
