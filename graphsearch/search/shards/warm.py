"""Compiles the kernels of a cluster search before its clock starts, once for all shards of a machine."""

from __future__ import annotations

import chess

from ...evaluators.protocol import Evaluator
from ...graph.graph import Graph
from ...jit.compiler import is_compiled, mark_compiled
from ...position.board import pack
from ...store.sharded.ownership import even_owners, owner_of
from ..params import SearchParams
from ..settings import set_params
from . import descent_kernel
from .shard_context import ShardContext
from .talk import lines_between, run_together
from .wave import ShardWaves

PURPOSE = "cluster search"
KERNELS = 10
SHARDS, LEAVES, WAVES = 2, 16, 3


def kernels_missing() -> int:
    """Returns how many kernels are still to be compiled."""
    return 0 if is_compiled(PURPOSE) else KERNELS


def compile_kernels(evaluator: Evaluator) -> None:
    """Runs a short search with two shards in memory."""
    board = chess.Board()
    root, owners = pack(board), even_owners(SHARDS)
    graphs = [Graph.open(None, evaluator=evaluator) for _ in range(SHARDS)]
    leader = owner_of(board, owners)
    arena = graphs[leader].arena
    for graph in graphs:
        set_params(graph.arena, SearchParams(minibatch_size=LEAVES))
    with lines_between(SHARDS) as lines:
        places = [
            ShardContext(number=k, shards=SHARDS, owners=owners, leader=leader, lines=lines[k])
            for k in range(SHARDS)
        ]
        shards = [ShardWaves(graph, root, LEAVES, place) for graph, place in zip(graphs, places, strict=True)]
        for _ in range(WAVES):
            knows, allowed, _ = descent_kernel.root_state(arena.tables, arena.arrays, root)
            most = max(4 * LEAVES, int(allowed))
            run_together([one.run(LEAVES, most, knows_root=bool(knows)) for one in shards])
        for shard in shards:
            shard.close()
    mark_compiled(PURPOSE)
