"""When a build ends, and what it may use."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildLimits:
    """When a build ends, unless nothing is left to search before.

    Attributes:
      seconds: of wall time.
      evaluations: no search begins that might exceed this number, except the first.
      forever: whether to wait for the queue when nothing is left.
    """

    seconds: float | None = None
    evaluations: int | None = None
    forever: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """What a build may use.

    Attributes:
      workers: processes that search; 1: this one. pool: where: `local`, `ray` or `ray:ADDRESS`.
      shards: of the cluster whose folder is the path, made if it is missing; None: as it is, or a file.
      ram_bytes: limit of the memory of the graph, of all workers together.
    """

    workers: int = 1
    pool: str | None = None
    shards: int | None = None
    ram_bytes: int | None = None
