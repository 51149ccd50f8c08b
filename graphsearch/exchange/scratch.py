"""What a walk remembers, in a temporary SQLite file: positions met, who leads to them, and their moves.

Positions have ids in the order in which they are met, so those not visited yet are the ids behind the last
visited one, and no list of them is kept. A position is known by 16 bytes: the Polyglot key, big-endian, so
that their order is that of a Polyglot book, and 8 bytes of a hash of the whole position, its clock above 75
included. Two positions with one Polyglot key stand side by side, and are two.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

from ..errors import ExportError
from ..position.board import POSITION_WORDS
from ..position.words import KEY
from ..store.connection import connect
from ..store.order import identities

CACHE_KIB = 8 << 10
KEY_BYTES = 8

_TABLES = """
CREATE TABLE node (
  id INTEGER PRIMARY KEY, identity BLOB NOT NULL UNIQUE, depth INTEGER NOT NULL, ply INTEGER NOT NULL,
  words BLOB NOT NULL, parent INTEGER, san TEXT, soft INTEGER NOT NULL DEFAULT 0,
  n INTEGER, value REAL, own INTEGER NOT NULL DEFAULT 0, mate INTEGER, note TEXT
);
CREATE TABLE edge (
  node INTEGER NOT NULL, rank INTEGER NOT NULL, move INTEGER NOT NULL, san TEXT NOT NULL, n INTEGER NOT NULL,
  p REAL, q REAL, value REAL, cp INTEGER, weight INTEGER NOT NULL, learn INTEGER NOT NULL, child INTEGER,
  PRIMARY KEY (node, rank)
) WITHOUT ROWID;
"""

Words = NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Met:
    """A position that a walk has met, before it is visited.

    Attributes:
      depth: plies below the root. ply: of the position, by its move number. words: packed.
    """

    id: int
    depth: int
    ply: int
    words: Words

    @classmethod
    def of(cls, node: int, depth: int, ply: int, words: bytes) -> Met:
        """Returns the position of a row."""
        return cls(node, depth, ply, np.frombuffer(words, np.uint64, POSITION_WORDS))


@dataclass(frozen=True, slots=True)
class WayIn:
    """One way to a position: its words and identity, and the move that leads there."""

    identity: bytes
    depth: int
    ply: int
    words: bytes
    parent: int | None = None
    san: str | None = None


@dataclass(frozen=True, slots=True)
class KeptEdge:
    """A move as a walk keeps it; `value` is seen by the side that plays it, None if nothing is known.

    `q` and `cp` are those of the search, `value` may be a book's. `child` is None where the position behind
    the move was not met.
    """

    node: int
    rank: int
    move: int
    san: str
    n: int
    p: float | None
    q: float | None
    value: float | None
    cp: int | None
    weight: int
    learn: int
    child: int | None


def identity_of(words: Words) -> list[bytes]:
    """Returns what packed positions, `[R, 10]`, are known by: 16 bytes each."""
    keys = words[:, KEY].astype(">u8").tobytes()
    whole = identities(words).tobytes()
    size = len(whole) // len(words) if len(words) else 0
    return [
        keys[KEY_BYTES * i : KEY_BYTES * (i + 1)]
        + hashlib.blake2b(whole[size * i : size * (i + 1)], digest_size=8).digest()
        for i in range(len(words))
    ]


def _connected(path: Path) -> sqlite3.Connection:
    connection = connect(path, is_ours=True)
    for pragma in ("journal_mode = OFF", "synchronous = OFF", "locking_mode = EXCLUSIVE"):
        connection.execute(f"PRAGMA {pragma}")
    connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
    connection.executescript(_TABLES)
    connection.execute("BEGIN")
    return connection


class Scratch:
    """A temporary file of one walk; closing it removes it. Its errors name it: a full disk ends here."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._remove()
        try:
            self.connection = _connected(path)
        except BaseException as error:  # a signal leaves no file behind either
            self._remove()
            if isinstance(error, sqlite3.Error):
                raise ExportError(f"{path}: cannot make this temporary file: {error}") from None
            raise

    def close(self) -> None:
        """Closes and removes the file."""
        self.connection.close()
        self._remove()

    def __enter__(self) -> Scratch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
        if isinstance(error, sqlite3.Error):
            raise ExportError(f"{self.path}: cannot continue: {error}; free some space") from error

    def _remove(self) -> None:
        for end in ("", "-journal", "-wal", "-shm"):
            self.path.with_name(self.path.name + end).unlink(missing_ok=True)

    # -------------------------------------------------------------- writing
    def add_roots(self, ways: Sequence[WayIn], *, soft: bool) -> None:
        """Adds positions where the walk begins; a soft one may become part of another root's tree."""
        rows = [(w.identity, w.depth, w.ply, w.words, soft) for w in ways]
        self.connection.executemany(
            "INSERT OR IGNORE INTO node (identity, depth, ply, words, soft) VALUES (?, ?, ?, ?, ?)", rows
        )

    def add(self, ways: Sequence[WayIn]) -> None:
        """Adds positions that were not met before; the first way to a position is its owner."""
        rows = [(w.identity, w.depth, w.ply, w.words, w.parent, w.san) for w in ways]
        self.connection.executemany(
            "INSERT OR IGNORE INTO node (identity, depth, ply, words, parent, san) VALUES (?, ?, ?, ?, ?, ?)",
            rows,
        )

    def adopt(self, ways: Sequence[WayIn]) -> None:
        """Hangs soft roots below a move that leads to them, unless they lead to that move themselves."""
        for way in ways:
            found = self.connection.execute(
                "SELECT id FROM node WHERE identity = ? AND soft AND parent IS NULL", (way.identity,)
            ).fetchone()
            if found and way.parent is not None and found[0] not in self.above(way.parent):
                self.connection.execute(
                    "UPDATE node SET parent = ?, san = ? WHERE id = ?", (way.parent, way.san, found[0])
                )

    def keep_node(
        self, node: int, n: int | None, value: float | None, *, own: bool, mate: int | None, note: str | None
    ) -> None:
        """Keeps what a visit to a position found; `mate`: plies to it, as `Seen.mate`."""
        self.connection.execute(
            "UPDATE node SET n = ?, value = ?, own = ?, mate = ?, note = ? WHERE id = ?",
            (n, value, own, mate, note, node),
        )

    def keep_edges(self, edges: Sequence[tuple[KeptEdge, bytes | None]]) -> None:
        """Keeps moves, each with the identity of the position behind it, None if that was not met."""
        rows = [
            (e.node, e.rank, e.move, e.san, e.n, e.p, e.q, e.value, e.cp, e.weight, e.learn, identity)
            for e, identity in edges
        ]
        self.connection.executemany(
            "INSERT INTO edge"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, (SELECT id FROM node WHERE identity = ?))",
            rows,
        )

    # -------------------------------------------------------------- reading
    @property
    def met(self) -> int:
        """How many positions were met."""
        return int(self.connection.execute("SELECT coalesce(max(id), 0) FROM node").fetchone()[0])

    def next(self, after: int, most: int) -> list[Met]:
        """Returns positions met after an id, in order."""
        rows = self.connection.execute(
            "SELECT id, depth, ply, words FROM node WHERE id > ? ORDER BY id LIMIT ?", (after, most)
        )
        return [Met.of(*row) for row in rows]

    def words(self, node: int) -> Words:
        """Returns the packed words of a position."""
        found = self.connection.execute("SELECT words FROM node WHERE id = ?", (node,)).fetchone()[0]
        return np.frombuffer(found, np.uint64, POSITION_WORDS)

    def edges(self, node: int) -> list[KeptEdge]:
        """Returns the moves of a position, best first."""
        rows = self.connection.execute("SELECT * FROM edge WHERE node = ? ORDER BY rank", (node,))
        return [KeptEdge(*row) for row in rows]

    def above(self, node: int | None) -> Iterator[int]:
        """Yields a position and its owners, up to a root."""
        while node is not None:
            yield node
            node = self.connection.execute("SELECT parent FROM node WHERE id = ?", (node,)).fetchone()[0]
