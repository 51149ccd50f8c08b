"""The worker's process: one evaluator, one graph over the shared file, one task at a time."""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import cast

import chess

from ...base.errors import GraphSearchError, InvalidParameterError
from ...base.machine import cores
from ...evaluators.factory import EvaluatorSpec, create, with_threads
from ...evaluators.pool import Make, compiled_once
from ...evaluators.uniform import OutsideUniform
from ...graph import arena_kernel
from ...graph.graph import Graph
from ...graph.memory import default_budget
from ...search.job import limits_after
from ...search.loop import analyze
from ...search.params import LEAST_RAM, Limits, SearchParams
from ...solvers.mate.beside import TRIAL, MateFinder
from ...store.sharded.manifest import is_sharded
from ...workers.launcher import Launcher
from ...workers.messages import Beat, Leave, Ready, failure_of, own_place
from ...workers.process import Pipe, end_at_once
from ..executor import UNFINISHED, Outcome, search_task
from .messages import TaskRequest
from .shared_evaluator import SharedEvaluator
from .worker_store import RemoteStore, WorkerStore

COORDINATOR_SHARE = 8  # one part in 8 of the memory is for the ledger and the messages of the executor
LITTLE_BYTES = 64 << 20
BEAT_SECONDS = 1.0  # between two heartbeats
TURN_SECONDS = 0.9  # of a turn; shorter than the time before a search first saves


@dataclass(frozen=True, slots=True)
class Setup:
    """The settings of a worker.

    Attributes:
      path: of the graph. make: makes its evaluator.
      ram_bytes: None: the memory of its machine, divided by the number of cores.
      threads: of its evaluator. is_alone: whether there are no other workers.
      reads_file: whether it opens the file; otherwise the writer reads for it.
    """

    path: str
    make: Make
    ram_bytes: int | None
    threads: int
    is_alone: bool
    reads_file: bool = True


def setup_for(
    path: str | os.PathLike[str],
    spec: EvaluatorSpec | Make,
    workers: int,
    ram_bytes: int | None,
    launcher: Launcher,
) -> Setup:
    """Returns the settings of the workers of a file; `WorkerExecutor` describes the arguments.

    Raises:
      InvalidParameterError: for numbers out of range, or an option unknown to the evaluator.
    """
    share = None if ram_bytes is None and launcher.is_remote else _share(workers, ram_bytes)
    make = partial(create, with_threads(spec, launcher.threads)) if isinstance(spec, EvaluatorSpec) else spec
    real = os.path.realpath(os.fspath(path))
    reads_file = launcher.shares_files and not is_sharded(path)
    return Setup(real, make, share, launcher.threads, workers == 1, reads_file=reads_file)


