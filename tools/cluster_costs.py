"""What a cluster search takes on this machine, for `tools.simulate_cluster`: steps, messages, entries, rows.

idle step   shards that only exchange headers, in processes of their own: CPU and clock of one step
entry, row  searches by 1, 2 and 4 shards in one process, in turn: no waiting, no sockets
growth      one shard that grows a graph in memory: what the waves of each size consist of
check       the same searches by 2 and 4 processes, as `graphsearch analyze --shards` does them
"""

from __future__ import annotations

import multiprocessing
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import chess
import numpy as np

from graphsearch.cluster import descent_kernel, master
from graphsearch.cluster.host import THIS_MACHINE
from graphsearch.cluster.mesh import Mesh
from graphsearch.cluster.talk import Talk
from graphsearch.cluster.wave import Place, ShardWaves
from graphsearch.evaluators.factory import EvaluatorSpec
from graphsearch.graph.graph import Graph
from graphsearch.position.board import pack
from graphsearch.search.params import Limits, SearchParams
from graphsearch.search.settings import set_params
from graphsearch.store.sharded.ownership import even_owners, owner_of

IDLE_STEPS = 4000
TOKEN = bytes(32)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wave:
    """One wave of a search by one shard.

    Attributes:
      nodes: of the graph behind it. steps: entries of each step. leaves: evaluated. visits: completed.
      seconds: of CPU time.
    """

    nodes: int
    steps: tuple[int, ...]
    leaves: int
    visits: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Searched:
    """A search by some shards: CPU seconds of all together; steps of each; entries and rows of all."""

    shards: int
    seconds: float
    steps: int
    entries: int
    rows: int
    waves: list[Wave]


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """What a shard takes, in seconds of CPU time; `trip` by the clock.

    Attributes:
      entry: of an entry on one level, down and up. row: sent and taken in, with its answer.
      step: of a step of two shards without anything to do. message: of one more shard in it.
      trip: that a step between processes of this machine takes beside its CPU time.
    """

    entry: float
    row: float
    step: float
    message: float
    trip: float

    def step_of(self, shards: int) -> float:
        """Returns the CPU seconds of a step of so many shards, for each of them."""
        return self.step + (shards - 2) * self.message if shards > 1 else self.step - self.message


# ------------------------------------------------------------------ shards in turn in one process
class InTurn:
    """Some shards in memory, in this process, which go through waves in turn."""

    def __init__(self, shards: int, evaluator: str, batch: int) -> None:
        board, owners = chess.Board(), even_owners(shards)
        self._root, self._leader = pack(board), owner_of(board, owners)
        self._places = [
            Place(number=k, shards=shards, owners=owners, leader=self._leader) for k in range(shards)
        ]
        self.graphs = [Graph.open(None, evaluator=evaluator) for _ in range(shards)]
        self._parts: list[ShardWaves] = []
        self.set_batch(batch)

    def set_batch(self, batch: int) -> None:
        """Has waves of so many leaves from now on."""
        for part in self._parts:
            part.close()
        self._batch = batch
        for graph in self.graphs:
            set_params(graph.arena, SearchParams(minibatch_size=batch, full_share_visits=1))
        both = zip(self.graphs, self._places, strict=True)
        self._parts = [ShardWaves(graph, self._root, batch, place) for graph, place in both]

    @property
    def nodes(self) -> int:
        """Nodes of all shards."""
        return sum(graph.node_count for graph in self.graphs)

    def wave(self) -> Wave:
        """Goes through one wave."""
        arena = self.graphs[self._leader].arena
        knows, allowed, _ = descent_kernel.root_state(arena.tables, arena.arrays, self._root)
        began = time.process_time()
        talks = [part.run(self._batch, int(allowed), knows_root=bool(knows)) for part in self._parts]
        steps, ends = self._step_by_step(talks)
        seconds = time.process_time() - began
        visits, leaves = sum(int(end[0]) for end in ends), int(ends[0][1])
        return Wave(nodes=self.nodes, steps=steps, leaves=leaves, visits=visits, seconds=seconds)

    def _step_by_step(self, talks: Sequence[Talk[Any]]) -> tuple[tuple[int, ...], list[Any]]:
        """Returns the entries of each step, and what each of the shards returns."""
        boxes: list[Any] = [None] * len(talks)
        steps, ends, before = [], [], self.entries
        while not ends:
            sent = []
            for talk, box in zip(talks, boxes, strict=True):
                try:
                    sent.append(next(talk) if box is None else talk.send(box))
                except StopIteration as end:
                    ends.append(end.value)
            boxes = [[box[number] for box in sent] for number in range(len(talks))] if sent else []
            steps.append(self.entries - before)
            before = self.entries
        return tuple(steps), ends

    @property
    def entries(self) -> int:
        """Entries so far, on all levels."""
        return sum(part.traffic.entry_levels for part in self._parts)

    @property
    def rows(self) -> int:
        """Rows sent down so far."""
        return sum(part.traffic.rows for part in self._parts)

    def idle(self, steps: int) -> float:
        """Returns the CPU seconds of a step in which shards have nothing to do, of all together."""
        began = time.process_time()
        for _ in range(steps):
            self._step_by_step([part.say() for part in self._parts])
        return (time.process_time() - began) / steps

    def close(self) -> None:
        """Ends it."""
        for part in self._parts:
            part.close()
        for graph in self.graphs:
            graph.close()


