"""Compares two graph files, or one with itself as it was before a run.

Two files are read in step, in the order of their records; only the rows of the answer stay in memory. A file
has the values of roots at every save, and the run that evaluated each record; no earlier values of others.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any, Generic, NamedTuple, TypeVar

import chess
import numpy as np

from ..base.answer import Answer, picked
from ..base.errors import check_least
from ..position.board import board_of, clocks_of, fens, key_texts, unpack
from ..position.values import draw_beside
from ..store.apart import ApartMoves
from ..store.ranking import best_move, has_best_move, node_mean, visits_of
from ..store.record import TERMINAL_MASK, NodeRecord, RecordBatch, marks_of, sort_keys, take
from ..store.store import Store
from ..store.tables.history import of_root
from .columns import Worth as Columns
from .columns import cps_of, ranked, record_of_edges, worth_of
from .saves import Saved, first_run, saved_at
from .source import Valued, opened
from .steps import Floats, Ints, Mask

BEST, Q, N, BOUNDS = WHATS = ("best", "q", "n", "bounds")
LISTED = (BEST, Q, BOUNDS)

OnProgress = Callable[[int, int], None]

Known = Callable[[RecordBatch], Mapping[int, NodeRecord]]  # the completed records, by index

_Row = TypeVar("_Row")
_Figure = TypeVar("_Figure", float, Floats)

OTHER_MOVE = 0.05  # change of Q that another best move counts as


@dataclass(frozen=True, slots=True)
class Worth(Valued):
    """One file's values of a position, seen by the side to move; `bounds`: proven lower and upper result.

    `mate`: moves to a proven mate, negative if the side to move is mated. `best_move`: None without visits.
    """

    json_keys = "n q draw cp bounds mate best_move best_san"

    n: int
    q: float
    draw: float
    bounds: tuple[int, int]
    mate: int | None
    best_move: str | None
    best_san: str | None

    @classmethod
    def of(cls, record: NodeRecord, board: chess.Board) -> Worth:
        """Returns the values of a record."""
        (q, draw), proof = node_mean(record), record.proof_at(board.halfmove_clock)
        best = best_move(record, board) if has_best_move(record) else None
        return cls(
            n=record.visits,
            q=q,
            draw=draw_beside(q, draw),
            bounds=record.bounds,
            mate=proof.moves if proof else None,
            best_move=best.uci() if best else None,
            best_san=board.san(best) if best else None,
        )


@dataclass(frozen=True, slots=True)
class Change(Answer):
    """A position of both files that changed: FEN, key as text, kinds of change, both values."""

    position: str
    key: str
    what: tuple[str, ...]
    old: Worth
    new: Worth


@dataclass(frozen=True, slots=True)
class Found(Answer):
    """A position of a file: FEN with move number 1, key as text, its values."""

    position: str
    key: str
    worth: Worth

    def as_row(self) -> dict[str, Any]:
        """Returns the JSON object of `graphsearch find`."""
        return picked(self, "position key *worth")


def found_in(batch: RecordBatch, known: Known) -> Iterator[Found]:
    """Yields the positions of records, completed with moves that were searched apart."""
    completed = known(batch)
    for i, (fen, key) in enumerate(zip(fens(batch.words), key_texts(batch.words), strict=True)):
        record = completed.get(i) or batch.record(i)
        yield Found(fen, key, Worth.of(record, unpack(batch.words[i].tolist())))


@dataclass(slots=True, kw_only=True)
class Difference(Answer):
    """The differences between two files.

    Attributes:
      old, new: the files. evaluators: descriptions of both; with different evaluators every value differs.
      cp: least change of Q that counts, in centipawns.
      both, only_old, only_new: numbers of positions of the files. same: of equal records.
      counts: number of changed positions, by kind of change. changes: those of the largest weight (`matter`).
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
    gone: list[Found] = field(default_factory=list)
    come: list[Found] = field(default_factory=list)


