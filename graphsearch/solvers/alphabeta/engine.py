"""One iteration of principal variation search, run in slices of a kernel so that it can be stopped."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import fields, replace
from typing import TYPE_CHECKING

import chess
import numpy as np

from ...base.errors import GraphSearchError
from ...evaluators.builtin.weights import load_networks
from ...graph.arena_kernel import COUNTERS, FLOATS, INTS, ArenaArrays
from ...jit.types import int64
from ...position.board import POSITION_WORDS, decode_move, history_keys
from ...position.late import pack_root
from ...position.scores import FAR, LEAST_MATE, MATE
from ...position.tables import load_tables
from ...store.record.transposition import EntryTable
from ...store.record.transposition_kernel import BUCKET, new_entries
from ...store.record.transposition_layout import ALL, CUT, MOST_DEPTH, PV
from . import frame_layout as layout
from .frames_kernel import new_search_arrays
from .iteration_kernel import search_slice
from .known import MOST_LINE, continued, is_shortest_mate
from .results import AlphaBetaResult, Counts, DepthLimits, DepthResult

if TYPE_CHECKING:
    from ...graph.arena import Arena

SLICE_NODES = 200_000  # between two looks at the clock and the caller: about a tenth of a second
CACHE_PLACES = 1 << 18  # of leaves, 16 bytes each
UNLIMITED = 1 << 62
_BY_KIND = {"pv": layout.BY_KIND + PV, "cut": layout.BY_KIND + CUT, "all": layout.BY_KIND + ALL}
COUNTED: dict[str, int] = {  # index in the counters of each field of `Counts`
    one.name: _BY_KIND[one.name] if one.name in _BY_KIND else getattr(layout, one.name.upper())
    for one in fields(Counts)
}


class AlphaBeta:
    """Searches positions to a fixed depth with one table of entries. Not for several threads at once."""

    def __init__(self, table: EntryTable, arena: Arena | None = None) -> None:
        """Creates an engine.

        Args:
          table: transposition entries; the engine reads them and adds its own.
          arena: a graph in memory; its visits and priors order moves, and its proofs end nodes.
        """
        self.table = table
        self.arena = arena
        self._tables = load_tables()
        self._weights = load_networks().words
        self._arrays = new_search_arrays(CACHE_PLACES)
        self._no_graph = _empty_arena()

    def search(
        self,
        board: chess.Board,
        depth: int,
        alpha: int = -FAR,
        beta: int = FAR,
        *,
        stop: Callable[[], bool] | None = None,
        node_limit: int | None = None,
        on_slice: Callable[[Counts], None] | None = None,
    ) -> DepthResult:
        """Returns the result of one search of a position, with one depth and one window.

        Args:
          board: the position, with its game as move stack: positions that stood twice in it count as draws.
          depth: plies of full width, 0 (quiescence only) to 126.
          alpha, beta: the window, thousandths of a pawn for the side to move, alpha < beta.
          stop: called every `SLICE_NODES` nodes or less; True ends the search early.
          node_limit: ends the search early after so many nodes (it finishes a quiescence that has begun).
          on_slice: called with the counts so far as often as `stop`.

        Raises:
          InvalidPositionError: if the position cannot be searched.
          GraphSearchError: if depth, window or limit are out of range.
        """
        _check(depth, alpha, beta, node_limit)
        started = time.monotonic()
        self._prepare(board, depth, alpha, beta)
        complete = self._run(stop, UNLIMITED if node_limit is None else node_limit, on_slice)
        return self._result(board, depth, alpha, beta, time.monotonic() - started, complete)

    @property
    def counts(self) -> Counts:
        """Counts of the present or last search."""
        counters = self._arrays.counters
        return Counts(**{name: int(counters[at]) for name, at in COUNTED.items()})

    def _prepare(self, board: chess.Board, depth: int, alpha: int, beta: int) -> None:
        arrays = self._arrays._replace(game=history_keys(board))
        arrays.positions[:POSITION_WORDS] = pack_root(board)
        arrays.counters[:] = 0
        arrays.killers[:] = 0
        arrays.history[:] //= 2
        frame = arrays.frames
        frame[layout.ALPHA], frame[layout.BETA] = alpha, beta
        frame[layout.DEPTH], frame[layout.KIND] = depth, PV
        frame[layout.BEST], frame[layout.BEST_MOVE] = -FAR, 0
        arrays.lengths[0] = 0
        arrays.counters[layout.MODE] = layout.ENTER
        arrays.counters[layout.WITH_GRAPH] = self.arena is not None
        self._arrays = arrays

    def _run(
        self, stop: Callable[[], bool] | None, limit: int, on_slice: Callable[[Counts], None] | None
    ) -> bool:
        counters = self._arrays.counters
        while not (stop and stop()):
            nodes = int(counters[layout.NODES])
            if nodes >= limit:
                return False
            graph = self._no_graph if self.arena is None else self.arena.arrays
            if search_slice(
                self._tables,
                self._weights,
                self._arrays,
                self.table.arrays,
                graph,
                int64(min(limit, nodes + SLICE_NODES)),
            ):
                return True
            if on_slice:
                on_slice(self.counts)
        return False

    def _result(
        self, board: chess.Board, depth: int, alpha: int, beta: int, seconds: float, complete: bool
    ) -> DepthResult:
        frame = self._arrays.frames
        value = int(frame[layout.BEST])
        if not complete and value <= alpha:  # the moves that are left may be better
            return DepthResult(depth, alpha, beta, 0, "", None, (), self.counts, seconds, complete)
        bound = "lower" if value >= beta or not complete else "upper" if value <= alpha else "exact"
        pv = self._line(board, depth)
        best = int(frame[layout.BEST_MOVE])
        move = pv[0] if pv else decode_move(best) if best else None
        return DepthResult(depth, alpha, beta, value, bound, move, pv, self.counts, seconds, complete)

    def _line(self, board: chess.Board, depth: int) -> tuple[chess.Move, ...]:
        """Returns the principal variation, extended by entries where an entry ended it."""
        length = int(self._arrays.lengths[0])
        line = [decode_move(int(code)) for code in self._arrays.lines[:length]]
        game = board.copy(stack=False)
        for move in line:
            game.push(move)
        plies = MATE - abs(int(self._arrays.frames[layout.BEST]))
        return (*line, *continued(self.table, game, max(depth, plies if plies < MOST_LINE else 0) - length))


def _check(depth: int, alpha: int, beta: int, node_limit: int | None) -> None:
    if not 0 <= depth <= MOST_DEPTH:
        raise GraphSearchError(f"depth must be from 0 to {MOST_DEPTH} plies, not {depth}")
    if not -FAR <= alpha < beta <= FAR:
        raise GraphSearchError(
            f"the window must satisfy {-FAR} <= alpha < beta <= {FAR}, not {alpha} and {beta}"
        )
    if node_limit is not None and node_limit < 1:
        raise GraphSearchError(f"at least one node must be allowed, not {node_limit}")


def _empty_arena() -> ArenaArrays:
    return ArenaArrays(
        table=np.zeros(1, np.uint64),
        records=np.zeros(8, np.uint64),
        blocks=np.zeros(8, np.uint32),
        counters=np.zeros(COUNTERS, np.int64),
        floats=np.zeros(FLOATS, np.float64),
        ints=np.zeros(INTS, np.int64),
        moves=np.zeros(256, np.uint16),
        overlay=np.zeros(2, np.int64),
        history=np.zeros(0, np.uint64),
        log=np.zeros(0, np.uint64),
        entries=new_entries(int(BUCKET)),
    )


def limits_alone(limits: DepthLimits, result: AlphaBetaResult) -> DepthLimits:
    """Returns the limits with which a search without file and graph repeats a result.

    Args:
      limits: of the result.
      result: has a depth. A mate needs only the depth of its plies, although the result claims it for every
        depth.
    """
    depth = result.depth
    if result.value is not None and abs(result.value) >= LEAST_MATE:
        depth = max(1, min(depth, MATE - abs(result.value)))
    # the window belongs to the iteration of the requested depth
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
