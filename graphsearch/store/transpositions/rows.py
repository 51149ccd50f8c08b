"""What a row of `entry_run` or `entry_iteration` must be like; `schema/store.md` has the columns. Pure."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

from ...position.scores import FAR, MATE
from ...record.transposition_layout import MOST_DEPTH

BOUNDS = ("exact", "lower", "upper")

Rule = Callable[[Any], bool]


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _within(low: int, high: float) -> Rule:
    return lambda value: isinstance(value, int) and low <= value <= high


def _or_none(rule: Rule) -> Rule:
    return lambda value: value is None or rule(value)


def _is_duration(value: object) -> bool:
    return isinstance(value, int | float) and 0 <= value < math.inf


def _is_key(value: object) -> bool:
    return isinstance(value, str) and len(value) == 16 and set(value) <= set("0123456789abcdef")


def limits_of(text: object) -> dict[str, Any] | None:
    """Returns the limits of a run, None if the text is no object of JSON.

    >>> limits_of('{"depth": 2}'), limits_of("nojson"), limits_of("[]")
    ({'depth': 2}, None, None)
    """
    try:
        found = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


_COUNTS: dict[str, Rule] = dict.fromkeys(("nodes", "hits", "stored_hits"), _within(0, math.inf))
_FOUND: dict[str, Rule] = {
    "depth": _within(1, MOST_DEPTH),
    "alpha": _within(-FAR, FAR),
    "beta": _within(-FAR, FAR),
    "value": _within(-MATE, MATE),
    "bound": BOUNDS.__contains__,
}
_LINE: dict[str, Rule] = {"best_move": _or_none(_is_text), "pv": _is_text, "seconds": _is_duration}
ITERATION: dict[str, Rule] = {
    **_FOUND,
    **_COUNTS,
    **_LINE,
    "cutoffs": _within(0, math.inf),
    "first_cutoffs": _within(0, math.inf),
}
RUN: dict[str, Rule] = {
    **dict.fromkeys(("kind", "started", "fen", "evaluation", "program"), _is_text),
    "finished": _or_none(_is_text),
    "key": _is_key,
    "limits": lambda value: limits_of(value) is not None,
    **{name: _or_none(rule) for name, rule in _FOUND.items()},
    "bound": _or_none(("", *BOUNDS).__contains__),
    **_COUNTS,
    **_LINE,
}


def fault_of(row: Mapping[str, Any], rules: Mapping[str, Rule]) -> str | None:
    """Returns what is wrong with a row, None if nothing is.

    Args:
      row: by column. rules: RUN or ITERATION.

    >>> row = {"depth": 3, "alpha": -50, "beta": 50, "value": 7, "bound": "exact"}
    >>> row |= {"best_move": None, "pv": "", "nodes": 30, "hits": 1, "stored_hits": 0}
    >>> row |= {"cutoffs": 5, "first_cutoffs": 4, "seconds": 0.1}
    >>> fault_of(row, ITERATION), fault_of(row | {"depth": 500}, ITERATION)
    (None, 'depth is 500')
    >>> fault_of(row | {"value": 60}, ITERATION)
    'value 60 is not exact in the window -50 50'
    """
    for name, rule in rules.items():
        if not rule(row[name]):
            return f"{name} is {repr(row[name])[:40]}"
    return _fault_of_bound(row["alpha"], row["beta"], row["value"], row["bound"])


def _fault_of_bound(alpha: int | None, beta: int | None, value: int | None, bound: str | None) -> str | None:
    """Returns what is wrong with a value in its window, None if nothing is, or there is no value."""
    if alpha is None or beta is None or value is None:
        return None
    if alpha >= beta:
        return f"its window is {alpha} {beta}"
    if bound != ("lower" if value >= beta else "upper" if value <= alpha else "exact"):
        return f"value {value} is not {bound or 'known'} in the window {alpha} {beta}"
    return None
