"""Values of the moves of a tree, such as a game with variations, from White's view. Reads only."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

import chess

from ..base.answer import Answer
from ..base.deadline import check_time
from ..base.errors import InvalidPositionError
from ..position.board import check
from ..position.notation import read_legal_uci
from ..position.values import cp_of
from .line import for_white, worth_of
from .source import Records, after, mate_of, records_of, steps_of

ROOT = 0  # the parent of first moves


@dataclass(frozen=True, slots=True)
class MoveValue:
    """The value of a move: visits, centipawns and moves to a proven mate (None without one), for White."""

    n: int
    cp: int
    mate: int | None


@dataclass(frozen=True, slots=True)
class TreeValues(Answer):
    """The answer of `tree_values`: one value for each move, None if the file does not know it."""

    values: tuple[MoveValue | None, ...]


def tree_values(
    path: str | os.PathLike[str] | Records, start: chess.Board, moves: Sequence[tuple[int, str]]
) -> TreeValues:
    """Returns the graph's values of moves.

    Args:
      path: the graph file, which is only read, or records in memory.
      start: the first position.
      moves: (number of the parent move, move in UCI), each after its parent; moves count from 1, and 0 is
        the start.

    Raises:
      InvalidPositionError: if a move is illegal, or stands before its parent.
      StoreError: if the file cannot be read.
    """
    check(start)
    boards = [start]
    found = []
    with records_of(path) as source:
        for number, (parent, text) in enumerate(moves, start=1):
            check_time()
            if parent >= number:
                raise InvalidPositionError(f"move {number} stands before its parent, move {parent}")
            board = boards[parent]
            try:
                move = read_legal_uci(board, text)
            except ValueError:
                raise InvalidPositionError(f"move {number}: {text!r} is illegal in {board.fen()}") from None
            found.append(_value(source, board, move))
            boards.append(after(board, move))
    return TreeValues(tuple(found))


def _value(source: Records, board: chess.Board, move: chess.Move) -> MoveValue | None:
    record = source.read(board)
    steps = steps_of(record, board) if record else []
    worth = worth_of(source, board, move, steps)
    if worth is None:
        return None
    q, draw = worth
    step = next((step for step in steps if step.move == move), None)
    mate = mate_of(step, board) if step else None
    if mate is not None and board.turn == chess.BLACK:
        mate = -mate
    return MoveValue(step.edge.n if step else 0, cp_of(for_white(board, q), draw), mate)
