"""The plain tables of facts, evaluators, runs and roots; `schema/store.md` describes them.

They take a connection, and so also work on a file that is being opened, or is damaged.
"""

from __future__ import annotations

import json
import sqlite3
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from ...base.errors import CorruptRecordError, EvaluatorMismatchError, StoreError
from ...base.system import join_command
from ...base.version import __version__
from ..record.node import MAX_EVALUATOR
from ..record.provenance import UNBOUND, EvaluatorIdentity, differences
from .rows import json_object, rows, shown, write_row

MOST_COUNT = (1 << 53) - 1  # exact in every program that reads JSON
FIRST_EVALUATOR = 1  # id of the evaluator of a new file


def now() -> str:
    """Returns the present time as ISO 8601 in UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def fact(connection: sqlite3.Connection, name: str) -> str | None:
    """Returns the value of a row of `store_info`, None if there is none."""
    row = next(rows(connection, "store_info", ("value",), "WHERE name = ?", (name,)), None)
    return None if row is None else str(row[0])


def fact_number(
    connection: sqlite3.Connection, name: str, default: int = 0, among: range = range(MOST_COUNT)
) -> int:
    """Returns the number in a row of `store_info`, `default` if there is no row.

    Raises:
      CorruptRecordError: if the value is not one of the numbers `among`.
    """
    text = fact(connection, name)
    if text is None:
        return default
    if not (len(text) < 20 and text.isascii() and text.isdecimal() and int(text) in among):
        raise CorruptRecordError(f"the table store_info has no number {name!r}: {shown(text)}")
    return int(text)


def set_fact(connection: sqlite3.Connection, name: str, value: str | None) -> None:
    """Sets a row of `store_info`, or removes it if the value is None."""
    if value is None:
        connection.execute("DELETE FROM store_info WHERE name = ?", (name,))
    else:
        write_row(connection, "store_info", {"name": name, "value": value})


def _write_creation(connection: sqlite3.Connection) -> None:
    """Records the time and the program of the file's creation, unless they are recorded."""
    facts = [("created", now()), ("created_by", f"graphsearch {__version__}"), ("nodes", "0")]
    connection.executemany("INSERT OR IGNORE INTO store_info VALUES (?, ?)", facts)


def write_evaluator(connection: sqlite3.Connection, number: int, identity: EvaluatorIdentity) -> None:
    """Writes a row of `evaluator`."""
    row = asdict(identity) | {
        "id": number,
        "identity": identity.as_json(),
        "options": json.dumps(dict(identity.options), sort_keys=True),
    }
    write_row(connection, "evaluator", row, otherwise="ABORT")


def evaluator_number(connection: sqlite3.Connection) -> int:
    """Returns the id of the evaluator that the file is bound to.

    Raises:
      CorruptRecordError: if the stored value is not a number.
    """
    return fact_number(connection, "evaluator", FIRST_EVALUATOR, range(1, MAX_EVALUATOR + 1))


def read_identity(connection: sqlite3.Connection) -> EvaluatorIdentity | None:
    """Returns the evaluator that the file is bound to; None if it is unbound, or its creation was cut short.

    Raises:
      CorruptRecordError: if the stored value is not an identity.
    """
    number = evaluator_number(connection)
    found = next(rows(connection, "evaluator", ("identity",), "WHERE id = ?", (number,)), None)
    return identity_of(found[0]) if found else None


def identity_of(text: object) -> EvaluatorIdentity:
    """Returns the identity in a row of `evaluator`.

    Raises:
      CorruptRecordError: if it is not an identity.
    """
    found = json_object(text) or {}
    kinds = {"kind": str, "digest": str, "mapping": str, "options": dict}
    if found.keys() != kinds.keys() or not all(isinstance(found[name], kinds[name]) for name in kinds):
        raise CorruptRecordError(f"the table evaluator has no identity: {shown(text)}")
    return EvaluatorIdentity(**found)


def bind(
    connection: sqlite3.Connection,
    path: Path,
    identity: EvaluatorIdentity | None,
    *,
    create: bool,
    unbound: bool,
    write: bool,
) -> EvaluatorIdentity:
    """Returns the evaluator identity of the file; binds an unbound file to the given one.

    Without `identity`, a file without evaluator data stays UNBOUND.

    Args:
      create, unbound: as in `Store.open`. write: whether the file may be written.

    Raises:
      EvaluatorMismatchError: if the file is bound to another evaluator.
      StoreError: if its evaluator is missing, or `create` is given without `identity` and `unbound`.
    """
    found = read_identity(connection)
    if found is not None:
        if identity is not None and identity.as_json() != found.as_json():
            raise mismatch(path, found, identity)
        return found
    if identity is not None and write and (create or is_blank(connection)):
        connection.execute("BEGIN IMMEDIATE")
        write_evaluator(connection, evaluator_number(connection), identity)
        _write_creation(connection)
        connection.execute("COMMIT")
        return identity
    if identity is not None or not is_blank(connection) or (create and not unbound):
        raise StoreError(f"{path} is not bound to an evaluator; create it with the identity of one")
    if write:
        _write_creation(connection)
    return UNBOUND


def is_blank(connection: sqlite3.Connection) -> bool:
    """Returns whether the file has no evaluator data: no segments and no listed evaluators."""
    return not any(
        connection.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone()  # noqa: S608 (constants)
        for table in ("evaluator", "segment")
    )


def mismatch(path: Path, there: EvaluatorIdentity, here: EvaluatorIdentity) -> EvaluatorMismatchError:
    """Returns the error that explains how a file's evaluator and another one differ, and what to do."""
    return EvaluatorMismatchError(
        f"{path} holds values of another evaluator ({there.kind}): {differences(there, here)};"
        " use that one, another file, or"
        f" `graphsearch reevaluate {join_command([str(path)])} --evaluator ...`"
    )


def node_count(connection: sqlite3.Connection) -> int:
    """Returns the number of distinct records, as counted by the writers.

    Raises:
      CorruptRecordError: if the stored value is not a number.
    """
    return fact_number(connection, "nodes")


def add_nodes(connection: sqlite3.Connection, fresh: int) -> None:
    """Adds to the number of distinct records."""
    connection.execute(
        "UPDATE store_info SET value = CAST(CAST(value AS INTEGER) + ? AS TEXT) WHERE name = 'nodes'",
        (fresh,),
    )
