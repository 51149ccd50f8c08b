"""Where a shard stands in a search: what it needs to know of the others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..store.sharded.ownership import Owners


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Which shard this is, of how many, who owns what, who leads, and how it reaches the others.

    Attributes:
      leader: the shard that owns the root.
      lines: `[shards, LINE_FIELDS]`, sockets to the others, which somebody else keeps open.
      tries: times to look for messages before Python waits for them.
    """

    number: int
    shards: int
    owners: Owners
    leader: int
    lines: NDArray[np.int64]
    tries: int = 0

    @property
    def leads(self) -> bool:
        """Whether this shard owns the root."""
        return self.number == self.leader
