"""The plain tables: what the file is, who evaluated, which searches ran, and the well-visited positions.

Every function takes an open connection and works inside or outside a transaction; `schema/store.md` describes
the tables.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ..errors import CorruptRecordError, EvaluatorMismatchError, StoreError
from ..provenance import EvaluatorIdentity, RootInfo, RunInfo
from ..version import __version__

TOP_POSITION_COLUMNS = ("key", "fen", "n", "q", "win", "draw", "loss", "best_move")
TOP_EDGE_COLUMNS = ("key", "move", "san", "n", "p", "q", "draw")


def now() -> str:
    """Returns the present as ISO 8601 in UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def write_identity(connection: sqlite3.Connection, identity: EvaluatorIdentity) -> None:
    """Binds a new file to its evaluator and records its birth; one transaction."""
    connection.execute("BEGIN IMMEDIATE")
    connection.execute(
        "INSERT INTO evaluator (id, kind, digest, options, mapping, identity) VALUES (1, ?, ?, ?, ?, ?)",
        (
            identity.kind,
            identity.digest,
            json.dumps(dict(identity.options), sort_keys=True),
            identity.mapping,
            identity.as_json(),
        ),
    )
    facts = [("created", now()), ("created_by", f"graphsearch {__version__}"), ("nodes", "0")]
    connection.executemany("INSERT OR REPLACE INTO store_info VALUES (?, ?)", facts)
    connection.execute("COMMIT")


def read_identity(connection: sqlite3.Connection) -> EvaluatorIdentity | None:
    """Returns the evaluator that the file is bound to; None if its making was cut short.

    Raises:
      CorruptRecordError: if what is written there is no identity.
    """
    row = connection.execute(
        "SELECT identity FROM evaluator WHERE id = ?", (evaluator_number(connection),)
    ).fetchone()
    try:
        return EvaluatorIdentity.from_json(row[0]) if row else None
    except (ValueError, TypeError):
        raise CorruptRecordError("the table evaluator holds no identity") from None


def evaluator_number(connection: sqlite3.Connection) -> int:
    """Returns the id of the evaluator that the file is bound to."""
    row = connection.execute("SELECT value FROM store_info WHERE name = 'evaluator'").fetchone()
    return int(row[0]) if row else 1


def evaluators(connection: sqlite3.Connection) -> dict[int, EvaluatorIdentity]:
    """Returns all evaluators of the file by id."""
    rows = connection.execute("SELECT id, identity FROM evaluator ORDER BY id").fetchall()
    return {number: EvaluatorIdentity.from_json(text) for number, text in rows}


def add_evaluator(connection: sqlite3.Connection, identity: EvaluatorIdentity) -> int:
    """Returns the id of an evaluator, listed now if it was not."""
    for number, known in evaluators(connection).items():
        if known.as_json() == identity.as_json():
            return number
    cursor = connection.execute(
        "INSERT INTO evaluator (kind, digest, options, mapping, identity) VALUES (?, ?, ?, ?, ?)",
        (
            identity.kind,
            identity.digest,
            json.dumps(dict(identity.options), sort_keys=True),
            identity.mapping,
            identity.as_json(),
        ),
    )
    assert cursor.lastrowid is not None
    return cursor.lastrowid


def bind_evaluator(connection: sqlite3.Connection, number: int) -> None:
    """Binds the file to one of its evaluators."""
    connection.execute("INSERT OR REPLACE INTO store_info VALUES ('evaluator', ?)", (str(number),))


def bind(
    connection: sqlite3.Connection, path: Path, identity: EvaluatorIdentity | None, *, create: bool
) -> EvaluatorIdentity:
    """Returns the evaluator identity of the file; a file that is being made takes the given one.

    Raises:
      EvaluatorMismatchError: if the file is bound to another one.
      StoreError: if it is bound to none, and is not being made.
    """
    found = read_identity(connection)
    if found is None:
        if identity is None or not create:
            raise StoreError(f"{path} is not bound to an evaluator; create it with the identity of one")
        write_identity(connection, identity)
        return identity
    if identity is not None and identity.as_json() != found.as_json():
        ours, theirs = _differing(found, identity)
        raise EvaluatorMismatchError(
            f"{path} holds values of {ours}, not of {theirs}; use that one or another file"
        )
    return found


