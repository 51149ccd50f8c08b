"""The most visited positions below one, or of a book there, as a graph in layers to be drawn. Reads only."""

from __future__ import annotations

import heapq
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import NamedTuple

import chess

from ..base.answer import Answer
from ..base.errors import UnknownPositionError, check_least
from ..position.board import check, fen_of, key_text
from ..store.ranking import node_mean
from ..store.tables.books import book_named, book_node, book_steps
from .source import Records, RecordSource, after, records_of, steps_of
from .steps import keys_after


@dataclass(frozen=True, slots=True)
class DrawnNode(Answer):
    """A position of the picture, drawn once.

    Attributes:
      key: as `key_text` has it. position: FEN.
      level: fewest plies from the root within the picture. place: position within its level, in steps of
        at least 1 from the next node.
      n: node N; q: node Q (of a book: its value there, if it has one), seen by the side to move. None if
        unknown.
    """

    json_keys = "key position level place n q white_q"

    key: str
    position: str
    level: int
    place: float
    n: int | None
    q: float | None

    @property
    def white_q(self) -> float | None:
        """`q` as White sees it."""
        return self.q if self.q is None or " w " in self.position else -self.q


@dataclass(frozen=True, slots=True)
class DrawnEdge:
    """A move between two positions of the picture, given by their indexes in `Neighbourhood.nodes`.

    Attributes:
      move, san: the move. n: edge N.
      white_q: edge Q (of a book: its value there) as White sees it; None if unknown.
      main: whether it is the most visited edge into its child from the level above.
    """

    parent: int
    child: int
    move: str
    san: str
    n: int
    white_q: float | None
    main: bool


@dataclass(frozen=True, slots=True)
class Neighbourhood(Answer):
    """The answer of `neighbourhood`.

    Attributes:
      nodes: by level and place. edges: all visited moves between them, in the order of their parents.
      hidden: visited moves that lead out of the picture, above the depth.
    """

    json_keys = "hidden transpositions nodes edges"

    nodes: tuple[DrawnNode, ...]
    edges: tuple[DrawnEdge, ...]
    hidden: int

    @property
    def transpositions(self) -> int:
        """Number of positions with several edges into them."""
        ways = [0] * len(self.nodes)
        for edge in self.edges:
            ways[edge.child] += 1
        return sum(number > 1 for number in ways)


class _Way(NamedTuple):
    """A move out of a position; `child` is the key of the position after it."""

    move: chess.Move
    child: str
    n: int
    q: float | None


class _Known(NamedTuple):
    """A position as a graph or a book knows it."""

    n: int | None
    q: float | None
    ways: Sequence[_Way]


Look = Callable[[chess.Board], _Known | None]


def neighbourhood(
    path: str | os.PathLike[str] | Records,
    board: chess.Board,
    *,
    depth: int = 4,
    min_visits: int = 1,
    most: int = 120,
    book: str | None = None,
) -> Neighbourhood:
    """Returns the positions on lines of many visits, each once with all edges into it, in layers.

    Of all positions within the depth it selects those with the best line, by the visits of the line's least
    visited move.

    Args:
      path: the graph file, which is only read, or records in memory, without a book.
      board: the position. depth: plies.
      min_visits: least edge N of a move to follow.
      most: most positions.
      book: name of the book to show; None: the graph.

    Raises:
      InvalidParameterError: if a number is out of range, or there is no such book.
      InvalidPositionError: if the position is not legal.
      UnknownPositionError: if the file, or the book, does not hold it.
      StoreError: if the file cannot be read.
    """
    check_least(0, depth=depth, min_visits=min_visits)
    check_least(1, most=most)
    check(board)
    with records_of(path) as source:
        look = _of_graph(source)
        if isinstance(source, RecordSource) and book is not None:
            look = _of_book(source, book)
        chosen = _Choice(look, depth, min_visits, most)
        chosen.take(board)
        if not chosen.boards:
            where = f"the book {book!r} of {source.path}" if book is not None else source.path
            raise UnknownPositionError(f"{where} does not hold this position: {fen_of(board)}")
        return _drawn(chosen, key_text(board))


# ------------------------------------------------------------------ sources of moves
def _of_graph(source: Records) -> Look:
    def look(board: chess.Board) -> _Known | None:
        record = source.read(board)
        if record is None:
            return None
        steps = steps_of(record, board)
        keys = keys_after(board, [step.move for step in steps])
        ways = [
            _Way(step.move, key, step.edge.n, step.edge.value) for step, key in zip(steps, keys, strict=True)
        ]
        return _Known(record.visits, node_mean(record)[0], ways)

    return look


