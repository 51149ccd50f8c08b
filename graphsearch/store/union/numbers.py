"""Merges rows with a key number that each file assigns itself: runs, books and others.

A row that several files have becomes one row. All files are read in step, sorted by the identity columns, so
that memory holds only rows that are equal in these, and new numbers do not depend on the order in which the
files are named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import merge
from itertools import groupby
from typing import Any

from ...base.errors import StoreError
from ..record.node import MAX_RUN
from ..store import Store
from ..tables.rows import rows, shown, write_row
from ..tables.schema import TABLES
from .tables import NUMBERED, Input, LeaveOut, Rule


@dataclass(slots=True)
class _Row:
    """A row of one file, or of the target file after rows of others are merged into it.

    Attributes:
      file: number of the input, -1: the target file. id: its own number, 0: none in the target file yet.
      values: the other columns. members: the rows of inputs that were merged into it, as (file, id).
      is_new: whether it has to be written.
    """

    file: int
    id: int
    values: dict[str, Any]
    members: list[tuple[int, int]] = field(default_factory=list)
    is_new: bool = False

    def rank(self, names: Sequence[str]) -> tuple[tuple[bool, Any], ...]:
        """Returns its rank by some columns; NULL comes first, as in SQLite."""
        return tuple((self.values[name] is not None, self.values[name]) for name in names)


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
    return {table: _unite(store, inputs, table, leave_out) for table in NUMBERED}


def _unite(store: Store, inputs: Sequence[Input], table: str, leave_out: LeaveOut) -> int:
    """Merges the rows of one table; returns the number written."""
    rule, written = NUMBERED[table], 0
    statement = f"SELECT coalesce(max(id), 0) FROM {table}"  # noqa: S608 (constants)
    last = int(store.connection.execute(statement).fetchone()[0])
    names, order = tuple(TABLES[table].columns), f"ORDER BY {', '.join(rule.identity)}"
    streams = [_rows_of(-1, names, rows(store.connection, table, names, order))]
    for file, one in enumerate(inputs):
        one.numbers[table] = {}
        streams.append(_translated(one, rule, _rows_of(file, names, one.rows(table, order))))

    def by_identity(row: _Row) -> tuple[tuple[bool, Any], ...]:
        return row.rank(rule.identity)

    for _, equal in groupby(merge(*streams, key=by_identity), by_identity):
        for kept in _merged(equal, rule, lambda kept, row: leave_out(_differs(inputs, table, kept, row))):
            if not kept.id:
                kept.id = last = last + 1
            if table == "run" and last > MAX_RUN:
                raise StoreError(
                    f"{store.path}: these files have more than {MAX_RUN:,} runs together, a file has no room"
                    " for more; merge fewer of them"
                )
            if kept.is_new:
                write_row(store.connection, table, {"id": kept.id, **kept.values})
                written += 1
            for file, number in kept.members:
                inputs[file].numbers[table][number] = kept.id
    return written


def _rows_of(file: int, names: Sequence[str], found: Iterable[Sequence[Any]]) -> Iterator[_Row]:
    for row in found:
        values = dict(zip(names, row, strict=True))
        yield _Row(file, values.pop("id"), values)


def _translated(one: Input, rule: Rule, found: Iterable[_Row]) -> Iterator[_Row]:
    """Yields the rows with the target file's numbers, without those that refer to a row that was left out."""
    for row in found:
        numbers = {column: one.number(table, row.values[column]) for column, table in rule.refs.items()}
        row.values |= numbers
        if None not in numbers.values():
            yield _Row(row.file, 0, row.values, [(row.file, row.id)], is_new=True)


def _merged(equal: Iterable[_Row], rule: Rule, leave_out: Callable[[_Row, _Row], object]) -> list[_Row]:
    """Merges rows with equal identities, those of the target file first; returns the merged rows."""
    found: list[_Row] = []
    for row in equal:
        kept = next((one for one in found if _is_same(one, row, rule)), None)
        if kept is None:
            found.append(row)
        elif any(kept.values[name] != row.values[name] for name in rule.agree):
            leave_out(kept, row)
        else:
            kept.members += row.members
            if row.rank(rule.by) > kept.rank(rule.by):
                kept.values, kept.is_new = kept.values | row.values, True
    return found


def _is_same(kept: _Row, row: _Row, rule: Rule) -> bool:
    """Returns whether a row and a kept one are the same work: in equal states, or one is unfinished."""
    if row.file in (kept.file, *(file for file, _ in kept.members)):
        return False
    if any(kept.values[name] != row.values[name] for name in rule.refs):
        return False
    if not rule.until or kept.values[rule.until] is None or row.values[rule.until] is None:
        return True
    return all(kept.values[name] == row.values[name] for name in rule.by)


def _differs(inputs: Sequence[Input], table: str, kept: _Row, row: _Row) -> str:
    rule = NUMBERED[table]
    name = ", ".join(shown(row.values[column]) for column in rule.identity)
    differing = ", ".join(
        f"{column} is {shown(row.values[column])} here, {shown(kept.values[column])} there"
        for column in rule.agree
    )
    return f"{inputs[row.file].name}: {table} {name}: {differing}; left out"
