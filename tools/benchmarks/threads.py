"""The gain of several threads in a search, and the number of cores that its one search thread can feed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import chess

from graphsearch import Graph, Limits, SearchParams, analyze
from graphsearch.evaluators.factory import EvaluatorSpec, create, parse_options, with_threads
from graphsearch.evaluators.inside import Filler
from graphsearch.search import loop
from graphsearch.search.waves import WaveRunner

from .harness import Row, benchmark
from .positions import MIDDLEGAMES

PHASES = ("gather", "back_up", "around", "evaluate")
WATCHED = (
    (loop.GraphSearch, "_loop", "loop"),
    (WaveRunner, "_gather", "gather"),
    (WaveRunner, "_complete", "back_up"),
    (Filler, "_fill", "evaluate"),
)


class Clock:
    """CPU-seconds by phase, `evaluate` also by thread; `wall`: wall time of the loop."""

    def __init__(self) -> None:
        self._spent: dict[str, list[float]] = {}
        for owner, name, phase in WATCHED:
            setattr(owner, name, self._timed(getattr(owner, name), phase))

    def _timed(self, function: Callable[..., Any], phase: str) -> Callable[..., Any]:
        function = getattr(function, "timed", function)  # unwraps the clock of an earlier run

        def outer(*arguments: Any) -> Any:
            wall, begin = time.perf_counter(), time.thread_time()
            try:
                return function(*arguments)
            finally:
                spent = time.thread_time() - begin  # list.append is thread-safe
                self._spent.setdefault(phase, []).append(spent)
                if phase == "evaluate":
                    self._spent.setdefault(f"thread {arguments[2]}", []).append(spent)
                if phase == "loop":
                    self._spent.setdefault("wall", []).append(time.perf_counter() - wall)

        outer.timed = function  # type: ignore[attr-defined]
        return outer

    def taken(self) -> dict[str, float]:
        """Returns the seconds since the last call."""
        found, self._spent = {phase: sum(spent) for phase, spent in self._spent.items()}, {}
        return found


@benchmark("batch", "threads", across="threads", compare=("per_s",))
def threads(
    *,
    evaluator: str = "builtin",
    evaluator_option: tuple[str, ...] = (),
    threads: tuple[int, ...] = (1, 2),
    batch: tuple[int, ...] = (256, 1024),
    grown: int = 30_000,
    visits: int = 20_000,
    rounds: int = 5,
) -> Iterator[Row]:
    """What several threads bring to a search, and how many cores its one search thread can feed.

    Every search of a middlegame continues a graph of --grown visits and makes the same --visits. Microseconds
    are of CPU for each evaluation: gather and back_up are of the search's thread, which alone may do them;
    around is the rest of that thread but for the portions that it evaluates itself; evaluate is in the batch
    kernel, of all threads; busiest is the thread with most to do. cores = 1 + evaluate / (gather + back_up +
    around): those that the search's thread can keep busy, itself included.
    """
    spec = EvaluatorSpec(evaluator=evaluator, options=parse_options(evaluator_option))
    clock = Clock()
    for _ in range(rounds):
        for size in batch:
            for count in threads:
                made = create(with_threads(spec, count))
                yield {"batch": size, "threads": count} | _measured(clock, made, size, grown, visits)
                made.close()


def _measured(clock: Clock, evaluator: Any, batch: int, grown: int, visits: int) -> Row:
    board, params = chess.Board(MIDDLEGAMES[0]), SearchParams(minibatch_size=batch)
    with Graph.open(None, evaluator=evaluator) as graph:
        analyze(graph, board, Limits(visits=grown), params)
        clock.taken()
        result = analyze(graph, board, Limits(visits=visits), params)
    spent = clock.taken()
    own = spent["loop"] - spent.get("thread 0", 0.0)
    helpers = [seconds for name, seconds in spent.items() if name.startswith("thread") and name[-2:] != " 0"]
    spent["around"] = own - spent["gather"] - spent["back_up"]
    return {
        "per_s": result.evaluations / spent["wall"],
        **{phase: 1e6 * spent[phase] / result.evaluations for phase in PHASES},
        "busiest": 1e6 * max(spent["loop"], *helpers, 0.0) / result.evaluations,
        "cores": 1 + spent["evaluate"] / own,
        "q": result.node.q,
    }
