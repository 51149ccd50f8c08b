"""Options of evaluators: readers that turn the text of an option into its value."""

from __future__ import annotations

import math
from collections.abc import Callable

from ..base.errors import InvalidParameterError
from ..base.limits import shortened

MAX_WORKERS = 1024
WORKERS = "workers"
CHECKS = {"true": True, "on": True, "1": True, "false": False, "off": False, "0": False}

Value = int | float | bool | str
Reader = Callable[[str, str], Value]  # of an option's name and its text; raises InvalidParameterError


def number(kind: type[int] | type[float], least: float, most: float) -> Reader:
    """Returns the reader of a number, or of a whole number.

    >>> number(int, 1, 9)("nodes", "10")
    Traceback (most recent call last):
    graphsearch.base.errors.InvalidParameterError: nodes must be a whole number from 1 to 9, not '10'
    """

    def read(name: str, text: str) -> int | float:
        try:
            value = kind(text)
        except ValueError:
            value = math.nan
        if not least <= value <= most:
            what = "a whole number" if kind is int else "a number"
            raise InvalidParameterError(
                f"{name} must be {what} from {least} to {most}, not {shortened(text)!r}"
            )
        return value

    return read


def choice(*choices: str) -> Reader:
    """Returns the reader of one of some words, in any case."""

    def read(name: str, text: str) -> str:
        if text.lower() not in choices:
            raise InvalidParameterError(f"{name} must be {' or '.join(choices)}, not {shortened(text)!r}")
        return text.lower()

    return read


def truth(name: str, text: str) -> bool:
    """Reads `true` or `false`."""
    if text.lower() not in CHECKS:
        raise InvalidParameterError(f"{name} must be true or false, not {shortened(text)!r}")
    return CHECKS[text.lower()]


def word(name: str, text: str) -> str:
    """Reads any text."""
    return text


TEMPERATURE, THREADS = number(float, 0.1, 10), number(int, 0, 1024)
BUILTIN = {"PolicyTemperature": TEMPERATURE, "threads": THREADS}
LC0 = BUILTIN | {
    "history": choice("line", "position"),
    "device": lambda name, text: text.lower(),
    "policy_head": word,
    "value_head": word,
}
UCI = {  # the evaluator's own; it passes others on to the engine
    "nodes": number(int, 1, 10**12),
    "depth": number(int, 0, 200),
    "policy_depth": number(int, 1, 200),
    "PolicyTemperature": number(float, 0.005, 10),
    "timeout": number(float, 0.01, 86400),
    "reproducible": truth,
}
