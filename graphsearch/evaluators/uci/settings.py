"""Parses the options of `uci:PROGRAM`: its own, and the engine's, checked against its declarations."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from ...base.errors import InvalidParameterError
from ...base.limits import DIGITS, shortened

if TYPE_CHECKING:
    import chess.engine

    ConfigValue = chess.engine.ConfigValue

MOST_NODES = 10**12
MOST_DEPTH = 200
MOST_WORKERS = 256
MOST_SECONDS = 86400.0

# defaults of engine options, for engines that have them: a large hash makes `ucinewgame` slow, and a book
# move has no score
DEFAULTS: Mapping[str, str] = {"Hash": "16", "Threads": "1", "OwnBook": "false", "UCI_ShowWDL": "true"}
CHECKS = {"true": True, "on": True, "1": True, "false": False, "off": False, "0": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class UciSettings:
    """The settings of the engine's searches.

    Attributes:
      nodes: limit of the search for V.
      depth: limit of the search for V instead of `nodes`; 0 for none.
      policy_depth: depth of the search for P.
      policy_temperature: P is the softmax of the moves' Q divided by it.
      timeout: seconds for one search, and for the answer to `uci`.
      workers: number of engine processes.
      reproducible: start a new game for each position, so that results do not depend on earlier positions.
    """

    nodes: int = 1000
    depth: int = 0
    policy_depth: int = 6
    policy_temperature: float = 0.08
    timeout: float = 30.0
    workers: int = 1
    reproducible: bool = False

    def __post_init__(self) -> None:
        _check("nodes", self.nodes, 1, MOST_NODES)
        _check("depth", self.depth, 0, MOST_DEPTH)
        _check("policy_depth", self.policy_depth, 1, MOST_DEPTH)
        _check("PolicyTemperature", self.policy_temperature, 0.005, 10)
        _check("timeout", self.timeout, 0.01, MOST_SECONDS)
        _check("workers", self.workers, 1, MOST_WORKERS)


def _check(name: str, value: float, least: float, most: float) -> None:
    if not (math.isfinite(value) and least <= value <= most):
        raise InvalidParameterError(f"the option {name} must be from {least:,} to {most:,}, not {value:,}")


def _whole(name: str, text: str) -> int:
    """Returns a whole number, also a negative one: `_check` names the range."""
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= DIGITS.most):
        raise InvalidParameterError(f"the option {name} must be a whole number, not {shortened(text)!r}")
    return int(text)


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidParameterError(f"the option {name} must be a number, not {text!r}") from None


def _truth(name: str, text: str) -> bool:
    if text.lower() not in CHECKS:
        raise InvalidParameterError(f"{name} must be true or false, not {text!r}")
    return CHECKS[text.lower()]


# name of each option -> field of UciSettings, and the parser of its text
OWN: dict[str, tuple[str, Callable[[str, str], int | float | bool]]] = {
    "nodes": ("nodes", _whole),
    "depth": ("depth", _whole),
    "policy_depth": ("policy_depth", _whole),
    "PolicyTemperature": ("policy_temperature", _number),
    "timeout": ("timeout", _number),
    "workers": ("workers", _whole),
    "reproducible": ("reproducible", _truth),
}
assert {field for field, _ in OWN.values()} == {field.name for field in fields(UciSettings)}


def read_options(options: Mapping[str, str]) -> tuple[UciSettings, dict[str, str]]:
    """Splits options into settings and the engine's options; ignores the case of names.

    Raises:
      InvalidParameterError: if a value is invalid, a name occurs twice, or both `nodes` and `depth` are set.

    >>> read_options({"Nodes": "500", "Hash": "64"})[1]
    {'Hash': '64'}
    """
    known = {name.lower(): name for name in OWN}
    values: dict[str, int | float | bool] = {}
    others: dict[str, str] = {}
    for name, text in options.items():
        _once(name, [*others, *(own for own, (field, _) in OWN.items() if field in values)])
        if name.lower() in known:
            field, read = OWN[known[name.lower()]]
            values[field] = read(known[name.lower()], text)
        else:
            others[name] = text
    if "nodes" in values and values.get("depth"):
        raise InvalidParameterError(
            "give either nodes or depth, not both: each of them ends the search for V"
        )
    return UciSettings(**values), others  # type: ignore[arg-type] # each reader gives its field's type


def _once(name: str, before: Iterable[str]) -> None:
    if name.lower() in {other.lower() for other in before}:
        raise InvalidParameterError(f"the option {name} is given twice")


def engine_options(
    declared: Mapping[str, chess.engine.Option], given: Mapping[str, str], label: str
) -> dict[str, ConfigValue]:
    """Returns the options to set in an engine: the given ones and DEFAULTS, under its own names, checked.

    Raises:
      InvalidParameterError: if the engine does not have an option, or does not allow its value.
    """
    names = {name.lower(): name for name in declared}
    found: dict[str, ConfigValue] = {}
    for name, text in given.items():
        own = names.get(name.lower())
        if own is None:
            raise InvalidParameterError(_unknown(name, declared, label))
        found[own] = _value(declared[own], text, label)
    for name, text in DEFAULTS.items():
        own = names.get(name.lower())
        if own is not None and own not in found and declared[own].type in ("check", "spin"):
            found[own] = _default(declared[own], text)
    return found


def _unknown(name: str, declared: Mapping[str, chess.engine.Option], label: str) -> str:
    theirs = ", ".join(sorted(n for n, option in declared.items() if _settable(option))) or "none"
    return f"uci:{label} has no option {name!r}; own options: {', '.join(OWN)}; the engine's: {theirs}"


def _settable(option: chess.engine.Option) -> bool:
    return not option.is_managed() and option.type in ("check", "spin", "combo", "string", "file", "path")


def _value(option: chess.engine.Option, text: str, label: str) -> ConfigValue:
    what = f"the option {option.name} of uci:{label}"
    if option.is_managed():
        raise InvalidParameterError(f"{what} is set by graphsearch itself")
    if not _settable(option):
        raise InvalidParameterError(f"{what} is a {option.type}: it takes no value")
    if option.type == "check":
        return _truth(what, text)
    if option.type == "spin":
        return _spin(option, text, what)
    if option.type == "combo":
        return _combo(option, text, what)
    if "\n" in text or "\r" in text:
        raise InvalidParameterError(f"{what} must be one line, not {text!r}")
    return text


def _spin(option: chess.engine.Option, text: str, what: str) -> int:
    least = -math.inf if option.min is None else option.min
    most = math.inf if option.max is None else option.max
    try:
        value = int(text)
    except ValueError:
        value = None
    if value is None or not least <= value <= most:
        raise InvalidParameterError(
            f"{what} must be a whole number from {least} to {most}, not {shortened(text)!r}"
        )
    return value


def _combo(option: chess.engine.Option, text: str, what: str) -> str:
    choices = {choice.lower(): choice for choice in option.var or []}
    if text.lower() not in choices:
        raise InvalidParameterError(f"{what} must be one of {', '.join(choices.values())}, not {text!r}")
    return choices[text.lower()]


def _default(option: chess.engine.Option, text: str) -> ConfigValue:
    if option.type == "check":
        return CHECKS[text]
    value = int(text)
    value = value if option.min is None else max(value, option.min)
    return value if option.max is None else min(value, option.max)
