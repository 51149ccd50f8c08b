"""Lines to the positions of a file, from the best-visited part of the graph. Reads only."""

from __future__ import annotations

import heapq
import os
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count

import chess

from ..position.board import board_of, fen_of, key_text
from ..position.notation import sans_of
from ..position.openings import Opening, opening_at, opening_of
from .parents import Parent, stored
from .source import RecordSource, after, opened, roots_of, ways_of

AT_ONCE = 256  # positions read ahead
WALKED = 200  # positions read for all lines together, the most visited ones first
TAKEN_BACK = 60  # most moves taken back for one line; the rest of it is known
TAKEN_BACK_IN_ALL = 200  # for all lines; each takes some 15 ms


@dataclass(frozen=True, slots=True)
class Way:
    """A line to a position.

    Attributes:
      start: FEN of the root; None for the start position. line: the moves from there, in SAN.
      opening: the last named opening on the line.
    """

    start: str | None
    line: tuple[str, ...]
    opening: Opening | None


def routes(path: str | os.PathLike[str], positions: Iterable[str]) -> dict[str, Way]:
    """Returns a line to each position (FEN) for which one is found, from a root of a file.

    From a position outside the best-visited part of the graph it takes back the most visited moves until it
    meets a position with a line. The last positions of a long list may get no line.

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
class Met:
    """A position that edges lead to.

    Attributes:
      made: its board, at first of roots only. before, move: the first way here; None at a root.
      looked: whether its record was looked up.
    """

    made: chess.Board | None
    before: Met | None = None
    move: chess.Move | None = None
    looked: bool = False

    def board(self) -> chess.Board:
        """Returns the position, without history."""
        if self.made is None:
            assert self.before is not None
            assert self.move is not None
            self.made = after(self.before.board(), self.move)
        return self.made

    def line(self) -> chess.Board:
        """Returns the position with the moves from the root of its first way."""
        moves: list[chess.Move] = []
        at: Met = self
        while at.before is not None and at.move is not None:
            moves.append(at.move)
            at = at.before
        board = at.board().copy(stack=False)
        for move in reversed(moves):
            board.push(move)
        return board


class Finder:
    """Finds lines from the roots of a file, in the part that it reads, the most visited moves first.

    Attributes:
      met: the positions by key.
    """

    def __init__(self, source: RecordSource) -> None:
        """Begins at the roots of an open file; reads no records yet."""
        self._source, self._ahead, self._looked = source, 0, 0  # records read ahead, and looked up
        self._left = TAKEN_BACK_IN_ALL
        self.met: dict[str, Met] = {}
        self._heap: list[tuple[int, int, Met]] = []
        self._number = count()
        for root in sorted(roots_of(source), key=lambda board: board.ply()):
            self._add(Met(root.copy(stack=False)), key_text(root), 0)

    def _add(self, met: Met, key: str, n: int) -> None:
        self.met[key] = met
        self._push(met, n)

    def _push(self, met: Met, n: int) -> None:
        heapq.heappush(self._heap, (-n, next(self._number), met))

    def _expand(self) -> bool:
        """Reads the position after the most visited unread move, and adds its children; False at the end."""
        if not self._heap:
            return False
        if self._looked >= self._ahead:
            next_ones = heapq.nsmallest(AT_ONCE, self._heap)
            self._ahead = self._looked + len(next_ones)
            boards = (met.board() for _, _, met in next_ones)
            self._source.read_ahead({key_text(board): board for board in boards})
        _, _, met = heapq.heappop(self._heap)
        if met.looked:
            return True
        board = met.board()
        record = self._source.read(board)
        met.looked = True
        self._looked += 1
        for step, key in ways_of(record, board) if record else ():
            child = self.met.get(key)
            if child is None:
                self._add(Met(None, met, step.move), key, step.edge.n)
            elif child.move is None and child is not met and not _leads_to(child, met):
                # a root that lies below another one: its turn comes by the visits that lead there
                child.before, child.move = met, step.move
                self._push(child, step.edge.n)
        return True

    def way(self, board: chess.Board) -> Way | None:
        """Returns a line to a position, None if none is found."""
        if fen_of(board) == chess.STARTING_FEN:
            return Way(None, (), None)
        key = key_text(board)
        met = self.met.get(key)
        while (met is None or met.move is None) and self._looked < WALKED and self._expand():
            met = met or self.met.get(key)
        if met is not None and met.move is not None:
            return _way(met)
        return self._looked_for(board) or _named(board) or (_way(met) if met else None)

    def _looked_for(self, board: chess.Board) -> Way | None:
        """Takes moves back to a position with a line; returns the whole line, None if there is none.

        If `board` is a root, lines that begin at it do not count: they would lead around a circle.
        """
        taken: list[tuple[str, chess.Move]] = []
        at, key, passed = board, key_text(board), set[str]()
        own = self.met.get(key)
        while not taken or key not in self.met:
            if self._left <= 0 or len(taken) >= TAKEN_BACK:
                return None
            self._left -= 1
            passed.add(key)
            best = self._best_before(at, passed, own)
            if best is None:
                return None
            taken.append((key, best.step.move))
            at, key = best.step.board, key_text(best.step.board)
        met = self.met[key]
        for key, move in reversed(taken):
            met = Met(None, met, move)
            self.met.setdefault(key, met)
        return _way(met)

    def _best_before(self, at: chess.Board, passed: set[str], own: Met | None) -> Parent | None:
        """Returns the most visited move to a position from one not passed that `own` does not lead to."""
        visited = [
            one
            for one in stored(self._source, at)
            if one.step.edge.n
            and (before := key_text(one.step.board)) not in passed
            and not _leads_to(own, self.met.get(before))
        ]
        return max(visited, key=lambda one: one.step.edge.n, default=None)


def _leads_to(met: Met | None, other: Met | None) -> bool:
    while other is not None:
        if other is met:
            return True
        other = other.before
    return False


def _way(met: Met) -> Way:
    walk = met.line()
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
