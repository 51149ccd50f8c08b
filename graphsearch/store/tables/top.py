"""The well-visited positions as plain rows, `top_position` and `top_edge`: each row derives from its record.

    append, rewrite    touch(changed records)
    COMMIT             follow: renders the listed ones among them again, in the same transaction

So after every transaction, a row agrees with the record of its position.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import compress
from typing import Any, NamedTuple

import chess
import numpy as np
from numpy.typing import NDArray

from ...base.errors import CorruptRecordError, InvalidPositionError
from ...position.board import key_of_text, key_text, legal_moves
from ...position.notation import board_from_fen
from ...position.values import draw_beside, wdl_from_q
from ..ranking import edge_of, node_mean, ranking, resets_of
from ..record import NodeRecord
from .rows import TABLES, fault_of_row, write_row

Row = dict[str, Any]
ReadAll = Callable[[Sequence[chess.Board]], list[NodeRecord | None]]

_POSITION, _EDGE = (tuple(TABLES[name].columns) for name in ("top_position", "top_edge"))
_ALONE = "key NOT IN (SELECT key FROM top_position)"  # moves of a position that is not listed
_MENDS = "`graphsearch lab refresh` mends it"
READ_AT_ONCE = 256  # records
TOLERANCE = 1e-6  # for shares and values of rows and records: another machine may round differently


class Shown(NamedTuple):
    """A position as rows: one of `top_position`, and one of `top_edge` for each visited move, by move."""

    position: Row
    moves: dict[str, Row]


@lru_cache(maxsize=1024)
def _listed(fen: str) -> tuple[chess.Board, str, list[chess.Move]]:
    """Returns position, key and legal moves of a FEN, cached: every save of a search renders the same."""
    board = board_from_fen(fen)
    return board, key_text(board), legal_moves(board)


@lru_cache(maxsize=1 << 14)
def _san(fen: str, uci: str) -> str:
    """Returns the SAN of a legal move; to name moves is most of the work of rendering."""
    board = _listed(fen)[0].copy(stack=False)  # SAN makes moves, and other threads may read the cached board
    return board.san(chess.Move.from_uci(uci))


def rows_of(fen: str, record: NodeRecord) -> Shown:
    """Returns the rows of a position with its record.

    Raises:
      CorruptRecordError: if the record does not have one prior for each move.
      InvalidPositionError: if the FEN is invalid.
    """
    (board, key, legal), ranked = _listed(fen), list[int]()
    if record.codes:
        if len(record.codes) != len(legal):
            raise CorruptRecordError(f"{fen}: {len(record.codes)} priors, not {len(legal)}")
        ranked = ranking(record, board.halfmove_clock, resets_of(record, board, legal))
    order, priors = record.order, record.priors if record.codes else []
    q, d = node_mean(record)
    wdl = wdl_from_q(q, d)
    best = legal[order[ranked[0]]].uci() if ranked else None
    position = (key, fen, record.visits, q, wdl.win, wdl.draw, wdl.loss, best)
    moves: dict[str, Row] = {}
    for k in ranked:
        edge, move = edge_of(record, k), legal[order[k]].uci()
        if edge.n:
            draw = draw_beside(edge.value, edge.draws)
            row = (key, move, _san(fen, move), edge.n, priors[order[k]], edge.value, draw)
            moves[move] = dict(zip(_EDGE, row, strict=True))
    return Shown(dict(zip(_POSITION, position, strict=True)), moves)


class TopTables:
    """The two tables of one open file."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._touched = set[str]()  # keys

    def touch(self, changed: Callable[[NDArray[np.uint64]], NDArray[np.bool_]] | None) -> None:
        """Marks records as changed, so that `follow` renders their rows, now or after the next transaction.

        `changed` returns which records, by their keys, may have changed; None: any.
        """
        names = self._keys(TABLES["top_position"].columns["key"].fits("key"))
        if changed is None:
            self._connection.execute(f"DELETE FROM top_edge WHERE {_ALONE}")  # noqa: S608 (a constant)
            self._touched.update(names)
        elif names:
            keys = np.array([key_of_text(name) for name in names], np.uint64)
            self._touched.update(compress(names, changed(keys)))

    def follow(self, read_all: ReadAll) -> None:
        """Renders the rows of touched positions; deletes those of a position without a record."""
        for stored, found in self._compared(sorted(self._touched), read_all):
            if found is None:
                self._remove(stored.position["key"])
            elif found != stored:
                self._write(found)
        self._touched.clear()

    def _compared(self, keys: Sequence[str], read_all: ReadAll) -> Iterator[tuple[Shown, Shown | None]]:
        """Yields listed positions as they are stored, and as their records have them now."""
        for first in range(0, len(keys), READ_AT_ONCE):
            listed = list(filter(None, map(self._stored, keys[first : first + READ_AT_ONCE])))
            yield from zip(listed, _rendered(listed, read_all), strict=True)

    def write(self, found: Iterable[Shown]) -> None:
        """Replaces the rows of these positions; does not write rows that are equal already."""
        for shown in found:
            key = shown.position["key"]
            if shown != self._stored(key):
                self._write(shown)
            self._touched.discard(key)

    def faults(self, read_all: ReadAll) -> Iterator[str]:
        """Yields a line for each position with rows that disagree with its record, except invalid rows."""
        valid = (
            f"key NOT IN (SELECT key FROM {table} WHERE {fault_of_row(table)} IS NOT NULL)"  # noqa: S608
            for table in ("top_position", "top_edge")
        )
        for stored, found in self._compared(self._keys(" AND ".join(valid)), read_all):
            if not _agree(stored, found):
                key = stored.position["key"]
                yield f"table top_position, row key {key}: it, or its moves, differ from its record; {_MENDS}"
        alone = f"SELECT DISTINCT key FROM top_edge WHERE {_ALONE}"  # noqa: S608 (a constant)
        for (key,) in self._connection.execute(alone).fetchall():
            yield f"table top_edge, row key {key}: the table top_position has no such position; {_MENDS}"

    def _keys(self, where: str = "TRUE") -> list[str]:
        """Returns the keys of the listed positions that satisfy a condition, in order."""
        statement = f"SELECT key FROM top_position WHERE {where} ORDER BY key"  # noqa: S608 (constants)
        return [key for (key,) in self._connection.execute(statement)]

    def _stored(self, key: str) -> Shown | None:
        positions = self._rows("top_position", _POSITION, key)
        moves = {row["move"]: row for row in self._rows("top_edge", _EDGE, key)}
        return Shown(positions[0], moves) if positions else None

    def _rows(self, table: str, columns: tuple[str, ...], key: str) -> list[Row]:
        statement = f"SELECT {', '.join(columns)} FROM {table} WHERE key = ?"  # noqa: S608 (constants)
        return [dict(zip(columns, row, strict=True)) for row in self._connection.execute(statement, (key,))]

    def _remove(self, key: str) -> None:
        for table in ("top_edge", "top_position"):
            self._connection.execute(f"DELETE FROM {table} WHERE key = ?", (key,))  # noqa: S608 (constants)

    def _write(self, found: Shown) -> None:
        self._remove(found.position["key"])
        write_row(self._connection, "top_position", found.position)
        for row in found.moves.values():
            write_row(self._connection, "top_edge", row)


