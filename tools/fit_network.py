"""Fits what `nnue` adds to a network to an engine's labels: the value map and the weights of the priors.

    python -m tools.fit_network --labels labels.jsonl --network stockfish [--priors]

Labels are made by `tools.judge_positions`. One stretch of positions in two is held out of the fit of the
priors; its figures are printed. The numbers are written to `graphsearch/evaluators/nnue/fitted.json`; those
of the value map stay with --priors.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numba
import numpy as np
import scipy.optimize
from numpy.typing import NDArray

from graphsearch.evaluators.batch_kernel import LOGIT_FLOOR
from graphsearch.evaluators.nnue import evaluation_kernel as kevaluation
from graphsearch.evaluators.nnue import layout
from graphsearch.evaluators.nnue import value_map_kernel as kmap
from graphsearch.evaluators.nnue.evaluator import FITTED, network_of, prepared
from graphsearch.evaluators.nnue.layout import MAP_TERMS, SCALAR_UNIT
from graphsearch.evaluators.protocol import PositionBatch
from graphsearch.jit.pointers import ptr
from graphsearch.position.tables import load_tables
from graphsearch.query.steps import uci_of
from tools.benchmarks.positions import Case, read_reference
from tools.training.judge import F64, policy_target

POLICY = layout.FITTED_NUMBERS - layout.POLICY_AT
STRETCH = 25  # positions; neighbours come from one game
MAP_PULL = 1e-4  # weight of the squared exponents of the value map
Q_WEIGHT = 1.0  # of the squared error of Q beside the cross-entropy


@numba.njit  # type: ignore[untyped-decorator]
def trace(
    tables: Any, weights: Any, words: Any, moves: Any, offsets: Any, best: Any, out: Any, scratch: Any
) -> None:
    """Fills each position's score, and what each number of the priors adds to each move's logit."""
    t, w, area = ptr(tables, 0), ptr(weights, 0), ptr(scratch, 0)
    one = np.zeros(layout.FITTED_NUMBERS, np.int64)
    for b in range(best.shape[0]):
        n = offsets[b + 1] - offsets[b]
        best[b], first = kevaluation.search_moves(t, w, ptr(words, b * 10), ptr(moves, offsets[b]), n, area)
        for k in range(out.shape[1]):
            one[layout.POLICY_AT + k] = round(1 / SCALAR_UNIT)
            for i in range(n):
                out[offsets[b] + i, k] = kevaluation.logit_of(ptr(one, 0), area, i, first)
            one[layout.POLICY_AT + k] = 0


def traced(batch: PositionBatch, weights: NDArray[np.int64]) -> tuple[NDArray[np.int64], F64]:
    """Returns scores `[B]`, and what the numbers add `[M, POLICY]`."""
    best, parts = np.zeros(len(batch), np.int64), np.zeros((len(batch.moves), POLICY))
    scratch = np.zeros(kevaluation.scratch_words(int(weights[layout.WIDTH])), np.uint64)
    trace(load_tables(), weights, batch.words.ravel(), batch.moves, batch.offsets, best, parts, scratch)
    return best, parts


def sigmoid(x: F64) -> F64:
    """Returns the logistic function."""
    return np.asarray(1 / (1 + np.exp(-np.clip(x, -40, 40))))


@numba.njit  # type: ignore[untyped-decorator]
def trace_map(unit: Any, words: Any, best: Any, terms: Any) -> None:
    """Fills the terms of the value map's exponents, with one weight at a time that comes to 1."""
    for i in range(terms.shape[1]):
        unit[i] = round(1 / SCALAR_UNIT)
        for b in range(best.shape[0]):
            terms[b, i] = kmap.map_exponent(ptr(unit, 0), ptr(words, b * 10), best[b])
        unit[i] = 0


def wdl_gradient(pawns: F64, terms: F64, wdl: F64, value_map: F64) -> tuple[float, F64, F64]:
    """Returns the loss of a value map, and its gradients by score and by the map's weights.

    Args:
      pawns: scores `[B]`.
      terms: of the map's exponents, `[B, K]`.
      wdl: targets `[B, 3]`.
      value_map: weights of the draw's half width, then of the noise, `[2 * K]`.
    """
    a, b = (np.exp(terms @ half) for half in np.split(value_map, 2))
    x, y = (pawns - a) / b, (-pawns - a) / b
    win, lose = np.clip(sigmoid(x), 1e-7, 1), np.clip(sigmoid(y), 1e-7, 1)
    draw = np.clip(1 - win - lose, 1e-5, 1)
    error = win - lose - (wdl[:, 0] - wdl[:, 2])
    loss = -(wdl * np.log(np.stack([win, draw, lose], 1))).sum(1) + Q_WEIGHT * error**2
    by_x = (-wdl[:, 0] / win + wdl[:, 1] / draw + 2 * Q_WEIGHT * error) * win * (1 - win)
    by_y = (-wdl[:, 2] / lose + wdl[:, 1] / draw - 2 * Q_WEIGHT * error) * lose * (1 - lose)
    by_a, by_b = -(by_x + by_y) / b * a, -(by_x * x + by_y * y)
    return float(loss.mean()), (by_x - by_y) / b, np.concatenate([by_a @ terms, by_b @ terms]) / len(a)