def _of_book(source: RecordSource, name: str) -> Look:
    """Returns a function that looks up the positions of a book."""
    number = book_named(source.store, name).id

    def look(board: chess.Board) -> _Known | None:
        key = key_text(board)
        found = book_node(source.store, number, key)
        if found is None:
            return None
        steps = [
            (move, step)
            for step in book_steps(source.store, number, key)
            if board.is_legal(move := chess.Move.from_uci(step.move))
        ]
        keys = keys_after(board, [move for move, _ in steps])
        ways = [_Way(move, key, step.n, step.value) for (move, step), key in zip(steps, keys, strict=True)]
        n, value = found
        record = source.read(board)
        if record:  # the record has moves that the book has not searched yet
            n, value = record.visits, node_mean(record)[0] if value is None else value
        return _Known(n, value, ways)

    return look


# ------------------------------------------------------------------ choice of positions
class _Choice:
    """The positions of one picture: by key, each with its board and its moves."""

    def __init__(self, look: Look, depth: int, least: int, most: int) -> None:
        self._look = look
        self._depth = depth
        self._least = least
        self._most = most
        self._levels: dict[str, int] = {}
        self.boards: dict[str, chess.Board] = {}
        self.known: dict[str, _Known] = {}

    def take(self, root: chess.Board) -> None:
        """Adds the positions reached from a root, the widest lines first."""
        number = count(1)  # so that neither boards nor moves are ever compared
        queue: list[tuple[int, int, int, str, chess.Board, chess.Move | None]] = [
            (-(1 << 62), 0, 0, key_text(root), root, None)
        ]
        while queue:
            width, level, _, key, parent, move = heapq.heappop(queue)
            if self._levels.get(key, 1 << 30) <= level:
                continue
            if key not in self.boards:
                if len(self.boards) >= self._most:
                    break
                if not self._enter(key, parent, move):
                    continue
            self._levels[key] = level
            if level < self._depth:
                for way in self.known[key].ways:
                    if way.n >= self._least:
                        rank = max(width, -way.n), level + 1, next(number)
                        heapq.heappush(queue, (*rank, way.child, self.boards[key], way.move))

    def _enter(self, key: str, parent: chess.Board, move: chess.Move | None) -> bool:
        """Adds a position if it is known; returns whether it is."""
        board = parent.copy(stack=False) if move is None else after(parent, move)
        found = self._look(board)
        if found is None:
            return False
        self.boards[key], self.known[key] = board, found
        return True

    def edges(self) -> Iterator[tuple[str, _Way]]:
        """Yields the moves between the positions, with the key of the position before each."""
        for key, known in self.known.items():
            for way in known.ways:
                if way.child in self.boards and way.child != key:
                    yield key, way

    def hidden(self) -> int:
        """Returns the number of moves that lead out of the picture from positions above its depth."""
        return sum(
            way.child not in self.boards
            for key, known in self.known.items()
            if self._levels[key] < self._depth
            for way in known.ways
        )


# ------------------------------------------------------------------ the picture
def _drawn(chosen: _Choice, root: str) -> Neighbourhood:
    edges = sorted(chosen.edges(), key=lambda edge: -edge[1].n)
    levels = _levels(root, edges)
    at = {key: k for k, key in enumerate(levels)}
    main = _main_ways(edges, levels)
    is_main = [main.get(way.child) == (key, way.move) for key, way in edges]
    ends = [(at[key], at[way.child]) for key, way in edges]
    tree = [pair for pair, first in zip(ends, is_main, strict=True) if first]
    sides = [pair for pair, first in zip(ends, is_main, strict=True) if not first]
    stand = places(list(levels.values()), tree, sides)
    order = sorted(levels, key=lambda key: (levels[key], stand[at[key]]))
    number = {key: k for k, key in enumerate(order)}
    nodes = tuple(
        DrawnNode(key, fen_of(chosen.boards[key]), levels[key], stand[at[key]], *chosen.known[key][:2])
        for key in order
    )
    drawn = [
        DrawnEdge(
            parent=number[key],
            child=number[way.child],
            move=way.move.uci(),
            san=chosen.boards[key].san(way.move),
            n=way.n,
            white_q=way.q if way.q is None or chosen.boards[key].turn else -way.q,
            main=first,
        )
        for (key, way), first in zip(edges, is_main, strict=True)
    ]
    return Neighbourhood(
        nodes, tuple(sorted(drawn, key=lambda edge: (edge.parent, -edge.n))), chosen.hidden()
    )


