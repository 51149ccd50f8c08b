"""How the figures of a phase grow from the first size to the last, and which grow too much."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from .plan import PHASES, SHARDED_PHASES, Measured

MOST_GROWTH = 1.5  # of a figure for each node, from the first size to the last
OVERHEAD_BYTES = 256_000_000  # of a program with its kernels, beside the budget
LEAST_US = 0.01  # times below are not compared
LEAST_BYTES = 1.0  # a node; fewer are not compared

TIME, CPU, WRITTEN, MEMORY, STALL, LOG = "time", "cpu", "written", "memory", "stall", "log"
FIGURES = (TIME, CPU, WRITTEN, MEMORY, STALL, LOG)
BY_UNIT = (TIME, CPU, WRITTEN)  # divided by nodes or calls; the others are as they are


@dataclass(frozen=True, slots=True)
class Verdict:
    """One figure of one phase at all sizes.

    Attributes:
      phase, unit: what, and for each what.
      figure: `time` and `cpu` (microseconds a unit), `written` (bytes a unit), `memory` (peak bytes), `stall`
        (seconds), `log` (bytes).
      nodes: the sizes. values: at each; None where it is not told.
      growth: of the value from the first size to the last; of one that no unit divides, as it is. None with
        one size, or if it is too small to be compared.
      flagged: whether it grows too much: by more than 1.5 a unit, or memory beyond the budget.
    """

    phase: str
    unit: str
    figure: str
    nodes: tuple[int, ...]
    values: tuple[float | None, ...]
    growth: float | None
    flagged: bool

    def as_dict(self) -> dict[str, Any]:
        """Returns it as JSON takes it."""
        return asdict(self)


def verdicts(rows: Iterable[Measured], ram_bytes: int) -> list[Verdict]:
    """Returns every figure of every phase, figure by figure, phases in their order."""
    of_phase: dict[str, list[Measured]] = {}
    for row in rows:
        of_phase.setdefault(row.phase, []).append(row)
    return [
        _verdict(figure, sorted(of_phase[phase], key=lambda row: row.nodes), ram_bytes)
        for figure in FIGURES
        for phase in dict.fromkeys((*PHASES, *SHARDED_PHASES))
        if phase in of_phase
    ]


def _verdict(figure: str, rows: Sequence[Measured], ram_bytes: int) -> Verdict:
    values = tuple(value_of(figure, row) for row in rows)
    growth = _growth(figure, values)
    if figure in BY_UNIT:
        flagged = growth is not None and growth > MOST_GROWTH
    else:
        flagged = figure == MEMORY and any((value or 0) > ram_bytes + OVERHEAD_BYTES for value in values)
    nodes = tuple(row.nodes for row in rows)
    return Verdict(rows[0].phase, rows[0].unit, figure, nodes, values, growth, flagged)


def value_of(figure: str, row: Measured) -> float | None:
    """Returns a figure of a row, divided by its nodes or calls where `BY_UNIT` says so."""
    value = {
        TIME: 1e6 * row.seconds,
        CPU: 1e6 * row.cpu_seconds,
        WRITTEN: row.written_bytes,
        MEMORY: row.peak_rss,
        STALL: row.longest_stall_s,
        LOG: row.log_bytes,
    }[figure]
    if value is None:
        return None
    return value / row.units if figure in BY_UNIT else float(value)


def _growth(figure: str, values: Sequence[float | None]) -> float | None:
    """Returns the last value divided by the first.

    >>> _growth("time", [0.5, 0.6, 0.7]), _growth("written", [0.0, 0.2]), _growth("log", [7.0])
    (1.4, None, None)
    """
    first, last = values[0], values[-1]
    least = LEAST_BYTES if figure == WRITTEN else LEAST_US if figure in (TIME, CPU) else 0.0
    if len(values) < 2 or first is None or last is None or max(first, last) <= least:
        return None
    return round(last / max(first, least), 2) if max(first, least) else None
