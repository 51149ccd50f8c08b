"""Fits every weight of the built-in evaluator to an engine's labels and writes the weights file.

    python -m tools.fit_evaluation --labels labels.jsonl --out graphsearch/evaluators/builtin/weights.json

Labels are made by `tools.label_positions`, which this script calls when the file is missing (`--engine`,
`--pgn`, `--seconds`). They are not kept with the project. The fit has three parts:

1. Value terms. Each position is replaced by the leaf of its quiescence search; the terms are linear in the
   weights there, so their counts are found by running the very kernel with unit weights. L-BFGS minimises the
   cross-entropy of (win, draw, loss) plus the squared error of Q; repeated, as the leaves depend on the
   weights.
2. Value map. The widths of `wdl_of`, on the scores that the evaluator really uses, by the same loss.
3. Priors. Terms of moves, likewise traced, by cross-entropy against the softmax of the engine's scores of all
   moves: `softmax(Q / temperature)`, Q = 2 / (1 + exp(-0.00368208 cp)) - 1, a mate +-1.

One position in ten is held out; its figures are printed.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.optimize
import scipy.sparse
from numpy.typing import NDArray

from graphsearch.evaluators.builtin import evaluation_kernel as kevaluation
from graphsearch.evaluators.builtin import quiescence_kernel as ksearch
from graphsearch.evaluators.builtin.layout import (
    MAP_TERMS,
    MOVE_COUNT,
    MOVE_GROUPS,
    OFFSETS,
    SCALAR_GROUPS,
    SCALAR_UNIT,
    TAPERED_COUNT,
    TAPERED_GROUPS,
    VERIFY_DEPTH,
    WEIGHT_COUNT,
)
from graphsearch.evaluators.builtin.weights import weights_from_groups, with_depth
from graphsearch.position.tables import load_tables
from tools.evaluation_data import F64, Positions, all_moves, phases_of, policy_target, read_labels, sigmoid
from tools.evaluation_traces import resolve, search_all, trace_map, trace_moves, trace_terms
from tools.judge_evaluation import measure_policy, measure_value, with_weights
from tools.label_positions import write_labels

HELD_OUT = 10  # one position of so many
ROUNDS = 3  # of leaves and fit
PLAIN_MATERIAL = (0.8, 3.0, 3.2, 4.7, 9.2, 0.0)  # where the fit starts, and what it is drawn to
VALUE_PULL, MOVE_PULL = 2e-4, 1e-3  # weight of the squared distance from the start
MAP_PULL = 1e-4  # the same for the exponents of the value map
Q_WEIGHT = 1.0  # of the squared error of Q beside the cross-entropy


# ---------------------------------------------------------------- value


@dataclass(frozen=True)
class ValueTrace:
    """Counts of terms `[B, F]` at leaves and wdl, both White's; phases in [0, 1], scales by better side."""

    counts: Any
    phases: F64
    scales: F64
    wdl: F64


def even(n: int) -> int:
    """Returns the next even number: terms are traced in pairs."""
    return n + n % 2


def sparse(counts: NDArray[np.int8], terms: int) -> Any:
    """Returns the counts of so many terms as a sparse matrix."""
    return scipy.sparse.csr_matrix(counts[:, :terms].astype(np.float32))


def trace_values(positions: Positions, weights: NDArray[np.int64]) -> ValueTrace:
    """Returns the counts of all terms at the quiescent leaves."""
    n = len(positions.wdl)
    leaves = np.zeros_like(positions.words)
    resolve(load_tables(), weights, positions.words, leaves, np.zeros(ksearch.SEARCH_WORDS, np.uint64))
    counts = np.zeros((n, even(TAPERED_COUNT)), np.int8)
    phases, scales = np.zeros(n), np.zeros((n, 2))
    units = np.zeros(even(TAPERED_COUNT), np.int64)
    trace_terms(load_tables(), leaves, units, counts, phases, scales, np.zeros(ksearch.AREA_WORDS, np.uint64))
    black = (positions.words.reshape(n, -1)[:, 8] & np.uint64(1)).astype(bool)
    wdl = np.where(black[:, None], positions.wdl[:, ::-1], positions.wdl)
    return ValueTrace(sparse(counts, TAPERED_COUNT), phases, scales, wdl)


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


