"""Compares two graph files, or one with itself as it was before a run.

Two files are read in step, in the order of their records; only the rows of the answer stay in memory. One
file records the values of roots at every save, the run that evaluated each record, and the build that added
each move to a book. It does not record earlier values of other positions, nor moves dropped from a book.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from heapq import heappush, heappushpop
from itertools import groupby
from typing import Any, Generic, NamedTuple, TypeVar

import chess
import numpy as np
from numpy.typing import NDArray

from ..base.answer import Answer
from ..base.errors import InvalidParameterError, check_least
from ..position.board import board_of, clocks_of, fen_of, key_text, key_text_of_words, legal_moves, unpack
from ..position.notation import legal_part, sans_of
from ..position.values import cp_of
from ..store.apart import completed_in_batches
from ..store.file import sql_errors
from ..store.provenance import RunInfo
from ..store.ranking import visits_of
from ..store.record import TERMINAL_MASK, NodeRecord, RecordBatch, owned, sort_keys, take
from ..store.store import Store
from ..store.tables.rows import rows
from .columns import Worth as Columns
from .columns import cps_of, ranked, record_of_edges, worth_of

BEST, Q, N, BOUNDS = WHATS = ("best", "q", "n", "bounds")

OnProgress = Callable[[int, int], None]
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

Known = Callable[[RecordBatch], Mapping[int, NodeRecord]]  # the completed records, by index

_Row = TypeVar("_Row")
_Figure = TypeVar("_Figure", float, Floats)

OTHER_MOVE = 0.05  # change of Q that another best move counts as


@dataclass(frozen=True, slots=True)
class Worth:
    """One file's values of a position, seen by the side to move.

    Attributes:
      n, q, draw, cp: node N, node Q, its draw probability, centipawns. bounds: proven lower and upper result.
      mate: moves to a proven mate, negative if the side to move is mated; None without one.
      best_move, best_san: UCI and SAN; None without visits.
    """

    n: int
    q: float
    draw: float
    cp: int
    bounds: tuple[int, int]
    mate: int | None
    best_move: str | None
    best_san: str | None


@dataclass(frozen=True, slots=True)
class Change(Answer):
    """A position of both files that changed: FEN, key as text, kinds of change, both values."""

    position: str
    key: str
    what: tuple[str, ...]
    old: Worth
    new: Worth


@dataclass(frozen=True, slots=True)
class Alone(Answer):
    """A position that only one file holds."""

    position: str
    key: str
    worth: Worth


@dataclass(slots=True, kw_only=True)
class Difference(Answer):
    """The differences between two files.

    Attributes:
      old, new: the files. evaluators: descriptions of both; with different evaluators every value differs.
      cp: least change of Q that counts, in centipawns.
      same: positions of both files with equal numbers in their records.
      both: number of positions of both files. counts: number of changed ones, by kind of change.
      only_old, only_new: number of positions that only one file holds.
      changes: the changed positions of the largest weight (`matter`).
      gone, come: the most visited positions that only the old or only the new file holds.
    """

    old: str
    new: str
    cp: int
    evaluators: tuple[str, str] = ("", "")
    both: int = 0
    same: int = 0
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(WHATS, 0))
    only_old: int = 0
    only_new: int = 0
    changes: list[Change] = field(default_factory=list)
    gone: list[Alone] = field(default_factory=list)
    come: list[Alone] = field(default_factory=list)


def diff(
    old: str | os.PathLike[str],
    new: str | os.PathLike[str],
    *,
    cp: int = 20,
    what: Sequence[str] = (BEST, Q, BOUNDS),
    top: int = 20,
    on_progress: OnProgress | None = None,
) -> Difference:
    """Returns the differences of two graph files, each read in its present state.

    Args:
      old, new: the files; they are only read. cp: least change of Q that counts, in centipawns.
      what: kinds of change to list; all kinds are counted.
      top: number of positions listed of each kind: changes by weight (`matter`), others by visits.
      on_progress: called with the records read and all records.

    Raises:
      InvalidParameterError: if a number is out of range, or `what` names an unknown kind.
      CorruptRecordError: if a block is damaged.
      StoreError: if a file cannot be read.
    """
    check_least(1, cp=cp)
    check_least(0, top=top)
    if not what or not set(what) <= set(WHATS):
        raise InvalidParameterError(
            f"a change is one of {', '.join(WHATS)}, not {', '.join(what) or 'nothing'}"
        )
    with (
        Store.open(old, read_only=True) as one,
        one.snapshot(),
        Store.open(new, read_only=True) as other,
        other.snapshot(),
    ):
        found = Difference(
            old=os.fspath(old),
            new=os.fspath(new),
            cp=cp,
            evaluators=(one.identity.describe(), other.identity.describe()),
        )
        known = completed_in_batches(one), completed_in_batches(other)
        return _Comparison(found, tuple(what), top, known).compare(
            one, other, on_progress or (lambda done, total: None)
        )


# ------------------------------------------------------------------ both files in step
class _Records(NamedTuple):
    """Records with their sort keys, sharing one index."""

    batch: RecordBatch
    keys: NDArray[np.uint64]

    def part(self, first: int, end: int) -> _Records:
        return _Records(self.batch.part(first, end), self.keys[first:end])


def in_step(one: Store, other: Store) -> Iterator[tuple[_Records, _Records]]:
    """Yields the records of two files in step: records of the same position come together."""
    streams = [
        (_Records(batch, sort_keys(batch.words)) for batch in store.all_records()) for store in (one, other)
    ]
    held = [next(stream, None) for stream in streams]
    nothing = _Records(RecordBatch.empty(0, 0, 0), np.zeros(0, np.uint64))
    while there := [records for records in held if records is not None]:
        least = min(records.keys[-1] for records in there)
        now = [nothing, nothing]
        for k, records in enumerate(held):
            if records is not None:
                end, size = int(np.searchsorted(records.keys, least, "right")), len(records.keys)
                now[k] = records.part(0, end)
                held[k] = records.part(end, size) if end < size else next(streams[k], None)
        yield now[0], now[1]


# ------------------------------------------------------------------ values
class _Values(NamedTuple):
    """Values of some records, `[R]` each; `best`: the best move in canonical order, -1 if none is known."""

    visits: Ints
    worth: Columns
    best: Ints


def values_of(batch: RecordBatch, known: Known | None = None) -> _Values:
    """Returns the values of records; `known` completes those with moves that were searched apart."""
    best = ranked(batch, clocks_of(batch.words), known(batch) if known else None).best
    return _Values(visits_of(batch), worth_of(batch), best)


def _worth(record: RecordBatch, known: Known | None, board: chess.Board) -> Worth:
    """Returns the values of a batch's only record."""
    values = values_of(record, known)
    found, place = values.worth, int(values.best[0])
    q, proof = float(found.q[0]), record.record(0).proof_at(board.halfmove_clock)
    move = legal_moves(board)[place] if place >= 0 else None
    return Worth(
        n=int(values.visits[0]),
        q=q,
        draw=min(max(float(found.draw[0]), 0.0), 1.0 - abs(q)),
        cp=cp_of(q),
        bounds=(int(found.lower[0]), int(found.upper[0])),
        mate=proof.moves if proof else None,
        best_move=move.uci() if move else None,
        best_san=board.san(move) if move else None,
    )


