"""Compares the leaves of alpha-beta with those of the minimal tree."""

from __future__ import annotations

import time
from collections.abc import Iterator

import chess

from graphsearch.position.board import NOT_TERMINAL, terminal_kind
from graphsearch.position.scores import LEAST_MATE
from graphsearch.solvers.alphabeta.engine import AlphaBeta
from graphsearch.solvers.alphabeta.nodetypes.theory import minimal
from graphsearch.solvers.alphabeta.results import Counts
from graphsearch.store.record.transposition import EntryTable

from .harness import Row, benchmark
from .positions import MIDDLEGAMES


@benchmark("depth")
def alphabeta(*, depth: int = 8, fen: tuple[str, ...] = MIDDLEGAMES, table_mb: int = 256) -> Iterator[Row]:
    """Alpha-beta to each depth: leaves beside those of the minimal tree, nodes per CPU-second.

    Every position is searched by iterative deepening with an empty table; rows are medians of positions.
    branching: legal moves of a position whose moves were generated. leaves_of_minimal: leaves of the depth
    divided by those of the minimal tree, nodes_of_minimal: nodes of all depths so far. hits: interior nodes
    found in the table. first_cuts: cuts by the first move. Depths that find a mate have no row, since it cuts
    the tree short. Transpositions are why a search can have fewer leaves.
    """
    AlphaBeta(EntryTable(1 << 16)).search(chess.Board(), 1)  # compiles
    for text in fen:
        yield from deepened(chess.Board(text), depth, table_mb << 20)


def deepened(board: chess.Board, depth: int, size: int) -> Iterator[Row]:
    """Yields the figures of each iteration up to a depth or a mate, from an empty table."""
    engine, total, seconds = AlphaBeta(EntryTable(size)), Counts(), 0.0
    for d in range(1, depth + 1 if terminal_kind(board) == NOT_TERMINAL else 0):
        started = time.process_time()
        found = engine.search(board, d)
        if abs(found.value) >= LEAST_MATE:
            return
        seconds += time.process_time() - started
        counts = found.counts
        total += counts
        branching = counts.moves / max(1, counts.expanded)
        least = minimal(branching, d).total
        yield {
            "depth": d,
            "nodes": counts.nodes,
            "leaves": counts.leaves,
            "branching": branching,
            "leaves_of_minimal": counts.leaves / least,
            "nodes_of_minimal": total.nodes / least,
            "nodes_per_cpu_s": total.nodes / max(1e-9, seconds),
            "hits": counts.hits / max(1, counts.interior),
            "first_cuts": counts.first_cutoffs / max(1, counts.cutoffs),
        }
