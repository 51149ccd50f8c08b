"""Prints how well an evaluator agrees with an engine on a file of reference positions, as JSON.

    python -m tools.training judge reference.jsonl.gz [--evaluator nnue:stockfish]

A line of the file holds `fen`, `wdl` (per mille, side to move), `bestmove` and `moves_depth10`
(`{uci: {"cp"|"mate": n}}` for every legal move); `tools.judge_positions` writes such files.

Value: Q = win - loss of our evaluator against (w - l) / 1000. Policy: our priors against `bestmove`.
Siblings: in each position, the correlation of minus our Q behind a move with the engine's Q of the move (by
lichess's formula), among moves that give away less than .25 of Q: what a search needs of V.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from statistics import fmean

import numpy as np

from graphsearch.evaluators.assess import Assessment, assess_boards
from graphsearch.evaluators.factory import DEFAULT, create, parse_options
from graphsearch.evaluators.protocol import Evaluator, PositionBatch
from tools.benchmarks.positions import Case, read_reference

Figures = dict[str, float]
NEAR_BEST, LEAST_SIBLINGS = 0.25, 4  # most Q that a move may give away; least moves for a correlation


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
    """Returns the cross-entropy of the engine's move, and the share of positions where it is our first."""
    pairs = list(zip(priors, cases, strict=True))
    return {
        "first_choice": fmean(max(prior, key=prior.__getitem__) in case.best for prior, case in pairs),
        "cross_entropy_bestmove": -fmean(float(np.log(prior[case.best[0]])) for prior, case in pairs),
    }


def add_arguments(out: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    out.add_argument("reference", type=Path, help="JSON lines, gzip'ed or not")
    out.add_argument("--evaluator", default=DEFAULT, help="NAME, as in `graphsearch analyze`")
    out.add_argument("--evaluator-option", action="append", default=[], metavar="NAME=VALUE")


def run(options: argparse.Namespace) -> int:
    """Prints the figures; returns the exit code."""
    cases = read_reference(options.reference)
    evaluator = create(options.evaluator, dict(parse_options(options.evaluator_option)))
    said = list(chain.from_iterable(assess_boards(evaluator, [case.board for case in cases])))
    figures = measure_value(said, cases) | measure_siblings(evaluator, cases)
    figures |= measure_policy([one.priors for one in said], cases)
    print(json.dumps({"positions": len(cases)} | {name: round(x, 4) for name, x in figures.items()}))
    return 0