def value_loss(theta: F64, trace: ValueTrace, start: F64) -> tuple[float, F64]:
    """Returns the loss of all value weights (middlegame, endgame, map) and its gradient."""
    middle, end, value_map = np.split(theta, [TAPERED_COUNT, 2 * TAPERED_COUNT])
    mix = trace.phases
    raw = (trace.counts @ middle) * mix + (trace.counts @ end) * (1 - mix)
    scale = np.where(raw > 0, trace.scales[:, 0], trace.scales[:, 1])
    terms = np.stack([np.ones_like(mix), mix - 0.5], 1)
    loss, by_score, by_map = wdl_gradient(raw * scale, terms, trace.wdl, value_map)
    by_raw = by_score * scale / len(raw)
    pull = np.full(TAPERED_COUNT, VALUE_PULL)
    pull[: len(PLAIN_MATERIAL)] *= 0.1
    gradient = [trace.counts.T @ (by_raw * mix), trace.counts.T @ (by_raw * (1 - mix))]
    for half, moved in ((0, middle - start), (1, end - start)):
        loss += float((pull * moved**2).sum())
        gradient[half] += 2 * pull * moved
    return loss, np.concatenate([*gradient, by_map])


def fit_values(positions: Positions, weights: NDArray[np.int64]) -> None:
    """Fits the value terms in place, under a map that depends on the phase alone."""
    start = np.zeros(TAPERED_COUNT)
    start[: len(PLAIN_MATERIAL)] = PLAIN_MATERIAL
    theta = np.concatenate([start, start, [0.0, 0.0, -0.5, -0.5]])
    # A width of one pawn at half phase sets the scale: without it the pull shrinks the pawn.
    bounds: list[tuple[float | None, float | None]] = [(None, None)] * len(theta)
    bounds[2 * TAPERED_COUNT] = (0.0, 0.0)
    for turn in range(ROUNDS):
        weights[:TAPERED_COUNT] = pack_halves(theta[:TAPERED_COUNT], theta[TAPERED_COUNT : 2 * TAPERED_COUNT])
        trace = trace_values(positions, weights)
        found = scipy.optimize.minimize(
            value_loss, theta, (trace, start), "L-BFGS-B", True, bounds=bounds, options={"maxiter": 400}
        )
        theta = found.x
        print(f"value terms, round {turn}: loss {found.fun:.4f}", file=sys.stderr)
    weights[:TAPERED_COUNT] = pack_halves(theta[:TAPERED_COUNT], theta[TAPERED_COUNT : 2 * TAPERED_COUNT])


def pack_halves(middle: F64, end: F64) -> NDArray[np.int64]:
    """Returns weights in thousandths, packed as the kernels read them."""
    return np.rint(middle * 1000).astype(np.int64) + (np.rint(end * 1000).astype(np.int64) << 32)


# ---------------------------------------------------------------- priors


@dataclass(frozen=True)
class MoveTrace:
    """Counts of terms `[M, F]`, losses `[M, 2]` (Q, pawns); by position best score, phase, first move."""

    counts: Any
    losses: F64
    best: NDArray[np.int64]
    phases: F64
    offsets: NDArray[np.int64]
    moves: NDArray[np.uint16]


def trace_policy(words: NDArray[np.uint64], weights: NDArray[np.int64]) -> MoveTrace:
    """Returns the counts of all terms of all moves."""
    offsets, moves = all_moves(words)
    counts, losses = np.zeros((len(moves), even(MOVE_COUNT)), np.int8), np.zeros((len(moves), 2))
    best, unit = np.zeros(len(offsets) - 1, np.int64), np.zeros(WEIGHT_COUNT, np.int64)
    scratch = np.zeros(kevaluation.EVALUATION_SCRATCH_WORDS, np.uint64)
    trace_moves(load_tables(), weights, unit, words, moves, offsets, best, losses, counts, scratch)
    return MoveTrace(sparse(counts, MOVE_COUNT), losses, best, phases_of(words), offsets, moves)


