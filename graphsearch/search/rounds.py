"""The visits of a round of `flow`; compiled into kernels, and called from Python."""

from __future__ import annotations

from typing import Any

MAX_ROUNDS = 60


def next_budget(asked: Any, leaves: Any, target: Any, allowed: Any) -> Any:
    """Returns the visits of the next round of a wave, within `allowed`.

    It covers the missing leaves: half as many visits again as the rate so far requires; where less than every
    other visit found a leaf, at least half of all visits so far.

    >>> next_budget(0, 0, 100, 1000), next_budget(100, 60, 100, 1000), next_budget(100, 60, 100, 120)
    (100, 101, 20)
    """
    lacking = target - leaves
    budget = lacking
    if 2 * leaves < asked:
        budget = max(lacking, asked // 2)
    elif asked:
        budget = lacking * 3 * asked // (2 * leaves) + 1
    return min(budget, allowed - asked)
