"""The mark of a file on its way from one evaluator to another: until the end of it, values are mixed."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from ...base.errors import CorruptRecordError, UnfinishedError
from ..opened import OpenStore
from ..record.provenance import EvaluatorIdentity
from .column import json_object
from .rows import rows

MARK, ROOTS = "reevaluating", "reevaluating_roots"  # rows of store_info
IMAGE = "image"  # another: name of the image of the last session's memory (`graph/image.py`), until a change


@dataclass(frozen=True, slots=True)
class Unfinished:
    """How far a reevaluation of the whole file is.

    Attributes:
      evaluator: number of the evaluator that the file is on its way to, and bound to.
      done: records passed so far. total: records of the file when it began.
      evaluated, seconds: what that took. reused: records that took over a second opinion.
      change, largest: sum and maximum of |dV| over both.
      command: what a person types to go on; empty if nobody said.
    """

    evaluator: int
    done: int = 0
    total: int = 0
    evaluated: int = 0
    reused: int = 0
    seconds: float = 0.0
    change: float = 0.0
    largest: float = 0.0
    command: str = ""

    def describe(self, identity: EvaluatorIdentity) -> str:
        """Returns the state as part of a sentence: what is being done, and how much of it is."""
        so_far = f"{self.done:,} of {self.total:,} positions are done"
        return f"is being reevaluated with {identity.describe()}, {so_far}"


def fact(connection: sqlite3.Connection, name: str) -> str | None:
    """Returns a row of `store_info`, or None."""
    row = next(rows(connection, "store_info", ("value",), "WHERE name = ?", (name,)), None)
    return None if row is None else str(row[0])


def set_fact(connection: sqlite3.Connection, name: str, value: str | None) -> None:
    """Sets a row of `store_info`, or removes it."""
    if value is None:
        connection.execute("DELETE FROM store_info WHERE name = ?", (name,))
    else:
        connection.execute("INSERT OR REPLACE INTO store_info VALUES (?, ?)", (name, value))


def read_fact(store: OpenStore, name: str) -> str | None:
    """Returns a row of the table `store_info`, None if there is none."""
    with store.reading() as connection:
        return fact(connection, name)


def write_fact(store: OpenStore, name: str, value: str | None) -> None:
    """Sets a row of the table `store_info`, or removes it."""
    with store.writing() as connection:
        set_fact(connection, name, value)


def read(connection: sqlite3.Connection) -> Unfinished | None:
    """Returns the mark of the file, None if it is as it should be.

    Raises:
      CorruptRecordError: if what is written there is no mark.
    """
    text = fact(connection, MARK)
    if text is None:
        return None
    found = json_object(text)
    if found is None or not _is_mark(found):
        raise CorruptRecordError("the table store_info has no state of a reevaluation")
    return Unfinished(**found)


def _is_mark(found: dict[str, Any]) -> bool:
    """Returns whether an object has the fields of a mark, each a number or text as there."""
    kinds = {one.name: (str if one.type == "str" else int | float) for one in fields(Unfinished)}
    return {"evaluator"} <= found.keys() <= kinds.keys() and all(
        isinstance(value, kinds[name]) for name, value in found.items()
    )


def mark_unfinished(store: OpenStore, mark: Unfinished | None) -> None:
    """Marks a file as being on its way to another evaluator, or as finished."""
    store.write_fact(MARK, None if mark is None else json.dumps(asdict(mark)))


def state(connection: sqlite3.Connection, path: Path, identity: EvaluatorIdentity) -> str:
    """Returns what is going on with a marked file, and how to go on; empty if it is not marked.

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
