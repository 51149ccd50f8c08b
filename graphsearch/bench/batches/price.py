"""What batches cost: searches of one position at equal evaluations, all compared with the sequential one.

sequential   E evaluations ---------------- visits, best move
                         \\--- on to 4 E --- the positions that deserve an evaluation
a gatherer   E evaluations ---------------- visits, best move, positions evaluated
"""

from __future__ import annotations

from dataclasses import dataclass

import chess
import numpy as np
from numpy.typing import NDArray

from ...evaluators.factory import create
from ...graph.arena import Arena
from ...graph.graph import Graph
from ...record import node_layout as layout
from ...record.provenance import BY_RULE
from ...search.loop import analyze
from ...search.params import Limits, SearchParams
from ...search.results import SearchResult
from .plan import LONGER
from .roots import Case

MOST_VISITS = 100  # for each evaluation: where the game tree ends, only visits are left
SEQUENTIAL = ("sequential", 1)

Visits = dict[str, float]


@dataclass(frozen=True, slots=True)
class Price:
    """What one search cost.

    Attributes:
      agreement: 1 if its best move is that of the sequential search, else 0.
      root_distance: L1 distance of its root's visit distribution from the sequential one, 0 to 2.
      waste: share of its evaluated positions that the longer sequential search never evaluates; None if that
        was not made.
      good: 1 if its best move is one of the known ones, else 0; None if none is known.
      loss: expected result that its best move gives away, 0 to 2; None if that is not known.
    """

    agreement: float
    root_distance: float
    waste: float | None
    good: float | None
    loss: float | None


Prices = dict[tuple[str, int], Price]  # of one position, by gatherer and batch


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceTask:
    """The searches of one position.

    Attributes:
      batches: of each gatherer, all beyond 1. longer: search sequentially on to 4 E, to tell waste.
    """

    evaluator: str
    evaluations: int
    case: Case
    gatherers: tuple[str, ...]
    batches: tuple[int, ...]
    longer: bool


def compare(task: PriceTask) -> Prices:
    """Returns the price of each (gatherer, batch), and of the sequential search under `SEQUENTIAL`."""
    base, needed = _sequential(task)
    found = {SEQUENTIAL: base.price(base, needed)}
    for batch in task.batches:
        for gather in task.gatherers:
            with _graph(task) as graph:
                other = _Search(_searched(graph, task, gather, batch), evaluated(graph.arena), task.case)
            found[gather, batch] = other.price(base, needed)
    return found


def _sequential(task: PriceTask) -> tuple[_Search, NDArray[np.uint64] | None]:
    """Returns the sequential search, and what it has evaluated once it is as long as waste needs."""
    with _graph(task) as graph:
        result = _searched(graph, task, "classic", 1)
        found = _Search(result, evaluated(graph.arena), task.case)
        if not task.longer:
            return found, None
        _searched(graph, task, "classic", 1, (LONGER - 1) * task.evaluations)
        return found, evaluated(graph.arena)


def _graph(task: PriceTask) -> Graph:
    return Graph.open(None, evaluator=create(task.evaluator))


def _searched(
    graph: Graph, task: PriceTask, gather: str, batch: int, evaluations: int | None = None
) -> SearchResult:
    """Searches on for exactly so many evaluations: a limit cuts no wave, so the last ones are small."""
    left = evaluations or task.evaluations
    board = chess.Board(task.case.fen)
    while True:
        most = min(batch, left)
        limits = Limits(evaluations=left - most + 1, visits=MOST_VISITS * left)
        params = SearchParams(gather=gather, minibatch_size=most, overlap=0)
        result = analyze(graph, board, limits, params, lines=0)
        left -= result.evaluations
        if left <= 0 or result.stop_reason != "evaluations":
            return result


@dataclass(frozen=True, slots=True)
class _Search:
    """A search as far as it is compared."""

    result: SearchResult
    keys: NDArray[np.uint64]
    case: Case

    def price(self, base: _Search, needed: NDArray[np.uint64] | None) -> Price:
        move = self.result.bestmove.uci() if self.result.bestmove else ""
        return Price(
            agreement=float(self.result.bestmove == base.result.bestmove),
            root_distance=distance(_visits(self.result), _visits(base.result)),
            waste=None if needed is None else self._waste(needed),
            good=float(move in self.case.best) if self.case.best else None,
            loss=self.case.losses.get(move),
        )

    def _waste(self, needed: NDArray[np.uint64]) -> float:
        """Returns the share of what was evaluated that is not needed; a proven root needs nothing."""
        return float(np.isin(self.keys, needed, invert=True).sum()) / max(1, len(self.keys))


def _visits(result: SearchResult) -> Visits:
    return {move.move.uci(): float(move.n) for move in result.node.moves}


def distance(some: Visits, others: Visits) -> float:
    """Returns the L1 distance of two distributions over the same moves, given as visits.

    >>> distance({"e2e4": 3, "d2d4": 1}, {"e2e4": 10, "d2d4": 10})
    0.5
    """
    ours, theirs = max(1.0, sum(some.values())), max(1.0, sum(others.values()))
    return sum(abs(n / ours - others[move] / theirs) for move, n in some.items())


def evaluated(arena: Arena) -> NDArray[np.uint64]:
    """Returns the keys of all positions in memory that an evaluator was asked for, in no order."""
    table, records = arena.arrays.table, arena.arrays.records
    slots = (table[table != 0] & np.uint64(0xFFFFFFFF)).astype(np.int64)
    source = (records[slots + layout.MISC_WORD] >> np.uint64(8 * layout.SOURCE_BYTE)).astype(np.int64)
    asked = (source & layout.MAX_EVALUATOR) != BY_RULE  # the rules know finished games and mates in one
    keys: NDArray[np.uint64] = records[slots[asked]]
    return keys
