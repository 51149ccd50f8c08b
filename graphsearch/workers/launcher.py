"""Launchers start worker processes, on this machine or as actors of a Ray cluster."""

from __future__ import annotations

from typing import Protocol

from ..base.errors import InvalidParameterError
from ..base.machine import cores
from .process import ADVICE, START_SECONDS, Child, Handlers, Work, WorkerProcess

LOCAL, RAY = "local", "ray"


def cores_per_worker(workers: int) -> int:
    """Returns the number of this process's cores for each worker, at least 1."""
    return max(1, cores() // workers)


class Launcher(Protocol):
    """Starts workers.

    Attributes:
      threads: of each worker.
      patience: seconds until the first worker starts.
      advice: what to do if none starts.
      is_remote: whether workers may be on other machines.
    """

    threads: int
    patience: float
    advice: str
    is_remote: bool

    def start(self, work: Work, handlers: Handlers, *, name: str) -> WorkerProcess:
        """Returns a worker that starts now, or as soon as a machine has room.

        Args:
          work: its main function; it must be picklable.

        Raises:
          EvaluatorError: if no worker can be started.
        """

    def close(self) -> None:
        """Releases all resources, when no worker is needed any more."""


class LocalLauncher:
    """Starts processes of this machine, each with its share of the cores."""

    patience = START_SECONDS
    advice = ADVICE
    is_remote = False

    def __init__(self, workers: int) -> None:
        self.threads = cores_per_worker(workers)

    def start(self, work: Work, handlers: Handlers, *, name: str) -> WorkerProcess:
        """Returns a worker that was just started."""
        return Child(work, handlers, name=name, threads=self.threads)

    def close(self) -> None:
        """Does nothing: processes end with this one."""


def launcher_for(pool: str | None, workers: int, *, cpus: int = 1) -> Launcher:
    """Returns the launcher that `--pool` names: `local`, `ray` or `ray:ADDRESS`.

    Args:
      cpus: with Ray, CPUs of a machine to reserve for each worker.

    Raises:
      InvalidParameterError: if there is no such pool.
      EvaluatorError: if Ray is not installed, or there is no such cluster, or none with so many CPUs.
    """
    check_pool(pool)
    if pool in (None, LOCAL):
        return LocalLauncher(workers)
    from .ray_workers import RayLauncher

    address = str(pool).partition(":")[2]
    return RayLauncher(address, workers, cpus=cpus)


def check_pool(pool: str | None) -> None:
    """Raises InvalidParameterError unless a text names a pool: `local`, `ray` or `ray:ADDRESS`."""
    kind, sign, address = (pool or LOCAL).partition(":")
    if pool not in (None, LOCAL) and (kind != RAY or (sign and not address)):
        raise InvalidParameterError(f"the pool must be local, ray or ray:ADDRESS, not {pool!r}")


def threads_per_worker(workers: int, pool: str | None = None) -> int:
    """Returns the number of threads of each evaluator with so many workers.

    On this machine it is a share of the cores. An actor of Ray has reserved one CPU.

    >>> threads_per_worker(10_000), threads_per_worker(2, "ray:auto")
    (1, 1)
    """
    return cores_per_worker(workers) if pool in (None, LOCAL) else 1
