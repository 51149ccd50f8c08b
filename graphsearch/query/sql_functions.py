"""SQL functions over a graph file, for `lab sql` and the Datasette plugin.

docs/look.md lists them. They raise ValueError or GraphSearchError for an invalid position, move or number.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass

import chess

from ..graph.view import Reader, view
from ..position.board import fen_of, key_text
from ..position.notation import named_board, play_moves, read_moves
from ..position.values import cp_of

Value = str | int | float | None


@dataclass(frozen=True, slots=True)
class Function:
    """A SQL function: its name, its number of arguments, and whether it is deterministic."""

    name: str
    arguments: int
    call: Callable[..., Value]
    fixed: bool = True


def record_text(read: Reader, fen: object) -> str | None:
    """Returns a position's record as JSON text, as `graphsearch show --json` prints it; None if unknown."""
    node = view(read, _board(fen), lines=0)
    return None if node is None else json.dumps(node.as_dict())


def _board(fen: object) -> chess.Board:
    if not isinstance(fen, str):
        raise ValueError(f"expected a FEN, not {fen!r}")
    return named_board(fen)


def _after(fen: object, moves: object) -> str:
    board = _board(fen)
    play_moves(board, str(moves))
    return fen_of(board)


def _san(fen: object, move: object) -> str:
    board = _board(fen)
    found = read_moves(board, str(move))
    if len(found) != 1:
        raise ValueError(f"expected one move, not {move!r}")
    return board.san(found[0])


def _cp(q: object) -> int:
    if not isinstance(q, int | float) or not math.isfinite(q):
        raise ValueError(f"expected a number in [-1, 1], not {q!r}")
    return cp_of(q)


PURE = (
    Function("key", 1, lambda fen: key_text(_board(fen))),
    Function("after", 2, _after),
    Function("san", 2, _san),
    Function("cp", 1, _cp),
)
