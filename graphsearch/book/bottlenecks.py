"""The fewest leaves on which the choice of a root's move depends: conspiracy numbers (McAllester, 1988).

A leaf is a position of the book without moves, or the best move outside the book in a position with moves.
Values by the rules and proven values (V = +-1) never change. Two step functions per position give the largest
and the smallest minimax value after a change of k leaves: for the largest, one better move is enough; for the
smallest, the changes of all moves add up. The code visits each position once, children first. Where lines
transpose, a leaf that two moves share counts for each; the number is then an upper bound.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from ..position.board import board_of, terminal_kind
from ..position.values import negate
from .tree import END, LEAF, BookTree, Position

Step = tuple[int, float]  # (number of changed leaves, value after their change)
Steps = tuple[Step, ...]  # by number of changes from 0, each value better than the last
MOST_LEAVES = 32  # in one set; larger sets are not bottlenecks


@dataclass(frozen=True, slots=True)
class MoveOption:
    """An option of the side to move: a move of the book, or the best one outside it.

    Attributes:
      move, san: UCI and SAN; `san` is empty for the best move outside the book.
      child: key of the position after the move, or None.
      value: for the side to move. fixed: whether the value of an option without a child can never change.
    """

    move: str
    san: str
    child: str | None
    value: float
    fixed: bool = False

    @property
    def outside(self) -> bool:
        """Whether this is the best move outside the book."""
        return not self.san


class Minimax:
    """The minimax values of a book, and their limits after changes of a few leaves.

    Args:
      change: the largest change of a leaf's value; 2 allows any value.
    """

    def __init__(self, tree: BookTree, *, change: float = 2.0) -> None:
        self.tree, self.change = tree, change
        positions = tree.ordered()
        self.order = {position.key: number for number, position in enumerate(positions)}
        self.values: dict[str, float] = {}
        self.fixed: dict[str, bool] = {}
        self.options: dict[str, tuple[MoveOption, ...]] = {}
        self.highest: dict[str, Steps] = {}
        self.lowest: dict[str, Steps] = {}
        self._known = _values_of_leaves(positions)
        for position in reversed(positions):  # children first
            self._fill(position)

    def _fill(self, position: Position) -> None:
        key = position.key
        options = self.options[key] = tuple(self._options(position))
        if not options:
            value = self.values[key] = self._known[key]
            fixed = self.fixed[key] = abs(value) >= 1.0 or self._is_over(position)
            self.highest[key] = self.leaf_steps(value, up=True, fixed=fixed)
            self.lowest[key] = self.leaf_steps(value, up=False, fixed=fixed)
            return
        self.values[key] = max(option.value for option in options)
        self.highest[key] = best_of(self.steps(option, up=True) for option in options)
        self.lowest[key] = all_of([self.steps(option, up=False) for option in options])

    def _options(self, position: Position) -> Iterator[MoveOption]:
        if position.state in (LEAF, END):
            return
        for move in position.moves.values():
            if self.tree.goes_on(position, move):
                yield MoveOption(move.move, move.san, move.child, negate(self.values[move.child]))
            else:  # a line that leads back keeps its value in the book
                yield MoveOption(move.move, move.san, None, negate(self._known[move.child]), fixed=True)
        if position.outside is not None:
            proven = abs(position.outside) >= 1.0
            yield MoveOption(position.outside_move or "", "", None, position.outside, fixed=proven)

    def _is_over(self, position: Position) -> bool:
        """Returns whether the rules have drawn the game at a leaf; mates have a value of -1."""
        decided = position.state == END and self.values[position.key] == 0.0
        return decided and terminal_kind(board_of(position.fen)) != 0

    def leaf_steps(self, value: float, *, up: bool, fixed: bool) -> Steps:
        """Returns the steps of a leaf: its value, and its value after the largest change."""
        if fixed:
            return ((0, value),)
        moved = min(1.0, value + self.change) if up else max(-1.0, value - self.change)
        return ((0, value), (1, moved)) if moved != value else ((0, value),)

    def steps(self, option: MoveOption, *, up: bool) -> Steps:
        """Returns the steps of an option, for the side to move."""
        if option.child is None:
            return self.leaf_steps(option.value, up=up, fixed=option.fixed)
        theirs = self.lowest[option.child] if up else self.highest[option.child]
        return tuple((count, negate(value)) for count, value in theirs)


def best_of(functions: Iterable[Steps]) -> Steps:
    """Returns the largest value per number of changed leaves, where all changes are in one option.

    >>> best_of([((0, 0.1), (2, 0.9)), ((0, 0.3), (1, 0.5), (3, 0.7))])
    ((0, 0.3), (1, 0.5), (2, 0.9))
    """
    found: list[Step] = []
    for count, value in sorted((step for steps in functions for step in steps), key=lambda s: (s[0], -s[1])):
        if not found or value > found[-1][1]:
            found.append((count, value))
    return tuple(found)


def all_of(functions: Sequence[Steps]) -> Steps:
    """Returns the smallest value of the best option per number of changed leaves in all options.

    >>> all_of([((0, 0.5), (1, -1.0)), ((0, 0.3), (1, -1.0)), ((0, -0.2),)])
    ((0, 0.5), (1, 0.3), (2, -0.2))
    """
    tops = [(-steps[0][1], place, 0) for place, steps in enumerate(functions)]
    heapq.heapify(tops)
    count, found = 0, [(0, -tops[0][0])]
    while True:
        _, place, at = tops[0]
        steps = functions[place]
        if at + 1 == len(steps):
            return tuple(found)
        count += steps[at + 1][0] - steps[at][0]
        if count > MOST_LEAVES:
            return tuple(found)
        heapq.heapreplace(tops, (-steps[at + 1][1], place, at + 1))
        if -tops[0][0] < found[-1][1]:
            found.append((count, -tops[0][0]))


def _values_of_leaves(positions: Sequence[Position]) -> dict[str, float]:
    """Returns the value of each position; if the tables have none, the value of a move to it, else 0."""
    by_move: dict[str, float] = {}
    for position in positions:
        for move in position.moves.values():
            if move.value is not None:
                by_move.setdefault(move.child, negate(move.value))
    return {one.key: by_move.get(one.key, 0.0) if one.value is None else one.value for one in positions}


Goal = tuple[str, bool, float]  # position, whether its value must be at least the target (or at most), target
ROUNDING = 1e-9  # of sums and differences of values
LEAST_SETS = 200  # sets of leaves to compute, at least


@dataclass(frozen=True, slots=True)
class Change:
    """A leaf that changes.

    Attributes:
      position: its key. outside: whether the leaf is the best move outside the book there.
      value, needed: the present and the required value, for the side to move at the position.
    """

    position: str
    outside: bool
    value: float
    needed: float


@dataclass(frozen=True, slots=True)
class Bottleneck:
    """A rival of a root's best move, and the fewest leaves that keep it from being as good.

    Attributes:
      root: key of the position.
      best, rival: the root's best move in the book, and another book move or the best move outside the book,
        which keeps its own value. Values are minimax, for the side to move at the root.
      leaves: the least number of leaves that make the rival as good as every move of the book.
      targets: values at which both moves can meet with that number of leaves; empty: impossible, or too many.
      changes: the leaves, once found; at their required values the rival is as good as every move of the
        book. Empty: it already is.
    """

    root: str
    best: MoveOption
    rival: MoveOption
    leaves: int
    targets: tuple[float, ...]
    changes: tuple[Change, ...] = ()

    @property
    def margin(self) -> float:
        """The difference of the two moves' values."""
        return self.best.value - self.rival.value

    @property
    def total(self) -> float:
        """The sum of the changes of the values."""
        return sum(abs(change.needed - change.value) for change in self.changes)


