"""The formulas of PUCT, each once. Plain Python; `visit_kernel.py` compiles these same functions.

    S_a = E_a + c(N) o(Q) P_a sqrt(max(1, sum n)) / (1 + n_a + inflight_a)
    c(N) = CPuct + CPuctFactor ln((N + CPuctBase) / CPuctBase)
    o(Q) = min(1, (1 - Q^2) / (1 - DecidedFrom^2))
    E_a = ((n_a - r_a) q_a + r_a draw) / n_a with draw = 0
    FPU = Q - FpuValue sqrt(sum of visited P), in place of E where n = 0

The names are lc0's except DecidedFrom: in lc0 o(Q) is 1. Double precision throughout; the stored numbers are
float32.
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


LEAST_OPEN = 0.005  # 1 - Q^2 counts as at least this


def least_decided(decided_from: float) -> float:
    """Returns 1 - DecidedFrom^2, at least LEAST_OPEN: where DecidedFrom is 1, `openness` is 1 everywhere.

    >>> least_decided(0.5), least_decided(1.0)
    (0.75, 0.005)
    """
    return max(1.0 - decided_from * decided_from, LEAST_OPEN)


def openness(q: float, decided: float) -> float:
    """Returns o(Q), the factor of exploration: below 1 in a decided position.

    Args:
      q: of the node. decided: `least_decided`.

    >>> openness(0.5, 0.51), round(openness(-0.99, 0.51), 3)
    (1.0, 0.039)
    """
    return min(1.0, max(1.0 - q * q, LEAST_OPEN) / decided)


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
