"""The moves of a stored position, each with values from the record of its child. Reads only."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import chess

from ..base.answer import picked
from ..graph.view import UNPROVEN, Bounds, MoveView, NodeView, view
from ..position.board import key_text
from ..position.values import negate
from ..store.record.ranking import node_mean
from ..store.tables import games as tables
from .source import Records, RecordSource, after, opened


@dataclass(frozen=True, slots=True)
class StoredMove:
    """One legal move; values are seen by the side to move at the position.

    Attributes:
      view: the edge: move, SAN, N, P, Q, WDL, cp, mate.
      bounds: proven bounds of the edge, else those of the child's record.
      games: imported games with the move.
      child_n: node N of the position after the move; None if the file does not hold it.
      child_q: minus the Q of that position, so that it compares with the edge's.
      stale: child_q minus the edge's Q; None if one of them is missing.
      transposition: whether other moves also reached the position after it.
    """

    view: MoveView
    bounds: Bounds
    games: int
    child_n: int | None = None
    child_q: float | None = None
    stale: float | None = None
    transposition: bool = False

    def as_dict(self) -> dict[str, Any]:
        """Returns the JSON object of the list `moves`."""
        edge = self.view.as_dict()
        del edge["pv"]
        return edge | picked(self, "bounds child_n child_q stale transposition games")


@dataclass(frozen=True, slots=True)
class Moves:
    """The answer of `moves`: the node, and its moves, best first by `store.record.ranking`."""

    node: NodeView
    moves: tuple[StoredMove, ...]

    def as_dict(self) -> dict[str, Any]:
        """Returns the JSON object of `graphsearch lab moves`."""
        return self.node.as_dict() | {"moves": [move.as_dict() for move in self.moves]}


def moves(path: str | os.PathLike[str], board: chess.Board) -> Moves:
    """Returns all moves of a position with values from the records of their children.

    Raises:
      InvalidPositionError: if the position is not legal.
      UnknownPositionError: if the file does not hold it.
      StoreError: if the file cannot be read.
    """
    with opened(path) as source:
        return moves_in(source, board)


def moves_in(source: RecordSource, board: chess.Board, *, lines: int = 0) -> Moves:
    """Returns the answer of `moves` from an open file, with the PV of the best `lines` moves."""
    games = tables.games_by_move(source.store, key_text(board))
    return moves_with(source, board, games, lines=lines)


def moves_with(source: Records, board: chess.Board, games: Mapping[str, int], *, lines: int = 0) -> Moves:
    """Returns the answer of `moves` from records; `games`: number of games by move in UCI."""
    source.wanted(board)
    node = view(source.read, board, lines=lines)
    assert node is not None
    rows = (_stored(source, board, move, games.get(move.move.uci(), 0)) for move in node.moves)
    return Moves(node, tuple(rows))


def _stored(source: Records, board: chess.Board, move: MoveView, games: int) -> StoredMove:
    child = after(board, move.move)
    record = source.read(child)
    if record is None:
        return StoredMove(move, move.bounds, games)
    child_q = negate(node_mean(record)[0])
    lower, upper = record.bounds_at(child.halfmove_clock)
    return StoredMove(
        view=move,
        bounds=move.bounds if move.bounds != UNPROVEN else (-upper, -lower),
        games=games,
        child_n=record.visits,
        child_q=child_q,
        stale=None if move.q is None else child_q - move.q,
        transposition=not record.terminal and record.visits > move.n,
    )
