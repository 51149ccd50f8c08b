"""Selects moves from a file's tables (book, imported games, imported entries), a thousand positions at once.

A book has its own values, and may have positions that are not in the graph. Without a book, and with weights
from games or entries, the moves come from those tables alone, whatever the graph holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import chess
import numpy as np
from numpy.typing import NDArray

from ..position.board import is_chess960, unpack
from ..position.fens import key_texts
from ..position.values import negate
from ..position.words import BLACK_TO_MOVE, KEY, KINGS, META, ROOKS, WHITE
from ..query.columns import edges_by_move, worth_of_edges
from ..query.steps import Floats, Ints, Mask, Words, code_of, legal_codes
from ..store.file import sql_errors
from ..store.record.node import RecordBatch
from ..store.store import Store
from ..store.tables import games
from ..store.tables.books import asked
from .output import ExportReport
from .selection import Selection

Weights = Literal["n", "q", "minimax", "games", "imported"]

PAGE = 10_000  # entries read in one statement, so that no transaction stays open for long
KEYS_AT_ONCE = 500  # of one statement
NO_COUNT = -1  # no count in the tables: the edge's visits are used instead


class Weight(NamedTuple):
    """The weight of a move in imported games or entries, its learn field, and its number of occurrences."""

    weight: int = 0
    learn: int = 0
    times: int = NO_COUNT


class BookMove(NamedTuple):
    """A move of a book.

    Attributes:
      move: in UCI. child_value: of the position after it, for the side to move there; None before it was
        searched. value: of the move when it was added to the book.
    """

    move: str
    p: float
    value: float | None
    child_value: float | None
    rule: str
    loss: int | None


class BookEntry(NamedTuple):
    """A position of a book: its row of `book_position` without the identifying columns, and its moves."""

    position: Mapping[str, Any]
    moves: Sequence[BookMove]


class TableMoves(NamedTuple):
    """Columns of moves from the tables: P and value (NaN if unknown), weight, and learn field."""

    p: Floats
    value: Floats
    weight: Ints
    learn: Ints


@dataclass(frozen=True, slots=True)
class Moves:
    """Moves of visited positions, best first; those without visits by descending P, before losing ones.

    Attributes:
      of: `[M]` the position. edge: its edge in the batch, -1 without one. index: place in canonical order.
      code: the move. chosen: True if the move is part of the export, False if it is listed without visits.
      in_tables: the moves' columns from the tables; None if the moves come from a search.
    """

    of: Ints
    edge: Ints
    index: NDArray[np.int16]
    code: NDArray[np.uint16]
    chosen: Mask
    in_tables: TableMoves | None = None

    def some(self, rows: Mask) -> Moves:
        """Returns the moves of a mask."""
        old = self.in_tables
        in_tables = old and TableMoves(old.p[rows], old.value[rows], old.weight[rows], old.learn[rows])
        return Moves(
            self.of[rows], self.edge[rows], self.index[rows], self.code[rows], self.chosen[rows], in_tables
        )

    def by_edge(self, values: NDArray[Any]) -> NDArray[Any]:
        """Returns the value of each move's edge, 0 for a move without one."""
        return np.asarray(np.append(values, values.dtype.type(0))[self.edge])  # -1 is the zero at the end


