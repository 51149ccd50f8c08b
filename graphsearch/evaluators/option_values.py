"""Parses and checks the values of evaluator options."""

from __future__ import annotations

from collections.abc import Mapping

from ..base.errors import InvalidParameterError
from ..base.limits import DIGITS, shortened

MAX_THREADS = 1024
MAX_WORKERS = 1024
WORKERS = "workers"

Options = Mapping[str, str]


def temperature(options: Options, default: float) -> float:
    """Returns PolicyTemperature."""
    text = options.get("PolicyTemperature", str(default))
    try:
        value = float(text)
    except ValueError:
        raise InvalidParameterError(f"PolicyTemperature must be a number, not {text!r}") from None
    if not 0.1 <= value <= 10:
        raise InvalidParameterError(f"PolicyTemperature must be from 0.1 to 10, not {text}")
    return value


def history(options: Options) -> str:
    """Returns the option `history`, one of `HISTORIES`: which previous plies a network gets as input."""
    from .lc0.evaluator import DEFAULT_HISTORY, HISTORIES

    text = options.get("history", DEFAULT_HISTORY)
    if text.lower() not in HISTORIES:
        raise InvalidParameterError(f"history must be {' or '.join(HISTORIES)}, not {shortened(text)!r}")
    return text.lower()


def threads(options: Options) -> int:
    """Returns the number of CPU threads, 0 for all cores."""
    return _whole(options, "threads", 0, MAX_THREADS) or 0


def workers(options: Options) -> int | None:
    """Returns the number of processes, None if the option is missing."""
    return _whole(options, WORKERS, 1, MAX_WORKERS)


def _whole(options: Options, name: str, least: int, most: int) -> int | None:
    """Returns the value of an integer option, None if it is missing."""
    text = options.get(name)
    if text is None:
        return None
    digits = text.isascii() and text.isdigit() and len(text) <= DIGITS.most
    if not (digits and least <= int(text) <= most):
        found = shortened(text)
        raise InvalidParameterError(f"{name} must be a whole number from {least} to {most}, not {found!r}")
    return int(text)
