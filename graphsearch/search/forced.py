"""Forced visits: the visits over root edges in a search of some moves only; they are never saved.

    n of an edge in memory   = visits by PUCT + forced visits
    n of an edge in the file = visits by PUCT

The children's records keep the results of these visits. A later search of all moves catches up with them
without evaluations, as far as PUCT selects that move.
"""

from __future__ import annotations

from collections.abc import Sequence

import chess
import numpy as np
from numpy.typing import NDArray

from ..graph import arena_kernel
from ..graph.arena_kernel import OVERLAY_EDGE_BITS, OVERLAY_SLOT_SHIFT
from ..graph.graph import Graph
from ..position.board import legal_moves
from ..store.ranking import node_mean
from ..store.record import NodeRecord
from .params import SearchParams
from .puct import exploration_term, fpu, least_decided, openness
from .visit_kernel import set_listed
from .waves import WaveRunner

Counts = NDArray[np.int64]  # [E, 2]: n and r of a root's edges, in descending P
PART = 64  # an edge catches up in steps of 1/64 of the root's visits


class ForcedVisits:
    """The forced visits of one session: recorded in the arena's overlay, and subtracted before every save.

    Create it when the root is known, before the first visit over its edges; call `end` afterwards.
    """

    def __init__(self, graph: Graph, board: chess.Board) -> None:
        """Begins to count forced visits separately from the root's existing ones."""
        self._graph, self._board = graph, board
        self._arena = graph.arena
        self._before = _counts(self.record())
        self._arena.before_subtracting = self._note

    def end(self) -> None:
        """Stops counting; the visits so far must have been subtracted."""
        self._arena.before_subtracting = None

    def record(self) -> NodeRecord:
        """Returns the root's record with the forced visits."""
        record = self._graph.read(self._board)
        assert record is not None, "the first wave records the root"
        return record

    @property
    def unproven(self) -> int:
        """The number of forced visits over edges without a proven result, path draws excluded."""
        record = self.record()
        extra = _counts(record) - self._before
        return sum(int(extra[k, 0] - extra[k, 1]) for k, edge in enumerate(record.edges) if not edge.proof)

    # ---------------------------------------------------------- notes
    def _note(self) -> None:
        """Adds new forced visits to the overlay; a root that is not in memory has none."""
        slot = self._arena.slot(self._board)
        if not slot:
            return
        record = self.record()
        extra = _counts(record) - self._kept(record) - self._noted(slot)
        for edge, (n, r) in enumerate(extra.tolist()):
            self._append(slot, edge, 0, n - r)
            self._append(slot, edge, 1, r)

    def _kept(self, record: NodeRecord) -> Counts:
        """Returns the counts that the file may hold; one visit carries the proof of a new move."""
        kept = self._before.copy()
        for k, edge in enumerate(record.edges):
            if edge.proof and kept[k, 0] == kept[k, 1]:
                kept[k, 0] += 1
        return kept

    def _noted(self, slot: int) -> Counts:
        """Returns the root's visits in the overlay, forced or drawn by this game's history."""
        noted = np.zeros_like(self._before)
        length = int(self._arena.counters[arena_kernel.OVERLAY_LENGTH])
        items, visits = self._arena.arrays.overlay[: 2 * length].reshape(-1, 2).T
        here = items >> OVERLAY_SLOT_SHIFT == slot
        edges = items[here] >> 1 & OVERLAY_EDGE_BITS
        np.add.at(noted[:, 0], edges, visits[here])
        np.add.at(noted[:, 1], edges, visits[here] * (items[here] & 1))
        return noted

    def _append(self, slot: int, edge: int, drawn: int, visits: int) -> None:
        if visits:
            self._arena.reserve_overlay(1)
            i = int(self._arena.counters[arena_kernel.OVERLAY_LENGTH])
            item = slot << OVERLAY_SLOT_SHIFT | edge << 1 | drawn
            self._arena.arrays.overlay[2 * i : 2 * i + 2] = item, visits
            self._arena.counters[arena_kernel.OVERLAY_LENGTH] = i + 1

    # ---------------------------------------------------------- resuming
    def catch_up(self, runner: WaveRunner, listed: Sequence[int], params: SearchParams) -> None:
        """Resumes a search of the same moves: forces again the visits that need no evaluation.

        They follow PUCT's order, so a move that another search has explored gets no more than its share.

        Args:
          listed: edges of the root that the search may take, in descending P.
        """
        rooms = {k: room for k in listed if (room := self._catch_up_once(runner, k, params))}
        set_listed(self._arena.arrays, listed)
        if not rooms:
            return
        record = self.record()
        added = _caught_up(record, listed, rooms, params) - _counts(record)[:, 0]
        self._arena.subtract_overlay()
        slot = self._arena.slot(self._board)
        for edge, visits in enumerate(added.tolist()):
            self._append(slot, edge, 0, visits)
        self._arena.add_overlay()

    def _catch_up_once(self, runner: WaveRunner, edge: int, params: SearchParams) -> int:
        """Makes one visit of an edge if it can catch up; returns the n that it can catch up to, or 0."""
        record = self.record()
        n = record.edges[edge].n if edge < len(record.edges) else 0
        child = self._board.copy(stack=False)
        child.push(legal_moves(self._board)[record.order[edge]])
        known = self._graph.read(child)
        reach = int(known.visits / params.catch_up_ratio) if known else 0
        if reach <= n + 1:
            return 0
        set_listed(self._arena.arrays, [edge])
        before = self._arena.counters.copy()
        runner.visit_known()
        added = self._arena.counters - before
        is_caught_up = added[arena_kernel.CATCH_UPS] == added[arena_kernel.PLIES] == 1
        return reach if is_caught_up else 0


def _counts(record: NodeRecord) -> Counts:
    counts = np.zeros((len(record.codes), 2), np.int64)
    for k, edge in enumerate(record.edges):
        counts[k] = edge.n, edge.r
    return counts


def _caught_up(
    record: NodeRecord, listed: Sequence[int], rooms: dict[int, int], params: SearchParams
) -> NDArray[np.int64]:
    """Returns n of each edge when PUCT, restricted to the listed edges, first selects one without room.

    Args:
      rooms: the largest n to which each edge can catch up.
    """
    counts = _counts(record)
    n: NDArray[np.int64] = counts[:, 0].copy()
    r, prior = counts[:, 1], np.array(record.priors)[record.order]
    q = np.zeros(len(n))
    q[: len(record.edges)] = [edge.q for edge in record.edges]
    mean = node_mean(record)[0]
    opened = openness(mean, least_decided(params.decided_from))
    unvisited = fpu(mean, params.fpu_value, float(prior[n > 0].sum()))
    while True:
        spent = int(n.sum())
        value = np.where(n > 0, (n - r) * q / np.maximum(n, 1), unvisited)
        term = opened * exploration_term(spent, params.cpuct, params.cpuct_base, params.cpuct_factor)
        best = listed[int(np.argmax((value + term * prior / (1 + n))[listed]))]
        room = rooms.get(best, 0) - int(n[best])
        if room <= 0:
            return n
        n[best] += min(room, max(1, spent // PART))