def _levels(root: str, edges: Sequence[tuple[str, _Way]]) -> dict[str, int]:
    """Returns the fewest moves from the root to each position."""
    children: dict[str, list[str]] = {}
    for key, way in edges:
        children.setdefault(key, []).append(way.child)
    levels = {root: 0}
    queue = deque([root])
    while queue:
        key = queue.popleft()
        for child in children.get(key, ()):
            if child not in levels:
                levels[child] = levels[key] + 1
                queue.append(child)
    return levels


def _main_ways(
    edges: Sequence[tuple[str, _Way]], levels: dict[str, int]
) -> dict[str, tuple[str, chess.Move]]:
    """Returns the most visited edge into each position from the level above it."""
    main: dict[str, tuple[str, chess.Move]] = {}
    most: dict[str, int] = {}
    for key, way in edges:
        if levels[way.child] == levels[key] + 1 and way.n > most.get(way.child, -1):
            main[way.child], most[way.child] = (key, way.move), way.n
    return main


# ------------------------------------------------------------------ the layout
Edge = tuple[int, int]  # parent, child
Order = list[list[int]]  # the nodes of each layer, in order

SWEEPS = 30
SIDE_PULL = 0.2  # weight of an edge outside the tree; a tree edge has 1


def places(levels: Sequence[int], tree: Sequence[Edge], sides: Sequence[Edge]) -> list[float]:
    """Returns the place of each node within its layer, in steps of at least 1 between neighbours.

    Branches stay whole, and neighbours near each other: the edges of the tree are drawn without crossings,
    the others pull their ends a little.

    Args:
      levels: layer of each node, from 0.
      tree: one edge into each node of a layer above 0, from the layer before it; the children of a node keep
        the order of the edges.
      sides: other edges.

    >>> places([0, 1, 1, 2], [(0, 1), (0, 2), (1, 3)], [(2, 3)])
    [0.595, 0.0, 1.0, 0.167]
    """
    pulls: list[list[tuple[int, float]]] = [[] for _ in levels]
    for edges, weight in ((tree, 1.0), (sides, SIDE_PULL)):
        for one, other in edges:
            pulls[one].append((other, weight))
            pulls[other].append((one, weight))
    order = _order(levels, tree)
    at = [0.0] * len(levels)
    for layer in order:
        for k, node in enumerate(layer):
            at[node] = k - (len(layer) - 1) / 2
    for sweep in range(SWEEPS):
        for layer in order if sweep % 2 else order[::-1]:
            wanted = []
            for node in layer:  # the weighted mean place of its neighbours; its own place if it has none
                total = sum(weight for _, weight in pulls[node])
                drawn = sum(at[other] * weight for other, weight in pulls[node])
                wanted.append(drawn / total if total else at[node])
            for node, place in zip(layer, _spread(wanted), strict=True):
                at[node] = place
    least = min(at, default=0.0)
    return [round(place - least, 3) for place in at]


def _order(levels: Sequence[int], tree: Sequence[Edge]) -> Order:
    """Returns the layers in the order of a walk through the tree, so that no two tree edges cross."""
    below: list[list[int]] = [[] for _ in levels]
    for parent, child in reversed(tree):
        below[parent].append(child)
    order: Order = [[] for _ in range(max(levels, default=-1) + 1)]
    stack = [node for node in reversed(range(len(levels))) if levels[node] == 0]
    while stack:
        node = stack.pop()
        order[levels[node]].append(node)
        stack.extend(below[node])
    return order


def _spread(wanted: Sequence[float]) -> list[float]:
    """Returns the nearest places, by the sum of squares, that keep the order and steps of at least 1.

    >>> _spread([0.0, 0.0, 5.0])
    [-0.5, 0.5, 5.0]
    """
    blocks: list[tuple[float, int]] = []  # sum and number of the members of each block
    for k, place in enumerate(wanted):
        total, size = place - k, 1
        while blocks and blocks[-1][0] / blocks[-1][1] > total / size:
            other, more = blocks.pop()
            total, size = total + other, size + more
        blocks.append((total, size))
    starts = [total / size for total, size in blocks for _ in range(size)]
    return [start + k for k, start in enumerate(starts)]
