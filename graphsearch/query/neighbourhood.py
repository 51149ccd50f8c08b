"""The most visited positions below one, as a graph to be drawn. Reads only."""

from __future__ import annotations

import heapq
import os
from dataclasses import dataclass
from itertools import count
from typing import NamedTuple

import chess

from ..base.answer import Answer
from ..base.errors import check_least
from ..position.board import fen_of, key_text
from ..store.ranking import node_mean
from .source import Records, Step, after, records_of, steps_of
from .steps import keys_after


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
class DrawnEdge:
    """A move between two positions of the picture, given by their indexes in `Neighbourhood.nodes`.

    Attributes:
      move, san: the move. n: edge N. white_q: edge Q as White sees it.
    """

    parent: int
    child: int
    move: str
    san: str
    n: int
    white_q: float


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


class _Known(NamedTuple):
    """A position of the picture; `ways`: its visited moves, each with the key of the position after it."""

    board: chess.Board
    n: int
    q: float
    ways: list[tuple[Step, str]]


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
      board: the position. depth: plies.
      min_visits: least edge N of a move to follow.
      most: most positions.

    Raises:
      InvalidParameterError: if a number is out of range.
      InvalidPositionError: if the position is not legal.
      UnknownPositionError: if the file does not hold it.
      StoreError: if the file cannot be read.
    """
    check_least(0, depth=depth, min_visits=min_visits)
    check_least(1, most=most)
    known, levels = dict[str, _Known](), dict[str, int]()
    with records_of(path) as source:
        source.wanted(board)
        number = count(1)  # so that neither boards nor moves are ever compared
        queue: list[tuple[int, int, int, str, chess.Board, chess.Move | None]] = [
            (-(1 << 62), 0, 0, key_text(board), board, None)
        ]
        while queue:
            width, level, _, key, before, move = heapq.heappop(queue)
            if levels.get(key, 1 << 30) <= level:
                continue
            if key not in known:
                if len(known) >= most:
                    break
                found = _known(source, before.copy(stack=False) if move is None else after(before, move))
                if found is None:
                    continue
                known[key] = found
            levels[key] = level
            for step, child in known[key].ways if level < depth else ():
                if step.edge.n >= min_visits:
                    rank = max(width, -step.edge.n), level + 1, next(number)
                    heapq.heappush(queue, (*rank, child, known[key].board, step.move))
    at = {key: k for k, key in enumerate(known)}
    hidden = sum(child not in at for key in at if levels[key] < depth for _, child in known[key].ways)
    nodes = (DrawnNode(key, fen_of(one.board), one.n, one.q) for key, one in known.items())
    edges = (
        _edge(at[key], at[child], step, one.board)
        for key, one in known.items()
        for step, child in one.ways
        if child in at and child != key
    )
    return Neighbourhood(tuple(nodes), tuple(edges), hidden)


def _known(source: Records, board: chess.Board) -> _Known | None:
    record = source.read(board)
    if record is None:
        return None
    steps = steps_of(record, board)
    keys = keys_after(board, [step.move for step in steps])
    return _Known(board, record.visits, node_mean(record)[0], list(zip(steps, keys, strict=True)))


def _edge(parent: int, child: int, step: Step, board: chess.Board) -> DrawnEdge:
    q = step.edge.value if board.turn else -step.edge.value
    return DrawnEdge(parent, child, step.move.uci(), board.san(step.move), step.edge.n, q)
