"""What learning either network shares: Adam, the schedule of steps, threads."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy import float32
from numpy.typing import NDArray

from tools.training.chances import OPTIONS

WARM_UP = 200  # steps
LAST_RATE = 0.02  # of the learning rate, at the end
LIMITS = {"rows": 1.98}  # of magnitudes; sums of 64 rows must fit into int16
LIMIT = 8.0  # of all others
REPORTS = 40  # while a network learns

# of weights, gradients, indices of samples and whether to learn: returns sums of the loss and other figures
Pass = Callable[[Any, Any, NDArray[np.int64], bool], NDArray[np.float64]]


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def adam(p: Any, g: Any, m: Any, v: Any, scale: Any, rate: Any, corrections: Any, limit: Any) -> None:
    """Makes one step of Adam on flat arrays and clears the gradients, which count `scale` times."""
    for i in range(p.size):
        x = g[i] * scale
        g[i] = 0
        m[i] = float32(0.9) * m[i] + float32(0.1) * x
        v[i] = float32(0.999) * v[i] + float32(0.001) * x * x
        y = p[i] - rate * (m[i] / corrections[0]) / (np.sqrt(v[i] / corrections[1]) + float32(1e-8))
        p[i] = min(max(y, -limit), limit)


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def move_sums(source: Any, target: Any) -> None:
    """Adds a flat array to another and clears it."""
    for i in range(source.size):
        target[i] += source[i]
        source[i] = 0


class Learner:
    """A network with Adam's moments and the gradients of some threads.

    Attributes:
      weights: a named tuple of float32 arrays.
      gradients: one of the same form for each thread.
    """

    def __init__(self, weights: Any, threads: int = 1) -> None:
        self.weights = weights
        self.gradients = [self._zeros() for _ in range(threads)]
        self.steps = 0
        self._first, self._second = self._zeros(), self._zeros()
        self._pool = ThreadPoolExecutor(threads)

    def _zeros(self) -> Any:
        return type(self.weights)(*(np.zeros_like(array) for array in self.weights))

    def run(self, one_pass: Pass, chosen: NDArray[np.int64], learns: bool) -> NDArray[np.float64]:
        """Returns the means of the figures of some samples; adds to the gradients if it learns."""
        parts = np.array_split(chosen, len(self.gradients))
        jobs = [
            self._pool.submit(one_pass, self.weights, gradient, part, learns)
            for gradient, part in zip(self.gradients, parts, strict=True)
        ]
        return np.asarray(sum(job.result() for job in jobs) / len(chosen))

    def step(self, rate: float, samples: int) -> None:
        """Moves the weights against the mean gradient of some samples."""
        self.steps += 1
        corrections = float32(1 - 0.9**self.steps), float32(1 - 0.999**self.steps)
        for at, name in enumerate(self.weights._fields):
            flat = [a[at].reshape(-1) for a in (self.weights, self.gradients[0], self._first, self._second)]
            for other in self.gradients[1:]:
                move_sums(other[at].reshape(-1), flat[1])
            limit = float32(LIMITS.get(name, LIMIT))
            adam(*flat, float32(1 / samples), float32(rate), corrections, limit)


def rate_at(step: int, steps: int, rate: float) -> float:
    """Returns the learning rate of a step: a warm-up, then half a cosine.

    >>> rate_at(0, 1000, 1.0), round(rate_at(1000, 1000, 1.0), 3)
    (0.005, 0.02)
    """
    cosine = 0.5 * (1 + np.cos(np.pi * step / steps))
    return rate * min(1.0, (step + 1) / WARM_UP) * float(LAST_RATE + (1 - LAST_RATE) * cosine)


@dataclass(frozen=True)
class Plan:
    """How a network learns. `kept`: the last samples, which it never learns from.

    They are whole games: positions of one game are so alike that drawn ones would be known.
    """

    epochs: float
    batch: int
    rate: float
    kept: int
    seed: int


def learn(
    learner: Learner, one_pass: Pass, count: int, plan: Plan, say: Callable[[str], None]
) -> NDArray[np.float64]:
    """Learns from `count` samples in random order; returns the mean figures of those kept back."""
    rng = np.random.default_rng(plan.seed)
    order, held = rng.permutation(count - plan.kept), np.arange(count - plan.kept, count)
    batch = min(plan.batch, len(order))
    steps = max(1, int(plan.epochs * len(order) / batch))
    begin, at = time.process_time(), 0
    for step in range(steps):
        if at + batch > len(order):
            order, at = rng.permutation(order), 0
        learner.run(one_pass, order[at : at + batch], True)
        at += batch
        learner.step(rate_at(step, steps, plan.rate), batch)
        if (step + 1) % max(1, steps // REPORTS) == 0 or step + 1 == steps:
            speed = (step + 1) * batch / (time.process_time() - begin)
            found = " ".join(f"{x:.4f}" for x in learner.run(one_pass, held, False))
            say(f"{step + 1}/{steps}: {found} ({speed:,.0f} samples per CPU-second)")
    return learner.run(one_pass, held, False)
