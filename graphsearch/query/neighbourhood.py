"""The most visited positions below one, as a graph to be drawn. Reads only."""

from __future__ import annotations

import heapq
import os
from dataclasses import dataclass
from itertools import count

import chess

from ..base.answer import Answer
from ..base.errors import check_least
from ..position.board import fen_of, key_text
from ..store.ranking import node_mean
from .source import Records, Step, records_of, ways_of


@dataclass(frozen=True, slots=True)
class DrawnNode(Answer):
    """A position of the picture, drawn once: key as `key_text` has it, FEN, node N and Q."""

    json_keys = "key position n q white_q"

    key: str
    position: str
    n: int
    q: float

    @property
    def white_q(self) -> float:
        """`q` as White sees it."""
        return self.q if " w " in self.position else -self.q


@dataclass(frozen=True, slots=True)
class DrawnEdge(Answer):
    """A move between two positions of the picture, given by their indexes in `Neighbourhood.nodes`."""

    json_keys = "parent child move=step.move san=step.san n=step.edge.n white_q"

    parent: int
    child: int
    step: Step

    @property
    def white_q(self) -> float:
        """Q of the edge as White sees it."""
        return self.step.edge.value if self.step.board.turn else -self.step.edge.value


@dataclass(frozen=True, slots=True)
class Neighbourhood(Answer):
    """The answer of `neighbourhood`.

    Attributes:
      nodes: the first position, then the others. edges: all visited moves between them.
      hidden: visited moves that lead out of the picture, above the depth.
    """

    nodes: tuple[DrawnNode, ...]
    edges: tuple[DrawnEdge, ...]
    hidden: int


def neighbourhood(
    path: str | os.PathLike[str] | Records,
    board: chess.Board,
    *,
    depth: int = 4,
    min_visits: int = 1,
    most: int = 120,
) -> Neighbourhood:
    """Returns the positions on lines of many visits, each once with all edges into it.

    Of all positions within the depth it selects those with the best line, by the visits of the line's least
    visited move.

    Args:
      path: the graph file, which is only read, or records in memory.
      depth: plies. min_visits: least edge N of a move to follow. most: most positions.

    Raises:
      InvalidParameterError: if a number is out of range.
      InvalidPositionError: if the position is not legal.
      UnknownPositionError: if the file does not hold it.
      StoreError: if the file cannot be read.
    """
    check_least(0, depth=depth, min_visits=min_visits)
    check_least(1, most=most)
    nodes, ways = dict[str, DrawnNode](), dict[str, list[tuple[Step, str]]]()
    levels = dict[str, int]()
    with records_of(path) as source:
        source.wanted(board)
        number = count(1)  # so that moves are never compared
        queue: list[tuple[int, int, int, str, Step | None]] = [(-(1 << 62), 0, 0, key_text(board), None)]
        while queue:
            width, level, _, key, came = heapq.heappop(queue)
            if levels.get(key, 1 << 30) <= level:
                continue
            if key not in nodes:
                if len(nodes) >= most:
                    break
                here = came.after() if came else board.copy(stack=False)
                record = source.read(here, key)
                if record is None:
                    continue
                nodes[key] = DrawnNode(key, fen_of(here), record.visits, node_mean(record)[0])
                ways[key] = ways_of(record, here)
            levels[key] = level
            for step, child in ways[key] if level < depth else ():
                if step.edge.n >= min_visits:
                    rank = max(width, -step.edge.n), level + 1, next(number)
                    heapq.heappush(queue, (*rank, child, step))
    at = {key: k for k, key in enumerate(nodes)}
    hidden = sum(child not in at for key in at if levels[key] < depth for _, child in ways[key])
    edges = (
        DrawnEdge(at[key], at[child], step)
        for key in at
        for step, child in ways[key]
        if child in at and child != key
    )
    return Neighbourhood(tuple(nodes.values()), tuple(edges), hidden)
