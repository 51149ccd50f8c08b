"""Breadth-first walk over all stored positions below one: their actual and their expected types.

It works level by level and in bulk, so the shortest line to a position decides its expected type; among
several shortest lines PV takes precedence over Cut, and Cut over All. The first move of a position is its
best move, or without one the first move in canonical order that leads to a stored position. The expected type
of the start is the type of its bound, PV without one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields

import chess
import numpy as np
from numpy.typing import NDArray

from ....base.errors import UnknownPositionError
from ....position.board import POSITION_WORDS, fen_of, key_of, pack
from ....position.fens import clocks_of
from ....position.scores import LEAST_MATE
from ....store.codec.bulk import board_tables
from ....store.index.locate_kernel import FilterArrays, no_filter
from ....store.reading import MAX_ASKED, Reader
from ....store.record import transposition_layout as layout
from ....store.record.node import LOWER_SHIFT, TERMINAL_MASK, UNPROVEN, UPPER_SHIFT
from ....store.record.transposition import TYPES, check_of
from .stored_steps_kernel import BEST, CAPTURE, CHECK, EntryIndex, list_steps, new_steps
from .theory import KINDS, Arrival, Rules, expected

Words = NDArray[np.uint64]
Codes = NDArray[np.uint8]
Bounds = tuple[NDArray[np.int8], NDArray[np.int8]]

PV_CODE, CUT_CODE, ALL_CODE = (TYPES.index(kind) for kind in KINDS)
NO_DISTANCE = (1 << 15) - 1  # of a node without a PV node above it


class RecordProofs:
    """Proven results of a file's records; without a reader nothing is proven."""

    def __init__(self, reader: Reader | None = None) -> None:
        self._reader = reader

    def filter(self) -> FilterArrays:
        """Returns the filter for positions that may have a record."""
        return self._reader.filter() if self._reader else no_filter()

    def bounds(self, words: Words) -> Bounds:
        """Returns the proven lower and upper results of positions, `[K, 10]`, at their clocks; else (-1, 1).

        Raises:
          StoreError: if the file cannot be read.
        """
        lower, upper = np.full(len(words), -1, np.int8), np.full(len(words), 1, np.int8)
        for first in range(0, len(words) if self._reader else 0, MAX_ASKED):
            assert self._reader is not None
            found, records = self._reader.find(words[first : first + MAX_ASKED])
            at = first + np.flatnonzero(found)
            flags = records.flags.astype(np.int64)
            lower[at], upper[at] = (flags >> LOWER_SHIFT & 3) - 1, (flags >> UPPER_SHIFT & 3) - 1
            clocks = clocks_of(words[at])
            late = (clocks > clocks_of(records.words)) & (flags & TERMINAL_MASK == 0)
            for i in np.flatnonzero(late & (flags != UNPROVEN)).tolist():
                lower[at[i]], upper[at[i]] = records.record(i).bounds_at(int(clocks[i]))
        return lower, upper


@dataclass(frozen=True, slots=True)
class Nodes:
    """Stored positions as columns, `[N]`, in the order of the walk.

    Types are 1 PV, 2 Cut, 3 All, 0 unknown.

    Attributes:
      ply: plies from the start. actual: type by the stored bound (exact PV, lower Cut, upper All).
      garms, kannan: types expected by the topology. searched: type that the search itself expected.
      proven: whether it is a proof: a mate, or a result that a record proves.
      depth: of the entry, plies; 0 without one. cut: number of the move that made the cut, from 1; 0 none.
      is_record: whether it has a record and no entry.
      distance: plies to the nearest PV node (by its bound) on the deciding line; a start without a
        bound counts as one; NO_DISTANCE if there is none.
      moves: number of legal moves. stored: number of those that lead to stored positions.
      best_marks: marks of its best move.
    """

    ply: NDArray[np.int16]
    actual: Codes
    garms: Codes
    kannan: Codes
    searched: Codes
    proven: NDArray[np.bool_]
    depth: Codes
    cut: Codes
    is_record: NDArray[np.bool_]
    distance: NDArray[np.int16]
    moves: NDArray[np.int16]
    stored: NDArray[np.int16]
    best_marks: Codes

    def __len__(self) -> int:
        return len(self.ply)

    @classmethod
    def concat(cls, parts: list[Nodes]) -> Nodes:
        """Returns the nodes of all parts."""
        return cls(*(np.concatenate([getattr(part, f.name) for part in parts]) for f in fields(cls)))


