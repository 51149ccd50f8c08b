"""Values of a root at a save, and the moments since which a file is compared with itself."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import chess

from ..base.errors import InvalidParameterError
from ..position.notation import legal_part, sans_of
from ..store.provenance import RunInfo
from ..store.tables.history import BookValues, RootValues
from .source import Valued


@dataclass(frozen=True, slots=True)
class Saved(Valued):
    """A root's values at a save, seen by the side to move.

    Attributes:
      run, saved: the run that saved them, and when, ISO 8601 in UTC.
      n, q: of the node; in a book, the value there.
      best_move, best_san: the best move in UCI and in SAN; None if it is not known.
      mate: moves to a proven mate, None if the line saved does not end with it.
    """

    json_keys = "run saved n q cp best_move best_san mate"

    run: int
    saved: str
    n: int
    q: float
    best_move: str | None
    best_san: str | None
    mate: int | None = None


def saved_at(root: chess.Board, save: RootValues | BookValues) -> Saved:
    """Returns the values of a root at a save."""
    q, best = save.q if isinstance(save, RootValues) else save.value, save.best_move
    line = sans_of(root, legal_part(root, (save.pv or best or "").split()))
    mates = abs(q) == 1 and (line[-1].endswith("#") if line else root.is_checkmate())
    mate = int(q) * ((len(line) + 1) // 2) if mates else None
    return Saved(save.run, save.saved, save.n, q, best, line[0] if line else None, mate)


# ------------------------------------------------------------------ moments
LAST, YESTERDAY = "last", "yesterday"  # names of the last run, and of the begin of the day before (UTC)
PERIOD = re.compile(r"(\d{1,5})([dh])")  # so many days or hours before now


def first_run(runs: Sequence[RunInfo], moment: str) -> int:
    """Returns the number of the first run that counts, as `diff.since` has it."""
    if moment == LAST:
        late = runs[-1:]
    elif moment.isascii() and moment.isdecimal() and len(moment) < 10:
        late = [run for run in runs if run.id >= int(moment)]
    else:
        time = _time_of(moment)
        if time is None:
            raise InvalidParameterError(
                f"{moment!r} is neither a run's number, nor `last`, `yesterday`, a period such as 7d, "
                "nor a time such as 2026-01-31T12:00"
            )
        late = [run for run in runs if (start := _time_of(run.started)) is not None and start >= time]
    if not late:
        raise InvalidParameterError(
            f"the file has no run since {moment}; `graphsearch store info` lists them"
        )
    return late[0].id


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