def diff(
    old: str | os.PathLike[str],
    new: str | os.PathLike[str],
    *,
    cp: int = 20,
    top: int = 20,
    on_progress: OnProgress | None = None,
) -> Difference:
    """Returns the differences of two graph files, each read in its present state.

    Args:
      old, new: the files; they are only read. cp: least change of Q that counts, in centipawns.
      top: number of positions listed of each kind: changes by weight (`matter`), others by visits.
      on_progress: called with the records read and all records.

    Raises:
      InvalidParameterError: if a number is out of range.
      CorruptRecordError: if a block is damaged.
    """
    check_least(1, cp=cp)
    check_least(0, top=top)
    found = Difference(old=os.fspath(old), new=os.fspath(new), cp=cp)
    with opened(old) as before, opened(new) as behind:
        one, other = before.store, behind.store
        found.evaluators = one.identity.describe(), other.identity.describe()
        comparison = _Comparison(found, top, (one, other))
        done, total = 0, one.node_count + other.node_count
        for then, now, places in in_step(one, other):
            comparison.add(then, now, places)
            done += len(then) + len(now)
            if on_progress:
                on_progress(done, max(done, total))
        comparison.end()
    return found


# ------------------------------------------------------------------ both files in step
def in_step(one: Store, other: Store) -> Iterator[tuple[RecordBatch, RecordBatch, Ints]]:
    """Yields the records of two files in step: records of the same position come together.

    With them it yields the index in the first batch of each record of the second, negative without one.
    """
    streams = [((batch, sort_keys(batch.words)) for batch in store.all_records()) for store in (one, other)]
    held = [next(stream, None) for stream in streams]
    while there := [part for part in held if part is not None]:
        least = min(keys[-1] for _, keys in there)
        now = [RecordBatch.empty(0, 0, 0)] * 2
        for k, part in enumerate(held):
            if part is not None:
                batch, keys = part
                end, size = int(np.searchsorted(keys, least, "right")), len(keys)
                now[k] = batch.part(0, end)
                rest = batch.part(end, size), keys[end:]
                held[k] = rest if end < size else next(streams[k], None)
        old, new = now
        known = {mark: i for i, mark in enumerate(marks_of(old.words))}
        yield old, new, np.array([known.get(mark, -1) for mark in marks_of(new.words)], np.int64)


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


class Most(Generic[_Row]):
    """Keeps the `count` rows of the largest weights, such as visits; of equal weights the first.

    Attributes:
      least: a weight that a new row must exceed to be kept.
    """

    def __init__(self, count: int) -> None:
        """Creates an empty list for `count` rows."""
        self._count, self.least = count, -1.0 if count else inf
        self._rows: list[tuple[float, _Row]] = []  # with their weights

    def places(self, weights: Ints | Floats, places: Ints) -> list[int]:
        """Returns the indexes of rows that may be among them, the heaviest first."""
        some = places[weights[places] > self.least]
        chosen: list[int] = some[np.argsort(-weights[some], kind="stable")][: self._count].tolist()
        return chosen

    def add(self, weight: float, row: _Row) -> None:
        """Keeps a row if it is heavy enough."""
        self._rows.append((weight, row))
        if len(self._rows) > 2 * self._count:
            self.rows()

    def rows(self) -> list[_Row]:
        """Returns the rows, the heaviest first; drops all others."""
        self._rows = sorted(self._rows, key=lambda entry: -entry[0])[: self._count]
        if self._rows and len(self._rows) == self._count:
            self.least = self._rows[-1][0]
        return [row for _, row in self._rows]


class MostVisited(Most[RecordBatch]):
    """Keeps the most visited records of some batches; rows are made at the end, as that takes longest."""

    def keep(self, batch: RecordBatch) -> None:
        """Keeps those records of a batch that have enough visits."""
        visits = visits_of(batch)
        for i in self.places(visits, np.arange(len(visits))):
            self.add(int(visits[i]), batch.part(i, i + 1).copied())

    def found(self, known: Known) -> list[Found]:
        """Returns the positions of the records, the most visited first; `known`: as for `found_in`."""
        return list(found_in(RecordBatch.concat(self.rows()), known))


