"""Runs the prover beside a best-first search: mates in two before it, longer ones between its waves, and a
shorter one once its root is proven.

A search follows its evaluator; of two mates it proves the one that it finds first. The prover takes a slice
whenever it has used less than its share of the search so far. The share is a twentieth in the long run, and
more at first (`allowance`), because short mates take the prover some milliseconds.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress

import chess
import numpy as np

from ...base.errors import CapacityError
from ...evaluators.protocol import Evaluator
from ...graph.graph import Graph
from ...graph.view import NodeView
from ...position.board import CLOCK_DRAW, after, encode_move, pack
from ...search import visit_kernel
from ...search.job import Control
from ...search.loop import analyze
from ...search.params import Limits, SearchParams
from ...search.warm import kernels_compiling
from ...store.ranking import node_mean
from ...store.record_kernel import UNPROVEN
from .search import SLICE, MateSearch

AT_LEAST = 2  # moves of mates that are always settled
SETTLING_VISITS = 20_000  # of the prover, at most, to settle them; it rarely takes 100
SETTLING_SHARE = 0.4  # of the search's time, at most
LEAST_SECONDS = 0.05  # of a search; with less the prover would take a large part of it
DECIDED = 0.5  # |Q| from which longer mates are likely
UNLIKELY = 0.1  # weight of the mates of a side that is so much worse off
DECIDED_SHARE, OPEN_SHARE = 0.05, 0.03  # of the search's time, for longer ones
LEAD_SECONDS, LEAD_VISITS = 0.05, 5_000  # of the search, that the prover may use before its share allows it
HASTE = 3  # limit of the lead, as a multiple of the search so far
VISIT = 2  # visits of the prover that take as long as one of a search with `builtin`
SLICE_SECONDS = 0.005  # of a slice
LINE_VISITS = 20_000  # of the prover, at most, to be sure of the longest defence
VISITS_AFTER = 250_000  # of the prover, at most, for a shorter mate: about a second
FIRST_PAUSE, LONGEST_PAUSE = 256, 8_192  # visits of a search of limited visits between two looks at its share
TABLE_BYTES = 1 << 26  # of the prover's table
BYTES_PER_POSITION = 5_000  # of a line in the graph: a record, and a block of all its edges
OVER = object()  # sentinel: no slice is left
TRIAL = "kbK5/pp6/1P6/8/8/8/8/R7 w - - 0 1"  # a mate in two: a search of it compiles all kernels of a finder


def compile_kernels() -> None:
    """Compiles the kernels of a finder, and those that write its line into a graph, by a trial."""
    board = chess.Board(TRIAL)
    trial = MateSearch(board)
    trial.warm_up()
    with Graph.open(None) as graph:
        learn_line(graph, board, trial.run(moves=AT_LEAST).pv)


def learn_line(graph: Graph, board: chess.Board, line: Sequence[chess.Move]) -> None:
    """Writes a mate to the records along its line; unknown positions get records. No wave may be in flight.

    Raises:
      CapacityError: if there is no room for them.
      StoreError: if the file cannot be read, or not written when memory has to be freed.
    """
    boards = [board.copy(stack=False)]
    for move in line:
        boards.append(after(boards[-1], move))
    graph.make_room(len(boards), len(boards) * BYTES_PER_POSITION)
    words = np.array([pack(each) for each in boards])
    if not graph.pager.complete:
        graph.pager.bring(words, np.zeros(0, np.uint64))
    moves = np.array([encode_move(move) for move in line], np.uint16)
    visit_kernel.learn_line(graph.arena.tables, graph.arena.arrays, words.reshape(-1), moves)


def allowance(spent: float, *, share: float, lead: float, whole: float = math.inf) -> float:
    """Returns the most that the prover may have used beside a search that has used `spent`, in its unit.

    Args:
      share: of the search, in the long run. lead: credit before the share allows it.
      whole: most that the search will use; the lead does not exceed the prover's share of it.

    >>> [allowance(s, share=0.05, lead=40.0) for s in (10.0, 100.0, 2000.0)]
    [30.0, 40.0, 100.0]
    >>> allowance(10.0, share=0.05, lead=40.0, whole=100.0)
    5.0
    """
    return min(max(min(HASTE * spent, lead), share * spent), share * whole)


class MateFinder:
    """Looks for mates beside one search of one position, and adds them to its graph (`SearchJob.mates`).

    `first`: the first move of the line found last; empty without one.
    """

    def __init__(
        self,
        graph: Graph,
        board: chess.Board,
        limits: Limits,
        stop: threading.Event,
        *,
        seconds: float | None = None,
    ) -> None:
        """Creates a finder for a search of a position with some limits, which `stop` ends.

        With a limit of visits or evaluations the share is counted in visits, so the search is repeatable;
        else in time: `seconds` where a search plans its time itself.
        """
        self._graph, self._board, self._stop, self._control = graph, board, stop, Control(stop=stop)
        self._seconds = limits.seconds if seconds is None else seconds
        self._visits = limits.visits or limits.evaluations
        self._search: MateSearch | None = None
        self._steps: Iterator[None] = iter(())
        self._began = 0.0, 0.0  # wall and CPU time when the search began
        self._spent = 0.0  # CPU-seconds of the prover since then
        self._settled = 0  # visits of the prover before that
        self._line: tuple[chess.Move, ...] = ()
        self._next = self._pause_after(0)
        self.first: frozenset[chess.Move] = frozenset()

    @property
    def visits(self) -> int:
        """Visits of the prover so far."""
        return self._search.prover.visits if self._search else 0

    # -------------------------------------------------------------- for the search
    def find(self, *, doubtful: bool) -> None:
        """Looks for a proof in the file's entries, then for a short mate if the root is still open.

        An entry may have proven the root's result before any record proves a move that leads to it.
        `doubtful`: whether positions of the game may spoil the proof of the root's record.
        """
        if self._stop.is_set():
            return
        self._line = self.recall()
        record = self._graph.read(self._board)
        lower, upper = record.bounds_at(self._board.halfmove_clock) if record else UNPROVEN
        if not self._line and (lower != upper or doubtful):
            self._line = self.before()
        self.learn()

    def pause(self, visits: int) -> int | None:
        """Returns the visits that the search makes before it calls `look` again; None: any number."""
        return None if self._next is None else max(1, self._next - visits)

    def look(self, visits: int) -> bool:
        """Searches on if that is due after `visits` visits of the search; returns whether it has a line."""
        if self._stop.is_set() or (self._next is not None and visits < self._next):
            return False
        self._next = self._pause_after(visits)
        record = self._graph.read(self._board)
        self._line = self.beside(visits, node_mean(record)[0] if record else 0.0)
        return bool(self._line)

    def shorten(self, node: NodeView) -> None:
        """Looks for a shorter mate, or a longer defence, if the root is proven won or lost."""
        if node.bounds[0] == node.bounds[1] != 0 and not self._stop.is_set():
            self._line = self.after(node.mate)
            self.learn()

    def learn(self) -> None:
        """Inserts the line into the graph, if there is room for it. No wave may be in flight."""
        if self._line:
            self.first = frozenset(self._line[:1])
            with suppress(CapacityError):
                learn_line(self._graph, self._board, self._line)

    def _pause_after(self, visits: int) -> int | None:
        if self._visits is None:
            return None
        return visits + min(max(FIRST_PAUSE, visits // 8), LONGEST_PAUSE)

    # -------------------------------------------------------------- the lines
    def recall(self) -> tuple[chess.Move, ...]:
        """Returns the line of the mate that the graph's entries prove; empty if they prove none any more."""
        proofs = self._graph.entries.proofs
        entry = proofs.get(self._board) if proofs else None
        if entry is None or not entry.mate_plies:
            return ()
        search = MateSearch(self._board, entries=proofs, table_bytes=TABLE_BYTES)
        search.limit(Limits(visits=LINE_VISITS), self._control)
        search.take(reproof=(SETTLING_VISITS, 1))
        line = _line(search)
        self._search = search if line else None
        return line

    def before(self) -> tuple[chess.Move, ...]:
        """Returns the line of a mate in one or two, for either side; empty without one."""
        if self._board.halfmove_clock >= CLOCK_DRAW or (self._seconds and self._seconds < LEAST_SECONDS):
            return ()
        seconds = SETTLING_SHARE * self._seconds if self._seconds else None
        search = self._opened()
        search.limit(Limits(visits=SETTLING_VISITS, seconds=seconds), self._control, moves=AT_LEAST)
        line = self._finished(search)
        search.limit(Limits(), self._control)
        self._steps = search.steps()
        self._began, self._settled = _now(), self.visits
        return line

    def beside(self, visits: int, q: float) -> tuple[chess.Move, ...]:
        """Returns the line of a mate if the prover finds one before its share of the search is used up.

        `visits`: of the search so far. `q`: of its root.
        """
        search = self._search
        if search is None or search.mate is not None:
            return ()
        share = DECIDED_SHARE if abs(q) >= DECIDED else OPEN_SHARE
        attacker, defender = search.sides
        attacker.weight = 1.0 if q > -DECIDED else UNLIKELY
        defender.weight = 1.0 if q < DECIDED else UNLIKELY
        is_over = False
        while self._has_share(visits, share) and search.mate is None and not is_over:
            began = time.thread_time()
            is_over = next(self._steps, OVER) is OVER
            self._spent += time.thread_time() - began
        search.limit(Limits(visits=LINE_VISITS), self._control)
        return _line(search)

    def after(self, mate: int | None) -> tuple[chess.Move, ...]:
        """Returns the line of a shorter mate than the proven one, or the longest defence; empty without one.

        `mate`: moves of the proven mate, negative if the side to move is mated; None: unknown.
        """
        most = None if mate is None else mate - 1 if mate > 0 else -mate
        search = self._opened()
        if most == 0 or search.is_shortest:
            return ()
        if mate is not None:
            search.sides[mate > 0].closed = True  # the side that is mated
        seconds = DECIDED_SHARE * self._seconds if self._seconds else None
        visits = VISITS_AFTER
        if self._visits is not None:
            visits = min(visits, max(SETTLING_VISITS, int(DECIDED_SHARE * VISIT * self._visits)))
        search.limit(Limits(visits=visits, seconds=seconds), self._control, moves=most)
        line = self._finished(search)
        return line if mate is None or mate < 0 or len(line) < 2 * mate - 1 else ()

    # -------------------------------------------------------------- the share
    def _has_share(self, visits: int, share: float) -> bool:
        """Returns whether the prover's share allows one more slice after so many visits of the search."""
        if self._visits is not None:
            own = (self.visits - self._settled + SLICE) / VISIT
            return own <= allowance(visits, share=share, lead=LEAD_VISITS, whole=self._visits)
        spent = min(now - then for now, then in zip(_now(), self._began, strict=True)) - self._spent
        whole = self._seconds or math.inf
        return self._spent + SLICE_SECONDS <= allowance(spent, share=share, lead=LEAD_SECONDS, whole=whole)

    # -------------------------------------------------------------- the prover
    def _opened(self) -> MateSearch:
        if self._search is None:
            self._search = MateSearch(self._board, table_bytes=TABLE_BYTES)
        return self._search

    def _finished(self, search: MateSearch) -> tuple[chess.Move, ...]:
        """Searches up to a limit; returns the line of the mate known then."""
        for _ in search.steps():
            pass
        return _line(search)


def _now() -> tuple[float, float]:
    """Returns wall time, and CPU time of all threads; the smaller difference counts as the search's time.

    On a busy machine others share the CPU; several threads use more CPU time than wall time.
    """
    return time.monotonic(), time.process_time()


def _line(search: MateSearch) -> tuple[chess.Move, ...]:
    """Returns the line of the mate found; empty without one."""
    try:
        return search.line()
    except CapacityError:  # the table lost its proof
        return ()


def compile_search(
    evaluator: Evaluator,
    params: SearchParams,
    *,
    filed: bool,
    told: bool,
    board: chess.Board | None = None,
) -> None:
    """Compiles the kernels of a finder, then runs a short search in a graph of its own.

    Args:
      filed: also compile the kernels that save to a file.
      told: whether the user already knows about the compilation; else the log says so.
    """
    with (
        kernels_compiling(evaluator, filed=filed, told=told),
        Graph.open(None, evaluator=evaluator) as trial,
    ):
        compile_kernels()
        analyze(trial, board or chess.Board(), Limits(visits=2), params)
        analyze(trial, chess.Board(TRIAL), Limits(visits=2), params, mates=MateFinder)
