"""Alpha-beta on uniform trees: the values of minimax, minimal with perfect order, and what disorder costs."""

from __future__ import annotations

import numpy as np
import pytest

from graphsearch.base.errors import CapacityError, InvalidParameterError
from graphsearch.solvers.alphabeta.nodetypes import uniform_tree_kernel as kernel
from graphsearch.solvers.alphabeta.nodetypes.synthetic import SyntheticTree, search_uniform, synthetic
from graphsearch.solvers.alphabeta.nodetypes.theory import (
    ALL,
    CUT,
    KINDS,
    PV,
    Arrival,
    Rules,
    expected,
    minimal,
)

_WORD = (1 << 64) - 1


def mixed(x: int) -> int:
    x = (x + 0x9E3779B97F4A7C15) & _WORD
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _WORD
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _WORD
    return x ^ (x >> 31)


class Plain:
    """The same trees and searches, recursive and in plain integers."""

    def __init__(self, tree: SyntheticTree, *, pvs: bool, candidates: int = 1) -> None:
        self.tree, self.pvs, self.candidates = tree, pvs, candidates
        self.types = np.zeros((2, 3, 3, tree.depth + 1), np.int64)
        self.paths = [[PV] for _ in Rules]  # types expected on the path, by rules
        self.researches = self.first = self.cuts = 0

    def run(self) -> int:
        return self.search(mixed(self.tree.seed ^ 1), 0, 0, -kernel.BEYOND, kernel.BEYOND)

    def child(self, name: int, value: int, place: int) -> tuple[int, int]:
        below = mixed((name + (place + 1) * 0x9E3779B97F4A7C15) & _WORD)
        draw = mixed(name ^ 0xD1B54A32D192ED03)
        first = self.tree.branching == 1 or draw >> 11 < round((self.tree.order or 0) * 2**53)
        best = 0 if first else 1 + mixed(draw) % (self.tree.branching - 1)
        return below, -value if place == best else 1 - value + (below >> 32) % kernel.SPREAD

    def minimax(self, name: int, value: int, ply: int) -> int:
        if ply == self.tree.depth:
            return value if self.tree.order is not None else (mixed(name) >> 16) - (1 << 47)
        return max(
            -self.minimax(*self.child(name, value, place), ply + 1) for place in range(self.tree.branching)
        )

    def search(self, name: int, value: int, ply: int, alpha: int, beta: int) -> int:
        kinds = [path[-1] for path in self.paths]
        if ply == self.tree.depth:
            best = value if self.tree.order is not None else (mixed(name) >> 16) - (1 << 47)
        else:
            best = self.interior(name, value, ply, alpha, beta)
        found = CUT if best >= beta else ALL if best <= alpha else PV
        for row, kind in enumerate(kinds):
            self.types[row, KINDS.index(kind), KINDS.index(found), ply] += 1
        return best

    def interior(self, name: int, value: int, ply: int, alpha: int, beta: int) -> int:
        best = -kernel.BEYOND
        for place in range(self.tree.branching):
            now = max(alpha, best)
            scout = self.pvs and place > 0 and beta - now > 1
            found = self.below(name, value, ply, place, (now, now + 1 if scout else beta), again=False)
            if scout and now < found < beta:
                self.researches += 1
                found = self.below(name, value, ply, place, (now, beta), again=True)
            best = max(best, found)
            if best >= beta:
                self.cuts += 1
                self.first += place == 0
                break
        return best

    def below(
        self, name: int, value: int, ply: int, place: int, window: tuple[int, int], *, again: bool
    ) -> int:
        way = (
            Arrival.CANDIDATE if 0 < place < self.candidates else Arrival.FURTHER if place else Arrival.FIRST
        )
        for rules, path in zip(Rules, self.paths, strict=True):
            if rules is Rules.KANNAN and way is Arrival.FURTHER and path[-1] == CUT and not again:
                path[-1] = ALL  # its candidates failed
            path.append(PV if again else expected(rules, path[-1], way))
        found = -self.search(*self.child(name, value, place), ply + 1, -window[1], -window[0])
        for path in self.paths:
            path.pop()
        return found


