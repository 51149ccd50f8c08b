"""Small books by hand, for the tests of trees and policies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from graphsearch.book.config import Expansion
from graphsearch.book.order import order_of
from graphsearch.book.positions import END, LEAF, OPEN, BookMove, Position
from graphsearch.book.tree import BookTree

Edge = tuple[str, str] | tuple[str, str, dict[str, Any]]  # move, child, fields of the move


def book_move(move: str, child: str, **fields: Any) -> BookMove:
    """Returns a move of a book to a named position, with what is not said as it mostly is."""
    numbers: dict[str, Any] = {"p": 0.5, "n": 1, "q": 0.0, "loss": None, "games": 0, "since": 1} | fields
    return BookMove(move=move, san=move, child=child, rule="best", **numbers)


def tree_of(
    expansion: Expansion,
    plies: Mapping[str, int],
    edges: Mapping[str, Sequence[Edge]],
    roots: Sequence[str] = ("a",),
) -> BookTree:
    """Returns a book of named positions: their plies, and the moves of those that were searched."""
    tree = BookTree(expansion.value, order_of(expansion))
    for name, ply in plies.items():
        state = OPEN if name in edges else LEAF
        tree.add(Position(key=name, fen=f"fen of {name}", ply=ply, since=1, state=state))
    tree.roots = list(roots)
    for name, moves in edges.items():
        for move, child, *fields in moves:
            tree.link(tree.positions[name], book_move(move, child, **dict(*fields)))
    tree.update(tree.positions)
    return tree


def end(tree: BookTree, name: str, value: float) -> None:
    """Makes a position an end of known value."""
    position = tree.positions[name]
    position.state, position.value = END, value
    tree.update([name, *position.parents])
