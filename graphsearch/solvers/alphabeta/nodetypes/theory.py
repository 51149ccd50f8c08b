"""Node types in theory: two published sets of rules, counts in minimal trees, and measures of agreement.

Both sets are in the chess programming wiki under "Node Types". Knuth and Moore numbered the types 1, 2, 3;
the names PV, Cut and All are Marsland's and Popowich's. The leaves of a minimal tree: Knuth and Moore
(1975), after Levin.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

PV, CUT, ALL = "pv", "cut", "all"
KINDS = (PV, CUT, ALL)  # in the order of Knuth's numbers, like `store.record.transposition.TYPES`


class Arrival(Enum):
    """The way to a node: the first move of its parent, a further one that may well cut, or any other."""

    FIRST = "first"
    CANDIDATE = "candidate"
    FURTHER = "further"


class Rules(Enum):
    """A published set of rules."""

    GARMS = "garms"
    KANNAN = "kannan"


def expected(rules: Rules, parent: str, arrival: Arrival) -> str:
    """Returns the expected type of a node below one of type `parent`.

    Onno Garms: the first child of a PV node is PV, the further ones are Cut; the first child of a Cut node is
    All, the further ones are Cut; children of All nodes are Cut. Pradu Kannan: in a Cut node the first child
    and those of all candidate cutoff moves are All, then the node itself becomes All.

    >>> expected(Rules.GARMS, CUT, Arrival.CANDIDATE), expected(Rules.KANNAN, CUT, Arrival.CANDIDATE)
    ('cut', 'all')
    """
    if parent == PV and arrival is Arrival.FIRST:
        return PV
    tried = (Arrival.FIRST, Arrival.CANDIDATE) if rules is Rules.KANNAN else (Arrival.FIRST,)
    return ALL if parent == CUT and arrival in tried else CUT


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
        """Number of nodes with both types known."""
        return sum(map(sum, self.matrix))

    @property
    def share(self) -> float | None:
        """Share of the nodes with equal expected and actual type; None without nodes."""
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


@dataclass(frozen=True, slots=True)
class Minimal:
    """The leaves of a minimal alpha-beta tree; exact integers if the branching factor is an integer.

    Attributes:
      pv, cut, all: leaves by type. worst: leaves without any cut, b^n.
    """

    pv: float
    cut: float
    all: float
    worst: float

    @property
    def total(self) -> float:
        """All leaves: b^ceil(n/2) + b^floor(n/2) - 1."""
        return self.pv + self.cut + self.all

    def as_dict(self) -> dict[str, float | None]:
        """Returns the JSON object; null where a number is too large for one."""
        numbers = {"pv": self.pv, "cut": self.cut, "all": self.all, "total": self.total, "worst": self.worst}
        return {name: None if value == math.inf else value for name, value in numbers.items()}


def minimal(branching: float, depth: int, root: str = PV) -> Minimal:
    """Returns the leaves at depth n >= 0 with b moves at every node: 1, b^ceil(n/2) - 1, b^floor(n/2) - 1.

    A deeper minimal tree has as many nodes at ply d as a tree of depth d has leaves. For a Cut or All root
    see `minimal_of`.

    >>> minimal(40, 3)
    Minimal(pv=1, cut=1599, all=39, worst=64000)
    >>> minimal(40, 8).total
    5119999
    """
    half_up, half_down = _power(branching, depth - depth // 2), _power(branching, depth // 2)
    if root != PV:
        return _of_bound(root, depth, half_down if root == CUT else half_up, _power(branching, depth))
    return Minimal(1, half_up - 1, half_down - 1, _power(branching, depth))


def _of_bound(root: str, depth: int, leaves: float, worst: float) -> Minimal:
    """Returns the leaves below a Cut or All root: Cut at even depths of a Cut root, All at odd ones."""
    kind = root if depth % 2 == 0 else CUT if root == ALL else ALL
    return Minimal(0, leaves if kind == CUT else 0, leaves if kind == ALL else 0, worst)


def _power(branching: float, depth: int) -> float:
    """Returns b^n; infinity, like a product, if it exceeds all floating-point numbers."""
    try:
        return branching**depth
    except OverflowError:
        return math.inf


def minimal_of(branchings: Sequence[float], root: str = PV) -> Minimal:
    """Returns the leaves of a tree with `branchings[d]` moves at ply d.

    Every line from the PV to another leaf has a free choice of move at every second ply, and the first move
    at the plies between: the leaf is Cut if its parent had the choice, else All (Knuth and Moore's critical
    positions). Below a Cut or All root there is no PV: only All nodes have a choice, at every second ply.

    >>> minimal_of([40, 40, 40]) == minimal(40, 3)
    True
    >>> minimal_of([20, 30])
    Minimal(pv=1, cut=29, all=19, worst=600)
    >>> minimal_of([20, 30], "cut")
    Minimal(pv=0, cut=30, all=0, worst=600)
    """
    if root != PV:
        free = branchings[1::2] if root == CUT else branchings[0::2]
        return _of_bound(root, len(branchings), prod(free), prod(branchings))
    backwards = branchings[::-1]
    return Minimal(1, prod(backwards[0::2]) - 1, prod(backwards[1::2]) - 1, prod(branchings))
