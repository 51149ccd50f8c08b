"""Requests of the queue: lines that are added to the book and searched first."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import chess

from ..base.errors import InvalidPositionError
from ..position.board import check, key_text
from .config import BookConfig
from .growth import Growth
from .queue import QueueItem, State
from .tree import END, LEAF, BookLine, BookTree, Position

DONE: State = "done"
REFUSED: State = "refused"
Ending = tuple[QueueItem, State, str]  # an item, its state, a note for the user


@dataclass(slots=True)
class _Line:
    """An accepted item and its progress.

    Attributes:
      keys: of its positions, one more than moves. sans: of its moves.
      place: index of the next position. searched: number of searched positions.
    """

    item: QueueItem
    keys: list[str]
    moves: list[str]
    sans: list[str]
    place: int = 0
    searched: int = 0

    @property
    def key(self) -> str:
        """The next position."""
        return self.keys[self.place]


class Requests:
    """The items of the queue that a build has accepted."""

    def __init__(self, tree: BookTree, growth: Growth, config: BookConfig) -> None:
        self._tree = tree
        self._growth = growth
        self._config = config
        self._taken: set[int] = set()
        self._lines: list[_Line] = []
        self._endings: list[Ending] = []

    @property
    def waiting(self) -> int:
        """The number of unfinished items."""
        return len(self._lines)

    def knows(self, item: QueueItem) -> bool:
        """Returns whether an item was accepted before."""
        return item.id in self._taken

    def keep(self, ids: Collection[int]) -> None:
        """Forgets items that were dropped from the queue."""
        self._lines = [line for line in self._lines if line.item.id in ids]

    def take(self, item: QueueItem) -> chess.Board | None:
        """Accepts or refuses an item; returns its first position if it must become a root of the book.

        The line starts at its first position in the book.
        """
        self._taken.add(item.id)
        try:
            boards = list(item.boards())
            check(boards[0])
        except (ValueError, InvalidPositionError) as error:
            self._endings.append((item, REFUSED, f"it cannot be read: {error}"))
            return None
        keys = [key_text(board) for board in boards]
        first = next((i for i, key in enumerate(keys) if key in self._tree.positions), None)
        start = first or 0
        moves = list(item.moves[start:])
        sans = [board.san(chess.Move.from_uci(m)) for board, m in zip(boards[start:], moves, strict=False)]
        for key, move in zip(keys[start:], moves, strict=False):
            self._growth.wanted.setdefault(key, set()).add(move)
        self._lines.append(_Line(item, keys[start:], moves, sans))
        return boards[0] if first is None else None

    def next_line(self) -> BookLine | None:
        """Returns the line to the next position that the queue asks for, None if there is none now."""
        for line in self._lines:
            position = self._tree.positions.get(line.key)
            if position is not None and position.key not in self._tree.taken:
                return self._tree.line_to(line.key) or BookLine((line.key,))
        return None

    def searched(self, key: str) -> None:
        """Counts a search of a position."""
        for line in self._lines:
            line.searched += line.key == key

    def advance(self) -> Iterator[Ending]:
        """Advances every line past its searched positions; yields the finished items."""
        going = []
        for line in self._lines:
            ending = self._advance(line)
            if ending is None:
                going.append(line)
            else:
                self._endings.append((line.item, *ending))
        self._lines = going
        yield from self._endings
        self._endings = []

    def _advance(self, line: _Line) -> tuple[State, str] | None:
        """Advances a line to the next position to search; returns state and note if it has ended."""
        while True:
            position = self._tree.positions.get(line.key)
            if position is None:
                return REFUSED, f"ply {self._config.max_ply} is the last of the book (max_ply)"
            if position.state == END:
                return self._ended(line, position)
            if position.state == LEAF:
                return None
            if line.place == len(line.moves):
                return _done(line) if line.searched else None  # already in the book: search it once more
            if not self._has_next(line, position):
                san = line.sans[line.place]
                return REFUSED, f"{san} is excluded by the configuration in {position.fen}"
            if position.state == LEAF:  # the file has lost its record
                return None
            line.place += 1

    def _has_next(self, line: _Line, position: Position) -> bool:
        """Returns whether the next move of a line is in the book, after adding it if that is allowed."""
        move = line.moves[line.place]
        if move not in position.moves:
            self._growth.redecide(position)
            self._growth.settle()
        return move in position.moves or position.state == LEAF

    def _ended(self, line: _Line, position: Position) -> tuple[State, str]:
        left = len(line.moves) - line.place
        if not left or line.searched:
            return _done(line)
        if position.ply >= self._config.max_ply:
            return REFUSED, f"it continues after ply {self._config.max_ply}, the last of the book (max_ply)"
        return REFUSED, f"the game is decided in {position.fen}"


def _done(line: _Line) -> tuple[State, str]:
    count = line.searched
    return DONE, f"{count} position{'' if count == 1 else 's'} searched"
