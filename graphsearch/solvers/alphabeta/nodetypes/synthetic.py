"""Searches of uniform trees: nodes by expected and actual type, against the formulas.

The trees and the search are `solvers/alphabeta/nodetypes/uniform_tree_kernel.py`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....base.answer import picked
from ....base.errors import CapacityError, InvalidParameterError, check_least
from ....jit.types import uint64
from .theory import KINDS, Agreement, Minimal, Rules, minimal, random_branching

PERFECT, RANDOM = "perfect", "random"
MOST_BRANCHING, MOST_DEPTH = 1000, 100
MOST_LEAVES = 10**9  # limit of `SyntheticTree.least_leaves`
MOST_NODES = 10**10  # a search ends after so many: some minutes
SLICE = 1 << 22  # nodes between two calls of `on_progress`
SEARCHES = ("alphabeta", "pvs")

OnProgress = Callable[[int, float], None]  # nodes so far, and an estimate of all nodes


@dataclass(frozen=True, slots=True)
class SyntheticTree:
    """A uniform tree.

    Attributes:
      branching: moves at every node, 1..1000. depth: plies, 0..100.
      order: probability that the best move is the first one; None: leaves have independent random values.
      seed: of all its values, 0 <= seed < 2^64.
    """

    branching: int
    depth: int
    order: float | None = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        for name, value, low, high in (
            ("branching factor", self.branching, 1, MOST_BRANCHING),
            ("depth", self.depth, 0, MOST_DEPTH),
            ("seed", self.seed, 0, (1 << 64) - 1),
        ):
            if not low <= value <= high:
                raise InvalidParameterError(f"{name} must be from {low} to {high}, not {value}")
        if self.order is not None and not 0 <= self.order <= 1:
            raise InvalidParameterError(f"order must be from 0 to 1, not {self.order}")
        if self.least_leaves > MOST_LEAVES:
            raise InvalidParameterError(
                f"{self.branching} moves at each of {self.depth} plies make at least some"
                f" {self.least_leaves:.1e} leaves, {self.order_phrase}, and {MOST_LEAVES:,} are"
                " the most that are searched"
            )

    @property
    def order_name(self) -> str:
        """`perfect`, `random`, or the probability."""
        return RANDOM if self.order is None else PERFECT if self.order == 1 else f"{self.order:g}"

    @property
    def order_phrase(self) -> str:
        """The order in words.

        >>> [SyntheticTree(2, 2, order).order_phrase for order in (1.0, 0.5, 0.0)]
        ['in perfect order', 'best move first with probability 0.5', 'best move never first']
        """
        if self.order is None or self.order == 1:
            return f"in {self.order_name} order"
        return f"best move first with probability {self.order:g}" if self.order else "best move never first"

    @property
    def least_leaves(self) -> float:
        """Estimate of the least leaves of a search: of the minimal tree, or by theory for random order."""
        logarithm = self.depth * math.log(random_branching(self.branching))
        if self.order is None:
            return math.exp(min(logarithm, 700.0))
        if self.depth * math.log(self.branching) > 1000.0:
            return math.inf
        return float(minimal(self.branching, self.depth).total)


@dataclass(frozen=True, slots=True)
class Searched:
    """The result of a search of a tree.

    Attributes:
      tree: the tree. search: `alphabeta` or `pvs`. candidates: number of moves of a Cut node that count as
        candidates in Kannan's rules. value: of the root.
      nodes: visited; a re-searched node counts again. cutoffs: nodes that a move ended.
      first_cutoffs: those that the first move ended. researches: scouts that failed high inside the window.
      became_all: expected Cut nodes at which all candidates failed. became_rightly: those that ended as All.
      types: `[2, 3, 3, depth + 1]` nodes by rules (Garms, Kannan), expected type, actual type (PV, Cut, All)
        and ply; the last ply has the leaves.
      seconds: wall time.
    """

    tree: SyntheticTree
    search: str
    candidates: int
    value: int
    nodes: int
    cutoffs: int
    first_cutoffs: int
    researches: int
    became_all: int
    became_rightly: int
    types: NDArray[np.int64]
    seconds: float

    def actual(self, ply: int) -> tuple[int, int, int]:
        """Returns the numbers of nodes at a ply with the actual types PV, Cut and All."""
        pv, cut, all_ = self.types[0, :, :, ply].sum(axis=0).tolist()
        return pv, cut, all_

    def expected(self, rules: Rules, ply: int) -> tuple[int, int, int]:
        """Returns the numbers of nodes at a ply with the expected types PV, Cut and All."""
        pv, cut, all_ = self.types[_ROWS[rules], :, :, ply].sum(axis=1).tolist()
        return pv, cut, all_

    @property
    def leaves(self) -> int:
        """Leaves visited."""
        return sum(self.actual(self.tree.depth))

    @property
    def first_share(self) -> float | None:
        """Share of the Cut nodes that the first move cut; None if nothing was cut."""
        return self.first_cutoffs / self.cutoffs if self.cutoffs else None

    @property
    def price(self) -> float:
        """Leaves as a multiple of the minimal tree's."""
        return self.leaves / minimal(self.tree.branching, self.tree.depth).total

    def agreement(self, rules: Rules) -> Agreement:
        """Returns the agreement of a set of rules' expected types with the actual ones, over all nodes."""
        return Agreement.of(self.types[_ROWS[rules]].sum(axis=2))

    def as_dict(self) -> dict[str, Any]:
        """Returns the JSON object."""
        names = "search value nodes leaves price cutoffs first_cutoffs first_share researches candidates"
        return {
            **picked(self, f"{names} became_all became_rightly"),
            "agreement": {rules.value: self.agreement(rules).as_dict() for rules in Rules},
            "plies": [self._ply(ply) for ply in range(self.tree.depth + 1)],
            "seconds": self.seconds,
        }

    def _ply(self, ply: int) -> dict[str, Any]:
        expected = {rules.value: dict(zip(KINDS, self.expected(rules, ply), strict=True)) for rules in Rules}
        actual = dict(zip(KINDS, self.actual(ply), strict=True))
        return {"ply": ply, "actual": actual, "expected": expected}


