"""A file that is read in one state while it is put together with another one."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from ...errors import UnfinishedError
from ..file import sql_errors
from ..sizes import SIZES, Sizes
from ..store import Store
from ..tables import unfinished
from ..tables.columns import TABLES
from ..tables.rows import rows

Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Input:
    """A file of which one state is read.

    Attributes:
      store: open for reading. name: as a person called it.
      numbers: what its numbers are in the file that is written, by table; 0 stays 0.
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
        """Returns what a number of a row is in the file that is written; None if the row is not there."""
        return 0 if number == 0 else self.numbers.get(table, {}).get(number)


@contextmanager
def opened(path: str | os.PathLike[str], name: str, *, sizes: Sizes = SIZES) -> Iterator[Input]:
    """Yields a file in the state in which it is now, whatever others write meanwhile.

    Args:
      name: as a person called it. sizes: of the portions that are read.

    Raises:
      UnfinishedError: if it is on its way to another evaluator.
      StoreError: if it cannot be read.
    """
    with Store.open(path, read_only=True, sizes=sizes) as store, store.snapshot():
        if state := unfinished.state(store.connection, store.path, store.identity):
            raise UnfinishedError(state)
        yield Input(store, name)
