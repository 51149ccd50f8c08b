"""Prints how well an evaluator agrees with an engine on a file of reference positions.

    python -m tools.training judge reference.jsonl.gz [--evaluator nnue:stockfish] [--json]

A line of the file holds `fen`, `wdl` (per mille, side to move), `bestmove` and `moves_depth10`
(`{uci: {"cp"|"mate": n}}` for every legal move); `tools.judge_positions` writes such files.

Value: Q = win - loss of our evaluator against (w - l) / 1000. Policy: our priors against
`softmax(Q(move) / temperature)` with lichess's formula for Q, at the temperatures 0.1 and 0.05 and against
the best move alone. No policy can have less cross-entropy than the target's own entropy, so that is printed
beside it. `first_choice_*`: our highest prior is `bestmove`, or the best of `moves_depth10`. Siblings: in
each position, the correlation of minus our Q behind a move with the engine's Q of the move, among moves that
give away less than .25 of Q: what a search needs of V. Speed: complete evaluations (value and all priors) a
CPU-second, compiled.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

import chess
import numpy as np
from numpy.typing import NDArray

from graphsearch.evaluators.assess import Assessment, assess
from graphsearch.evaluators.factory import DEFAULT, create, parse_options
from graphsearch.evaluators.protocol import Evaluator, PositionBatch
from tools.benchmarks.positions import Case, read_reference

F64 = NDArray[np.float64]
Figures = dict[str, float]
TEMPERATURES = (0.1, 0.05)
NEAR_BEST, LEAST_SIBLINGS = 0.25, 4  # most Q that a move may give away; least moves for a correlation
SPEED_EVALUATIONS = 10_000  # minimum for timing


def policy_target(worth: Mapping[str, float], moves: Sequence[str], temperature: float) -> F64:
    """Returns the softmax of the engine's Q of the moves, over the temperature.

    >>> policy_target({"e2e4": 0.1, "d2d4": 0.1}, ["e2e4", "d2d4"], 0.05).tolist()
    [0.5, 0.5]
    """
    q = np.array([worth[move] for move in moves]) / temperature
    weights = np.exp(q - q.max())
    return np.asarray(weights / weights.sum())


def measure_value(said: Sequence[Assessment], cases: Sequence[Case]) -> Figures:
    """Returns the correlation and the mean absolute error of Q, and the mean absolute error of the draw."""
    q, draw = np.array([(one.q, one.wdl.draw) for one in said]).T
    win, drawn, loss = np.array([case.wdl for case in cases], np.float64).T
    return {
        "q_correlation": float(np.corrcoef(q, win - loss)[0, 1]),
        "q_mean_absolute_error": float(np.abs(q - (win - loss)).mean()),
        "draw_mean_absolute_error": float(np.abs(draw - drawn).mean()),
    }


def measure_siblings(evaluator: Evaluator, cases: Sequence[Case]) -> Figures:
    """Returns the mean correlation of Q after the good moves of a position with the engine's scores."""
    found = []
    for case in cases:
        near = {move: q for move, q in case.worth.items() if q > max(case.worth.values()) - NEAR_BEST}
        children, theirs = [], []
        for move, q in near.items():
            child = case.board.copy(stack=False)
            child.push_uci(move)
            if any(child.legal_moves):
                children.append(child)
                theirs.append(q)
        if len(children) < LEAST_SIBLINGS:
            continue
        wdl = evaluator.evaluate(PositionBatch.from_boards(children)).wdl
        ours = wdl[:, 2] - wdl[:, 0]
        if ours.std() and np.std(theirs):
            found.append(float(np.corrcoef(ours, theirs)[0, 1]))
    return {"sibling_correlation": fmean(found)} if found else {}


def measure_policy(priors: Sequence[Mapping[str, float]], cases: Sequence[Case]) -> Figures:
    """Returns cross-entropies of the priors, and the share of positions with the engine's first choice."""
    out: Figures = {}
    pairs = list(zip(priors, cases, strict=True))
    for temperature in TEMPERATURES:
        targets = [policy_target(case.worth, list(prior), temperature) for prior, case in pairs]
        logs = [np.log(list(prior.values())) for prior in priors]
        crosses = [-float(target @ log) for target, log in zip(targets, logs, strict=True)]
        out[f"cross_entropy_t{temperature}"] = fmean(crosses)
        out[f"target_entropy_t{temperature}"] = fmean(-float(t @ np.log(t + 1e-30)) for t in targets)
    first = [max(prior, key=prior.__getitem__) for prior in priors]
    tops = [max(case.worth, key=case.worth.__getitem__) for case in cases]
    out["first_choice_top"] = fmean(map(str.__eq__, first, tops))
    out["first_choice_bestmove"] = fmean(a in case.best for a, case in zip(first, cases, strict=True))
    out["cross_entropy_bestmove"] = -fmean(float(np.log(prior[case.best[0]])) for prior, case in pairs)
    return out


def measure_speed(evaluator: Evaluator, boards: Sequence[chess.Board]) -> float:
    """Returns complete evaluations per CPU-second."""
    batch, turns = PositionBatch.from_boards(boards), -(-SPEED_EVALUATIONS // len(boards))
    evaluator.evaluate(batch)
    begin = time.process_time()
    for _ in range(turns):
        evaluator.evaluate(batch)
    return turns * len(batch) / (time.process_time() - begin)


def add_arguments(out: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    out.add_argument("reference", type=Path, help="JSON lines, gzip'ed or not")
    out.add_argument("--evaluator", default=DEFAULT, help="NAME, as in `graphsearch analyze`")
    out.add_argument("--evaluator-option", action="append", default=[], metavar="NAME=VALUE")
    out.add_argument("--json", action="store_true", help="print one JSON object")


def run(options: argparse.Namespace) -> int:
    """Prints the figures; returns the exit code."""
    cases = read_reference(options.reference)
    evaluator = create(options.evaluator, dict(parse_options(options.evaluator_option)))
    boards = [case.board for case in cases]
    said = list(assess(evaluator, boards))
    figures = {"positions": float(len(cases))} | measure_value(said, cases)
    figures |= measure_siblings(evaluator, cases) | measure_policy([one.priors for one in said], cases)
    figures["evaluations_per_core_second"] = measure_speed(evaluator, boards)
    if options.json:
        json.dump(figures, sys.stdout)
        print()
    else:
        for name, figure in figures.items():
            print(f"{name:30s}{figure:12.4f}")
    return 0
