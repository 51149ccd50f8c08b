"""Processes of all shards: starts them, runs one search after the other, ends them.

start   greet         go back      open           listen   search           ... leave
        all can?      one save     files          ports    waves, saves         files closed
          |                                                   | one fails: all end between two steps, and save
          no: nothing was written                             | one is lost: all are killed
"""

from __future__ import annotations

import itertools
import secrets
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, as_completed, wait
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from ...base.errors import GraphSearchError, ShardLostError, StoreError, StoreMovedError
from ...base.version import __version__
from ...evaluators.factory import EvaluatorSpec
from ...store.sharded.manifest import Manifest
from ...store.sharded.saved_waves import Save, go_back
from ...workers.launcher import Launcher
from ...workers.messages import Failure, Leave
from ...workers.process import Handlers
from ..job import SearchJob
from .host import Answer, Call, Setting, serve
from .part import ShardProgress, ShardReport

TOKEN_BYTES = 32
ENDING_SECONDS = 600.0  # for a shard to finish its step
GIVING_UP_SECONDS = 10.0  # for shards to notice that the search is given up, or for Ray that one is lost
LOOK_SECONDS = 0.1
KILLING_SECONDS = 10.0  # for the system to end a process, and for Ray to notice


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSetup:
    """The parameters of a search over a cluster that stay the same after a loss.

    Attributes:
      folder, manifest: of the cluster. launcher: starts the shards.
      spec: the evaluator of each shard. ram_bytes: memory of each.
    """

    folder: Path
    manifest: Manifest
    launcher: Launcher
    spec: EvaluatorSpec
    ram_bytes: int


