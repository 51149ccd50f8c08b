"""Growing a real graph inside a budget of memory, and searching on in it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from time import process_time

import chess

from ...evaluators.uniform import UniformEvaluator
from ...graph.graph import Graph
from ...search.loop import analyze
from ...search.params import Limits, SearchParams
from .meter import Meter
from .plan import Plan

ROOT_VISITS = 1_000_000  # of one root, before the next one's turn
LEAST_WAVE, MOST_WAVE, WAVE_SHARE = 1024, 16_384, 1000  # a wave is one node in so many of the graph
SEARCH_VISITS = 500_000  # of the search that goes on


def grow(plan: Plan, meter: Meter) -> None:
    """Grows the file to its size by searches within the budget, one root after the other.

    The roots are the start position, then those after one move, after two, and so on: a search stays in one
    part of the graph for a while, as the branches of an opening book do. It goes on from what is there.
    """
    with Graph.open(plan.file, evaluator=UniformEvaluator(), ram_bytes=plan.ram_bytes) as graph:
        assert graph.store is not None
        before, first = graph.node_count, len(graph.store.roots())
        visits = 0
        for board in islice(_roots(), first, None):
            left = plan.nodes - graph.node_count
            if left <= 0:
                break
            some = min(ROOT_VISITS, max(LEAST_WAVE, left))
            visits += _search(graph, board, some, meter, lambda: (graph.node_count, plan.nodes))
        added = graph.node_count - before
    meter.units, meter.unit = max(1, added), "node"
    meter.more |= {"added": added, "visits": visits, "roots": first}


def _search(graph: Graph, board: chess.Board, visits: int, meter: Meter, done: object = None) -> int:
    def tick(_: object) -> None:
        meter.tick(*(done() if callable(done) else (0, 0)))

    params = SearchParams(minibatch_size=_wave(graph.node_count))
    result = analyze(graph, board, Limits(visits=visits), params, on_progress=tick, interval=0.0)
    return result.new_visits


def _wave(nodes: int) -> int:
    """Returns the leaves of a wave: more in a larger graph, so that one round of reading serves more visits.

    >>> _wave(1_000_000), _wave(10_000_000), _wave(100_000_000)
    (1024, 10000, 16384)
    """
    return min(MOST_WAVE, max(LEAST_WAVE, nodes // WAVE_SHARE))


def _roots() -> Iterator[chess.Board]:
    """Yields the start position, then all positions after one move, after two, each once."""
    level, seen = [chess.Board()], set()
    while True:
        following = []
        for board in level:
            if board.epd() not in seen:
                seen.add(board.epd())
                yield board
                following.append(board)
        level = [_after(board, move) for board in following for move in board.legal_moves]


def _after(board: chess.Board, move: chess.Move) -> chess.Board:
    child = board.copy(stack=False)
    child.push(move)
    return child


def search(plan: Plan, meter: Meter) -> None:
    """Searches on from the start position within the budget; what fills the memory first does not count."""
    visits = min(SEARCH_VISITS, plan.nodes // 2)
    with Graph.open(plan.copy, evaluator=UniformEvaluator(), ram_bytes=plan.ram_bytes) as graph:
        _search(graph, chess.Board(), visits // 2, meter)
        meter.restart()
        begin = process_time()
        done = _search(graph, chess.Board(), visits, meter)
        meter.more |= {"visits_per_cpu_s": round(done / max(1e-9, process_time() - begin))}
    meter.units, meter.unit = max(1, done), "visit"