_ROWS = {Rules.GARMS: 0, Rules.KANNAN: 1}


@dataclass(frozen=True, slots=True)
class Synthetic:
    """Results of plain alpha-beta and PVS on a tree, and the theory's figures."""

    tree: SyntheticTree
    searches: tuple[Searched, ...]

    @property
    def formula(self) -> Minimal:
        """The leaves of the minimal tree."""
        return minimal(self.tree.branching, self.tree.depth)

    @property
    def exact(self) -> bool:
        """Whether both searches visited the nodes of a minimal tree, at every ply and of every type."""
        return all(
            done.actual(ply) == (wanted.pv, wanted.cut, wanted.all)
            for ply in range(self.tree.depth + 1)
            for wanted in [minimal(self.tree.branching, ply)]
            for done in self.searches
        )

    def as_dict(self) -> dict[str, Any]:
        """Returns the JSON object of `graphsearch lab nodetypes --synthetic`."""
        tree = self.tree
        return {
            **picked(tree, "branching depth order=order_name seed"),
            "formula": self.formula.as_dict(),
            "formula_plies": [minimal(tree.branching, ply).as_dict() for ply in range(tree.depth + 1)],
            "exact": self.exact,
            "random_branching": random_branching(tree.branching),
            **picked(self, "searches"),
        }


def synthetic(
    tree: SyntheticTree, *, candidates: int = 1, on_progress: OnProgress | None = None
) -> Synthetic:
    """Searches a tree by plain alpha-beta and by PVS."""
    return Synthetic(
        tree,
        tuple(
            search_uniform(tree, pvs=name == "pvs", candidates=candidates, on_progress=on_progress)
            for name in SEARCHES
        ),
    )


def search_uniform(
    tree: SyntheticTree,
    *,
    pvs: bool = True,
    candidates: int = 1,
    on_progress: OnProgress | None = None,
    most_nodes: int = MOST_NODES,
    slice_nodes: int = SLICE,
) -> Searched:
    """Searches a tree and returns its counts.

    Args:
      candidates: number of moves of a Cut node, from the first, that count as candidates in Kannan's rules.
      most_nodes: most nodes to visit.
      slice_nodes: nodes between two calls of `on_progress`.

    Raises:
      CapacityError: if the search grows beyond `most_nodes`.
    """
    from . import uniform_tree_kernel as kernel

    check_least(1, candidates=candidates)
    units = round((tree.order or 0.0) * (1 << kernel.ORDER_BITS))
    shape = np.array([tree.branching, tree.depth, pvs, tree.order is None, candidates, units], np.int64)
    frames, names, counters, types = kernel.new_search(tree.depth)
    kernel.begin(shape, uint64(tree.seed), frames, names, counters)
    kernel.go_on(shape, frames, names, counters, types, 0)  # loads it: only the search is timed
    started, guess = time.perf_counter(), tree.least_leaves
    while not kernel.go_on(shape, frames, names, counters, types, counters[kernel.NODES] + slice_nodes):
        nodes = int(counters[kernel.NODES])
        if nodes > most_nodes:
            raise CapacityError(
                f"{nodes:,} nodes were not enough for {tree.branching} moves at each of {tree.depth} plies,"
                f" {tree.order_phrase}; take fewer moves or plies"
            )
        if on_progress:
            on_progress(nodes, max(guess, float(nodes)))
    by_type = types.reshape(2, kernel.KINDS, kernel.KINDS, tree.depth + 1)[:, 1:, 1:]
    return Searched(
        tree,
        SEARCHES[pvs],
        candidates,
        value=int(counters[kernel.FOUND]),
        nodes=int(counters[kernel.NODES]),
        cutoffs=int(counters[kernel.CUTS]),
        first_cutoffs=int(counters[kernel.FIRST_CUTS]),
        researches=int(counters[kernel.RESEARCHES]),
        became_all=int(counters[kernel.BECAME_ALL]),
        became_rightly=int(counters[kernel.BECAME_RIGHTLY]),
        types=by_type.copy(),
        seconds=time.perf_counter() - started,
    )
