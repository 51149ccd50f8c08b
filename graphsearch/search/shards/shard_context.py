"""A shard's place in a search: its number, the owners of positions, and its lines to the others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...store.sharded.ownership import Owners


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardContext:
    """A shard's number, the number of shards, the owners, the leader, and the lines to the others.

    Attributes:
      leader: the shard that owns the root.
      lines: `[shards, LINE_FIELDS]`, sockets to the others, which the caller keeps open.
      tries: polls for messages before Python waits for them.
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
