"""Merges rows with a key number that each file assigns itself: runs, books and others.

A row that several files have becomes one row. All files are read in step, sorted by the identity columns, so
that memory holds only rows that are equal in these, and new numbers do not depend on the order in which the
files are named.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import merge
from itertools import groupby
from typing import Any

from ...base.errors import StoreError
from ..record.node import MAX_RUN
from ..store import Store
from ..tables.rows import insert, rows, shown
from ..tables.schema import TABLES
from .tables import NUMBERED, Input, LeaveOut, Rule

Values = dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Row:
    """A row of one file: number of the input (-1: the target file), its own number, its columns."""

    file: int
    id: int
    values: Values


@dataclass(slots=True)
class _Kept:
    """A row of the target file.

    Attributes:
      id: its number, 0 as long as it has none. members: the rows merged into it, at most one per file.
      changed: whether it has to be written.
    """

    id: int
    values: Values
    members: list[_Row] = field(default_factory=list)
    changed: bool = False


def unite(store: Store, inputs: Sequence[Input], leave_out: LeaveOut) -> dict[str, int]:
    """Merges evaluators, runs and all other numbered rows; returns the number of rows written to each table.

    It needs an open transaction, and fills `numbers` of the inputs.

    Args:
      leave_out: called with a message for each row that cannot be merged.

    Raises:
      StoreError: if there are too many evaluators or runs.
      CorruptRecordError: if a row of an input is damaged.
    """
    for one in inputs:
        one.numbers["evaluator"] = {
            number: store.add_evaluator(identity) for number, identity in one.store.evaluators().items()
        }
    return {table: _Table(store, inputs, table, leave_out).unite() for table in NUMBERED}


def _rank(values: Values, names: Sequence[str]) -> tuple[tuple[bool, Any], ...]:
    """Returns the rank of a row by some columns; NULL comes first, as in SQLite."""
    return tuple((values[name] is not None, values[name]) for name in names)


class _Table:
    def __init__(self, store: Store, inputs: Sequence[Input], table: str, leave_out: LeaveOut) -> None:
        self._store, self._inputs, self._table = store, inputs, table
        self._rule: Rule = NUMBERED[table]
        self._leave_out = leave_out
        statement = f"SELECT coalesce(max(id), 0) FROM {table}"  # noqa: S608 (constants)
        self._last = int(store.connection.execute(statement).fetchone()[0])

    def unite(self) -> int:
        """Merges the rows; returns the number written."""
        for one in self._inputs:
            one.numbers[self._table] = {}
        streams = [self._own(), *map(self._of, range(len(self._inputs)))]
        written = 0
        for _, equal in groupby(merge(*streams, key=self._sort_key), self._sort_key):
            for kept in self._merge_equal(equal):
                written += self._enter(kept)
        return written

    def _own(self) -> Iterator[_Row]:
        """Yields the rows of the target file."""
        names = tuple(TABLES[self._table].columns)
        found = rows(self._store.connection, self._table, names, f"ORDER BY {', '.join(self._rule.identity)}")
        for row in found:
            values = dict(zip(names, row, strict=True))
            yield _Row(-1, values.pop("id"), values)

    def _of(self, file: int) -> Iterator[_Row]:
        """Yields the rows of an input, without those that refer to a row that was left out."""
        one = self._inputs[file]
        names = one.columns(self._table)
        order = ", ".join(self._rule.identity)
        for row in one.rows(self._table, f"ORDER BY {order}"):
            values: Values = dict(zip(names, row, strict=True))
            number = values.pop("id")
            for column, table in self._rule.refs.items():
                values[column] = one.number(table, values[column])
            if None not in (values[column] for column in self._rule.refs):
                yield _Row(file, number, values)

    def _sort_key(self, row: _Row) -> tuple[tuple[bool, Any], ...]:
        return _rank(row.values, self._rule.identity)

    def _merge_equal(self, equal: Iterable[_Row]) -> list[_Kept]:
        """Merges rows with equal sort keys, those of the target file first; returns the merged rows."""
        found: list[_Kept] = []
        for row in equal:
            kept = next((one for one in found if self._is_same(one, row)), None)
            if kept is None:
                found.append(_Kept(max(row.id, 0) if row.file < 0 else 0, row.values, [row], row.file >= 0))
            elif any(kept.values[name] != row.values[name] for name in self._rule.agree):
                self._name(kept, row)
            else:
                kept.members.append(row)
                if _rank(row.values, self._rule.by) > _rank(kept.values, self._rule.by):
                    kept.values, kept.changed = kept.values | row.values, True
        return found

    def _is_same(self, kept: _Kept, row: _Row) -> bool:
        """Returns whether a row and a kept one are the same work: in equal states, or one is unfinished."""
        if any(member.file == row.file for member in kept.members):
            return False
        if any(kept.values[name] != row.values[name] for name in self._rule.refs):
            return False
        until = self._rule.until
        if not until or kept.values[until] is None or row.values[until] is None:
            return True
        return all(kept.values[name] == row.values[name] for name in self._rule.by)

    def _name(self, kept: _Kept, row: _Row) -> None:
        name = ", ".join(shown(row.values[column]) for column in self._rule.identity)
        differing = ", ".join(
            f"{column} is {shown(row.values[column])} here, {shown(kept.values[column])} there"
            for column in self._rule.agree
        )
        self._leave_out(f"{self._inputs[row.file].name}: {self._table} {name}: {differing}; left out")

    def _enter(self, kept: _Kept) -> bool:
        """Writes a row if it has changed, and notes its number for the inputs; returns whether it did."""
        if not kept.id:
            self._last += 1
            kept.id = self._last
            if self._table == "run" and kept.id > MAX_RUN:
                raise StoreError(
                    f"{self._store.path}: these files have more than {MAX_RUN:,} runs together, a file has no"
                    " room for more; merge fewer of them"
                )
        if kept.changed:
            names = ("id", *kept.values)
            insert(self._store.connection, self._table, names, [(kept.id, *kept.values.values())])
        for member in kept.members:
            if member.file >= 0:
                self._inputs[member.file].numbers[self._table][member.id] = kept.id
        return kept.changed
