"""The memory of a shard's waves: its arrays beside the arena, and a gathered wave."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .. import wave_kernel as wave
from ..leaves import Answer
from . import lines_kernel
from . import messages_kernel as m
from .messages_kernel import ShardArrays
from .shard_context import ShardContext

FIRST_WORDS = 1 << 10  # of a message, at first
GHOSTS_PER_ENTRY = 4  # untouched pages cost nothing
GHOST_BYTES = GHOSTS_PER_ENTRY * wave.ENTRY_WORDS * 8  # for each entry


@dataclass(slots=True)
class Gathered:
    """A wave that is gathered and not completed yet.

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
    """Returns the arrays of a shard whose waves have room for so many entries."""
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
        lines=place.lines.reshape(-1),
        system=lines_kernel.system_calls(),
        inbox=np.zeros(place.shards * FIRST_WORDS, np.uint64),
        out=np.zeros(place.shards * FIRST_WORDS, np.uint64),
        tallies=np.zeros(m.TALLIES, np.int64),
        counts=counts,
    )


def with_ghosts(w: wave.WaveArrays, ghosts: int = 0) -> wave.WaveArrays:
    """Returns a wave with room for ghosts behind its entries, so many or `GHOSTS_PER_ENTRY` of each."""
    ghosts = ghosts or GHOSTS_PER_ENTRY * len(w.candidates)
    entries = np.empty((len(w.candidates) + ghosts) * wave.ENTRY_WORDS, np.uint64)
    used = min(len(w.entries), len(entries)) if w.counts[wave.ENTRIES] else 0
    entries[:used] = w.entries[:used]
    return w._replace(entries=entries)
