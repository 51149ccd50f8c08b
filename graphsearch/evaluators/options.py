"""Options of evaluators: readers that turn the text of an option into its value."""

from __future__ import annotations

import math
from collections.abc import Callable

from ..base.errors import InvalidParameterError
from ..base.limits import DIGITS, shortened

MAX_WORKERS = 1024
WORKERS = "workers"
CHECKS = {"true": True, "on": True, "1": True, "false": False, "off": False, "0": False}

Value = int | float | bool | str
Reader = Callable[[str, str], Value]  # of an option's name and its text; raises InvalidParameterError


def whole(least: int, most: int) -> Reader:
    """Returns the reader of a whole number.

    >>> whole(1, 9)("nodes", "10")
    Traceback (most recent call last):
    graphsearch.base.errors.InvalidParameterError: nodes must be a whole number from 1 to 9, not '10'
    """

    def read(name: str, text: str) -> int:
        digits = text.isascii() and text.isdigit() and len(text) <= DIGITS.most
        if not (digits and least <= int(text) <= most):
            raise InvalidParameterError(
                f"{name} must be a whole number from {least} to {most}, not {shortened(text)!r}"
            )
        return int(text)

    return read


def number(least: float, most: float) -> Reader:
    """Returns the reader of a number."""

    def read(name: str, text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not least <= value <= most:
            raise InvalidParameterError(
                f"{name} must be a number from {least:g} to {most:g}, not {shortened(text)!r}"
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


TEMPERATURE, THREADS = number(0.1, 10), whole(0, 1024)
BUILTIN = {"PolicyTemperature": TEMPERATURE, "threads": THREADS}
LC0 = BUILTIN | {
    "history": choice("line", "position"),
    "device": lambda name, text: text.lower(),
    "policy_head": word,
    "value_head": word,
}
UCI = {  # the evaluator's own; it passes others on to the engine
    "nodes": whole(1, 10**12),
    "depth": whole(0, 200),
    "policy_depth": whole(1, 200),
    "PolicyTemperature": number(0.005, 10),
    "timeout": number(0.01, 86400),
    "reproducible": truth,
}
