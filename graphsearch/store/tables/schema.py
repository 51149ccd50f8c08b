"""The tables of a graph file, as schema/tables.sql declares them: types, keys, NULL and CHECK of columns.

SQLite holds its writers to these rules. A file from a stranger, or with a damaged page, may break them, so a
reader asks SQLite to apply the same rules to what it reads (`fault_of_row`, `rows.query`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources

MAX_BLOCK_BYTES = 1 << 18  # as stored; 32 records take less than 1 << 17 before they are compressed
MAX_GAME_MOVES = 1 << 16  # half-moves; by the 75-move rule no game has 18,000
MAX_TEXT_BYTES = 1 << 19  # of the text of games, in one row, as stored and as written
MAX_INTEGER = (1 << 63) - 1  # SQLite's largest

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
            name = re.compile(rf"\b{self.name}\b")
            rules.append(f"({name.sub(value, self.check)})")
        if self.check.endswith("GLOB '{*}'"):  # in a CHECK, SQLite trusts no JSON function
            rules.append(f"iif(json_valid({value}), json_type({value}) = 'object', 0)")
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
    return (resources.files("graphsearch.schema") / "tables.sql").read_text("utf-8")


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


def first_fault(columns: Sequence[Column], values: Sequence[str]) -> str:
    """Returns the SQL for the index of the first value that does not fit its column; NULL if all fit."""
    cases = (
        f"WHEN NOT {one.fits(value)} THEN {i}"
        for i, (one, value) in enumerate(zip(columns, values, strict=True))
    )
    return f"CASE {' '.join(cases)} END"


@cache
def fault_of_row(name: str) -> str:
    """Returns the SQL for a description of the first fault of a row of a table; NULL if it has none."""
    table = TABLES[name]
    cases = []
    for column, one in table.columns.items():
        found = f"'{column} is ' || {_shown(one)} || {_quoted(f', expected {one.form}')}"
        cases.append(f"WHEN NOT {one.fits(column)} THEN {found}")
    cases += [f"WHEN NOT ({rule}) THEN {_quoted(f'expected {rule}')}" for rule in table.rules]
    return f"CASE {' '.join(cases)} END"


def _shown(one: Column) -> str:
    """Returns the SQL that shows a value of a column: a BLOB by its type and size."""
    blob = f"typeof({one.name}) = 'blob'"
    return f"iif({blob}, 'a BLOB of ' || length({one.name}) || ' bytes', substr(quote({one.name}), 1, 40))"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
