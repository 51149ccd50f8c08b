"""Finds positions by their records: one scan of the file on all cores, portion by portion."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..base.answer import Answer
from ..base.errors import InvalidParameterError, check_least
from ..position.board import unpack
from ..position.fens import fens, key_texts
from ..position.values import cp_of
from ..store.codec.bulk import take
from ..store.file import sql_errors
from ..store.record.node import NodeRecord, RecordBatch
from ..store.record.ranking import best_move, node_mean, visits_of
from ..store.scanning import Portion, in_file_order, portion_streams
from ..store.sharded.files import open_to_read
from ..store.store import Store
from ..store.tables.rows import checked
from .diff import OnProgress
from .filters import Filters


@dataclass(frozen=True, slots=True)
class Found(Answer):
    """A position that satisfies the conditions.

    Attributes:
      position: FEN, move number 1. key: as `key_text` has it.
      n: node N. q, cp: node Q, seen by the side to move. bounds: proven lower and upper result.
      best_move: SAN, None without moves.
      ply: fewest half-moves from the start of a game, by the tables of games and books; None unless a
        condition needs it.
    """

    position: str
    key: str
    n: int
    q: float
    cp: int
    bounds: tuple[int, int]
    best_move: str | None
    ply: int | None


def find(
    path: str | os.PathLike[str],
    filters: Filters,
    *,
    limit: int | None = None,
    on_progress: OnProgress | None = None,
) -> Iterator[Found]:
    """Yields the positions that satisfy all conditions, as they are read, in the order of the file.

    With a limit it reads the whole file first, and yields the positions with most visits, these first. If
    reading fails, or `on_progress` raises an error, it yields those of the part that was read, then raises.
    A position that a search adds or changes meanwhile is reported in its old or its new state.

    Args:
      path: the graph file; it is only read.
      limit: most positions; None for all.
      on_progress: called with the records read and all records.

    Raises:
      InvalidParameterError: if the limit is below 1, or there is no such book.
      CorruptRecordError: if a block is damaged.
      StoreError: if the file cannot be read.
    """
    check_least(1, limit=limit)
    with open_to_read(path) as store:
        tables, done = _Tables(store, filters), 0

        def counted(stream: Iterator[tuple[int, RecordBatch]]) -> Iterator[RecordBatch]:
            """Yields the hits of a file, and counts the records read with them."""
            nonlocal done
            for size, hits in stream:
                yield hits
                done += size
                if on_progress:
                    on_progress(done, max(done, store.node_count))

        most = None if filters.asks_tables else limit
        streams = portion_streams(store, lambda portion: _hits(portion, filters, most))
        batches = in_file_order([counted(stream) for stream in streams])
        if limit is None:
            for batch in batches:
                yield from _found_in(batch, tables)
        else:
            yield from _most_visited_of(batches, limit, tables)


def _hits(portion: Portion, filters: Filters, most: int | None) -> tuple[int, RecordBatch]:
    """Returns the number of records, and the most visited ones that satisfy the conditions on records.

    It may be called on any thread.
    """
    batch, newest = portion.versions()
    return len(newest), _most_visited(take(batch, newest[filters.mask(batch)[newest]]), most)


def _most_visited(batch: RecordBatch, most: int | None) -> RecordBatch:
    """Returns the `most` records with most visits, in their order; all for None."""
    if most is None or len(batch) <= most:
        return batch
    return take(batch, np.sort(_by_visits(batch)[:most]))


def _by_visits(batch: RecordBatch) -> NDArray[np.int64]:
    return np.argsort(-visits_of(batch), kind="stable")


def _most_visited_of(batches: Iterator[RecordBatch], most: int, tables: _Tables) -> Iterator[Found]:
    """Yields the `most` positions with most visits; if reading fails, those before, then raises."""
    top, fault = RecordBatch.concat([]), None
    try:
        for batch in batches:
            top = _most_visited(RecordBatch.concat([top, tables.passing(batch)[0]]), most)
    except Exception as error:
        fault = error
    yield from _found_in(take(top, _by_visits(top)), tables)
    if fault:
        raise fault


def _found_in(hits: RecordBatch, tables: _Tables) -> Iterator[Found]:
    """Yields the positions of the records that satisfy the conditions on tables."""
    hits, plies = tables.passing(hits)
    if len(hits):
        facts = zip(fens(hits.words), key_texts(hits.words), plies, strict=True)
        for i, (fen, key, ply) in enumerate(facts):
            yield _found(hits.record(i), fen, key, ply)


def _found(record: NodeRecord, fen: str, key: str, ply: int | None) -> Found:
    board = unpack(record.words)
    best = best_move(record, board)
    q, draw = node_mean(record)
    return Found(
        position=fen,
        key=key,
        n=record.visits,
        q=q,
        cp=cp_of(q, draw),
        bounds=record.bounds,
        best_move=board.san(best) if best else None,
        ply=ply,
    )


class _Tables:
    """Facts from the tables of games and books about positions."""

    def __init__(self, store: Store, filters: Filters) -> None:
        self._store = store
        self._filters = filters
        self._book = self._book_number()

    def _book_number(self) -> int | None:
        """Returns the number of the requested book, None for any."""
        name = self._filters.in_book
        if not name:
            return None
        rows = self._ask("SELECT name, id FROM book", (), "book.name", "book.id")
        if name not in rows:
            there = f"there are {', '.join(rows)}" if rows else "it has none"
            raise InvalidParameterError(f"{self._store.path} has no book {name!r}; {there}")
        return int(rows[name])

    def _ask(self, statement: str, values: Sequence[object], *columns: str) -> dict[Any, Any]:
        with sql_errors(self._store.path, "read it"):
            return dict(checked(self._store.connection.execute(statement, values), *columns))

    def passing(self, hits: RecordBatch) -> tuple[RecordBatch, list[int | None]]:
        """Returns the records that satisfy the conditions on tables, in their order, and their plies.

        A ply is None if no table has the position, or if no condition needs plies.
        """
        asked = self._filters
        if not asked.asks_tables or not len(hits):
            return hits, [None] * len(hits)
        games, books = self._known(keys := key_texts(hits.words))
        plies = [min((of[key] for of in (games, books) if key in of), default=None) for key in keys]
        passes = [
            (key in games or not asked.in_games)
            and (key in books or asked.in_book is None)
            and _is_between(ply, asked.min_ply, asked.max_ply)
            for key, ply in zip(keys, plies, strict=True)
        ]
        return take(hits, np.flatnonzero(passes)), list(compress(plies, passes))

    def _known(self, keys: Sequence[str]) -> tuple[dict[str, int], dict[str, int]]:
        """Returns the plies of the positions in games, and of those in books, by key."""
        wanted = json.dumps(keys)
        games = self._ask(
            "SELECT key, ply FROM game_position WHERE key IN (SELECT value FROM json_each(?))",
            (wanted,),
            "game_position.key",
            "game_position.ply",
        )
        books = self._ask(
            "SELECT key, min(ply) FROM book_position"
            " WHERE key IN (SELECT value FROM json_each(?)) AND book = coalesce(?, book) GROUP BY key",
            (wanted, self._book),
            "book_position.key",
            "book_position.ply",
        )
        return games, books


def _is_between(ply: int | None, low: int | None, high: int | None) -> bool:
    if low is None and high is None:
        return True
    return ply is not None and (low is None or ply >= low) and (high is None or ply <= high)
