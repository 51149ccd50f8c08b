"""The roots of a book: the positions where its lines begin, their origins and values."""

from __future__ import annotations

import chess

from ..store.tables.history import PV_MOVES, BookValues
from .build_report import RootValue
from .growth import Growth
from .positions import Position
from .tree import BookTree

Worth = tuple[float, str | None, tuple[str, ...]]  # value, best move, line


class Roots:
    """The roots of a book that is being built."""

    def __init__(self, tree: BookTree, growth: Growth) -> None:
        self._tree = tree
        self._growth = growth
        self._origins: dict[str, str] = {}
        self.worth: dict[str, Worth] = {}  # as last written to the history

    def enter(self, board: chess.Board, origin: str) -> None:
        """Makes a position a root of the book; `origin` is for the user."""
        position = self._growth.add(board, board.ply())
        if position.key not in self._tree.roots:
            self._tree.roots.append(position.key)
        self._origins[position.key] = origin

    def rows(self) -> list[tuple[str, str, str]]:
        """Returns the roots as `rows.write_roots` takes them: (key, FEN, origin)."""
        positions = self._tree.positions
        return [(key, positions[key].fen, self._origins[key]) for key in self._tree.roots]

    def values(self) -> tuple[RootValue, ...]:
        """Returns the value of each root."""
        return tuple(self._value(key) for key in self._tree.roots)

    def _value(self, key: str) -> RootValue:
        position = self._tree.positions[key]
        values = self._tree.values(position)
        known = {move: value for move, value in values.items() if value is not None}
        best = max(known, key=lambda move: known[move], default=None)
        san = position.moves[best].san if best else None
        return RootValue(position=position.fen, origin=self._origins[key], value=position.value, best=san)

    # -------------------------------------------------------------- the history
    def changes(self, searched: int) -> list[BookValues]:
        """Returns the roots whose value, best move or line has changed since the last call.

        Args:
          searched: positions that this build has searched.
        """
        found = []
        for key in self._tree.roots:
            position = self._tree.positions[key]
            if position.value is None:
                continue
            line = self._line(position)
            worth = (position.value, line[0] if line else None, line)
            if self.worth.get(key) != worth:
                self.worth[key] = worth
                found.append(self._noted(position, line, searched))
        return found

    def _noted(self, position: Position, line: tuple[str, ...], searched: int) -> BookValues:
        assert position.value is not None
        return BookValues(
            key=position.key,
            searched=searched,
            positions=len(self._tree.positions),
            value=position.value,
            n=position.n,
            best_move=line[0] if line else None,
            pv=line,
        )

    def _line(self, position: Position) -> tuple[str, ...]:
        """Returns the line of the best values from a position, in the book and one move beyond it."""
        line: list[str] = []
        while len(line) < PV_MOVES:
            known = {move: value for move, value in self._tree.values(position).items() if value is not None}
            best = max(known, key=lambda move: known[move], default=None)
            outside = position.outside
            if outside is not None and position.outside_move and (best is None or outside > known[best]):
                return (*line, position.outside_move)
            if best is None:
                break
            line.append(best)
            move = position.moves[best]
            if not self._tree.goes_on(position, move):
                break
            position = self._tree.positions[move.child]
        return tuple(line)
