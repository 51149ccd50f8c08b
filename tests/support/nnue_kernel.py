"""Scores of positions by a network of Stockfish's, and static exchanges, as Python calls them."""

from __future__ import annotations

from typing import Any

import chess
import numpy as np
from numpy.typing import NDArray

from graphsearch.evaluators.nnue.evaluation_kernel import network_score, search
from graphsearch.evaluators.quiescence_kernel import KEPT, STACK_WORDS, exchange
from graphsearch.jit.compiler import kernel
from graphsearch.jit.pointers import ZERO, ptr
from graphsearch.jit.types import int64
from graphsearch.position.board import encode_move, pack
from graphsearch.position.board_kernel import PW
from graphsearch.position.tables import load_tables


@kernel
def scores(
    T: NDArray[np.uint64],
    weights: NDArray[np.int64],
    positions: NDArray[np.uint64],
    quiet: NDArray[np.int64],
    out: NDArray[np.int64],
    scratch: NDArray[np.uint64],
) -> None:
    """Writes each position's score in thousandths of a pawn, seen by the side to move.

    Args:
      positions: uint64[B * 10].
      quiet: int64[2]: window of the quiescence search; two equal numbers: the network's score alone.
      out: int64[B] out.
      scratch: uint64[STACK_WORDS + area_words(width)].
    """
    stack, area = ptr(scratch, 0), ptr(scratch, STACK_WORDS)
    for b in range(out.shape[0]):
        for i in range(PW):
            stack[i] = positions[b * PW + i]
        stack[KEPT] = ZERO
        if quiet[0] == quiet[1]:
            out[b] = network_score(ptr(weights, 0), stack, int64(0), area)
        else:
            out[b] = search(ptr(T, 0), ptr(weights, 0), stack, area, int64(0), quiet[0], quiet[1])


# ------------------------------------------------------------------ static exchange, as Python calls it
@kernel
def _exchange(T: Any, words: Any, move: Any, gains: Any) -> Any:
    return exchange(ptr(T, 0), ptr(words, 0), move, ptr(gains, 0))


def exchanged(board: chess.Board, move: chess.Move) -> int:
    """Returns what a move wins by captures on its target square, in thousandths of a pawn."""
    return int(_exchange(load_tables(), pack(board), np.uint16(encode_move(move)), np.zeros(64, np.uint64)))
