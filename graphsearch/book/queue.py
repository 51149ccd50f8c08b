"""Temporary."""

from __future__ import annotations

from dataclasses import dataclass

from ..store import Store
from ..store.provenance import now

WAITING, DONE, REFUSED, DROPPED = "waiting", "done", "refused", "dropped"


@dataclass(frozen=True, slots=True)
class QueueItem:
    id: int
    book: str | None
    fen: str
    moves: str
    origin: str
    added: str
    state: str
    note: str | None
    changed: str | None


def waiting(store: Store, book: str) -> list[QueueItem]:
    rows = store.connection.execute(
        "SELECT * FROM book_queue WHERE state = 'waiting' AND (book IS NULL OR book = ?) ORDER BY id", (book,)
    )
    return [QueueItem(*row) for row in rows]


def set_state(store: Store, item: int, state: str, note: str) -> None:
    store.connection.execute(
        "UPDATE book_queue SET state = ?, note = ?, changed = ? WHERE id = ?", (state, note, now(), item)
    )
