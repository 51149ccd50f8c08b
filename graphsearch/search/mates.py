"""Mates that a prover finds during the search; the search adds them to the graph and plays them."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol

import chess
import numpy as np

from ..base.errors import CapacityError
from ..graph.graph import Graph
from ..graph.view import NodeView
from ..position.board import POSITION_WORDS, encode_move, pack
from ..store.bounds_kernel import UNPROVEN
from ..store.ranking import node_mean
from ..store.transposition import EntryTable
from . import visit_kernel

BYTES_PER_POSITION = 5_000  # a record, and a block of all its edges


def learn_line(graph: Graph, board: chess.Board, line: Sequence[chess.Move]) -> None:
    """Writes a mate to the records along its line: best attack and longest defence, up to the mate.

    Positions that the graph does not know get records. No wave may be in flight.

    Raises:
      CapacityError: if there is no room for them.
      StoreError: if the file cannot be read, or not written when memory has to be freed.
    """
    boards = [board.copy(stack=False)]
    for move in line:
        boards.append(boards[-1].copy(stack=False))
        boards[-1].push(move)
    graph.make_room(len(boards), len(boards) * BYTES_PER_POSITION)
    graph.pager.read_all(boards)
    words = np.zeros(len(boards) * POSITION_WORDS, np.uint64)
    words[:POSITION_WORDS] = pack(board)
    moves = np.array([encode_move(move) for move in line], np.uint16)
    visit_kernel.learn_line(graph.arena.tables, graph.arena.arrays, words, moves)


class MateFinder(Protocol):
    """Looks for mates in the root of a search; implemented by `solvers.mate.beside.MateFinder`."""

    def recall(self, board: chess.Board, proofs: EntryTable, stop: threading.Event) -> Sequence[chess.Move]:
        """Returns the line of the mate that the file's entries prove; empty if they prove none."""

    def before(self, board: chess.Board, stop: threading.Event) -> Sequence[chess.Move]:
        """Returns the line of a mate for either side before the search begins; empty without one."""

    def pause(self, visits: int) -> int | None:
        """Returns the visits that a search makes before its next call of `beside`; None: no limit."""

    def beside(self, visits: int, q: float, stop: threading.Event) -> Sequence[chess.Move]:
        """Returns the line of a mate found between two waves, given the visits so far and the root's Q."""

    def after(self, board: chess.Board, mate: int | None, stop: threading.Event) -> Sequence[chess.Move]:
        """Returns the line of a shorter mate than the one proven, or of the longest defence."""


class RootMates:
    """A finder's results for one root; `first` holds the first move of its line."""

    def __init__(self, finder: MateFinder, graph: Graph, board: chess.Board, stop: threading.Event) -> None:
        """Creates it for a search that `stop` ends."""
        self._finder = finder
        self._graph = graph
        self._board = board
        self._stop = stop
        self._line: Sequence[chess.Move] = ()
        self._next = self._pause_after(0)
        self.first: frozenset[chess.Move] = frozenset()

    def find(self, *, doubtful: bool) -> None:
        """Looks for a proof in the file's entries, then for a short mate if the root is still open.

        An entry may have proven the root's result before any record proves a move that leads to it.

        Args:
          doubtful: whether positions of the game may spoil the proof of the root's record.
        """
        if self._stop.is_set():
            return
        proofs = self._graph.entries.proofs
        self._line = self._finder.recall(self._board, proofs, self._stop) if proofs else ()
        record = self._graph.read(self._board)
        lower, upper = record.bounds_at(self._board.halfmove_clock) if record else UNPROVEN
        if not self._line and (lower != upper or doubtful):
            self._line = self._finder.before(self._board, self._stop)
        self.learn()

    def pause(self, visits: int) -> int | None:
        """Returns the visits that a search makes before the finder continues; None: no limit."""
        return None if self._next is None else max(1, self._next - visits)

    def look(self, visits: int) -> bool:
        """Runs the finder if it is due after `visits` visits; returns whether it found a line."""
        if self._stop.is_set() or (self._next is not None and visits < self._next):
            return False
        self._next = self._pause_after(visits)
        record = self._graph.read(self._board)
        self._line = self._finder.beside(visits, node_mean(record)[0] if record else 0.0, self._stop)
        return bool(self._line)

    def shorten(self, node: NodeView) -> None:
        """Looks for a shorter mate, or a longer defence, if the root is proven won or lost."""
        if node.bounds[0] == node.bounds[1] != 0 and not self._stop.is_set():
            self._line = self._finder.after(self._board, node.mate, self._stop)
            self.learn()

    def learn(self) -> None:
        """Inserts the line into the graph, if there is room for it. No wave may be in flight."""
        if self._line:
            self.first = frozenset(self._line[:1])
            with suppress(CapacityError):
                learn_line(self._graph, self._board, self._line)

    def _pause_after(self, visits: int) -> int | None:
        pause = self._finder.pause(visits)
        return None if pause is None else visits + pause
