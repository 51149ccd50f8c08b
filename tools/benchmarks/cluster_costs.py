"""Measures the costs of a cluster search on this machine, for `simulation`: steps, messages, entries, rows.

All but the message costs come from the reports of real searches by shard processes with files:

    idle waves  of one leaf each, by one shard and by two: the cost of an empty step
    message     sent over a connection of this machine, and received
    search      the same one by 1, 2 and 4 shards: the costs of entries and rows
    growth      one shard that grows a graph: the composition of its waves, and the cost of an entry
"""

from __future__ import annotations

import socket
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import isqrt
from pathlib import Path

import chess
import numpy as np

from graphsearch.evaluators.factory import EvaluatorSpec
from graphsearch.search.job import SearchJob
from graphsearch.search.params import Limits, SearchParams
from graphsearch.search.shards import master
from graphsearch.search.shards.host import THIS_MACHINE
from graphsearch.search.shards.master import ClusterSearch
from graphsearch.store.sharded.files import sharded_bytes

MEASURED = (1, 2, 4)
IDLE_VISITS = 1500  # waves of one leaf
MOST_VISITS = 50  # for each evaluation
MESSAGES, MESSAGE_BYTES = 20_000, 72  # a header and its length


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """The work of a search.

    Attributes:
      shards: number of them. batch: leaves of a wave. nodes: at the end. file_bytes: of a node in the files.
      steps: of each shard. entries: positions reached on a level, with all visits from one parent. rows: sent
        to other shards. visits, evaluations: of all shards.
      cpu: mean CPU seconds of a shard. seconds: wall time of the search.
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
    """The costs of a shard, in CPU seconds; `trip` in wall seconds.

    Attributes:
      entry: of an entry on one level, down and up, including evaluation with `uniform` and saving.
      row: of sending and receiving a row, with its answer.
      alone, step: of an idle step: of a single shard; of two shards that wait for each other.
      message: of sending a message and receiving one, for each further shard.
      trip: wall time of a step of two processes of this machine minus its CPU time.
    """

    entry: float
    row: float
    alone: float
    step: float
    message: float
    trip: float

    def step_of(self, shards: int) -> float:
        """Returns the CPU seconds of an idle step, for each of `shards` shards."""
        return self.step + (shards - 2) * self.message if shards > 1 else self.alone


def search(
    folder: Path, shards: int, evaluator: str, batch: int, limits: Limits, *, overlap: int = 0
) -> Work:
    """Returns the work of a search of the start position over a cluster."""
    params = SearchParams(minibatch_size=batch, overlap=overlap)
    options = (("threads", "1"),) if evaluator != "uniform" else ()
    spec = EvaluatorSpec(evaluator=evaluator, options=options)
    job = SearchJob(board=chess.Board(), limits=limits, params=params)
    found = master.analyze(folder, job, evaluator=spec, shards=shards)
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
    """Returns the work of a search with `uniform` in a new cluster."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "a.cluster"
        return search(target, shards, "uniform", batch, Limits(visits=visits), overlap=overlap)


def grown(evaluator: str, batch: int, sizes: Sequence[int]) -> Iterator[Work]:
    """Yields the work of one shard that grows a graph from each size to the next.

    `nodes` is the geometric mean of the two sizes.
    """
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "a.cluster"
        for before, size in pairwise((0, *sizes)):
            more = size - before
            limits = Limits(evaluations=more, visits=MOST_VISITS * more)
            work = search(target, 1, evaluator, batch, limits)
            if before:
                yield replace(work, nodes=isqrt(before * size))


def message_cost() -> float:
    """Returns the CPU seconds of a message sent over a connection of this machine, and of one received."""
    with socket.create_server((THIS_MACHINE, 0)) as listener:
        sender = socket.create_connection(listener.getsockname())
        receiver, _ = listener.accept()
    with sender, receiver:
        sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        message, began = bytes(MESSAGE_BYTES), time.process_time()
        for _ in range(MESSAGES):
            sender.send(message)
            receiver.recv(MESSAGE_BYTES)
        return (time.process_time() - began) / MESSAGES


def costs(idle: Sequence[Work], searches: Sequence[Work], message: float, cores: int) -> Costs:
    """Returns the costs that fit searches by 1, 2 and more shards; none is negative.

    Args:
      idle: waves of one leaf, by one shard and by two. message: CPU seconds of one.
      cores: searches by more shards than cores do not count for rows, as their shards wait busily; those by
        two always count.

    >>> def made(shards, steps, entries, rows, cpu):
    ...     return Work(shards=shards, batch=1, nodes=1, file_bytes=1, steps=steps, entries=entries,
    ...                 rows=rows, visits=1, evaluations=1, cpu=cpu, seconds=cpu)
    >>> found = costs([made(1, 100, 0, 0, 300), made(2, 100, 0, 0, 500)],
    ...               [made(k, 0, 1000, 100 * k - 100, (1700 + 300 * k) / k) for k in (1, 2, 4)], 1.0, 4)
    >>> round(found.entry, 6), round(found.row, 6), found.alone, found.step, found.step_of(4), found.trip
    (2.0, 3.0, 3.0, 5.0, 7.0, 0.0)
    """
    one, two = idle
    steps = Costs(
        entry=0.0,
        row=0.0,
        alone=one.cpu / one.steps,
        step=two.cpu / two.steps,
        message=message,
        trip=max(0.0, (two.seconds - two.cpu) / two.steps),
    )

    def rest(work: Work) -> float:
        return (work.cpu - work.steps * steps.step_of(work.shards)) * work.shards

    entry = max(0.0, rest(searches[0]) / searches[0].entries)
    others = [work for work in searches[1:] if work.shards <= max(2, cores)]
    rows = np.array([work.rows for work in others], float)
    left = np.array([rest(work) - entry * work.entries for work in others])
    return replace(steps, entry=entry, row=max(0.0, float(rows @ left / (rows @ rows))))
