"""Tasks for the workers of a book, in a world so small that all ways transpose."""

from __future__ import annotations

import chess

from graphsearch.book.executor import Task
from graphsearch.position.board import key_of

KINGS = chess.Board("8/8/3k4/8/8/3K4/4P3/8 w - - 0 1")
BATCH = (("MinibatchSize", "16"),)


def task(*moves: str, root: chess.Board = KINGS, **options: object) -> Task:
    """Returns a task for the position after some moves."""
    board = root.copy(stack=False)
    for move in moves:
        board.push_uci(move)
    given = {"evaluations": 300, "params": BATCH} | options
    return Task(f"{key_of(board):016x}", board.fen(), **given)  # type: ignore[arg-type]
