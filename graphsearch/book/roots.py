"""The roots of a book: where its lines begin, what put them there, and what the book says of them."""

from __future__ import annotations

import chess

from .growth import Growth
from .report import RootValue
from .tree import BookTree


class Roots:
    """The roots of a book that is being built."""

    def __init__(self, tree: BookTree, growth: Growth) -> None:
        self._tree = tree
        self._growth = growth
        self._origins: dict[str, str] = {}

    def enter(self, board: chess.Board, origin: str) -> None:
        """Makes a position a root of the book; `origin` says why, for a person."""
        position = self._growth.add(board, board.ply())
        if position.key not in self._tree.roots:
            self._tree.roots.append(position.key)
        self._origins[position.key] = origin

    def rows(self) -> list[tuple[str, str, str]]:
        """Returns the roots as `rows.write_roots` takes them: (key, FEN, origin)."""
        positions = self._tree.positions
        return [(key, positions[key].fen, self._origins[key]) for key in self._tree.roots]

    def values(self) -> tuple[RootValue, ...]:
        """Returns what the book says of each root."""
        return tuple(self._value(key) for key in self._tree.roots)

    def _value(self, key: str) -> RootValue:
        position = self._tree.positions[key]
        values = self._tree.values(position)
        known = {move: value for move, value in values.items() if value is not None}
        best = max(known, key=lambda move: known[move], default=None)
        san = position.moves[best].san if best else None
        return RootValue(position=position.fen, origin=self._origins[key], value=position.value, best=san)
