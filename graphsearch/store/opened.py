"""What the functions of a store need of it: those of its tables, its records and its log."""

from __future__ import annotations

import sqlite3
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from .index.catalog import Catalog
from .record.provenance import EvaluatorIdentity


class OpenStore(Protocol):
    """An open graph file, as `Store` is; so that no module imports what imports it."""

    path: Path
    connection: sqlite3.Connection

    @property
    def catalog(self) -> Catalog:
        """The index of segments."""

    @property
    def node_count(self) -> int:
        """Distinct records in the file."""

    def reading(self) -> AbstractContextManager[sqlite3.Connection]:
        """Yields the connection; an error of SQLite inside names the file."""

    def writing(self) -> AbstractContextManager[sqlite3.Connection]:
        """Joins the open transaction, or makes one of its own."""

    def snapshot(self) -> AbstractContextManager[None]:
        """Holds one state of the file for a reader."""

    def rearranging(self) -> AbstractContextManager[None]:
        """Makes one step of a merge."""

    def check_writable(self) -> None:
        """Raises StoreError if the store is closed or open for reading only."""

    def checkpoint(self, *, over: int = 0) -> tuple[int, bool]:
        """Copies the write-ahead log into the file; see `log.checkpoint`."""

    def write_fact(self, name: str, value: str | None) -> None:
        """Sets a row of the table `store_info`, or removes it."""

    def bound_to(self, identity: EvaluatorIdentity, number: int) -> None:
        """Notes the evaluator that the file is bound to."""
