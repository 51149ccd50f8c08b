"""Leaves of each type in a minimal tree, and the expected leaves of a search in random order.

Knuth and Moore (1975), after Levin; by type as in the chess programming wiki under "Node Types".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from .rules import ALL, CUT, PV


@dataclass(frozen=True, slots=True)
class Minimal:
    """The leaves of a minimal alpha-beta tree; integers, exact, where the branching factor is one.

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

    The nodes at ply d of a deeper minimal tree are as many as the leaves of one of depth d. Below a root that
    is Cut or All they are as in `minimal_of`.

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
    """Returns b^n; infinity where that is beyond all floating-point numbers, as products are."""
    try:
        return branching**depth
    except OverflowError:
        return math.inf


def minimal_of(branchings: Sequence[float], root: str = PV) -> Minimal:
    """Returns the leaves where the number of moves differs from ply to ply: `branchings[d]` at ply d.

    Every way from the PV to another leaf chooses freely at every second ply and has the first move between:
    the leaf is Cut if its parent chose, All if that had no choice (Knuth and Moore's critical positions).
    Below a root that is Cut or All there is no PV: only the All nodes choose, at every second ply.

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


def random_branching(branching: float) -> float:
    """Returns the branching factor of alpha-beta where leaves have independent random values.

    Pearl (1982): x / (1 - x), where x is the positive root of x^b + x = 1; the leaves of depth n grow like
    its n-th power. It is of the order of b / ln b, as Knuth and Moore found without deep cuts.

    >>> round(random_branching(40), 2), random_branching(1)
    (14.2, 1.0)
    """
    low, high = 0.5, 1.0
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (low, middle) if middle**branching + middle > 1 else (middle, high)
    return low / (1 - low)
