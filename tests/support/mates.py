"""Mates by trying everything, and random endings to look for them."""

from __future__ import annotations

import random

import chess


def placed(generator: random.Random, name: str) -> chess.Board:
    """Returns a random legal position with the pieces of a tablebase, such as KRvKN, and moves to make."""
    while True:
        board = chess.Board(None)
        squares = generator.sample(range(64), len(name) - 1)
        white, black = name.split("v")
        for square, symbol in zip(squares, white + black.lower(), strict=True):
            board.set_piece_at(square, chess.Piece.from_symbol(symbol))
        board.turn = generator.random() < 0.5
        if board.is_valid() and any(board.legal_moves):
            return board


def mates_within(board: chess.Board, plies: int, *, attacks: bool = True) -> int | None:
    """Returns the plies of the shortest mate within `plies` by trying everything, None if there is none.

    For short mates: it takes as long as there are positions. Repetitions and the clock play no part in it.
    """
    if not attacks and board.is_checkmate():
        return 0
    for limit in range(1 if attacks else 2, plies + 1, 2):
        if _forces(board, limit, attacks=attacks):
            return limit
    return None


def _forces(board: chess.Board, plies: int, *, attacks: bool) -> bool:
    """Returns whether the attacker mates within `plies`; `attacks`: it is to move."""
    if not attacks and plies == 0:
        return board.is_checkmate()
    moves = list(board.legal_moves)
    if not moves:
        return not attacks and board.is_check()
    for move in moves:
        if attacks and plies == 1 and not board.gives_check(move):
            continue
        board.push(move)
        forced = _forces(board, plies - 1, attacks=not attacks)
        board.pop()
        if forced == attacks:
            return attacks
    return not attacks
