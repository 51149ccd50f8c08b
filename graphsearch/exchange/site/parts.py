"""The data of a site: positions in parts, each a script, because a page in a folder may not fetch files.

`data/N.js` calls `graphsearchPart(N, rows)`. Rows are positions in the order in which the walk met them, each

    [fen, n, q, mate, note, level, state, moves, ways]
    move: [uci, san, child, n, p, q, cp], of a book also value and rule
    way:  [number of the position before, san, n], the shortest way from a root first

`child` is the number of a position, -1 if it is not in the site. q, p and value are in units of 1e-4, seen by
the side to move; `mate` is in plies, negative if that side is mated; null is unknown. `data/site.js` has what
holds for all of them.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...position.board import key_text_of_words
from ...position.fens import fens
from ...query.steps import uci_of
from ...store.store import Store
from ...store.tables.books import book_node
from .. import tables
from ..scratch import KeptEdge, Scratch

SCALE = 10_000
MOST_WAYS = 50  # that are listed of one position

NODE_COLUMNS = "id, depth, ply, words, n, value, mate, note, parent"


@dataclass(frozen=True, slots=True)
class Site:
    """What holds for all positions of a site: `roots` are numbers, each with its FEN; `black`: its view."""

    title: str
    book: str | None
    black: bool
    part_size: int
    positions: int
    roots: tuple[tuple[int, str], ...]


@dataclass(frozen=True, slots=True)
class Row:
    """A position as it is written."""

    fen: str
    n: int | None
    q: float | None
    mate: int | None
    note: str | None
    level: int
    state: str
    moves: list[list[Any]]
    ways: list[list[Any]]

    def as_list(self) -> list[Any]:
        """Returns the row as the page reads it."""
        return [
            self.fen,
            self.n,
            scaled(self.q),
            self.mate,
            self.note or "",
            self.level,
            self.state,
            self.moves,
            self.ways,
        ]


def scaled(value: float | None) -> int | None:
    """Returns a value in units of 1e-4.

    >>> scaled(0.25), scaled(None)
    (2500, None)
    """
    return None if value is None else round(value * SCALE)


def part_text(number: int, rows: Sequence[Row]) -> str:
    """Returns the script of a part, in ASCII."""
    texts = (json.dumps(row.as_list(), separators=(",", ":"), allow_nan=False) for row in rows)
    return f"graphsearchPart({number},[\n" + ",\n".join(texts) + "\n]);\n"


def site_text(site: Site) -> str:
    """Returns the script of what holds for all positions, in ASCII."""
    data = {
        "title": site.title,
        "book": site.book,
        "black": site.black,
        "partSize": site.part_size,
        "positions": site.positions,
        "roots": [number for number, _ in site.roots],
    }
    return f"const SITE = {json.dumps(data)};\n"


class Rows:
    """The positions that a walk kept, in the order in which it met them.

    Args:
      numbers: by the walk's id, the number of each position in the site; -1 if it is not there.
    """

    def __init__(self, store: Store, book: int | None, scratch: Scratch, numbers: array[int]) -> None:
        self._store = store
        self._book = book
        self._scratch = scratch
        self._numbers = numbers
        scratch.connection.execute("CREATE INDEX edge_child ON edge (child)")

    def roots(self) -> Iterator[tuple[int, str]]:
        """Yields the number and the FEN of each root that is in the site."""
        found = self._scratch.connection.execute(
            f"SELECT {NODE_COLUMNS} FROM node WHERE depth = 0 ORDER BY id"  # noqa: S608 (constants)
        )
        for row in found.fetchall():
            if self._numbers[row[0]] >= 0:
                yield self._numbers[row[0]], _fen(row)

    def parts(self, size: int) -> Iterator[list[Row]]:
        """Yields all positions, so many at a time."""
        part: list[Row] = []
        statement = f"SELECT {NODE_COLUMNS} FROM node ORDER BY id"  # noqa: S608 (constants)
        found = self._scratch.connection.execute(statement)
        for row in found:
            if self._numbers[row[0]] >= 0:
                part.append(self._row(row))
            if len(part) == size:
                yield part
                part = []
        if part:
            yield part

    def _row(self, row: Any) -> Row:
        node, depth, _, words, n, value, mate, note, parent = row
        key = _key(words)
        known = book_node(self._store, self._book, key) if self._book is not None else None
        return Row(
            fen=_fen(row),
            n=n,
            q=value,
            mate=mate,
            note=note,
            level=depth,
            state=known[2] if known else "",
            moves=self._moves(node, key),
            ways=self._ways(node, parent),
        )

    def _moves(self, node: int, key: str) -> list[list[Any]]:
        edges = self._scratch.edges(node)
        if self._book is None:
            return [self._move(edge) for edge in edges]
        rules = {move.code: move.rule for move in tables.book_moves(self._store, self._book, key)}
        return [[*self._move(edge), scaled(edge.value), rules.get(edge.move, "")] for edge in edges]

    def _move(self, edge: KeptEdge) -> list[Any]:
        child = -1 if edge.child is None else self._numbers[edge.child]
        return [uci_of(edge.move), edge.san, child, edge.n, scaled(edge.p), scaled(edge.q), edge.cp]

    def _ways(self, node: int, parent: int | None) -> list[list[Any]]:
        """Returns the moves that lead to a position; that of the shortest way first, then by visits."""
        found = self._scratch.connection.execute(
            "SELECT node, san, n FROM edge WHERE child = ? ORDER BY node <> ?, n DESC LIMIT ?",
            (node, parent or 0, MOST_WAYS),
        )
        return [[self._numbers[before], san, n] for before, san, n in found if self._numbers[before] >= 0]


def _key(words: bytes) -> str:
    """Returns the key of a packed position as the tables have it."""
    return key_text_of_words(np.frombuffer(words, np.uint64))


def _fen(row: Any) -> str:
    """Returns the FEN of a kept position, with its move number."""
    text = fens(np.frombuffer(row[3], np.uint64).reshape(1, -1))[0]
    return f"{text.rpartition(' ')[0]} {row[2] // 2 + 1}"
