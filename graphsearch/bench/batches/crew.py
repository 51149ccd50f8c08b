"""Worker processes for the price: one task each at a time, as one line of JSON there and one back."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import subprocess
import sys
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import IO

from ...errors import GraphSearchError
from .price import Outcome, Task, compare

Answer = dict[tuple[str, int], Outcome]


class Crew:
    """Some processes that compare searches. Leaving its context ends them at once, whatever they do."""

    def __init__(self, count: int) -> None:
        command = [sys.executable, "-m", "graphsearch.bench.batches"]
        pipe, quiet = subprocess.PIPE, subprocess.DEVNULL
        self._workers: list[subprocess.Popen[str]] = []
        try:
            for _ in range(count):
                self._workers.append(
                    subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=quiet, text=True)  # noqa: S603
                )
        except BaseException:
            self.end()
            raise

    def results(self, tasks: Sequence[Task]) -> Iterator[tuple[int, Answer]]:
        """Yields (number of the task, its outcomes) as they come.

        Raises:
          GraphSearchError: if a search or a worker fails.
        """
        waiting = iter(enumerate(tasks))
        with selectors.DefaultSelector() as busy:
            for worker in self._workers:
                if task := next(waiting, None):
                    busy.register(_pipe(worker.stdout), selectors.EVENT_READ, (worker, _send(worker, task)))
            while busy.get_map():
                for key, _ in busy.select():
                    worker, number = key.data
                    answer = _receive(worker)
                    if task := next(waiting, None):
                        busy.modify(key.fileobj, selectors.EVENT_READ, (worker, _send(worker, task)))
                    else:
                        busy.unregister(key.fileobj)
                    yield number, answer

    def end(self) -> None:
        """Ends all workers."""
        for worker in self._workers:
            worker.kill()
        for worker in self._workers:
            worker.wait()
            for pipe in (worker.stdin, worker.stdout):
                with contextlib.suppress(BrokenPipeError):  # what a worker never read
                    _pipe(pipe).close()

    def __enter__(self) -> Crew:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()


def _pipe(pipe: IO[str] | None) -> IO[str]:
    assert pipe is not None
    return pipe


def _send(worker: subprocess.Popen[str], task: tuple[int, Task]) -> int:
    """Gives a worker its next task; returns the task's number."""
    pipe = _pipe(worker.stdin)
    try:
        pipe.write(json.dumps(task[1].as_dict()) + "\n")
        pipe.flush()
    except BrokenPipeError:
        raise _ended(worker) from None
    return task[0]


def _receive(worker: subprocess.Popen[str]) -> Answer:
    line = _pipe(worker.stdout).readline()
    if not line:
        raise _ended(worker)
    answer = json.loads(line)
    if isinstance(answer, str):
        raise GraphSearchError(answer)
    return {(gather, batch): Outcome(*values) for gather, batch, values in answer}


def _ended(worker: subprocess.Popen[str]) -> GraphSearchError:
    return GraphSearchError(f"a worker of the benchmark ended with exit code {worker.wait()}")


def work() -> None:
    """Does the tasks on standard input until it ends; what libraries print goes nowhere."""
    answers, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    with os.fdopen(0, encoding="utf-8") as tasks, os.fdopen(answers, "w", encoding="utf-8") as out:
        for line in tasks:
            _write(out, _answer(Task.from_dict(json.loads(line))))


def _answer(task: Task) -> object:
    """Returns the outcomes as JSON has them, or what went wrong as a text."""
    try:
        outcomes = compare(task)
    except Exception as error:  # told by the process that waits
        return f"{task.case.fen} with {task.evaluator}: {error or type(error).__name__}"
    return [
        (gather, batch, (o.agreement, o.root_distance, o.waste, o.good))
        for (gather, batch), o in outcomes.items()
    ]


def _write(out: IO[str], answer: object) -> None:
    """Writes one line of JSON at once."""
    out.write(json.dumps(answer) + "\n")
    out.flush()