TREES = [
    SyntheticTree(2, 0),
    SyntheticTree(1, 5),
    SyntheticTree(3, 4),
    SyntheticTree(3, 4, 0.5, 1),
    SyntheticTree(4, 4, 0.0, 2),
    SyntheticTree(2, 7, None, 3),
    SyntheticTree(5, 4, None, 4),
    SyntheticTree(7, 3, 0.9, (1 << 64) - 1),
]


@pytest.mark.parametrize("tree", TREES, ids=str)
@pytest.mark.parametrize("pvs", [False, True])
@pytest.mark.parametrize("candidates", [1, 3])
def test_the_kernel_searches_like_a_plain_recursive_search(
    tree: SyntheticTree, pvs: bool, candidates: int
) -> None:
    plain = Plain(tree, pvs=pvs, candidates=candidates)
    value = plain.run()
    found = search_uniform(tree, pvs=pvs, candidates=candidates)
    assert found.value == value == plain.minimax(mixed(tree.seed ^ 1), 0, 0)
    counts = (found.cutoffs, found.first_cutoffs, found.researches)
    assert counts == (plain.cuts, plain.first, plain.researches)
    assert found.types.tolist() == plain.types.tolist()
    assert found.nodes == plain.types[0].sum() == plain.types[1].sum()


@pytest.mark.parametrize(("branching", "depth"), [(1, 9), (2, 9), (3, 7), (5, 5), (218, 2)])
@pytest.mark.parametrize("seed", [0, 7])
def test_with_perfect_order_every_ply_is_minimal_and_every_type_as_expected(
    branching: int, depth: int, seed: int
) -> None:
    found = synthetic(SyntheticTree(branching, depth, seed=seed))
    assert found.exact
    for done in found.searches:
        for ply in range(depth + 1):
            wanted = minimal(branching, ply)
            assert done.actual(ply) == (wanted.pv, wanted.cut, wanted.all)
            assert all(done.expected(rules, ply) == done.actual(ply) for rules in Rules)
        assert done.first_cutoffs == done.cutoffs
        assert (done.researches, done.became_all) == (0, 0)
        assert [done.agreement(rules).share for rules in Rules] == [1, 1]


def test_a_search_in_slices_is_one_search() -> None:
    tree = SyntheticTree(4, 5, 0.5, 9)
    whole = search_uniform(tree)
    seen: list[int] = []
    sliced = search_uniform(tree, on_progress=lambda nodes, guess: seen.append(nodes), slice_nodes=7)
    assert sliced.types.tolist() == whole.types.tolist()
    assert seen == list(range(8, whole.nodes, 7)) or seen == list(range(8, whole.nodes + 1, 7))


def test_a_search_that_grows_too_large_ends() -> None:
    with pytest.raises(CapacityError, match="fewer moves or plies"):
        search_uniform(SyntheticTree(10, 4, 0.0), most_nodes=500, slice_nodes=100)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((0, 3), "branching factor must be from 1 to 1000"),
        ((40, -1), "depth must be from 0 to 100"),
        ((2, 2, float("nan")), "order must be from 0 to 1"),
        ((2, 2, 1.0, 1 << 64), "seed must be from 0"),
        ((40, 20), "most that are searched"),
        ((40, 9, None), "most that are searched"),
    ],
)
def test_a_tree_that_cannot_be_searched_is_refused(arguments: tuple[int, ...], words: str) -> None:
    with pytest.raises(InvalidParameterError, match=words):
        SyntheticTree(*arguments)


def test_at_least_the_first_move_is_a_candidate() -> None:
    with pytest.raises(InvalidParameterError, match="candidates must be at least 1"):
        search_uniform(SyntheticTree(2, 2), candidates=0)
