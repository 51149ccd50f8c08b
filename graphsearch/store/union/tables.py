"""Merges the plain tables of two files, by a rule for every table of `tables/schema.py`.

A row is identified by the key of its table or, if that is a number that each file assigns itself, by other
columns (`identity`). Numbers of other rows are translated (`refs`). A new column needs no change here, a new
table one line. This module merges rows identified by their key, `numbers.py` the others.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from ...base.errors import UnfinishedError
from ..file import sql_errors
from ..store import Store
from ..tables import unfinished
from ..tables.rows import rows
from ..tables.schema import TABLES


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """How the rows of a table are merged.

    Attributes:
      refs: column -> table that its numbers refer to; NULL stays NULL.
      by: columns that decide between two versions of a row: the greater one counts, else the old one.
      identity: columns that identify a row with the number `id` as its key; empty if the key itself does.
      until: the column that is NULL as long as such a row may change; without it, `by` alone decides.
      agree: columns that must be equal in both versions; if they differ, the second is left out and reported.
    """

    refs: Mapping[str, str] = field(default_factory=dict)
    by: tuple[str, ...] = ()
    identity: tuple[str, ...] = ()
    until: str = ""
    agree: tuple[str, ...] = ()


# in the order in which they are merged: a table before those that refer to it
NUMBERED: dict[str, Rule] = {
    "run": Rule(
        refs={"evaluator": "evaluator"},
        identity=("started", "position", "limits", "params", "kind", "program"),
        until="finished",
        by=("finished", "visits", "evaluations"),
    ),
    "book": Rule(identity=("name",), by=("updated", "created"), agree=("side",)),
    "book_run": Rule(
        refs={"book": "book", "run": "run"},
        identity=("started", "config"),
        until="finished",
        by=("finished", "visits", "evaluations", "positions", "searched", "seconds"),
    ),
    "book_queue": Rule(identity=("added", "book", "fen", "moves", "origin"), by=("changed",)),
    "player": Rule(identity=("name",)),
    "event": Rule(identity=("name", "site")),
    "entry_run": Rule(
        identity=("started", "kind", "fen", "limits", "evaluation", "program"),
        until="finished",
        by=("finished", "nodes", "seconds"),
    ),
    "entry_iteration": Rule(
        refs={"run": "entry_run"}, identity=("depth", "alpha", "beta", "value", "nodes", "seconds", "pv")
    ),
}

KEYED: dict[str, Rule] = {
    "root": Rule(by=("visits", "last_searched")),
    "searched_apart": Rule(),
    "root_history": Rule(refs={"run": "run"}, by=("saved",)),
    "book_history": Rule(refs={"book": "book", "run": "run"}, by=("saved",)),
    "game": Rule(refs={"source": "source", "white": "player", "black": "player", "event": "event"}),
    "game_index": Rule(refs={"source": "source"}),
    "game_text": Rule(refs={"source": "source"}),
    "polyglot_entry": Rule(refs={"source": "source"}, by=("fen",)),  # one that has a name
    "epd_position": Rule(refs={"source": "source"}),
    "book_root": Rule(refs={"book": "book"}),
}

# tables that a module of their own merges: `numbers.py`, `imports.py`, `books.py`, `entries.py`, `records.py`
OWN = frozenset(
    {
        *("evaluator", "source", "game_position", "game_move", "book_position", "book_move"),
        *("entry_piece", "study", "study_position", "note", "segment", "chunk", "block"),
    }
)

# not merged: facts of one file; tables derived from the records, which are rebuilt; the log of edits;
# the queue of the page, with tasks for one file
LEFT = frozenset({"store_info", "top_position", "top_edge", "edit", "task"})


Row = tuple[Any, ...]
LeaveOut = Callable[[str], object]


@dataclass(frozen=True, slots=True)
class Input:
    """An input file, read in one snapshot.

    Attributes:
      store: open for reading. name: as the user gave it.
      numbers: by table, the number in the target file for each number of this one; 0 stays 0.
    """

    store: Store
    name: str
    numbers: dict[str, dict[int, int]] = field(default_factory=dict)

    @property
    def connection(self) -> sqlite3.Connection:
        """The connection, in a transaction."""
        return self.store.connection

    def columns(self, table: str) -> tuple[str, ...]:
        """Returns the columns of a table."""
        return tuple(TABLES[table].columns)

    def rows(self, table: str, rest: str = "", values: tuple[object, ...] = ()) -> Iterator[Row]:
        """Yields the rows of a table, by `columns`.

        Raises:
          CorruptRecordError: at the first row that is damaged, naming the file.
        """
        with sql_errors(self.store.path, "read it"):
            yield from rows(self.connection, table, self.columns(table), rest, values)

    def number(self, table: str, number: int) -> int | None:
        """Returns the target file's number for a row; None if the row is not there."""
        return 0 if number == 0 else self.numbers.get(table, {}).get(number)


@contextmanager
def open_input(path: str | os.PathLike[str], name: str) -> Iterator[Input]:
    """Yields a file as a snapshot of its current state; others may write to it meanwhile.

    Args:
      name: as the user gave it.

    Raises:
      UnfinishedError: if it is being moved to another evaluator.
      StoreError: if it cannot be read.
    """
    with Store.open(path, read_only=True) as store, store.snapshot():
        if state := unfinished.state(store.connection, store.path, store.identity):
            raise UnfinishedError(state)
        yield Input(store, name)


ROWS_AT_ONCE = 1000


def unite(store: Store, one: Input, leave_out: LeaveOut) -> dict[str, int]:
    """Merges the rows of an input, in an open transaction; returns the number written to each table.

    Args:
      leave_out: called with a message for each table with rows that refer to a missing row.

    Raises:
      CorruptRecordError: if a row of the input is damaged.
    """
    return {table: enter(store.connection, one, table, rule, leave_out) for table, rule in KEYED.items()}


def enter(connection: sqlite3.Connection, one: Input, table: str, rule: Rule, leave_out: LeaveOut) -> int:
    """Merges the rows of one table; returns the number written."""
    names = one.columns(table)
    statement = upsert(table, names, rule.by)
    before, strays = connection.total_changes, 0
    found = one.rows(table, f"ORDER BY {', '.join(TABLES[table].key)}")  # writes pages in order
    for some in portions(found):
        translated = [translate(one, names, rule, row) for row in some]
        good = [row for row in translated if row is not None]
        strays += len(translated) - len(good)
        connection.executemany(statement, good)
    if strays:
        named = " or ".join(dict.fromkeys(rule.refs.values()))
        what = f"belong to a {named} that it does not list, or that is left out"
        leave_out(f"{one.name}: table {table}: {strays} rows {what}")
    return connection.total_changes - before


def portions(found: Iterator[Row]) -> Iterator[Sequence[Row]]:
    """Yields rows in bounded portions."""
    while some := list(islice(found, ROWS_AT_ONCE)):
        yield some


def upsert(table: str, names: Sequence[str], by: Sequence[str]) -> str:
    """Returns the statement that inserts a row, or replaces one that is less in the columns `by`.

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
    """Returns a row with the target file's numbers; None if it refers to a row that is not there."""
    values = [
        one.number(rule.refs[name], value) if name in rule.refs and value is not None else value
        for name, value in zip(names, row, strict=True)
    ]
    strays = (now is None and then is not None for now, then in zip(values, row, strict=True))
    return None if any(strays) else tuple(values)
