"""Prints how well an evaluator agrees with an engine on a file of reference positions.

    python -m tools.training judge sf_reference.jsonl.gz [--evaluator nnue:stockfish] [--json]

A line of the file holds `fen`, `wdl` (per mille, side to move), `bestmove` and `moves_depth10`
(`{uci: {"cp"|"mate": n}}` for every legal move, best first).

Value: Q = win - loss of our evaluator against (w - l) / 1000. Policy: our priors against
`softmax(Q(move) / temperature)` with Q = 2 / (1 + exp(-0.00368208 cp)) - 1 (lichess's formula), a mate +-1,
at the temperatures 0.1 and 0.05 and against the best move alone. No policy can have less cross-entropy than
the target's own entropy, so that is printed beside it. `first_choice_*`: our highest prior is `bestmove`, or
the first of `moves_depth10`. Siblings: in each position, the correlation of minus our Q behind a move with
the engine's Q of the move, among moves that give away less than .25 of Q: what a search needs of V.
Speed: complete evaluations (value and all priors) a CPU-second, compiled.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import chess
import numpy as np
from numpy.typing import NDArray

from graphsearch.evaluators.factory import DEFAULT, create, parse_options
from graphsearch.evaluators.protocol import Evaluator, PositionBatch
from graphsearch.position.board import POSITION_WORDS, pack, unpack
from graphsearch.query.steps import uci_of
from tools.evaluation_data import Positions, all_moves, lichess_q, policy_target, read_reference

TEMPERATURES = (0.1, 0.05)
NEAR_BEST, LEAST_SIBLINGS = 0.25, 4  # most Q that a move may give away; least moves for a correlation
SPEED_EVALUATIONS = 10_000  # minimum for timing


@dataclass(frozen=True)
class Evaluated:
    """The evaluator's results: wdl `[B, 3]`; moves and priors `[M]`, position b's from `offsets[b]` on."""

    wdl: NDArray[np.float32]
    priors: NDArray[np.float32]
    moves: NDArray[np.uint16]
    offsets: NDArray[np.int64]

    def of(self, b: int) -> slice:
        """Returns the slice of a position's moves."""
        return slice(int(self.offsets[b]), int(self.offsets[b + 1]))

    def first_choice(self, b: int) -> str:
        """Returns the move with the highest prior."""
        at = self.of(b)
        return uci_of(int(self.moves[at][np.argmax(self.priors[at])]))


def batch_of(words: NDArray[np.uint64]) -> PositionBatch:
    """Returns packed positions as a batch for evaluators."""
    offsets, moves = all_moves(words)
    return PositionBatch(words.reshape(-1, POSITION_WORDS), moves, offsets)


def evaluate(words: NDArray[np.uint64], evaluator: Evaluator) -> Evaluated:
    """Returns an evaluator's results for packed positions."""
    batch = batch_of(words)
    found = evaluator.evaluate(batch)
    return Evaluated(found.wdl, found.priors, batch.moves, batch.offsets)


def measure_value(positions: Positions, evaluator: Evaluator) -> dict[str, float]:
    """Returns the correlation and the mean absolute error of Q, and the mean absolute error of the draw."""
    ours, theirs = evaluate(positions.words, evaluator).wdl, positions.wdl
    q, target = ours[:, 0] - ours[:, 2], theirs[:, 0] - theirs[:, 2]
    return {
        "q_correlation": float(np.corrcoef(q, target)[0, 1]),
        "q_mean_absolute_error": float(np.abs(q - target).mean()),
        "draw_mean_absolute_error": float(np.abs(ours[:, 1] - theirs[:, 1]).mean()),
    }


