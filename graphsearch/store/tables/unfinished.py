"""The mark of an unfinished change of evaluator: until the change ends, the file has mixed values."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, fields
from pathlib import Path

from ...base.errors import CorruptRecordError, UnfinishedError
from ..record.provenance import EvaluatorIdentity
from .provenance import fact
from .rows import json_object

MARK = "reevaluating"  # row of store_info
UNSETTLED = "unsettled"  # row of store_info: a merge or a search of some moves has left stale values


@dataclass(frozen=True, slots=True)
class Unfinished:
    """The progress of a reevaluation of the whole file.

    Attributes:
      evaluator: number of the new evaluator, which the file is bound to already.
      done: records processed so far. total: records of the file at the beginning.
      evaluated, seconds: evaluations and time so far.
      change, largest: sum and maximum of |dV| over evaluated records.
      command: the command that resumes it; empty if unknown.
    """

    evaluator: int
    done: int = 0
    total: int = 0
    evaluated: int = 0
    seconds: float = 0.0
    change: float = 0.0
    largest: float = 0.0
    command: str = ""

    def describe(self, identity: EvaluatorIdentity) -> str:
        """Returns the state as part of a sentence: the new evaluator and the progress."""
        so_far = f"{self.done:,} of {self.total:,} positions are done"
        return f"is being reevaluated with {identity.describe()}, {so_far}"


def read(connection: sqlite3.Connection) -> Unfinished | None:
    """Returns the mark of the file, None if it has none.

    Raises:
      CorruptRecordError: if the stored value is not a mark.
    """
    text = fact(connection, MARK)
    if text is None:
        return None
    found = json_object(text) or {}
    kinds = {one.name: (str if one.type == "str" else int | float) for one in fields(Unfinished)}
    if not {"evaluator"} <= found.keys() <= kinds.keys() or not all(
        isinstance(value, kinds[name]) for name, value in found.items()
    ):
        raise CorruptRecordError("the table store_info has no state of a reevaluation")
    return Unfinished(**found)


def state(connection: sqlite3.Connection, path: Path, identity: EvaluatorIdentity) -> str:
    """Returns the progress of a marked file and how to resume; empty if it is not marked.

    Args:
      identity: of the evaluator that the file is bound to.
    """
    mark = read(connection)
    if mark is None:
        return ""
    how = f"`{mark.command}`" if mark.command else "`graphsearch reevaluate`"
    return f"{path} {mark.describe(identity)}, and its values are mixed; continue with {how}"


def refuse(connection: sqlite3.Connection, path: Path, identity: EvaluatorIdentity | None) -> None:
    """Raises UnfinishedError if the file is marked."""
    found = state(connection, path, identity) if identity else ""
    if found:
        raise UnfinishedError(found)
