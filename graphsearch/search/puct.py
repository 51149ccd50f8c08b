"""The formulas of PUCT, each once. Plain Python; `puct_kernel.py` compiles these same functions.

    S_a = E_a + c(N) P_a sqrt(max(1, sum n)) / (1 + n_a + inflight_a)
    c(N) = CPuct + CPuctFactor ln((N + CPuctBase) / CPuctBase)
    E_a = ((n_a - r_a) q_a + r_a draw) / n_a with draw = 0
    FPU = Q - FpuValue sqrt(sum of visited P), in place of E where n = 0

The names are lc0's. Double precision throughout; the stored numbers are float32.
"""

from __future__ import annotations

import math


def exploration_term(visits: float, cpuct: float, base: float, factor: float) -> float:
    """Returns c(N) sqrt(max(1, visits)) for the visits spent below a node, N = visits + 1.

    >>> round(exploration_term(0.0, 1.745, 38739.0, 3.894), 4)
    1.7451
    """
    c = cpuct + factor * math.log((visits + 1.0 + base) / base)
    return c * math.sqrt(max(1.0, visits))


def score(value: float, gain: float, mass: float) -> float:
    """Returns S of an edge.

    Args:
      value: E in [-1, 1], seen by the side to move at the node; FPU where n = 0.
      gain: the exploration term, times P.
      mass: 1 + n + visits in flight.

    >>> score(0.25, 0.5, 2.0)
    0.5
    """
    return value + gain / mass


def mean_with_draws(q: float, n: float, r: float) -> float:
    """Returns E of an edge with n visits, r of them path draws.

    >>> mean_with_draws(0.5, 4.0, 1.0)
    0.375
    """
    return (n - r) * q / n


def fpu(q: float, fpu_value: float, visited: float) -> float:
    """Returns the value assumed for an edge without visits.

    Args:
      q: of the node. visited: sum of P over the edges with visits.

    >>> fpu(0.1, 0.33, 0.25)
    -0.065
    """
    return q - fpu_value * math.sqrt(visited)
