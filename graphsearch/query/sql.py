"""Read-only SQL over the plain tables and views of a graph file, with functions that read records.

    record(fen)        JSON text of a position's record, as `graphsearch show --json` has it; NULL if unknown
    key(fen)           key of a position, as the columns `key` have it
    after(fen, moves)  FEN after moves in SAN or UCI
    san(fen, move)     a move in SAN
    cp(q)              centipawns of a value in [-1, 1], as commands show them

SQLite opens the file read-only, and an authorizer rejects every other statement. The time of a statement and
the size of values are limited (TIMEOUT_SECONDS, MAX_VALUE_BYTES); sorting uses temporary files.
"""

from __future__ import annotations

import json
import math
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

import chess

from ..base.errors import GraphSearchError, InvalidParameterError, StatementLimitError, check_least
from ..base.limits import shortened
from ..graph.view import view
from ..position.board import fen_of, key_text
from ..position.notation import named_board, play_moves, read_moves
from ..position.values import cp_of
from ..store.file import CACHE_KIB, BoundedConnection, check_is_file, open_reader, real_path, sql_errors
from ..store.store import Store

if TYPE_CHECKING:
    from pandas import DataFrame
    from sqlite_utils import Database


# ------------------------------------------------------------------ functions
Value = str | int | float | None


def _board(fen: object) -> chess.Board:
    if not isinstance(fen, str):
        raise ValueError(f"expected a FEN, not {fen!r}")
    return named_board(fen)


def _after(fen: object, moves: object) -> str:
    board = _board(fen)
    play_moves(board, str(moves))
    return fen_of(board)


def _san(fen: object, move: object) -> str:
    board = _board(fen)
    found = read_moves(board, str(move))
    if len(found) != 1:
        raise ValueError(f"expected one move, not {move!r}")
    return board.san(found[0])


def _cp(q: object) -> int:
    if not isinstance(q, int | float) or not math.isfinite(q):
        raise ValueError(f"expected a number in [-1, 1], not {q!r}")
    return cp_of(q)


# functions that read nothing: name -> number of arguments, and what is called
PURE: dict[str, tuple[int, Callable[..., Value]]] = {
    "key": (1, lambda fen: key_text(_board(fen))),
    "after": (2, _after),
    "san": (2, _san),
    "cp": (1, _cp),
}

PULSE = 1000  # steps of SQLite's machine between two looks at the clock, and for Ctrl-C
TIMEOUT_SECONDS = 60.0
MAX_VALUE_BYTES = 16 << 20  # of one text or BLOB, in a row or as an intermediate value of a function

