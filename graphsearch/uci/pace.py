"""Limits the size of a batch, so that it takes a small part of the available time.

An evaluator takes about a + b n seconds for n leaves. Both are fitted to its recent times; until more is
known a batch is at most twice as large as any before, beginning with one leaf.
"""

from __future__ import annotations

from collections import deque

SAMPLES = 24
BATCHES_PER_MOVE = 16
LONGEST_BATCH, SHORTEST_BATCH = 0.5, 0.005  # seconds


class BatchPace:
    """Limits batch sizes before each wave of `search`; it learns from all searches of one evaluator."""

    def __init__(self) -> None:
        self._samples: deque[tuple[int, float]] = deque(maxlen=SAMPLES)
        self._largest = 1
        self.target = LONGEST_BATCH

    def plan(self, seconds: float | None) -> None:
        """Sets how long the next search may take; None: no limit."""
        share = LONGEST_BATCH if seconds is None else seconds / BATCHES_PER_MOVE
        self.target = max(SHORTEST_BATCH, min(LONGEST_BATCH, share))

    def __call__(self, leaves: int, seconds: float) -> int:
        """Returns the most leaves of the next batch, given the last one's time (0 leaves: nothing new)."""
        if leaves:
            self._samples.append((leaves, seconds))
            self._largest = max(self._largest, leaves)
        if not self._samples:
            return 1
        fixed, each = self._fitted()
        if each <= 0.0:
            return 2 * self._largest
        # where the fixed part alone takes the time, a smaller batch costs more than it saves
        allowed = max(self.target - fixed, fixed) / each
        return max(1, min(2 * self._largest, int(allowed)))

    def _fitted(self) -> tuple[float, float]:
        """Returns (a, b) of the least squares through the samples, neither below zero."""
        n = len(self._samples)
        mean_x = sum(x for x, _ in self._samples) / n
        mean_y = sum(y for _, y in self._samples) / n
        spread = sum((x - mean_x) ** 2 for x, _ in self._samples)
        if spread == 0.0:
            return 0.0, mean_y / mean_x
        each = sum((x - mean_x) * (y - mean_y) for x, y in self._samples) / spread
        if each <= 0.0:
            return mean_y, 0.0
        fixed = mean_y - each * mean_x
        return (fixed, each) if fixed > 0.0 else (0.0, mean_y / mean_x)