@dataclass(frozen=True, slots=True)
class Walked:
    """The result of a walk.

    Attributes:
      nodes: the stored positions. entries: number of all entries. reached: number of those found.
      complete: False if the walk reached its limit.
    """

    nodes: Nodes
    entries: int
    reached: int
    complete: bool


MAX_NODES = 5_000_000
STEP_ROOM = 1 << 17  # moves listed at once: 14 MB
UNSEEN = np.int16(-1)
TYPE_OF_BOUND = np.array(
    [layout.NO_TYPE, layout.ALL, layout.CUT, layout.PV], np.uint8
)  # none, UPPER, LOWER, EXACT
_LINE_SHIFT = 16  # key that decides between lines: type << 16 | distance

Numbers = NDArray[np.int64]
OnProgress = Callable[[int, int, int], None]  # positions found, entries in all, plies from the start


def walk(
    board: chess.Board,
    entries: EntryIndex,
    proofs: RecordProofs | None = None,
    *,
    max_nodes: int = MAX_NODES,
    on_progress: OnProgress | None = None,
    step_room: int = STEP_ROOM,
) -> Walked:
    """Returns all stored positions that are reachable by legal moves through stored positions.

    A position is stored if it has an entry, or a record that proves a result.

    Args:
      step_room: moves listed at once, 110 bytes each.

    Raises:
      UnknownPositionError: if the start is not stored.
      InvalidPositionError: if it is not legal.
    """
    walking = _EntryWalk(entries, proofs or RecordProofs(), max_nodes, step_room)
    level = walking.start(board)
    parts = []
    while len(level.at):
        if on_progress:
            on_progress(walking.found, len(entries.keys), level.ply)
        nodes, level = walking.step(level)
        parts.append(nodes)
    nodes = Nodes.concat(parts)
    return Walked(nodes, len(entries.keys), int((~nodes.is_record).sum()), walking.complete)


@dataclass(frozen=True, slots=True)
class _Level:
    """The stored positions at one distance from the start.

    Attributes:
      at: `[R]`, identities: the index of the entry; proven records have numbers after those of all entries.
      words: `[R, 10]`. garms, kannan, distance: as in `Nodes`.
    """

    ply: int
    at: Numbers
    words: Words
    garms: Codes
    kannan: Codes
    distance: NDArray[np.int16]


@dataclass(frozen=True, slots=True)
class _Identities:
    """Facts about each identity, `[I]`: as in `Nodes`; `best` is its best move, 0 without one."""

    actual: Codes
    searched: Codes
    proven: NDArray[np.bool_]
    depth: Codes
    cut: Codes
    best: Numbers

    @classmethod
    def of_entries(cls, data: Words) -> _Identities:
        """Returns the facts that entries give."""
        value = layout.values(data)
        bound = layout.field(data, layout.BOUND_AT, layout.BOUND_MASK)
        wins = (value >= LEAST_MATE) & ((bound == layout.EXACT) | (bound == layout.LOWER))
        loses = (value <= -LEAST_MATE) & ((bound == layout.EXACT) | (bound == layout.UPPER))
        return cls(
            TYPE_OF_BOUND[bound],
            layout.field(data, layout.TYPE_AT, layout.TYPE_MASK).astype(np.uint8),
            wins | loses,
            layout.field(data, layout.DEPTH_AT, layout.DEPTH_MASK).astype(np.uint8),
            layout.field(data, layout.CUT_AT, layout.CUT_MASK).astype(np.uint8),
            layout.field(data, layout.MOVE_AT, layout.MOVE_MASK),
        )

    @classmethod
    def of_records(cls, lower: NDArray[np.int8], upper: NDArray[np.int8]) -> _Identities:
        """Returns the facts that proven records give."""
        none = np.zeros(len(lower), np.uint8)
        kinds = np.where(lower == upper, PV_CODE, np.where(lower > -1, CUT_CODE, ALL_CODE))
        return cls(kinds.astype(np.uint8), none, np.ones(len(lower), bool), none, none, none.astype(np.int64))

    def plus(self, more: _Identities) -> _Identities:
        """Returns the facts of both."""
        return _Identities(
            *(np.concatenate([getattr(self, f.name), getattr(more, f.name)]) for f in fields(self))
        )


