"""Prints what several threads bring to a search, and how many cores its one search thread can feed.

    python -m tools.measure_threads [--threads 1 2] [--batches 256 1024] [--evaluator builtin]

Every search of a middlegame goes on from a graph in which waves overlap, and does the same visits whatever
the threads. The runs of all numbers of threads follow each other, round after round; figures are medians.
Only the loop of the search counts, not what is shown at its end. Microseconds are of CPU for each evaluation:

* gather, back up: of the search's thread, which alone may do them;
* around: what else that thread does, but for the portions that it evaluates itself: Python, waking threads;
* evaluate: in the batch kernel, of all threads;
* busiest: of the thread with most to do; where every thread has a core, a search cannot take less;
* cores: 1 + evaluate / (gather + back up + around): those that the search's thread can keep busy, itself
  included.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import chess

from graphsearch import Graph, Limits, SearchParams, analyze
from graphsearch.bench.speed import MIDDLEGAME
from graphsearch.evaluators.factory import EvaluatorSpec, create, parse_options, with_threads
from graphsearch.evaluators.inside import Filler
from graphsearch.search import loop
from graphsearch.search.waves import WaveRunner

GROWN = 30_000  # visits before the clock runs
PHASES = ("gather", "back up", "around", "evaluate")


class Clock:
    """CPU-seconds by phase, `evaluate` also by thread; `wall`: of the loop, by the clock."""

    def __init__(self) -> None:
        self._spent: dict[str, list[float]] = {}
        self._watch(loop._Session, "_loop", "loop")
        self._watch(WaveRunner, "_gather", "gather")
        self._watch(WaveRunner, "_complete", "back up")
        self._watch(Filler, "_fill", "evaluate")

    def _watch(self, owner: type, name: str, phase: str) -> None:
        function: Callable[..., Any] = getattr(owner, name)

        def timed(*arguments: Any) -> Any:
            wall, begin = time.perf_counter(), time.thread_time()
            try:
                return function(*arguments)
            finally:
                spent = time.thread_time() - begin  # a list takes it from any thread
                self._spent.setdefault(phase, []).append(spent)
                if phase == "evaluate":
                    self._spent.setdefault(f"thread {arguments[2]}", []).append(spent)
                if phase == "loop":
                    self._spent.setdefault("wall", []).append(time.perf_counter() - wall)

        setattr(owner, name, timed)

    def taken(self) -> dict[str, float]:
        """Returns the seconds since the last call."""
        found, self._spent = {phase: sum(spent) for phase, spent in self._spent.items()}, {}
        return found


def measured(clock: Clock, evaluator: Any, batch: int, visits: int) -> dict[str, float]:
    """Returns the figures of one search."""
    params = SearchParams(minibatch_size=batch)
    with Graph.open(None, evaluator=evaluator) as graph:
        analyze(graph, chess.Board(MIDDLEGAME), Limits(visits=GROWN), params)
        clock.taken()
        result = analyze(graph, chess.Board(MIDDLEGAME), Limits(visits=visits), params)
    spent = clock.taken()
    own = spent["loop"] - spent.get("thread 0", 0.0)
    helpers = [seconds for name, seconds in spent.items() if name.startswith("thread") and name[-2:] != " 0"]
    spent["around"] = own - spent["gather"] - spent["back up"]
    return {
        "per_s": result.evaluations / spent["wall"],
        **{phase: 1e6 * spent[phase] / result.evaluations for phase in PHASES},
        "busiest": 1e6 * max(spent["loop"], *helpers, 0.0) / result.evaluations,
        "cores": 1 + spent["evaluate"] / own,
        "q": result.node.q,
    }


def parser() -> argparse.ArgumentParser:
    """Returns the command line's parser."""
    out = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    out.add_argument("--evaluator", default="builtin")
    out.add_argument("--evaluator-option", action="append", default=[])
    out.add_argument("--threads", type=int, nargs="+", default=(1, 2))
    out.add_argument("--batches", type=int, nargs="+", default=(256, 1024))
    out.add_argument("--visits", type=int, default=20_000)
    out.add_argument("--rounds", type=int, default=5)
    out.add_argument("--json", action="store_true", help="print one JSON object")
    return out


def rows(options: argparse.Namespace) -> list[dict[str, float]]:
    """Returns the figures of every batch and number of threads."""
    spec = EvaluatorSpec(evaluator=options.evaluator, options=parse_options(options.evaluator_option))
    clock = Clock()
    runs: dict[tuple[int, int], list[dict[str, float]]] = {
        (batch, threads): [] for batch in options.batches for threads in options.threads
    }
    for _ in range(options.rounds):
        for (batch, threads), found in runs.items():
            evaluator = create(with_threads(spec, threads))
            found.append(measured(clock, evaluator, batch, options.visits))
            evaluator.close()
    return [
        {
            "batch": batch,
            "threads": threads,
            **{name: statistics.median(run[name] for run in found) for name in found[0]},
            "most_per_s": max(run["per_s"] for run in found),
        }
        for (batch, threads), found in runs.items()
    ]


def main() -> int:
    """Prints the figures; returns the exit code."""
    options = parser().parse_args()
    found = rows(options)
    if options.json:
        print(json.dumps(found))
        return 0
    for row in found:
        times = "  ".join(f"{phase} {row[phase]:.2f}" for phase in PHASES)
        print(
            f"batch {row['batch']:>5}  threads {row['threads']:>2}  {row['per_s']:>7,.0f}/s"
            f" (most {row['most_per_s']:,.0f})  us: {times}  busiest {row['busiest']:.1f}"
            f"  cores {row['cores']:.1f}  Q {row['q']:+.5f}"
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
