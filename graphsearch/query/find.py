"""Finds positions by their records: one scan of the file on all cores, portion by portion."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import compress
from operator import eq, ge, gt, le, lt, ne
from typing import Any

import chess
import numpy as np
from numpy.typing import NDArray

from ..base.answer import Answer
from ..base.errors import InvalidParameterError, check_least
from ..position.board import unpack
from ..position.fens import fens, key_texts
from ..position.values import cp_of
from ..store.apart import ApartMoves
from ..store.file import sql_errors
from ..store.ranking import best_move, node_mean, visits_of
from ..store.record import NodeRecord, RecordBatch, take
from ..store.segment import Portion
from ..store.store import Store
from ..store.tables.rows import query
from .columns import worth_of
from .diff import MostVisited, OnProgress

# ------------------------------------------------------------------ conditions on records
WIN, DRAW, LOSS, PROVEN = "win", "draw", "loss", "proven"
MEN = "men"

_RESULTS = {WIN: 1, DRAW: 0, LOSS: -1}
_LETTERS = "PNBRQK"
_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "<=": le, ">=": ge, "!=": ne, "==": eq, "=": eq, "<": lt, ">": gt,
}  # fmt: skip
_CONDITION = re.compile(rf"({MEN}|[PNBRQKpnbrqk])\s*(<=|>=|!=|==|=|<|>)\s*(\d+)")
_SIGNATURE = re.compile(r"[PNBRQK]+[pnbrqk]+")

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class PieceCount:
    """A condition on the number of men of one kind; `letter` is a FEN letter, or `men` for all."""

    letter: str
    comparison: str
    number: int

    def mask(self, words: NDArray[np.uint64]) -> Mask:
        """Returns a mask of the packed positions that satisfy it, `[R]`."""
        if self.letter == MEN:
            men = words[:, 6] | words[:, 7]
        else:
            side = 6 if self.letter.isupper() else 7
            men = words[:, _LETTERS.index(self.letter.upper())] & words[:, side]
        counted = np.bitwise_count(men).astype(np.int64)
        found: Mask = _COMPARISONS[self.comparison](counted, self.number)
        return found


def read_pieces(text: str) -> tuple[PieceCount, ...]:
    """Returns the conditions of a text such as `P<=4, Q=0`, or of a signature such as `KRPkrp`.

    Letters are FEN letters, White's in capitals; `men` counts all. A signature lists all men of both sides.

    Raises:
      InvalidParameterError: if it is neither; the message names the wrong part.

    >>> read_pieces("Q=0, men<=6")[1]
    PieceCount(letter='men', comparison='<=', number=6)
    >>> len(read_pieces("KRPkrp"))
    12
    """
    parts = [part.strip() for part in text.split(",")]
    found: list[PieceCount] = []
    for part in parts:
        condition = _CONDITION.fullmatch(part)
        if condition:
            found.append(PieceCount(condition[1], condition[2], int(condition[3])))
        elif _SIGNATURE.fullmatch(part) and part.count("K") == part.count("k") == 1:
            found += [PieceCount(x, "=", part.count(x)) for x in _LETTERS + _LETTERS.lower()]
        else:
            raise InvalidParameterError(
                f"{part!r} is not a condition on pieces; write, for example, P<=4, q=0, men<=6,"
                " or all men of both sides such as KRPkrp"
            )
    return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """Conditions that a position must satisfy, all of them; None: any.

    Attributes:
      min_n, max_n: node N. min_q, max_q: node Q, seen by the side to move.
      bounds: `win`, `draw`, `loss` (proven for the side to move) or `proven` (any of them).
      pieces: of `read_pieces`. side: `w` or `b`, the side to move.
      in_games: whether the position is in the table `game_position`.
      in_book: a book's name, or an empty text for any book: whether the position is in its `book_position`.
      min_ply, max_ply: fewest half-moves from the start of a game, from the tables of games and books (the
        smaller of both). A record has no ply of its own, as many lines lead to it: positions in neither table
        do not pass.
    """

    min_n: int | None = None
    max_n: int | None = None
    min_q: float | None = None
    max_q: float | None = None
    bounds: str | None = None
    pieces: tuple[PieceCount, ...] = ()
    side: str | None = None
    in_games: bool = False
    in_book: str | None = None
    min_ply: int | None = None
    max_ply: int | None = None

    def __post_init__(self) -> None:
        if self.bounds not in (None, WIN, DRAW, LOSS, PROVEN):
            raise InvalidParameterError(f"bounds must be win, draw, loss or proven, not {self.bounds!r}")
        if self.side not in (None, "w", "b"):
            raise InvalidParameterError(f"side must be w or b, not {self.side!r}")
        for name, low, high in (
            ("n", self.min_n, self.max_n), ("q", self.min_q, self.max_q), ("ply", self.min_ply, self.max_ply)
        ):  # fmt: skip
            if low is not None and high is not None and low > high:
                raise InvalidParameterError(f"min_{name} {low} is above max_{name} {high}; nothing can match")

    @property
    def asks_tables(self) -> bool:
        """Whether a condition needs the tables of games or books."""
        return (
            self.in_games or self.in_book is not None or self.min_ply is not None or self.max_ply is not None
        )

    def mask(self, batch: RecordBatch) -> Mask:
        """Returns a mask of the records that satisfy the conditions on records, `[R]`."""
        found = np.ones(len(batch), bool)
        if self.side:
            found &= (batch.words[:, 8] & np.uint64(1)) == (self.side == "b")
        for piece in self.pieces:
            found &= piece.mask(batch.words)
        asks_values = self.bounds or self.min_q is not None or self.max_q is not None
        worth = worth_of(batch) if asks_values else None
        if worth and self.bounds:
            found &= worth.lower == worth.upper
            if self.bounds != PROVEN:
                found &= worth.lower == _RESULTS[self.bounds]
        if self.min_n is not None or self.max_n is not None:
            found &= _between(visits_of(batch), self.min_n, self.max_n)
        if worth:
            found &= _between(worth.q, self.min_q, self.max_q)
        return found


def _between(numbers: NDArray[Any], low: float | None, high: float | None) -> Mask:
    found = np.ones(len(numbers), bool)
    if low is not None:
        found &= numbers >= low
    if high is not None:
        found &= numbers <= high
    return found


# ------------------------------------------------------------------ the scan
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
    with Store.open(path, read_only=True) as store:
        tables, done = _Tables(store, filters), 0

        def counted(stream: Iterator[tuple[int, RecordBatch]]) -> Iterator[RecordBatch]:
            """Yields the hits of a file, and counts the records read with them."""
            nonlocal done
            for size, hits in stream:
                if len(hits):
                    yield hits
                done += size
                if on_progress:
                    on_progress(done, max(done, store.node_count))

        def solve(portion: Portion) -> tuple[int, RecordBatch]:  # on any thread
            batch, newest = portion.versions()
            return len(newest), take(batch, newest[filters.mask(batch)[newest]])

        batches = counted(store.portions(solve))
        if limit is None:
            for batch in batches:
                yield from _found_in(batch, tables)
        else:
            yield from _most_visited_of(batches, limit, tables)


def _most_visited_of(batches: Iterator[RecordBatch], most: int, tables: _Tables) -> Iterator[Found]:
    """Yields the `most` positions with most visits; if reading fails, those before, then raises."""
    top, fault = MostVisited(most), None
    try:
        for batch in batches:
            top.keep(tables.passing(batch)[0])
    except Exception as error:
        fault = error
    yield from _found_in(RecordBatch.concat(top.rows()), tables)
    if fault:
        raise fault


def _found_in(hits: RecordBatch, tables: _Tables) -> Iterator[Found]:
    """Yields the positions of the records that satisfy the conditions on tables."""
    hits, plies = tables.passing(hits)
    if len(hits):
        facts = zip(fens(hits.words), key_texts(hits.words), plies, strict=True)
        for i, (fen, key, ply) in enumerate(facts):
            board = unpack(hits.words[i].tolist())
            record = tables.completed(hits.record(i), board)
            best = best_move(record, board)
            q, _ = node_mean(record)
            yield Found(
                position=fen,
                key=key,
                n=record.visits,
                q=q,
                cp=cp_of(q),
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
        self._apart = ApartMoves.of(store)

    def completed(self, record: NodeRecord, board: chess.Board) -> NodeRecord:
        """Returns a record with what the positions after its moves searched apart know."""
        return self._apart.completed(record, board, self._store.read)

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
            return dict(query(self._store.connection, statement, values, *columns))

    def passing(self, hits: RecordBatch) -> tuple[RecordBatch, list[int | None]]:
        """Returns the records that satisfy the conditions on tables, in their order, and their plies.

        A ply is None if no table has the position, or if no condition needs plies.
        """
        asked = self._filters
        if not asked.asks_tables or not len(hits):
            return hits, [None] * len(hits)
        games, books = self._known(keys := key_texts(hits.words))
        plies = [min((of[key] for of in (games, books) if key in of), default=None) for key in keys]
        fits = _between(np.array(plies, np.float64), asked.min_ply, asked.max_ply)  # of NaN, for None, no one
        passes = [
            fit and (key in games or not asked.in_games) and (key in books or asked.in_book is None)
            for key, fit in zip(keys, fits.tolist(), strict=True)
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
