"""What a row of `entry_run` or `entry_iteration` must be like; `schema/store.md` has the columns. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..tables import rows

RUN, ITERATION = "entry_run", "entry_iteration"


def fault_of(row: Mapping[str, Any], table: str) -> str | None:
    """Returns what is wrong with a row, None if nothing is.

    Args:
      row: by column. table: RUN or ITERATION.

    >>> row = {"depth": 3, "alpha": -50, "beta": 50, "value": 7, "bound": "exact"}
    >>> fault_of(row, ITERATION), fault_of(row | {"depth": 500}, ITERATION)
    (None, 'depth is 500, expected an integer from 1 to 126')
    >>> fault_of(row | {"value": 60}, ITERATION)
    'value 60 is not exact in the window -50 50'
    """
    fault = rows.fault_of(table, row)
    return fault or _fault_of_bound(row["alpha"], row["beta"], row["value"], row["bound"])


def _fault_of_bound(alpha: int | None, beta: int | None, value: int | None, bound: str | None) -> str | None:
    """Returns what is wrong with a value in its window, None if nothing is, or there is no value."""
    if alpha is None or beta is None or value is None:
        return None
    if alpha >= beta:
        return f"its window is {alpha} {beta}"
    if bound != ("lower" if value >= beta else "upper" if value <= alpha else "exact"):
        return f"value {value} is not {bound or 'known'} in the window {alpha} {beta}"
    return None