def searched(shards: int, evaluator: str, batch: int, visits: int) -> Searched:
    """Returns what a search of the start position from nothing takes, shards in turn."""
    turn, done = InTurn(shards, evaluator, batch), 0
    waves = []
    try:
        while done < visits:
            waves.append(turn.wave())
            done += waves[-1].visits
        return Searched(
            shards=shards,
            seconds=sum(wave.seconds for wave in waves),
            steps=sum(len(wave.steps) - 1 for wave in waves),
            entries=turn.entries,
            rows=turn.rows,
            waves=waves,
        )
    finally:
        turn.close()


def grown(
    evaluator: str, sizes: Sequence[int], batches: Sequence[int], waves: int
) -> Iterator[tuple[int, list[Wave]]]:
    """Yields some waves of each batch at each size of a graph that one shard grows: (batch, waves)."""
    turn = InTurn(1, evaluator, batches[0])
    try:
        for size in sizes:
            turn.set_batch(batches[0])
            while turn.nodes < size:
                turn.wave()
            for batch in batches:
                turn.set_batch(batch)
                yield batch, [turn.wave() for _ in range(waves)]
    finally:
        turn.close()


# ------------------------------------------------------------------ shards in processes of their own
def idle_step(shards: int) -> tuple[float, float]:
    """Returns a step in which shards in processes of their own exchange headers: CPU seconds, seconds."""
    context = multiprocessing.get_context("spawn")
    with ExitStack() as stack:
        ours, theirs = zip(*(context.Pipe() for _ in range(shards)), strict=True)
        for number, pipe in enumerate(theirs):
            process = context.Process(target=_idle, args=(number, shards, pipe), daemon=True)
            process.start()
            stack.callback(process.join)
        addresses = [pipe.recv() for pipe in ours]
        for pipe in ours:
            pipe.send(addresses)
        found = np.array([pipe.recv() for pipe in ours])
    return float(np.median(found[:, 0])), float(np.median(found[:, 1]))


def _idle(number: int, shards: int, pipe: Connection[Any, Any]) -> None:
    mesh, owners = Mesh(number, shards, TOKEN, THIS_MACHINE), even_owners(shards)
    pipe.send(mesh.address)
    mesh.connect(pipe.recv())
    with Graph.open(None, evaluator="uniform") as graph:
        place = Place(number=number, shards=shards, owners=owners, leader=0)
        part = ShardWaves(graph, pack(chess.Board()), 1, place)
        mesh.run(_say(part, IDLE_STEPS // 10))  # compiled, connected, awake
        cpu, began = time.process_time(), time.perf_counter()
        mesh.run(_say(part, IDLE_STEPS))
        pipe.send(((time.process_time() - cpu) / IDLE_STEPS, (time.perf_counter() - began) / IDLE_STEPS))
        part.close()
    mesh.close()


def _say(part: ShardWaves, steps: int) -> Talk[None]:
    for _ in range(steps):
        yield from part.say()


def by_processes(shards: int, evaluator: str, batch: int, visits: int) -> tuple[float, float]:
    """Returns what each of some shards takes for the search of `searched`: CPU seconds, seconds.

    They have files, in a temporary folder, and save them at the end.
    """
    params = SearchParams(minibatch_size=batch, overlap=0, full_share_visits=1)
    spec = EvaluatorSpec(evaluator=evaluator)
    with tempfile.TemporaryDirectory() as folder:
        target, limits = Path(folder) / "a.cluster", Limits(visits=visits)
        found = master.analyze(target, chess.Board(), limits, params, evaluator=spec, shards=shards)
    cpu = sum(shard.cpu_seconds for shard in found.shards) / shards
    return cpu, max(shard.seconds for shard in found.shards)


# ------------------------------------------------------------------ costs
def costs(points: Sequence[Searched], batch: int) -> Costs:
    """Returns the costs of entries and rows that searches in turn agree on, and those of steps."""
    turn = InTurn(2, "uniform", batch)
    idle = turn.idle(IDLE_STEPS) / 2  # without sockets
    turn.close()
    table = np.array([[point.entries, point.rows] for point in points], float)
    spent = np.array([point.seconds - idle * point.steps * point.shards for point in points])
    (entry, row), *_ = np.linalg.lstsq(table, spent, rcond=None)
    (two, seconds), (four, _) = idle_step(2), idle_step(4)
    return Costs(
        entry=float(max(entry, 0.0)),
        row=float(max(row, 0.0)),
        step=two,
        message=max(0.0, (four - two) / 2),
        trip=max(0.0, seconds - two),
    )
