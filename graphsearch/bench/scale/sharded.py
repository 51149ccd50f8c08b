"""Growing a cluster with every shard inside a budget, searching on in it, and one file made of it."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import chess

from ...cluster import master, parting
from ...cluster.job import ShardReport
from ...cluster.shards import ClusterSearch
from ...evaluators.factory import EvaluatorSpec
from ...search.params import Limits, SearchParams
from ...search.results import Progress
from ...store.sharded.files import open_to_read
from ..shards import PHASES
from .meter import Meter
from .plan import Plan

MOST_WAVE, LEAF_BYTES = 65_536, 24_576  # leaves of all shards; of a shard's budget, one for so many bytes
ROOTS, LEAST_NODES = 4, 500_000  # a root gets one node in so many of the graph, but so many at least
OPENING = 8  # half-moves, at random, to all roots but the first
SEARCH_VISITS = 500_000  # of the search that goes on
TELL_SECONDS = 0.5


def grow_shards(plan: Plan, meter: Meter) -> None:
    """Grows the cluster to its size by searches within the budget, one root after the other.

    The roots are the start position, then positions after some random half-moves: as the lines of a book do,
    they share few positions. It goes on from what is there.
    """
    before, root = _held(plan)
    nodes, visits = before, 0
    while nodes < plan.nodes:  # an evaluation is a node, but positions without moves are nodes without one
        some = min(plan.nodes - nodes, max(LEAST_NODES, plan.nodes // ROOTS))
        found = _search(plan, meter, _root(root), Limits(evaluations=some))
        visits += found.result.new_visits
        nodes, root = found.result.nodes, root + 1
    meter.units, meter.unit = max(1, nodes - before), "node"
    meter.more |= {"added": nodes - before, "visits": visits, "roots": root}


def _root(number: int) -> chess.Board:
    """Returns the start position, or one after random moves; the same ones every time.

    >>> _root(0).fen() == chess.STARTING_FEN, _root(1).ply(), _root(1) == _root(1)
    (True, 8, True)
    """
    board, draw = chess.Board(), random.Random(number)  # noqa: S311 (no secret)
    while number and board.ply() < OPENING:
        board.push(draw.choice(list(board.legal_moves)))
    return board


def search_shards(plan: Plan, meter: Meter) -> None:
    """Searches on from the start position, opening of the files included."""
    found = _search(plan, meter, chess.Board(), Limits(visits=min(SEARCH_VISITS, plan.nodes // 2)))
    meter.units, meter.unit = max(1, found.result.new_visits), "visit"


def merge_shards(plan: Plan, meter: Meter) -> None:
    """Makes one file of the cluster."""
    meter.units, meter.unit = (
        parting.merge(plan.file, plan.new, force=True, progress=meter.tick).nodes,
        "node",
    )


def _search(plan: Plan, meter: Meter, board: chess.Board, limits: Limits) -> ClusterSearch:
    """Returns a search within the budget; the meter is told what it took."""
    last = 0

    def tick(now: Progress) -> None:
        nonlocal last
        if now.new_visits > last:  # the master asks again, whatever the shards do
            last = now.new_visits
            meter.tick(now.nodes, plan.nodes)

    found = master.analyze(
        plan.file,
        board,
        limits,
        SearchParams(minibatch_size=min(MOST_WAVE, plan.ram_bytes // LEAF_BYTES), overlap=0),
        evaluator=EvaluatorSpec(evaluator="uniform"),
        shards=plan.shards,
        ram_bytes=plan.ram_bytes,
        on_progress=tick,
        interval=TELL_SECONDS,
    )
    meter.cpu_beside += sum(shard.cpu_seconds for shard in found.shards)
    meter.peak_beside = max(meter.peak_beside, *(shard.peak_rss or 0 for shard in found.shards))
    told = meter.more.setdefault("shards", [{} for _ in found.shards])
    for shard, file, before in zip(found.shards, plan.files, told, strict=True):
        _tell(shard, file, before)
    return found


def _tell(shard: ShardReport, file: Path, told: dict[str, Any]) -> None:
    """Tells what a shard has, and adds up what its searches took."""
    told |= {"nodes": shard.nodes, "file_bytes": file.stat().st_size}
    told["peak_rss"] = max(told.get("peak_rss", 0), shard.peak_rss or 0)
    spent = {"cpu_seconds": shard.cpu_seconds, "seconds": shard.seconds, "read_back": shard.read_back}
    spent |= {name: getattr(shard.traffic, name) for name in PHASES}
    for name, value in spent.items():
        told[name] = told.get(name, 0) + value


def _held(plan: Plan) -> tuple[int, int]:
    """Returns the nodes and the roots of the cluster now."""
    if not plan.file.exists():
        return 0, 0
    with open_to_read(plan.file) as store:
        return store.node_count, len(store.roots())
