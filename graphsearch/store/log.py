"""The write-ahead log of a graph file: its size, and copying it into the file."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from ..base.errors import StoreError
from .connection import BUSY_SECONDS
from .file import sql_errors
from .protocol import OpenStore
from .side_files import log_bytes

LOG_BYTES = 16 << 20  # a longer log is due for a checkpoint
LONGEST_LOG_BYTES = 1 << 30  # a reader of an old state may make the log this long; then writing stops


def checkpoint(store: OpenStore, *, over: int = 0) -> tuple[int, bool]:
    """Copies the write-ahead log into the file, if it is longer than `over` bytes.

    Commits do not do this: call it after a transaction, from the thread that writes, with `over=LOG_BYTES`
    (16 MiB). It waits for the disk, never for a reader.

    Returns:
      The size of the log now in bytes; whether a reader of an old state prevents emptying it.

    Raises:
      StoreError: if the file cannot be written; nothing is lost.
    """
    store.check_writable()
    if store.connection.in_transaction:
        raise StoreError(f"{store.path}: a checkpoint inside a transaction; end it first")
    size = log_bytes(store.path)
    if size <= over:
        return size, False
    with sql_errors(store.path, "write to it"):
        return _copied(store.connection, store.path)


def _copied(connection: sqlite3.Connection, path: Path) -> tuple[int, bool]:
    """Copies the log as far as readers allow, and empties it if they allow that; readers keep their state."""
    _, frames, copied = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
    held = copied < frames
    if not held and log_bytes(path):
        connection.execute("PRAGMA busy_timeout = 0")
        try:
            held = bool(connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0])
        finally:
            connection.execute(f"PRAGMA busy_timeout = {int(1000 * BUSY_SECONDS)}")
    return log_bytes(path), held


def shorten_log(store: OpenStore) -> None:
    """Copies a long write-ahead log into the file; call it between two transactions.

    Raises:
      StoreError: if the log is too long because another program reads an old state of the file.
    """
    size, held = store.checkpoint(over=LOG_BYTES)
    if held and size > LONGEST_LOG_BYTES:
        raise StoreError(
            f"{store.path}: another program is reading an old state of it, so its write-ahead log keeps"
            f" growing ({size >> 20} MiB); close that program and continue; everything so far is saved"
        )
