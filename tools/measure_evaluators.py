"""Which evaluator finds more in equal time: searches of the same positions with each.

    python -m tools.measure_evaluators sf_reference.jsonl.gz --evaluator builtin
        --evaluator nnue:stockfish [--seconds 0.05,0.2] [--json]

The file is that of `tools.judge_evaluation`. A search begins with an empty graph in memory. First the
evaluations per CPU-second of each evaluator are measured in searches of some positions, in turns. Then every
position is searched with as many evaluations as each affords in the given CPU-seconds: equal time, on a busy
machine as on an idle one. `--seconds 0` is one evaluation, whatever it costs.

Per time and evaluator: evaluations, correlation and mean error of the root's Q against (w - l) / 1000,
`loss`: by how much Q the most visited move falls short of the best by `moves_depth10` (lichess's formula),
`hits`: how often it is `bestmove`. Behind them, for error and loss, the mean difference from the first
evaluator and its 95 % interval, by bootstrap over positions.
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
from graphsearch.evaluators.factory import create
from graphsearch.evaluators.protocol import Evaluator
from graphsearch.position.board import POSITION_WORDS, unpack
from tools.evaluation_data import F64, Positions, lichess_q, read_reference

APPROACHES = 3  # to a search of the length that is asked for
RATE_EVALUATIONS = 64  # that tell how many these are
RATE_STEP = 4  # every fourth position is searched for the rates
RESAMPLES = 4000


@dataclass(frozen=True, slots=True)
class Found:
    """What searches of one time found, by position: root Q, loss of the move, whether it hit."""

    q: F64
    losses: F64
    hits: F64


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table; differences are (mean, low, high) from the first evaluator."""

    seconds: float
    evaluator: str
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


def made(spec: str) -> Evaluator:
    """Returns the evaluator of a text such as `lc0:net.pb.gz,threads=1`."""
    name, *options = spec.split(",")
    return create(name, dict(option.split("=", 1) for option in options))


def rate(evaluator: Evaluator, board: chess.Board, evaluations: int) -> tuple[int, float]:
    """Returns how many evaluations a search made, and the CPU-seconds it took."""
    with Graph.open(None, evaluator=evaluator) as graph:
        begin = time.process_time()
        result = analyze(graph, board, Limits(evaluations=evaluations))
        return result.evaluations, time.process_time() - begin


def rates(evaluators: dict[str, Evaluator], boards: Sequence[chess.Board], length: float) -> dict[str, float]:
    """Returns evaluations per CPU-second in searches of some length, by evaluator, measured in turns.

    A short search makes fewer in a second: its start counts, and its first waves are small.
    """
    some = dict.fromkeys(evaluators, RATE_EVALUATIONS)
    for name, evaluator in evaluators.items():
        rate(evaluator, boards[0], RATE_EVALUATIONS)  # compiles
        for _ in range(APPROACHES):
            done, seconds = rate(evaluator, boards[0], some[name])
            some[name] = max(RATE_EVALUATIONS, round(length * done / seconds))
    spent, found = dict.fromkeys(evaluators, 0.0), dict.fromkeys(evaluators, 0)
    for board in boards[::RATE_STEP]:
        for name, evaluator in evaluators.items():
            done, seconds = rate(evaluator, board, some[name])
            spent[name] += seconds
            found[name] += done
    return {name: found[name] / spent[name] for name in evaluators}


def searched(evaluator: Evaluator, positions: Positions, best: Sequence[str], evaluations: int) -> Found:
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


def row(seconds: float, name: str, evaluations: int, found: Found, first: Found, target: F64) -> Row:
    """Returns a line of the table."""
    errors = np.abs(found.q - target)
    return Row(
        seconds,
        name,
        evaluations,
        float(np.corrcoef(found.q, target)[0, 1]),
        float(errors.mean()),
        float(found.losses.mean()),
        float(found.hits.mean()),
        difference(errors, np.abs(first.q - target)),
        difference(found.losses, first.losses),
    )


def measure(path: Path, names: Sequence[str], times: Sequence[float]) -> Iterator[Row]:
    """Yields the lines of the table as they are found."""
    positions, best = read_reference(path)
    target = positions.wdl[:, 0] - positions.wdl[:, 2]
    evaluators = {name: made(name) for name in names}
    boards = [unpack(words.tolist()) for words in positions.words.reshape(-1, POSITION_WORDS)]
    for seconds in times:
        speed = rates(evaluators, boards, seconds)
        first: Found | None = None
        for name, evaluator in evaluators.items():
            evaluations = max(1, round(seconds * speed[name]))
            found = searched(evaluator, positions, best, evaluations)
            first = first or found
            yield row(seconds, name, evaluations, found, first, target)


def text(line: Row) -> str:
    """Returns a line of the table as text."""
    error, loss = line.error_difference, line.loss_difference
    return (
        f"{line.seconds:7g} {line.evaluator:<28}{line.evaluations:12d}{line.correlation:13.4f}"
        f"{line.error:8.4f}{line.loss:8.4f}{line.hits:7.3f}"
        f"   {error[0]:+.4f} ({error[1]:+.4f}, {error[2]:+.4f})"
        f"   {loss[0]:+.4f} ({loss[1]:+.4f}, {loss[2]:+.4f})"
    )


def numbers(kind: Callable[[str], float]) -> Callable[[str], list[float]]:
    """Returns a reader of numbers between commas."""
    return lambda given: [kind(part) for part in given.split(",")]


def parser() -> argparse.ArgumentParser:
    """Returns the command line's parser."""
    out = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    out.add_argument("reference", type=Path, help="gzip'ed JSON lines")
    out.add_argument(
        "--evaluator",
        action="append",
        required=True,
        help="NAME[,OPTION=VALUE...]; compared with the first",
    )
    out.add_argument("--seconds", type=numbers(float), default=[0.0, 0.05, 0.2], help="CPU time of a search")
    out.add_argument("--json", action="store_true", help="print one JSON object a line")
    return out


def main() -> int:
    """Prints the table; returns the exit code."""
    options = parser().parse_args()
    if not options.json:
        print(
            "seconds evaluator                   evaluations  correlation   error    loss   hits"
            "   difference of error, of loss"
        )
    for line in measure(options.reference, options.evaluator, options.seconds):
        print(json.dumps(asdict(line)) if options.json else text(line), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