_READING = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
_PRAGMAS = {  # as table-valued functions, such as `pragma_table_info('run')`
    "table_info", "table_xinfo", "table_list", "index_list", "index_info", "index_xinfo", "user_version",
    "page_count", "page_size", "freelist_count", "function_list", "compile_options",
}  # fmt: skip
_FAILURES = {  # of the file, not of the statement
    sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_FULL, sqlite3.SQLITE_NOMEM,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Result:
    """The answer of a statement; its columns may have equal names, its rows come as SQLite finds them."""

    columns: tuple[str, ...]
    rows: Iterator[tuple[Any, ...]]


@contextmanager
def sql(
    path: str | os.PathLike[str],
    statement: str,
    *,
    limit: int | None = None,
    timeout: float = TIMEOUT_SECONDS,
    heap_bytes: int = 0,
) -> Iterator[Result]:
    """Runs one reading statement (SELECT, WITH, VALUES or EXPLAIN) and yields its answer.

    The statement sees one state of the file from its first row to its last; meanwhile a search that writes
    cannot truncate the WAL.

    Args:
      limit: end after so many rows.
      timeout: most seconds of work of SQLite, 0 for no limit; time between two rows does not count.
      heap_bytes: most memory of SQLite in this process until the statement ends; 0 for no limit.

    Raises:
      StatementLimitError: if the statement takes longer, or more memory; also while the caller reads rows.
      InvalidParameterError: if the statement is none of these, is wrong, or a function in it gets an invalid
        position; also while the caller reads rows.
      KeyboardInterrupt: at Ctrl-C, within some milliseconds.
    """
    check_least(1, limit=limit)
    if not 0 <= timeout < math.inf:
        raise InvalidParameterError(f"timeout must be 0 or more seconds, not {timeout}")
    with opened(real_path(path), timeout, heap_bytes) as (connection, work):
        connection.set_authorizer(_authorize)
        connection.pulses = None  # only the clock limits it
        connection.set_progress_handler(work.is_over, PULSE)  # KeyboardInterrupt is raised there
        with work.errors():
            cursor = connection.execute(statement)
        if cursor.description is None:
            raise InvalidParameterError("the statement is empty; write, for example: SELECT * FROM runs")
        yield Result(tuple(column[0] for column in cursor.description), work.rows(cursor, limit))


@contextmanager
def opened(path: Path, timeout: float, heap_bytes: int) -> Iterator[tuple[BoundedConnection, _Work]]:
    """Yields a read-only connection with the functions of this module, and the work on its statements.

    A writable connection closes last and tidies up the WAL, because a read-only one cannot.
    """
    check_is_file(path, create=False)
    with (
        closing(open_reader(path)),
        closing(open_reader(path, tidy=False)) as connection,
        closing(_Work(path, timeout)) as work,
    ):
        work.add_functions(connection)
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES)
        connection.execute("PRAGMA temp_store = FILE")
        connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
        if heap_bytes:
            connection.execute(f"PRAGMA hard_heap_limit = {heap_bytes}")
        yield connection, work


@contextmanager
def plain_tables(path: str | os.PathLike[str]) -> Iterator[Database]:
    """Yields the plain tables and views of a file, read-only, with the functions of this module.

    Raises:
      sqlite3.OperationalError: for a statement that writes.
    """
    from sqlite_utils import Database

    with opened(real_path(path), 0, 0) as (connection, _):
        yield Database(connection, recursive_triggers=False)


def _authorize(action: int, first: str | None, second: str | None, *_: str | None) -> int:
    """Returns whether SQLite may perform an action of a statement."""
    if action == sqlite3.SQLITE_FUNCTION and (second or "").lower() == "load_extension":
        return sqlite3.SQLITE_DENY
    if action == sqlite3.SQLITE_UPDATE and first == "sqlite_master":
        return sqlite3.SQLITE_OK  # so SQLite declares json_each and the like; the schema itself is guarded
    if action in _READING:
        return sqlite3.SQLITE_OK
    if action == sqlite3.SQLITE_PRAGMA and (first or "").lower() in _PRAGMAS:
        return sqlite3.SQLITE_OK
    return sqlite3.SQLITE_DENY


