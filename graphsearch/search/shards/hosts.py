"""Processes of shards: calls of the methods of `Host` return futures."""

from __future__ import annotations

import itertools
import threading
from concurrent.futures import Future
from functools import partial
from typing import Any

from ...base.errors import GraphSearchError, ShardLostError
from ...workers import launcher
from ...workers.launcher import Launcher
from ...workers.messages import Failure, Leave
from ...workers.process import Handlers
from .host import Answer, Call, Setting, serve

KILLING_SECONDS = 10.0  # for the system to end a process, and for Ray to notice


class ShardLauncher:
    """Starts the processes of shards.

    Attributes:
      is_remote: whether they may be on other machines. crowd: the most of them on one machine.
      threads: of each, so that all of a machine use all of its cores.
      patience: seconds to wait until all of them run. advice: what to do if they do not.
    """

    def __init__(self, workers: Launcher) -> None:
        self._launcher = workers
        self.is_remote, self.crowd = workers.is_remote, workers.per_machine
        self.threads = workers.threads
        self.patience, self.advice = workers.patience, workers.advice

    def start(self, setting: Setting) -> ShardProcess:
        """Starts the process of a shard, and returns it."""
        return ShardProcess(self._launcher, setting)

    def close(self) -> None:
        """Releases all resources; processes that still run end."""
        self._launcher.close()


def launcher_for(pool: str | None, shards: int) -> ShardLauncher:
    """Returns the launcher for the pool that `--pool` names: `local`, `ray` or `ray:ADDRESS`."""
    return ShardLauncher(launcher.launcher_for(pool, shards, all_at_once=True))


class ShardProcess:
    """The master's handle to a shard's process.

    Attributes:
      place: host name and process, once they are known; for messages.
    """

    def __init__(self, workers: Launcher, setting: Setting) -> None:
        self.place = ""
        self._number = setting.number
        self._numbers = itertools.count()
        self._waiting: dict[int, Future[Any]] = {}
        self._error: GraphSearchError | None = None
        self._gone = threading.Event()
        self._worker = workers.start(
            partial(serve, setting),
            Handlers([self._receive], self._lost),
            name=f"graphsearch-shard-{setting.number}",
        )

    def call(self, method: str, *arguments: Any) -> Future[Any]:
        """Returns the future result of a method of `Host`; ShardLostError if the process ends before."""
        number, future = next(self._numbers), Future[Any]()
        self._waiting[number] = future
        self._worker.send(Call(number, method, arguments))
        if self._error:
            self._fail(self._error)
        return future

    def leave(self) -> None:
        """Ends the process; its file is closed already."""
        self._worker.send(Leave())

    def kill(self) -> None:
        """Ends the process at once, and waits until it has ended; unsaved data is lost."""
        self._worker.kill()
        self._gone.wait(KILLING_SECONDS)

    def _receive(self, message: Answer | Failure) -> None:
        if isinstance(message, Failure):
            self._fail(message.as_error(placed=True))
        else:
            self._waiting.pop(message.number).set_result(message.value)

    def _lost(self, how: str) -> None:
        self._fail(
            ShardLostError(
                f"shard {self._number} is lost: {how}" + (f" ({self.place})" if self.place else "")
            )
        )
        self._gone.set()

    def _fail(self, error: GraphSearchError) -> None:
        """Fails all open and later calls; the first error counts."""
        self._error = self._error or error
        for number in list(self._waiting):
            future = self._waiting.pop(number, None)
            if future:
                future.set_exception(self._error)
