"""Lines of a node in SAN."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import chess

MOST_PLIES = 24  # of a line on the page


def sans(board: chess.Board, moves: Sequence[str]) -> list[str]:
    """Returns the first moves of a line in SAN, given in UCI.

    >>> sans(chess.Board(), ["e2e4", "e7e5"])
    ['e4', 'e5']
    """
    walk, found = board.copy(stack=False), []
    for text in moves[:MOST_PLIES]:
        move = chess.Move.from_uci(text)
        found.append(walk.san(move))
        walk.push(move)
    return found


def with_sans(node: dict[str, Any], board: chess.Board) -> dict[str, Any]:
    """Returns the JSON object of a node, each move with its line in SAN: `pv_san`."""
    moves = [move | {"pv_san": sans(board, move["pv"])} for move in node["moves"]]
    return node | {"moves": moves}
