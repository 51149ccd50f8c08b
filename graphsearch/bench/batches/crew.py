"""Worker processes for the price: one task each at a time."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf
from types import TracebackType

from ...errors import GraphSearchError
from ...workers.child import Child, Pipe
from ...workers.messages import Failure, Leave, Ready, own_place
from ...workers.supervisor import Assignment, Seat, Supervisor
from .price import Prices, PriceTask, compare


@dataclass(eq=False)
class _Comparison(Assignment):
    """A task, and its number."""

    number: int
    task: PriceTask

    def __str__(self) -> str:
        return f"{self.task.case.fen} with {self.task.evaluator}"


class PriceWorkers(Supervisor[_Comparison]):
    """Some processes that compare searches. Leaving its context ends them at once, whatever they do."""

    most_lost = 1  # a search that does not fit in memory once will not fit the next time

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self._done: deque[tuple[int, Prices]] = deque()
        self._error: GraphSearchError | None = None

    def results(self, tasks: Sequence[PriceTask]) -> Iterator[tuple[int, Prices]]:
        """Yields (number of the task, its prices) as they come.

        Raises:
          GraphSearchError: if a search or a worker fails.
        """
        self.start()
        self.submit(*(_Comparison(number, task) for number, task in enumerate(tasks)))
        for _ in tasks:
            yield self._result()

    def _result(self) -> tuple[int, Prices]:
        with self.changed:
            while not self._done and self._error is None:
                self.check()
                self.rest()
            if self._error is not None:
                raise self._error
            return self._done.popleft()

    def __enter__(self) -> PriceWorkers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(0.0)

    # ---------------------------------------------------------- what the work is
    def _worker(self, seat: Seat[_Comparison]) -> Child:
        name = f"graphsearch-bench-{seat.number}"
        heard, lost = partial(self._heard, seat), partial(self._lost, seat)
        return Child(work, name=name, threads=1, hear=[heard], lost=lost)

    def _request(self, seat: Seat[_Comparison], assignment: _Comparison) -> tuple[PriceTask, float]:
        return assignment.task, inf

    def _finished(self, seat: Seat[_Comparison], assignment: _Comparison, message: object) -> None:
        if isinstance(message, Failure):
            self._error = GraphSearchError(f"{assignment}: {message.text}")
        elif isinstance(message, dict):
            self._done.append((assignment.number, message))

    def _given_up(self, assignment: _Comparison, why: str) -> None:
        self._error = GraphSearchError(why)


def work(pipe: Pipe) -> None:
    """Does the tasks that come until it is told to leave; what libraries print goes nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    pipe.send(Ready(own_place()))
    while not isinstance(task := pipe.recv(), Leave):
        try:
            pipe.send(compare(task))
        except Exception as error:  # told by the process that waits
            pipe.send(Failure("GraphSearchError", str(error) or type(error).__name__))
