"""A worker process that starts before there is a task for it, so that the next task begins at once."""

from __future__ import annotations

import contextlib
import threading

from ...base.errors import GraphSearchError
from ...base.system import cores
from ...workers.process import Child, Handlers
from .worker import work


class _Waiting:
    """A process without a task, and the handlers that it gets with one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._gone = False
        self._handlers: Handlers | None = None
        own = Handlers(self._hear, self._lost, self._died)
        self.child = Child(work, own, name="graphsearch task", threads=cores())

    def give(self, handlers: Handlers) -> bool:
        """Sets the handlers; returns False if the process has ended, which calls none of them."""
        with self._lock:
            if not self._gone:
                self._handlers = handlers
            return not self._gone

    # the threads of the process; before `give` it sends nothing
    def _hear(self, message: object) -> object:
        return self._handlers.hear(message) if self._handlers else None

    def _died(self) -> None:
        with self._lock:
            self._gone = True
        if self._handlers:
            self._handlers.died()

    def _lost(self, how: str) -> None:
        if self._handlers:
            self._handlers.lost(how)


class SpareWorker:
    """Starts worker processes, one of them in advance: a process needs half a second to be ready.

    It does not fork a prepared process: threads, open files and some libraries do not survive a fork.
    """

    def __init__(self) -> None:
        self._waiting: _Waiting | None = None

    def prepare(self) -> None:
        """Starts the process of the next task if none waits; a failure is left for the task to report."""
        if self._waiting is None:
            with contextlib.suppress(GraphSearchError):
                self._waiting = _Waiting()

    def take(self, handlers: Handlers) -> Child:
        """Returns a process that waits for a task, with these handlers.

        Raises:
          EvaluatorError: if no process can be started.
        """
        waiting, self._waiting = self._waiting, None
        if waiting is None or not waiting.give(handlers):
            waiting = _Waiting()
            waiting.give(handlers)
        return waiting.child

    def end(self) -> None:
        """Ends the process that waits."""
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            waiting.child.kill()
