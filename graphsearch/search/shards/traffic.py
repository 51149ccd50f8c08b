"""A shard's messages, and how its time is spent."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from numpy.typing import NDArray

from . import messages_kernel as m


@dataclass(slots=True)
class Traffic:
    """A shard's messages, and how its time was spent.

    Attributes:
      steps: times that all shards waited for each other.
      messages: sent to other shards. bytes: of them. rows: visits or bundles sent down.
      entry_levels: entries that were passed on, one for each level. visit_levels: visits of them.
      passing, admitting, evaluating, backing: seconds of the phases of a wave, without waiting.
      waiting: seconds from a message to the answers of all others, sending included, without evaluations
        meanwhile.
    """

    steps: int = 0
    messages: int = 0
    bytes: int = 0
    rows: int = 0
    entry_levels: int = 0
    visit_levels: int = 0
    passing: float = 0.0
    admitting: float = 0.0
    evaluating: float = 0.0
    backing: float = 0.0
    waiting: float = 0.0


class Tally:
    """Counts the traffic of a shard: kernels count messages, this class times phases."""

    def __init__(self, tallies: NDArray[Any]) -> None:
        """Takes the array of the kernels' counters."""
        self._tallies = tallies
        self._seconds = Traffic()

    @property
    def traffic(self) -> Traffic:
        """The traffic so far."""
        names = ("steps", "messages", "bytes", "rows", "entry_levels", "visit_levels")
        at = (m.T_STEPS, m.T_MESSAGES, m.T_BYTES, m.T_ROWS, m.T_ENTRIES, m.T_VISITS)
        counted: dict[str, Any] = {
            name: int(self._tallies[place]) for name, place in zip(names, at, strict=True)
        }
        evaluating = self._seconds.evaluating + self._in_gaps
        return replace(self._seconds, waiting=self._waited, evaluating=evaluating, **counted)

    @property
    def _waited(self) -> float:
        return float(self._tallies[m.T_WAITED]) / 1e9

    @property
    def _in_gaps(self) -> float:
        """Seconds in which leaves were evaluated while waiting for other shards."""
        return float(self._tallies[m.T_EVALUATED]) / 1e9

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Adds the time of the body to a phase, without its waiting."""
        began, elsewhere = time.perf_counter(), self._waited + self._in_gaps
        try:
            yield
        finally:
            spent = time.perf_counter() - began - (self._waited + self._in_gaps - elsewhere)
            setattr(self._seconds, name, getattr(self._seconds, name) + spent)
