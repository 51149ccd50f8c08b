"""Repeats a fixed-depth search without file and graph, to measure how many nodes they save."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

import chess

from ...position.scores import FAR, LEAST_MATE, MATE
from ...store.record.transposition import EntryTable
from .engine import AlphaBeta
from .known import is_shortest_mate
from .limits import DepthLimits
from .outcome import AlphaBetaResult


def limits_alone(limits: DepthLimits, result: AlphaBetaResult) -> DepthLimits:
    """Returns the limits with which a search without file and graph repeats a result.

    Args:
      limits: those of the result, which has a depth. A mate needs only the depth of its plies, although the
        result claims it for every depth.
    """
    depth = result.depth
    if result.value is not None and abs(result.value) >= LEAST_MATE:
        depth = max(1, min(depth, MATE - abs(result.value)))
    # the window belongs to the last iteration asked for
    return replace(limits, depth=depth, window=limits.window if depth == limits.depth else None)


def nodes_within(
    board: chess.Board, limits: DepthLimits, *, table_bytes: int, stop: threading.Event
) -> int | None:
    """Returns the nodes of a search without file and graph; None if a limit or `stop` ended it early."""
    engine, nodes, started = AlphaBeta(EntryTable(table_bytes)), 0, time.monotonic()
    engine.table.next_search()

    def must_stop() -> bool:
        return stop.is_set() or (limits.seconds is not None and time.monotonic() - started >= limits.seconds)

    for depth in range(1, limits.depth + 1):
        window = limits.last_window if depth == limits.depth else (-FAR, FAR)
        left = None if limits.nodes is None else limits.nodes - nodes
        if left is not None and left < 1:
            return None
        found = engine.search(board, depth, *window, stop=must_stop, node_limit=left)
        nodes += found.counts.nodes
        if not found.complete:
            return None
        if is_shortest_mate(found.value, found.bound, depth):
            break
    return nodes
