"""How expected node types agree with actual ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .rules import KINDS


@dataclass(frozen=True, slots=True)
class Agreement:
    """A confusion matrix: nodes by expected type (rows) and actual type (columns): PV, Cut, All."""

    matrix: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, matrix: NDArray[np.int64]) -> Agreement:
        """Returns the agreement of a matrix `[3, 3]`."""
        return cls(tuple(tuple(row) for row in matrix.tolist()))

    @property
    def nodes(self) -> int:
        """Nodes whose both types are known."""
        return sum(map(sum, self.matrix))

    @property
    def share(self) -> float | None:
        """Share of the nodes whose types agree; None if there are none."""
        return sum(row[i] for i, row in enumerate(self.matrix)) / self.nodes if self.nodes else None

    @property
    def kappa(self) -> float | None:
        """Cohen's kappa, agreement beyond chance: (share - chance) / (1 - chance). 1: all agree; 0: chance.

        None where chance alone makes all agree, or there are no nodes.

        >>> round(Agreement(((1, 0, 0), (0, 45, 5), (0, 5, 44))).kappa, 4)
        0.8038
        """
        if self.share is None:
            return None
        columns = [sum(row[i] for row in self.matrix) for i in range(len(self.matrix))]
        pairs = zip(map(sum, self.matrix), columns, strict=True)
        chance = sum(row * column for row, column in pairs) / self.nodes**2
        return None if chance == 1 else (self.share - chance) / (1 - chance)

    def as_dict(self) -> dict[str, Any]:
        """Returns the JSON object: `matrix` by expected, then by actual type."""
        return {
            "nodes": self.nodes,
            "share": self.share,
            "kappa": self.kappa,
            "matrix": {
                expected: dict(zip(KINDS, row, strict=True))
                for expected, row in zip(KINDS, self.matrix, strict=True)
            },
        }
