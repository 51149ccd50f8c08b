"""The throughput of workers, and the sizes and time limits of parts that follow from it."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, inf

KEPT = 0.97  # of the weight of earlier parts, with each new one
SPREAD = 0.2  # relative deviation of the sizes from which on they show the fixed cost of a call
PROBE = 32  # positions in a part while nothing is known: few, because an engine may take seconds for one
WORTH = 2  # a part takes at least so many times the time of sending it
FINE = 10  # a part that is cut for balance takes at least so many times the time of sending and calling
MOST_SECONDS = 2.0  # of one part: the loss with a worker
SLACK = 20.0  # times the expected seconds until a worker counts as hung
LEAST_SECONDS = 60.0  # before that
FIRST_SECONDS = 600.0  # the same for a worker's first part, which may load or compile


@dataclass(slots=True)
class Throughput:
    """The cost of a part: `fixed + per_position * n` seconds of a worker, and `overhead` to send it.

    `fixed` and `per_position` are a line through the latest parts, with decreasing weights. While all parts
    are of one size, `fixed` stays as it was, at first 0.
    """

    fixed: float = 0.0
    per_position: float = 0.0
    overhead: float = inf
    _weight: float = 0.0
    _n: float = 0.0
    _nn: float = 0.0
    _t: float = 0.0
    _nt: float = 0.0

    @property
    def is_known(self) -> bool:
        """Whether any part has been timed."""
        return self._weight > 0

    def learn(self, n: int, seconds: float, round_trip: float) -> None:
        """Adds the measured times of a part.

        Args:
          n: its positions.
          seconds: from its begin to its end in the worker.
          round_trip: the same seen from here, sending included.
        """
        self._weight = KEPT * self._weight + 1
        self._n = KEPT * self._n + n
        self._nn = KEPT * self._nn + n * n
        self._t = KEPT * self._t + seconds
        self._nt = KEPT * self._nt + n * seconds
        self.overhead = min(max(round_trip - seconds, 1e-6), 1.02 * self.overhead)  # the least, lately
        self._fit()

    def _fit(self) -> None:
        mean_n, mean_t = self._n / self._weight, self._t / self._weight
        variance = self._nn / self._weight - mean_n**2
        if variance > (SPREAD * mean_n) ** 2:
            slope = (self._nt / self._weight - mean_n * mean_t) / variance
            self.fixed = min(max(0.0, mean_t - slope * mean_n), mean_t)
        self.per_position = max((mean_t - self.fixed) / mean_n, 1e-9)

    def sizes(self, count: int, workers: int) -> list[int]:
        """Returns the numbers of positions in the parts of a batch, in the order of sending.

        Every worker gets a share if that is faster than one worker alone. A batch is cut further only so that
        fast workers can do more than slow ones: larger parts first, smaller ones at the end, none so small
        that it costs much. Where a call itself takes long, as with a network on a GPU, shares are equal.

        >>> Throughput().sizes(100, 2)
        [32, 32, 32, 4]
        >>> Throughput(per_position=0.001, overhead=0.001, _weight=1).sizes(100, 2)
        [25, 19, 14, 11, 10, 10, 11]
        >>> Throughput(fixed=0.1, per_position=0.001, overhead=0.001, _weight=1).sizes(100, 2)
        [50, 50]
        """
        if not self.is_known:
            return _equal(count, min(PROBE, ceil(count / workers)))
        worth = max(1, ceil(WORTH * self.overhead / self.per_position))
        share = ceil(count / max(1, min(workers, count // worth)))
        fine = max(1, ceil(FINE * (self.overhead + self.fixed) / self.per_position))
        most = max(fine, int(MOST_SECONDS / self.per_position))
        if 2 * fine >= share:
            return _equal(count, min(share, most))
        found = []
        while count:
            size = min(most, max(fine, ceil(count / (2 * workers))))
            found.append(count if count < size + fine // 2 else size)  # no tiny part at the end
            count -= found[-1]
        return found

    def allowance(self, n: int, *, first: bool) -> float:
        """Returns the seconds after which a worker with a part of n positions counts as hung."""
        least = FIRST_SECONDS if first or not self.is_known else LEAST_SECONDS
        return max(least, SLACK * (self.fixed + self.per_position * n))


def _equal(count: int, size: int) -> list[int]:
    return [min(size, count - begin) for begin in range(0, count, size)]
