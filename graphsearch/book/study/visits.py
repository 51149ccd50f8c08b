"""Lists the changes since a person last looked at a file: best moves, values and proofs.

When a visit ends, the file stores the numbers of the most visited positions and of the positions shown. The
next visit compares them with the file's numbers then. Looks less than `PAUSE` apart are one visit, so a
reloaded page still shows the changes since the previous visit.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import chess

from ...base.answer import Answer
from ...base.deadline import check_time
from ...base.errors import InvalidPositionError
from ...position.board import board_of, check, key_text
from ...position.values import cp_of
from ...query.diff import BEST, BOUNDS, Change, Q, Worth, matter
from ...query.source import Records, mate_step, opened, steps_of
from ...store.plain_tables import changing, opened_to_read
from ...store.record.ranking import node_mean
from ...store.tables import visits as rows
from ...store.tables.visits import Seen, Visit

AnyPath = str | os.PathLike[str]
PAUSE = timedelta(minutes=30)  # between two visits
MOST_VISITED, MOST_KEPT = 500, 1000  # positions of a visit: the most visited ones, and all
LEAST_CP = 20  # of a listed change of value


@dataclass(slots=True, kw_only=True)
class VisitChanges(Answer):
    """The changes since the last visit.

    Attributes:
      since: end of the last visit; None without one. compared: number of positions.
      counts: changed positions by kind: best, q, bounds. changes: the most important first.
    """

    since: str | None = None
    compared: int = 0
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys((BEST, Q, BOUNDS), 0))
    changes: list[Change] = field(default_factory=list)


def changes_since_visit(path: AnyPath, *, moment: datetime | None = None) -> VisitChanges:
    """Returns the changes since the last visit stored in the file.

    Raises:
      StoreError: if the file cannot be read.
    """
    with opened_to_read(path) as connection:
        base = _base(rows.visits(connection), moment or _now())
        seen = rows.seen_in(connection, base.id) if base else []
    return changes_since(path, seen, base.ended if base else None)


def changes_since(path: AnyPath, seen: Iterable[Seen], since: str | None) -> VisitChanges:
    """Returns the changes since earlier numbers of positions.

    Raises:
      InvalidPositionError: if a position is illegal.
      StoreError: if the file cannot be read.
    """
    found, weighed = VisitChanges(since=since), []
    with opened(path) as source:
        for one in seen:
            check_time()
            found.compared += 1
            board = board_of(one.fen)
            check(board)
            new = worth_now(source, board)
            if new is None:
                continue
            old = _worth_then(one, board)
            what = tuple(_differences(old, new))
            for name in what:
                found.counts[name] += 1
            if what:
                weight = matter(float(min(old.n, new.n)), new.q - old.q, float(BEST in what))
                weighed.append((weight, Change(one.fen, one.key, what, old, new)))
    found.changes = [change for _, change in sorted(weighed, key=lambda pair: -pair[0])]
    return found


def _differences(old: Worth, new: Worth) -> Iterator[str]:
    if old.best_move and new.best_move and old.best_move != new.best_move:
        yield BEST
    if abs(old.cp - new.cp) >= LEAST_CP:
        yield Q
    if old.bounds != new.bounds:
        yield BOUNDS


def worth_now(source: Records, board: chess.Board) -> Worth | None:
    """Returns the present numbers of a position, or None without a record."""
    record = source.read(board)
    if record is None:
        return None
    q, draw = node_mean(record)
    lower, upper = record.bounds_at(board.halfmove_clock)
    steps = steps_of(record, board) or mate_step(record, board)
    best = steps[0].move if steps else None
    return Worth(
        n=record.visits,
        q=q,
        draw=draw,
        cp=cp_of(q),
        bounds=(int(lower), int(upper)),
        best_move=best.uci() if best else None,
        best_san=board.san(best) if best else None,
    )


def _worth_then(one: Seen, board: chess.Board) -> Worth:
    move = chess.Move.from_uci(one.best_move) if one.best_move else None
    san = board.san(move) if move and board.is_legal(move) else None
    cp, bounds = cp_of(one.q), (one.lower, one.upper)
    return Worth(n=one.n, q=one.q, draw=one.draw, cp=cp, bounds=bounds, best_move=one.best_move, best_san=san)


# ------------------------------------------------------------------ keeping
def snapshot(path: AnyPath, looked_at: Sequence[str] = (), earlier: Sequence[str] = ()) -> list[Seen]:
    """Returns the present numbers of positions, for a later comparison.

    Args:
      looked_at: FENs that come first; illegal positions are skipped.
      earlier: FENs that fill the rest, after the most visited positions.

    Raises:
      StoreError: if the file cannot be read.
    """
    with opened(path) as source:
        with source.store.reading() as connection:
            visited = rows.most_visited(connection, MOST_VISITED)
        found: dict[str, Seen] = {}
        for fen in (*looked_at, *visited, *earlier):
            check_time()
            if len(found) == MOST_KEPT:
                break
            with suppress(InvalidPositionError, ValueError):
                board = board_of(fen)
                check(board)
                if seen := _seen(source, board, fen):
                    found[seen.key] = seen
        return list(found.values())


def _seen(source: Records, board: chess.Board, fen: str) -> Seen | None:
    worth = worth_now(source, board)
    if worth is None:
        return None
    return Seen(key_text(board), fen, worth.n, worth.q, worth.draw, *worth.bounds, worth.best_move)


def note_visit(path: AnyPath, looked_at: Sequence[str] = (), *, moment: datetime | None = None) -> None:
    """Stores a visit in the file, with the present numbers of its positions.

    Raises:
      StoreError: if the file cannot be written.
    """
    time = moment or _now()
    with opened_to_read(path) as connection:
        last = rows.visits(connection)[:1]
        earlier = [one.fen for visit in last for one in rows.seen_in(connection, visit.id)]
    found = snapshot(path, looked_at, earlier)
    with changing(path) as connection:
        known = rows.visits(connection)
        text = time.isoformat(timespec="seconds")
        if known and _is_same(known[0], time):
            number, kept = known[0].id, known[:2]
        else:
            number, kept = rows.begin_visit(connection, text), known[:1]
        rows.end_visit(connection, number, text)
        rows.put_seen(connection, number, found)
        rows.drop_visits(connection, {number, *(one.id for one in kept)})


def _now() -> datetime:
    return datetime.now(UTC)


def _is_same(visit: Visit, moment: datetime) -> bool:
    """Returns whether a look belongs to a visit; an unreadable or future time counts as long ago."""
    try:
        ended = datetime.fromisoformat(visit.ended)
    except ValueError:
        return False
    ended = ended if ended.tzinfo else ended.replace(tzinfo=UTC)
    return abs(moment - ended) < PAUSE


def _base(known: Sequence[Visit], moment: datetime) -> Visit | None:
    """Returns the visit before the present one."""
    before = known[1:] if known and _is_same(known[0], moment) else known
    return before[0] if before else None
