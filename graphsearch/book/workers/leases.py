"""The table `book_lease`: the positions that workers are searching, for `book status`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from ...store.store import Store
from ..executor import Note

LEASE_SECONDS = 120.0  # until a row expires, unless it is extended


@dataclass(frozen=True, slots=True)
class Lease:
    """A position, by key, and the worker that searches it: its number and its process."""

    key: str
    worker: int
    process: int


def take(book: int, lease: Lease) -> Note:
    """Returns a function that inserts the row of a lease."""
    since, expires = _time(), _time(LEASE_SECONDS)

    def write(store: Store) -> None:
        store.connection.execute(
            "INSERT OR REPLACE INTO book_lease (book, key, worker, pid, since, expires)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            (book, lease.key, lease.worker, lease.process, since, expires),
        )

    return write


def extend(book: int, leases: Iterable[Lease]) -> Note:
    """Returns a function that extends leases."""
    rows = [(_time(LEASE_SECONDS), book, lease.key) for lease in leases]

    def write(store: Store) -> None:
        store.connection.executemany("UPDATE book_lease SET expires = ? WHERE book = ? AND key = ?", rows)

    return write


def drop(book: int, key: str | None = None) -> Note:
    """Returns a function that deletes a lease; without a key, all of the book."""

    def write(store: Store) -> None:
        store.connection.execute(
            "DELETE FROM book_lease WHERE book = ? AND key = coalesce(?, key)", (book, key)
        )

    return write


def _time(ahead: float = 0.0) -> str:
    return (datetime.now(UTC) + timedelta(seconds=ahead)).isoformat(timespec="seconds")
