"""Evaluators for pools, made in the worker: answers from a hash, slow ones, and ones that go wrong once."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import chess
import psutil

from graphsearch.base.errors import EvaluatorError
from graphsearch.base.system import end_at_once
from graphsearch.evaluators.pool import PooledEvaluator
from graphsearch.evaluators.protocol import Evaluation, Evaluator, PositionBatch
from graphsearch.store.provenance import EvaluatorIdentity
from tests.support.plain import ROOT
from tests.support.positions import after_each_move
from tests.support.reference import HashEvaluator

SECONDS = 120.0  # that a test waits for what must come, on however busy a machine


class OddError(EvaluatorError):
    """An exception that does not survive pickling: it wants more than its text."""

    def __init__(self, board: str, code: int) -> None:
        super().__init__(f"engine code {code} at {board}")


@dataclass(frozen=True)
class Oracle:
    """Makes a `HashEvaluator` that takes its time, keeps a log, and misbehaves if told to.

    Attributes:
      log: a folder; each process lists what it evaluated there, in a file named after its process number.
      seconds: for each position.
      bad: the EPD of a position that goes wrong, in the way `how` says: `die`, `hang`, `raise`, `odd`,
        `exit` or `shape`. Or several EPDs and as many ways.
      once: a file; it goes wrong only if that can be made. It has the number of the process then.
    """

    log: Path
    seconds: float = 0.0
    bad: str = ""
    how: str = ""
    once: Path | None = None

    def __call__(self) -> LoggedEvaluator:
        return LoggedEvaluator(self)


class LoggedEvaluator(Evaluator):
    notes = ("a note",)

    def __init__(self, oracle: Oracle) -> None:
        self.oracle = oracle
        fields = oracle.bad.split()  # an EPD has four
        epds = (" ".join(fields[k : k + 4]) for k in range(0, len(fields), 4))
        self._bad = dict(zip(epds, oracle.how.split(" ") if len(fields) > 4 else [oracle.how], strict=False))
        self.identity = EvaluatorIdentity("hash", f"{os.getpid()}" if oracle.how == "differ" else "")

    def evaluate(self, batch: PositionBatch) -> Evaluation:
        plain = HashEvaluator()
        found, names = plain.evaluate(batch), plain.asked
        for name in names:
            time.sleep(self.oracle.seconds)
            if name in self._bad and self._goes_wrong():
                found = self._misbehave(name, found)
        with (self.oracle.log / str(os.getpid())).open("a") as file:
            file.write("".join(f"{name}\n" for name in names))
        return found

    def _goes_wrong(self) -> bool:
        if self.oracle.once is None:
            return True
        try:
            with self.oracle.once.open("x") as file:
                file.write(str(os.getpid()))
        except FileExistsError:
            return False
        return True

    def _misbehave(self, name: str, found: Evaluation) -> Evaluation:
        how = self._bad[name]
        if how == "die":
            end_at_once()
        if how == "hang":
            time.sleep(600)
        if how == "raise":
            raise ZeroDivisionError("division by zero")
        if how == "odd":
            raise OddError(name, 7)
        if how == "exit":
            sys.exit(3)
        return Evaluation(found.wdl[:-1], found.priors)

    def close(self) -> None:
        (self.oracle.log / f"closed-{os.getpid()}").touch()


def searched(evaluator: Evaluator, visits: int) -> tuple[Any, int, int]:
    """Returns every record of a search, and how many evaluations and visits it counted."""
    from graphsearch import Graph, Limits, SearchParams, analyze  # here: workers import this file

    from .graphs import records_below

    with Graph.open(None, evaluator=evaluator) as graph:
        result = analyze(graph, chess.Board(), Limits(visits=visits), SearchParams(minibatch_size=64))
        records = {key: record for key, (_, record) in records_below(graph, chess.Board()).items()}
        return records, result.evaluations, result.visits


def evaluated(log: Path) -> list[str]:
    """Returns the EPD of every position that any worker finished, in no order."""
    return [line for file in log.iterdir() if file.name.isdigit() for line in file.read_text().splitlines()]


def games(count: int) -> list[chess.Board]:
    """Returns different positions: those after every pair of first moves."""
    found = [board for first in after_each_move(chess.Board()) for board in after_each_move(first)]
    assert count <= len(found)
    return found[:count]


def until(true: Callable[[], Any], what: str = "", seconds: float = SECONDS) -> Any:
    """Returns what a function returns once that is true."""
    end, pause = time.monotonic() + seconds, 0.02
    while not (found := true()):
        assert time.monotonic() < end, f"it never came: {what}"
        time.sleep(pause)
        pause = min(0.2, 1.3 * pause)  # each look costs what is looked at some time
    return found


def all_ready(pool: PooledEvaluator) -> None:
    """Waits until every worker can be called; on a busy machine one may do all before another begins."""
    crew = pool._crew
    until(lambda: crew._ready == crew.count)


def in_the_middle(condition: Callable[[], bool], act: Callable[[], None]) -> threading.Thread:
    """Does something on a thread as soon as a condition holds."""

    def wait_and_act() -> None:
        until(condition)
        act()

    thread = threading.Thread(target=wait_and_act)
    thread.start()
    return thread


def is_alive(process: int) -> bool:
    """Returns whether a process runs: it is there, and not one that only waits to be counted off."""
    try:
        return bool(psutil.Process(process).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def children(process: int) -> list[int]:
    try:
        return [child.pid for child in psutil.Process(process).children() if is_alive(child.pid)]
    except psutil.NoSuchProcess:
        return []


def run_script(path: Path, text: str) -> subprocess.Popen[str]:
    """Returns a Python script as a started process in a group of its own, its output in pipes."""
    path.write_text(text)
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        [sys.executable, "-W", "error", str(path)],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
