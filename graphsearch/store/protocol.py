"""The protocol of an open graph file, for the functions of its tables, records and log."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from .index.catalog import Catalog
from .record.provenance import EvaluatorIdentity


class OpenStore(Protocol):
    """An open graph file. `Store` implements it; the protocol avoids circular imports."""

    path: Path
    connection: sqlite3.Connection

    @property
    def parts(self) -> Sequence[OpenStore]:
        """The stores that hold the records: this one, or those of a cluster's shards."""

    @property
    def catalog(self) -> Catalog:
        """The index of segments."""

    @property
    def node_count(self) -> int:
        """Distinct records in the file."""

    def reading(self) -> AbstractContextManager[sqlite3.Connection]:
        """Yields the connection; SQLite errors in the body become a StoreError that names the file."""

    def writing(self) -> AbstractContextManager[sqlite3.Connection]:
        """Joins the open transaction, or makes a new one."""

    def snapshot(self) -> AbstractContextManager[None]:
        """Holds one state of the file for a reader."""

    def rearranging(self) -> AbstractContextManager[None]:
        """Runs the body as one step of a merge."""

    def check_writable(self) -> None:
        """Raises StoreError if the store is closed or open for reading only."""

    def checkpoint(self, *, over: int = 0) -> tuple[int, bool]:
        """Copies the write-ahead log into the file; see `file.checkpoint`."""

    def write_fact(self, name: str, value: str | None) -> None:
        """Sets a row of the table `store_info`, or removes it if the value is None."""

    def bound_to(self, identity: EvaluatorIdentity, number: int) -> None:
        """Records the evaluator that the file is bound to, and its number."""
