"""The table `store_info`: facts of a file, by name."""

from __future__ import annotations

import sqlite3

from ...base.errors import CorruptRecordError
from ..protocol import OpenStore
from .column import MOST_COUNT
from .rows import rows, shown


def fact(connection: sqlite3.Connection, name: str) -> str | None:
    """Returns the value of a row of `store_info`, None if there is none."""
    row = next(rows(connection, "store_info", ("value",), "WHERE name = ?", (name,)), None)
    return None if row is None else str(row[0])


def fact_number(
    connection: sqlite3.Connection, name: str, default: int = 0, among: range = range(MOST_COUNT)
) -> int:
    """Returns the number in a row of `store_info`, `default` if there is no row.

    Raises:
      CorruptRecordError: if the value is not one of the numbers `among`.
    """
    text = fact(connection, name)
    if text is None:
        return default
    if not (len(text) < 20 and text.isascii() and text.isdecimal() and int(text) in among):
        raise CorruptRecordError(f"the table store_info has no number {name!r}: {shown(text)}")
    return int(text)


def set_fact(connection: sqlite3.Connection, name: str, value: str | None) -> None:
    """Sets a row of `store_info`, or removes it if the value is None."""
    if value is None:
        connection.execute("DELETE FROM store_info WHERE name = ?", (name,))
    else:
        connection.execute("INSERT OR REPLACE INTO store_info VALUES (?, ?)", (name, value))


def read_fact(store: OpenStore, name: str) -> str | None:
    """Returns the value of a row of the table `store_info`, None if there is none."""
    with store.reading() as connection:
        return fact(connection, name)


def write_fact(store: OpenStore, name: str, value: str | None) -> None:
    """Sets a row of the table `store_info`, or removes it if the value is None."""
    with store.writing() as connection:
        set_fact(connection, name, value)
