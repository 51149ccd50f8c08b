"""Starts shards: processes of this machine, or actors of a Ray cluster. Both answer by futures."""

from __future__ import annotations

import itertools
import math
import threading
from concurrent.futures import Future, wait
from functools import partial
from typing import Any, Protocol

from ..errors import EvaluatorError, ShardLostError
from ..evaluators.pool import cluster as ray_pool
from ..evaluators.pool.evaluator import LOCAL, check_place
from ..workers.child import Child
from ..workers.messages import Leave
from ..workers.process import ADVICE, cores_per_worker, end_with_parent
from ..workers.supervisor import START_SECONDS
from .host import Answer, Call, Host, Setting, serve

CALLS_AT_ONCE = 4  # of an actor: the search, and calls during it
KILLING_SECONDS = 10.0  # for the system to end a process, and for Ray to notice


class Running(Protocol):
    """A shard's process, seen from the master.

    Attributes:
      place: host name and process, once they are known; for messages.
    """

    place: str

    def call(self, method: str, *arguments: Any) -> Future[Any]:
        """Calls a method of `Host`; the future fails with ShardLostError if the process ends before."""

    def leave(self) -> None:
        """Ends the process after it has closed its file."""

    def kill(self) -> None:
        """Kills the process, and waits for its end; unsaved results are lost."""


class Launcher(Protocol):
    """Starts hosts on this machine or on others.

    Attributes:
      is_far: whether hosts connect between machines. crowd: the most hosts on one machine.
      patience: seconds to wait for all of them. advice: for the message if they do not come.
    """

    is_far: bool
    crowd: int
    patience: float
    advice: str

    def start(self, setting: Setting) -> Running:
        """Returns a host that was just started."""

    def close(self) -> None:
        """Ends everything that was started."""


def launcher_for(pool: str | None, shards: int) -> Launcher:
    """Returns the launcher for `--pool`: `local`, `ray` or `ray:ADDRESS`."""
    where = pool or LOCAL
    check_place(where)
    if where == LOCAL:
        return LocalHosts(shards)
    return RayHosts(where.partition(":")[2], shards)


# ------------------------------------------------------------------ this machine
class LocalHosts:
    """Processes of this machine, with its share of cores for each."""

    is_far = False
    patience = START_SECONDS
    advice = ADVICE

    def __init__(self, shards: int) -> None:
        self.crowd, self._threads = shards, cores_per_worker(shards)

    def start(self, setting: Setting) -> Running:
        """Returns a host that was just started."""
        return _LocalHost(setting, self._threads)

    def close(self) -> None:
        """Does nothing: processes end with this one."""


class _LocalHost:
    def __init__(self, setting: Setting, threads: int) -> None:
        self.place = ""
        self._number = setting.number
        self._numbers = itertools.count()
        self._waiting: dict[int, Future[Any]] = {}
        self._ended = ""
        self._gone = threading.Event()
        self._child = Child(
            partial(serve, setting),
            name=f"graphsearch-shard-{setting.number}",
            threads=threads,
            hear=[self._hear],
            lost=self._lost,
        )

    def call(self, method: str, *arguments: Any) -> Future[Any]:
        number, future = next(self._numbers), Future[Any]()
        self._waiting[number] = future
        self._child.send(Call(number, method, arguments))
        if self._ended:
            self._lost(self._ended)
        return future

    def leave(self) -> None:
        self._child.send(Leave())

    def kill(self) -> None:
        self._child.kill()
        self._gone.wait(KILLING_SECONDS)

    def _hear(self, answer: Answer) -> None:
        self._waiting.pop(answer.number).set_result(answer.value)

    def _lost(self, how: str) -> None:
        self._ended = how
        for number in list(self._waiting):
            future = self._waiting.pop(number, None)
            if future:
                future.set_exception(_lost(self._number, how, self.place))
        self._gone.set()


def _lost(number: int, how: str, place: str) -> ShardLostError:
    return ShardLostError(f"shard {number} is lost: {how}" + (f" ({place})" if place else ""))


# ------------------------------------------------------------------ Ray
class Actor(Host):
    """A host that ends with the Ray of its machine, which leaves running actors behind when it is killed."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        end_with_parent()


class RayHosts:
    """Actors of a Ray cluster, spread over its machines."""

    patience = ray_pool.RaySite.patience
    advice = ray_pool.RaySite.advice

    def __init__(self, address: str, shards: int) -> None:
        """Joins a cluster, or starts one on this machine, as a pool of evaluators does.

        Raises:
          EvaluatorError: if Ray is not installed, or there is no such cluster, or none with so many CPUs.
        """
        self._ray = ray_pool.import_ray()
        self._joined = ray_pool.Joined(self._ray, address, shards)
        self.is_far = self._joined.is_shared
        self._actors: list[Any] = []
        cpus = [int(node["Resources"].get("CPU", 0)) for node in self._ray.nodes() if node["Alive"]]
        self.crowd = math.ceil(shards / max(1, sum(map(bool, cpus))))
        if sum(cpus) < shards:
            self.close()
            raise EvaluatorError(
                f"the Ray cluster has {sum(cpus)} CPUs, and {shards} shards need one each; add machines"
            )

    def start(self, setting: Setting) -> Running:
        """Returns a host that was just started, on the machine with most room."""
        options: dict[str, Any] = {
            "num_cpus": 1,
            "max_restarts": 0,
            "max_concurrency": CALLS_AT_ONCE,
            "scheduling_strategy": "SPREAD",
        }
        if self._joined.is_shared:
            options["runtime_env"] = {"env_vars": ray_pool.ENVIRONMENT}
        try:
            actor = self._ray.remote(Actor).options(**options).remote(setting)
        except self._ray.exceptions.RayError as error:
            raise EvaluatorError(f"Ray cannot start a shard: {error}") from None
        self._actors.append(actor)
        return _RayHost(self._ray, actor, setting.number)

    def close(self) -> None:
        """Ends the remaining actors, and leaves the cluster; ends it if it was started here."""
        for actor in self._actors:
            self._ray.kill(actor)
        self._actors.clear()
        self._joined.leave()


class _RayHost:
    def __init__(self, ray: Any, actor: Any, number: int) -> None:
        self.place = ""
        self._ray, self._actor, self._number = ray, actor, number

    def call(self, method: str, *arguments: Any) -> Future[Any]:
        future = Future[Any]()
        reply = getattr(self._actor, method).remote(*arguments).future()
        reply.add_done_callback(partial(self._answered, future))
        return future

    def _answered(self, future: Future[Any], reply: Future[Any]) -> None:
        error = reply.exception()
        if error is None:
            future.set_result(reply.result())
        else:
            future.set_exception(_lost(self._number, ray_pool.line_of(error).rstrip("."), self.place))

    def leave(self) -> None:
        """Does nothing: the actor ends with the launcher."""

    def kill(self) -> None:
        self._ray.kill(self._actor)
        if self.place:  # else it has no file open
            wait([self.call("stop")], KILLING_SECONDS)  # it fails when the host has ended
