"""Prints how much faster several workers of a book are than one, and than a search in this process.

    python -m tools.measure_book_workers [--evaluator builtin] [--workers 1 2] [--tasks 40]

Every row is one kind of executor: `local` searches the tasks one after the other in this process, the others
are workers. In a round each of them searches the same positions, those after two half-moves from the start,
in a file of its own; figures are medians of the rounds. `per_second` are evaluations paid for, over the
seconds from the first task to the last outcome, saved; `ratio` is to one worker in the same round. `shared`
is the part of the asked evaluations that another worker had paid for, `dropped` the records that lost against
those of another one. Starting the workers is not counted: `start` has the seconds until the first was there.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import chess

from graphsearch import Graph, Limits, SearchParams, analyze
from graphsearch.book.executor import Task
from graphsearch.book.workers.worker_executor import WorkerExecutor
from graphsearch.evaluators.factory import EvaluatorSpec, parse_options
from graphsearch.position.board import key_of

Row = dict[str, float]
LOCAL = 0  # workers of the search in this process


def tasks_of(count: int, evaluations: int, batch: int) -> list[Task]:
    """Returns tasks for positions after two half-moves, a fixed mixture of all openings."""
    start = chess.Board()
    boards = []
    for first in start.legal_moves:
        start.push(first)
        for second in start.legal_moves:
            start.push(second)
            boards.append(start.copy(stack=False))
            start.pop()
        start.pop()
    chosen = boards[:: max(1, len(boards) // count)][:count]
    params = (("MinibatchSize", str(batch)),)
    return [Task(f"{key_of(b):016x}", b.fen(), evaluations=evaluations, params=params) for b in chosen]


def searched_here(path: Path, spec: EvaluatorSpec, tasks: list[Task]) -> Row:
    """Returns the figures of one search after the other in this process."""
    with Graph.open(path, evaluator=spec) as graph:
        begin, paid = time.monotonic(), 0
        for task in tasks:
            params = SearchParams.from_options(f"{name}={value}" for name, value in task.params)
            limits = Limits(evaluations=task.evaluations)
            paid += analyze(graph, chess.Board(task.fen), limits, params, hurry=True, run=1).evaluations
            graph.save_soon()
        graph.flush()
        return {"per_second": paid / (time.monotonic() - begin), "start": 0.0, "shared": 0.0, "dropped": 0}


def searched_by(path: Path, spec: EvaluatorSpec, tasks: list[Task], workers: int) -> Row:
    """Returns the figures of some workers."""
    began = time.monotonic()
    with WorkerExecutor(path, spec, workers, book=1, run=1) as executor:
        start = time.monotonic() - began
        warm(executor, workers, tasks[0].params)
        begin, before, dropped = time.monotonic(), executor.evaluations, executor.dropped
        waiting, asked = list(tasks), 0
        while waiting or executor.open_tasks:
            while waiting and executor.open_tasks < executor.capacity:
                executor.submit(waiting.pop(0))
            for outcome in executor.finished(1.0):
                assert not outcome.error, outcome.error
                asked += outcome.task.evaluations or 0
        seconds, paid = time.monotonic() - begin, executor.evaluations - before
        return {
            "per_second": paid / seconds,
            "start": start,
            "shared": 1 - paid / asked,
            "dropped": executor.dropped - dropped,
        }


def warm(executor: WorkerExecutor, workers: int, params: tuple[tuple[str, str], ...]) -> None:
    """Has every worker search once: positions far from those of the tasks."""
    board = chess.Board("4k3/pppppppp/8/8/8/8/PPPPPPPP/4K3 w - - 0 1")
    while executor.open_tasks < 4 * workers:
        board.push(next(iter(board.legal_moves)))
        executor.submit(Task(f"{key_of(board):016x}", board.fen(), evaluations=64, params=params))
    while executor.open_tasks:
        executor.finished(1.0)


def measure(args: argparse.Namespace) -> list[dict[str, float | int | str]]:
    """Returns a row of figures for each number of workers."""
    spec = EvaluatorSpec(evaluator=args.evaluator, options=parse_options(args.evaluator_option))
    tasks = tasks_of(args.tasks, args.evaluations, args.batch)
    numbers = [LOCAL, *args.workers]
    rounds: list[dict[int, Row]] = []
    for _ in range(args.rounds):
        with tempfile.TemporaryDirectory() as folder:
            path: Callable[[int], Path] = lambda number: Path(folder) / f"{number}.graph"  # noqa: E731
            rounds.append(
                {
                    number: searched_by(path(number), spec, tasks, number)
                    if number
                    else searched_here(path(number), spec, tasks)
                    for number in numbers
                }
            )
    return [row_of(number, rounds, args.workers[0]) for number in numbers]


def row_of(number: int, rounds: list[dict[int, Row]], reference: int) -> dict[str, float | int | str]:
    """Returns the medians of a number of workers."""
    figures = {name: median(one[number][name] for one in rounds) for name in rounds[0][number]}
    ratio = median(one[number]["per_second"] / one[reference]["per_second"] for one in rounds)
    return {
        "executor": str(number or "local"),
        "per_second": round(figures["per_second"], 1),
        "ratio": round(ratio, 2),
        "shared": round(figures["shared"], 3),
        "dropped": int(figures["dropped"]),
        "start": round(figures["start"], 1),
    }


def main() -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--evaluator", default="builtin")
    parser.add_argument("--evaluator-option", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--tasks", type=int, default=40)
    parser.add_argument("--evaluations", type=int, default=400)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    rows = measure(args)
    if args.json:
        print(json.dumps(rows))
        return
    names = list(rows[0])
    print("  ".join(f"{name:>10}" for name in names))
    for row in rows:
        print("  ".join(f"{row[name]:>10}" for name in names))


if __name__ == "__main__":
    main()
