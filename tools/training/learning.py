"""The common part of training both networks: Adam, learning rates, threads."""

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

from graphsearch.evaluators.builtin.layout import FULL
from graphsearch.evaluators.builtin.weights import ROW_BITS
from tools.training.records import OPTIONS

WARM_UP = 200  # steps
LAST_RATE = 0.02  # final share of the learning rate
# of weight magnitudes; rows are packed into ROW_BITS, in units of 1 / FULL
LIMITS = {"rows": ((1 << (ROW_BITS - 1)) - 1) / FULL}
LIMIT = 8.0  # of all other weights
REPORTS = 40  # progress lines of a training run

# (weights, gradients, indices of samples, whether to learn) -> sums of the loss and other figures
Pass = Callable[[Any, Any, NDArray[np.int64], bool], NDArray[np.float64]]


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def adam(p: Any, g: Any, m: Any, v: Any, scale: Any, rate: Any, corrections: Any, limit: Any) -> None:
    """Makes one step of Adam on flat arrays, with gradients multiplied by `scale`; clears the gradients."""
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
    """A network with Adam's moments, and gradients for each thread.

    Attributes:
      weights: a named tuple of float32 arrays.
      gradients: one tuple of the same form per thread.
      first, second: Adam's moments. steps: number of steps so far.
    """

    def __init__(self, weights: Any, threads: int = 1) -> None:
        self.weights = weights
        self.gradients = [self._zeros() for _ in range(threads)]
        self.steps = 0
        self.first, self.second = self._zeros(), self._zeros()
        self._pool = ThreadPoolExecutor(threads)

    def _zeros(self) -> Any:
        return type(self.weights)(*(np.zeros_like(array) for array in self.weights))

    def run(
        self, one_pass: Pass, chosen: NDArray[np.int64], learns: bool, weights: Any = None
    ) -> NDArray[np.float64]:
        """Returns the mean figures of some samples; if `learns`, adds to the gradients.

        Args:
          weights: the network's weights; None: those being trained.
        """
        parts = np.array_split(chosen, len(self.gradients))
        tasks = [
            self._pool.submit(one_pass, weights or self.weights, gradient, part, learns)
            for gradient, part in zip(self.gradients, parts, strict=True)
        ]
        return np.asarray(sum(task.result() for task in tasks) / len(chosen))

    def step(self, rate: float, samples: int) -> None:
        """Makes one step of Adam with the mean gradient of `samples` samples."""
        self.steps += 1
        corrections = float32(1 - 0.9**self.steps), float32(1 - 0.999**self.steps)
        threads = len(self.gradients)

        def move(part: int) -> None:
            for at, name in enumerate(self.weights._fields):
                arrays = (self.weights, self.first, self.second, *self.gradients)
                flat = [array[at].reshape(-1) for array in arrays]
                size = flat[0].size
                weights, first, second, gradient, *others = (
                    a[size * part // threads : size * (part + 1) // threads] for a in flat
                )
                for other in others:
                    move_sums(other, gradient)
                scale, limit = float32(1 / samples), float32(LIMITS.get(name, LIMIT))
                adam(weights, gradient, first, second, scale, float32(rate), corrections, limit)

        list(self._pool.map(move, range(threads)))


def rate_at(step: int, steps: int, rate: float) -> float:
    """Returns the learning rate of a step: a warm-up, then half a cosine.

    >>> rate_at(0, 1000, 1.0), round(rate_at(1000, 1000, 1.0), 3)
    (0.005, 0.02)
    """
    cosine = 0.5 * (1 + np.cos(np.pi * step / steps))
    return rate * min(1.0, (step + 1) / WARM_UP) * float(LAST_RATE + (1 - LAST_RATE) * cosine)


def steady_rate(step: int, rate: float) -> float:
    """Returns the learning rate of a step: a warm-up, then constant, so that training can go on at any time.

    >>> steady_rate(0, 1.0), steady_rate(1000, 1.0)
    (0.005, 1.0)
    """
    return rate * min(1.0, (step + 1) / WARM_UP)


def cooling_rate(done: float, rate: float) -> float:
    """Returns the learning rate after a share `done` of the cooling phase.

    >>> cooling_rate(0, 1.0), cooling_rate(0.25, 1.0), cooling_rate(1, 1.0)
    (1.0, 0.5, 0.0)
    """
    return float(rate * (1 - np.sqrt(min(done, 1.0))))


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def move_average(kept: Any, new: Any, share: Any) -> None:
    """Moves a flat array by a share towards another."""
    for i in range(kept.size):
        kept[i] += share * (new[i] - kept[i])


@dataclass(frozen=True)
class Plan:
    """The parameters of a training run. `kept`: number of last samples, held out.

    The held-out samples are whole games: positions of one game are so similar that random samples would not
    be independent of the learned ones.
    """

    epochs: float
    batch: int
    rate: float
    kept: int
    seed: int


def learn(
    learner: Learner, one_pass: Pass, count: int, plan: Plan, say: Callable[[str], None]
) -> NDArray[np.float64]:
    """Learns from `count` samples in random order; returns the mean figures of the held-out ones."""
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
