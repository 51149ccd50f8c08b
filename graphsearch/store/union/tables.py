"""Rows that are known by their key: those of one file go into another by the rules of `rules.py`."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

from ..store import Store
from ..tables.columns import TABLES
from .inputs import Input
from .rules import KEYED, Rule

ROWS_AT_ONCE = 1000

Row = tuple[Any, ...]


def unite(store: Store, one: Input, leave_out: Callable[[str], object]) -> dict[str, int]:
    """Enters the rows of an input; returns how many of each table that wrote. In a transaction.

    Args:
      leave_out: is told of rows that refer to something that neither file lists.

    Raises:
      CorruptRecordError: if a row of the input is damaged.
    """
    return {table: enter(store.connection, one, table, rule, leave_out) for table, rule in KEYED.items()}


def enter(
    connection: sqlite3.Connection, one: Input, table: str, rule: Rule, leave_out: Callable[[str], object]
) -> int:
    """Returns how many rows of a table it wrote."""
    names = one.columns(table)
    if not names:
        return 0
    statement = upsert(table, names, rule.by)
    before, strays = connection.total_changes, 0
    found = one.rows(table, f"ORDER BY {', '.join(TABLES[table].key)}")  # one page after the other is written
    for some in portions(found):
        translated = [translate(one, names, rule, row) for row in some]
        good = [row for row in translated if row is not None]
        strays += len(translated) - len(good)
        connection.executemany(statement, good)
    if strays:
        what = f"belong to a {_named(rule)} that it does not list, or that is left out"
        leave_out(f"{one.name}: table {table}: {strays} rows {what}")
    return connection.total_changes - before


def portions(found: Iterator[Row]) -> Iterator[Sequence[Row]]:
    """Yields rows in bounded portions."""
    while some := list(islice(found, ROWS_AT_ONCE)):
        yield some


def upsert(table: str, names: Sequence[str], by: Sequence[str]) -> str:
    """Returns the statement that enters a row, or puts it in place of one that is less by some columns.

    >>> upsert("root", ("key", "visits"), ("visits",)).partition(" DO ")[2]
    'UPDATE SET visits = excluded.visits WHERE (coalesce(excluded.visits, -1)) > (coalesce(root.visits, -1))'
    """
    marks = ", ".join("?" * len(names))
    start = f"INSERT INTO {table} ({', '.join(names)}) VALUES ({marks})"  # noqa: S608 (constants)
    key, columns = TABLES[table].key, TABLES[table].columns
    conflict = f"{start} ON CONFLICT ({', '.join(key)}) DO"
    if not by:
        return f"{conflict} NOTHING"
    least = {name: "''" if columns[name].kind == "TEXT" else "-1" for name in by}
    values = ", ".join(f"{name} = excluded.{name}" for name in names if name not in key)
    new, old = (
        ", ".join(f"coalesce({whose}.{name}, {least[name]})" for name in by) for whose in ("excluded", table)
    )
    return f"{conflict} UPDATE SET {values} WHERE ({new}) > ({old})"


def translate(one: Input, names: Sequence[str], rule: Rule, row: Row) -> Row | None:
    """Returns a row with the numbers of the file that is written; None if one of them is not there."""
    values = [
        one.number(rule.refs[name], value) if name in rule.refs and value is not None else value
        for name, value in zip(names, row, strict=True)
    ]
    strays = (now is None and then is not None for now, then in zip(values, row, strict=True))
    return None if any(strays) else tuple(values)


def _named(rule: Rule) -> str:
    return " or ".join(dict.fromkeys(rule.refs.values()))
