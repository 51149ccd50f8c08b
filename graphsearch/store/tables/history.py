"""The table `root_history`: N, Q and the best move of every root at every save of a run."""

from __future__ import annotations

from dataclasses import dataclass

from ..file import sql_errors
from ..store import Store
from .columns import TABLES
from .provenance import now
from .rows import rows

COLUMNS = tuple(TABLES["root_history"].columns)


@dataclass(frozen=True, slots=True)
class RootValues:
    """What a root is worth at one moment; values are seen by the side to move.

    Attributes:
      key: of the position, 16 hex digits. n: node N.
      q, draw: node Q and its draw probability. best_move: in UCI, None without moves.
    """

    key: str
    n: int
    q: float
    draw: float
    best_move: str | None


@dataclass(frozen=True, slots=True)
class SavedValues:
    """A row: the values, the run that saved them, and when (ISO 8601 in UTC)."""

    values: RootValues
    run: int
    saved: str


def write(store: Store, run: int, root: RootValues) -> None:
    """Enters what a root is worth now, in place of what this run saved at the same N; in a transaction."""
    marks = ", ".join("?" * len(COLUMNS))
    store.connection.execute(
        f"INSERT OR REPLACE INTO root_history ({', '.join(COLUMNS)}) VALUES ({marks})",  # noqa: S608 (constants)
        (root.key, run, root.n, now(), root.q, root.draw, root.best_move),
    )


def of_root(store: Store, key: str) -> list[SavedValues]:
    """Returns the rows of a position in the order of runs; none in a file of an older format."""
    if store.format_version < TABLES["root_history"].since:
        return []
    with sql_errors(store.path, "read it"):
        found = rows(store.connection, "root_history", COLUMNS, "WHERE key = ? ORDER BY run, n", (key,))
        return [
            SavedValues(RootValues(key, n, q, draw, best_move), run, saved)
            for key, run, n, saved, q, draw, best_move in found
        ]