class Most(Generic[_Row]):
    """Keeps the `count` rows of the largest weights, such as visits; of equal weights the first."""

    def __init__(self, count: int) -> None:
        """Creates an empty list for `count` rows."""
        self._count = count
        self._rows: list[tuple[float, int, _Row]] = []  # weight, minus the order of arrival, row
        self._seen = 0

    @property
    def least(self) -> float:
        """The weight that a new row must exceed."""
        return self._rows[0][0] if self._count and len(self._rows) == self._count else -1.0

    def places(self, weights: Ints | Floats, places: Ints) -> list[int]:
        """Returns the indexes of rows that may be among them, the heaviest first."""
        some = places[weights[places] > self.least] if self._count else places[:0]
        chosen: list[int] = some[np.argsort(-weights[some], kind="stable")][: self._count].tolist()
        return chosen

    def add(self, weight: float, row: _Row) -> None:
        """Keeps a row if it is heavy enough."""
        self._seen += 1
        entry = (weight, -self._seen, row)
        if len(self._rows) < self._count:
            heappush(self._rows, entry)
        else:
            heappushpop(self._rows, entry)

    def rows(self) -> list[_Row]:
        """Returns the rows, the heaviest first."""
        return [row for _, _, row in sorted(self._rows, key=lambda entry: (-entry[0], -entry[1]))]


class MostVisited(Most[RecordBatch]):
    """Keeps the most visited records of some batches; rows are made at the end, as that takes longest."""

    def keep(self, batch: RecordBatch) -> None:
        """Keeps those records of a batch that have enough visits."""
        visits = visits_of(batch)
        for i in self.places(visits, np.arange(len(visits))):
            self.add(int(visits[i]), batch.part(i, i + 1).copied())

    def alone(self, known: Known | None = None) -> list[Alone]:
        """Returns the records as rows, the most visited first; `known`: as for `values_of`."""
        found = [(record, unpack(record.words[0].tolist())) for record in self.rows()]
        return [Alone(fen_of(b), key_text(b), _worth(record, known, b)) for record, b in found]