@dataclass(frozen=True, slots=True)
class Bottlenecks:
    """Bottlenecks, sorted by number of leaves, then by total change.

    Attributes:
      safe: number of rivals that need more leaves than `MOST_LEAVES`, or cannot become as good at all.
      alone: number of roots without two moves to compare.
    """

    rows: list[Bottleneck]
    safe: int
    alone: int


def find_bottlenecks(tree: BookTree, *, change: float = 2.0, top: int = 0) -> Bottlenecks:
    """Returns the bottlenecks of a book, at most `top` (0: all).

    Args:
      change: the largest change of a leaf's value; 2 allows any value.
    """
    minimax = Minimax(tree, change=change)
    by_root = [_rivals(minimax, root) for root in tree.roots]
    found = [row for of_root in by_root for row in of_root]
    near = sorted((row for row in found if row.targets), key=lambda row: (row.leaves, row.margin))
    if top:  # only a set shows its total change, so compute more sets than requested
        near = near[: max(4 * top, LEAST_SETS)]
    rows = [replace(row, changes=_changes(minimax, row)) for row in near]
    rows.sort(key=lambda row: (len(row.changes), row.total, minimax.order[row.root], row.rival.move))
    safe = sum(not row.targets for row in found)
    return Bottlenecks(rows[: top or None], safe, sum(not of_root for of_root in by_root))


def _rivals(minimax: Minimax, root: str) -> list[Bottleneck]:
    """Returns the rivals of a root's best move in the book: every other one, and the best outside."""
    options = minimax.options[root]
    book = [option for option in options if not option.outside]
    if not book:
        return []
    best = max(book, key=lambda option: option.value)
    return [_rival(minimax, root, best, rival, book) for rival in options if rival is not best]


