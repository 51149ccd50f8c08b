"""The tables of a graph file, as schema/tables.sql declares them: types, keys, NULL and CHECK of columns.

SQLite holds its writers to these rules. A file from a stranger, or with a damaged page, may break them, so a
reader asks SQLite to apply the same rules to what it reads (`fault_of_row`, `query`).

sqlite-utils writes the rows of books, studies, tasks and such. It takes 33 us a row, and 0.06 s to import
(0.26 s where pandas is installed). So facts, runs, roots and history, which every search writes
(`write_row`, `update_row`), and rows by the thousand (`insert`) are written in SQL: neither a search nor a
reader imports it.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from importlib import import_module
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from ...base.errors import CorruptRecordError

MAX_BLOCK_BYTES = 1 << 18  # as stored; 32 records take less than 1 << 17 before they are compressed
MAX_GAME_MOVES = 1 << 16  # half-moves; by the 75-move rule no game has 18,000
MAX_TEXT_BYTES = 1 << 19  # of the text of games, in one row, as stored and as written
MAX_INTEGER = (1 << 63) - 1  # SQLite's largest

_WORD = re.compile(r"\w+")
_TYPEOF = {"INTEGER": "('integer')", "REAL": "('real', 'integer')", "TEXT": "('text')", "BLOB": "('blob')"}


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its name, its type, whether it may be NULL, and its CHECK as SQL; empty if it has none."""

    name: str
    kind: str
    nullable: bool
    check: str

    @property
    def form(self) -> str:
        """The valid values, for messages."""
        null = " or NULL" if self.nullable else ""
        return f"{self.kind}{null}{f' with {self.check}' if self.check else ''}"

    def fits(self, value: str) -> str:
        """Returns the SQL condition that a value, given as SQL, is valid: its type, its CHECK, and no NUL."""
        rules = [f"typeof({value}) IN {_TYPEOF[self.kind]}"]
        if self.kind == "TEXT":
            rules.append(f"instr({value}, char(0)) = 0")
        if self.check:
            check = _WORD.sub(lambda word: value if word[0] == self.name else word[0], self.check)
            rules.append(f"({check})")
        if self.check.endswith("GLOB '{*}'"):  # in a CHECK, SQLite trusts no JSON function
            text = f"replace({value}, ': Infinity', ': 1e999')"  # earlier versions wrote what is not JSON
            rules.append(f"iif(json_valid({text}), json_type({text}) = 'object', 0)")
        valid = f"({' AND '.join(rules)})"
        return f"({value} IS NULL OR {valid})" if self.nullable else valid


@dataclass(frozen=True, slots=True)
class Table:
    """A table: its columns, those of its primary key, and the rules between columns as SQL."""

    key: tuple[str, ...]
    columns: Mapping[str, Column] = field(repr=False)
    rules: tuple[str, ...]


@cache
def tables_sql() -> str:
    """Returns the SQL that makes the tables, indexes and views."""
    # importlib.resources would import zipfile and tempfile at every start
    return Path(import_module("graphsearch.schema").__path__[0], "tables.sql").read_text("utf-8")


_TABLE = re.compile(r"^CREATE TABLE (\w+) \(\n(.*?)\n\)", re.MULTILINE | re.DOTALL)
_COLUMN = re.compile(r"^  ([a-z]\w*) ([A-Z]+)(.*?)(?: CHECK \((.*)\))?,?$", re.MULTILINE)
_KEY = re.compile(r"^  PRIMARY KEY \((.*)\)", re.MULTILINE)
_RULE = re.compile(r"^  CHECK \((.*)\),?$", re.MULTILINE)


def _tables() -> Iterator[tuple[str, Table]]:
    for name, body in _TABLE.findall(tables_sql()):
        key, columns = tuple(", ".join(_KEY.findall(body)).split(", ")), {}
        for column, kind, rest, check in _COLUMN.findall(body):
            if "PRIMARY KEY" in rest:
                key = (column,)
            columns[column] = Column(column, kind, not ("NOT NULL" in rest or key == (column,)), check)
        yield name, Table(key, columns, tuple(_RULE.findall(body)))


TABLES: dict[str, Table] = dict(_tables())


def column(name: str) -> Column:
    """Returns the column of a name `TABLE.COLUMN`; with a final `?` it may also be NULL, by an outer join."""
    table, _, rest = name.partition(".")
    found = TABLES[table].columns[rest.rstrip("?")]
    return replace(found, nullable=True) if rest.endswith("?") else found


@cache
def fault_of_row(name: str) -> str:
    """Returns the SQL for a description of the first fault of a row of a table; NULL if it has none."""
    table = TABLES[name]
    cases = []
    for column, one in table.columns.items():
        blob, size = f"typeof({one.name}) = 'blob'", f"length({one.name})"
        value = f"iif({blob}, 'a BLOB of ' || {size} || ' bytes', substr(quote({one.name}), 1, 40))"
        found = f"'{column} is ' || {value} || {_quoted(f', expected {one.form}')}"
        cases.append(f"WHEN NOT {one.fits(column)} THEN {found}")
    cases += [f"WHEN NOT ({rule}) THEN {_quoted(f'expected {rule}')}" for rule in table.rules]
    return f"CASE {' '.join(cases)} END"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


# ------------------------------------------------------------------ values in messages
if TYPE_CHECKING:
    from _typeshed import DataclassInstance
    from sqlite_utils.db import Table as WritableTable

Row = tuple[Any, ...]
_Value = TypeVar("_Value", bound="DataclassInstance")

SHOWN = 40  # characters of a value in a message
DEEPEST = 32  # objects and lists within each other in a JSON object