class Attempt:
    """Processes of all shards, from their start to `leave` or `kill`.

    Attributes:
      places: where each shard is: host name and process.
    """

    def __init__(self, setup: ClusterSetup) -> None:
        """Starts the processes."""
        self.places: list[str] = []
        self._setup = setup
        self._hosts: list[ShardProcess] = []
        token = secrets.token_bytes(TOKEN_BYTES)
        try:
            for number in range(setup.manifest.shards):
                self._hosts.append(ShardProcess(setup.launcher, self._setting(number, token)))
        except BaseException:
            self.kill()
            raise

    def _setting(self, number: int, token: bytes) -> Setting:
        setup = self._setup
        return Setting(
            folder=str(setup.folder.resolve()),
            cluster=setup.manifest.cluster,
            number=number,
            evaluator=setup.spec,
            ram_bytes=setup.ram_bytes,
            token=token,
            is_remote=setup.launcher.is_remote,
        )

    def leave(self) -> None:
        """Ends all processes after they have closed their files.

        Raises:
          GraphSearchError: if one cannot, or has ended before; then all are killed.
        """
        try:
            self._ask("leave")
        except BaseException:
            self.kill()
            raise
        for host in self._hosts:
            host.leave()

    def kill(self) -> None:
        """Kills all processes; unsaved results are lost."""
        for host in self._hosts:
            host.kill()

    # ---------------------------------------------------------- the search
    def open(self) -> Save:
        """Brings all files to one save, once every shard is ready, and opens them; returns that save.

        Raises:
          ShardLostError: if a process has ended.
          GraphSearchError: if a shard is not ready; then nothing was written.
        """
        self.places = self._ask("where", seconds=self._setup.launcher.patience)
        for host, place in zip(self._hosts, self.places, strict=True):
            host.place = place
        self._ask("check", __version__)
        save = go_back(self._setup.folder, self._setup.manifest)[0]
        self._ask("open")
        return save

    def search(
        self, job: SearchJob, since: Save, leader: int, is_told_to_stop: Callable[[], bool]
    ) -> list[ShardReport]:
        """Runs a search; returns the reports of all shards when everything is saved.

        Args:
          since: the run, with the counts of the last save. leader: the shard that owns the root.
          is_told_to_stop: polled; returns whether to end the search; it may call `progress`.

        Raises:
          ShardLostError: if a process has ended, or cannot be reached.
          GraphSearchError: if a shard fails otherwise; the message says which results the files hold.
        """
        replies = self._call("search", job, since, self._ask("listen"), leader)
        left, stops = set(replies), False
        while left:
            done, left = wait(left, LOOK_SECONDS, "FIRST_COMPLETED")
            if any(_error(reply) for reply in done):
                self._end_badly(since, replies)
            if is_told_to_stop() and not stops:
                stops = True
                left.add(self._hosts[leader].call("stop"))  # received before the next search begins
        return [_value(reply) for reply in replies]

    def progress(self, leader: int, seconds: float) -> ShardProgress | None:
        """Returns the search's progress; None if its leader does not answer in `seconds` seconds."""
        try:
            found: ShardProgress | None = self._hosts[leader].call("progress").result(seconds)
        except (ShardLostError, TimeoutError):
            return None
        return found

    # ---------------------------------------------------------- failure
    def _end_badly(self, since: Save, replies: Sequence[Future[Any]]) -> NoReturn:
        """Makes all shards give up, and raises the reason: an error of one shard, or the loss of one."""
        self._call("give_up")
        wait(replies, GIVING_UP_SECONDS)
        if failure := next(filter(None, map(_failure, replies)), None):
            _, busy = wait(replies, ENDING_SECONDS)  # one may be within an evaluation
            what = "the cluster holds its last save" if busy else self._kept(since)
            raise replace(failure, text=f"{failure.text}; the search ended, and {what}").as_error(placed=True)
        lost = [error for reply in replies if reply.done() and (error := reply.exception())]
        errors = [error for reply in replies if reply.done() and (error := _error(reply))]
        raise (lost or errors)[0]

    def _kept(self, since: Save) -> str:
        """Saves the results of all shards; returns the content of the files for a message."""
        try:
            known: list[Save] = self._ask("known")
            visits, evaluations = (sum(one.visits for one in known), sum(one.evaluations for one in known))
            self._ask("keep", since.later(1 + max(one.number for one in known), visits, evaluations))
        except StoreMovedError:
            raise  # it names the file that now has everything of that shard
        except GraphSearchError:
            return "the cluster holds its last save"
        return "its results are saved"

    # ---------------------------------------------------------- calls
    def _call(self, method: str, *arguments: Any) -> list[Future[Any]]:
        return [host.call(method, *arguments) for host in self._hosts]

    def _ask(self, method: str, *arguments: Any, seconds: float | None = None) -> list[Any]:
        """Returns the answers of all shards to a call.

        Raises:
          GraphSearchError: if a shard fails (the first failure), or does not answer in `seconds`.
        """
        replies = self._call(method, *arguments)
        try:
            for reply in as_completed(replies, seconds):
                _value(reply)
        except TimeoutError:
            silent = next(number for number, reply in enumerate(replies) if not reply.done())
            advice = self._setup.launcher.advice
            raise StoreError(f"shard {silent} has not started in {seconds:.0f} s; {advice}") from None
        return [reply.result() for reply in replies]


def _value(reply: Future[Any]) -> Any:
    """Returns the answer of a host; raises GraphSearchError if the host has failed or is lost."""
    if error := _error(reply):
        raise error
    return reply.result()


def _error(reply: Future[Any]) -> BaseException | None:
    found = reply.exception()
    value = None if found else reply.result()
    return value.as_error(placed=True) if isinstance(value, Failure) else found


def _failure(reply: Future[Any]) -> Failure | None:
    """Returns a host's own failure; None if there is none, or it only lost another shard."""
    value = reply.result() if reply.done() and not reply.exception() else None
    is_own = isinstance(value, Failure) and value.kind != ShardLostError.__name__
    return value if is_own else None


# ------------------------------------------------------------------ one process
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
            Handlers(self._receive, self._lost),
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
