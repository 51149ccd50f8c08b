"""Stores the positions and moves of a walk in temporary files, for output after the walk."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from .met import Rows
from .walk import Visits


class Tree:
    """The positions of a walk, by id - 1, and their moves: grouped by position, best first.

    Every position has `visited`, `own`, the index of its first move (`first`) and their number (`size`), and
    its first parent: the id of the position (`parent`, 0 for a root) and the move (`way`, an index). Every
    move has the id of its child position (`child`), 0 if the walk did not meet that.
    """

    def __init__(self, folder: Path, positions: Mapping[str, Any], moves: Mapping[str, Any]) -> None:
        """Makes an empty tree; `positions`, `moves`: types of extra columns."""
        self._open = ExitStack()
        own = {"visited": np.uint8, "own": np.uint8, "first": np.int64, "size": np.int32}
        ways = {"parent": np.int64, "way": np.int64}
        self.positions = self._open.enter_context(Rows(folder, **own, **ways, **positions))
        self.moves = self._open.enter_context(Rows(folder, child=np.int64, **moves))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._open.close()

    def add(
        self,
        visits: Visits,
        positions: Mapping[str, NDArray[Any]],
        moves: Mapping[str, NDArray[Any]],
        *,
        adopted: int = 0,
    ) -> None:
        """Adds a batch of a walk, with the extra columns of its positions and its chosen moves.

        Args:
          adopted: number of roots that may join another tree; a root joins it if a move leads there.
        """
        rows, of = visits.ids - 1, visits.moves.of[visits.moves.chosen]
        begin = len(self.moves)
        self.positions.extend_to(visits.met)
        counts = np.bincount(of, minlength=len(visits))
        known = {
            "visited": np.ones(len(rows), np.uint8),
            "own": visits.own,
            "first": begin + np.cumsum(counts) - counts,
            "size": counts,
        }
        for name, values in (known | dict(positions)).items():
            self.positions[name][rows] = values
        new = visits.children[visits.new] - 1
        self.positions["parent"][new] = visits.ids[of[visits.new]]
        self.positions["way"][new] = begin + visits.new
        self.moves.add(child=visits.children, **moves)
        if adopted:
            parent, way, children = self.positions["parent"], self.positions["way"], visits.children
            below = visits.followed & (children > 0) & (children <= adopted)
            for k in np.flatnonzero(below).tolist():
                root, node = int(children[k]), int(visits.ids[of[k]])
                if parent[root - 1] == 0 and root not in self.above(node):  # else it would make a cycle
                    parent[root - 1], way[root - 1] = node, begin + k
        self.positions.release()
        self.moves.release()

    def above(self, node: int) -> list[int]:
        """Returns a position and its ancestors, up to a root."""
        found = [node]
        while node := int(self.positions["parent"][node - 1]):
            found.append(node)
        return found
