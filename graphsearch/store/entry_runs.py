"""The runs that write transposition entries: fixed-depth searches and mate proofs, as plain rows.

Call functions that write inside `Store.transaction`. Values are thousandths of a pawn for the side to move,
moves UCI. `schema/store.md` describes the tables.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ..base.answer import Answer
from ..base.version import __version__
from .provenance import now
from .store import Store
from .tables.rows import TABLES, fault_of_row, json_object, read_rows, update_row, write_row

ALPHABETA, MATE = "alphabeta", "mate"  # kinds
HISTORY = "history"  # limit of a run: number of earlier positions that have occurred twice


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutcome:
    """The result so far of a run, or of one of its iterations.

    Attributes:
      depth: completed plies of full width; None for a mate proof.
      alpha, beta: the window; None for a mate proof.
      value: thousandths of a pawn for the side to move; None if nothing is known.
      bound: `exact`, `lower`, `upper`, or empty.
      best_move, pv: UCI, the line's moves separated by spaces.
      nodes, hits, stored_hits, cutoffs, first_cutoffs: as in `solvers.alphabeta.search.Counts`.
      seconds: duration.
    """

    depth: int | None = None
    alpha: int | None = None
    beta: int | None = None
    value: int | None = None
    bound: str = ""
    best_move: str | None = None
    pv: str = ""
    nodes: int = 0
    hits: int = 0
    stored_hits: int = 0
    cutoffs: int = 0
    first_cutoffs: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class EntryRun(Answer):
    """A row of `entry_run`; `finished` is None while it runs, or if it was killed."""

    id: int
    kind: str
    started: str
    finished: str | None
    fen: str
    key: str
    limits: Mapping[str, Any]
    evaluation: str
    program: str
    depth: int | None
    alpha: int | None
    beta: int | None
    value: int | None
    bound: str | None
    best_move: str | None
    pv: str
    nodes: int
    hits: int
    stored_hits: int
    seconds: float


_STEP_COLUMNS = tuple(TABLES["entry_iteration"].columns)[2:]  # without its id and its run
_COUNTS = ("cutoffs", "first_cutoffs")  # fields that only an iteration has


def begin(store: Store, kind: str, fen: str, key: str, limits: Mapping[str, Any], evaluation: str) -> int:
    """Records a new run that starts now; returns its number.

    Args:
      kind: ALPHABETA or MATE. fen, key: the position, its key as `key_text` returns it.
      limits: the limits of the run, by name. evaluation: digest of the evaluation.
    """
    row = {
        "kind": kind,
        "started": now(),
        "fen": fen,
        "key": key,
        "limits": json.dumps(dict(limits)),
        "evaluation": evaluation,
        "program": __version__,
    }
    return write_row(store.connection, "entry_run", row, otherwise="ABORT")


def update(store: Store, run: int, outcome: RunOutcome, *, finished: bool) -> None:
    """Records the result of a run so far, and its end if `finished`."""
    row = {name: value for name, value in asdict(outcome).items() if name not in _COUNTS}
    update_row(store.connection, "entry_run", run, row | ({"finished": now()} if finished else {}))


def add_iteration(store: Store, run: int, outcome: RunOutcome) -> None:
    """Records a complete iteration."""
    write_row(store.connection, "entry_iteration", {"run": run, **asdict(outcome)}, otherwise="ABORT")


def runs(store: Store) -> list[EntryRun]:
    """Returns all rows of `entry_run` of a file, oldest first.

    Raises:
      CorruptRecordError: if a row is damaged.
      StoreError: if the file cannot be read.
    """
    with store.reading() as connection:
        return read_rows(connection, "entry_run", EntryRun, "ORDER BY id", objects=("limits",))


def iterations(store: Store, fen: str, key: str, evaluation: str) -> dict[int, RunOutcome]:
    """Returns complete iterations for a position by depth: the last exact one of each, else the last one.

    Only runs with the same clock count, and with no earlier position that could occur a third time (HISTORY):
    their results hold whenever the position is the root again. Damaged rows are left out; `check` names them.

    Args:
      fen, key: the position, its key as `key_text` returns it. evaluation: digest of the evaluation.
    """
    columns = ", ".join(f"step.{name}" for name in _STEP_COLUMNS)
    with store.reading() as connection:
        rows = connection.execute(
            f"SELECT entry_run.fen, entry_run.limits, {columns} FROM"  # noqa: S608 (constants)
            f" (SELECT * FROM entry_iteration WHERE {fault_of_row('entry_iteration')} IS NULL) AS step"
            " JOIN entry_run ON entry_run.id = step.run"
            " WHERE entry_run.key = ? AND entry_run.evaluation = ? ORDER BY step.bound = 'exact', step.id",
            (key, evaluation),
        ).fetchall()
    same = [row for its_fen, limits, *row in rows if _clock(its_fen) == _clock(fen) and _is_free(limits)]
    steps = [dict(zip(_STEP_COLUMNS, row, strict=True)) for row in same]
    return {step["depth"]: RunOutcome(**step) for step in steps}


def _is_free(limits: object) -> bool:
    """Returns whether, by its stored limits, a run had no earlier position that could occur a third time."""
    found = json_object(limits)
    return found is not None and HISTORY not in found


def _clock(fen: object) -> str:
    """Returns the halfmove clock of a FEN, empty if it has none."""
    fields = fen.split() if isinstance(fen, str) else []
    return fields[4] if len(fields) > 4 else ""


def drop_strays(store: Store) -> int:
    """Deletes the iterations of runs that the file does not list; returns their number."""
    strays = "DELETE FROM entry_iteration WHERE run NOT IN (SELECT id FROM entry_run)"
    return store.connection.execute(strays).rowcount
