"""What the evaluator's kernels say of many positions, for fitting: leaves, counts of terms, scores."""

from __future__ import annotations

from typing import Any

import numba
from numba import int64

from graphsearch.evaluators.builtin import evaluation_kernel as kevaluation
from graphsearch.evaluators.builtin import moves_kernel as kmoves
from graphsearch.evaluators.builtin import quiescence_kernel as ksearch
from graphsearch.evaluators.builtin import terms_kernel as kterms
from graphsearch.evaluators.builtin.layout import MOVE_COUNT, SCALAR_UNIT, TAPERED_COUNT
from graphsearch.evaluators.output_kernel import map_exponent
from graphsearch.evaluators.quiescence import quiescence_kernel as kstack
from graphsearch.jit.pointers import ptr
from graphsearch.position import board_kernel as kboard
from graphsearch.position.scores import FAR


@numba.njit  # type: ignore[untyped-decorator]
def resolve(tables: Any, weights: Any, words: Any, leaves: Any, scratch: Any) -> None:
    """Writes the leaf of each position's quiescence search."""
    for at in range(0, words.shape[0], 10):
        scratch[:10] = words[at : at + 10]
        far = int64(FAR)
        ksearch.search_quiescence(ptr(tables, 0), ptr(weights, 0), ptr(scratch, 0), -far, far, int64(0), True)
        leaves[at : at + 10] = scratch[kstack.LEAF : kstack.LEAF + 10]


@numba.njit  # type: ignore[untyped-decorator]
def trace_terms(
    tables: Any, words: Any, weights: Any, counts: Any, phases: Any, scales: Any, area: Any
) -> None:
    """Fills how often each term counts (for White), by evaluating with one weight 1 in each half.

    `counts` and `weights` have room for an even number of terms.
    """
    for f in range(0, counts.shape[1], 2):
        weights[:] = 0
        weights[f], weights[f + 1] = 1, int64(1) << 32
        for b in range(counts.shape[0]):
            packed = kterms.static_packed(ptr(tables, 0), ptr(weights, 0), ptr(words, b * 10), ptr(area, 0))
            counts[b, f] = (packed << 32) >> 32
            counts[b, f + 1] = (packed - counts[b, f]) >> 32
    for b in range(counts.shape[0]):
        phases[b] = kterms.phase_of(ptr(words, b * 10)) / kterms.PHASE_MAX
        for strong in range(2):
            scales[b, strong] = kterms.winning_scale(ptr(words, b * 10), strong) / kterms.FULL_SCALE


@numba.njit  # type: ignore[untyped-decorator]
def trace_moves(
    tables: Any,
    weights: Any,
    unit: Any,
    words: Any,
    moves: Any,
    offsets: Any,
    best: Any,
    losses: Any,
    counts: Any,
    scratch: Any,
) -> None:
    """Fills each position's best score, what each move loses (Q, pawns), and how often each term counts."""
    t, base, infos = ptr(tables, 0), TAPERED_COUNT, ptr(scratch, kevaluation.INFO)
    for b in range(offsets.shape[0] - 1):
        s, n = ptr(words, b * 10), offsets[b + 1] - offsets[b]
        best[b] = kevaluation.search_moves(t, ptr(weights, 0), s, ptr(moves, offsets[b]), n, ptr(scratch, 0))
        evades = kboard.in_check(t, s)
        for i in range(n):
            j = offsets[b] + i
            loss = min(best[b] - kevaluation.score_of(ptr(scratch, 0), i), kevaluation.LOSS_LIMIT)
            losses[j, 0] = kevaluation.lost_chances(best[b], loss)
            losses[j, 1] = loss * 0.001
            child = ptr(scratch, kevaluation.SEARCH)
            kboard.make_move(t, s, child, moves[j])
            checks = kboard.in_check(t, child)
            bins = MOVE_COUNT - 2 * kevaluation.LOSS_BINS
            for f in range(0, bins, 2):
                unit[base + f], unit[base + f + 1] = 1, int64(1) << 32
                packed = kmoves.move_terms(t, ptr(unit, 0), s, moves[j], infos, checks, evades)
                counts[j, f] = (packed << 32) >> 32
                counts[j, f + 1] = (packed - counts[j, f]) >> 32
                unit[base + f], unit[base + f + 1] = 0, 0
            counts[j, bins:] = 0
            counts[j, bins + kevaluation.loss_bin(ptr(scratch, 0), i, loss)] = 1


@numba.njit  # type: ignore[untyped-decorator]
def trace_map(unit: Any, words: Any, best: Any, terms: Any) -> None:
    """Fills the terms of the value map's exponents, with one weight at a time that comes to 1."""
    for i in range(terms.shape[1]):
        unit[i] = int64(round(1 / SCALAR_UNIT))
        for b in range(best.shape[0]):
            terms[b, i] = map_exponent(ptr(unit, 0), ptr(words, b * 10), best[b])
        unit[i] = 0


@numba.njit  # type: ignore[untyped-decorator]
def search_all(
    tables: Any, weights: Any, words: Any, moves: Any, offsets: Any, best: Any, scratch: Any
) -> None:
    """Fills each position's best score."""
    for b in range(best.shape[0]):
        n = offsets[b + 1] - offsets[b]
        best[b] = kevaluation.search_moves(
            ptr(tables, 0), ptr(weights, 0), ptr(words, b * 10), ptr(moves, offsets[b]), n, ptr(scratch, 0)
        )
