"""How deep the built-in evaluator should look: searches of equal time with every `verify_depth`.

    python -m tools.measure_builtin sf_reference.jsonl.gz [--depths 1,0,2,3] [--seconds 0.05,0.2] [--json]

The file is that of `tools.judge_evaluation`. A search begins with an empty graph in memory. First the
evaluations per CPU-second of each depth are measured in searches of some positions, in turns. Then every
position is searched with as many evaluations as the depth affords in the given CPU-seconds: equal time, on
a busy machine as on an idle one. `--seconds 0` is one evaluation, whatever it costs.

Per time and depth: evaluations, correlation and mean absolute error of the root's Q against (w - l) / 1000,
`loss`: by how much Q the most visited move falls short of the best by `moves_depth10` (lichess's formula),
`hits`: how often it is `bestmove`. Behind them, for error and loss, the mean difference from the first depth
and its 95 % interval, by bootstrap over positions.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import chess
import numpy as np

from graphsearch import Graph, Limits, analyze
from graphsearch.evaluators.builtin.evaluator import BuiltinEvaluator
from graphsearch.position.board import POSITION_WORDS, unpack
from tools.evaluation_data import F64, Positions, lichess_q, read_reference

RATE_EVALUATIONS = 300
RATE_STEP = 4  # every fourth position is searched for the rates
RESAMPLES = 4000


@dataclass(frozen=True, slots=True)
class Found:
    """What searches of one time and depth found, by position: root Q, loss of the move, whether it hit."""

    q: F64
    losses: F64
    hits: F64


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table; differences are (mean, low, high) from the first depth."""

    seconds: float
    depth: int
    evaluations: int
    correlation: float
    error: float
    loss: float
    hits: float
    error_difference: tuple[float, float, float]
    loss_difference: tuple[float, float, float]


def loss_of(scores: dict[str, int], move: str) -> float:
    """Returns by how much Q a move falls short of the best one.

    >>> loss_of({"e2e4": 30, "a2a3": 30, "g2g4": -100}, "a2a3")
    0.0
    """
    best, ours = lichess_q(np.array([max(scores.values()), scores[move]], np.float64))
    return float(best - ours)


def rates(evaluators: dict[int, BuiltinEvaluator], boards: Sequence[chess.Board]) -> dict[int, float]:
    """Returns evaluations per CPU-second in a search, by depth, measured in turns."""
    spent, done = dict.fromkeys(evaluators, 0.0), dict.fromkeys(evaluators, 0)
    for turn, board in enumerate([boards[0], *boards[::RATE_STEP]]):
        for depth, evaluator in evaluators.items():
            with Graph.open(None, evaluator=evaluator) as graph:
                begin = time.process_time()
                result = analyze(graph, board, Limits(evaluations=RATE_EVALUATIONS))
                if turn:  # the first may have to compile
                    spent[depth] += time.process_time() - begin
                    done[depth] += result.evaluations
    return {depth: done[depth] / spent[depth] for depth in evaluators}


def searched(
    evaluator: BuiltinEvaluator, positions: Positions, best: Sequence[str], evaluations: int
) -> Found:
    """Returns what searches of so many evaluations find."""
    q, losses, hits = [], [], []
    for i, words in enumerate(positions.words.reshape(-1, POSITION_WORDS)):
        with Graph.open(None, evaluator=evaluator) as graph:
            result = analyze(graph, unpack(words.tolist()), Limits(evaluations=evaluations))
            move = max(result.node.moves, key=lambda found: (found.n, found.p)).move.uci()
        q.append(result.node.q)
        losses.append(loss_of(positions.scores[i] or {}, move))
        hits.append(move == best[i])
    return Found(np.array(q), np.array(losses), np.array(hits, np.float64))


def difference(ours: F64, first: F64) -> tuple[float, float, float]:
    """Returns the mean difference and its 95 % interval."""
    apart = ours - first
    chosen = np.random.default_rng(1).integers(0, len(apart), (RESAMPLES, len(apart)))
    low, high = np.percentile(apart[chosen].mean(axis=1), [2.5, 97.5])
    return float(apart.mean()), float(low), float(high)


def row(seconds: float, depth: int, evaluations: int, found: Found, first: Found, target: F64) -> Row:
    """Returns a line of the table."""
    errors = np.abs(found.q - target)
    return Row(
        seconds,
        depth,
        evaluations,
        float(np.corrcoef(found.q, target)[0, 1]),
        float(errors.mean()),
        float(found.losses.mean()),
        float(found.hits.mean()),
        difference(errors, np.abs(first.q - target)),
        difference(found.losses, first.losses),
    )


def measure(path: Path, depths: Sequence[int], times: Sequence[float]) -> Iterator[Row]:
    """Yields the lines of the table as they are found."""
    positions, best = read_reference(path)
    target = positions.wdl[:, 0] - positions.wdl[:, 2]
    evaluators = {depth: BuiltinEvaluator(verify_depth=depth) for depth in depths}
    boards = [unpack(words.tolist()) for words in positions.words.reshape(-1, POSITION_WORDS)]
    speed = rates(evaluators, boards)
    for seconds in times:
        first: Found | None = None
        for depth, evaluator in evaluators.items():
            evaluations = max(1, round(seconds * speed[depth]))
            found = searched(evaluator, positions, best, evaluations)
            first = first or found
            yield row(seconds, depth, evaluations, found, first, target)


def text(line: Row) -> str:
    """Returns a line of the table as text."""
    error, loss = line.error_difference, line.loss_difference
    return (
        f"{line.seconds:7g}{line.depth:7d}{line.evaluations:13d}{line.correlation:13.4f}{line.error:8.4f}"
        f"{line.loss:8.4f}{line.hits:7.3f}   {error[0]:+.4f} ({error[1]:+.4f}, {error[2]:+.4f})"
        f"   {loss[0]:+.4f} ({loss[1]:+.4f}, {loss[2]:+.4f})"
    )


def numbers(kind: Callable[[str], float]) -> Callable[[str], list[float]]:
    """Returns a reader of numbers between commas."""
    return lambda given: [kind(part) for part in given.split(",")]


def parser() -> argparse.ArgumentParser:
    """Returns the command line's parser."""
    out = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    out.add_argument("reference", type=Path, help="gzip'ed JSON lines")
    out.add_argument("--depths", type=numbers(int), default=[1, 0, 2, 3], help="the first is compared with")
    out.add_argument("--seconds", type=numbers(float), default=[0.0, 0.05, 0.2], help="CPU time of a search")
    out.add_argument("--json", action="store_true", help="print one JSON object a line")
    return out


def main() -> int:
    """Prints the table; returns the exit code."""
    options = parser().parse_args()
    if not options.json:
        print(
            "seconds  depth  evaluations  correlation   error    loss   hits   difference of error, of loss"
        )
    for line in measure(options.reference, options.depths, options.seconds):
        print(json.dumps(asdict(line)) if options.json else text(line), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
