"""The SQLite file: its lock, its format, its log, and connections for one writer or for readers.

The writer's lock is an advisory lock on `FILE.lock`, which the kernel releases when its holder dies. It is
not on the graph file itself: closing any second descriptor of that file would drop SQLite's own locks.

Functions that open, read or write a file raise StoreError, with its name, if they cannot.
"""

from __future__ import annotations

import json
import os
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from datetime import UTC, datetime
from itertools import chain, count, repeat
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ..base.errors import (
    CorruptRecordError,
    MissingStoreError,
    SchemaVersionError,
    StoreError,
    StoreLockedError,
    StoreMovedError,
)
from ..base.system import BINARY, is_on_network, resolved, try_lock, unlock
from .tables.rows import TABLES, json_object, tables_sql


# ------------------------------------------------------------------ the writer's lock
def lock_of(path: Path) -> int | None:
    """Returns the descriptor of a file that is locked from now on, None if another process holds the lock.

    Raises:
      OSError: if the file cannot be opened or created.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | BINARY, 0o644)
    if try_lock(descriptor):
        return descriptor
    os.close(descriptor)
    return None


def release(lock: int) -> None:
    """Releases a lock of `lock_of`, also where a forked child shares the descriptor."""
    unlock(lock)
    os.close(lock)


def is_held(path: Path) -> bool:
    """Returns whether a process is writing a graph file."""
    try:
        descriptor = os.open(_beside(path, ".lock"), os.O_RDONLY)
    except OSError:
        return False
    try:
        return not try_lock(descriptor)  # closing releases it
    finally:
        os.close(descriptor)


def holder(path: Path) -> dict[str, Any] | None:
    """Returns which process (`pid`) writes a graph file since when (`since`, ISO 8601), None if no one does.

    Both are None where unknown.
    """
    if not is_held(path):
        return None
    match _note_of(path):
        case {"pid": int(pid), "since": str(since)} if pid >= 0:
            return {"pid": pid, "since": since}
    return {"pid": None, "since": None}


def _note_of(path: Path) -> dict[str, Any]:
    """Returns the note in the lock file of a graph file, empty if there is none that can be read."""
    with suppress(OSError), _beside(path, ".lock").open("rb", buffering=0) as file:
        file.seek(1)  # Windows lets nobody read the locked byte
        return json_object(file.read(MOST_NOTE).decode("utf-8", "replace")) or {}
    return {}


def _beside(path: Path, end: str) -> Path:
    return path.with_name(path.name + end)


class WriteLock:
    """The exclusive right to write one graph file, held from construction to `release`.

    Raises:
      StoreLockedError: if another process, or this one, is writing the file, and is not about to release it.
    """

    def __init__(self, path: Path) -> None:
        self._sidecar, self._owner = _beside(path, ".lock"), os.getpid()
        patience = time.monotonic() + MOST_ENDING_SECONDS
        while True:
            try:
                descriptor = lock_of(self._sidecar)
            except OSError as error:
                raise StoreError(f"{path}: cannot make {self._sidecar.name}: {error.strerror}") from None
            if descriptor is None:
                if _note_of(path).get("ends") and time.monotonic() < patience:
                    time.sleep(ENDING_SECONDS)
                    continue
                found = holder(path)
                who, advice = "another process", "wait for it"
                if found and found["pid"]:
                    who = f"process {found['pid']} since {found['since']}"
                if found and found["pid"] == os.getpid():
                    who, advice = "this program", "close that Graph"
                raise StoreLockedError(f"{path} is being written by {who}; {advice}, or read only")
            self._descriptor = descriptor
            if self._is_current():
                break
            os.close(descriptor)  # its last holder has just removed the lock file
        self._note = {"pid": os.getpid(), "since": datetime.now(UTC).isoformat(timespec="seconds")}
        self._write_note()

    def announce_end(self) -> None:
        """Makes those that want the lock wait for it: the holder saves what is left, then releases it."""
        self._note |= {"ends": True}
        self._write_note()

    def _write_note(self) -> None:
        with suppress(OSError):  # a full disk must not prevent writing
            os.lseek(self._descriptor, 0, os.SEEK_SET)
            os.ftruncate(self._descriptor, os.write(self._descriptor, b" " + json.dumps(self._note).encode()))

    def _is_current(self) -> bool:
        try:
            return os.path.samestat(os.fstat(self._descriptor), self._sidecar.stat())
        except FileNotFoundError:
            return False

    def release(self) -> None:
        """Releases the lock; a second call does nothing."""
        if self._descriptor < 0:
            return
        stays = False
        if self._owner == os.getpid():
            try:
                if self._is_current():  # else the folder was moved, and the file is another's
                    self._sidecar.unlink(missing_ok=True)
            except OSError:  # Windows removes no open file
                stays = True
            unlock(self._descriptor)  # explicit, because a forked child may share the descriptor
        os.close(self._descriptor)
        self._descriptor = -1
        if stays:
            with suppress(OSError):  # a lock file that stays does no harm: the next writer locks it
                self._sidecar.unlink()


# ------------------------------------------------------------------ constants
APPLICATION_ID = 0x47724772  # "GrGr", big-endian, at offset 68 of the file
FORMAT_VERSION = 4
PAGE_BYTES = 16384
WAL_KEPT_BYTES = 64 << 20  # SQLite truncates a longer log to this after a checkpoint
CACHE_KIB = 2 << 10
LOG_BYTES = 16 << 20  # a longer write-ahead log is due for a checkpoint
LONGEST_LOG_BYTES = 1 << 30  # a reader of an old state may make the log this long; then writing stops
ON_NETWORK = (
    "lies on a network drive, where SQLite cannot write safely; copy it to a disk of this machine, work"
    " there, and put it back with `graphsearch store backup`"
)
BUSY_SECONDS = 10.0
PULSE = 1 << 20  # steps of SQLite's virtual machine between two checks of the limit: some 10 ms
LEAST_STEPS = 300_000_000  # that any statement may take: some seconds
STEPS_PER_BYTE = 300  # of the opened file; a join takes some 100 steps for a row of 20 bytes or more
MOST_NOTE = 4096  # bytes of the note in a lock file
ENDING_SECONDS, MOST_ENDING_SECONDS = 0.05, 30.0  # between two looks at a lock that will be free; in all
_SQLITE = ("-wal", "-shm", "-journal")


# ------------------------------------------------------------------ names and errors
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
        advice = [f"; {advice}" for words, advice in _ADVICE.items() if words in str(error)]
        raise StoreError(f"{path}: cannot {doing}: {error}{''.join(advice[:1])}") from error


_ADVICE = {  # words of an error of SQLite -> what to do
    "full": "free some space and continue; everything saved before is safe",
    "STRICT": f"it needs SQLite 3.37 or newer, this Python has {sqlite3.sqlite_version}",
    "not a database": "it is not a graph file; choose another one",
    **dict.fromkeys(
        ("malformed", "disk image", "decode to UTF-8", "tables are damaged"),
        "the file is damaged: continue from a copy of it, or rescue it with `graphsearch store salvage`",
    ),
    "interrupted": "a statement took longer than the size of the file explains; continue from a copy of it",
    "locked": "another program holds it, close that one first",
    **dict.fromkeys(
        ("readonly", "unable to open"),
        "check the permissions of the file and its folder, and how many files may be open",
    ),
    "disk I/O": "the disk fails, or the system limits the size of a file (see `ulimit -f`)",
}


def check_is_file(path: Path, *, create: bool, writing: bool = False) -> None:
    """Raises StoreError unless a path is a non-empty file, that `writing` can write or `create` create."""
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
    if writing and not os.access(path, os.W_OK):
        raise StoreError(f"{path} cannot be written; check its permissions or open it for reading")
    if writing and path.stat().st_nlink > 1:  # each name would have a lock and a log of its own
        raise StoreError(f"{path} has other names (hard links), so it is only read; write a copy of it")
    if path.stat().st_size == 0 and not create:
        raise StoreError(f"{path} is empty, not a graph file; remove it or name another")


def file_bytes(path: Path) -> int:
    """Returns the size of a graph file and its write-ahead log, in bytes."""
    return path.stat().st_size + log_bytes(path)


def log_bytes(path: Path) -> int:
    """Returns the size of the write-ahead log of a graph file, in bytes; 0 if there is none."""
    try:
        return _beside(path, "-wal").stat().st_size
    except FileNotFoundError:
        return 0


def remove_side_files(path: Path, *, lock: bool = False) -> None:
    """Removes the files that SQLite has left beside a graph file, and the lock file if asked."""
    for end in (*_SQLITE, ".lock") if lock else _SQLITE:
        _beside(path, end).unlink(missing_ok=True)


# ------------------------------------------------------------------ connections
class BoundedConnection(sqlite3.Connection):
    """A connection that interrupts a statement after more steps than the size of its file explains.

    The rows of `executemany` count with the statement before it.
    """

    pulses: int | None = None  # that a statement may take; None: any number

    def remove_limit(self) -> None:
        """Removes the step limit, so that two threads may use the connection at once.

        With it, two threads would deadlock: SQLite holds its lock while it calls a handler, which needs
        Python's lock, and Python holds its lock while it sets a handler, which needs SQLite's.
        """
        self.pulses = None
        self.set_progress_handler(None, 0)

    def execute(self, *args: Any) -> sqlite3.Cursor:
        """Restarts the count of steps, and executes a statement; raises sqlite3.Error."""
        if self.pulses is not None:
            # not a Python function: a signal that arrived inside one would be lost
            self.set_progress_handler(chain(repeat(0, self.pulses), repeat(1)).__next__, PULSE)
        try:
            return super().execute(*args)
        except UnicodeDecodeError as error:  # a damaged name in the schema, that SQLite puts into its message
            raise sqlite3.DatabaseError("the names of its tables are damaged") from error


def connect(path: Path, query: str = "mode=rwc") -> BoundedConnection:
    """Returns a connection to a database from an untrusted source.

    The schema cannot call a harmful function or virtual table, and SQLite checks the cells of each page that
    it reads. From Python 3.12 on, SQL cannot write the schema or shadow tables; before, this program's own
    statements do not, and `query.sql` passes no others.

    Args:
      path: the file. query: how SQLite opens it, as in a URI.
    """
    connection = sqlite3.connect(
        f"file:{quote(os.fsencode(path))}?{query}",  # also a long path of Windows
        uri=True,
        timeout=BUSY_SECONDS,
        isolation_level=None,
        check_same_thread=False,
        factory=BoundedConnection,
    )
    size = 0
    with suppress(OSError):  # a file that will be made
        size = file_bytes(path)
    connection.pulses = (LEAST_STEPS + STEPS_PER_BYTE * size) // PULSE
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cell_size_check = ON")
    if sys.version_info >= (3, 12):
        connection.setconfig(sqlite3.SQLITE_DBCONFIG_DEFENSIVE, True)
    return connection


# ------------------------------------------------------------------ the format
def check_format(connection: sqlite3.Connection, path: Path) -> None:
    """Raises SchemaVersionError if the format number of an open file is another than FORMAT_VERSION."""
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version != FORMAT_VERSION:
        raise SchemaVersionError(
            f"{path} has format {version}, this version of graphsearch reads format {FORMAT_VERSION};"
            " use the version that wrote it, or another file"
        )


def impostors(connection: sqlite3.Connection) -> set[str]:
    """Returns the names of tables of a graph file that a file gives to views or virtual tables."""
    others = "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type IN ('view', 'virtual')"
    return TABLES.keys() & {name for (name,) in connection.execute(others)}


_TRIGGERS = "SELECT name FROM sqlite_schema WHERE type = 'trigger'"
_COLUMNS = """
SELECT m.name, x.name, x.type, x.pk, x.hidden FROM sqlite_schema AS m, pragma_table_xinfo(m.name) AS x
WHERE m.type = 'table' AND m.rootpage > 0
"""


def check_schema(connection: sqlite3.Connection, path: Path, *, writing: bool = True) -> None:
    """Raises CorruptRecordError unless a file has exactly the columns of its format in every table.

    Other tables, views and indexes are allowed. A trigger runs when something is written, so a file that has
    one can only be read.
    """
    if found := faults(connection, path, writing=writing):
        raise CorruptRecordError(f"{path}: {found[0]}; `graphsearch store salvage` keeps what is sound")


def faults(connection: sqlite3.Connection, path: Path, *, writing: bool = True) -> list[str]:
    """Returns a line for each fault of a file's tables, and one for its triggers if `writing`.

    Raises:
      StoreError: if it is the database of another program.
      SchemaVersionError: if it has another format number.
    """
    if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
        raise StoreError(f"{path} is an SQLite file but not a graph of graphsearch; choose another file")
    check_format(connection, path)
    found = []
    triggers = [str(name) for (name,) in connection.execute(_TRIGGERS)]
    if triggers and writing:
        found.append(f"it has triggers ({', '.join(triggers)}), which no graph file has")
    # of each column its declared type, and its place in the key from 1, or 0
    shapes: dict[str, dict[str, tuple[str, int]]] = {}
    for table, column, kind, place, hidden in connection.execute(_COLUMNS):
        shapes.setdefault(table, {})[column] = (kind if not hidden else "hidden", place)
    for name, table in TABLES.items():
        wanted = {
            column: (one.kind, 1 + table.key.index(column) if column in table.key else 0)
            for column, one in table.columns.items()
        }
        if name not in shapes:
            found.append(f"no such table: {name}")
        elif shapes[name] != wanted:
            found.append(f"its table {name} is not that of a graph file")
    return found


# ------------------------------------------------------------------ opening
def open_writer(path: Path, *, create: bool) -> sqlite3.Connection:
    """Returns a connection for writing, and creates the file if asked; the caller holds the lock."""
    if is_on_network(path):
        raise StoreError(f"{path} {ON_NETWORK}")
    check_log(path, is_ours=True)
    mode = "mode=rwc" if create else "mode=rw"
    with sql_errors(path, "open it"), open_unless_failed(path, mode) as connection:
        execute = connection.execute
        execute(f"PRAGMA page_size = {PAGE_BYTES}")
        empty = _holds_nothing(connection)
        if empty:
            execute("PRAGMA auto_vacuum = INCREMENTAL")  # so that `tidy` can shrink the file
        if empty and create:
            marks = f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {FORMAT_VERSION};"
            connection.executescript(f"BEGIN IMMEDIATE;\n{marks}\n{tables_sql()}\nCOMMIT;")
        else:
            check_schema(connection, path)
        execute("PRAGMA journal_mode = WAL")
        execute("PRAGMA synchronous = NORMAL")
        execute("PRAGMA wal_autocheckpoint = 0")  # a commit never waits for a checkpoint: see `checkpoint`
        execute(f"PRAGMA journal_size_limit = {WAL_KEPT_BYTES}")
        execute(f"PRAGMA cache_size = -{CACHE_KIB}")
        execute("PRAGMA temp_store = MEMORY")  # the rollback data of one statement: some MB at most
        for table in ("segment", "chunk"):
            _mend_sequence(connection, table)
        connection.remove_limit()  # the writer's thread and the search's both use it
        return connection


@contextmanager
def open_unless_failed(path: Path, mode: str) -> Iterator[BoundedConnection]:
    """Yields a new connection, open unless the body raises; then a file that it made is deleted."""
    with ExitStack() as stack:
        if mode == "mode=rwc" and not path.exists():
            stack.callback(path.unlink, missing_ok=True)
        connection = connect(path, mode)
        stack.callback(connection.close)
        yield connection
        stack.pop_all()


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
                with open_unless_failed(path, query) as connection:
                    connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
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
    alone = _runs_in(path, "mode=ro&immutable=1")[0]
    if alone not in ((), _UNREADABLE) and _runs_in(path, "mode=ro")[0] not in (alone, _UNREADABLE):
        raise StoreError(
            f"{path}-wal is the write-ahead log of another file, such as one that {path.name} has replaced;"
            f" move it and {path.name}-shm elsewhere, then continue"
        )


_UNREADABLE = ("unreadable",)


def _runs_in(path: Path, query: str) -> tuple[tuple[object, ...], int]:
    """Returns `_runs_of` a file; _UNREADABLE in place of the first run if that fails."""
    try:
        with closing(connect(path, query)) as connection:
            return _runs_of(connection) if "run" not in impostors(connection) else (_UNREADABLE, 0)
    except sqlite3.Error:
        return _UNREADABLE, 0  # opening the file reports the error


def _runs_of(connection: sqlite3.Connection) -> tuple[tuple[object, ...], int]:
    """Returns the constant columns of the first run and the number of the last one; () and 0 without runs."""
    query = "SELECT id, started, position, limits, (SELECT max(id) FROM run) FROM run ORDER BY id LIMIT 1"
    *row, last = connection.execute(query).fetchone() or (0,)
    return tuple(row), last


# ------------------------------------------------------------------ files without contents
# one of these has a row if a search, an import or a person has put something into the file
CONTENTS = (
    *("segment", "entry_piece", "game_move", "polyglot_entry", "epd_position", "game", "book_queue"),
    *("study", "note", "book_move"),
)


def delete_if_empty(path: Path) -> bool:
    """Deletes a graph file without contents; returns whether it did. Any other file stays.

    So does one that a process writes: its contents may still be in memory.
    """
    if not path.is_file() or is_held(path):
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


# ------------------------------------------------------------------ files that were moved or overwritten
TRIES, TRY_SECONDS = 10, 0.1  # to read a file into which another program may be copying the log


class Place:
    """The path of a file that is open for writing, and what shows that it is still the same file.

    Only a checkpoint writes into the file itself, as the log takes the commits. If its size or time is not as
    this process left it, another program has made a checkpoint or has overwritten the file. A checkpoint
    keeps the first run, and lowers neither the number of the last one nor the header's change counter.

    Attributes:
      given_up: whether writing continues although the file is gone, because its content will be copied.
      overwritten: whether `check` found other content in the file.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        """Looks at a file, open for writing by `connection`; `leave` must follow."""
        self._path, self._connection = path, connection
        self._opened = path.stat()
        # closing any handle of a file ends SQLite's locks on it, so this one stays open as long
        self._file = path.open("rb", buffering=0)
        self._runs: set[tuple[object, ...]] = set()  # what the first run may be
        self._holds_run = False  # whether the file itself has it, and not only the log
        self._changes, self._last, self._left = 0, 0, (0, 0)
        self.given_up = self.overwritten = False
        self.note_run()
        self.note_written()

    def note_run(self) -> None:
        """Notes the first run and the last one, before a commit."""
        first, self._committed = _runs_of(self._connection)
        self._runs.add(first)

    def note_written(self, found: os.stat_result | None = None) -> None:
        """Notes the state of the file, after a checkpoint has written into it."""
        found = found or os.fstat(self._file.fileno())
        self._left = found.st_size, found.st_mtime_ns
        self._changes = max(self._changes, self._counter() or 0)  # no larger after a commit without new pages
        if not log_bytes(self._path):  # the file itself holds all commits
            self._last = self._committed

    def _counter(self) -> int | None:
        """Returns the change counter of the file, None if it is no SQLite file."""
        self._file.seek(0)
        header = self._file.read(28)
        is_whole = len(header) == 28 and header.startswith(b"SQLite format 3\0")
        return int.from_bytes(header[24:], "big") if is_whole else None

    def check(self) -> None:
        """Raises StoreMovedError if the path leads to another file now, or the file or its log is gone."""
        if self.given_up:
            return
        try:
            found = self._path.stat()
            if not os.path.samestat(found, self._opened):
                raise StoreMovedError(f"{self._path} was replaced by another file while it was open")
            _beside(self._path, "-wal").stat()
            if (found.st_size, found.st_mtime_ns) != self._left:
                self._look_into(found)
        except FileNotFoundError as error:
            raise StoreMovedError(f"{error.filename} was moved or deleted while it was open") from None
        except OSError as error:
            raise StoreError(f"{self._path}: cannot look at it: {error.strerror}") from None

    def _look_into(self, found: os.stat_result) -> None:
        """Notes that another program has written into the file if it is still ours."""
        for _ in range(TRIES):
            run, last = _runs_in(self._path, "mode=ro&immutable=1")
            if run != _UNREADABLE:
                break
            time.sleep(TRY_SECONDS)
        changes = self._counter()
        is_ours = (run in self._runs or (run == () and not self._holds_run)) and last >= self._last
        self.overwritten = changes is None or changes < self._changes or not is_ours
        if self.overwritten:
            raise StoreMovedError(f"{self._path} was overwritten with another file while it was open")
        self._holds_run = self._holds_run or run != ()
        self.note_written(found)

    def leave(self) -> None:
        """Closes the connection; the log reaches the file only if it is the same one, wherever it is now.

        Otherwise SQLite would apply the log to a new file at that path. The log is emptied even while a
        reader keeps the file open: a file that replaces this one must not meet it.
        """
        with suppress(StoreError, sqlite3.Error):
            self.given_up = False
            self.check()
            self._connection.execute("PRAGMA busy_timeout = 0")  # for no reader of an old state
        with suppress(sqlite3.Error, OSError):
            if self.overwritten:
                os.truncate(_beside(self._path, "-wal"), 0)
            else:
                self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        self._connection.close()
        self._file.close()


