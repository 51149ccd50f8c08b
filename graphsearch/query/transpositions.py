"""The positions with the most ways in: visited edges that lead to them. Reads only.

It examines the best-visited part of the graph, without the compiler.
"""

from __future__ import annotations

import heapq
import os
from dataclasses import dataclass
from itertools import count

import chess

from ..base.answer import Answer
from ..base.errors import check_least
from ..position.board import board_of, fen_of, key_text
from ..store.record.ranking import node_mean
from .source import RecordSource, after, key_after, opened, plain_key, steps_of

LOOKED_AT = 200  # positions; default: the answer takes a second at any size of the file


@dataclass(frozen=True, slots=True)
class Transposition:
    """A position with several ways in.

    Attributes:
      position: FEN. ways: visited edges that lead to it, among the edges examined.
      n: sum of the visits of these edges.
      visits, q: node N and Q, seen by the side to move; None if the file does not hold it.
      root, line: first position (FEN), and the moves from there in SAN.
    """

    position: str
    ways: int
    n: int
    visits: int | None
    q: float | None
    root: str
    line: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Transpositions(Answer):
    """The answer of `transpositions`.

    Attributes:
      looked_at: number of examined positions. edges: number of their visited edges.
      total: number of positions in the file. positions: those with the most ways in, most first.
      shared: number of children of these edges that have several edges into them.
    """

    looked_at: int
    total: int
    edges: int
    shared: int
    positions: tuple[Transposition, ...]


def transpositions(
    path: str | os.PathLike[str], board: chess.Board | None = None, *, top: int = 20, look: int = LOOKED_AT
) -> Transpositions:
    """Returns the positions with the most ways in among the best-visited ones.

    It follows the most visited edges first, and counts every visited edge of an examined position.

    Args:
      path: the graph file; it is only read.
      board: the first position; None: all roots of the file.
      top: most positions returned, of those with two ways in or more.
      look: number of positions to examine.

    Raises:
      InvalidParameterError: if a number is below 1.
      InvalidPositionError: if the position is not legal.
      UnknownPositionError: if the file does not hold it.
      StoreError: if the file cannot be read.
    """
    check_least(1, top=top, look=look)
    with opened(path) as source:
        if board is not None:
            source.wanted(board)
        roots = [board] if board else [board_of(root.position) for root in source.store.roots()]
        looking = _Looking(source, roots, look)
        return looking.answer(top)


@dataclass(slots=True)
class _Met:
    """A position that edges lead to: the first edge (none for a root), and the number of edges."""

    before: chess.Board
    move: chess.Move | None
    root: chess.Board
    line: tuple[str, ...]  # from the root to `before`
    ways: int = 0
    n: int = 0

    def board(self) -> chess.Board:
        return after(self.before, self.move) if self.move else self.before

    def full_line(self) -> tuple[str, ...]:
        return (*self.line, self.before.san(self.move)) if self.move else self.line


class _Looking:
    """Examines the best-visited part of a graph, edge by edge."""

    def __init__(self, source: RecordSource, roots: list[chess.Board], look: int) -> None:
        self._source = source
        self._look = look
        self._met: dict[str, _Met] = {}
        self._done = 0
        self._edges = 0
        starts = {key_text(root): _Met(root.copy(stack=False), None, root, ()) for root in roots}
        self._met |= starts
        self._heap = [(0, number, met) for number, met in enumerate(starts.values())]
        self._number = count(len(starts))

    def answer(self, top: int) -> Transpositions:
        while self._heap and self._done < self._look:
            self._count(heapq.heappop(self._heap)[2])
        shared = [met for met in self._met.values() if met.ways > 1]
        best = heapq.nsmallest(top, shared, key=lambda met: (-met.ways, -met.n))
        return Transpositions(
            looked_at=self._done,
            total=self._source.store.node_count,
            edges=self._edges,
            shared=len(shared),
            positions=tuple(self._row(met) for met in best),
        )

    def _count(self, met: _Met) -> None:
        board = met.board()
        record = self._source.read(board)
        if record is None:
            return
        self._done += 1
        plain, line = plain_key(board), met.full_line()
        for move, edge, _ in steps_of(record, board):
            key = key_after(board, plain, move)
            child = self._met.get(key)
            if child is None:
                child = self._met[key] = _Met(board, move, met.root, line)
                heapq.heappush(self._heap, (-edge.n, next(self._number), child))
            child.ways += 1
            child.n += edge.n
            self._edges += 1

    def _row(self, met: _Met) -> Transposition:
        board = met.board()
        record = self._source.read(board)
        visits, q = (record.visits, node_mean(record)[0]) if record else (None, None)
        return Transposition(
            position=fen_of(board),
            ways=met.ways,
            n=met.n,
            visits=visits,
            q=q,
            root=fen_of(met.root),
            line=met.full_line(),
        )