def shown(value: object) -> str:
    """Returns a value as text for messages, truncated."""
    text = ascii(value[: SHOWN + 1] if isinstance(value, str | bytes) else value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


def json_object(text: object) -> dict[str, Any] | None:
    """Returns the JSON object of a text; None if it is not one, or is nested deeper than `DEEPEST`.

    >>> json_object('{"depth": 1e999}'), json_object("nojson"), json_object("[]")
    ({'depth': 'inf'}, None, None)
    """
    try:
        found = (
            json.loads(text, parse_float=_number, parse_constant=_number) if isinstance(text, str) else None
        )
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and _is_flat(found) else None


def _number(text: str) -> float | str:
    """Returns a number of JSON; one that is not finite as text, since JSON cannot write it again."""
    return number if isfinite(number := float(text)) else str(number)


def _is_flat(found: object, left: int = DEEPEST) -> bool:
    """Returns whether objects and lists in a JSON value are nested at most DEEPEST deep."""
    if not isinstance(found, dict | list):
        return True
    return left > 0 and all(
        _is_flat(x, left - 1) for x in (found.values() if isinstance(found, dict) else found)
    )


# ------------------------------------------------------------------ reading
@cache
def _checked(statement: str, names: tuple[str, ...]) -> str:
    """Returns a statement with one more column: the index of the first invalid value, or NULL."""
    values = [f"c{i}" for i in range(len(names))]
    fits = (column(name).fits(value) for name, value in zip(names, values, strict=True))
    fault = f"CASE {' '.join(f'WHEN NOT {fit} THEN {i}' for i, fit in enumerate(fits))} END"
    return f"WITH found({', '.join(values)}) AS ({statement}) SELECT *, {fault} FROM found"  # noqa: S608 (ours)


def query(
    connection: sqlite3.Connection, statement: str, values: Sequence[object], *names: str
) -> Iterator[Row]:
    """Yields the rows of a statement.

    Args:
      values: of its marks. names: `TABLE.COLUMN` of each of its columns, as in `column`.

    Raises:
      CorruptRecordError: at the first row with a value that these columns do not allow.
    """
    for *row, fault in connection.execute(_checked(statement, names), values):
        if fault is not None:
            table, _, rest = names[fault].partition(".")
            where = ", ".join(shown(part) for part in row[:2])
            raise CorruptRecordError(
                f"the table {table} is damaged in the row ({where}, ...): {rest.rstrip('?')} is"
                f" {shown(row[fault])}, expected {column(names[fault]).form};"
                " `graphsearch store verify` lists such rows, `store salvage` leaves them out"
            )
        yield tuple(row)


def rows(
    connection: sqlite3.Connection,
    table: str,
    names: Sequence[str],
    rest: str = "",
    values: Sequence[object] = (),
) -> Iterator[Row]:
    """Yields columns of the rows of a table; CorruptRecordError at the first row that is damaged.

    Args:
      rest: the clauses after the table. values: of its marks.
    """
    statement = f"SELECT {', '.join(names)} FROM {table} {rest}"  # noqa: S608 (constants)
    return query(connection, statement, values, *(f"{table}.{name}" for name in names))


def read_rows(
    connection: sqlite3.Connection,
    table: str,
    kind: type[_Value],
    rest: str = "",
    values: Sequence[object] = (),
    *,
    objects: Sequence[str] = (),
) -> list[_Value]:
    """Returns rows of a table as values of a dataclass, whose fields are columns of the table.

    Args:
      rest, values: as for `rows`. objects: the columns that hold JSON objects; the fields get these.
    """
    wanted = {field.name for field in fields(kind)}
    names = tuple(name for name in TABLES[table].columns if name in wanted)
    found = (dict(zip(names, row, strict=True)) for row in rows(connection, table, names, rest, values))
    return [kind(**row | {name: json_object(row[name]) or {} for name in objects}) for row in found]


# ------------------------------------------------------------------ writing
def table_of(connection: sqlite3.Connection, table: str) -> WritableTable:
    """Returns a table for sqlite-utils, which joins the open transaction and calls no plugin."""
    from sqlite_utils import Database

    return Database(connection, recursive_triggers=False, execute_plugins=False).table(table)


def write_row(
    connection: sqlite3.Connection,
    table: str,
    row: Mapping[str, object],
    *,
    otherwise: Literal["REPLACE", "ABORT"] = "REPLACE",
) -> int:
    """Writes a row; columns that it lacks get their defaults. Returns its number, if it has one.

    Args:
      otherwise: at an existing key, replace the old row, or raise.
    """
    return connection.execute(_insertion(table, tuple(row), otherwise), tuple(row.values())).lastrowid or 0


def update_row(connection: sqlite3.Connection, table: str, number: int, row: Mapping[str, object]) -> None:
    """Sets some columns of the row with the key `id`."""
    marks = ", ".join(f"{name} = ?" for name in row)
    connection.execute(f"UPDATE {table} SET {marks} WHERE id = ?", (*row.values(), number))  # noqa: S608


def insert(
    connection: sqlite3.Connection,
    table: str,
    names: Sequence[str],
    values: Iterable[Row],
    *,
    otherwise: Literal["REPLACE", "IGNORE", "ABORT"] = "REPLACE",
) -> None:
    """Inserts many rows into columns of a table.

    Args:
      otherwise: at an existing key, replace the old row, ignore the new one, or raise.
    """
    connection.executemany(_insertion(table, names, otherwise), values)


def _insertion(table: str, names: Sequence[str], otherwise: str) -> str:
    marks = ", ".join("?" * len(names))
    return f"INSERT OR {otherwise} INTO {table} ({', '.join(names)}) VALUES ({marks})"  # noqa: S608 (constants)
