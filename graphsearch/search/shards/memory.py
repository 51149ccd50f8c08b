"""A shard's place in a search, and the memory of its waves."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...store.sharded.ownership import Owners
from .. import wave_kernel as wave
from ..leaves import Answer
from . import connections_kernel
from . import messages_kernel as m
from .messages_kernel import ShardArrays
from .part import Traffic

FIRST_WORDS = 1 << 10  # of a message, at first
GHOSTS_PER_ENTRY = 4  # untouched pages cost nothing
GHOST_BYTES = GHOSTS_PER_ENTRY * wave.ENTRY_WORDS * 8  # for each entry
COUNTED = ("steps", "messages", "bytes", "rows", "entry_levels", "visit_levels")  # of `Traffic`, by kernels
COUNTERS = (m.T_STEPS, m.T_MESSAGES, m.T_BYTES, m.T_ROWS, m.T_ENTRIES, m.T_VISITS)  # the same in `tallies`


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardContext:
    """A shard's number, the number of shards, the owners, the leader, and the connections to the others.

    Attributes:
      leader: the shard that owns the root.
      connections: `[shards, CONNECTION_FIELDS]`, sockets to the others, which the caller keeps open.
      tries: polls for messages before Python waits for them.
    """

    number: int
    shards: int
    owners: Owners
    leader: int
    connections: NDArray[np.int64]
    tries: int = 0

    @property
    def leads(self) -> bool:
        """Whether this shard owns the root."""
        return self.number == self.leader


@dataclass(slots=True)
class Gathered:
    """A gathered wave that is not completed yet.

    Attributes:
      heads: last arrival of each depth. depth: its deepest level.
      asked: visits that it asked for. leaves: of all shards.
      answer: of other threads that evaluate this shard's leaves.
    """

    wave: wave.WaveArrays
    heads: NDArray[np.int64]
    depth: int = 0
    asked: int = 0
    leaves: int = 0
    answer: Answer | None = None


def new_arrays(place: ShardContext, root: NDArray[np.uint64], entries: int) -> ShardArrays:
    """Returns the arrays of a shard with waves of up to `entries` entries."""
    counts = np.zeros(m.COUNTS, np.int64)
    counts[[m.OWN, m.SHARDS, m.LEADER]] = place.number, place.shards, place.leader
    counts[m.TRIES] = place.tries
    counts[[m.IN_ROOM, m.OUT_ROOM]] = FIRST_WORDS
    return ShardArrays(
        owners=place.owners,
        root=root,
        order=np.empty(entries, np.int64),
        spare=np.empty(entries, np.int64),
        candidates=np.empty(entries, np.int64),
        sizes=np.zeros(place.shards, np.int64),
        places=np.zeros(place.shards, np.int64),
        heads=np.full(wave.MAX_PLIES + 2, -1, np.int64),
        connections=place.connections.reshape(-1),
        system=connections_kernel.system_calls(),
        inbox=np.zeros(place.shards * FIRST_WORDS, np.uint64),
        out=np.zeros(place.shards * FIRST_WORDS, np.uint64),
        tallies=np.zeros(m.TALLIES, np.int64),
        counts=counts,
    )


def with_ghosts(w: wave.WaveArrays, ghosts: int = 0) -> wave.WaveArrays:
    """Returns a wave with room for `ghosts` ghosts behind its entries, or `GHOSTS_PER_ENTRY` per entry."""
    ghosts = ghosts or GHOSTS_PER_ENTRY * len(w.candidates)
    entries = np.empty((len(w.candidates) + ghosts) * wave.ENTRY_WORDS, np.uint64)
    used = min(len(w.entries), len(entries)) if w.counts[wave.ENTRIES] else 0
    entries[:used] = w.entries[:used]
    return w._replace(entries=entries)


class Tally:
    """Counts the traffic of a shard: kernels count messages, this class times phases."""

    def __init__(self, tallies: NDArray[Any]) -> None:
        """Creates it over the array of the kernels' counters."""
        self._tallies, self._seconds = tallies, Traffic()

    @property
    def traffic(self) -> Traffic:
        """The traffic so far."""
        counted: dict[str, Any] = dict(zip(COUNTED, self._tallies[list(COUNTERS)].tolist(), strict=True))
        waited, evaluated = self._elsewhere
        evaluating = self._seconds.evaluating + evaluated
        return replace(self._seconds, waiting=waited, evaluating=evaluating, **counted)

    @property
    def _elsewhere(self) -> tuple[float, float]:
        """Seconds waited for other shards, and seconds of evaluations meanwhile."""
        return float(self._tallies[m.T_WAITED]) / 1e9, float(self._tallies[m.T_EVALUATED]) / 1e9

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Adds the time of the body to a phase, without its waiting."""
        began, elsewhere = time.perf_counter(), sum(self._elsewhere)
        try:
            yield
        finally:
            spent = time.perf_counter() - began - (sum(self._elsewhere) - elsewhere)
            setattr(self._seconds, name, getattr(self._seconds, name) + spent)
