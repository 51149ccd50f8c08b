"""Fill level and gathering cost of a wave, on graphs grown one visit at a time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import product
from statistics import median

import chess

from graphsearch import Graph, Limits, SearchParams, analyze
from graphsearch.evaluators.factory import create
from graphsearch.evaluators.inside import Filler
from graphsearch.evaluators.uniform import UniformEvaluator
from graphsearch.graph import arena_kernel
from graphsearch.graph.arena import Arena
from graphsearch.position.board import pack
from graphsearch.search import waves_kernel
from graphsearch.search.leaves import leaves_of
from graphsearch.search.params import GATHERERS
from graphsearch.search.puct_kernel import set_params
from graphsearch.search.waves import BYTES_PER_LEAF, FIRST_EVALUATOR, WaveRunner

from .harness import Row, benchmark
from .positions import ROOTS
from .searching import MOST_VISITS

TIMED_POSITIONS, MOST_WAVES = 8192, 64  # gathers are timed for 8192 positions, in at most 64 waves


class Snapshot:
    """A copy of the used parts of an arena; for graphs without a file."""

    def __init__(self, arena: Arena) -> None:
        self._arena, self._arrays = arena, arena.arrays
        arrays, counters = arena.arrays, arena.counters
        parts = (
            arrays.table,
            arrays.records[: counters[arena_kernel.RECORD_WORDS]],
            arrays.blocks[: counters[arena_kernel.BLOCK_WORDS]],
            arrays.counters,
            arrays.floats,
            arrays.ints,
        )
        self._parts = [(part, part.copy()) for part in parts]

    def put_back(self) -> None:
        """Restores the arena, including its parameters."""
        for part, copy in self._parts:
            part[:] = copy
        self._arena.arrays = self._arrays


@benchmark("evaluator", "nodes", "batch", "gather", across="gather")
def filling(
    *,
    evaluator: tuple[str, ...] = ("builtin",),
    nodes: tuple[int, ...] = (1_000, 10_000, 100_000),
    batch: tuple[int, ...] = (16, 256, 1_024, 4_096, 16_384),
    gather: tuple[str, ...] = GATHERERS,
    param: tuple[str, ...] = (),
    roots: int = 3,
) -> Iterator[Row]:
    """How full one wave of each gatherer gets, and the CPU time of gathering it.

    Medians of graphs grown from several roots, one visit at a time. `share` of the batch that is filled;
    `gather_us` is the CPU time for each position, as waves come in a search, one after the other.
    """
    for name, fen in product(evaluator, ROOTS[:roots]):
        board = chess.Board(fen)
        with Graph.open(None, evaluator=create(name, {"threads": "1"})) as graph:
            for size in sorted(nodes):
                missing = max(1, size - graph.node_count)
                limits = Limits(evaluations=missing, visits=MOST_VISITS * size)
                analyze(graph, board, limits, SearchParams(minibatch_size=1))
                for leaves, how in product(batch, gather):
                    own = {"gather": how, "minibatch_size": leaves, "overlap": 0}
                    params = SearchParams.from_options(param, **own)
                    key: Row = {"evaluator": name, "nodes": size, "batch": leaves, "gather": how}
                    yield key | one_wave(graph, board, params)


def one_wave(graph: Graph, board: chess.Board, params: SearchParams) -> Row:
    """Returns the figures of a wave; leaves the graph unchanged."""
    arena, batch = graph.arena, params.minibatch_size
    runner = WaveRunner(graph, pack(board), batch)
    waves = max(3, min(MOST_WAVES, TIMED_POSITIONS // batch))
    room = (waves + 2) * batch  # nodes: the table must not grow while the clock runs
    graph.make_room(runner.most_nodes + room, room * BYTES_PER_LEAF)
    snapshot = Snapshot(arena)
    set_params(arena.arrays, params)
    try:
        before = arena.counters.copy()
        positions = runner.gather()
        runner.drop()
        added = arena.counters - before
        snapshot.put_back()
        set_params(arena.arrays, params)
        spent = [_timed_gather(runner, arena) for _ in range(1 + waves)][1:]  # the first one takes memory
    finally:
        snapshot.put_back()
        runner.close()
    times = [1e6 * seconds / leaves for seconds, leaves in spent if leaves]
    return {
        "positions": positions,
        "share": positions / batch,
        "rounds": int(added[arena_kernel.ROUNDS]),
        "collisions": int(added[arena_kernel.COLLISIONS]),
        "gather_us": median(times) if times else None,
    }


def _timed_gather(runner: WaveRunner, arena: Arena) -> tuple[float, int]:
    """Returns the CPU time and the positions of one gather; the wave is completed as with `uniform`."""
    begin = time.process_time()
    positions = runner.gather()
    spent = time.process_time() - begin
    Filler(UniformEvaluator(), leaves_of(runner.wave)).begin(positions).result()
    waves_kernel.complete(arena.tables, arena.arrays, runner.wave, FIRST_EVALUATOR)
    return spent, positions
