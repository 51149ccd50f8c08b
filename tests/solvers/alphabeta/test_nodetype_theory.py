"""Node types in theory: the published rules, and every row of the published table of minimal trees."""

from __future__ import annotations

import math

import pytest

from graphsearch.solvers.alphabeta.nodetypes.theory import (
    ALL,
    CUT,
    PV,
    Arrival,
    Rules,
    expected,
    minimal,
    minimal_of,
    random_branching,
)

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


def test_pearls_branching_factor_solves_its_equation() -> None:
    for branching in (2, 3, 10, 40):
        factor = random_branching(branching)
        root = factor / (1 + factor)
        assert math.isclose(root**branching + root, 1, rel_tol=1e-12)
    golden = (1 + math.sqrt(5)) / 2
    assert math.isclose(random_branching(2), golden)
    ratios = [random_branching(b) / (b / math.log(b)) for b in (10, 100, 10_000, 1_000_000)]
    assert all(1 < ratio < 1.5 for ratio in ratios)  # of the order of b / ln b


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
