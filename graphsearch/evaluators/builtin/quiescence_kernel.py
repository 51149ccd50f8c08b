"""The quiescence search of the built-in evaluator."""

from __future__ import annotations

from typing import Any

from numpy import int64

from ...jit.compiler import inner, kernel
from ...jit.pointers import adv, ptr
from ...position.board_kernel import PW
from ..quiescence.captures_kernel import exchange
from ..quiescence.quiescence_kernel import FRAME_WORDS, STACK_WORDS, quiescence_over
from .pawns_kernel import PAWN_WORDS
from .terms_kernel import INFO_WORDS, scaled, static_kept

# behind the stack: attacks of both sides, and pawn structures kept
AREA_WORDS = 2 * INFO_WORDS
STRUCTURES = STACK_WORDS + AREA_WORDS
SEARCH_WORDS = STRUCTURES + PAWN_WORDS


@inner
def static_at(T: Any, weights: Any, stack: Any, ply: Any, area: Any) -> Any:
    """Returns the static evaluation of the position in a frame."""
    frame = adv(stack, ply * FRAME_WORDS)
    return scaled(frame, static_kept(T, weights, frame, area, adv(area, AREA_WORDS)))


_search = quiescence_over(static_at)


@inner
def search_quiescence(
    T: Any, weights: Any, stack: Any, alpha: Any, beta: Any, depth: Any, keeps_leaf: Any
) -> Any:
    """Returns the score of the position in the first frame; see `quiescence_over`.

    `stack` has `SEARCH_WORDS` words.
    """
    return _search(T, weights, stack, adv(stack, STACK_WORDS), int64(0), alpha, beta, depth, keeps_leaf)


@inner
def quiescence(T: Any, weights: Any, stack: Any, alpha: Any, beta: Any, depth: Any) -> Any:
    """Returns `search_quiescence` without the position that the score comes from."""
    return search_quiescence(T, weights, stack, alpha, beta, depth, False)


@kernel
def quiescent_score(T: Any, weights: Any, words: Any, alpha: Any, beta: Any, stack: Any) -> Any:
    """Returns the quiescence score of `words` (uint64[10]) in a window; `stack` is uint64[SEARCH_WORDS]."""
    for i in range(PW):
        stack[i] = words[i]
    return quiescence(ptr(T, 0), ptr(weights, 0), ptr(stack, 0), int64(alpha), int64(beta), int64(0))


@kernel
def exchange_of(T: Any, words: Any, move: Any, gains: Any) -> Any:
    """Returns what a move wins on its target square; `gains` is uint64[32]."""
    return exchange(ptr(T, 0), ptr(words, 0), move, ptr(gains, 0))
