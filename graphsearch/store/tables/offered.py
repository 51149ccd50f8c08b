"""The plain tables of a graph file, as its store offers them: evaluators, runs, roots, positions, facts."""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from ..file import named, sql_errors
from ..left_out import LeftOut
from ..record.provenance import EvaluatorIdentity, RootInfo, RunInfo
from . import provenance, unfinished
from .top import Rows, TopTables
from .unfinished import Unfinished


class PlainTables(ABC):
    """What a store does with its plain tables, through a connection that it has."""

    path: Path
    identity: EvaluatorIdentity
    _connection: sqlite3.Connection
    _evaluator_number: int
    _top: TopTables
    _left_out: LeftOut

    @abstractmethod
    def _writing(self) -> AbstractContextManager[sqlite3.Connection]:
        """Joins the open transaction, or makes one of its own."""

    @abstractmethod
    def _check_open(self) -> None:
        """Raises StoreError if the store is closed."""

    # -------------------------------------------------------------- writing
    def begin_run(
        self,
        position_fen: str,
        limits: Mapping[str, Any],
        params: Mapping[str, Any],
        *,
        kind: str = "search",
        evaluator: int | None = None,
        number: int | None = None,
    ) -> int:
        """Returns the number of a new run, recorded as started now; records evaluated in it carry it.

        Args:
          kind: `search`, or another reason to ask an evaluator.
          evaluator: number of the one that is asked; None: the one that the file is bound to.
          number: for the run; one that has it already stays. None: the next one.

        Raises:
          StoreError: if the file has 1,048,575 runs already.
        """
        with self._writing() as connection, named(self.path):
            return provenance.begin_run(
                connection, position_fen, limits, params, kind=kind, evaluator=evaluator, number=number
            )

    def add_evaluator(self, identity: EvaluatorIdentity) -> int:
        """Returns the number of an evaluator in this file, which lists it from now on.

        Raises:
          StoreError: if the file lists 15 others already.
        """
        with self._writing() as connection, named(self.path):
            return provenance.add_evaluator(connection, identity)

    def bind_evaluator(self, number: int) -> None:
        """Binds the file to one of the evaluators that it lists: no other may be used with it then.

        Raises:
          StoreError: if it lists none of this number.
        """
        with self._writing() as connection, named(self.path):
            self.identity = provenance.bind_evaluator(connection, number)
            self._evaluator_number = number

    def update_run(self, run: int, visits: int, evaluations: int) -> None:
        """Records what a run has added so far."""
        with self._writing() as connection:
            provenance.update_run(connection, run, visits, evaluations, finished=False)

    def finish_run(self, run: int, visits: int, evaluations: int) -> None:
        """Records the end of a run and what it has added."""
        with self._writing() as connection:
            provenance.update_run(connection, run, visits, evaluations, finished=True)

    def record_root(self, key: str, fen: str, visits: int) -> None:
        """Records that a position was searched as a root, with its root N."""
        with self._writing() as connection:
            provenance.record_root(connection, key, fen, visits)

    def raise_root(self, key: str, visits: int) -> None:
        """Records the root N of a position that was searched as a root before, if it is more than it was."""
        with self._writing() as connection:
            provenance.raise_root(connection, key, visits)

    def write_top(self, positions: Rows, edges: Rows) -> None:
        """Lists positions in `top_position` and `top_edge`, by rows as `top.rows_of` has them.

        They follow the records of their positions from now on.
        """
        lost = self._left_out.keys
        with self._writing():
            self._top.write(
                [row for row in positions if row["key"] not in lost],
                [row for row in edges if row["key"] not in lost],
            )

    def write_fact(self, name: str, value: str | None) -> None:
        """Sets a row of the table `store_info`, or removes it."""
        with self._writing() as connection:
            unfinished.write_fact(connection, name, value)

    def mark_unfinished(self, mark: Unfinished | None) -> None:
        """Marks the file as being on its way to another evaluator, or as finished."""
        with self._writing() as connection:
            unfinished.write(connection, mark)

    # -------------------------------------------------------------- reading
    @property
    def unfinished(self) -> Unfinished | None:
        """How far the file is on its way to another evaluator, None if it is on none."""
        self._check_open()
        with sql_errors(self.path, "read it"):
            return unfinished.read(self._connection)

    def read_fact(self, name: str) -> str | None:
        """Returns a row of the table `store_info`, None if there is none."""
        self._check_open()
        with sql_errors(self.path, "read it"):
            return unfinished.read_fact(self._connection, name)

    @property
    def evaluator_number(self) -> int:
        """The number of the evaluator that the file is bound to, which new records carry."""
        return self._evaluator_number

    def evaluators(self) -> dict[int, EvaluatorIdentity]:
        """Returns the evaluators that this file lists, by number."""
        self._check_open()
        with sql_errors(self.path, "read it"):
            return provenance.evaluators(self._connection)

    def runs(self) -> list[RunInfo]:
        """Returns all searches of this file, oldest first."""
        self._check_open()
        with sql_errors(self.path, "read it"):
            return provenance.runs(self._connection)

    def run(self, number: int) -> RunInfo | None:
        """Returns the run of a number, or None."""
        self._check_open()
        with sql_errors(self.path, "read it"):
            return next(iter(provenance.runs(self._connection, number)), None)

    def roots(self) -> list[RootInfo]:
        """Returns all positions searched as roots, the last searched first."""
        self._check_open()
        with sql_errors(self.path, "read it"):
            return provenance.roots(self._connection)
