"""The figures of `graphsearch bench --batches`: how four gatherers fill large batches, and what that costs.

Filling is measured alone on the machine, on graphs grown one visit at a time; the price is measured by
searches of many positions at once, one process for each core.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import chess

from ...graph.graph import Graph
from ..speed import machine
from . import rows
from .crew import PriceWorkers
from .filling import Filled, fill, grow
from .plan import Plan
from .price import Prices, PriceTask
from .roots import FILLING_ROOTS, Case, played, read_epd, read_reference, spread
from .rows import Row

Report = Callable[
    [float, float | None, str], None
]  # share done, seconds left (None: not known), what is next

Graphs = dict[tuple[str, int, str, int], list[Filled]]  # by evaluator, nodes, gatherer, batch
PricesBySize = dict[tuple[str, int], list[Prices]]  # by evaluator, evaluations

WARM_NODES, WARM_BATCHES = 400, (1, 32)


def measure(plan: Plan, report: Report = lambda *_: None) -> dict[str, Any]:
    """Returns the JSON object of `graphsearch bench --batches`: machine, rows, and what was left out.

    A row is one gatherer, batch, graph size (`nodes`) and evaluator: `positions_per_batch`, `rounds`,
    `collisions` of one wave, `gather_us_per_position` (CPU time) and `visits_per_s` (wall time of whole
    waves) are medians over `graphs`. The price is that of searches with as many evaluations as `nodes`, over
    `positions`: `agreement` of the best move with sequential search, `root_distance` (L1, 0 to 2), `waste`
    (share of the evaluated positions that a sequential search four times as long never evaluates),
    `reference_agreement`, `solved` of `solved_of`; each with its standard error, None where it was not
    measured. All but times are the same in every run of one plan.

    Args:
      plan: what is measured.
      report: called with what is done.

    Raises:
      InvalidPositionError: if a file of positions holds something else.
      GraphSearchError: if a part fails.
      OSError: if a file cannot be read.
    """
    cases = _Cases(plan)
    progress = _Progress(plan, report, problems=len(cases.problems))
    graphs = _fill_all(plan, progress)
    prices, problems = _price_all(plan, cases, progress)
    found = list(_rows(plan, graphs, prices, problems))
    return {"machine": machine(), "rows": found, "left_out": list(plan.left_out())}


class _Cases:
    """The positions of the price, read before anything is measured."""

    def __init__(self, plan: Plan) -> None:
        self._reference = read_reference(plan.reference) if plan.reference else []
        self.problems = read_epd(plan.epd) if plan.epd else []

    def positions(self, count: int) -> list[Case]:
        """Returns so many positions of the reference, evenly spaced, or made ones if there is none."""
        return spread(self._reference, count) if self._reference else played(count)


class _Progress:
    """Tells how far a run is, by what its parts were guessed to take and what those done took."""

    def __init__(self, plan: Plan, report: Report, *, problems: int) -> None:
        self._report = report
        self._total = sum(_guesses(plan, problems))
        self._done = 0.0
        self._begin = time.monotonic()

    def next(self, what: str) -> None:
        """Reports what begins now."""
        spent = time.monotonic() - self._begin
        share = min(1.0, self._done / self._total)
        self._report(share, spent * (1 - share) / share if share else None, what)

    def done(self, guessed: float) -> None:
        """Notes that a part is done."""
        self._done += guessed


def _guesses(plan: Plan, problems: int) -> Iterator[float]:
    """Yields the seconds that each part of a run is guessed to take."""
    for evaluator in plan.evaluators:
        effort = plan.effort(evaluator)
        for size in plan.sizes(evaluator):
            yield effort.graphs * plan.filling_seconds(evaluator, size)
        for size in plan.prices(evaluator):
            yield plan.positions_at(evaluator, size) * plan.price_seconds(evaluator, size, longer=True)
        for size in plan.problems(evaluator):
            yield problems * plan.price_seconds(evaluator, size, longer=False)


# ------------------------------------------------------------------ filling
def _fill_all(plan: Plan, progress: _Progress) -> Graphs:
    """Measures every wave, on graphs that grow from one size to the next."""
    found: Graphs = defaultdict(list)
    progress.next("compiling what is not compiled yet")
    for evaluator in plan.evaluators:
        _warm(plan, evaluator)
        for number, fen in enumerate(FILLING_ROOTS[: plan.effort(evaluator).graphs], 1):
            _fill_root(plan, progress, evaluator, (number, chess.Board(fen)), found)
    return found


def _warm(plan: Plan, evaluator: str) -> None:
    """Has everything compiled and loaded that is timed afterwards."""
    effort = replace(plan.effort(evaluator), repeats=1)
    with Graph.open(None, evaluator=evaluator) as graph:
        grow(graph, chess.Board(), WARM_NODES)
        for _ in fill(graph, chess.Board(), effort, WARM_BATCHES, plan.gatherers):
            pass


def _fill_root(
    plan: Plan, progress: _Progress, evaluator: str, root: tuple[int, chess.Board], found: Graphs
) -> None:
    number, board = root
    effort = plan.effort(evaluator)
    with Graph.open(None, evaluator=evaluator) as graph:
        for size in plan.sizes(evaluator):
            progress.next(f"filling, {evaluator}, {size:,} nodes, root {number} of {effort.graphs}")
            grow(graph, board, size)
            for gather, batch, wave in fill(graph, board, effort, plan.batches, plan.gatherers):
                found[evaluator, size, gather, batch].append(wave)
            progress.done(plan.filling_seconds(evaluator, size))


# ------------------------------------------------------------------ price
def _price_all(plan: Plan, cases: _Cases, progress: _Progress) -> tuple[PricesBySize, PricesBySize]:
    """Returns the answers for the positions and for the problems; the longest searches come first."""
    tasks = sorted(_tasks(plan, cases), key=lambda pair: -pair[0].evaluations)
    found: dict[int, Prices] = {}
    if tasks:
        progress.next(_named(tasks, 0))
        with PriceWorkers(min(plan.workers, len(tasks))) as workers:
            for number, prices_there in workers.results([task for task, _ in tasks]):
                found[number] = prices_there
                task, _ = tasks[number]
                progress.done(plan.price_seconds(task.evaluator, task.evaluations, longer=task.longer))
                progress.next(_named(tasks, len(found)))
    prices: PricesBySize = defaultdict(list)
    problems: PricesBySize = defaultdict(list)
    for number in sorted(found):
        task, is_problem = tasks[number]
        (problems if is_problem else prices)[task.evaluator, task.evaluations].append(found[number])
    return prices, problems


def _tasks(plan: Plan, cases: _Cases) -> Iterator[tuple[PriceTask, bool]]:
    """Yields the searches of each position, and whether it is a problem."""
    for evaluator in plan.evaluators:
        for size in plan.prices(evaluator):
            for case in cases.positions(plan.positions_at(evaluator, size)):
                yield _task(plan, evaluator, size, case, longer=True), False
        for size in plan.problems(evaluator):
            for case in cases.problems:
                yield _task(plan, evaluator, size, case, longer=False), True


def _task(plan: Plan, evaluator: str, size: int, case: Case, *, longer: bool) -> PriceTask:
    return PriceTask(
        evaluator=evaluator,
        evaluations=size,
        case=case,
        gatherers=plan.gatherers,
        batches=plan.searched_batches(size),
        longer=longer,
    )


def _named(tasks: Sequence[tuple[PriceTask, bool]], done: int) -> str:
    """Returns what the next searches are."""
    task, is_problem = tasks[min(done, len(tasks) - 1)]
    kind = "problems" if is_problem else "price"
    return (
        f"{kind}, {task.evaluator}, {task.evaluations:,} evaluations; {done} of {len(tasks)} positions done"
    )


# ------------------------------------------------------------------ rows
def _rows(plan: Plan, graphs: Graphs, prices: PricesBySize, problems: PricesBySize) -> Iterator[Row]:
    """Yields a row for every wave that was measured."""
    for (evaluator, nodes, gather, batch), waves in sorted(graphs.items(), key=_order(plan)):
        searched = plan.searched_batches(nodes)
        place = (gather, min(batch, searched[-1]) if searched else batch)
        yield {
            "gather": gather,
            "batch": batch,
            "nodes": nodes,
            "evaluator": evaluator,
            **rows.filling(waves),
            **rows.price(prices[evaluator, nodes], place),
            **rows.solved(problems[evaluator, nodes], place),
        }


def _order(plan: Plan) -> Callable[[tuple[tuple[str, int, str, int], list[Filled]]], tuple[int, ...]]:
    def place(item: tuple[tuple[str, int, str, int], list[Filled]]) -> tuple[int, ...]:
        evaluator, nodes, gather, batch = item[0]
        return plan.evaluators.index(evaluator), nodes, batch, plan.gatherers.index(gather)

    return place
