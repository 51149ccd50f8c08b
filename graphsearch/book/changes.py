"""Moves that books have added or removed, with reasons: between two files, or since a run of one file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from heapq import nlargest
from typing import Any

import chess

from ..base.answer import Answer
from ..base.errors import GraphSearchError
from ..position.board import board_of
from ..store.store import Store
from ..store.tables.books import BookRow, asked, books
from .why import verdicts_of

GONE = "its position is not in the book any more"
_MOVES = """
SELECT p.key, m.move, p.fen, m.san, m.rule, m.n, m.value, m.loss, r.run
FROM book_move m
JOIN book_position p ON p.book = m.book AND p.key = m.key
LEFT JOIN book_run r ON r.id = m.book_run
WHERE m.book = ? AND p.state <> 'apart' ORDER BY p.key, m.move
"""
_COLUMNS = (
    *("book_position.key", "book_move.move", "book_position.fen", "book_move.san", "book_move.rule"),
    *("book_move.n", "book_move.value", "book_move.loss", "book_run.run?"),
)


@dataclass(frozen=True, slots=True)
class BookChange:
    """A move that a book has added or removed.

    Attributes:
      position: FEN. move, san: UCI and SAN. came: whether it was added, not removed.
      rule: by which the book added it. reason: why it is in the book now or no longer is; empty if unknown.
      n: edge N at the last decision. value: in the book, for the side that plays the move; None if unknown.
      loss: centipawns against the best move; None if unknown.
    """

    position: str
    move: str
    san: str
    came: bool
    rule: str
    reason: str
    n: int
    value: float | None
    loss: int | None


@dataclass(frozen=True, slots=True)
class BookChanges(Answer):
    """The changes of a book: numbers of added and removed moves, and the changes with the most visits."""

    book: str
    came: int
    went: int
    changes: tuple[BookChange, ...]


@dataclass(frozen=True, slots=True)
class _Move:
    """A move of a book, with its position and its run."""

    key: str
    move: str
    fen: str
    san: str
    rule: str
    n: int
    value: float | None
    loss: int | None
    run: int | None


def changes(old: str | os.PathLike[str], new: str | os.PathLike[str], *, top: int = 20) -> list[BookChanges]:
    """Returns the added and removed moves between two files, for every book that both have.

    Raises:
      StoreError: if a file cannot be read.
    """
    with Store.open(old, read_only=True) as one, Store.open(new, read_only=True) as other:
        ours, theirs = ({row.name: row for row in books(store)} for store in (one, other))
        found = []
        for name in sorted({*ours, *theirs}):
            before, after = (_moves(store, rows.get(name)) for store, rows in ((one, ours), (other, theirs)))
            whole = _compared(name, before, after, top)
            found.append(_with_reasons(whole, other) if name in theirs else whole)
    return found


def changes_since(path: str | os.PathLike[str], run: int, *, top: int = 20) -> list[BookChanges]:
    """Returns the moves that a run or a later one has added to each book; removed moves leave no trace.

    Raises:
      StoreError: if the file cannot be read.
    """
    with Store.open(path, read_only=True) as store:
        found = []
        for book in books(store):
            come = [move for move in _moves(store, book) if (move.run or 0) >= run]
            most = nlargest(top, come, key=lambda move: move.n)
            rows = tuple(_change(move, came=True) for move in most)
            found.append(_with_reasons(BookChanges(book.name, len(come), 0, rows), store))
    return found


def _moves(store: Store, book: BookRow | None) -> Iterator[_Move]:
    """Yields the moves of a book, sorted by key and move; none for None."""
    if book is not None:
        for row in asked(store, _MOVES, (book.id,), *_COLUMNS):
            yield _Move(*row)


def _compared(name: str, old: Iterator[_Move], new: Iterator[_Move], top: int) -> BookChanges:
    """Returns the moves that only one of two sorted iterators has."""
    went, came = [], []
    one, other = next(old, None), next(new, None)
    while one or other:
        if one and (other is None or (one.key, one.move) < (other.key, other.move)):
            went.append(one)
            one = next(old, None)
        elif other and (one is None or (other.key, other.move) < (one.key, one.move)):
            came.append(other)
            other = next(new, None)
        else:
            one, other = next(old, None), next(new, None)
    both = [*(_change(move, came=False) for move in went), *(_change(move, came=True) for move in came)]
    return BookChanges(name, len(came), len(went), tuple(nlargest(top, both, key=lambda change: change.n)))


def _change(move: _Move, *, came: bool) -> BookChange:
    return BookChange(move.fen, move.move, move.san, came, move.rule, "", move.n, move.value, move.loss)


def _with_reasons(found: BookChanges, store: Store) -> BookChanges:
    """Returns the changes with the reasons of the book's present verdicts."""
    rows = found.changes
    with suppress(GraphSearchError):  # another version's configuration: leave the reasons empty
        verdicts = verdicts_of(store, found.book) if rows else None
        rows = tuple(_reasoned(row, verdicts) for row in rows if verdicts)
    return replace(found, changes=rows)


def _reasoned(row: BookChange, verdicts: Callable[[chess.Board], tuple[Any, ...]]) -> BookChange:
    found = verdicts(board_of(row.position))
    return replace(row, reason=next((v.reason for v in found if v.candidate.move == row.move), GONE))
