"""Changes of one file since one of its runs, as far as the file records them.

The file records the values of roots at every save, the run that evaluated each record, and the build that
added each move to a book. It does not record earlier values of other positions, nor moves dropped from a
book.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import Any

import chess
import numpy as np

from ..base.answer import Answer
from ..base.errors import InvalidParameterError, check_least
from ..position.board import board_of
from ..position.lines import legal_part, sans_of
from ..position.values import cp_of
from ..store.codec.bulk import take
from ..store.file import sql_errors
from ..store.record.node import TERMINAL_MASK
from ..store.record.provenance import RunInfo
from ..store.record.ranking import visits_of
from ..store.store import Store
from ..store.tables.rows import rows
from .columns import worth_of
from .diff import Alone, MostVisited, OnProgress

LAST, YESTERDAY = "last", "yesterday"  # names of the last run, and of the begin of the day before (UTC)
PROVEN_VISITS = 10  # least visits of a position whose proof is listed
PERIOD = re.compile(r"(\d{1,5})([dh])")  # so many days or hours before now


@dataclass(frozen=True, slots=True)
class RootThen:
    """A root's values at a save: the run, N, Q, centipawns, and the best move in SAN.

    `mate`: moves to a mate that is proven now, None in a save before.
    """

    run: int
    n: int
    q: float
    cp: int
    best_san: str | None
    mate: int | None = None


@dataclass(frozen=True, slots=True)
class RootChange:
    """A root saved since: FEN, the last save before (None: it was no root) and the latest one."""

    position: str
    old: RootThen | None
    new: RootThen


@dataclass(slots=True, kw_only=True)
class Since(Answer):
    """The changes of a file since a run.

    Attributes:
      path: the file. run: the first run that counts. runs: number of runs that count.
      roots: saved since, those with a changed best move first. evaluated: number of records of these runs.
      come: the most visited of them.
      proven: number of these records with a proof, terminal positions excluded. proofs: the most visited, of
        positions with enough visits.
    """

    path: str
    run: int
    runs: int = 0
    roots: list[RootChange] = field(default_factory=list)
    evaluated: int = 0
    come: list[Alone] = field(default_factory=list)
    proven: int = 0
    proofs: list[Alone] = field(default_factory=list)


def since(
    path: str | os.PathLike[str],
    moment: str,
    *,
    top: int = 20,
    min_visits: int = PROVEN_VISITS,
    on_progress: OnProgress | None = None,
) -> Since:
    """Returns the changes of a file since a moment.

    Args:
      path: the file; it is only read.
      moment: the number of the first run that counts, `last` for the last run, a time in ISO 8601 (UTC),
        `yesterday` for its begin (UTC), or a period such as `7d` or `12h` before now.
      top: most positions to list, the most visited first.
      min_visits: least node N of a listed proof.
      on_progress: called with the records read and all records.

    Raises:
      InvalidParameterError: if the moment is none of these, no run is as late, or `min_visits` is below 1.
      StoreError: if the file cannot be read.
    """
    check_least(1, min_visits=min_visits)
    with Store.open(path, read_only=True) as store, store.snapshot():
        first = _first_run(store.runs(), moment)
        found = Since(path=os.fspath(path), run=first)
        found.runs = sum(run.id >= first for run in store.runs())
        found.roots = sorted(_roots(store, first), key=_rank)
        most, proofs, done = MostVisited(top), MostVisited(top), 0
        for batch in store.all_records():
            come = take(batch, np.nonzero(batch.run >= first)[0])
            found.evaluated += len(come)
            worth = worth_of(come)
            is_open = (worth.lower != worth.upper) | (come.flags & TERMINAL_MASK != 0)
            proven = take(come, np.flatnonzero(~is_open))
            found.proven += len(proven)
            most.keep(come)
            proofs.keep(take(proven, np.flatnonzero(visits_of(proven) >= min_visits)))
            done += len(batch)
            if on_progress:
                on_progress(done, max(done, store.node_count))
        found.come, found.proofs = most.alone(), proofs.alone()
    return found


def _first_run(runs: list[RunInfo], moment: str) -> int:
    if moment == LAST:
        first = max((run.id for run in runs), default=None)
    elif moment.isascii() and moment.isdecimal() and len(moment) < 10:
        first = next((run.id for run in runs if run.id >= int(moment)), None)
    else:
        time = _time_of(moment)
        if time is None:
            raise InvalidParameterError(
                f"{moment!r} is neither a run's number, nor `last`, `yesterday`, a period such as 7d, "
                "nor a time such as 2026-01-31T12:00"
            )
        began = ((run.id, _time_of(run.started)) for run in runs)
        first = next((run for run, start in began if start is not None and start >= time), None)
    if first is None:
        raise InvalidParameterError(
            f"the file has no run at or after {moment}; `graphsearch store info` lists its runs"
        )
    return first


def _time_of(text: str) -> datetime | None:
    """Returns the time of a moment; UTC unless it names another zone; None if the text is not a time."""
    now = datetime.now(UTC)
    if text == YESTERDAY:
        return now.replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=1)
    if period := PERIOD.fullmatch(text):
        return now - timedelta(**{{"d": "days", "h": "hours"}[period[2]]: int(period[1])})
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def _roots(store: Store, first: int) -> Iterator[RootChange]:
    fens = {root.key: root.position for root in store.roots()}
    names = ("key", "run", "n", "q", "best_move")
    with sql_errors(store.path, "read it"):
        found = rows(store.connection, "root_history", names, "ORDER BY key, run, n")
        for key, saves in groupby(found, key=lambda row: row[0]):
            old = new = None
            for save in saves:
                old, new = (save, new) if save[1] < first else (old, save)
            if new is not None and key in fens:
                board = board_of(fens[key])
                record = store.read(board)
                proof = record and record.proof_at(board.halfmove_clock)
                now = replace(_then(board, new), mate=proof.moves if proof else None)
                yield RootChange(fens[key], _then(board, old) if old else None, now)


def _then(board: chess.Board, row: tuple[Any, ...]) -> RootThen:
    _, run, n, q, best = row
    sans = sans_of(board, legal_part(board, [best] if best else []))
    return RootThen(run, n, q, cp_of(q), sans[0] if sans else None)


def _rank(change: RootChange) -> tuple[bool, int]:
    is_same = change.old is not None and change.old.best_san == change.new.best_san
    return is_same, -change.new.n
