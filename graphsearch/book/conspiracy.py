"""The fewest leaves on which the choice of a root's move depends: conspiracy numbers (McAllester, 1988).

A leaf is a position of the book without moves, or the best move outside the book of a position with moves.
Values by the rules and proven values (V = +-1) never change. For every position two step functions give the
largest and the smallest minimax value after a change of k leaves: for the largest, one better move is enough;
for the smallest, the changes of all moves add up. Positions are visited once, children first. Where lines
transpose, a leaf that two moves share is counted for each: then a number is an upper bound.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ..position.board import board_of, terminal_kind
from ..position.values import negate
from .positions import END, LEAF
from .snapshot import BookSnapshot

Step = tuple[int, float]  # (number of changed leaves, the value that they allow)
Steps = tuple[Step, ...]  # from no change on, each better than the one before
MOST_LEAVES = 32  # of one set: larger sets are no bottlenecks


@dataclass(frozen=True, slots=True)
class MoveOption:
    """An option of the side to move: a move of the book, or the best one outside it.

    Attributes:
      move, san: UCI and SAN; `san` is empty for the best move outside the book.
      child: number of the position after it; None: there is none.
      value: for the side to move. fixed: whether it can never change, if it has no child.
    """

    move: str
    san: str
    child: int | None
    value: float
    fixed: bool = False

    @property
    def outside(self) -> bool:
        """Whether this is the best move outside the book."""
        return not self.san


class Minimax:
    """The minimax values of a book, and their limits after a change of few leaves.

    Args:
      change: the largest change of a leaf's value; 2 allows any value.
    """

    def __init__(self, snapshot: BookSnapshot, *, change: float = 2.0, most: int = MOST_LEAVES) -> None:
        self.snapshot = snapshot
        self.change = change
        self.most = most
        count = len(snapshot.positions)
        self.values: list[float] = [0.0] * count
        self.fixed: list[bool] = [False] * count
        self.options: list[tuple[MoveOption, ...]] = [()] * count
        self.highest: list[Steps] = [()] * count
        self.lowest: list[Steps] = [()] * count
        self._known = _values_of_leaves(snapshot)
        for number in reversed(range(count)):  # children first
            self._fill(number)

    def _fill(self, number: int) -> None:
        options = self.options[number] = tuple(self._options(number))
        if not options:
            value = self.values[number] = self._known[number]
            self.fixed[number] = abs(value) >= 1.0 or self._is_over(number)
            self.highest[number] = self.leaf_steps(value, up=True, fixed=self.fixed[number])
            self.lowest[number] = self.leaf_steps(value, up=False, fixed=self.fixed[number])
            return
        self.values[number] = max(option.value for option in options)
        self.highest[number] = best_of(self.steps(option, up=True) for option in options)
        self.lowest[number] = all_of([self.steps(option, up=False) for option in options], self.most)

    def _options(self, number: int) -> Iterator[MoveOption]:
        position = self.snapshot.positions[number]
        if position.state in (LEAF, END):
            return
        for move, child in self.snapshot.edges(number):
            if child is not None and self.snapshot.leads_on(number, child):
                yield MoveOption(move.move, move.san, child, negate(self.values[child]))
            elif child is not None:  # a line that leads back: it keeps the value in the book
                yield MoveOption(move.move, move.san, None, negate(self._known[child]), fixed=True)
            elif move.value is not None:
                yield MoveOption(move.move, move.san, None, move.value, fixed=True)
        if position.outside is not None:
            proven = abs(position.outside) >= 1.0
            yield MoveOption(position.outside_move or "", "", None, position.outside, fixed=proven)

    def _is_over(self, number: int) -> bool:
        """Returns whether the rules have drawn the game at a leaf; mates have a value of -1."""
        position = self.snapshot.positions[number]
        decided = position.state == END and self.values[number] == 0.0
        return decided and terminal_kind(board_of(position.fen)) != 0

    def leaf_steps(self, value: float, *, up: bool, fixed: bool) -> Steps:
        """Returns the values of a leaf without and with its change."""
        if fixed:
            return ((0, value),)
        moved = min(1.0, value + self.change) if up else max(-1.0, value - self.change)
        return ((0, value), (1, moved)) if moved != value else ((0, value),)

    def steps(self, option: MoveOption, *, up: bool) -> Steps:
        """Returns the values of an option by number of changed leaves, for the side to move."""
        if option.child is None:
            return self.leaf_steps(option.value, up=up, fixed=option.fixed)
        theirs = self.lowest[option.child] if up else self.highest[option.child]
        return tuple((count, negate(value)) for count, value in theirs)


def best_of(functions: Iterable[Steps]) -> Steps:
    """Returns the largest values by changes in one of several options.

    >>> best_of([((0, 0.1), (2, 0.9)), ((0, 0.3), (1, 0.5), (3, 0.7))])
    ((0, 0.3), (1, 0.5), (2, 0.9))
    """
    found: list[Step] = []
    for count, value in sorted((step for steps in functions for step in steps), key=lambda s: (s[0], -s[1])):
        if not found or value > found[-1][1]:
            found.append((count, value))
    return tuple(found)


def all_of(functions: Sequence[Steps], most: int) -> Steps:
    """Returns the smallest values of the best of several options by changes in all that are too good.

    >>> all_of([((0, 0.5), (1, -1.0)), ((0, 0.3), (1, -1.0)), ((0, -0.2),)], 8)
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
        if count > most:
            return tuple(found)
        heapq.heapreplace(tops, (-steps[at + 1][1], place, at + 1))
        if -tops[0][0] < found[-1][1]:
            found.append((count, -tops[0][0]))


def _values_of_leaves(snapshot: BookSnapshot) -> list[float]:
    """Returns the value of each position; without one in the tables, that of the move to it."""
    by_move: dict[int, float] = {}
    for number in range(len(snapshot.positions)):
        for move, child in snapshot.edges(number):
            if child is not None and move.value is not None:
                by_move.setdefault(child, negate(move.value))
    return [
        by_move.get(number, 0.0) if position.value is None else position.value
        for number, position in enumerate(snapshot.positions)
    ]
