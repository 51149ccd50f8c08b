"""Grows a real graph within a memory budget, in one file or over shards, and continues searches in it."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import chess

from graphsearch import Graph, Limits, SearchParams, analyze
from graphsearch.evaluators.factory import EvaluatorSpec
from graphsearch.evaluators.uniform import UniformEvaluator
from graphsearch.search.job import Control, SearchJob
from graphsearch.search.results import Progress
from graphsearch.search.shards import master, parting
from graphsearch.search.shards.master import ClusterSearch
from graphsearch.store.sharded.files import open_to_read

from .clocks import Meter


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The sizes of a measurement, and its files.

    Attributes:
      ram_bytes: the memory budget, for each shard if there are any.
      shards: 0: one file.
    """

    folder: Path
    nodes: int
    ram_bytes: int
    shards: int = 0

    @property
    def file(self) -> Path:
        """The graph: a file, or the folder of a cluster."""
        return self.folder / ("grown.cluster" if self.shards else "grown.graph")

    @property
    def files(self) -> list[Path]:
        """The files of the graph, whether they exist or not."""
        return [self.file / f"shard-{k:03}.graph" for k in range(self.shards)] or [self.file]

    def part(self, name: str) -> Path:
        """Returns another file: `copy` may be changed, `new` is an output, `a`, `b`, `small` are merged."""
        return self.folder / f"{name}.graph"

    def remove(self, *names: str) -> None:
        """Removes files and their companion files."""
        for name in names:
            for found in self.folder.glob(f"{name}.graph*"):
                shutil.rmtree(found) if found.is_dir() else found.unlink()

    def tiny(self) -> Plan:
        """Returns the plan of a rehearsal, which loads every kernel of a phase."""
        return replace(self, folder=self.folder / "warm", nodes=3000, ram_bytes=8_000_000)


ROOT_VISITS = 1_000_000  # of one root, before the next root
LEAST_WAVE, MOST_WAVE, WAVE_SHARE = 1024, 16_384, 1000  # a wave has 1/1000 of the nodes, within limits
SEARCH_VISITS = 500_000  # of the continued search
MOST_SHARD_WAVE, LEAF_BYTES = (
    65_536,
    24_576,
)  # maximum leaves of all shards; bytes of a shard's budget per leaf
ROOTS, LEAST_NODES = 4, 500_000  # over shards: a root gets 1/4 of the nodes, at least 500,000
OPENING = 8  # random half-moves to all roots of a cluster but the first
SHARD_PHASES = ("passing", "admitting", "evaluating", "backing", "waiting")


def grow(plan: Plan, meter: Meter) -> None:
    """Grows the file to its size by searches within the budget, one root after the other.

    The roots are the start position, then the positions after one move, after two, and so on: a search stays
    in one part of the graph for a while, as the branches of an opening book do. An existing file grows on.
    """
    with Graph.open(plan.file, evaluator=UniformEvaluator(), ram_bytes=plan.ram_bytes) as graph:
        assert graph.store is not None
        before, visits = graph.node_count, 0
        for board in islice(_roots(), len(graph.store.roots()), None):
            left = plan.nodes - graph.node_count
            if left <= 0:
                break
            visits += _search(graph, board, min(ROOT_VISITS, max(LEAST_WAVE, left)), meter)
        added = graph.node_count - before
    meter.of_all(added, visits=visits)


