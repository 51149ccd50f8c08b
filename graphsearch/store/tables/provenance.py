"""The plain tables of facts, evaluators, runs and roots; `schema/store.md` describes them.

Functions that take a store are methods of `Store`; those that take a connection also work on a file that is
being opened, or is damaged.
"""

from __future__ import annotations

import json
import shlex
import sqlite3
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ...base.errors import CorruptRecordError, EvaluatorMismatchError, StoreError
from ...base.version import __version__
from ..protocol import OpenStore
from ..record.node import MAX_EVALUATOR, MAX_RUN
from ..record.provenance import UNBOUND, EvaluatorIdentity, RootInfo, RunInfo, differences
from .column import MOST_COUNT, json_object
from .columns import TABLES
from .rows import insert, listed, rows, shown

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
        connection.execute("INSERT OR REPLACE INTO store_info VALUES (?, ?)", (name, value))


def read_fact(store: OpenStore, name: str) -> str | None:
    """Returns the value of a row of the table `store_info`, None if there is none."""
    with store.reading() as connection:
        return fact(connection, name)


def write_fact(store: OpenStore, name: str, value: str | None) -> None:
    """Sets a row of the table `store_info`, or removes it if the value is None."""
    with store.writing() as connection:
        set_fact(connection, name, value)


def _write_creation(connection: sqlite3.Connection) -> None:
    """Records the time and the program of the file's creation, unless they are recorded."""
    facts = [("created", now()), ("created_by", f"graphsearch {__version__}"), ("nodes", "0")]
    connection.executemany("INSERT OR IGNORE INTO store_info VALUES (?, ?)", facts)


def write_evaluator(connection: sqlite3.Connection, number: int, identity: EvaluatorIdentity) -> None:
    """Writes a row of `evaluator`."""
    options = json.dumps(dict(identity.options), sort_keys=True)
    row = (number, identity.kind, identity.digest, options, identity.mapping, identity.as_json())
    insert(connection, "evaluator", tuple(TABLES["evaluator"].columns), [row], otherwise="ABORT")


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


def evaluators(store: OpenStore) -> dict[int, EvaluatorIdentity]:
    """Returns the evaluators that a file lists, by number.

    Raises:
      CorruptRecordError: if a row has no identity.
    """
    with store.reading() as connection:
        found = rows(connection, "evaluator", ("id", "identity"), "ORDER BY id")
        return {number: identity_of(text) for number, text in found}


def add_evaluator(store: OpenStore, identity: EvaluatorIdentity) -> int:
    """Returns the number of an evaluator in a file; adds it if it is missing.

    Raises:
      StoreError: if the file lists 15 others already.
    """
    with store.writing() as connection:
        known = evaluators(store)
        for number, other in known.items():
            if other.as_json() == identity.as_json():
                return number
        number = max(known, default=0) + 1
        if number > MAX_EVALUATOR:
            raise StoreError(
                f"{store.path}: the file has {MAX_EVALUATOR} evaluators already, the most that fit;"
                f" use another file for {identity.describe()}"
            )
        write_evaluator(connection, number, identity)
        return number


def bind_evaluator(store: OpenStore, number: int) -> None:
    """Binds a file to one of its listed evaluators; from then on no other may be used with it.

    Raises:
      StoreError: if it lists no evaluator of this number.
    """
    with store.writing() as connection:
        identity = evaluators(store).get(number)
        if identity is None:
            raise StoreError(
                f"{store.path}: the file has no evaluator {number}; add it before binding the file to it"
            )
        set_fact(connection, "evaluator", str(number))
        store.bound_to(identity, number)


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
        f" use that one, another file, or `graphsearch reevaluate {shlex.quote(str(path))} --evaluator ...`"
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


def begin_run(
    store: OpenStore,
    position_fen: str,
    limits: Mapping[str, Any],
    params: Mapping[str, Any],
    *,
    kind: str = "search",
    evaluator: int | None = None,
    number: int | None = None,
) -> int:
    """Records a new run that starts now; returns its number, which the records evaluated in it carry.

    Args:
      kind: `search`, or another reason to call an evaluator.
      evaluator: number of the evaluator; None: the one that the file is bound to.
      number: of the run; an existing run with it stays unchanged. None: the next number.

    Raises:
      StoreError: if the file has 1,048,575 runs already.
    """
    with store.writing() as connection:
        run = last_run(connection) + 1 if number is None else number
        if run > MAX_RUN:
            raise StoreError(
                f"{store.path}: the file has {MAX_RUN:,} runs already and no room for more; use another file"
            )
        asked = evaluator_number(connection) if evaluator is None else evaluator
        texts = json.dumps(dict(limits)), json.dumps(dict(params))
        names = ("id", "started", "position", "limits", "params", "evaluator", "kind", "program")
        row = (run, now(), position_fen, *texts, asked, kind, __version__)
        insert(connection, "run", names, [row], otherwise="IGNORE")
        return run


def last_run(connection: sqlite3.Connection) -> int:
    """Returns the greatest run number, 0 if there is no run."""
    return int(connection.execute("SELECT coalesce(max(id), 0) FROM run").fetchone()[0])


def update_run(store: OpenStore, run: int, visits: int, evaluations: int) -> None:
    """Records the visits and evaluations that a run has added so far."""
    with store.writing() as connection:
        statement = "UPDATE run SET visits = ?, evaluations = ? WHERE id = ?"
        connection.execute(statement, (visits, evaluations, run))


def finish_run(store: OpenStore, run: int, visits: int, evaluations: int) -> None:
    """Records the end of a run, and the visits and evaluations that it has added."""
    with store.writing() as connection:
        update_run(store, run, visits, evaluations)
        connection.execute("UPDATE run SET finished = ? WHERE id = ?", (now(), run))


def runs(store: OpenStore) -> list[RunInfo]:
    """Returns all runs of a file, oldest first."""
    return _runs(store, "ORDER BY id")


def run(store: OpenStore, number: int) -> RunInfo | None:
    """Returns the run of a number, or None."""
    return next(iter(_runs(store, "WHERE id = ?", number)), None)


def _runs(store: OpenStore, rest: str, *values: int) -> list[RunInfo]:
    return [
        RunInfo(number, started, finished, fen, json.loads(limits), json.loads(params), *others)
        for number, started, finished, fen, limits, params, *others in listed(store, "run", rest, values)
    ]


def record_root(store: OpenStore, key: str, fen: str, visits: int) -> None:
    """Records that a position was searched as a root, with its root N."""
    with store.writing() as connection:
        connection.execute("INSERT OR REPLACE INTO root VALUES (?, ?, ?, ?)", (key, fen, visits, now()))


def raise_root(store: OpenStore, key: str, visits: int) -> None:
    """Raises the recorded root N of a position that was searched as a root before; never lowers it."""
    with store.writing() as connection:
        connection.execute("UPDATE root SET visits = ? WHERE key = ? AND visits < ?", (visits, key, visits))


def roots(store: OpenStore) -> list[RootInfo]:
    """Returns all positions searched as roots, the last searched first."""
    return [RootInfo(*row) for row in listed(store, "root", "ORDER BY last_searched DESC, key")]
