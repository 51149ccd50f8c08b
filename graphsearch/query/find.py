"""Finds positions by their records: one scan of the file on all cores, portion by portion."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from ..base.answer import Answer
from ..base.errors import InvalidParameterError, check_least
from ..position.board import key_text_of_words, unpack
from ..position.fens import fens
from ..position.values import cp_of
from ..store.codec.bulk import take
from ..store.file import sql_errors
from ..store.portions import in_file_order, portion_streams
from ..store.record.node import RecordBatch
from ..store.record.ranking import best_move, node_mean
from ..store.scanning import Portion
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
    """Yields the positions that satisfy all conditions, in the order of the file.

    A position that a search adds or changes meanwhile is reported in its old or its new state.

    Args:
      path: the graph file; it is only read.
      limit: end after so many positions.
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

        streams = portion_streams(store, lambda portion: _hits(portion, filters))
        batches = in_file_order([counted(stream) for stream in streams])
        yield from islice((found for hits in batches for found in _found_in(hits, tables)), limit)


def _hits(portion: Portion, filters: Filters) -> tuple[int, RecordBatch]:
    """Returns the number of records, and those that satisfy the conditions on records; for any thread."""
    batch, newest = portion.versions()
    return len(newest), take(batch, newest[filters.mask(batch)[newest]])


def _found_in(hits: RecordBatch, tables: _Tables) -> Iterator[Found]:
    if not len(hits):
        return
    plies: dict[str, int | None] = {}
    if tables.asked:
        keys = [key_text_of_words(words) for words in hits.words]
        plies = tables.passing(keys)
        hits = take(hits, np.nonzero([key in plies for key in keys])[0])
    for i, fen in enumerate(fens(hits.words) if len(hits) else ()):
        yield _found(hits, i, fen, plies)


def _found(hits: RecordBatch, i: int, fen: str, plies: dict[str, int | None]) -> Found:
    record = hits.record(i)
    board = unpack(record.words)
    best = best_move(record, board)
    q, draw = node_mean(record)
    key = key_text_of_words(hits.words[i])
    return Found(
        position=fen,
        key=key,
        n=record.visits,
        q=q,
        cp=cp_of(q, draw),
        bounds=record.bounds,
        best_move=board.san(best) if best else None,
        ply=plies.get(key),
    )


class _Tables:
    """Facts from the tables of games and books about positions.

    Attributes:
      asked: whether any condition needs them.
    """

    def __init__(self, store: Store, filters: Filters) -> None:
        self._store = store
        self._filters = filters
        self.asked = filters.asks_tables
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

    def passing(self, keys: Sequence[str]) -> dict[str, int | None]:
        """Returns the keys of the positions that pass, with their ply; None if no table has it."""
        wanted = json.dumps(list(keys))
        games = self._ask(
            "SELECT key, ply FROM game_position WHERE key IN (SELECT value FROM json_each(?))",
            (wanted,),
            "game_position.key",
            "game_position.ply",
        )
        books = self._ask(
            "SELECT key, min(ply) FROM book_position"
            " WHERE key IN (SELECT value FROM json_each(?1)) AND (?2 IS NULL OR book = ?2) GROUP BY key",
            (wanted, self._book),
            "book_position.key",
            "book_position.ply",
        )
        asked = self._filters
        found: dict[str, int | None] = {}
        for key in keys:
            known = [table[key] for table in (games, books) if key in table]
            ply = min(known) if known else None
            if (asked.in_games and key not in games) or (asked.in_book is not None and key not in books):
                continue
            if _is_between(ply, asked.min_ply, asked.max_ply):
                found[key] = ply
        return found


def _is_between(ply: int | None, low: int | None, high: int | None) -> bool:
    if low is None and high is None:
        return True
    return ply is not None and (low is None or ply >= low) and (high is None or ply <= high)
