"""Static exchange, as Python calls it."""

from __future__ import annotations

from typing import Any

import chess
import numpy as np

from graphsearch.evaluators.quiescence_kernel import exchange
from graphsearch.jit.compiler import kernel
from graphsearch.jit.pointers import ptr
from graphsearch.position.board import encode_move, pack
from graphsearch.position.tables import load_tables


@kernel
def _exchange(T: Any, words: Any, move: Any, gains: Any) -> Any:
    """Returns what a move wins on its target square."""
    return exchange(ptr(T, 0), ptr(words, 0), move, ptr(gains, 0))


def exchanged(board: chess.Board, move: chess.Move) -> int:
    """Returns what a move wins by captures on its target square, in thousandths of a pawn."""
    return int(_exchange(load_tables(), pack(board), np.uint16(encode_move(move)), np.zeros(64, np.uint64)))