def _table(rules: Rules) -> Codes:
    """Returns the expected types by the parent's type and the arrival, `[4, 3]`."""
    arrivals = (Arrival.FIRST, Arrival.CANDIDATE, Arrival.FURTHER)
    rows = [[TYPES.index(expected(rules, kind, arrival)) for arrival in arrivals] for kind in KINDS]
    return np.array([[0, 0, 0], *rows], np.uint8)


class _EntryWalk:
    def __init__(self, entries: EntryIndex, proofs: RecordProofs, max_nodes: int, step_room: int) -> None:
        self._entries = entries
        self._proofs = proofs
        self._filter = proofs.filter()
        self._max_nodes = max_nodes
        self._known = _Identities.of_entries(entries.data)
        self._count = len(entries.keys)  # of entries; identities from here on are records
        self._records: dict[int, int] = {}  # key -> identity, -1 where nothing is proven
        self._ply = np.full(self._count, UNSEEN)  # of each identity
        self._line = np.full(self._count, np.iinfo(np.int32).max, np.int32)
        self._kannan = np.full(self._count, 255, np.uint8)
        self._tables = _table(Rules.GARMS), _table(Rules.KANNAN)
        self._steps = new_steps(step_room)
        self.found = 0
        self.complete = True

    def start(self, board: chess.Board) -> _Level:
        """Returns the first level: the start alone."""
        words = pack(board)[None]
        at = self._entry_of(board)
        if at < 0:
            at = int(self._identities(np.array([key_of(board)], np.uint64), words)[0])
        if at < 0:
            raise UnknownPositionError(
                f"no fixed-depth search and no mate proof has left an entry of this position: {fen_of(board)}"
            )
        kind = self._known.actual[[at]]
        kind = np.where(kind == 0, PV_CODE, kind).astype(np.uint8)
        self._ply[at] = 0
        self.found = 1
        distance = np.where(kind == PV_CODE, 0, NO_DISTANCE).astype(np.int16)
        return _Level(0, np.array([at]), words, kind, kind, distance)

    def _entry_of(self, board: chess.Board) -> int:
        keys, key = self._entries.keys, np.uint64(key_of(board))
        low, high = np.searchsorted(keys, key, "left"), np.searchsorted(keys, key, "right")
        checks = layout.checks(self._entries.data[low:high])
        fitting = np.flatnonzero(checks == np.uint64(check_of(board) & layout.CHECK_MASK))
        return int(low + fitting[0]) if len(fitting) else -1

    def step(self, level: _Level) -> tuple[Nodes, _Level]:
        """Returns the nodes of a level, and the level below it."""
        rows, known = len(level.at), self._known
        best = known.best[level.at]
        moves, stored = np.zeros(rows, np.int16), np.zeros(rows, np.int64)
        marks = np.zeros(rows, np.uint8)
        fresh: list[tuple[Numbers, Words]] = []
        done = 0
        words = np.ascontiguousarray(level.words).reshape(-1)
        while done < rows:
            done, listed = list_steps(
                board_tables(), self._entries, self._filter, words, best, done, moves, marks, self._steps
            )
            fresh.append(self._take(level, listed, marks, stored))
        return self._nodes(level, moves, stored, marks), self._below(level.ply + 1, fresh)

    def _take(self, level: _Level, listed: int, marks: Codes, stored: Numbers) -> tuple[Numbers, Words]:
        """Updates counts and types with listed moves; returns the new identities, with their words."""
        steps = self._steps
        of, at, keys = steps.of[:listed], steps.at[:listed].copy(), steps.keys[:listed]
        words = steps.words[: POSITION_WORDS * listed].reshape(-1, POSITION_WORDS)
        unsure = at < 0
        at[unsure] = self._identities(keys[unsure], words[unsure])
        there = at >= 0
        of, at, own, words = of[there], at[there], steps.marks[:listed][there], words[there]
        np.add.at(stored, of, 1)
        first = np.diff(of, prepend=-1) != 0
        first = np.where(marks[of] & BEST, own & BEST, first).astype(bool)
        arrival = np.where(first, 0, np.where(own & (CAPTURE | CHECK), 1, 2))
        return self._meet(level, of, at, arrival, words)

    def _meet(
        self, level: _Level, of: Numbers, at: Numbers, arrival: Numbers, words: Words
    ) -> tuple[Numbers, Words]:
        """Types positions that are new or of the same ply; returns the new identities, with their words."""
        new = self._ply[at] == UNSEEN
        identities, index = np.unique(at[new], return_index=True)
        room = max(0, self._max_nodes - self.found)
        if len(identities) > room:
            self.complete = False
            identities, index = identities[:room], index[:room]
        self.found += len(identities)
        self._ply[identities] = level.ply + 1
        now = self._ply[at] == level.ply + 1
        of, at, arrival, met = of[now], at[now], arrival[now], words[new][index]
        garms = self._tables[0][level.garms[of], arrival].astype(np.int32)
        above = np.where(self._known.actual[level.at] == PV_CODE, 0, level.distance)[of]
        distance = np.minimum(above.astype(np.int32) + 1, NO_DISTANCE)
        np.minimum.at(self._line, at, garms << _LINE_SHIFT | distance)
        np.minimum.at(self._kannan, at, self._tables[1][level.kannan[of], arrival])
        return identities, met

    def _below(self, ply: int, fresh: list[tuple[Numbers, Words]]) -> _Level:
        at = np.concatenate([identities for identities, _ in fresh])
        words = np.concatenate([words for _, words in fresh])
        line = self._line[at]
        garms = (line >> _LINE_SHIFT).astype(np.uint8)
        distance = (line & ((1 << _LINE_SHIFT) - 1)).astype(np.int16)
        return _Level(ply, at, words, garms, self._kannan[at], distance)

    def _nodes(self, level: _Level, moves: NDArray[np.int16], stored: Numbers, marks: Codes) -> Nodes:
        known, at = self._known, level.at
        lower, upper = self._proofs.bounds(level.words)
        return Nodes(
            ply=np.full(len(at), level.ply, np.int16),
            actual=known.actual[at],
            garms=level.garms,
            kannan=level.kannan,
            searched=known.searched[at],
            proven=known.proven[at] | (lower > -1) | (upper < 1),
            depth=known.depth[at],
            cut=known.cut[at],
            is_record=at >= self._count,
            distance=level.distance,
            moves=moves,
            stored=stored.astype(np.int16),
            best_marks=marks,
        )

    def _identities(self, keys: Words, words: Words) -> Numbers:
        """Returns the identities of positions without an entry, -1 where no record proves anything."""
        if not len(keys):
            return np.zeros(0, np.int64)
        each, index, back = np.unique(keys, return_index=True, return_inverse=True)
        asked = [i for i, key in enumerate(each.tolist()) if key not in self._records]
        if asked:
            self._ask(each[asked], words[index[asked]])
        found: Numbers = np.array([self._records[key] for key in each.tolist()], np.int64)[back]
        return found

    def _ask(self, keys: Words, words: Words) -> None:
        """Looks up the proofs in the records of positions, and numbers the proven ones."""
        lower, upper = self._proofs.bounds(words)
        proven = (lower > -1) | (upper < 1)
        first = len(self._ply)
        numbers = np.where(proven, first + np.cumsum(proven) - 1, -1)
        self._records.update(zip(keys.tolist(), numbers.tolist(), strict=True))
        more = int(proven.sum())
        if more:
            self._known = self._known.plus(_Identities.of_records(lower[proven], upper[proven]))
            self._ply = np.append(self._ply, np.full(more, UNSEEN))
            self._line = np.append(self._line, np.full(more, np.iinfo(np.int32).max, np.int32))
            self._kannan = np.append(self._kannan, np.full(more, 255, np.uint8))
