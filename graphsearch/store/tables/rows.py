"""Reads rows of the plain tables, checked against their columns (`columns.py`), and inserts rows."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import astuple, fields
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

from ...base.errors import CorruptRecordError
from .column import Column
from .columns import TABLES

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Row = tuple[Any, ...]
_Value = TypeVar("_Value", bound="DataclassInstance")


class Readable(Protocol):
    """An open graph file that can be read."""

    def reading(self) -> AbstractContextManager[sqlite3.Connection]:
        """Yields the connection; SQLite errors in the body become a StoreError that names the file."""


CHECKED_AT_ONCE = 512  # rows, column by column: in a fifth of the time that row by row takes
SHOWN = 40  # characters of a value in a message


@cache
def column(name: str) -> Column:
    """Returns the column of a name `TABLE.COLUMN`; with a final `?` it may also be NULL, by an outer join."""
    table, _, rest = name.partition(".")
    found = TABLES[table].columns[rest.rstrip("?")]
    return found.or_null() if rest.endswith("?") else found


def shown(value: object) -> str:
    """Returns a value as text for messages, truncated."""
    text = ascii(value[: SHOWN + 1] if isinstance(value, str | bytes) else value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


def fault_of(table: str, row: Mapping[str, object]) -> str:
    """Returns the first fault of a row of a table, given by column; empty if it has none.

    >>> fault_of("top_edge", {"move": "e2e4", "n": -1})
    'n is -1, expected an integer from 0 to 4294967295'
    """
    columns = TABLES[table].columns
    for name, value in row.items():
        if not columns[name].holds(value):
            return f"{name} is {shown(value)}, expected {columns[name].form}"
    return ""


def checked(found: Iterable[Row], *names: str) -> Iterator[Row]:
    """Yields rows unchanged, after checking them.

    Args:
      found: rows of any statement. names: `TABLE.COLUMN` of each of its columns, as in `column`.

    Raises:
      CorruptRecordError: at the first row that does not fit these columns.
    """
    columns = [column(name) for name in names]
    left = iter(found)
    while some := list(islice(left, CHECKED_AT_ONCE)):
        if not all(
            one.holds_all(values) for one, values in zip(columns, zip(*some, strict=True), strict=True)
        ):
            yield from (_checked_row(row, columns, names) for row in some)
        else:
            yield from some


def _checked_row(row: Row, columns: Sequence[Column], names: Sequence[str]) -> Row:
    """Returns the row unchanged; raises CorruptRecordError if it does not fit these columns."""
    for value, one, name in zip(row, columns, names, strict=True):
        if not one.holds(value):
            table, _, rest = name.partition(".")
            where = ", ".join(shown(part) for part in row[:2])
            raise CorruptRecordError(
                f"the table {table} is damaged in the row ({where}, ...): {rest.rstrip('?')} is"
                f" {shown(value)}, expected {one.form}; `graphsearch store verify` lists such rows,"
                " `store salvage` leaves them out"
            )
    return row


def insert(
    connection: sqlite3.Connection,
    table: str,
    names: Sequence[str],
    values: Iterable[Row],
    *,
    otherwise: Literal["REPLACE", "IGNORE", "ABORT"] = "REPLACE",
) -> None:
    """Inserts rows into a table.

    Args:
      names: their columns. values: the rows.
      otherwise: at an existing key, replace the old row, ignore the new one, or raise.
    """
    marks = ", ".join("?" * len(names))
    statement = f"INSERT OR {otherwise} INTO {table} ({', '.join(names)}) VALUES ({marks})"  # noqa: S608
    connection.executemany(statement, values)


def listed(
    store: Readable,
    table: str,
    rest: str = "",
    values: Sequence[object] = (),
    *,
    names: Sequence[str] | None = None,
) -> list[Row]:
    """Returns the rows of a table of an open file as `rows` does; all columns by default."""
    with store.reading() as connection:
        return list(rows(connection, table, names or tuple(TABLES[table].columns), rest, values))


def rows(
    connection: sqlite3.Connection,
    table: str,
    names: Sequence[str],
    rest: str = "",
    values: Sequence[object] = (),
) -> Iterator[Row]:
    """Yields columns of the rows of a table.

    Args:
      names: the columns. rest: the clauses after the table. values: of its marks.

    Raises:
      CorruptRecordError: at the first row that is damaged.
    """
    statement = f"SELECT {', '.join(names)} FROM {table} {rest}"  # noqa: S608 (constants)
    return checked(connection.execute(statement, values), *(f"{table}.{name}" for name in names))


def read_rows(
    connection: sqlite3.Connection,
    table: str,
    kind: type[_Value],
    rest: str = "",
    values: Sequence[object] = (),
) -> list[_Value]:
    """Returns rows of a table as values of a dataclass, whose fields are the last columns of the table.

    Args:
      rest, values: as for `rows`.
    """
    names = tuple(TABLES[table].columns)[-len(fields(kind)) :]
    return [kind(*row) for row in rows(connection, table, names, rest, values)]


def write_rows(
    connection: sqlite3.Connection, table: str, found: Iterable[DataclassInstance], *first: object
) -> None:
    """Writes values of a dataclass as rows of a table, replacing those of the same keys.

    Args:
      first: the values of the table's first columns, which the dataclass lacks.
    """
    insert(connection, table, tuple(TABLES[table].columns), ((*first, *astuple(one)) for one in found))
