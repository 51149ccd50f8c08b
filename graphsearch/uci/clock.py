"""Time management: the time budget of a move, early stops, and the size of batches.

        now      planned           most        time left
|--------|----------|----------------|------------|       the search ends at `planned`, sooner if no other
         early stop ^   more if the  ^  the answer        move can overtake, later (up to `most`) while it
                        choice is open  goes out here     is unsure; at `most` its clock answers
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

MOVES_LEFT = 24  # assumed in a game without `movestogo`; early stops leave time for more
MOST_MOVES_TO_GO = 50  # largest `movestogo` that is planned for
INCREMENT_SHARE = 0.8  # of the increment, spent on the present move
LONGER = 2.5  # most time of one move, in planned times
SHARE_AT_ONCE = 0.5  # most of the time left for one move, if other moves must follow
MOVES_KEPT = 5  # moves whose overhead stays on the clock, if nobody says how many follow
SHARE_WHEN_SHORT = 0.25  # most of the rest for one move
LAST_MOVE_SHARE = 0.85  # of the time left for the last move before a time control
LEAST_SECONDS = 0.02  # for an answer without a search, if twice as much is left
LEAST_SHARE = 0.25  # of the time left, used even if the overhead is larger
UNSURE = 1.6  # planned times while the best move is new, or another one has the better value
SURE_SHARE = 0.4  # least share of the planned time; the speed of a search's first waves says little
FALLBACK_SECONDS = 1.0  # of a graph search for `go mate`, after the prover has found no mate
NEW_SHARE = 0.3  # of the elapsed time: a best move younger than that is new


@dataclass(frozen=True, slots=True)
class Budget:
    """Seconds on the clock: when to end the search, and when to answer in any case."""

    planned: float
    most: float


def clock_budget(
    time_ms: int, increment_ms: int = 0, moves_to_go: int | None = None, *, overhead_ms: int = 0
) -> Budget:
    """Returns the time for one move of a game.

    Args:
      time_ms: left on the clock; may be zero or less: some GUIs play on then.
      increment_ms: added after the move.
      moves_to_go: moves until more time is added; None: never.
      overhead_ms: lost between the engine and the clock.

    >>> budget = clock_budget(10_000, 100, overhead_ms=100)
    >>> round(budget.planned, 2), round(budget.most, 2)
    (0.49, 1.23)
    """
    left, more, lost = (max(0, ms) / 1000 for ms in (time_ms, increment_ms, overhead_ms))
    moves = MOVES_LEFT if moves_to_go is None else max(1, min(moves_to_go, MOST_MOVES_TO_GO))
    kept = lost * (1 if moves_to_go is None else moves)
    usable = max(left - kept, LEAST_SHARE * left)
    share = LAST_MOVE_SHARE if moves == 1 else SHARE_AT_ONCE
    planned = usable / moves + INCREMENT_SHARE * more
    most = min(LONGER * planned, share * usable)
    if moves_to_go is None:  # the overhead of the next moves stays on the clock
        most = min(most, max(0.0, left - MOVES_KEPT * lost) * SHARE_WHEN_SHORT + max(0.0, more - lost))
    most = max(most, min(LEAST_SECONDS, usable / 2))
    return Budget(min(planned, most), most)


LAST_WORD_SECONDS = 0.03  # for the search's final report before the time is up


def move_budget(movetime_ms: int, *, overhead_ms: int = 0) -> Budget:
    """Returns the time budget for a move of exactly `movetime_ms`, minus the overhead.

    >>> move_budget(1000, overhead_ms=100).most
    0.95
    """
    time = max(0, movetime_ms)
    seconds = (time - min(max(0, overhead_ms) / 2, time / 4)) / 1000
    return Budget(max(seconds / 2, seconds - LAST_WORD_SECONDS), seconds)


@dataclass(frozen=True, slots=True)
class Standing:
    """The state of a search.

    Attributes:
      elapsed: seconds. speed: visits per second.
      best_n, second_n: visits of the two best moves allowed; 0 if there is none.
      best_since: the elapsed seconds when the best move last changed; below 0: before the clock began.
      agrees: whether the best move has the most visits and the best value.
      choices: number of moves allowed.
    """

    elapsed: float
    speed: float
    best_n: int
    second_n: int
    best_since: float = 0.0
    agrees: bool = True
    choices: int = 2


def may_stop(budget: Budget, at: Standing) -> bool:
    """Returns whether the search for a move of a game may stop now.

    >>> may_stop(Budget(1.0, 2.0), Standing(0.5, 1000, best_n=900, second_n=300))
    True
    >>> may_stop(Budget(1.0, 2.0), Standing(0.5, 1000, best_n=900, second_n=500))
    False
    >>> may_stop(Budget(1.0, 2.0), Standing(0.1, 1000, best_n=9000, second_n=0))
    False
    """
    if at.choices <= 1:
        return True
    is_new = at.elapsed - at.best_since < NEW_SHARE * at.elapsed
    planned = min(budget.most, (UNSURE if is_new or not at.agrees else 1.0) * budget.planned)
    if at.elapsed >= planned:
        return True
    if at.elapsed < SURE_SHARE * budget.planned:
        return False
    return at.best_n - at.second_n > at.speed * (planned - at.elapsed)


SAMPLES = 24
BATCHES_PER_MOVE = 16
LONGEST_BATCH, SHORTEST_BATCH = 0.5, 0.005  # seconds


class BatchPace:
    """Limits the size of a batch, so that it takes a small part of the available time.

    An evaluator takes about a + b n seconds for n leaves. Both are fitted to its recent times; until more is
    known a batch is at most twice as large as any before, beginning with one leaf.
    """

    def __init__(self) -> None:
        self._samples: deque[tuple[int, float]] = deque(maxlen=SAMPLES)
        self._largest = 1
        self.target = LONGEST_BATCH

    def plan(self, seconds: float | None) -> None:
        """Sets the time limit of the next search; None: no limit."""
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
        # if the fixed part alone exceeds the target, a smaller batch costs more than it saves
        return max(1, min(2 * self._largest, int(max(self.target - fixed, fixed) / each)))

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