def limited(of: Ints, own: Mask, limits: Selection, report: ExportReport) -> Mask:
    """Returns which moves a selection exports, given the position of each, best first.

    Args:
      own: `[R]` positions with limited moves.
    """
    if limits.max_moves is None:
        return np.ones(len(of), bool)
    sizes = np.bincount(of, minlength=len(own))
    places = np.arange(len(of)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    kept: Mask = ~own[of] | (places < limits.max_moves)
    report.left_out["moves_beyond"] += int((~kept).sum())
    return kept


class TablePosition(NamedTuple):
    """A position of the tables.

    Attributes:
      value: NaN without one. entry: of a book, else None.
      moves: code, P, value, value if the graph has none, weight, learn field and count of each move.
    """

    value: float
    moves: Sequence[tuple[float | None, ...]]
    entry: BookEntry | None = None


Admitted = Callable[[chess.Board], frozenset[str] | None]  # moves of a position in UCI; None: all
Weigh = Callable[[Store, Words], list[dict[int, Weight]]]  # of each position: move code -> weight


class Tables:
    """Looks up positions in the tables of a file; `admitted`: which moves of the book, None for all."""

    def __init__(
        self, store: Store, book: int | None, weigh: Weigh | None, admitted: Admitted | None = None
    ) -> None:
        self._store, self._book, self._weigh, self._admitted = store, book, weigh, admitted
        self.left_out = 0  # moves of the book that its rules no longer admit
        self.are_lines = book is None  # games or imported entries: lines that end at positions without rows

    def look_up(self, words: Words) -> list[TablePosition | None]:
        """Returns positions, `[R, 10]`, as the tables have them, None for one that they lack.

        Raises:
          StoreError: if the tables cannot be read.
        """
        weights = self._weigh(self._store, words) if self._weigh else [{} for _ in words]
        if self._book is None:
            unknown = None, None, None
            rows = ([(code, *unknown, *weight) for code, weight in found.items()] for found in weights)
            return [TablePosition(np.nan, moves) if moves else None for moves in rows]
        keys = key_texts(words)
        there = book_entries(self._store, self._book, keys)
        return [
            self._of_book(there[key], row, found) if key in there else None
            for key, row, found in zip(keys, words, weights, strict=True)
        ]

    def _of_book(
        self, entry: BookEntry, words: NDArray[np.uint64], weights: Mapping[int, Weight]
    ) -> TablePosition:
        """Returns a position of a book with the moves that its rules admit now."""
        admitted = self._admitted(unpack(words.tolist())) if self._admitted and entry.moves else None
        kept = [move for move in entry.moves if admitted is None or move.move in admitted]
        self.left_out += len(entry.moves) - len(kept)
        nothing, moves = Weight(times=0) if self._weigh else Weight(), list[tuple[float | None, ...]]()
        for move in kept:
            code, child = code_of(move.move), move.child_value
            value = None if child is None else negate(child)
            moves.append((code, move.p, value, move.value, *weights.get(code, nothing)))
        value = entry.position.get("value")
        return TablePosition(np.nan if value is None else value, moves, entry._replace(moves=kept))

    def chosen(
        self,
        rows: Sequence[TablePosition],
        batch: RecordBatch,
        legal: NDArray[np.uint16],
        known: Mask,
        own: Mask,
        limits: Selection,
        report: ExportReport,
    ) -> Moves:
        """Returns the moves with enough visits, best first; `legal`: `[R, MAX_MOVES]`, of the positions."""
        of = np.repeat(np.arange(len(rows)), [len(row.moves) for row in rows])
        table = np.array([move for row in rows for move in row.moves], np.float64).reshape(-1, 7)
        code = table[:, 0].astype(np.uint16)
        hits = (legal[of] == code[:, None]) & (code > 0)[:, None]
        found = np.flatnonzero(hits.any(1))
        report.left_out["moves_illegal"] += len(of) - len(found)
        of, code, index = of[found], code[found], hits[found].argmax(1)
        p, value, fallback, weight, learn, count = table[found, 1:].T
        edge = np.full(len(of), -1)
        has = known[of] & (np.diff(batch.code_offsets)[of] > 0)
        edge[has] = edges_by_move(batch)[batch.code_offsets[of[has]] + index[has]]
        n = np.append(batch.n, np.uint32(0))[edge].astype(np.int64)
        edge_value = np.append(worth_of_edges(batch).q, 0.0)[edge]
        value = np.where(np.isnan(value), np.where(n > 0, edge_value, fallback), value)
        if self._book is not None:
            order = np.lexsort((index, -n, -np.nan_to_num(value), np.isnan(value), of))
        else:
            order = np.lexsort((code, -weight, of))
        met = np.where(count == NO_COUNT, n, count)[order]
        enough = met >= max(limits.min_visits, int(self.are_lines))
        report.left_out["moves_few_visits"] += int((~enough).sum())
        order = order[enough]
        order = order[limited(of[order], own, limits, report)]
        in_tables = TableMoves(
            p[order], value[order], weight[order].astype(np.int64), learn[order].astype(np.int64)
        )
        places = index[order].astype(np.int16)
        return Moves(of[order], edge[order], places, code[order], np.ones(len(order), bool), in_tables)


def tables_of(
    store: Store, book: int | None, weights: Weights = "n", admitted: Admitted | None = None
) -> Tables | None:
    """Returns the tables that provide the moves of an export; None if the graph provides them."""
    weigh = {"games": _games_weights, "imported": _entry_weights}.get(weights)
    return None if book is None and weigh is None else Tables(store, book, weigh, admitted)


def _games_weights(store: Store, words: Words) -> list[dict[int, Weight]]:
    """Returns the moves of positions by their points in the imported games."""
    keys = key_texts(words)
    played = games.counts(store, keys)
    white = (words[:, META] & np.uint64(BLACK_TO_MOVE) == 0).tolist()
    return [
        {code_of(row.move): Weight(row.points(turn), 0, row.games) for row in played.get(key, ())}
        for key, turn in zip(keys, white, strict=True)
    ]


def _entry_weights(store: Store, words: Words) -> list[dict[int, Weight]]:
    """Returns the moves of positions by imported entries, summed over the books."""
    keys = [f"{key:016x}" for key in words[:, KEY].tolist()]
    there: dict[str, list[PolyglotRow]] = {}
    for row in _of_keys(store, f"{_ENTRY} WHERE", keys, "ORDER BY key, source, place", (), _CHECKED):
        there.setdefault(row[0], []).append(_entry(row))
    return [_added(row, there.get(key, ())) for key, row in zip(keys, words.tolist(), strict=True)]


def _added(words: Sequence[int], entries: Sequence[PolyglotRow]) -> dict[int, Weight]:
    found: dict[int, Weight] = {}
    for entry in entries:
        code = _entry_code(words, entry.move)
        old = found.get(code, Weight())
        total = old.weight + entry.weight
        found[code] = Weight(total, old.learn or entry.learn, total)
    return found


def _entry_code(words: Sequence[int], uci: str) -> int:
    """Returns the code of an entry's move; castling may be encoded as the king capturing his rook."""
    code = code_of(uci)
    if is_chess960(words):
        return code
    origin, target = code & 63, code >> 6 & 63
    own = words[WHITE + (words[META] & BLACK_TO_MOVE)]
    if words[KINGS] & own & 1 << origin and words[ROOKS] & own & 1 << target:
        code = origin | (origin + (2 if target > origin else -2)) << 6
    return code


def with_moves(batch: RecordBatch, known: Mask) -> RecordBatch:
    """Returns records with all legal moves, including positions without a record in the file."""
    if known.all():
        return batch
    sizes = np.diff(batch.code_offsets)
    sizes[~known] = legal_codes(batch.words[~known])[0]
    codes = np.ones(int(sizes.sum()), np.uint8)
    codes[np.repeat(known, sizes)] = batch.codes
    return replace(batch, codes=codes, code_offsets=np.concatenate([[0], np.cumsum(sizes)]))


# ------------------------------------------------------------------ rows of tables
_POSITION = ("ply", "state", "searches", "n", "value", "outside", "outside_move", "priority")
_BOOK_MOVE = ("key", "move", "p", "value", "value?", "rule", "loss")


def book_entries(store: Store, number: int, keys: Sequence[str]) -> dict[str, BookEntry]:
    """Returns the book entries of positions, by key; leaves out positions that are not in the book."""
    positions = f"SELECT key, {', '.join(_POSITION)} FROM book_position WHERE book = ? AND"  # noqa: S608
    columns = tuple(f"book_position.{name}" for name in ("key", *_POSITION))
    found: dict[str, tuple[Mapping[str, Any], list[BookMove]]] = {
        key: (dict(zip(_POSITION, row, strict=True)), [])
        for key, *row in _of_keys(store, positions, keys, "", (number,), columns)
    }
    moves = (
        "SELECT m.key, m.move, m.p, m.value, c.value, m.rule, m.loss FROM book_move m LEFT JOIN"
        " book_position c ON c.book = m.book AND c.key = m.child WHERE m.book = ? AND m."
    )
    columns = tuple(f"book_{'position' if '?' in name else 'move'}.{name}" for name in _BOOK_MOVE)
    for key, *row in _of_keys(store, moves, keys, "ORDER BY m.key, m.move", (number,), columns):
        if key in found:
            found[key][1].append(BookMove(*row))
    return {key: BookEntry(*entry) for key, entry in found.items()}


def _of_keys(
    store: Store, sql: str, keys: Sequence[str], order: str, values: tuple[Any, ...], columns: tuple[str, ...]
) -> Iterator[Any]:
    """Yields the rows of some keys; `sql` ends just before the key column."""
    wanted = list(dict.fromkeys(keys))
    for first in range(0, len(wanted), KEYS_AT_ONCE):
        some = wanted[first : first + KEYS_AT_ONCE]
        space = "" if sql.endswith(".") else " "
        statement = f"{sql}{space}key IN ({', '.join('?' * len(some))}) {order}"
        yield from asked(store, statement, (*values, *some), *columns)


class PolyglotRow(NamedTuple):
    """A row of `polyglot_entry`; `turn` is the side to move of the position, None if unknown."""

    key: str
    source: int
    place: int
    move: str
    raw_move: int
    weight: int
    learn: int
    turn: chess.Color | None


_ENTRY_COLUMNS = ("key", "source", "place", "move", "raw_move", "weight", "learn", "fen")
_ENTRY = f"SELECT {', '.join(_ENTRY_COLUMNS)} FROM polyglot_entry"  # noqa: S608 (constants)
_CHECKED = tuple(f"polyglot_entry.{name}" for name in _ENTRY_COLUMNS)


def has_rows(store: Store, table: str) -> bool:
    """Returns whether a table has any rows (`game_move`: whether games were imported)."""
    with sql_errors(store.path, "read it"):
        return store.connection.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone() is not None  # noqa: S608


def all_entries(store: Store) -> Iterator[PolyglotRow]:
    """Yields all imported entries by key, source and place; another process may write the file meanwhile."""
    last: tuple[str, int, int] = ("", 0, 0)
    while True:
        rows = asked(
            store,
            f"{_ENTRY} WHERE (key, source, place) > (?, ?, ?) ORDER BY key, source, place LIMIT {PAGE}",
            last,
            *_CHECKED,
        )
        yield from map(_entry, rows)
        if len(rows) < PAGE:
            return
        last = (rows[-1][0], rows[-1][1], rows[-1][2])


def _entry(row: Any) -> PolyglotRow:
    key, source, place, move, raw_move, weight, learn, fen = row
    turn = None if fen is None else fen.split()[1] == "w"
    return PolyglotRow(key, source, place, move, raw_move, weight, learn, turn)
