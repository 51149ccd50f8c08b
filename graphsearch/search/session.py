"""The common part of every search, in one process or in a shard: root, counts, limits, saves and end."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ..evaluators.lines import LINE_PLIES
from ..graph import arena_kernel as arena
from ..graph.graph import Graph
from ..graph.saving import flush_nodes
from ..position.board import NOT_TERMINAL, fen_of, game_before, history_keys, legal_moves, pack, terminal_kind
from ..position.late import is_over_by_clock
from ..store.store import Store
from ..store.tables import history
from .forced import ForcedVisits
from .job import SearchJob
from .puct_kernel import set_listed, set_params
from .results import Counts

FIRST_FLUSH_SECONDS, FLUSH_SECONDS = 10.0, 30.0  # between two saves: the first time, and at most
FLUSH_GROWTH = 3  # from one interval to the next: a node that changes in both is written twice
COPY_BYTES = 320  # of a node while it is saved: its copy, position, order and encoding
MERGED_BYTES = 18_000  # of a block in a merge step, which decodes, merges and encodes: 15 to 19 MB for 1,024
RESERVED_PARTS = 4  # at most one of so many parts of a budget is reserved for both
LOAD_SECONDS = 0.05  # of reading the file in order, between two checks of the clock
IDLE_VISITS, IDLE_VISITS_PER_NODE = 1_000_000, 100  # without an evaluation: nothing is left to find
VISITS_PER_EVALUATION = 100  # beside IDLE_VISITS, of a limit of evaluations: hardly anything is left


class SaveClock:
    """Decides when a search saves: after `nodes` unsaved nodes, and at intervals."""

    def __init__(self, graph: Graph, most_nodes: int, seconds: float | None = None) -> None:
        """Reserves memory for saves during waves that change up to `most_nodes` nodes.

        Args:
          seconds: between two saves; None: growing intervals.
        """
        graph.pager.reserved = 0
        self.nodes = flush_nodes(graph.pager.budget)
        self._seconds, self._grows = seconds or FIRST_FLUSH_SECONDS, seconds is None
        self._last = time.monotonic()
        if graph.store:
            graph.arena.reserve_log(2 * self.nodes, spare=most_nodes)
            most, copies = graph.pager.budget // RESERVED_PARTS, COPY_BYTES * self.nodes
            blocks = graph.limit_merge_steps((most - copies) // MERGED_BYTES)
            graph.pager.reserved = min(most, copies + MERGED_BYTES * blocks)

    def is_due(self) -> bool:
        """Returns whether the time between two saves is over."""
        return time.monotonic() - self._last >= self._seconds

    def begin(self) -> None:
        """Starts the next interval."""
        self._last = time.monotonic()
        if self._grows:
            self._seconds = min(FLUSH_GROWTH * self._seconds, FLUSH_SECONDS)


class Session:
    """One search of one root on one graph, or on one shard of it.

    Attributes:
      root, past: packed root; keys of the positions before it that occurred twice.
      params: with a batch size in place of AUTO.
      game: packed positions before the root, for an evaluator that wants lines.
      reason: why the search has ended; empty before that.
      forced: the forced visits; None if there are none, or none yet.
    """

    def __init__(self, graph: Graph, job: SearchJob, *, batch: int) -> None:
        """Prepares a search; `batch` replaces AUTO."""
        self.graph, self.arena, self.job, self.board = graph, graph.arena, job, job.board
        self.root, self.past = pack(self.board), history_keys(self.board)
        self.params = job.params.with_batch(batch)
        set_params(self.arena.arrays, self.params)  # before waves are made: it decides which of them overlap
        self.game = game_before(self.board, LINE_PLIES - 1) if graph.evaluator.wants_lines else []
        self.reason = ""
        self.forced: ForcedVisits | None = None
        self.started = time.monotonic()
        self._before = self.arena.counters.copy()
        self._saved_before, self._read_before = graph.saved_nodes, graph.pager.read_back
        self._found_at = (0, int(self._before[arena.VISITS]))  # evaluations, and the visits at the latest one
        self._is_over = terminal_kind(self.board) != NOT_TERMINAL or is_over_by_clock(self.board)

    # ---------------------------------------------------------- counts
    @property
    def seconds(self) -> float:
        """Wall time since the search began."""
        return time.monotonic() - self.started

    def added(self, counter: int) -> int:
        """Returns the increase of an arena counter since the search began."""
        return int(self.arena.counters[counter] - self._before[counter])

    def counts(self) -> Counts:
        """Returns the additions so far."""
        return Counts(
            visits=self.added(arena.VISITS),
            evaluations=self.added(arena.EVALUATIONS),
            catch_ups=self.added(arena.CATCH_UPS),
            collisions=self.added(arena.COLLISIONS),
            unkept=self.added(arena.HISTORY_DRAWS),
            plies=self.added(arena.PLIES),
            seldepth=int(self.arena.counters[arena.SELDEPTH]),
            saved=self.graph.saved_nodes - self._saved_before,
            read_back=self.graph.pager.read_back - self._read_before,
        )

    # ---------------------------------------------------------- limits
    def why_stop(
        self, visits: int, evaluations: int, *, nodes: int, stops: bool, is_held: bool, is_decided: bool
    ) -> str:
        """Returns the reason to stop now; empty if the search continues.

        Args:
          visits, evaluations: so far. nodes: of the graph.
          stops: the caller wants it to stop. is_held: a reader keeps a file's log from being reused.
          is_decided: the root's result is proven, and with it a move that leads to it.
        """
        limits = self.job.limits
        reasons = {
            "visits": limits.visits is not None and visits >= limits.visits,
            "evaluations": limits.evaluations is not None and evaluations >= limits.evaluations,
            "time": limits.seconds is not None and self.seconds >= limits.seconds,
            "stop": stops,
            "reader": is_held,
            "finished": self._is_over,
            "proven": is_decided,
            "exhausted": self._is_exhausted(evaluations, nodes),
        }
        return next((reason for reason, holds in reasons.items() if holds), "")

    def _is_exhausted(self, evaluations: int, nodes: int) -> bool:
        """Returns whether so many visits in a row found nothing to evaluate that no later one will.

        A limit of evaluations also bounds all visits: in an endgame of few positions they find the last ones
        ever more slowly.
        """
        most = self.job.limits.evaluations
        if most is not None and self.added(arena.VISITS) > IDLE_VISITS + VISITS_PER_EVALUATION * most:
            return True
        visits = int(
            self.arena.counters[arena.VISITS]
        )  # including those that a shard excludes from its counts
        if evaluations != self._found_at[0]:
            self._found_at = evaluations, visits
        idle = visits - self._found_at[1]
        return idle > IDLE_VISITS and idle > IDLE_VISITS_PER_NODE * nodes

    def may_wait(self) -> bool:
        """Returns whether the search may wait for the file: with a time limit, for half of it."""
        limit = self.job.limits.seconds
        return limit is None or self.seconds < limit / 2

    # ---------------------------------------------------------- begin and end
    def begin(self, *, lists: bool) -> None:
        """Prepares the graph; `lists`: its file lists the root."""
        self.graph.begin_search(self.board, lists=lists)
        self.arena.set_history(self.past)
        self.arena.counters[arena.SELDEPTH] = 0

    def begin_run(self, store: Store, number: int | None = None) -> int:
        """Inserts a run into a file; returns its number."""
        limits, params = self.job.limits.as_dict(), self.job.params.as_dict()
        return store.begin_run(fen_of(self.board), limits, params, number=number)

    def list_edges(self, moves: frozenset[str]) -> list[int]:
        """Restricts the search to some moves of the known root, in UCI; returns their edges."""
        record = self.graph.read(self.board)
        assert record is not None, "the first wave records the root"
        legal = legal_moves(self.board)
        edges = [k for k, i in enumerate(record.order) if legal[i].uci() in moves]
        set_listed(self.arena.arrays, edges)
        return edges

    def state_of_run(
        self, visits: int, evaluations: int, *, finished: bool, depth: int | None = None
    ) -> Callable[[Store, int], None]:
        """Returns a function that writes the state of a run, and the root's value if the search lists it."""
        values = self.graph.root_values(self.board) if self._writes_root else None
        if values and depth is not None:
            values = replace(values, depth=depth)

        def write(store: Store, run: int) -> None:
            update = store.finish_run if finished else store.update_run
            update(run, visits, evaluations)
            if values:
                history.write(store, run, values)

        return write

    @property
    def _writes_root(self) -> bool:
        return self.job.lists

    def end(self) -> None:
        """Ends the search: subtracts the visits that are not saved, and clears its history."""
        set_listed(self.arena.arrays, None)
        self.arena.subtract_overlay()
        self.arena.forget_overlay()
        if self.forced:
            self.forced.end()
        self.arena.set_history(np.zeros(0, np.uint64))
