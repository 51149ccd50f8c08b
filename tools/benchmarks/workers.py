"""Gains and costs of several worker processes: pools of evaluators, and books."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import chess

from graphsearch import Graph, Limits, SearchParams, analyze
from graphsearch.book.executor import Task
from graphsearch.book.workers.worker_executor import WorkerExecutor
from graphsearch.evaluators.factory import EvaluatorSpec, create, parse_options
from graphsearch.evaluators.pool import pooled
from graphsearch.evaluators.protocol import Evaluator
from graphsearch.position.board import key_text

from .clocks import in_turns
from .harness import Row, benchmark
from .positions import random_positions, spread

SEARCH_EVALUATIONS = 10_000
FAR = "4k3/pppppppp/8/8/8/8/PPPPPPPP/4K3 w - - 0 1"  # far from the positions of the tasks


@benchmark("batch", "evaluator", across="evaluator", compare=("per_s", "search_per_s"))
def pool(
    *,
    evaluator: str = "builtin",
    kind: str = "local",
    workers: tuple[int, ...] = (1, 2),
    batch: tuple[int, ...] = (64, 256, 1024, 4096),
    rounds: int = 10,
) -> Iterator[Row]:
    """What a pool of workers gains and costs, batch size by batch size.

    Positions a second of the same random positions, by the evaluator itself in this process (the base) and
    by pools; search_per_s are evaluations a second of a search with such batches: alone `builtin` runs inside
    the search's kernels, in a pool it does not. `uniform` shows the cost of a batch whose evaluation is free.
    All pools run at once: for --kind ray `ray start --head --num-cpus=8` first.
    """
    make = partial(create, evaluator)
    with ExitStack() as pools:
        known: dict[str, Evaluator] = {evaluator: make()}
        for count in workers:
            known[f"{count} workers"] = pools.enter_context(pooled(make, count, kind))
        known["uniform"] = create("uniform")
        known["uniform, 1 worker"] = pools.enter_context(pooled(partial(create, "uniform"), 1, kind))
        for size in batch:
            positions = random_positions(size)
            works = {name: partial(one.evaluate, positions) for name, one in known.items()}
            for name, wall, _ in in_turns(works, rounds, warm_up=5):  # the pool learns its workers' pace
                yield {"batch": size, "evaluator": name, "ms": 1000 * wall, "per_s": size / wall}
            for name, one in known.items():
                yield {"batch": size, "evaluator": name, "search_per_s": _search_rate(one, size)}


def _search_rate(evaluator: Evaluator, batch: int) -> float:
    """Returns a search's evaluations per second, once its graph fills the batches."""
    with Graph.open(None, evaluator=evaluator) as graph:
        params = SearchParams(minibatch_size=batch)
        analyze(graph, chess.Board(), Limits(evaluations=SEARCH_EVALUATIONS // 4), params)
        found = analyze(graph, chess.Board(), Limits(evaluations=SEARCH_EVALUATIONS), params)
        return found.evaluations / found.seconds


# ------------------------------------------------------------------ books
@benchmark("workers", across="workers", compare=("per_s",))
def book_workers(
    *,
    evaluator: str = "builtin",
    evaluator_option: tuple[str, ...] = (),
    workers: tuple[int, ...] = (1, 2),
    tasks: int = 40,
    evaluations: int = 400,
    batch: int = 64,
    rounds: int = 3,
) -> Iterator[Row]:
    """How much faster several workers of a book are than a search in this process (0 workers).

    Each searches the same positions, those after two half-moves, in a file of its own. per_s: evaluations
    paid for, from the first task to the last outcome, saved. shared: part of the asked evaluations that
    another worker had paid for. dropped: records that lost against another worker's. start_s is not counted.
    """
    spec = EvaluatorSpec(evaluator=evaluator, options=parse_options(evaluator_option))
    chosen = tasks_of(tasks, evaluations, batch)
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            yield {"workers": 0} | searched_here(Path(folder) / "0.graph", spec, chosen)
            for count in workers:
                yield {"workers": count} | searched_by(Path(folder) / f"{count}.graph", spec, chosen, count)


def tasks_of(count: int, evaluations: int, batch: int) -> list[Task]:
    """Returns tasks for positions after two half-moves, spread evenly over all openings."""
    boards = []
    for first in chess.Board().legal_moves:
        board = chess.Board()
        board.push(first)
        for second in board.legal_moves:
            boards.append(board.copy(stack=False))
            boards[-1].push(second)
    params = (("MinibatchSize", str(batch)),)
    return [Task(key_text(b), b.fen(), evaluations=evaluations, params=params) for b in spread(boards, count)]


def searched_here(path: Path, spec: EvaluatorSpec, tasks: list[Task]) -> Row:
    """Returns the figures of sequential searches in this process."""
    with Graph.open(path, evaluator=spec) as graph:
        begin, paid = time.monotonic(), 0
        for task in tasks:
            params = SearchParams.from_options(f"{name}={value}" for name, value in task.params)
            limits = Limits(evaluations=task.evaluations)
            paid += analyze(graph, chess.Board(task.fen), limits, params, hurry=True, run=1).evaluations
            graph.save_soon()
        graph.flush()
        return {"per_s": paid / (time.monotonic() - begin), "shared": 0.0, "dropped": 0, "start_s": 0.0}


def searched_by(path: Path, spec: EvaluatorSpec, tasks: list[Task], workers: int) -> Row:
    """Returns the figures of searches by worker processes."""
    began = time.monotonic()
    with WorkerExecutor(path, spec, workers, book=1, run=1) as executor:
        start = time.monotonic() - began
        _warm(executor, workers, tasks[0].params)
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
            "per_s": paid / seconds,
            "shared": 1 - paid / asked,
            "dropped": executor.dropped - dropped,
            "start_s": start,
        }


def _warm(executor: WorkerExecutor, workers: int, params: tuple[tuple[str, str], ...]) -> None:
    """Makes every worker search once, far from the positions of the tasks."""
    board = chess.Board(FAR)
    while executor.open_tasks < 4 * workers:
        board.push(next(iter(board.legal_moves)))
        executor.submit(Task(key_text(board), board.fen(), evaluations=64, params=params))
    while executor.open_tasks:
        executor.finished(1.0)
