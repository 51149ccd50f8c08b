"""Blocks out of the file and into it: many in one step of SQLite, during which other threads run."""

from __future__ import annotations

import sqlite3
from itertools import accumulate, pairwise

import numpy as np
from numpy.typing import NDArray

from .tables.columns import MAX_BLOCK_BYTES

Places = NDArray[np.int64]

# one row for all: each row that SQLite hands over costs two changes of Python's lock, which a thread that
# writes meanwhile makes slow; a BLOB among text keeps its bytes
_BY_ID = """
SELECT CAST(group_concat(CAST(b.data AS TEXT), '') AS BLOB), group_concat(length(b.data)), group_concat(b.id)
FROM json_each(?) AS wanted CROSS JOIN block AS b ON b.id = wanted.value
WHERE typeof(b.data) = 'blob' AND length(b.data) <= ?
"""

_ONE = "SELECT data FROM block WHERE id = ? AND typeof(data) = 'blob' AND length(data) <= ?"

# likewise; a place is offset << 20 | length
_INSERT = """
INSERT INTO block SELECT ? + key, substr(?, (value >> 20) + 1, value & 1048575) FROM json_each(?)
"""


def insert(connection: sqlite3.Connection, first: int, data: bytes, ends: list[int]) -> None:
    """Writes blocks as the rows from `first` on; `ends` tells where in `data` each ends."""
    places = ",".join(str(a << 20 | b - a) for a, b in pairwise([0, *ends]))
    connection.execute(_INSERT, (first, data, f"[{places}]"))


def fetch(connection: sqlite3.Connection, ids: Places) -> tuple[NDArray[np.uint8], Places]:
    """Returns the data of blocks one behind the other, with 8 bytes more, and where each ends.

    A block that is missing, too large or no BLOB, or that SQLite cannot read where it can read others, is
    empty.

    Args:
      connection: in a read transaction.
      ids: `[blocks]` rows of `block`.

    Raises:
      sqlite3.Error: if none can be read.
    """
    wanted = ",".join(map(str, ids.tolist()))
    try:
        data, lengths, found = connection.execute(_BY_ID, (f"[{wanted}]", MAX_BLOCK_BYTES)).fetchone()
    except sqlite3.DatabaseError:
        return _one_by_one(connection, ids)
    if found != wanted or not data:
        return _one_by_one(connection, ids)
    ends = np.cumsum(np.array(lengths.split(","), np.int64)) if wanted else np.zeros(0, np.int64)
    if ends[-1] != len(data):
        return _one_by_one(connection, ids)
    return np.frombuffer(bytearray().join((data, bytes(8))), np.uint8), ends


def _one_by_one(connection: sqlite3.Connection, ids: Places) -> tuple[NDArray[np.uint8], Places]:
    blocks: list[bytes] = []
    failure: sqlite3.DatabaseError | None = None
    for row in ids.tolist():
        try:
            found = connection.execute(_ONE, (row, MAX_BLOCK_BYTES)).fetchone()
            blocks.append(found[0] if found else b"")
        except sqlite3.DatabaseError as error:
            failure = error
            blocks.append(b"")
    if failure is not None and not any(blocks):
        raise failure
    ends = np.fromiter(accumulate(map(len, blocks)), np.int64, len(blocks))
    return np.frombuffer(bytearray().join((*blocks, bytes(8))), np.uint8), ends