def _differing(a: EvaluatorIdentity, b: EvaluatorIdentity) -> tuple[str, str]:
    """Returns how both are told apart: briefly, or in full if the brief names are equal."""
    if a.describe() != b.describe():
        return a.describe(), b.describe()
    return a.as_json(), b.as_json()


def node_count(connection: sqlite3.Connection) -> int:
    """Returns the number of distinct records as counted by the writers.

    Raises:
      CorruptRecordError: if what is written there is no number.
    """
    row = connection.execute("SELECT value FROM store_info WHERE name = 'nodes'").fetchone()
    try:
        return int(row[0]) if row else 0
    except ValueError:
        raise CorruptRecordError("the table store_info holds no number of nodes") from None


def add_nodes(connection: sqlite3.Connection, fresh: int) -> None:
    """Adds to the number of distinct records."""
    connection.execute(
        "UPDATE store_info SET value = CAST(CAST(value AS INTEGER) + ? AS TEXT) WHERE name = 'nodes'",
        (fresh,),
    )


def begin_run(
    connection: sqlite3.Connection, fen: str, limits: Mapping[str, Any], params: Mapping[str, Any]
) -> int:
    """Returns the number of a new row of `run`."""
    cursor = connection.execute(
        "INSERT INTO run (started, position, limits, params) VALUES (?, ?, ?, ?)",
        (now(), fen, json.dumps(dict(limits)), json.dumps(dict(params))),
    )
    assert cursor.lastrowid is not None
    return cursor.lastrowid


def update_run(
    connection: sqlite3.Connection, run: int, visits: int, evaluations: int, *, finished: bool
) -> None:
    """Records what a run has added so far, and its end."""
    connection.execute(
        "UPDATE run SET visits = ?, evaluations = ?, finished = coalesce(?, finished) WHERE id = ?",
        (visits, evaluations, now() if finished else None, run),
    )


def runs(connection: sqlite3.Connection) -> list[RunInfo]:
    """Returns all runs, oldest first."""
    rows = connection.execute(
        "SELECT id, started, finished, position, limits, params, visits, evaluations FROM run ORDER BY id"
    )
    return [
        RunInfo(run, started, finished, fen, json.loads(limits), json.loads(params), visits, evaluations)
        for run, started, finished, fen, limits, params, visits, evaluations in rows
    ]


def record_root(connection: sqlite3.Connection, key: str, fen: str, visits: int) -> None:
    """Records that a position was searched as a root."""
    connection.execute("INSERT OR REPLACE INTO root VALUES (?, ?, ?, ?)", (key, fen, visits, now()))


def roots(connection: sqlite3.Connection) -> list[RootInfo]:
    """Returns all roots, the last searched first."""
    rows = connection.execute(
        "SELECT key, position, visits, last_searched FROM root ORDER BY last_searched DESC, key"
    )
    return [RootInfo(*row) for row in rows]


def write_top(
    connection: sqlite3.Connection, positions: Sequence[Mapping[str, Any]], edges: Sequence[Mapping[str, Any]]
) -> None:
    """Replaces the rows of these positions in `top_position` and `top_edge`."""
    connection.executemany("DELETE FROM top_edge WHERE key = ?", [(row["key"],) for row in positions])
    _insert(connection, "top_position", TOP_POSITION_COLUMNS, positions)
    _insert(connection, "top_edge", TOP_EDGE_COLUMNS, edges)


def drop_top(connection: sqlite3.Connection, below: int) -> None:
    """Removes the rows of positions with node N < `below`, except those of roots."""
    few = "SELECT key FROM top_position WHERE n < ? AND key NOT IN (SELECT key FROM root)"
    connection.execute(f"DELETE FROM top_edge WHERE key IN ({few})", (below,))  # noqa: S608 (a constant)
    connection.execute(f"DELETE FROM top_position WHERE key IN ({few})", (below,))  # noqa: S608


def _insert(
    connection: sqlite3.Connection, table: str, columns: Sequence[str], rows: Sequence[Mapping[str, Any]]
) -> None:
    names, marks = ", ".join(columns), ", ".join("?" * len(columns))
    statement = f"INSERT OR REPLACE INTO {table} ({names}) VALUES ({marks})"  # noqa: S608 (constants)
    connection.executemany(statement, [tuple(row[name] for name in columns) for row in rows])
