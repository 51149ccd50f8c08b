"""What python-chess says of positions, remembered: tests meet the same ones again and again."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import chess
import chess.polyglot

from graphsearch.position import board as positions

MOST = 1 << 14  # positions that are remembered

_T = TypeVar("_T")


def _remembered(function: Callable[[chess.Board], _T]) -> Callable[[chess.Board], _T]:
    """Returns a function that is called once for each position, whatever its clock."""
    known: dict[object, _T] = {}

    def remembering(board: chess.Board) -> _T:
        men = (board.pawns, board.knights, board.bishops, board.rooks, board.queens, board.kings)
        state = (board.turn, board.castling_rights, board.ep_square, board.chess960)
        key = (men, board.occupied_co[chess.WHITE], state)
        if key not in known:
            if len(known) == MOST:
                known.clear()
            known[key] = function(board)
        return known[key]

    return remembering


@_remembered
def epd_of(board: chess.Board) -> str:
    """Returns the EPD of a position."""
    return board.epd()


@_remembered
def _hash_of(board: chess.Board) -> int:
    return chess.polyglot.zobrist_hash(board)


def key_of(board: chess.Board) -> int:
    """Returns the key of a position, as `graphsearch.position.board.key_of` does."""
    return _hash_of(board) ^ positions.clock_term(min(board.halfmove_clock, positions.MAX_CLOCK))


@_remembered
def legal_moves(board: chess.Board) -> tuple[chess.Move, ...]:
    """Returns the legal moves in canonical order."""
    return tuple(positions.legal_moves(board))


@_remembered
def terminal_kind(board: chess.Board) -> int:
    """Returns how a game ends in a position, whatever the path there; NOT_TERMINAL if it goes on."""
    return positions.terminal_kind(board)


@_remembered
def mate_in_one(board: chess.Board) -> int | None:
    """Returns the place of the first legal move that mates."""
    return next((i for i, move in enumerate(legal_moves(board)) if _mates(board, move)), None)


def _mates(board: chess.Board, move: chess.Move) -> bool:
    board.push(move)
    mated = board.is_checkmate()
    board.pop()
    return mated
