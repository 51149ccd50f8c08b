"""Node types in theory: the published rules and table, and an alpha-beta over uniform trees."""

from __future__ import annotations

import math
from collections import Counter

import pytest

from graphsearch.solvers.nodetypes import ALL, CUT, KINDS, PV, Arrival, Rules, expected, minimal, minimal_of

# the published table for b = 40: worst case, best case, PV, Cut, All
TABLE = {
    0: (1, 1, 1, 0, 0),
    1: (40, 40, 1, 39, 0),
    2: (1_600, 79, 1, 39, 39),
    3: (64_000, 1_639, 1, 1_599, 39),
    4: (2_560_000, 3_199, 1, 1_599, 1_599),
    5: (102_400_000, 65_599, 1, 63_999, 1_599),
    6: (4_096_000_000, 127_999, 1, 63_999, 63_999),
    7: (163_840_000_000, 2_623_999, 1, 2_559_999, 63_999),
    8: (6_553_600_000_000, 5_119_999, 1, 2_559_999, 2_559_999),
}


# at n = 5 the published total is 65,569, which its own columns contradict: 1 + 63,999 + 1,599 = 65,599
@pytest.mark.parametrize("depth", TABLE)
def test_a_row_of_the_published_table(depth: int) -> None:
    leaves = minimal(40, depth)
    assert (leaves.worst, leaves.total, leaves.pv, leaves.cut, leaves.all) == TABLE[depth]
    assert all(type(value) is int for value in leaves.as_dict().values())


def counted(branchings: list[int], root: str) -> tuple[int, int, int]:
    """Returns the leaves of a minimal tree by type, from its definition."""
    now = {"pv": 0, "cut": 0, "all": 0} | {root: 1}
    for moves in branchings:
        cut = (moves - 1) * now["pv"] + moves * now["all"]
        now = {"pv": now["pv"], "cut": cut, "all": now["cut"]}
    return now["pv"], now["cut"], now["all"]


@pytest.mark.parametrize("root", ["pv", "cut", "all"])
def test_the_formula_holds_where_the_number_of_moves_differs_from_ply_to_ply(root: str) -> None:
    for branchings in ([], [7], [20, 30], [2, 3, 5], [2, 3, 5, 7], [1, 9, 1, 9, 2]):
        leaves = minimal_of(branchings, root)
        assert (leaves.pv, leaves.cut, leaves.all) == counted(branchings, root)
        assert leaves.worst == math.prod(branchings)


def test_what_no_floating_point_number_holds_is_infinite_and_null_in_json() -> None:
    deep = minimal(30.5, 300)
    assert (deep.worst, deep.cut < math.inf) == (math.inf, True)
    assert (deep.as_dict()["worst"], minimal_of([30.5] * 300).as_dict()["worst"]) == (None, None)


class UniformTree:
    """A tree with b moves at every node, the best one first, and the nodes of alpha-beta by ply and type.

    The value of a position is that of its first child, negated; every other child is worse for the mover.
    """

    def __init__(self, branching: int, depth: int) -> None:
        self.branching, self.depth = branching, depth
        self.types: Counter[tuple[int, str]] = Counter()
        self.as_expected: Counter[tuple[Rules, bool]] = Counter()

    def minimax(self, value: int, ply: int) -> int:
        if ply == self.depth:
            return value
        return max(-self.minimax(self.child(value, i), ply + 1) for i in range(self.branching))

    def child(self, value: int, place: int) -> int:
        return -value + (place and 1 + place % 3)

    def search(self, value: int, ply: int, alpha: float, beta: float, kinds: dict[Rules, str]) -> float:
        best = self.best_of_children(value, ply, alpha, beta, kinds) if ply < self.depth else value
        kind = CUT if best >= beta else ALL if best <= alpha else PV
        self.types[ply, kind] += 1
        for rules, wanted in kinds.items():
            self.as_expected[rules, kind == wanted] += 1
        return best

    def best_of_children(
        self, value: int, ply: int, alpha: float, beta: float, kinds: dict[Rules, str]
    ) -> float:
        best = -math.inf
        for place in range(self.branching):
            way = Arrival.FURTHER if place else Arrival.FIRST
            below = {rules: expected(rules, kind, way) for rules, kind in kinds.items()}
            window = -beta, -max(alpha, best)
            best = max(best, -self.search(self.child(value, place), ply + 1, *window, below))
            if best >= beta:
                break
        return best


@pytest.mark.parametrize(("branching", "depth"), [(1, 5), (2, 9), (3, 6), (5, 4), (40, 3)])
def test_alpha_beta_in_perfect_order_visits_the_minimal_tree_and_the_expected_types(
    branching: int, depth: int
) -> None:
    tree = UniformTree(branching, depth)
    found = tree.search(7, 0, -math.inf, math.inf, dict.fromkeys(Rules, PV))
    assert found == tree.minimax(7, 0) == 7
    for ply in range(depth + 1):
        wanted = minimal(branching, ply)
        assert [tree.types[ply, kind] for kind in KINDS] == [wanted.pv, wanted.cut, wanted.all]
    assert not any(tree.as_expected[rules, False] for rules in Rules)


@pytest.mark.parametrize(
    ("rules", "parent", "types"),
    [
        (Rules.GARMS, PV, (PV, CUT, CUT)),
        (Rules.GARMS, CUT, (ALL, CUT, CUT)),
        (Rules.GARMS, ALL, (CUT, CUT, CUT)),
        (Rules.KANNAN, PV, (PV, CUT, CUT)),
        (Rules.KANNAN, CUT, (ALL, ALL, CUT)),
        (Rules.KANNAN, ALL, (CUT, CUT, CUT)),
    ],
)
def test_first_candidate_and_further_children_have_the_types_of_the_rules(
    rules: Rules, parent: str, types: tuple[str, ...]
) -> None:
    ways = (Arrival.FIRST, Arrival.CANDIDATE, Arrival.FURTHER)
    assert tuple(expected(rules, parent, way) for way in ways) == types
