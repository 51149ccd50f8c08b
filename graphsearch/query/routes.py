"""Finds lines to positions of a file: the moves from a root, and the opening. Reads only."""

from __future__ import annotations

import heapq
import os
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count

import chess
import numpy as np

from ..position.board import board_of, fen_of, key_text, pack_checked
from ..position.lines import sans_of
from ..position.openings import Opening, opening_at, opening_of
from .parents import ParentEdge, stored
from .source import RecordSource, after, key_after, opened, plain_key, steps_of
from .unmoves import Predecessor, candidates

WALKED = 200  # positions read for all lines together, the most visited ones first
TAKEN_BACK = 60  # most moves taken back for one line; the rest of it is known
TAKEN_BACK_IN_ALL = 200  # for all lines; each takes some 15 ms


@dataclass(frozen=True, slots=True)
class Way:
    """A line to a position.

    Attributes:
      start: FEN of the root; None for the start position. line: the moves from there, in SAN.
      opening: the last named opening on the line; None if there is none.
    """

    start: str | None
    line: tuple[str, ...]
    opening: Opening | None


def routes(path: str | os.PathLike[str], positions: Iterable[str]) -> dict[str, Way]:
    """Returns a line to each position (FEN) for which one is found, from a root of a file.

    It reads the best-visited part of the graph. From a position outside that part it takes back the most
    visited moves until it meets a position with a line. The last positions of a long list may get no line.

    Raises:
      StoreError: if the file cannot be read.
    """
    wanted = list(dict.fromkeys(positions))
    if not wanted:
        return {}
    with opened(path) as source:
        finder = Finder(source)
        found = {fen: finder.way(board_of(fen)) for fen in wanted}
    return {fen: way for fen, way in found.items() if way}


@dataclass(slots=True)
class _Met:
    """A position on the walk, and how it was reached; only a root has its board from the beginning."""

    made: chess.Board | None
    before: _Met | None = None
    move: chess.Move | None = None

    def board(self) -> chess.Board:
        """Returns the position, without history."""
        if self.made is None:
            assert self.before is not None
            assert self.move is not None
            self.made = after(self.before.board(), self.move)
        return self.made


class Finder:
    """Finds lines from the roots of a file.

    Attributes:
      budget: most positions to read for all lines, WALKED unless given; raise it for a long list.
    """

    def __init__(self, source: RecordSource, *, budget: int | None = None, at_once: int = 1) -> None:
        """Creates a finder over an open file; reads its roots, and no records yet.

        With `at_once` it reads that many positions ahead, in kernels: for commands that load them anyway.
        """
        self.budget = WALKED if budget is None else budget
        self._at_once, self._ahead = at_once, 0
        self._source = source
        self._roots = [board_of(root.position) for root in source.store.roots()]
        self._met: dict[str, _Met] = {}
        self._heap: list[tuple[int, int, _Met]] = []
        self._number = count()
        self._left = TAKEN_BACK_IN_ALL
        self._walked = 0
        for root in sorted(self._roots, key=lambda board: board.ply()):
            self._add(_Met(root), key_text(root), 0)

    def way(self, board: chess.Board) -> Way | None:
        """Returns a line to a position, None if none is found."""
        if fen_of(board) == chess.STARTING_FEN:
            return Way(None, (), None)
        key = key_text(board)
        met = self._met.get(key)
        while (met is None or met.move is None) and self._walked < self.budget and self._heap:
            self._expand()
            met = met or self._met.get(key)
        if met is not None and met.move is not None:
            return _way(met)
        return self._looked_for(board) or _named(board) or (_way(met) if met else None)

    def _add(self, met: _Met, key: str, n: int) -> None:
        self._met[key] = met
        heapq.heappush(self._heap, (-n, next(self._number), met))

    def _expand(self) -> None:
        """Reads the position after the most visited unread move, and adds its children."""
        if self._at_once > 1 and self._walked >= self._ahead:
            self._ahead = self._walked + min(self._at_once, len(self._heap))
            next_ones = heapq.nsmallest(self._at_once, self._heap)
            self._source.read_ahead(np.array([pack_checked(met.board()) for _, _, met in next_ones]))
        _, _, met = heapq.heappop(self._heap)
        board = met.board()
        record = self._source.read(board)
        self._walked += 1
        if record is None:
            return
        plain = plain_key(board)
        for move, edge, _ in steps_of(record, board):
            key = key_after(board, plain, move)
            child = self._met.get(key)
            if child is None:
                self._add(_Met(None, met, move), key, edge.n)
            elif child.move is None and child is not met and not _leads_to(child, met):
                child.before, child.move = met, move  # a root that lies below another one

    def _looked_for(self, board: chess.Board) -> Way | None:
        """Takes moves back to a position with a line; returns the whole line, None if there is none.

        If `board` is a root, lines that begin at it do not count: they would lead around a circle.
        """
        taken: list[tuple[str, chess.Move]] = []
        at, key, passed = board, key_text(board), set[str]()
        own = self._met.get(key)
        while not taken or key not in self._met:
            if self._left <= 0 or len(taken) >= TAKEN_BACK:
                return None
            self._left -= 1
            passed.add(key)
            best = self._best_before(at, passed, own)
            if best is None:
                return None
            taken.append((key, best.move))
            at, key = best.board, key_text(best.board)
        met = self._met[key]
        for key, move in reversed(taken):
            met = _Met(None, met, move)
            self._met.setdefault(key, met)
        return _way(met)

    def _best_before(self, at: chess.Board, passed: set[str], own: _Met | None) -> ParentEdge | None:
        """Returns the most visited move to a position from one not passed that `own` does not lead to.

        It tries clocks above 75 only if it finds no position before with another one: before a capture or a
        pawn move there are 24 of them, and every false positive of the file's filters costs a read.
        """
        tried = list(candidates(at))
        usual = [Predecessor(one.board, one.move, one.clocks[:1]) for one in tried]
        for some in (usual, tried):
            visited = [
                one
                for one in stored(self._source, at, some)
                if one.edge.n
                and (before := key_text(one.board)) not in passed
                and not _leads_to(own, self._met.get(before))
            ]
            if visited:
                return max(visited, key=lambda one: one.edge.n)
        return None


def _leads_to(met: _Met | None, other: _Met | None) -> bool:
    while other is not None:
        if other is met:
            return True
        other = other.before
    return False


def _way(met: _Met) -> Way:
    moves: list[chess.Move] = []
    at: _Met = met
    while at.before is not None and at.move is not None:
        moves.append(at.move)
        at = at.before
    walk = at.board().copy(stack=False)
    for move in reversed(moves):
        walk.push(move)
    root = walk.root()
    named = _named(root) if fen_of(root) != chess.STARTING_FEN else None
    sans = sans_of(root, walk.move_stack)
    if named:
        return Way(None, (*named.line, *sans), opening_of(walk))
    start = None if fen_of(root) == chess.STARTING_FEN else fen_of(root)
    return Way(start, sans, opening_of(walk))


def _named(board: chess.Board) -> Way | None:
    """Returns the line of the table of openings to a named position; None without a name."""
    found = opening_at(board)
    return Way(None, found.line, found) if found else None
