"""Reports the progress of a build; not at every step, because a report counts all positions."""

from __future__ import annotations

import time
from collections import Counter

from .build_report import BuildProgress, Counts, OnProgress
from .growth import Growth
from .positions import APART, LEAF, OPEN, BookLine, numbered
from .requests import Requests
from .tree import BookTree

SHOW_SECONDS = 0.5
LINE_SECONDS = 0.1  # before a new line is shown, whose search may take long
ESTIMATE_SECONDS = 5.0  # between two estimates of the remaining time


class ProgressReporter:
    """Reports the progress of one build."""

    def __init__(
        self,
        tree: BookTree,
        growth: Growth,
        requests: Requests,
        counts: Counts,
        *,
        max_ply: int,
        began: float,
        on_progress: OnProgress | None,
    ) -> None:
        """Takes the build; `began` is its start (`time.monotonic`)."""
        self._tree = tree
        self._growth = growth
        self._requests = requests
        self._counts = counts
        self._max_ply = max_ply
        self._began = self._shown_at = began
        self._on_progress = on_progress
        self._line = ""
        self._ply = 0
        self._estimate: tuple[float, float | None] = (0.0, None)

    def searching(self, line: BookLine) -> None:
        """Sets the line that is being searched."""
        positions = self._tree.positions
        position = positions[line.keys[-1]]
        self._line = numbered(line.sans, positions[line.keys[0]].ply) or position.fen
        self._ply = position.ply
        self.show("building", LINE_SECONDS)

    def waiting(self) -> None:
        """Sets that nothing is left to search."""
        self._line = "nothing left to search; waiting for the queue"

    def show(self, stage: str, after: float = SHOW_SECONDS) -> None:
        """Reports the progress, unless the last report was less than `after` seconds ago."""
        if time.monotonic() - self._shown_at >= after:
            self._shown_at = time.monotonic()
            self.report(stage)

    def report(self, stage: str) -> None:
        """Reports the progress."""
        if self._on_progress is None:
            return
        seconds, counts = time.monotonic() - self._began, self._counts
        self._on_progress(
            BuildProgress(
                stage=stage,
                seconds=seconds,
                searched=counts.searched,
                added=self._growth.added,
                visits=counts.visits,
                evaluations=counts.evaluations,
                positions=size(self._tree),
                leaves=leaves(self._tree),
                waiting=self._requests.waiting,
                line=self._line,
                ply=self._ply,
                left=self._left(seconds),
            )
        )

    def _left(self, seconds: float) -> float | None:
        """Returns the seconds until nothing is left to search, by the branching so far."""
        at, found = self._estimate
        if seconds - at > ESTIMATE_SECONDS or not at:
            found = None
            if self._counts.searched:
                found = searches_left(self._tree, self._max_ply) * seconds / self._counts.searched
            self._estimate = (seconds, found)
        return found


def size(tree: BookTree) -> int:
    """Returns the number of positions of the book, without those apart."""
    return sum(position.state != APART for position in tree.positions.values())


def leaves(tree: BookTree) -> int:
    """Returns the number of positions without a search."""
    return sum(position.state == LEAF for position in tree.positions.values())


def searches_left(tree: BookTree, max_ply: int) -> float:
    """Returns the expected number of remaining searches, by the branching at each ply so far."""
    opened: Counter[int] = Counter()
    waiting: Counter[int] = Counter()
    below: Counter[int] = Counter()
    for position in tree.positions.values():
        opened[position.ply] += position.state == OPEN
        waiting[position.ply] += position.state == LEAF
        below[position.ply] += position.state in (LEAF, OPEN)
    total, ratio = 0.0, {0: 1.0, 1: 1.0}
    for ply in range(min(below, default=0), max_ply):
        if opened[ply]:
            ratio[ply & 1] = below[ply + 1] / opened[ply]
    arriving = 0.0
    for ply in range(min(below, default=0), max_ply):
        here = waiting[ply] + arriving
        total += here
        own = below[ply + 1] / opened[ply] if opened[ply] else ratio[ply & 1]
        arriving = here * own
    return total
