"""Loops around single board kernels, so that `graphsearch lab bench` does not measure the call overhead."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..jit.compiler import kernel
from ..jit.pointers import U, ptr
from ..jit.types import int64, uint64
from .board_kernel import generate_moves, make_move


@kernel
def expand_many(
    T: NDArray[np.uint64], words: NDArray[np.uint64], out: NDArray[np.uint16], rounds: int64
) -> int64:
    """Generates a position's moves `rounds` times; returns their sum, so no round is optimized away."""
    total = int64(0)
    for _ in range(rounds):
        total += generate_moves(ptr(T, 0), ptr(words, 0), ptr(out, 0))
    return total


@kernel
def make_many(
    T: NDArray[np.uint64],
    words: NDArray[np.uint64],
    moves: NDArray[np.uint16],
    child: NDArray[np.uint64],
    rounds: int64,
) -> uint64:
    """Makes `rounds` moves, cycling through the legal moves of a position; returns the XOR of all keys."""
    n = generate_moves(ptr(T, 0), ptr(words, 0), ptr(moves, 0))
    mixed = U(child[9])
    for i in range(rounds):
        make_move(ptr(T, 0), ptr(words, 0), ptr(child, 0), moves[i % n])
        mixed ^= child[9]
    return mixed
