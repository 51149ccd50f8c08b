"""The leaves of minimal trees: every formula, and every row of the published table."""

from __future__ import annotations

import math

import pytest

from graphsearch.solvers.alphabeta.nodetypes.formulas import (
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


@pytest.mark.parametrize("branching", [1, 2, 3, 35, 40, 218])
@pytest.mark.parametrize("depth", [0, 1, 2, 7, 30, 61])
def test_each_formula_exactly(branching: int, depth: int) -> None:
    leaves = minimal(branching, depth)
    half_up, half_down = (depth + 1) // 2, depth // 2
    assert leaves.pv == 1
    assert leaves.cut == branching**half_up - 1
    assert leaves.all == branching**half_down - 1
    assert leaves.total == branching**half_up + branching**half_down - 1
    assert leaves.worst == branching**depth


def counted(branchings: list[int], root: str) -> tuple[int, int, int]:
    """Returns the leaves of a minimal tree by type, from its definition."""
    now = {"pv": 0, "cut": 0, "all": 0} | {root: 1}
    for moves in branchings:
        now = {
            "pv": now["pv"],
            "cut": (moves - 1) * now["pv"] + moves * now["all"],
            "all": now["cut"],
        }
    return now["pv"], now["cut"], now["all"]


@pytest.mark.parametrize("root", ["pv", "cut", "all"])
@pytest.mark.parametrize("branchings", [[], [7], [20, 30], [2, 3, 5], [2, 3, 5, 7], [1, 9, 1, 9, 2]])
def test_the_formula_holds_where_the_number_of_moves_differs_from_ply_to_ply(
    branchings: list[int], root: str
) -> None:
    leaves = minimal_of(branchings, root)
    assert (leaves.pv, leaves.cut, leaves.all) == counted(branchings, root)
    assert leaves.worst == math.prod(branchings)


@pytest.mark.parametrize("depth", range(9))
def test_with_the_same_number_at_every_ply_both_formulas_agree(depth: int) -> None:
    for root in ("pv", "cut", "all"):
        assert minimal_of([40] * depth, root) == minimal(40, depth, root)


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
