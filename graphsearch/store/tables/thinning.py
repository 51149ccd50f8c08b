"""Which rows of a history go when it has too many: `schema/store.md`, root_history, states the rule."""

from __future__ import annotations

import heapq
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

YOUNGEST = 60.0  # seconds: rows of one minute are of one age


@dataclass(frozen=True, slots=True)
class Moment:
    """A row as far as it matters here: its run, what grows (such as N), when it was saved, the best move."""

    run: int
    size: int
    saved: str
    best_move: str | None


def gone(moments: Sequence[Moment], left: int) -> list[int]:
    """Returns the indexes of the rows to take away, so that `left` (at least 2) stay.

    Again and again the row goes that lies closest to its neighbours, by the logarithm of their ratio in size
    or in age. The first and the last row stay. The last row of a run stays as long as there are others, and
    one whose best move differs from that of the row before as long as there are even such.

    Args:
      moments: in the order of runs, and of size in each.
    """
    chain = _Chain(moments)
    inner = range(1, len(moments) - 1)
    same = [i for i in inner if moments[i].best_move == moments[i - 1].best_move]
    plain = [i for i in same if moments[i].run == moments[i + 1].run]
    for some in (plain, same, inner):
        chain.take(some, left)
    return sorted(chain.gone)


class _Chain:
    """The rows that are still there, each with those before and after it, and the indexes that are gone."""

    def __init__(self, moments: Sequence[Moment]) -> None:
        self._moments = moments
        self._ages = _ages(moments)
        self._before = list(range(-1, len(moments) - 1))
        self._after = list(range(1, len(moments) + 1))
        self.gone: set[int] = set()

    def take(self, some: Collection[int], left: int) -> None:
        """Takes rows of `some` away, the closest to their neighbours first, until so many are left."""
        heap = [(self._gap(i), i) for i in some if i not in self.gone]
        heapq.heapify(heap)
        among = set(some)
        while heap and len(self._moments) - len(self.gone) > left:
            gap, i = heapq.heappop(heap)
            if i in self.gone or gap != self._gap(i):
                continue  # a neighbour has gone since: a newer entry has its gap
            self.gone.add(i)
            before, after = self._before[i], self._after[i]
            self._after[before], self._before[after] = after, before
            for near in among.intersection((before, after)):
                heapq.heappush(heap, (self._gap(near), near))

    def _gap(self, i: int) -> float:
        before, after = self._before[i], self._after[i]
        size = abs(math.log((self._moments[after].size + 1) / (self._moments[before].size + 1)))
        return max(size, abs(math.log(self._ages[before] / self._ages[after])))


def _ages(moments: Sequence[Moment]) -> list[float]:
    """Returns the age of each row in seconds, of the last one a minute; of a time that is none likewise."""
    times = [_seconds(moment.saved) for moment in moments]
    newest = max(times, default=0.0)
    return [newest - time + YOUNGEST if time else YOUNGEST for time in times]


def _seconds(saved: str) -> float:
    try:
        return datetime.fromisoformat(saved).timestamp()
    except (ValueError, OverflowError, OSError):
        return 0.0
