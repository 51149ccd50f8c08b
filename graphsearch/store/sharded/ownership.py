"""The owner shard of a position: the top bits of its mixed key select it in a table of virtual shards.

    key of the position -> mixed -> top 12 bits: virtual shard, 0 to 4,095 -> table of the manifest -> shard

With the table, shards can move to other machines or grow in number without a new hash.
"""

from __future__ import annotations

import chess
import numpy as np
from numpy.typing import NDArray

from ...position.board import key_of

VIRTUAL_BITS = 12
VIRTUAL_SHARDS = 1 << VIRTUAL_BITS
MIXER = 0x9E3779B97F4A7C15  # 2 ** 64 / golden ratio: Knuth's multiplicative hash
MAX_SHARDS = 256
_U64 = (1 << 64) - 1

Owners = NDArray[np.int64]


def virtual_shard(key: int) -> int:
    """Returns the virtual shard of a key.

    >>> virtual_shard(0x463B96181691FC9C), virtual_shard(0)
    (3378, 0)
    """
    return ((key * MIXER) & _U64) >> (64 - VIRTUAL_BITS)


def even_owners(shards: int) -> Owners:
    """Returns the table that divides the virtual shards evenly among `shards` shards, `[4096]`.

    >>> even_owners(3)[[0, 1365, 1366, 4095]].tolist()
    [0, 0, 1, 2]
    """
    return np.arange(VIRTUAL_SHARDS, dtype=np.int64) * shards // VIRTUAL_SHARDS


def owners_of(keys: NDArray[np.uint64], owners: Owners) -> NDArray[np.int64]:
    """Returns the owner shard of each key."""
    return owners[((keys * np.uint64(MIXER)) >> np.uint64(64 - VIRTUAL_BITS)).astype(np.int64)]


def owner_of(board: chess.Board, owners: Owners) -> int:
    """Returns the owner shard of a position."""
    return int(owners[virtual_shard(key_of(board))])