def _search(graph: Graph, board: chess.Board, visits: int, meter: Meter) -> int:
    wave = min(MOST_WAVE, max(LEAST_WAVE, graph.node_count // WAVE_SHARE))
    params = SearchParams(minibatch_size=wave)
    result = analyze(graph, board, Limits(visits=visits), params, on_progress=meter.tick, interval=0.0)
    return result.new_visits


def _roots() -> Iterator[chess.Board]:
    """Yields the start position, then all positions after one move, after two, each once."""
    level, seen = [chess.Board()], set[str]()
    while True:
        fresh = {board.epd(): board for board in level if board.epd() not in seen}
        seen |= set(fresh)
        yield from fresh.values()
        level = []
        for board in fresh.values():
            for move in board.legal_moves:
                level.append(board.copy(stack=False))
                level[-1].push(move)


def search(plan: Plan, meter: Meter) -> None:
    """Continues the search of the start position within the budget; first fills the memory, uncounted."""
    visits = min(SEARCH_VISITS, plan.nodes // 2)
    with Graph.open(plan.part("copy"), evaluator=UniformEvaluator(), ram_bytes=plan.ram_bytes) as graph:
        _search(graph, chess.Board(), visits // 2, meter)
        meter.restart()
        meter.units, meter.unit = max(1, _search(graph, chess.Board(), visits, meter)), "visit"


# ------------------------------------------------------------------ over shards
def grow_shards(plan: Plan, meter: Meter) -> None:
    """Grows the cluster to its size by searches within the budget, one root after the other.

    The roots are the start position, then positions after some random half-moves: like the lines of a book,
    they share few positions. An existing cluster grows on.
    """
    before, root, visits = 0, 0, 0
    if plan.file.exists():
        with open_to_read(plan.file) as store:
            before, root = store.node_count, len(store.roots())
    nodes = before
    while nodes < plan.nodes:  # positions without moves are nodes without an evaluation
        some = min(plan.nodes - nodes, max(LEAST_NODES, plan.nodes // ROOTS))
        found = _search_shards(plan, meter, _root(root), Limits(evaluations=some))
        visits += found.result.new_visits
        nodes, root = found.result.nodes, root + 1
    meter.of_all(nodes - before, visits=visits)


def _root(number: int) -> chess.Board:
    """Returns the start position, or one after random moves; deterministic.

    >>> _root(0).fen() == chess.STARTING_FEN, _root(1).ply(), _root(1) == _root(1)
    (True, 8, True)
    """
    board, draw = chess.Board(), random.Random(number)
    while number and board.ply() < OPENING:
        board.push(draw.choice(list(board.legal_moves)))
    return board


def search_shards(plan: Plan, meter: Meter) -> None:
    """Continues the search of the start position; the time includes opening the files."""
    found = _search_shards(plan, meter, chess.Board(), Limits(visits=min(SEARCH_VISITS, plan.nodes // 2)))
    meter.units, meter.unit = max(1, found.result.new_visits), "visit"


def merge_shards(plan: Plan, meter: Meter) -> None:
    """Merges the cluster into one file."""
    meter.of_all(parting.merge(plan.file, plan.part("new"), force=True, progress=meter.tick).nodes)


def _search_shards(plan: Plan, meter: Meter, board: chess.Board, limits: Limits) -> ClusterSearch:
    """Returns the result of a search within the budget; adds the shards' figures to the meter."""
    last = 0

    def tick(now: Progress) -> None:
        nonlocal last
        if now.new_visits > last:  # the master reports even without progress of the shards
            last = now.new_visits
            meter.tick()

    params = SearchParams(minibatch_size=min(MOST_SHARD_WAVE, plan.ram_bytes // LEAF_BYTES), overlap=0)
    found = master.analyze(
        plan.file,
        SearchJob(board=board, limits=limits, params=params),
        Control(on_progress=tick),
        evaluator=EvaluatorSpec(evaluator="uniform"),
        shards=plan.shards,
        ram_bytes=plan.ram_bytes,
    )
    meter.cpu_beside += sum(shard.cpu_seconds for shard in found.shards)
    meter.peak_beside = max(meter.peak_beside, *(shard.peak_rss or 0 for shard in found.shards))
    meter.more["read_back"] = meter.more.get("read_back", 0) + sum(s.read_back for s in found.shards)
    for name in SHARD_PHASES:  # seconds of a shard
        spent = sum(getattr(shard.traffic, name) for shard in found.shards) / plan.shards
        meter.more[f"{name}_s"] = meter.more.get(f"{name}_s", 0.0) + spent
    return found