def policy_loss(theta: F64, trace: MoveTrace, target: F64) -> tuple[float, F64]:
    """Returns the cross-entropy of all weights of moves (halves, then `move_value`) and its gradient."""
    middle, end, slopes = np.split(theta, [MOVE_COUNT, 2 * MOVE_COUNT])
    sizes, n = np.diff(trace.offsets), len(trace.best)
    mix = np.repeat(trace.phases, sizes)
    parts = np.stack(
        [
            (1 - mix) * trace.losses[:, 0],
            mix * trace.losses[:, 0],
            (1 - mix) * trace.losses[:, 1],
            mix * trace.losses[:, 1],
        ],
        1,
    )
    logits = (trace.counts @ middle) * mix + (trace.counts @ end) * (1 - mix) - parts @ slopes
    logits -= np.repeat(np.maximum.reduceat(logits, trace.offsets[:-1]), sizes)
    prior = np.exp(logits)
    prior /= np.repeat(np.add.reduceat(prior, trace.offsets[:-1]), sizes)
    error = (prior - target) / n
    loss = -(target * np.log(prior + 1e-12)).sum() / n + MOVE_PULL * (middle @ middle + end @ end)
    gradient = [
        trace.counts.T @ (error * mix) + 2 * MOVE_PULL * middle,
        trace.counts.T @ (error * (1 - mix)) + 2 * MOVE_PULL * end,
        -parts.T @ error,
    ]
    return float(loss), np.concatenate(gradient)


def fit_moves(positions: Positions, weights: NDArray[np.int64], temperature: float) -> None:
    """Fits the weights of moves in place, on the positions whose moves all have scores."""
    labelled = positions.where(positions.labelled())
    trace = trace_policy(labelled.words, weights)
    spans = zip(trace.offsets[:-1], trace.offsets[1:], labelled.scores, strict=True)
    target = np.concatenate([policy_target(s or {}, trace.moves[a:b], temperature) for a, b, s in spans])
    start = np.concatenate([np.zeros(2 * MOVE_COUNT), [3.0, 3.0, 0.5, 0.5]])
    found = scipy.optimize.minimize(
        policy_loss, start, (trace, target), "L-BFGS-B", jac=True, options={"maxiter": 400}
    )
    print(f"moves: loss {found.fun:.4f}", file=sys.stderr)
    middle, end, slopes = np.split(found.x, [MOVE_COUNT, 2 * MOVE_COUNT])
    weights[TAPERED_COUNT : TAPERED_COUNT + MOVE_COUNT] = pack_halves(middle, end)
    weights[OFFSETS["move_value"] :][: SCALAR_GROUPS["move_value"]] = np.rint(slopes / SCALAR_UNIT)


# ---------------------------------------------------------------- value map, file, command


def fit_map(positions: Positions, weights: NDArray[np.int64]) -> None:
    """Fits the value map in place, on the scores that the evaluator uses."""
    numbers = map_numbers(positions, best_scores(positions.words, weights))
    for name, part in zip(
        ("score_factor", "draw_width", "noise"), np.split(numbers, [1, 1 + MAP_TERMS]), strict=True
    ):
        weights[OFFSETS[name] :][: SCALAR_GROUPS[name]] = part


