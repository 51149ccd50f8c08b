"""The worker process: runs one task, reports its progress, ends and saves on request.

One process starts before there is a task for it, so that the next task begins at once: a process needs half a
second to be ready. It does not fork a prepared process: threads, open files and some libraries do not survive
a fork.
"""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Any

from ...base.errors import GraphSearchError, StoreLockedError, UnsavedError
from ...base.faults import error_line
from ...base.system import cores
from ...workers.process import Child, Handlers
from .files import BuildTask, CompareTask, ExportTask, ImportTask, MergeTask, ReviewTask
from .searching import FollowTask, SearchTask
from .task import Order, Task, TaskReport, Work

if TYPE_CHECKING:
    from ...workers.process import Pipe

KINDS: tuple[type[Task], ...] = (
    SearchTask,
    FollowTask,
    BuildTask,
    ImportTask,
    ExportTask,
    CompareTask,
    MergeTask,
    ReviewTask,
)
LOCK_SECONDS = 1.0  # between two attempts to lock the file


def work(pipe: Pipe) -> None:
    """Runs the first task of a pipe, and receives the server's messages meanwhile."""
    try:
        order: Order = pipe.recv()
    except EOFError:  # the server has ended, and this process was in reserve
        return
    work = Work(pipe, order)
    try:
        pipe.send(TaskReport("done", _when_free(work)))
    except UnsavedError as error:
        pipe.send(TaskReport("failed", error=f"the results could not be saved: {error}"))
    except GraphSearchError as error:
        pipe.send(TaskReport("failed", error=" ".join(getattr(error, "problems", [str(error)]))))
    except Exception as error:
        pipe.send(TaskReport("failed", error=error_line(error, order.task.word)))


def _when_free(work: Work) -> dict[str, Any]:
    """Runs a task; with `waits`, it first waits until no other program writes the file."""
    task = work.order.task
    while True:
        try:
            return task.run(work)
        except StoreLockedError as error:
            if not task.waits:
                raise
            work.send({"stage": "waiting", "for": str(error)})
            if work.stop.wait(LOCK_SECONDS):
                return {"stage": "done", "reason": "stop"}


# ---------------------------------------------------------------- in reserve
class _Waiting:
    """A process without a task, and the handlers that it gets with one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.gone = False
        self._handlers: Handlers | None = None
        own = Handlers(self._hear, self._lost, self._died)
        self.child = Child(work, own, name="graphsearch task", threads=cores())

    def give(self, handlers: Handlers) -> bool:
        """Sets the handlers; returns False if the process has ended, which calls none of them."""
        with self._lock:
            if not self.gone:
                self._handlers = handlers
            return not self.gone

    # the threads of the process; before `give` it sends nothing
    def _hear(self, message: object) -> object:
        return self._handlers.hear(message) if self._handlers else None

    def _died(self) -> None:
        with self._lock:
            self.gone = True
        if self._handlers:
            self._handlers.died()

    def _lost(self, how: str) -> None:
        if self._handlers:
            self._handlers.lost(how)


class SpareWorker:
    """Starts worker processes, one of them in advance."""

    def __init__(self) -> None:
        self.waiting: _Waiting | None = None

    def prepare(self) -> None:
        """Starts the process of the next task if none waits; a failure is left for the task to report."""
        if self.waiting is None:
            with contextlib.suppress(GraphSearchError):
                self.waiting = _Waiting()

    def take(self, handlers: Handlers) -> Child:
        """Returns a process that waits for a task, with these handlers.

        Raises:
          EvaluatorError: if no process can be started.
        """
        waiting, self.waiting = self.waiting, None
        if waiting is None or not waiting.give(handlers):
            waiting = _Waiting()
            waiting.give(handlers)
        return waiting.child

    def end(self) -> None:
        """Ends the process that waits."""
        waiting, self.waiting = self.waiting, None
        if waiting is not None:
            waiting.child.kill()