def copy_elsewhere(path: Path, write: Callable[[Path], None]) -> Path:
    """Writes a copy of a file that is lost to a new file; returns its path.

    Args:
      path: the lost file. write: writes the copy; called with other paths until one succeeds.
    """
    failure = StoreError(f"{path}: it cannot be copied")
    for folder in filter(Path.is_dir, (path.parent, Path.cwd(), Path(tempfile.gettempdir()))):
        copies = (folder / f"{path.stem}.rescued{number}{path.suffix}" for number in chain([""], count(1)))
        copy = next(copy for copy in copies if not copy.exists())
        try:
            write(copy)
            return copy
        except StoreError as error:
            failure = error
    raise failure


def copy_database(connection: sqlite3.Connection, copy: Path) -> None:
    """Copies the database of a connection, which may have lost its file, to a new file."""
    with sql_errors(copy, "write to it"), closing(connect(copy)) as target:
        connection.backup(target)


# ------------------------------------------------------------------ beside the writer of records
# Short transactions in plain tables that no writer of records touches.
# They need no lock: people can change their queue, studies and notes while a search writes the file.
WAIT_SECONDS = 60.0  # for a transaction of another process


@contextmanager
def transaction(connection: sqlite3.Connection, path: Path) -> Iterator[None]:
    """Runs the body as one transaction; rolls it back if the body raises, or the file cannot be written."""
    try:
        with sql_errors(path, "write to it"):
            connection.execute("BEGIN IMMEDIATE")
            yield
            connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


@contextmanager
def changing(path: str | os.PathLike[str]) -> Iterator[sqlite3.Connection]:
    """Yields a connection to a graph file that may be written, in one transaction."""
    real = real_path(path)
    check_is_file(real, create=False, writing=True)
    with sql_errors(real, "open it"), open_unless_failed(real, "mode=rw") as connection:
        check_schema(connection, real)
        connection.execute(f"PRAGMA busy_timeout = {int(1000 * WAIT_SECONDS)}")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA wal_autocheckpoint = 0")  # the writer makes the checkpoints
    with closing(connection), transaction(connection, real):
        yield connection


@contextmanager
def editing(path: str | os.PathLike[str]) -> Iterator[sqlite3.Connection]:
    """Yields a connection as `changing` does; what it changes is logged as one edit, which can be undone."""
    from .tables.studies import recorded

    with changing(path) as connection, recorded(connection):
        yield connection


@contextmanager
def opened_to_read(path: str | os.PathLike[str]) -> Iterator[sqlite3.Connection]:
    """Yields a connection in one read transaction on the plain tables of a graph."""
    real = real_path(path)
    check_is_file(real, create=False)
    with closing(open_reader(real)) as connection, sql_errors(real, "read it"):
        connection.execute("BEGIN")
        yield connection