def map_numbers(positions: Positions, best: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns the numbers of the value map that fits some scores best, in millionths."""
    terms, unit = np.zeros((len(best), MAP_TERMS)), np.zeros(MAP_TERMS, np.int64)
    trace_map(unit, positions.words, best, terms)

    def loss(numbers: F64) -> tuple[float, F64]:
        value, by_score, by_map = wdl_gradient(best * 0.001 * numbers[0], terms, positions.wdl, numbers[1:])
        pull = MAP_PULL * numbers[1:]
        factor = float((by_score * best).mean()) * 0.001
        return value + float(pull @ numbers[1:]), np.concatenate([[factor], by_map + 2 * pull])

    start = np.concatenate([[1.0], np.zeros(2 * MAP_TERMS)])
    found = scipy.optimize.minimize(loss, start, method="L-BFGS-B", jac=True)
    print(f"value map: loss {found.fun:.4f}", file=sys.stderr)
    return np.asarray(np.rint(found.x / SCALAR_UNIT), np.int64)


def best_scores(words: NDArray[np.uint64], weights: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns the score that each position's value comes from."""
    offsets, moves = all_moves(words)
    best = np.zeros(len(offsets) - 1, np.int64)
    search_all(
        load_tables(),
        weights,
        words,
        moves,
        offsets,
        best,
        np.zeros(kevaluation.EVALUATION_SCRATCH_WORDS, np.uint64),
    )
    return best


def groups_of(weights: NDArray[np.int64]) -> dict[str, list[Any]]:
    """Returns the weights by group: [middlegame, endgame] pairs, or plain integers."""
    out: dict[str, list[Any]] = {}
    for name, size in (TAPERED_GROUPS | MOVE_GROUPS | SCALAR_GROUPS).items():
        values = weights[OFFSETS[name] : OFFSETS[name] + size]
        middle = (values << 32) >> 32
        pairs = np.stack([middle, (values - middle) >> 32], 1)
        out[name] = (values if name in SCALAR_GROUPS else pairs).tolist()
    return out


def save(weights: NDArray[np.int64], path: Path, about: str) -> None:
    """Writes the weights file, one group a line."""
    lines = [f"  {json.dumps(name)}: {json.dumps(values)}" for name, values in groups_of(weights).items()]
    path.write_text('{\n"about": ' + json.dumps(about) + ',\n"groups": {\n' + ",\n".join(lines) + "\n}\n}\n")


def fit(positions: Positions, temperature: float) -> NDArray[np.int64]:
    """Returns weights fitted to nine in ten positions; prints how they do on the rest."""
    # Whole stretches are held out, because neighbours come from one game.
    held_out = np.arange(len(positions.wdl)) // 200 % HELD_OUT == HELD_OUT - 1
    weights = with_depth(np.zeros(WEIGHT_COUNT, np.int64), VERIFY_DEPTH)
    train, test = positions.where(~held_out), positions.where(held_out)
    fit_values(train, weights)
    fit_map(train, weights)
    fit_moves(train, weights, temperature)
    report(test, weights, temperature)
    return weights


def report(test: Positions, weights: NDArray[np.int64], temperature: float) -> None:
    """Prints the figures of `tools.judge_evaluation` on held-out positions."""
    fitted = with_weights(weights)
    value = measure_value(test, fitted)
    policy = measure_policy(test.where(test.labelled()), fitted, temperature)
    for name, figure in {**value, **policy}.items():
        print(f"held out: {name} {figure:.4f}", file=sys.stderr)


def parser() -> argparse.ArgumentParser:
    """Returns the command line's parser."""
    out = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    out.add_argument("--labels", type=Path, required=True, help="labels file; made if it does not exist")
    out.add_argument("--out", type=Path, required=True, help="weights file to write")
    out.add_argument("--temperature", type=float, default=0.04, help="of the policy target, in Q")
    out.add_argument("--engine", default=shutil.which("stockfish"), help="UCI engine (default: on PATH)")
    out.add_argument("--pgn", type=Path, help="take positions from these games")
    out.add_argument("--seconds", type=float, default=1000.0, help="time for making labels")
    out.add_argument("--seed", type=int, default=1)
    out.add_argument(
        "--policy-every", type=int, default=12, help="one position of so many gets policy labels"
    )
    return out


def main() -> int:
    """Makes labels if there are none, fits and writes the weights; returns the exit code."""
    options = parser().parse_args()
    if not options.labels.exists():
        if options.engine is None:
            print("no engine for labels: give one by --engine", file=sys.stderr)
            return 2
        write_labels(argparse.Namespace(**{**vars(options), "out": options.labels}))
    positions = read_labels(options.labels)
    weights = fit(positions, options.temperature)
    save(weights, options.out, f"made by tools/fit_evaluation.py from {len(positions.wdl)} positions")
    weights_from_groups(json.loads(options.out.read_text())["groups"])
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
