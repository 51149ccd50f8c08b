"""Opens the SQLite file for one writer, or for readers that never disturb it; copies its log into it."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from ..base.errors import CorruptRecordError, MissingStoreError, StoreError
from ..base.system import is_on_network, resolved
from .connection import BUSY_SECONDS, BoundedConnection, connect
from .format import (
    check_schema,
    create_tables,
    format_of,
)
from .lock import is_held
from .side_files import log_bytes, log_of, remove_side_files

PAGE_BYTES = 16384
WAL_KEPT_BYTES = 64 << 20  # SQLite truncates a longer log to this after a checkpoint
CACHE_KIB = 8 << 10
LOG_BYTES = 16 << 20  # a longer write-ahead log is due for a checkpoint
LONGEST_LOG_BYTES = 1 << 30  # a reader of an old state may make the log this long; then writing stops


ON_NETWORK = (
    "lies on a network drive, where SQLite cannot write safely; copy it to a disk of this machine, work"
    " there, and put it back with `graphsearch store backup`"
)


def real_path(path: str | os.PathLike[str]) -> Path:
    """Returns the absolute path with links resolved, so that a file has one name and one lock."""
    return resolved(path)


def data_version(connection: sqlite3.Connection) -> int:
    """Returns a number that changes whenever another connection commits.

    It reads a row first, which fixes the state that an open read transaction sees.
    """
    connection.execute("SELECT 1 FROM segment LIMIT 1").fetchone()
    return int(connection.execute("PRAGMA data_version").fetchone()[0])


@contextmanager
def sql_errors(path: Path, doing: str) -> Iterator[None]:
    """Turns SQLite's errors into a StoreError of one line, and adds the file's name where it is missing."""
    try:
        yield
    except CorruptRecordError as error:
        if str(path) in str(error):
            raise
        raise CorruptRecordError(f"{path}: {error}") from error
    except sqlite3.Error as error:
        raise StoreError(f"{path}: cannot {doing}: {error}{_advice(str(error))}") from error
    except UnicodeDecodeError as error:  # a damaged name in the schema, which SQLite puts into its message
        raise StoreError(f"{path}: cannot {doing}: the names of its tables are damaged") from error


def _advice(text: str) -> str:
    if "full" in text:
        return "; free some space and continue; everything saved before is safe"
    if "STRICT" in text:
        return f"; it needs SQLite 3.37 or newer, this Python has {sqlite3.sqlite_version}"
    if "not a database" in text:
        return "; it is not a graph file; choose another one"
    if "malformed" in text or "disk image" in text or "decode to UTF-8" in text:
        return (
            "; the file is damaged: continue from a copy of it, or rescue it with `graphsearch store salvage`"
        )
    if text == "interrupted":
        return "; a statement took longer than the size of the file explains; continue from a copy of it"
    if "prohibited" in text:
        return "; one of its tables is a view: it is no graph file; choose another one"
    if "locked" in text:
        return "; another program holds it, close that one first"
    if "readonly" in text or "unable to open" in text:
        return "; check the permissions of the file and its folder, and how many files may be open"
    if "disk I/O" in text:
        return "; the disk fails, or the system limits the size of a file (see `ulimit -f`)"
    return ""


def check_is_file(path: Path, *, create: bool) -> None:
    """Raises StoreError unless the path is a non-empty file, or can be created if `create` is given."""
    if path.is_dir():
        raise StoreError(f"{path} is a folder; name a graph file")
    if path.is_symlink():
        raise StoreError(f"{path} is a link in a loop of links; name a graph file")
    if not path.exists():
        if not create:
            raise MissingStoreError(f"{path} does not exist; check the name, or create it with a search")
        if not path.parent.is_dir():
            raise MissingStoreError(f"{path.parent} does not exist; make this folder first")
        return
    if not path.is_file():
        raise StoreError(f"{path} is not a regular file; name a graph file")
    if not os.access(path, os.R_OK):
        raise StoreError(f"{path} cannot be read; check its permissions")
    if path.stat().st_size == 0 and not create:
        raise StoreError(f"{path} is empty, not a graph file; remove it or name another")


def open_writer(path: Path, *, create: bool) -> sqlite3.Connection:
    """Returns a connection for writing, and creates the file if asked; the caller holds the lock."""
    if path.exists() and not os.access(path, os.W_OK):
        raise StoreError(f"{path} cannot be written; check its permissions or open it for reading")
    if is_on_network(path):
        raise StoreError(f"{path} {ON_NETWORK}")
    check_log(path, is_ours=True)
    mode = "mode=rwc" if create else "mode=rw"
    with sql_errors(path, "open it"), _open_unless_failed(path, mode) as connection:
        _prepare_for_writing(connection, path, create=create)
        connection.remove_limits()  # the writer's thread and the search's both use it
        return connection


@contextmanager
def _open_unless_failed(path: Path, mode: str) -> Iterator[BoundedConnection]:
    """Yields a new connection, which stays open unless the body raises."""
    connection = connect(path, mode)
    try:
        yield connection
    except BaseException:
        connection.close()
        raise


def _prepare_for_writing(connection: sqlite3.Connection, path: Path, *, create: bool) -> None:
    execute = connection.execute
    execute(f"PRAGMA page_size = {PAGE_BYTES}")
    empty = _holds_nothing(connection)
    if empty:
        execute("PRAGMA auto_vacuum = INCREMENTAL")  # so that `tidy` can shrink the file
    if empty and create:
        create_tables(connection)
    else:
        format_of(connection, path)
        check_schema(connection, path)
    execute("PRAGMA journal_mode = WAL")
    execute("PRAGMA synchronous = NORMAL")
    execute("PRAGMA wal_autocheckpoint = 0")  # a commit never waits for a checkpoint: see `checkpoint`
    execute(f"PRAGMA journal_size_limit = {WAL_KEPT_BYTES}")
    execute(f"PRAGMA cache_size = -{CACHE_KIB}")
    execute("PRAGMA temp_store = MEMORY")  # the rollback data of one statement: some MB at most
    for table in ("segment", "chunk"):
        _mend_sequence(connection, table)


def _mend_sequence(connection: sqlite3.Connection, table: str) -> None:
    """Repairs the counter of a table, so that SQLite never reuses a row number.

    SQLite keeps the counter in `sqlite_sequence`, where any program may write; data stored under a number
    must stay that of one row.
    """
    count = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = ?", (table,)).fetchone()
    highest = connection.execute(f"SELECT max(id) FROM {table}").fetchone()[0]  # noqa: S608 (constant)
    if highest is None or (count is not None and isinstance(count[0], int) and count[0] >= highest):
        return
    connection.execute("DELETE FROM sqlite_sequence WHERE name = ?", (table,))
    connection.execute("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", (table, highest))


def _holds_nothing(connection: sqlite3.Connection) -> bool:
    """Returns whether a file is empty, or a database without tables and mark, as a failed creation leaves."""
    (pages,), (mark,) = (
        connection.execute(f"PRAGMA {name}").fetchone() for name in ("page_count", "application_id")
    )
    return not pages or not (mark or connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone())


def open_beside(path: Path, *, wait: float) -> sqlite3.Connection:
    """Returns a connection for short transactions in tables that no writer of records touches.

    It needs no `WriteLock`, so it works while a process writes records; that process waits until the
    transaction ends.

    Args:
      wait: seconds to wait for a transaction of another process.
    """
    if not os.access(path, os.W_OK):
        raise StoreError(f"{path} cannot be written; check its permissions")
    with sql_errors(path, "open it"), _open_unless_failed(path, "mode=rw") as connection:
        format_of(connection, path)
        check_schema(connection, path)
        connection.execute(f"PRAGMA busy_timeout = {int(1000 * wait)}")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA wal_autocheckpoint = 0")  # the writer makes the checkpoints
        return connection


def open_reader(path: Path, *, tidy: bool = True) -> BoundedConnection:
    """Returns a connection that cannot write; the file's folder may be read-only too.

    Args:
      path: the file.
      tidy: copy the log into the file if this connection is the last to close; otherwise SQLite itself opens
        the file read-only.
    """
    is_remote = is_on_network(path)
    if is_remote and log_bytes(path):
        raise StoreError(f"{path} is being written, or its writer was killed, and {ON_NETWORK}")
    check_log(path, is_ours=False)
    failure: sqlite3.Error = sqlite3.OperationalError("unable to open database file")
    with sql_errors(path, "read it"):
        for query in ["mode=ro&immutable=1"] if is_remote else _reading_modes(path, tidy):
            try:
                with _open_unless_failed(path, query) as connection:
                    connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
                    format_of(connection, path)
                    check_schema(connection, path, writing=False)
                    connection.execute("PRAGMA query_only = 1")
                    return connection
            except sqlite3.OperationalError as error:
                failure = error
        raise failure


def _reading_modes(path: Path, tidy: bool) -> Iterator[str]:
    """Yields the modes to try for opening the file; the later ones serve read-only files and folders.

    The first mode could write, so that the last reader to close removes the log; PRAGMA query_only keeps the
    tables unchanged.
    """
    if tidy and os.access(path, os.W_OK) and os.access(path.parent, os.W_OK):
        yield "mode=rw"
    yield "mode=ro"
    if not log_bytes(path):
        yield "mode=ro&immutable=1"


def check_log(path: Path, *, is_ours: bool) -> None:
    """Raises StoreError if the log beside a file belongs to another file, as far as the first run shows it.

    SQLite would replace the file's pages by those of the log. This happens when a copy replaces a file whose
    last process was killed.

    Args:
      path: the file.
      is_ours: whether the caller holds its lock; otherwise nothing is checked while a process holds it.
    """
    if not log_bytes(path) or (not is_ours and is_held(path)):
        return
    alone = _first_run(path, "mode=ro&immutable=1")  # as if there were no log
    if alone is not None and _first_run(path, "mode=ro") not in (alone, _UNREADABLE):
        raise StoreError(
            f"{log_of(path)} is the write-ahead log of another file, such as one that {path.name} has"
            f" replaced; move it and {path.name}-shm elsewhere, then continue"
        )


_UNREADABLE = ("unreadable",)


def _first_run(path: Path, query: str) -> tuple[object, ...] | None:
    """Returns the constant columns of the first run of a file, None if it has no run yet."""
    try:
        with closing(connect(path, query)) as connection:
            row = connection.execute(
                "SELECT id, started, position, limits FROM run ORDER BY id LIMIT 1"
            ).fetchone()
    except sqlite3.Error:
        return None if "immutable" in query else _UNREADABLE  # opening the file reports the error
    return None if row is None else tuple(row)


# ------------------------------------------------------------------ the write-ahead log
def copy_log(connection: sqlite3.Connection, path: Path) -> tuple[int, bool]:
    """Copies the write-ahead log into the file as far as readers allow, and empties it if they allow that.

    Readers keep their state. Returns the size of the log now in bytes, and whether a reader keeps it.
    """
    _, frames, copied = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
    held = copied < frames
    if not held and log_bytes(path):
        connection.execute("PRAGMA busy_timeout = 0")
        try:
            held = bool(connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0])
        finally:
            connection.execute(f"PRAGMA busy_timeout = {int(1000 * BUSY_SECONDS)}")
    return log_bytes(path), held


# ------------------------------------------------------------------ files without contents
# one of these has a row if a search, an import or a person has put something into the file
CONTENTS = (
    *("segment", "entry_piece", "game_move", "polyglot_entry", "epd_position", "game", "book_queue"),
    *("study", "note", "book_move"),
)


def delete_if_empty(path: Path) -> bool:
    """Deletes a graph file without contents; returns whether it did. Any other file stays."""
    if not path.is_file():
        return False
    try:
        with closing(connect(path.absolute(), "mode=ro")) as file:
            found = (file.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone() for table in CONTENTS)  # noqa: S608
            if any(found):
                return False
    except sqlite3.Error:  # not a graph file, or one that another process is creating
        return False
    path.unlink(missing_ok=True)
    remove_side_files(path)
    return True