def _share(workers: int, ram_bytes: int | None) -> int:
    """Returns the memory of each worker."""
    every = default_budget() if ram_bytes is None else ram_bytes
    share = every * (COORDINATOR_SHARE - 1) // COORDINATOR_SHARE // workers
    if share < LEAST_RAM:
        least = -(-LEAST_RAM * workers * COORDINATOR_SHARE // (COORDINATOR_SHARE - 1))
        raise InvalidParameterError(
            f"{workers} workers need {-(-least // 10**6)} MB of memory at least, not {every // 10**6}"
        )
    return share


def work(setup: Setup, tasks: Pipe, ledger: Pipe, *files: Pipe) -> None:
    """Searches tasks until `Leave`; the main function of the process. `messages` describes the pipes."""
    try:
        evaluator = setup.make()
        ready = Ready(own_place(), evaluator.identity.as_json(), evaluator.notes)
    except BaseException as error:  # SystemExit too: the builder needs the reason
        tasks.send(failure_of(error))
        return
    try:
        tasks.send(ready)
        _Worker(setup, tasks, files, SharedEvaluator(evaluator, ledger)).run()
    finally:
        evaluator.close()


class _Worker:
    """Searches tasks and sends their results."""

    def __init__(self, setup: Setup, tasks: Pipe, files: Sequence[Pipe], evaluator: SharedEvaluator) -> None:
        self._setup = setup
        self._tasks, self._files = tasks, files
        self._evaluator = evaluator
        self._graph: Graph | None = None
        self._stop = threading.Event()
        self._requests: queue.SimpleQueue[TaskRequest | None] = queue.SimpleQueue()
        self._speaking = threading.Lock()
        for task in (self._listen, self._beat):
            threading.Thread(target=task, name=f"graphsearch{task.__name__}", daemon=True).start()

    def run(self) -> None:
        """Searches one task at a time until the last, then saves."""
        try:
            while (request := self._requests.get()) is not None:
                self._send(self._done(request))
        finally:
            if self._graph is not None:
                self._graph.close()

    # ---------------------------------------------------------- threads
    def _listen(self) -> None:
        """Handles messages; ends the process when the builder is gone."""
        try:
            while True:
                message = self._tasks.recv()
                if isinstance(message, TaskRequest):
                    self._requests.put(message)
                    continue
                self._stop.set()
                if isinstance(message, Leave):
                    self._requests.put(None)
        except (EOFError, OSError):
            end_at_once()

    def _beat(self) -> None:
        while True:
            self._send(Beat())
            time.sleep(BEAT_SECONDS)

    def _send(self, message: Outcome | Beat) -> None:
        try:
            with self._speaking:
                self._tasks.send(message)
        except OSError:
            end_at_once()

    # ---------------------------------------------------------- one task
    def _done(self, request: TaskRequest) -> Outcome:
        """Searches a position, saves its records in the file, and returns the outcome."""
        paid, visits, error, is_whole = self._evaluator.paid, 0, "", False
        try:
            graph = self._opened()
            before = int(graph.arena.counters[arena_kernel.VISITS])
            try:
                is_whole = self._search(graph, request) not in UNFINISHED
            finally:
                visits = int(graph.arena.counters[arena_kernel.VISITS]) - before
                graph.flush()
                cast(WorkerStore, graph.store).drop_snapshot()
        except GraphSearchError as failed:
            error = str(failed)
        return Outcome(request.task, visits, self._evaluator.paid - paid, error, is_whole)

    def _opened(self) -> Graph:
        """Returns the graph, opened at the first task, when the file exists."""
        if self._graph is None:
            with (
                compiled_once("search"),
                Graph.open(None, evaluator=OutsideUniform(), ram_bytes=LITTLE_BYTES) as little,
            ):
                params = SearchParams(minibatch_size=32)
                analyze(little, chess.Board(), Limits(visits=100), params)
                analyze(little, chess.Board(TRIAL), Limits(visits=2), params, mates=MateFinder())
            ram_bytes = self._setup.ram_bytes or default_budget() // cores()
            store = self._store()
            self._graph = Graph(self._evaluator, store, ram_bytes=ram_bytes)
            if isinstance(store, RemoteStore):
                self._graph.entries.use_proofs(store.proofs)
            self._graph.pager.complete = False  # others write this file too
            self._graph.reads_alone = False
            self._graph.saves_meanwhile = False  # a turn sees one state of it
        return self._graph

    def _store(self) -> WorkerStore:
        path, identity = self._setup.path, self._evaluator.identity
        if self._setup.reads_file:
            return WorkerStore.joined(path, identity, *self._files)
        return RemoteStore(path, identity, *self._files)

    def _search(self, graph: Graph, request: TaskRequest) -> str:
        """Searches the position of a task, in turns if there are other workers; returns why the search ended.

        Between two turns nothing is in flight and everything is saved: then this worker reads the records
        that others have saved, and its edges catch up with them. Within a turn it sees one state of the file.
        So its memory is always in a state that a single process could reach: no edge counts more visits than
        its child has.
        """
        left = request.task.limits
        seconds = None if self._setup.is_alone else TURN_SECONDS
        while True:
            graph.flush()
            catch_up(graph, self._evaluator)
            found = search_task(graph, request.task, replace(left, seconds=seconds), request.run, self._stop)
            rest = limits_after(left, visits=found.new_visits, evaluations=found.evaluations)
            if found.stop_reason != "time" or rest is None:
                return "limits" if rest is None else found.stop_reason
            left = rest


def catch_up(graph: Graph, evaluator: SharedEvaluator) -> None:
    """Brings memory and snapshot to the last commit; the caller has saved everything.

    After each snapshot it asks for updates again: without a new commit, memory and snapshot match.
    """
    store = cast(WorkerStore, graph.store)
    before = -1
    while True:
        updates = evaluator.catch_up()
        if updates.commits == before:
            break
        before = updates.commits
        store.take_snapshot()
        graph.pager.file_changed()
        if updates.batches is None or not all(graph.pager.renew(batch) for batch in updates.batches):
            graph.pager.start_over()