class _Comparison:
    """One pass over both files."""

    def __init__(
        self, found: Difference, what: tuple[str, ...], top: int, known: tuple[Known, Known]
    ) -> None:
        self._found, self._what, self._known = found, what, known
        self._changes = Most[tuple[RecordBatch, RecordBatch, tuple[str, ...]]](top)
        self._gone, self._come = MostVisited(top), MostVisited(top)

    def compare(self, one: Store, other: Store, on_progress: OnProgress) -> Difference:
        found, done, total = self._found, 0, one.node_count + other.node_count
        for old, new in in_step(one, other):
            self._step(old, new)
            done += len(old.batch) + len(new.batch)
            on_progress(done, max(done, total))
        for before, after, what in self._changes.rows():
            board = unpack(after.words[0].tolist())
            worths = (
                _worth(record, known, board)
                for record, known in zip((before, after), self._known, strict=True)
            )
            found.changes.append(Change(fen_of(board), key_text_of_words(after.words[0]), what, *worths))
        found.gone, found.come = self._gone.alone(self._known[0]), self._come.alone(self._known[1])
        return found

    def _step(self, old: _Records, new: _Records) -> None:
        from ..store.index_kernel import pair

        places = np.empty(len(new.batch), np.int64)
        flat = [owned(each.batch.words, np.uint64).reshape(-1) for each in (old, new)]
        met = int(pair(flat[0], old.keys, flat[1], new.keys, places))
        same = _equal(old.batch, new.batch, places)
        same[self._other_best(old.batch, new.batch, places, same)] = False
        alone = np.ones(len(old.batch), bool)
        alone[places[places >= 0]] = False
        found = self._found
        found.both += met
        found.same += int(same.sum())
        found.only_old += int(alone.sum())
        found.only_new += len(places) - met
        self._gone.keep(take(old.batch, np.nonzero(alone)[0]))
        self._come.keep(take(new.batch, np.nonzero(places < 0)[0]))
        other = np.nonzero((places >= 0) & ~same)[0]
        self._note_changes(take(old.batch, places[other]), take(new.batch, other))

    def _other_best(
        self, old: RecordBatch, new: RecordBatch, places: Ints, same: NDArray[np.bool_]
    ) -> list[int]:
        """Returns equal records whose best moves differ, because of moves that were searched apart.

        Args:
          places: `[R]` the index in `old` of each record of `new`, negative without one. same: `[R]`.
        """
        of_old, of_new = self._known[0](old), self._known[1](new)
        if not of_old and not of_new:
            return []
        touched = np.isin(places, list(of_old))
        touched[list(of_new)] = True
        rows = np.flatnonzero(touched & same)
        a = values_of(take(old, places[rows]), self._known[0])
        b = values_of(take(new, rows), self._known[1])
        found: list[int] = rows[a.best != b.best].tolist()
        return found

    def _note_changes(self, old: RecordBatch, new: RecordBatch) -> None:
        """Counts the changes of records of the same positions, and keeps those of the largest weight."""
        a, b = values_of(old, self._known[0]), values_of(new, self._known[1])
        changed = {
            BEST: (a.best != b.best) & (a.best >= 0) & (b.best >= 0),
            Q: _differ(a, b, self._found.cp),
            N: a.visits != b.visits,
            BOUNDS: (a.worth.lower != b.worth.lower) | (a.worth.upper != b.worth.upper),
        }
        for name, which in changed.items():
            self._found.counts[name] += int(which.sum())
        listed = np.nonzero(np.logical_or.reduce([changed[name] for name in self._what]))[0]
        visits, change = np.minimum(a.visits, b.visits).astype(np.float64), b.worth.q - a.worth.q
        weights = matter(visits, change, changed[BEST].astype(np.float64))
        for i in self._changes.places(weights, listed):
            what = tuple(name for name, which in changed.items() if which[i])
            both = old.part(i, i + 1).copied(), new.part(i, i + 1).copied()
            self._changes.add(float(weights[i]), (*both, what))


def matter(visits: _Figure, change: _Figure, best: _Figure) -> _Figure:
    """Returns the weight of a change, for numbers or arrays: the change of Q times the visits.

    Another best move (`best` is 1, else 0) counts as a further change of Q by `OTHER_MOVE`, so changes with
    few visits rank low.

    >>> matter(100.0, -0.25, 1.0)
    30.0
    """
    found: _Figure = visits * (abs(change) + OTHER_MOVE * best)
    return found


def _differ(a: _Values, b: _Values, cp: int) -> NDArray[np.bool_]:
    """Returns a mask of the values that differ by at least `cp` centipawns."""
    return np.asarray(np.abs(cps_of(a.worth.q) - cps_of(b.worth.q)) >= cp)


def _equal(old: RecordBatch, new: RecordBatch, places: Ints) -> NDArray[np.bool_]:
    """Returns which records of `new` equal their partner in every number but run, evaluator and clock.

    Args:
      places: `[R]` the index in `old` of each record of `new`, negative without one.
    """
    found = np.zeros(len(new), bool)
    rows = np.flatnonzero(places >= 0)
    a, b = take(old, places[rows]), take(new, rows)
    alike = (a.flags == b.flags) & (a.v == b.v) & (a.d == b.d)
    for name in ("code_offsets", "edge_offsets"):
        alike &= np.diff(getattr(a, name)) == np.diff(getattr(b, name))
    some = np.flatnonzero(alike)
    a, b, rows = take(a, some), take(b, some), rows[some]
    other = (a.n != b.n) | (a.r != b.r) | (a.q != b.q) | (a.edge_d != b.edge_d)
    found[rows] = True
    found[rows[record_of_edges(a)[other]]] = False
    found[rows[np.repeat(np.arange(len(a)), np.diff(a.code_offsets))[a.codes != b.codes]]] = False
    return found


# ------------------------------------------------------------------ one file since one of its runs
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
