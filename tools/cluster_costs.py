"""What a cluster search takes on this machine, for `tools.simulate_cluster`: steps, messages, entries, rows.

All of it comes from what the shards of real searches report, processes of this machine with files:

    idle waves  of one leaf each: what a step takes that carries nothing, by as many shards as there are cores
    search      the same one by 1, 2 and 4 shards: what entries and rows take
    growth      one shard that grows a graph: what waves consist of as it grows, what an entry takes then
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import isqrt
from pathlib import Path

import chess
import numpy as np

from graphsearch.cluster import master
from graphsearch.cluster.master import ClusterSearch
from graphsearch.evaluators.factory import EvaluatorSpec
from graphsearch.search.params import Limits, SearchParams
from graphsearch.store.sharded.files import sharded_bytes

MEASURED = (1, 2, 4)
IDLE = tuple(k for k in MEASURED if k <= max(2, os.cpu_count() or 1))  # more than cores measure the scheduler
IDLE_VISITS = 1500  # waves of one leaf
MOST_VISITS = 50  # for each evaluation


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What the waves of a search consisted of.

    Attributes:
      shards, batch: that searched; leaves of a wave. nodes: at the end. file_bytes: of a node in the files.
      steps: of each shard. entries: positions reached on a level, with all visits from one parent. rows: that
        went to other shards. visits, evaluations: of all shards.
      cpu, seconds: of each shard, by the mean; of the search, by the clock.
    """

    shards: int
    batch: int
    nodes: int
    file_bytes: float
    steps: int
    entries: int
    rows: int
    visits: int
    evaluations: int
    cpu: float
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """What a shard takes, in seconds of CPU time; `trip` by the clock.

    Attributes:
      entry: of an entry on one level, down and up, evaluating with `uniform` and saving included.
      row: sent and taken in, with its answer.
      step: of one shard alone without anything to do. message: of one more shard in it.
      trip: that a step of two processes of this machine takes beside its CPU time.
    """

    entry: float
    row: float
    step: float
    message: float
    trip: float

    def step_of(self, shards: int) -> float:
        """Returns the CPU seconds of an idle step of so many shards, for each of them."""
        return self.step + (shards - 1) * self.message


def search(
    folder: Path, shards: int, evaluator: str, batch: int, limits: Limits, *, overlap: int = 0
) -> Work:
    """Returns what a search of the start position over a cluster consists of."""
    params = SearchParams(minibatch_size=batch, overlap=overlap, full_share_visits=1)
    options = (("threads", "1"),) if evaluator != "uniform" else ()
    spec = EvaluatorSpec(evaluator=evaluator, options=options)
    found = master.analyze(folder, chess.Board(), limits, params, evaluator=spec, shards=shards)
    return _work(found, batch, sharded_bytes(folder))


def _work(found: ClusterSearch, batch: int, size: int) -> Work:
    parts = found.shards
    return Work(
        shards=len(parts),
        batch=batch,
        nodes=found.result.nodes,
        file_bytes=size / found.result.nodes,
        steps=max(part.traffic.steps for part in parts),
        entries=sum(part.traffic.entry_levels for part in parts),
        rows=sum(part.traffic.rows for part in parts),
        visits=found.result.new_visits,
        evaluations=found.result.evaluations,
        cpu=sum(part.cpu_seconds for part in parts) / len(parts),
        seconds=max(part.seconds for part in parts),
    )


def from_nothing(shards: int, batch: int, visits: int, *, overlap: int = 0) -> Work:
    """Returns what a search with `uniform` from nothing consists of."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "a.cluster"
        return search(target, shards, "uniform", batch, Limits(visits=visits), overlap=overlap)


def grown(evaluator: str, batch: int, sizes: Sequence[int]) -> Iterator[Work]:
    """Yields what the waves consist of by which one shard grows a graph from each size to the next.

    `nodes` is the middle between them then.
    """
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "a.cluster"
        for before, size in pairwise((0, *sizes)):
            more = size - before
            limits = Limits(evaluations=more, visits=MOST_VISITS * more)
            work = search(target, 1, evaluator, batch, limits)
            if before:
                yield replace(work, nodes=isqrt(before * size))


def costs(idle: Sequence[Work], searches: Sequence[Work]) -> Costs:
    """Returns what idle waves and searches by 1, 2 and 4 shards agree on; none is negative.

    >>> def made(shards, steps, entries, rows, cpu):
    ...     return Work(shards=shards, batch=1, nodes=1, file_bytes=1, steps=steps, entries=entries,
    ...                 rows=rows, visits=1, evaluations=1, cpu=cpu, seconds=cpu)
    >>> found = costs([made(k, 100, 0, 0, 100 * (3 + k)) for k in (1, 2, 4)],
    ...               [made(k, 0, 1000, 100 * k - 100, (1700 + 300 * k) / k) for k in (1, 2, 4)])
    >>> [round(cost, 6) for cost in (found.entry, found.row, found.step, found.message, found.trip)]
    [2.0, 3.0, 4.0, 1.0, 0.0]
    """
    shards = np.array([one.shards for one in idle])
    message, alone = np.polyfit(shards, [one.cpu / one.steps for one in idle], 1)
    two = next(one for one in idle if one.shards == 2)
    message, step = max(0.0, float(message)), max(0.0, float(message + alone))
    known = Costs(entry=0.0, row=0.0, step=step, message=message, trip=0.0)
    rest = {one.shards: (one.cpu - one.steps * known.step_of(one.shards)) * one.shards for one in searches}
    first = next(one for one in searches if one.shards == 1)
    entry = max(0.0, rest[1] / first.entries)
    others = [one for one in searches if one.rows and one.shards > 1]
    rows = np.array([one.rows for one in others], float)
    left = np.array([rest[one.shards] - entry * one.entries for one in others])
    return Costs(
        entry=entry,
        row=max(0.0, float(rows @ left / (rows @ rows))),
        step=step,
        message=message,
        trip=max(0.0, (two.seconds - two.cpu) / two.steps),
    )
