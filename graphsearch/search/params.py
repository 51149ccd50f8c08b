"""The parameters of a search, and the limits on how long it runs. Both are frozen values."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..base.errors import InvalidParameterError
from ..base.limits import SECONDS, WHOLE, shortened

AUTO, AUTO_TEXT = 0, "auto"  # the evaluator's batch size; 0 as in lc0's MinibatchSize
GATHERERS = ("classic", "budget", "flow")
CLASSIC, BUDGET, FLOW = range(len(GATHERERS))  # numbers of the gatherers in kernels
MAX_BATCH = 1 << 20
MAX_COLLISIONS = 10**9
LARGEST = 1e12  # of a parameter, and 1 / the least: scores stay far from the limits of double precision
MAX_LIMIT = WHOLE.most  # of visits and evaluations

Range = tuple[Callable[[Any], bool], str]
POSITIVE: Range = (lambda x: 1 / LARGEST <= x <= LARGEST, f"{1 / LARGEST:.0e} to {LARGEST:.0e}")
NOT_NEGATIVE: Range = (lambda x: 0 <= x <= LARGEST, f"0 to {LARGEST:.0e}")
COLLISIONS: Range = (lambda x: 1 <= x <= MAX_COLLISIONS, f"1 to {MAX_COLLISIONS}")
SHARE: Range = (lambda x: 0 < x <= 1, "above 0, at most 1")
BATCH: Range = (lambda x: 0 <= x <= MAX_BATCH, f"1 to {MAX_BATCH}, or auto")
RATIO: Range = (lambda x: x >= 1, "a number of at least 1")
SWITCH: Range = (lambda x: x in (0, 1), "0 or 1")
GATHERER: Range = (lambda x: x in GATHERERS, f"one of {', '.join(GATHERERS)}")


def _option(default: Any, option: str, allowed: Range) -> Any:
    """Returns a field of `SearchParams` with its name in options, and its allowed values."""
    return field(default=default, metadata={"option": option, "allowed": allowed})


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchParams:
    """The parameters of one search. Names and defaults follow lc0 where the meaning is the same.

    Attributes:
      cpuct: exploration constant, > 0 (`CPuct`).
      cpuct_base: number of visits at which exploration begins to grow, > 0 (`CPuctBase`):
        `c(N) = CPuct + CPuctFactor * ln((N + CPuctBase) / CPuctBase)`.
      cpuct_factor: growth of the exploration constant, >= 0 (`CPuctFactor`).
      fpu_value: an unvisited edge counts as `Q - FpuValue * sqrt(sum of visited P)`, >= 0.
      decided_from: where |Q| of a node is above this, exploration shrinks with 1 - Q^2; in (0, 1], 1 switches
        that off, as in lc0 (`DecidedFrom`).
      minibatch_size: leaves gathered for one evaluation, >= 1; 1 is plain sequential PUCT. AUTO: as many as
        the evaluator wants (`Evaluator.batch_size`); a search has 1 wherever the evaluator is a kernel.
      catch_up_ratio: a visit of an edge ends without evaluation if its child's N exceeds this many times the
        edge's n + 1 (the visit itself counts), >= 1; `inf` switches catch-up off. From 1 to 5 no difference
        could be measured at equal evaluations (docs/contributing/benchmarks.md); 1 reuses the most visits.
      max_wave_share: `flow`: every node has at most this share of its own N in flight, but one visit always;
        in (0, 1].
      gather: how a wave is filled, one of `GATHERERS`; with batches of 1 all are the same.
      max_collision_events: `classic`: number of collisions that ends a wave, >= 1.
      max_collision_visits: most visits that collisions may count, >= 1: in a wave of `classic`; in `budget`,
        for every 256 leaves of the batch.
      overlap: 1: gather the next wave while an evaluator outside the kernels evaluates one; 0: wait for it.
    """

    cpuct: float = _option(1.745, "CPuct", POSITIVE)
    cpuct_base: float = _option(38739.0, "CPuctBase", POSITIVE)
    cpuct_factor: float = _option(3.894, "CPuctFactor", NOT_NEGATIVE)
    fpu_value: float = _option(0.33, "FpuValue", NOT_NEGATIVE)
    decided_from: float = _option(0.7, "DecidedFrom", SHARE)
    minibatch_size: int = _option(AUTO, "MinibatchSize", BATCH)
    catch_up_ratio: float = _option(1.0, "CatchUpRatio", RATIO)
    max_wave_share: float = _option(0.25, "MaxWaveShare", SHARE)
    gather: str = _option("flow", "Gather", GATHERER)
    max_collision_events: int = _option(32, "MaxCollisionEvents", COLLISIONS)
    max_collision_visits: int = _option(9999, "MaxCollisionVisits", COLLISIONS)
    overlap: int = _option(1, "Overlap", SWITCH)

    def __post_init__(self) -> None:
        for one in dataclasses.fields(self):
            value, option = getattr(self, one.name), one.metadata["option"]
            if one.name not in TEXTS:
                check_value(_is_number(value), option, value, "a number")
            if one.name in WHOLE_NUMBERS:
                check_value(_is_whole(value), option, value, "a whole number")
            holds, expected = one.metadata["allowed"]
            check_value(holds(value), option, value, expected)

    @classmethod
    def from_options(cls, options: Iterable[str] = (), **fields: Any) -> SearchParams:
        """Returns parameters from `NAME=VALUE` texts, names as in `OPTION_NAMES` (any case).

        Raises:
          InvalidParameterError: if a name is unknown, or a value is not a number in range.

        >>> SearchParams.from_options(["CPuct=2", "minibatchsize=64"]).cpuct
        2.0
        """
        known = {option.lower(): option for option in OPTION_NAMES}
        for given in options:
            name, sign, text = map(str.strip, given.partition("="))
            option = known.get(name.lower())
            if not sign:
                raise InvalidParameterError(f"a parameter must be NAME=VALUE, not {shortened(given)!r}")
            if option is None:
                names = ", ".join(OPTION_NAMES)
                raise InvalidParameterError(f"unknown parameter {shortened(name)!r}; known are {names}")
            field = OPTION_NAMES[option]
            fields[field] = text.lower() if field in TEXTS else _number(option, text)
        return cls(**fields)

    def with_batch(self, wanted: int) -> SearchParams:
        """Returns the parameters with a batch of `wanted` leaves in place of AUTO.

        >>> SearchParams().with_batch(32).minibatch_size
        32
        >>> SearchParams(minibatch_size=4).with_batch(32).minibatch_size
        4
        """
        return dataclasses.replace(self, minibatch_size=self.minibatch_size or wanted)

    def as_dict(self) -> dict[str, float | int | str]:
        """Returns `{option name: value}`, as stored with every search."""
        values = {option: getattr(self, name) for option, name in OPTION_NAMES.items()}
        return values | {"MinibatchSize": self.minibatch_size or AUTO_TEXT}


OPTION_NAMES: Mapping[str, str] = {
    one.metadata["option"]: one.name for one in dataclasses.fields(SearchParams)
}
WHOLE_NUMBERS, TEXTS = (
    [one.name for one in dataclasses.fields(SearchParams) if one.type == kind] for kind in ("int", "str")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of a search: it stops at the first one reached. Without any limit, it runs until `stop` is set.

    A limit counts this search's additions to the graph.

    Attributes:
      visits: root visits to add, >= 1.
      evaluations: evaluations to pay for, >= 1.
      seconds: wall time, > 0.
    """

    visits: int | None = None
    evaluations: int | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        for name in ("visits", "evaluations"):
            value = getattr(self, name)
            good = value is None or (_is_whole(value) and 1 <= value <= MAX_LIMIT)
            check_value(good, name, value, "a whole number from 1 to 10**18")
        good = self.seconds is None or (_is_number(self.seconds) and 0 < self.seconds <= SECONDS.most)
        check_value(good, "time", self.seconds, f"a number of seconds above 0, at most {SECONDS.most:,}")

    def as_dict(self) -> dict[str, float | int]:
        """Returns the limits that are set, as stored with every search."""
        return {k: v for k, v in dataclasses.asdict(self).items() if v is not None}


LEAST_RAM = 8 * 10**6


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value == value


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def check_value(ok: bool, name: str, found: object, expected: str) -> None:
    """Raises InvalidParameterError unless a given value is what it must be."""
    if not ok:
        raise InvalidParameterError(f"{name} must be {expected}, not {found!r}")


def _number(name: str, text: str) -> float | int:
    if name == "MinibatchSize" and text.lower() == AUTO_TEXT:
        return AUTO
    whole = OPTION_NAMES[name] in WHOLE_NUMBERS
    try:
        value = int(text) if whole else float(text)
    except ValueError:
        kind = "a whole number" if whole else "a number"
        raise InvalidParameterError(f"{name} must be {kind}, not {shortened(text)!r}") from None
    check_value(value == value, name, text, "a number")
    return value
