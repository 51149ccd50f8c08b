"""Boards of Chess960 games, which accept both notations of castling."""

from __future__ import annotations

import chess
import chess.polyglot


class Chess960Board(chess.Board):
    """A Board that sets its `chess960` after every move: True while castling is not standard.

    So its moves equal those of the packed position: castling is king takes own rook while a king or rook that
    may castle is not on its standard square, and the king's two steps otherwise.

    >>> board = as_chess960(chess.Board("4k2r/8/8/8/8/8/8/R3KR2 w Fk - 0 1"))
    >>> board.chess960, board.push_uci("e1f1").uci(), board.fen(), board.chess960
    (True, 'e1f1', '4k2r/8/8/8/8/8/8/R4RK1 b k - 1 1', False)
    """

    def settle(self) -> None:
        """Recomputes `chess960`; call it after setting the position by hand."""
        self.chess960 = self.has_chess960_castling_rights()

    def push(self, move: chess.Move) -> None:
        """Makes a move; castling in either notation."""
        super().push(move)
        self.settle()

    def pop(self) -> chess.Move:
        """Takes back the last move and returns it."""
        move = super().pop()
        self.settle()
        return move

    def root(self) -> Chess960Board:
        """Returns the first position of the game."""
        board = super().root()
        board.settle()
        return board


def as_chess960(board: chess.Board) -> Chess960Board:
    """Returns a copy of a game as a `Chess960Board`."""
    root = board.root()
    game = Chess960Board(None)
    for name in ("pawns", "knights", "bishops", "rooks", "queens", "kings", "occupied", "promoted"):
        setattr(game, name, getattr(root, name))
    game.occupied_co = list(root.occupied_co)
    game.turn, game.castling_rights, game.ep_square = root.turn, root.castling_rights, root.ep_square
    game.halfmove_clock, game.fullmove_number = root.halfmove_clock, root.fullmove_number
    game.settle()
    for move in board.move_stack:
        game.push(move)
    return game


def settled(board: chess.Board) -> chess.Board:
    """Returns a game with the moves of the packed positions: `board` itself, or a `Chess960Board` copy."""
    return as_chess960(board) if board.chess960 and type(board) is chess.Board else board
