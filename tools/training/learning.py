"""What learning either network shares: Adam, the schedule of steps, how weights become integers."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numba import njit
from numpy import float32
from numpy.typing import NDArray

from graphsearch.evaluators.builtin import layout
from graphsearch.evaluators.builtin.weights import INT32_ROOM, Networks
from tools.value_training import F32, OPTIONS

WARM_UP = 200  # steps
LAST_RATE = 0.02  # of the learning rate, at the end
LIMITS = {"rows": 1.98}  # of magnitudes; sums of 32 rows must fit into int16
LIMIT = 8.0  # of all others
FULL_RANGE = 30_000  # of int16 that last layers use at most
FINEST = 512.0  # integers that 1 becomes in a last layer, at most


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def adam(p: Any, g: Any, m: Any, v: Any, rate: Any, first: Any, second: Any, limit: Any) -> None:
    """Makes one step of Adam on flat arrays and clears the gradients; `first`, `second`: bias corrections."""
    for i in range(p.size):
        x = g[i]
        g[i] = 0
        m[i] = float32(0.9) * m[i] + float32(0.1) * x
        v[i] = float32(0.999) * v[i] + float32(0.001) * x * x
        y = p[i] - rate * (m[i] / first) / (np.sqrt(v[i] / second) + float32(1e-8))
        p[i] = min(max(y, -limit), limit)


@dataclass
class Learner:
    """A network with its gradients and Adam's moments.

    Attributes:
      weights: by name, in the order in which the kernel takes them.
    """

    weights: dict[str, F32]
    steps: int = 0
    gradients: dict[str, F32] = field(init=False)
    _first: dict[str, F32] = field(init=False)
    _second: dict[str, F32] = field(init=False)

    def __post_init__(self) -> None:
        self.gradients, self._first, self._second = (
            {name: np.zeros_like(array) for name, array in self.weights.items()} for _ in range(3)
        )

    def arrays(self) -> list[F32]:
        """Returns weights, then gradients."""
        return [*self.weights.values(), *self.gradients.values()]

    def step(self, rate: float) -> None:
        """Moves the weights against their gradients."""
        self.steps += 1
        corrections = float32(1 - 0.9**self.steps), float32(1 - 0.999**self.steps)
        for name in self.weights:
            flat = [a[name].reshape(-1) for a in (self.weights, self.gradients, self._first, self._second)]
            adam(*flat, float32(rate), *corrections, float32(LIMITS.get(name, LIMIT)))


def rate_at(step: int, steps: int, rate: float) -> float:
    """Returns the learning rate of a step: a warm-up, then half a cosine.

    >>> rate_at(0, 1000, 1.0), round(rate_at(1000, 1000, 1.0), 3)
    (0.005, 0.02)
    """
    cosine = 0.5 * (1 + np.cos(np.pi * step / steps))
    return rate * min(1.0, (step + 1) / WARM_UP) * float(LAST_RATE + (1 - LAST_RATE) * cosine)


def learn(
    learner: Learner,
    one_pass: Callable[[NDArray[np.int64], bool], tuple[float, ...]],
    count: int,
    *,
    epochs: float,
    batch: int,
    rate: float,
    kept: int,
    seed: int,
    say: Callable[[str], None],
) -> tuple[float, ...]:
    """Learns from `count` samples in random order; returns what `one_pass` says of those kept back.

    Args:
      one_pass: of indices of samples and whether to learn, returns the loss and other means.
      kept: samples that are never learned from.
    """
    rng = np.random.default_rng(seed)
    order = rng.permutation(count)
    held, order = order[:kept], order[kept:]
    steps = max(1, int(epochs * len(order) / batch))
    begin = time.process_time()
    at = 0
    for step in range(steps):
        if at + batch > len(order):
            order, at = rng.permutation(order), 0
        one_pass(order[at : at + batch], True)
        at += batch
        learner.step(rate_at(step, steps, rate))
        if (step + 1) % max(1, steps // 20) == 0 or step + 1 == steps:
            speed = (step + 1) * batch / (time.process_time() - begin)
            found = " ".join(f"{x:.4f}" for x in one_pass(held, False))
            say(f"{step + 1}/{steps}: {found} ({speed:,.0f} samples per CPU-second)")
    return one_pass(held, False)


# ------------------------------------------------------------------ integers
def _integers(array: F32, unit: float) -> NDArray[np.int16]:
    return np.clip(np.round(array * unit), -32767, 32767).astype("<i2")


def _unit(most: float, largest_sum: float) -> float:
    """Returns the integers that 1 becomes, so that numbers fit into 16 bits and sums of products into 32."""
    return min(FINEST, FULL_RANGE / max(most, 1e-9), 0.98 * INT32_ROOM / max(largest_sum, 1e-9))


def quantised(value: dict[str, F32], policy: dict[str, F32], card: dict[str, Any]) -> Networks:
    """Returns the networks as the evaluator reads them."""
    full = float(layout.FULL)
    last = value["last"]
    units = np.array(
        [
            _unit(float(np.abs(last[:, k]).max()), float(np.abs(last[:, k]).sum(axis=(1, 2)).max()))
            for k in range(layout.OUTPUTS)
        ]
    )
    tables = [policy[name] for name in ("leaves", "goes", "kinds")]
    unit = _unit(
        max(float(np.abs(t).max()) for t in tables), max(float(np.abs(t).sum(axis=1).max()) for t in tables)
    )
    arrays: dict[str, NDArray[Any]] = {
        "value_rows": _integers(value["rows"], full),
        "value_bias": _integers(value["bias"], full),
        "value_out": _integers(last * units[None, :, None, None].astype(np.float32), 1.0),
        "value_plain": np.concatenate([value["plain"], (1 / (full**2 * units))[None]]).astype("<f4"),
        "policy_rows": _integers(policy["rows"], full),
        "policy_bias": _integers(policy["bias"], full),
        "from": _integers(policy["leaves"], unit),
        "to": _integers(policy["goes"], unit),
        "class": _integers(policy["kinds"], unit),
        "class_plain": np.append(policy["plain"], 1 / (full**2 * unit)).astype("<f4"),
    }
    widths = {"value_width": len(value["bias"]), "policy_width": len(policy["bias"])}
    return Networks(arrays, {**widths, **card})
