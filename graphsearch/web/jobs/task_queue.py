"""Runs queued tasks in other processes: at any time one that writes the file, and one that only reads.

Waiting tasks continue when every page is closed, until they are stopped. The file keeps the queue
(`kept_queue.py`): tasks left by an ended server wait, held, until the user releases the queue.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from ...base.errors import GraphSearchError, InvalidParameterError
from ...workers.process import Handlers
from .kept_queue import KeptQueue
from .memory import Ask, MemoryAnswer, OpenQuestions
from .queued import DONE, ENDED, FAILED, INTERRUPTED, RUNNING, STOPPED, QueuedTask, Request
from .spare import SpareWorker
from .tasks import READING, FollowTask, Roots, Searching, Stop, Task, TaskReport, Watch

KEPT = 30  # ended tasks in the list
MOST_WAITING = 1000
MOST_WATCHED = 4  # positions that a search shows beside its own

BEFORE_WRITING = ("starting", "compiling", "waiting")  # stages in which a process may be killed

ANSWERING = ("searching", "resting")  # stages in which a search answers questions


class TaskQueue:
    """Starts tasks in processes; its methods are thread-safe.

    Attributes:
      version: grows with every change, so that a reader detects changes.
    """

    def __init__(self, kept: KeptQueue | None = None) -> None:
        """Makes an empty queue; `kept` saves it in the file, None: it is in memory only."""
        self.version = 0
        self._kept = kept
        self._changed = threading.Condition()
        self._numbers = itertools.count(1)
        self._waiting: deque[QueuedTask] = deque()
        self._running: dict[bool, QueuedTask] = {}  # whether it only reads -> the job
        self._ended: deque[QueuedTask] = deque(maxlen=KEPT)
        self._watched: tuple[str, ...] = ()
        self._questions = OpenQuestions()
        self._spare = SpareWorker()
        self._held = self._closed = False

    # ---------------------------------------------------------------- for requests
    def prepare(self) -> None:
        """Starts the process of the next task in advance; `close` must follow."""
        with self._changed:
            if not self._closed:
                self._spare.prepare()

    def restore(self, jobs: Sequence[QueuedTask]) -> None:
        """Adds the jobs of an ended server; unfinished ones wait until the queue is released."""
        with self._changed:
            self._numbers = itertools.count(max((job.number for job in jobs), default=0) + 1)
            self._ended.extend(job for job in jobs if job.state in ENDED)
            self._waiting.extend(job for job in jobs if job.state not in ENDED)
            self._held = bool(self._waiting)
            self._news()

    def add(self, task: Task, *, now: bool = False, request: Request | None = None) -> QueuedTask:
        """Queues a task, which starts as soon as nothing else is running; returns its job.

        Args:
          now: refuse it unless it can start at once. request: makes the task again after a restart.

        Raises:
          InvalidParameterError: if the queue is full, or if `now` and something is running.
        """
        with self._changed:
            lane = isinstance(task, READING)
            if now and lane in self._running:
                raise InvalidParameterError(
                    f"“{self._running[lane].task.title}” is running; stop it first, or add this to the queue"
                )
            if len(self._waiting) >= MOST_WAITING:
                raise InvalidParameterError(f"at most {MOST_WAITING:,} tasks may wait")
            job = QueuedTask(next(self._numbers), task, request)
            self._keep(job)
            if now:
                self._waiting.appendleft(job)
                self._held = False
            else:
                self._waiting.append(job)
            self._deal()
            return job

    def follow(self, task: FollowTask) -> QueuedTask:
        """Searches other roots from now on, and first ends any other search; returns the job.

        Raises:
          InvalidParameterError: if something else is running.
        """
        with self._changed:
            job = self._running.get(False)
            if job and job.child and isinstance(job.task, FollowTask) and not job.stopping:
                job.task = replace(job.task, roots=task.roots)
                job.child.send(Roots(task.roots))
                return job
            waiting = next((one for one in self._waiting if isinstance(one.task, FollowTask)), None)
            if waiting is not None:
                waiting.task = task
                return waiting
            if job is None or not isinstance(job.task, Searching):
                return self.add(task, now=True)
            self._held = False
            found = QueuedTask(next(self._numbers), task)
            self._keep(found)
            self._waiting.appendleft(found)
            if not job.stopping:
                self._end_soon(job)
            self._news()
            return found

    def stop(self, number: int, *, hold: bool = False) -> None:
        """Ends and saves a job, or removes it if it waits. `hold`: the queue waits until it is released."""
        with self._changed:
            self._held = self._held or hold
            for job in list(self._waiting):
                if job.number == number:
                    self._waiting.remove(job)
                    self._forget(job)
            for job in self._running.values():
                if job.number == number and not job.stopping:
                    self._end_soon(job)
            self._news()

    def hold(self, held: bool) -> None:
        """Holds the queue, or releases it."""
        with self._changed:
            self._held = held
            self._deal()

    def clear(self) -> None:
        """Removes all waiting tasks."""
        self._forget_all(self._waiting)

    def forget(self) -> None:
        """Removes ended tasks from the list."""
        self._forget_all(self._ended)

    def watch(self, position: str) -> None:
        """Makes a running search report a position too; it reports the last `MOST_WATCHED` of them."""
        with self._changed:
            rest = [fen for fen in self._watched if fen != position]
            self._watched = (position, *rest)[:MOST_WATCHED]
            job = self._running.get(False)
            if job and job.child and isinstance(job.task, Searching):
                job.child.send(Watch(self._watched))

    def ask(self, ask: Ask) -> dict[str, Any] | None:
        """Returns the answer of a running search from its memory; None without a search or an answer."""
        with self._changed:
            job = self._running.get(False)
            if job is None or job.child is None or job.facts.get("stage") not in ANSWERING:
                return None
            send = job.child.send
        return self._questions.ask(send, ask)

    def job(self, number: int) -> QueuedTask:
        """Returns a job by its number.

        Raises:
          InvalidParameterError: if there is none.
        """
        with self._changed:
            for job in (*self._running.values(), *self._waiting, *self._ended):
                if job.number == number:
                    return job
        raise InvalidParameterError(f"there is no task {number}")

    def as_dict(self) -> dict[str, Any]:
        """Returns all jobs for the page."""
        with self._changed:
            return {
                "held": self._held,
                "memory_only": self._kept.problem if self._kept else "",
                "running": [job.as_dict() for job in self._running.values()],
                "waiting": [job.as_dict() for job in self._waiting],
                "ended": [job.brief() for job in reversed(self._ended)],
            }

    @property
    def writer(self) -> int | None:
        """The pid of the queue's process that may be writing the file; None if there is none."""
        job = self._running.get(False)
        return job.child.pid if job and job.child else None

    def close(self, seconds: float = 600.0) -> None:
        """Ends the running tasks; returns when they are saved, or after `seconds`."""
        with self._changed:
            self._closed = True
            self._spare.end()
            for job in self._running.values():
                self._end_soon(job)
            self._changed.wait_for(lambda: not self._running, seconds)

    def files(self) -> set[Path]:
        """Returns the files that waiting and ended tasks still need."""
        with self._changed:
            return {path for job in (*self._waiting, *self._ended) for path in job.files()}

    # ---------------------------------------------------------------- inside; the lock is held
    def _deal(self) -> None:
        """Starts the waiting tasks that can run."""
        for job in list(self._waiting):
            lane = isinstance(job.task, READING)
            if lane not in self._running and not self._closed and (lane or not self._held):
                self._waiting.remove(job)
                self._start(job, lane)
        self._news()

    def _start(self, job: QueuedTask, lane: bool) -> None:
        self._running[lane] = job
        job.state, job.began = RUNNING, time.monotonic()
        self._keep(job)
        try:
            handlers = Handlers(
                partial(self._heard, job), partial(self._lost, job, lane), self._questions.cancel
            )
            job.child = self._spare.take(handlers)
        except GraphSearchError as error:
            job.state, job.error = FAILED, str(error)
            self._end(job, lane)
            return
        job.child.send(job.rest())
        job.child.send(Watch(self._watched))

    @staticmethod
    def _end_soon(job: QueuedTask) -> None:
        """Ends a job: a process that may be writing saves first, others are killed at once."""
        job.stopping = True
        if job.child:
            job.child.send(Stop())
            if isinstance(job.task, READING) or job.facts.get("stage", "starting") in BEFORE_WRITING:
                job.child.kill()

    def _end(self, job: QueuedTask, lane: bool) -> None:
        job.ended = time.monotonic()
        job.child, job.stopping = None, False
        if self._closed and job.state == STOPPED and job.request:
            job.state = INTERRUPTED  # by the end of the server
            self._waiting.appendleft(job)
        else:
            job.remove_upload()
            if len(self._ended) == KEPT:
                self._forget(self._ended.popleft())
            self._ended.append(job)
        self._running.pop(lane, None)
        self._keep(job)

    def _keep(self, job: QueuedTask) -> None:
        if self._kept:
            self._kept.put(job.row())

    def _forget_all(self, jobs: deque[QueuedTask]) -> None:
        with self._changed:
            for job in jobs:
                self._forget(job)
            jobs.clear()
            self._news()

    def _forget(self, job: QueuedTask) -> None:
        for path in job.files():
            path.unlink(missing_ok=True)
        job.remove_upload()
        if self._kept:
            self._kept.drop(job.number)

    def _news(self) -> None:
        self.version += 1
        self._changed.notify_all()

    # ---------------------------------------------------------------- threads of the children
    def _heard(self, job: QueuedTask, told: TaskReport | MemoryAnswer) -> None:
        if isinstance(told, MemoryAnswer):
            self._questions.settle(told)
            return
        with self._changed:
            if told.state == RUNNING:
                job.facts = told.facts
            else:
                job.state, job.error = told.state, told.error
                job.facts = {**told.facts} or job.facts
            self._news()

    def _lost(self, job: QueuedTask, lane: bool, how: str) -> None:
        with self._changed:
            if job.state == RUNNING:
                job.state = STOPPED if job.stopping else FAILED
                job.error = "" if job.stopping else f"{how}; everything saved before is in the file"
            elif job.state == DONE and job.stopping:
                job.state = STOPPED
            self._end(job, lane)
            self._deal()
            self.prepare()
