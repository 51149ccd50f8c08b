"""Mates that a prover beside the search finds in its root: taken into the graph, and played."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol

import chess

from ..errors import CapacityError
from ..graph.graph import Graph
from ..graph.lines import learn_line
from ..graph.view import NodeView


class MateFinder(Protocol):
    """Looks for mates in the position that is searched; `mate.beside.MateFinder` is one."""

    def before(self, board: chess.Board, q: float, stop: threading.Event) -> Sequence[chess.Move]:
        """Returns the line of a mate for either side before the search begins; nothing without one."""

    def after(self, board: chess.Board, mate: int | None, stop: threading.Event) -> Sequence[chess.Move]:
        """Returns the line of a shorter mate than the one proven, or of the longest defence."""


class RootMates:
    """What a finder knows of one root; `first` is the move of its line."""

    def __init__(self, finder: MateFinder, graph: Graph, board: chess.Board, stop: threading.Event) -> None:
        """Makes one for a search that `stop` ends."""
        self._finder = finder
        self._graph = graph
        self._board = board
        self._stop = stop
        self.first: frozenset[chess.Move] = frozenset()

    def find(self, node: NodeView) -> None:
        """Has a mate looked for if the root is still open."""
        if node.bounds[0] != node.bounds[1] and not self._stop.is_set():
            self._learn(self._finder.before(self._board, node.q, self._stop))

    def shorten(self, node: NodeView) -> None:
        """Has a shorter mate, or a longer defence, looked for if the root is proven won or lost."""
        if node.bounds[0] == node.bounds[1] != 0 and not self._stop.is_set():
            self._learn(self._finder.after(self._board, node.mate, self._stop))

    def _learn(self, line: Sequence[chess.Move]) -> None:
        """Has the graph know a line to mate, if there is room for it."""
        if line:
            self.first = frozenset(line[:1])
            with suppress(CapacityError):
                learn_line(self._graph, self._board, line)
