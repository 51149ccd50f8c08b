"""The well-visited positions as plain rows, `top_position` and `top_edge`: each row follows from its record.

    append, rewrite    touch(keys of changed records)
    COMMIT             follow: the listed ones among them are rendered anew, in the same transaction

So whatever ends a transaction, a row says what the record of its position says.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import chess
import numpy as np
from numpy.typing import NDArray

from ...errors import CorruptRecordError, InvalidPositionError
from ...position.board import fen_of, key_of_text, key_text, legal_moves, pack
from ...position.notation import board_from_fen
from ...position.values import wdl_from_q
from ..order import identities
from ..record.node import Edge, NodeRecord, RecordBatch
from ..record.ranking import edge_of, node_mean, ranking, resets_of
from .column import KEY
from .rows import insert

Row = dict[str, Any]
Rows = Sequence[Mapping[str, Any]]
Read = Callable[[chess.Board], NodeRecord | None]

POSITION_COLUMNS = ("key", "fen", "n", "q", "win", "draw", "loss", "best_move")
EDGE_COLUMNS = ("key", "move", "san", "n", "p", "q", "draw")
_ALONE = "key NOT IN (SELECT key FROM top_position)"  # moves of a position that is not listed
_MENDS = "`graphsearch refresh` mends it"
TOLERANCE = 1e-6  # of shares and values, when rows are compared with records: another machine may round


class Shown(NamedTuple):
    """A position as rows: one of `top_position`, and one of `top_edge` for each visited move."""

    position: Row
    edges: list[Row]

    def by_move(self) -> dict[str, Row]:
        """Returns the rows of the moves, whose order means nothing in the file."""
        return {row["move"]: row for row in self.edges}

    def says_the_same(self, other: Shown | None) -> bool:
        """Returns whether other rows are these."""
        return other is not None and (self.position, self.by_move()) == (other.position, other.by_move())


def rows_of(record: NodeRecord, board: chess.Board) -> Shown:
    """Returns the rows of a position, visited moves best first."""
    key, fen, moves, ranked = key_text(board), fen_of(board), [], []
    if record.codes:
        moves = legal_moves(board)
        ranked = ranking(record, board.halfmove_clock, resets_of(record, board, moves))
    order, priors = record.order, record.priors if record.codes else []
    q, d = node_mean(record)
    wdl = wdl_from_q(q, d)
    position = {
        "key": key,
        "fen": fen,
        "n": record.visits,
        "q": q,
        "win": wdl.win,
        "draw": wdl.draw,
        "loss": wdl.loss,
        "best_move": moves[order[ranked[0]]].uci() if ranked else None,
    }
    visited = [(k, edge_of(record, k)) for k in ranked]
    names = _names(fen)
    edges = [
        _edge(key, *_named(names, board, moves[order[k]]), edge, priors[order[k]])
        for k, edge in visited
        if edge.n
    ]
    return Shown(position, edges)


@lru_cache(maxsize=1024)
def _names(fen: str) -> dict[str, str]:
    """Returns the SAN of the moves of a position by their UCI, as far as it is known; `_named` fills it.

    A search renders the same positions with every save, and SAN took two thirds of that.
    """
    return {}


def _named(names: dict[str, str], board: chess.Board, move: chess.Move) -> tuple[str, str]:
    """Returns a move in UCI and SAN."""
    uci = move.uci()
    return uci, names.get(uci) or names.setdefault(uci, board.san(move))


def _edge(key: str, uci: str, san: str, edge: Edge, prior: float) -> Row:
    return {
        "key": key,
        "move": uci,
        "san": san,
        "n": edge.n,
        "p": prior,
        "q": edge.value,
        "draw": wdl_from_q(edge.value, edge.draws).draw,
    }


class TopTables:
    """The two tables of one file that is open."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._listed: NDArray[np.uint64] | None = None  # keys of `_names`, several of which may have one
        self._names: list[str] = []
        self._touched: dict[str, NodeRecord | None] = {}

    def touch(self, keys: NDArray[np.uint64] | None, batch: RecordBatch | None = None) -> None:
        """Notes that records changed, by their keys, whose rows `follow` then renders; None: any may have.

        Args:
          keys: of the records.
          batch: the records as they are now, if they are at hand: then `follow` need not read them.
        """
        if self._listed is None:
            self._names = [key for key in self._keys() if KEY.holds(key)]
            self._listed = np.array([key_of_text(key) for key in self._names], np.uint64)
        if keys is None:
            self._connection.execute(f"DELETE FROM top_edge WHERE {_ALONE}")  # noqa: S608 (a constant)
        hit = np.ones(len(self._listed), np.bool_) if keys is None else np.isin(self._listed, keys)
        self._touched.update(dict.fromkeys(self._names[i] for i in np.flatnonzero(hit).tolist()))
        if keys is not None and batch is not None:
            places = {int(keys[i]): i for i in np.flatnonzero(np.isin(keys, self._listed[hit])).tolist()}
            for name in (self._names[i] for i in np.flatnonzero(hit).tolist()):
                self._touched[name] = batch.record(places[key_of_text(name)])

    def follow(self, read: Read) -> None:
        """Renders the rows of what was touched; a position without a record leaves the tables."""
        for key, record in sorted(self._touched.items()):
            stored = self._stored(key)
            found = _rendered(stored.position, _reading(record, read)) if stored else None
            if found is None:
                self._remove(key)
            elif not found.says_the_same(stored):
                self._write(found)
        self._touched.clear()

    def forget(self) -> None:
        """Forgets what was noted, after the transaction was rolled back."""
        self._listed = None
        self._touched.clear()

    def write(self, positions: Rows, edges: Rows) -> None:
        """Replaces the rows of these positions; those that say the same already stay untouched."""
        found = {row["key"]: Shown(dict(row), []) for row in positions}
        for row in edges:
            found[row["key"]].edges.append(dict(row))
        for key, rows in found.items():
            if not rows.says_the_same(self._stored(key)):
                self._write(rows)
            self._touched.pop(key, None)
        self._listed = None

    def faults(self, read: Read) -> Iterator[str]:
        """Yields what the rows say and the records do not: a line for each position."""
        for key in self._keys():
            stored = self._stored(key)
            if stored and (fault := _fault(stored, read)):
                yield f"table top_position, row key {key}: {fault}; {_MENDS}"
        alone = f"SELECT DISTINCT key FROM top_edge WHERE {_ALONE}"  # noqa: S608 (a constant)
        for (key,) in self._connection.execute(alone).fetchall():
            yield f"table top_edge, row key {key}: the table top_position has no such position; {_MENDS}"

    def _keys(self) -> list[str]:
        return [key for (key,) in self._connection.execute("SELECT key FROM top_position ORDER BY key")]

    def _stored(self, key: str) -> Shown | None:
        """Returns the rows of a position as they are."""
        positions = list(self._rows("top_position", POSITION_COLUMNS, key))
        return Shown(positions[0], list(self._rows("top_edge", EDGE_COLUMNS, key))) if positions else None

    def _rows(self, table: str, columns: Sequence[str], key: str) -> Iterator[Row]:
        statement = f"SELECT {', '.join(columns)} FROM {table} WHERE key = ?"  # noqa: S608 (constants)
        for row in self._connection.execute(statement, (key,)):
            yield dict(zip(columns, row, strict=True))

    def _remove(self, key: str) -> None:
        for table in ("top_edge", "top_position"):
            self._connection.execute(f"DELETE FROM {table} WHERE key = ?", (key,))  # noqa: S608 (constants)

    def _write(self, found: Shown) -> None:
        self._remove(found.position["key"])
        for table, names, rows in (
            ("top_position", POSITION_COLUMNS, [found.position]),
            ("top_edge", EDGE_COLUMNS, found.edges),
        ):
            insert(self._connection, table, names, [tuple(row[name] for name in names) for row in rows])


