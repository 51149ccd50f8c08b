"""Prints what a pool of workers gains and costs, batch size by batch size.

    python -m tools.measure_pool [--evaluator builtin] [--pool local] [--workers 1 2] [--batches 64 256 ...]

For each size of batch, a round evaluates the same positions of random games by the evaluator itself in this
process and by pools; figures are medians of some rounds, in positions a second, and ratios to the evaluator
itself in the same round. `overhead_ms` is what a batch costs if evaluating costs nothing: `uniform` in a pool
of one worker, less `uniform` itself. `search_...` are evaluations a second of a search of the start position
with such batches: alone `builtin` runs inside the search's kernels, in a pool it does not. All pools run
at once: for Ray `ray start --head --num-cpus=8` first.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from statistics import median

import chess

from graphsearch import Graph, Limits, SearchParams, analyze
from graphsearch.evaluators.factory import create
from graphsearch.evaluators.pool.evaluator import pooled
from graphsearch.evaluators.protocol import Evaluator, PositionBatch
from tools.measure_network import random_positions, seconds

BATCHES = (64, 256, 1024, 4096)
NOTHING = {"nothing", "nothing_pooled"}  # evaluators that measure what a pool costs
WARM_UP = 5  # rounds that do not count: workers load their kernels, and the pool learns their pace
SEARCH_EVALUATIONS = 10_000
MOST_SECONDS = 20.0  # for the rounds of one size


def evaluations_per_second(evaluator: Evaluator, batch: int) -> int:
    """Returns how fast a search evaluates, once its graph fills the batches."""
    with Graph.open(None, evaluator=evaluator) as graph:
        params = SearchParams(minibatch_size=batch)
        analyze(graph, chess.Board(), Limits(evaluations=SEARCH_EVALUATIONS // 4), params)
        found = analyze(graph, chess.Board(), Limits(evaluations=SEARCH_EVALUATIONS), params)
        return round(found.evaluations / found.seconds)


def rounds_of(works: dict[str, Callable[[], object]], rounds: int) -> list[dict[str, float]]:
    """Returns the seconds of each work in each round."""
    end = time.monotonic() + MOST_SECONDS
    found: list[dict[str, float]] = []
    while len(found) < WARM_UP + rounds and (len(found) < WARM_UP + 3 or time.monotonic() < end):
        found.append({name: seconds(work) for name, work in works.items()})
    return found[WARM_UP:]


def figures_of(
    batch: PositionBatch, evaluators: dict[str, Evaluator], rounds: int
) -> dict[str, float | int | str]:
    """Returns the figures of one size of batch; the evaluators' names are those of the figures."""
    works: dict[str, Callable[[], object]] = {
        name: partial(one.evaluate, batch) for name, one in evaluators.items()
    }
    found = rounds_of(works, rounds)
    row: dict[str, float | int | str] = {"batch": len(batch)}
    for name in works:
        if name not in NOTHING:
            row[name] = round(len(batch) / median(times[name] for times in found))
    for name in [name for name in row if name not in {"batch", "alone"}]:
        row[f"{name}_ratio"] = round(median(times["alone"] / times[name] for times in found), 3)
    row["overhead_ms"] = round(
        1000 * median(times["nothing_pooled"] - times["nothing"] for times in found), 2
    )
    return row


def measure(args: argparse.Namespace) -> list[dict[str, float | int | str]]:
    """Returns a row of figures for each size of batch."""
    make = partial(create, args.evaluator)
    rows = []
    with ExitStack() as pools:
        evaluators: dict[str, Evaluator] = {"alone": make(), "nothing": create("uniform")}
        for workers in args.workers:
            evaluators[f"workers_{workers}"] = pools.enter_context(pooled(make, workers, args.pool))
        evaluators["nothing_pooled"] = pools.enter_context(pooled(partial(create, "uniform"), 1, args.pool))
        for size in args.batches:
            row = figures_of(random_positions(size), evaluators, args.rounds)
            for name in [name for name in evaluators if name not in NOTHING]:
                row[f"search_{name}"] = evaluations_per_second(evaluators[name], size)
            rows.append(row)
    return rows


def main() -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--evaluator", default="builtin")
    parser.add_argument("--pool", default="local", help="local, ray or ray:ADDRESS")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--batches", type=int, nargs="+", default=list(BATCHES))
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    rows = measure(args)
    if args.json:
        print(json.dumps(rows))
        return
    names = list(rows[0])
    print("  ".join(f"{name:>15}" for name in names))
    for row in rows:
        print("  ".join(f"{row[name]:>15}" for name in names))


if __name__ == "__main__":
    main()