def measure_siblings(positions: Positions, evaluator: Evaluator) -> dict[str, float]:
    """Returns the mean correlation of Q after the good moves of a position with the engine's scores."""
    found = []
    for words, scores in zip(positions.words.reshape(-1, POSITION_WORDS), positions.scores, strict=True):
        board, children, theirs = unpack(words), [], []
        for move, score in (scores or {}).items():
            board.push(chess.Move.from_uci(move))
            if any(board.legal_moves):
                children.append(pack(board))
                theirs.append(score)
            board.pop()
        target = lichess_q(np.array(theirs, np.float64))
        good = target > target.max(initial=-1) - NEAR_BEST
        if good.sum() < LEAST_SIBLINGS:
            continue
        wdl = evaluate(np.concatenate(children), evaluator).wdl[good]
        ours = wdl[:, 2] - wdl[:, 0]
        if ours.std() and target[good].std():
            found.append(np.corrcoef(ours, target[good])[0, 1])
    return {"sibling_correlation": float(np.mean(found))} if found else {}


def measure_policy(positions: Positions, evaluator: Evaluator, *temperatures: float) -> dict[str, float]:
    """Returns cross-entropies of the priors, and the share of positions with the engine's first choice."""
    found = evaluate(positions.words, evaluator)
    out: dict[str, float] = {}
    for temperature in temperatures:
        crosses, entropies = [], []
        for b, scores in enumerate(positions.scores):
            at = found.of(b)
            target = policy_target(scores or {}, found.moves[at], temperature)
            crosses.append(-float(target @ np.log(found.priors[at])))
            entropies.append(-float(target @ np.log(target + 1e-30)))
        out[f"cross_entropy_t{temperature}"] = float(np.mean(crosses))
        out[f"target_entropy_t{temperature}"] = float(np.mean(entropies))
    tops = [max(scores or {}, key=(scores or {}).__getitem__) for scores in positions.scores]
    choices = [found.first_choice(b) for b in range(len(tops))]
    out["first_choice_top"] = float(np.mean([c == t for c, t in zip(choices, tops, strict=True)]))
    return out


def measure_best(positions: Positions, best: list[str], evaluator: Evaluator) -> dict[str, float]:
    """Returns the share of first choices equal to the engine's move, and the cross-entropy against it."""
    found = evaluate(positions.words, evaluator)
    choices = [found.first_choice(b) for b in range(len(best))]
    hits = [
        found.priors[found.of(b)][[uci_of(int(m)) for m in found.moves[found.of(b)]].index(move)]
        for b, move in enumerate(best)
    ]
    return {
        "first_choice_bestmove": float(np.mean([c == m for c, m in zip(choices, best, strict=True)])),
        "cross_entropy_bestmove": -float(np.log(np.array(hits)).mean()),
    }


def measure_speed(positions: Positions, evaluator: Evaluator) -> float:
    """Returns complete evaluations per CPU-second."""
    batch = batch_of(positions.words)
    evaluator.evaluate(batch)
    turns = -(-SPEED_EVALUATIONS // len(batch))
    begin = time.process_time()
    for _ in range(turns):
        evaluator.evaluate(batch)
    return turns * len(batch) / (time.process_time() - begin)


def add_arguments(out: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    out.add_argument("reference", type=Path, help="gzip'ed JSON lines")
    out.add_argument("--evaluator", default=DEFAULT, help="NAME, as in `graphsearch analyze`")
    out.add_argument("--evaluator-option", action="append", default=[], metavar="NAME=VALUE")
    out.add_argument("--json", action="store_true", help="print one JSON object")


def run(options: argparse.Namespace) -> int:
    """Prints the figures; returns the exit code."""
    positions, best = read_reference(options.reference)
    evaluator = create(options.evaluator, dict(parse_options(options.evaluator_option)))
    figures = {"positions": float(len(best))}
    figures |= measure_value(positions, evaluator) | measure_siblings(positions, evaluator)
    figures |= measure_policy(positions, evaluator, *TEMPERATURES)
    figures |= measure_best(positions, best, evaluator)
    figures["evaluations_per_core_second"] = measure_speed(positions, evaluator)
    if options.json:
        json.dump(figures, sys.stdout)
        print()
    else:
        for name, figure in figures.items():
            print(f"{name:30s}{figure:12.4f}")
    return 0
