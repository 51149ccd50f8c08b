"""An engine in this process, whose lines can be waited for, and evaluators that hold it up."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Mapping
from typing import Any

from graphsearch.evaluators.factory import create
from graphsearch.evaluators.protocol import Evaluation, PositionBatch
from graphsearch.uci.engine import Engine, Maker
from graphsearch.uci.protocol import Writer
from tests.support.reference import HashEvaluator

PATIENCE = 120.0


class Console:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self._news = threading.Condition()
        self.read = 0

    def send(self, text: str) -> None:
        with self._news:
            self.lines += text.splitlines()
            self._news.notify_all()

    def until(self, begin: str) -> list[str]:
        """Returns the lines up to the next one that begins so."""
        end = time.monotonic() + PATIENCE
        with self._news:
            while True:
                for i in range(self.read, len(self.lines)):
                    if self.lines[i].startswith(begin):
                        found = self.lines[self.read : i + 1]
                        self.read = i + 1
                        return found
                left = end - time.monotonic()
                assert left > 0, f"no {begin!r} in {self.lines[self.read :]}"
                self._news.wait(left)


class Played:
    """An engine and its console, as a context: closed at the end."""

    def __init__(
        self,
        defaults: Mapping[str, str] | None = None,
        make: Maker = create,
    ) -> None:
        self.console = Console()
        self.engine = Engine(Writer(self.console.send), defaults, make=make)

    def __enter__(self) -> Played:
        return self

    def __exit__(self, *error: Any) -> None:
        self.engine.close()

    def ask(self, *lines: str, until: str) -> list[str]:
        """Sends lines and returns the answer up to a line that begins with `until`."""
        for line in lines:
            assert self.engine.handle(line)
        return self.console.until(until)

    def ready(self) -> Played:
        self.ask("isready", until="readyok")
        return self


class BlockingEvaluator(HashEvaluator):
    """Answers like HashEvaluator, but not while it is held up."""

    def __init__(self) -> None:
        super().__init__()
        self.open = threading.Event()
        self.open.set()
        self.waiting = threading.Event()

    def evaluate(self, batch: PositionBatch) -> Evaluation:
        if not self.open.is_set():
            self.waiting.set()
            assert self.open.wait(PATIENCE)
            self.waiting.clear()
        return super().evaluate(batch)


def ask_until_late(game: Played, blocking: BlockingEvaluator, *lines: str) -> list[str]:
    """Holds the evaluator up, sends lines until a search has called it, and returns the last answer.

    On a busy machine a short search may end before it evaluates anything.
    """
    blocking.open.clear()
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        answer = game.ask(*lines, until="bestmove")
        while not blocking.waiting.wait(0.01) and game.engine._waiting:
            assert time.monotonic() < end, "the worker neither waits nor ends"
        if blocking.waiting.is_set():
            return answer
    raise AssertionError("no search has called the evaluator")


def best_of(lines: list[str]) -> str:
    return lines[-1].split()[1]


def field_of(line: str, name: str) -> int:
    found = re.search(rf" {name} (-?\d+)", line)
    assert found, line
    return int(found[1])