class _Work:
    """The work on a statement: its time, its functions, and their errors, which SQLite does not pass on."""

    def __init__(self, path: Path, timeout: float) -> None:
        self._path, self._timeout = path, timeout
        self._used, self._since = 0.0, math.inf  # infinite while SQLite does not work
        self._was_over = False
        self._store: Store | None = None
        self._failure: BaseException | None = None

    def is_over(self) -> bool:
        """Returns whether the statement has taken more than its time; SQLite asks, and then stops."""
        self._was_over = 0 < self._timeout < self._used + monotonic() - self._since
        return self._was_over

    def close(self) -> None:
        """Closes the file of the function `record`."""
        if self._store:
            self._store.close()

    def add_functions(self, connection: sqlite3.Connection) -> None:
        """Registers the functions with a connection."""
        for name, (arguments, call) in PURE.items():
            connection.create_function(name, arguments, self._kept(name, call), deterministic=True)
        connection.create_function("record", 1, self._kept("record", self._record))

    def _kept(self, name: str, function: Callable[..., Value]) -> Callable[..., Value]:
        """Wraps a function: returns NULL for a NULL argument, and records errors."""

        def call(*values: object) -> Value:
            if any(value is None for value in values):
                return None
            try:
                return function(*values)
            except (GraphSearchError, TypeError, ValueError) as error:
                self._failure = self._failure or InvalidParameterError(f"{name}(): {error}")
                raise
            except KeyboardInterrupt as error:
                self._failure = error
                raise

        return call

    def _record(self, fen: object) -> str | None:
        if self._store is None:
            self._store = Store.open(self._path, read_only=True)
        with self._store.snapshot():
            node = view(self._store.read, _board(fen), lines=0)
        return None if node is None else json.dumps(node.as_dict())

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Counts the time of SQLite's work, and converts its errors to errors of this package."""
        self._since = monotonic()
        try:
            yield
        except MemoryError:
            raise StatementLimitError(
                "SQL: the statement exceeds its memory limit; sort or collect fewer rows"
            ) from None
        except (sqlite3.Error, sqlite3.Warning) as error:
            if self._failure is not None:
                raise self._failure from None
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF
            if code == sqlite3.SQLITE_INTERRUPT and not self._was_over:
                raise KeyboardInterrupt from None
            if code == sqlite3.SQLITE_INTERRUPT:
                raise StatementLimitError(
                    f"SQL: stopped after {self._timeout:g} s; --time sets another limit, 0 none"
                ) from None
            if code == sqlite3.SQLITE_TOOBIG:
                most = f"{MAX_VALUE_BYTES >> 20} MiB"
                raise StatementLimitError(
                    f"SQL: a text or BLOB has more than {most}; take a part of it with substr()"
                ) from None
            if code in _FAILURES:
                with sql_errors(self._path, "read it"):
                    raise
            raise InvalidParameterError(f"SQL: {_reason(error)}") from None
        finally:
            self._used += monotonic() - self._since
            self._since = math.inf

    def rows(self, cursor: sqlite3.Cursor, limit: int | None) -> Iterator[tuple[Any, ...]]:
        """Yields the rows, at most `limit` of them."""
        for _ in count() if limit is None else range(limit):
            with self.errors():
                row = cursor.fetchone()
            if row is None:
                return
            yield row


def _reason(error: Exception) -> str:
    text = str(error)
    if "authoriz" in text or "prohibited" in text:
        return f"{text}; only statements that read this file are allowed"
    if text.startswith("no such table"):
        return f"{text}; the table sqlite_master lists all tables and views"
    return text


def json_value(value: Any) -> Any:
    """Returns a value of SQLite for JSON: BLOBs as hex text, infinite numbers as text.

    >>> json_value(b"\\x01\\xff"), json_value(float("inf")), json_value(1.5)
    ('01ff', 'inf', 1.5)
    """
    if isinstance(value, bytes):
        return value.hex()
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def frame(answer: object) -> DataFrame:
    """Returns a pandas DataFrame with a row for each item, and the keys of the commands' JSON as columns.

    Args:
      answer: of `query.sql.sql`; a search result, a node or a tree, for their moves; or items with `as_dict`.

    Raises:
      InvalidParameterError: if it is neither.

    Example:
      >>> import chess
      >>> from graphsearch import Graph, Limits, analyze
      >>> with Graph.open(None) as graph:
      ...     result = analyze(graph, chess.Board(), Limits(visits=50))
      >>> list(frame(result).columns)[:5]
      ['move', 'san', 'n', 'p', 'q']
    """
    import pandas as pd

    if isinstance(answer, Result):
        return pd.DataFrame(answer.rows, columns=list(answer.columns))
    found = getattr(answer, "node", answer)
    found = getattr(found, "moves", found)
    rows = list(found) if isinstance(found, Iterable) else None
    if rows is None or not all(callable(getattr(row, "as_dict", None)) for row in rows):
        raise InvalidParameterError(
            f"the answer must be of sql, or items that have as_dict, not {shortened(ascii(answer))}"
        )
    return pd.DataFrame([row.as_dict() for row in rows])