def _reading(record: NodeRecord | None, read: Read) -> Read:
    """Returns what reads a position's record: the given one, if it is of that position."""

    def known(board: chess.Board) -> NodeRecord | None:
        if record is None:
            return read(board)
        words = np.array([pack(board), record.words], np.uint64)
        first, second = identities(words)
        return record if (first == second).all() else read(board)

    return known


def _rendered(row: Row, read: Read) -> Shown | None:
    """Returns the rows of a position as its record has them now, None if it has none that can be read."""
    try:
        board = board_from_fen(str(row["fen"]))
        record = read(board)
    except (InvalidPositionError, CorruptRecordError):
        return None
    if record is None:
        return None
    found = rows_of(record, board)
    return found if found.position["key"] == row["key"] else None


def _fault(stored: Shown, read: Read) -> str:
    """Returns how the rows of a position differ from its record; empty if they do not."""
    found = _rendered(stored.position, read)
    if found is None:
        return "the file has no record of its position"
    if fault := _difference(stored.position, found.position):
        return fault
    listed, visited = stored.by_move(), found.by_move()
    if listed.keys() != visited.keys():
        move = min(listed.keys() ^ visited.keys())
        return f"top_edge {'lacks' if move in visited else 'has'} {move}, against its record"
    differences = ((move, _difference(row, visited[move])) for move, row in listed.items())
    return next((f"{move} in top_edge: {fault}" for move, fault in differences if fault), "")


def _difference(row: Row, its: Row) -> str:
    """Returns the first column in which a row differs from what its record says; empty if none does."""
    for name, value in its.items():
        here = row[name]
        if isinstance(value, float) and isinstance(here, float):
            same = math.isclose(here, value, rel_tol=0.0, abs_tol=TOLERANCE)
        else:
            same = here == value
        if not same:
            return f"{name} is {here}, its record says {value}"
    return ""