def map_numbers(batch: PositionBatch, best: NDArray[np.int64], wdl: F64) -> NDArray[np.int64]:
    """Returns the numbers of the value map that fits some scores best, in millionths."""
    terms, unit = np.zeros((len(best), MAP_TERMS)), np.zeros(MAP_TERMS, np.int64)
    trace_map(unit, batch.words.ravel(), best, terms)

    def loss(numbers: F64) -> tuple[float, F64]:
        value, by_score, by_map = wdl_gradient(best * 0.001 * numbers[0], terms, wdl, numbers[1:])
        pull = MAP_PULL * numbers[1:]
        factor = float((by_score * best).mean()) * 0.001
        return value + float(pull @ numbers[1:]), np.concatenate([[factor], by_map + 2 * pull])

    start = np.concatenate([[1.0], np.zeros(2 * MAP_TERMS)])
    found = scipy.optimize.minimize(loss, start, method="L-BFGS-B", jac=True)
    print(f"value map: loss {found.fun:.4f}", file=sys.stderr)
    numbers: NDArray[np.int64] = np.rint(found.x / SCALAR_UNIT).astype(np.int64)
    return numbers


def policy_loss(numbers: F64, parts: F64, target: F64, offsets: NDArray[np.int64]) -> tuple[float, F64]:
    """Returns the cross-entropy of the priors and its gradient."""
    sizes = np.diff(offsets)
    logits = parts @ numbers
    logits -= np.repeat(np.maximum.reduceat(logits, offsets[:-1]), sizes)
    prior = np.exp(np.maximum(logits, -LOGIT_FLOOR))
    prior /= np.repeat(np.add.reduceat(prior, offsets[:-1]), sizes)
    loss = -float(target @ np.log(prior)) / len(sizes)
    return loss, np.asarray((prior - target) @ parts / len(sizes))


def fit_policy(
    cases: Sequence[Case], batch: PositionBatch, parts: F64, temperature: float
) -> NDArray[np.int64]:
    """Returns the numbers of the priors; prints the cross-entropy of both halves."""
    offsets, names = batch.offsets, [uci_of(int(move)) for move in batch.moves]
    spans = zip(cases, offsets[:-1], offsets[1:], strict=True)
    target = np.concatenate([policy_target(case.worth, names[a:b], temperature) for case, a, b in spans])
    held = np.arange(len(batch)) // STRETCH % 2 == 1
    shown: list[float] = []
    for mask in (~held, held):
        rows = np.repeat(mask, np.diff(offsets))
        part = parts[rows], target[rows], np.concatenate([[0], np.cumsum(np.diff(offsets)[mask])])
        if not shown:
            start = np.array([1.0, 8.0, 0.3, 1.0, 1.0])
            found = scipy.optimize.minimize(policy_loss, start, part, "L-BFGS-B", True).x
        shown.append(policy_loss(found, *part)[0])
    print(f"cross-entropy of the priors: {shown[0]:.4f}, held out {shown[1]:.4f}", file=sys.stderr)
    return np.asarray(np.rint(found / SCALAR_UNIT), np.int64)


def main() -> int:
    """Fits and writes the numbers; returns the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--labels", type=Path, required=True, help="file of tools.judge_positions")
    parser.add_argument("--network", required=True, help=".nnue file, or a program that has one")
    parser.add_argument("--temperature", type=float, default=0.1, help="of the policy target, in Q")
    parser.add_argument("--priors", action="store_true", help="fit the priors only")
    options = parser.parse_args()
    cases, weights = read_reference(options.labels), prepared(network_of(options.network))
    batch = PositionBatch.from_boards([case.board for case in cases])
    best, parts = traced(batch, weights)
    found = json.loads(FITTED.read_text())
    numbers, sources = np.array(found["numbers"]), found["positions"]
    if not options.priors:
        wdl = np.array([case.wdl for case in cases], np.float64)
        numbers[: layout.POLICY_AT], sources["value map"] = map_numbers(batch, best, wdl), len(best)
    numbers[layout.POLICY_AT :] = fit_policy(cases, batch, parts, options.temperature)
    sources["priors"] = len(best)
    found["numbers"] = numbers.tolist()
    lines = [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in found.items()]
    FITTED.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
