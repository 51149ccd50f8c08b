"""Inserts a prover's lines to mate into the graph."""

from __future__ import annotations

from collections.abc import Sequence

import chess
import numpy as np

from ..position.board import POSITION_WORDS, encode_move, pack
from . import known_mates_kernel
from .graph import Graph

BYTES_PER_POSITION = 5_000  # a record, and a block of all its edges


def learn_line(graph: Graph, board: chess.Board, line: Sequence[chess.Move]) -> None:
    """Writes a mate to the records along its line: best attack and longest defence, up to the mate.

    Positions that the graph does not know get records. No wave may be in flight.

    Raises:
      CapacityError: if there is no room for them.
      StoreError: if the file cannot be read, or not written when memory has to be freed.
    """
    boards = [board.copy(stack=False)]
    for move in line:
        boards.append(boards[-1].copy(stack=False))
        boards[-1].push(move)
    graph.make_room(len(boards), len(boards) * BYTES_PER_POSITION)
    graph.pager.read_all(boards)
    words = np.zeros(len(boards) * POSITION_WORDS, np.uint64)
    words[:POSITION_WORDS] = pack(board)
    moves = np.array([encode_move(move) for move in line], np.uint16)
    known_mates_kernel.learn_line(graph.arena.tables, graph.arena.arrays, words, moves)