def _rival(
    minimax: Minimax, root: str, best: MoveOption, rival: MoveOption, book: list[MoveOption]
) -> Bottleneck:
    rises: Steps = ((0, rival.value),) if rival.outside else minimax.steps(rival, up=True)
    falls = all_of([minimax.steps(other, up=False) for other in book if other is not rival])
    meetings = [(up + down, high, low) for up, high in rises for down, low in falls if high >= low]
    fewest = min((count for count, _, _ in meetings), default=0)
    targets = {
        min(max(value, rival.value), best.value)
        for count, high, low in meetings
        if count == fewest
        for value in (high, low)
    }
    return Bottleneck(root, best, rival, fewest, tuple(sorted(targets)) if fewest <= MOST_LEAVES else ())


def _changes(minimax: Minimax, row: Bottleneck) -> tuple[Change, ...]:
    """Returns a smallest set of leaves against a rival, preferring a small total change.

    All leaves change to the one value at which both moves meet. So a leaf that both moves share counts for
    both, and the set is correct where lines transpose, too.
    """
    found = (_Meeting(minimax, row, target).changes() for target in row.targets)
    return min(found, key=lambda changes: (len(changes), sum(abs(c.needed - c.value) for c in changes)))


@dataclass(frozen=True, slots=True)
class _Set:
    """Leaves that change: their number and the sum of their changes, which count shared leaves for each move.

    `leaves` is empty if there are more than `MOST_LEAVES`, or one that cannot change.
    """

    count: int = 0
    change: float = 0.0
    leaves: tuple[Change, ...] = ()


NOTHING, NEVER = _Set(), _Set(1 << 60, math.inf)


class _Meeting:
    """Finds the leaves that raise the rival to a target and lower the other moves of the book to it.

    `up`: the value of a position must become at least the target; otherwise at most. Both are seen by the
    side to move there.
    """

    def __init__(self, minimax: Minimax, row: Bottleneck, target: float) -> None:
        self._minimax, self._row, self._target = minimax, row, target
        self._sets: dict[tuple[str, bool], _Set] = {}

    def changes(self) -> tuple[Change, ...]:
        """Returns the leaves, in the order of their positions."""
        row, goals, order = self._row, list[Goal](), self._minimax.order
        for option in self._minimax.options[row.root]:
            if option.child is not None:
                goals.append((option.child, option is not row.rival, negate(self._target)))
        self._fill(goals)
        sets = [self._sets.get((key, up), NOTHING) for key, up, _ in goals]
        leaves = {leaf for one in sets for leaf in one.leaves}
        return tuple(sorted(leaves, key=lambda leaf: (order[leaf.position], leaf.outside)))

    def _fill(self, goals: list[Goal]) -> None:
        """Finds the sets of all goals: relevant goals from above, then their sets from below."""
        needed: dict[tuple[str, bool], float] = {}
        stack = list(goals)
        while stack:
            key, up, target = stack.pop()
            if (key, up) not in needed and self._is_missed(key, up, target):
                needed[key, up] = target
                stack += self._below(key, up, target)
        for key, up in sorted(needed, key=lambda goal: -self._minimax.order[goal[0]]):
            self._sets[key, up] = self._set(key, up, needed[key, up])

    def _is_missed(self, key: str, up: bool, target: float) -> bool:
        value = self._minimax.values[key]
        return value < target if up else value > target

    def _below(self, key: str, up: bool, target: float) -> list[Goal]:
        """Returns the goals of a position's moves: one suffices to raise it, all are needed to lower it."""
        return [
            (option.child, not up, negate(target))
            for option in self._minimax.options[key]
            if option.child is not None and (up or option.value > target)
        ]

    def _set(self, key: str, up: bool, target: float) -> _Set:
        """Returns the cheapest leaves that raise a position, or all that lower it."""
        options = self._minimax.options[key]
        if not options:
            change = Change(key, False, self._minimax.values[key], target)
            return self._of_leaf(change, self._minimax.fixed[key])
        sets = [self._of_option(key, option, up, target) for option in options]
        if up:
            return min(sets, key=lambda one: (one.count, one.change))
        count = sum(one.count for one in sets)
        leaves = tuple(leaf for one in sets for leaf in one.leaves) if count <= MOST_LEAVES else ()
        return _Set(count, sum(one.change for one in sets), leaves)

    def _of_option(self, key: str, option: MoveOption, up: bool, target: float) -> _Set:
        if option.value >= target if up else option.value <= target:
            return NOTHING
        if option.child is None:
            return self._of_leaf(Change(key, True, option.value, target), option.fixed)
        return self._sets.get((option.child, not up), NOTHING)

    def _of_leaf(self, leaf: Change, fixed: bool) -> _Set:
        change = abs(leaf.needed - leaf.value)
        return NEVER if fixed or change > self._minimax.change + ROUNDING else _Set(1, change, (leaf,))
