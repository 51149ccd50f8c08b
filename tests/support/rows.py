"""Values that columns of the plain tables may hold and may not, and tables that take any value."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable
from contextlib import closing, suppress
from pathlib import Path

import chess

from graphsearch.store.tables.rows import TABLES, Column

_GOOD = (
    "text",
    "0123456789abcdef",
    "e2e4",
    chess.STARTING_FEN,
    "{}",
    *("pgn", "white", "study", "leaf", "waiting", "exact", "1-0", "2024-03-15"),
    *(3, 1, 0.5, b"x", ""),
)
HOSTILE = (
    *("NULL", "''", "'x'", "'\xe4'", "x'00ff'", "-1", "0", "1"),
    *("9223372036854775807", "-9223372036854775808", "0.5", "1e999", "-1e999"),
    *("'9' || char(0) || '9'", "CAST(x'ff41' AS TEXT)", "zeroblob(300000)"),
    *("'[1]'", "'{}'", "'nan'", "printf('%.*c', 300000, '7')"),
)  # as SQL


def example(column: Column) -> object:
    return next(value for value in _GOOD if holds(column, value))


def holds(column: Column, value: object) -> bool:
    """Returns whether a column may hold a value, as SQLite decides it."""
    with closing(sqlite3.connect(":memory:")) as blank, suppress(UnicodeEncodeError):  # it was no UTF-8
        return bool(blank.execute(f"SELECT {column.fits('x')} FROM (SELECT ? AS x)", (value,)).fetchone()[0])
    return False


def add_examples(connection: sqlite3.Connection, names: Iterable[str], **fixed: object) -> None:
    """Puts a row into each of some tables that is empty, with these values and others that may be."""
    for name in names:
        if not connection.execute(f"SELECT 1 FROM {name}").fetchone():
            columns = TABLES[name].columns
            row = [fixed.get(column, example(kind)) for column, kind in columns.items()]
            marks = ", ".join("?" * len(row))
            connection.execute(f"INSERT INTO {name} ({', '.join(columns)}) VALUES ({marks})", row)


# ------------------------------------------------------------------ files of strangers
_CHECK = re.compile(r" CHECK \(.*\)(?=,?$)|,\n  CHECK \(.*\)(?=,?$)", re.MULTILINE)


def loosened(sql: str) -> str:
    return _CHECK.sub("", sql.replace(" STRICT, WITHOUT", " WITHOUT").replace(" STRICT", ""))


def loosen(path: Path) -> Path:
    """Makes the tables of a file neither STRICT nor checked any more, and returns its path."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        tables = connection.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'table'").fetchall()
        for name, sql in tables:
            connection.execute("UPDATE sqlite_schema SET sql = ? WHERE name = ?", (loosened(sql), name))
        connection.execute("PRAGMA writable_schema = RESET")
    return path