def _rendered(listed: Sequence[Shown], read_all: ReadAll) -> list[Shown | None]:
    """Returns the rows that the records of listed positions give, None for one without a readable record."""
    fens = [str(stored.position["fen"]) for stored in listed]
    try:
        records = read_all([_listed(fen)[0] for fen in fens])
        found = [rows_of(fen, record) if record else None for fen, record in zip(fens, records, strict=True)]
    except (InvalidPositionError, CorruptRecordError):  # of one of them
        return [_rendered([stored], read_all)[0] for stored in listed] if len(listed) > 1 else [None]
    keys = [stored.position["key"] for stored in listed]
    return [one if one and one.position["key"] == key else None for one, key in zip(found, keys, strict=True)]


def _agree(stored: Shown, found: Shown | None) -> bool:
    """Returns whether the rows of a position are those of its record; None: it has none."""
    if found is None or stored.moves.keys() != found.moves.keys():
        return False
    pairs = [(row, found.moves[move]) for move, row in stored.moves.items()]
    pairs.append((stored.position, found.position))
    return all(_is_same(row[name], value) for row, its in pairs for name, value in its.items())


def _is_same(here: object, value: object) -> bool:
    if isinstance(here, float) and isinstance(value, float):
        return math.isclose(here, value, rel_tol=0.0, abs_tol=TOLERANCE)
    return here == value