class _Comparison:
    """One pass over both files."""

    def __init__(self, found: Difference, top: int, stores: tuple[Store, Store]) -> None:
        self._found = found
        self._old, self._new = (ApartMoves.of(store).completed_in for store in stores)
        self._changes = Most[tuple[RecordBatch, RecordBatch, tuple[str, ...]]](top)
        self._gone, self._come = MostVisited(top), MostVisited(top)

    def add(self, old: RecordBatch, new: RecordBatch, places: Ints) -> None:
        """Compares the next records, as `in_step` yields them."""
        met, equal = places >= 0, _equal(old, new, places)
        other = met & ~equal
        other |= met & np.isin(places, list(self._old(old)))  # their best moves may differ
        apart = list(self._new(new))
        other[apart] = met[apart]
        alone = np.ones(len(old), bool)
        alone[places[met]] = False
        found = self._found
        found.both += int(met.sum())
        found.same += int((equal & ~other).sum())
        found.only_old += int(alone.sum())
        found.only_new += int((~met).sum())
        self._gone.keep(take(old, np.flatnonzero(alone)))
        self._come.keep(take(new, np.flatnonzero(~met)))
        rows = np.flatnonzero(other)
        self._compare(take(old, places[rows]), take(new, rows), equal[rows])

    def _compare(self, old: RecordBatch, new: RecordBatch, equal: Mask) -> None:
        """Counts the changes of records of the same positions, and keeps those of the largest weight."""
        a, b = values_of(old, self._old), values_of(new, self._new)
        changed = {
            BEST: (a.best != b.best) & (a.best >= 0) & (b.best >= 0),
            Q: np.abs(cps_of(a.worth.q) - cps_of(b.worth.q)) >= self._found.cp,
            N: a.visits != b.visits,
            BOUNDS: (a.worth.lower != b.worth.lower) | (a.worth.upper != b.worth.upper),
        }
        self._found.same += int((equal & (a.best == b.best)).sum())
        for name, which in changed.items():
            self._found.counts[name] += int(which.sum())
        listed = np.flatnonzero(np.logical_or.reduce([changed[name] for name in LISTED]))
        visits, change = np.minimum(a.visits, b.visits).astype(np.float64), b.worth.q - a.worth.q
        weights = matter(visits, change, changed[BEST].astype(np.float64))
        for i in self._changes.places(weights, listed):
            what = tuple(name for name, which in changed.items() if which[i])
            both = old.part(i, i + 1).copied(), new.part(i, i + 1).copied()
            self._changes.add(float(weights[i]), (*both, what))

    def end(self) -> None:
        """Lists the positions of the largest weight."""
        for old, new, what in self._changes.rows():
            (before,), (now,) = found_in(old, self._old), found_in(new, self._new)
            self._found.changes.append(Change(now.position, now.key, what, before.worth, now.worth))
        self._found.gone, self._found.come = self._gone.found(self._old), self._come.found(self._new)


def matter(visits: _Figure, change: _Figure, best: _Figure) -> _Figure:
    """Returns the weight of a change, for numbers or arrays: the change of Q times the visits.

    Another best move (`best` is 1, else 0) counts as a further change of Q by `OTHER_MOVE`, so changes with
    few visits rank low.

    >>> matter(100.0, -0.25, 1.0)
    30.0
    """
    found: _Figure = visits * (abs(change) + OTHER_MOVE * best)
    return found


def _equal(old: RecordBatch, new: RecordBatch, places: Ints) -> Mask:
    """Returns which records of `new` equal their partners in `old`, but for run, evaluator and clock."""
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
PROVEN_VISITS = 10  # least visits of a position whose proof is listed


@dataclass(frozen=True, slots=True)
class RootChange:
    """A root saved since: FEN, the last save before (None: it was no root) and the latest one."""

    position: str
    old: Saved | None
    new: Saved


@dataclass(slots=True, kw_only=True)
class Since(Answer):
    """The changes of a file since a run.

    Attributes:
      run: the first run that counts. runs: number of runs that count.
      roots: saved since, those with a changed best move first.
      evaluated: number of records of these runs. come: the most visited of them.
      proven: number of these with a proof, but for terminal ones. proofs: those with enough visits.
    """

    path: str
    run: int
    runs: int = 0
    roots: list[RootChange] = field(default_factory=list)
    evaluated: int = 0
    come: list[Found] = field(default_factory=list)
    proven: int = 0
    proofs: list[Found] = field(default_factory=list)


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
    """
    check_least(1, min_visits=min_visits)
    with Store.open(path, read_only=True) as store, store.snapshot():
        first = first_run(store.runs(), moment)
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
        known = ApartMoves.of(store).completed_in
        found.come, found.proofs = most.found(known), proofs.found(known)
    return found


def _roots(store: Store, first: int) -> Iterator[RootChange]:
    for root in store.roots():
        saves = of_root(store, root.key)
        new = [save for save in saves if save.run >= first]
        if new:
            board, old = board_of(root.position), [save for save in saves if save.run < first]
            record = store.read(board)
            proof = record and record.proof_at(board.halfmove_clock)
            now = replace(saved_at(board, new[-1]), mate=proof.moves if proof else None)
            yield RootChange(root.position, saved_at(board, old[-1]) if old else None, now)


def _rank(change: RootChange) -> tuple[bool, int]:
    return change.old is not None and change.old.best_san == change.new.best_san, -change.new.n
