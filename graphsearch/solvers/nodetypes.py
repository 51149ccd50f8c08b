"""Node types of alpha-beta: two published sets of rules, counts in minimal trees, and the stored positions.

Both sets are in the chess programming wiki under "Node Types". Knuth and Moore numbered the types 1, 2, 3;
the names PV, Cut and All are Marsland's and Popowich's. The leaves of a minimal tree: Knuth and Moore
(1975), after Levin.

The walk over the stored positions below one is breadth-first and works level by level and in bulk, so the
shortest line to a position decides its expected type; among several shortest lines PV takes precedence over
Cut, and Cut over All. The first move of a position is its best move, or without one the first move in
canonical order that leads to a stored position. The expected type of the start is the type of its bound, PV
without one.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from math import prod
from typing import Any

import chess
import numpy as np
from numpy.typing import NDArray

from ..base.answer import Answer, picked
from ..base.errors import UnknownPositionError
from ..evaluators.builtin.evaluator import BuiltinEvaluator
from ..position.board import POSITION_WORDS, fen_of, key_of, pack
from ..position.fens import clocks_of
from ..position.values import LEAST_MATE
from ..store import transposition_layout as layout
from ..store.entries import load
from ..store.index_kernel import FilterArrays, no_filter
from ..store.reading import MAX_ASKED, Reader
from ..store.record import TERMINAL_MASK, UNPROVEN, board_tables
from ..store.record_kernel import LOWER_SHIFT, UPPER_SHIFT
from ..store.store import Store
from ..store.transposition import TYPES, check_of
from .nodetypes_kernel import BEST, CAPTURE, CHECK, EntryIndex, index_entries, list_steps, new_steps

# ------------------------------------------------------------------------------------ theory
PV, CUT, ALL = "pv", "cut", "all"
KINDS = (PV, CUT, ALL)  # in the order of Knuth's numbers, like `store.transposition.TYPES`


class Arrival(Enum):
    """The way to a node: the first move of its parent, a further one that may well cut, or any other."""

    FIRST = "first"
    CANDIDATE = "candidate"
    FURTHER = "further"


class Rules(Enum):
    """A published set of rules."""

    GARMS = "garms"
    KANNAN = "kannan"


def expected(rules: Rules, parent: str, arrival: Arrival) -> str:
    """Returns the expected type of a node below one of type `parent`.

    Onno Garms: the first child of a PV node is PV, the further ones are Cut; the first child of a Cut node is
    All, the further ones are Cut; children of All nodes are Cut. Pradu Kannan: in a Cut node the first child
    and those of all candidate cutoff moves are All, then the node itself becomes All.

    >>> expected(Rules.GARMS, CUT, Arrival.CANDIDATE), expected(Rules.KANNAN, CUT, Arrival.CANDIDATE)
    ('cut', 'all')
    """
    if parent == PV and arrival is Arrival.FIRST:
        return PV
    tried = (Arrival.FIRST, Arrival.CANDIDATE) if rules is Rules.KANNAN else (Arrival.FIRST,)
    return ALL if parent == CUT and arrival in tried else CUT


@dataclass(frozen=True, slots=True)
class Agreement:
    """A confusion matrix: nodes by expected type (rows) and actual type (columns): PV, Cut, All."""

    matrix: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, matrix: NDArray[np.int64]) -> Agreement:
        """Returns the agreement of a matrix `[3, 3]`."""
        return cls(tuple(tuple(row) for row in matrix.tolist()))

    @property
    def nodes(self) -> int:
        """Number of nodes with both types known."""
        return sum(map(sum, self.matrix))

    @property
    def share(self) -> float | None:
        """Share of the nodes with equal expected and actual type; None without nodes."""
        return sum(row[i] for i, row in enumerate(self.matrix)) / self.nodes if self.nodes else None

    @property
    def kappa(self) -> float | None:
        """Cohen's kappa, agreement beyond chance: (share - chance) / (1 - chance). 1: all agree; 0: chance.

        None where chance alone makes all agree, or there are no nodes.

        >>> round(Agreement(((1, 0, 0), (0, 45, 5), (0, 5, 44))).kappa, 4)
        0.8038
        """
        if self.share is None:
            return None
        columns = [sum(row[i] for row in self.matrix) for i in range(len(self.matrix))]
        pairs = zip(map(sum, self.matrix), columns, strict=True)
        chance = sum(row * column for row, column in pairs) / self.nodes**2
        return None if chance == 1 else (self.share - chance) / (1 - chance)

    def as_dict(self) -> dict[str, Any]:
        """Returns the JSON object: `matrix` by expected, then by actual type."""
        return {
            "nodes": self.nodes,
            "share": self.share,
            "kappa": self.kappa,
            "matrix": {
                expected: dict(zip(KINDS, row, strict=True))
                for expected, row in zip(KINDS, self.matrix, strict=True)
            },
        }


@dataclass(frozen=True, slots=True)
class Minimal:
    """The leaves of a minimal alpha-beta tree; exact integers if the branching factor is an integer.

    Attributes:
      pv, cut, all: leaves by type. worst: leaves without any cut, b^n.
    """

    pv: float
    cut: float
    all: float
    worst: float

    @property
    def total(self) -> float:
        """All leaves: b^ceil(n/2) + b^floor(n/2) - 1."""
        return self.pv + self.cut + self.all

    def as_dict(self) -> dict[str, float | None]:
        """Returns the JSON object; null where a number is too large for one."""
        numbers = {"pv": self.pv, "cut": self.cut, "all": self.all, "total": self.total, "worst": self.worst}
        return {name: None if value == math.inf else value for name, value in numbers.items()}


def minimal(branching: float, depth: int, root: str = PV) -> Minimal:
    """Returns the leaves at depth n >= 0 with b moves at every node: 1, b^ceil(n/2) - 1, b^floor(n/2) - 1.

    A deeper minimal tree has as many nodes at ply d as a tree of depth d has leaves. For a Cut or All root
    see `minimal_of`.

    >>> minimal(40, 3)
    Minimal(pv=1, cut=1599, all=39, worst=64000)
    >>> minimal(40, 8).total
    5119999
    """
    return minimal_of([branching] * depth, root)


def minimal_of(branchings: Sequence[float], root: str = PV) -> Minimal:
    """Returns the leaves of a tree with `branchings[d]` moves at ply d.

    Every line from the PV to another leaf has a free choice of move at every second ply, and the first move
    at the plies between: the leaf is Cut if its parent had the choice, else All (Knuth and Moore's critical
    positions). Below a Cut or All root there is no PV: only All nodes have a choice, at every second ply.

    >>> minimal_of([40, 40, 40]) == minimal(40, 3)
    True
    >>> minimal_of([20, 30])
    Minimal(pv=1, cut=29, all=19, worst=600)
    >>> minimal_of([20, 30], "cut")
    Minimal(pv=0, cut=30, all=0, worst=600)
    """
    if root != PV:
        leaves = prod(branchings[1::2] if root == CUT else branchings[0::2])
        is_cut = (len(branchings) % 2 == 0) == (root == CUT)  # Cut and All take turns
        return Minimal(0, leaves if is_cut else 0, 0 if is_cut else leaves, prod(branchings))
    backwards = branchings[::-1]
    return Minimal(1, prod(backwards[0::2]) - 1, prod(backwards[1::2]) - 1, prod(branchings))


# ---------------------------------------------------------------------------------- the walk
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


# A stored position. Types are 1 PV, 2 Cut, 3 All, 0 unknown. A numpy array of it has the entries first, then
# proven records without an entry; the index of a position is its identity.
NODE = np.dtype(
    [
        ("ply", np.int16),  # plies from the start, UNSEEN before the walk reaches it
        ("actual", np.uint8),  # type by the stored bound: exact PV, lower Cut, upper All
        ("garms", np.uint8),  # type expected by the topology
        ("kannan", np.uint8),
        ("searched", np.uint8),  # type that the search itself expected
        ("proven", np.bool_),  # whether it is a proof: a mate, or a result that a record proves
        ("cut", np.uint8),  # number of the move that made the cut, from 1; 0 none
        ("is_record", np.bool_),  # whether it has a record and no entry
        # plies to the nearest PV node (by its bound) on the deciding line; a start without a bound counts as
        # one; NO_DISTANCE if there is none
        ("distance", np.int16),
        ("line", np.int32),  # key that decides between lines: garms << 16 | distance
        ("moves", np.int16),  # number of legal moves
        ("stored", np.int16),  # number of those that lead to stored positions
        ("best", np.int64),  # its best move, 0 without one
        ("best_marks", np.uint8),  # marks of that move
    ]
)
Nodes = Any  # np.recarray of NODE


def _blank(count: int) -> Nodes:
    """Returns positions that the walk has not reached."""
    nodes = np.zeros(count, NODE).view(np.recarray)
    nodes.ply, nodes.kannan, nodes.line = UNSEEN, 255, np.iinfo(np.int32).max
    return nodes


def _of_entries(data: Words) -> Nodes:
    """Returns the positions of entries."""
    value = layout.values(data)
    bound = layout.bits_at(data, layout.BOUND_AT, layout.BOUND_MASK)
    wins = (value >= LEAST_MATE) & ((bound == layout.EXACT) | (bound == layout.LOWER))
    loses = (value <= -LEAST_MATE) & ((bound == layout.EXACT) | (bound == layout.UPPER))
    nodes = _blank(len(data))
    nodes.actual = TYPE_OF_BOUND[bound]
    nodes.searched = layout.bits_at(data, layout.TYPE_AT, layout.TYPE_MASK)
    nodes.proven = wins | loses
    nodes.cut = layout.bits_at(data, layout.CUT_AT, layout.CUT_MASK)
    nodes.best = layout.bits_at(data, layout.MOVE_AT, layout.MOVE_MASK)
    return nodes


def _of_records(lower: NDArray[np.int8], upper: NDArray[np.int8]) -> Nodes:
    """Returns the positions of proven records."""
    nodes = _blank(len(lower))
    nodes.actual = np.where(lower == upper, PV_CODE, np.where(lower > -1, CUT_CODE, ALL_CODE))
    nodes.proven = nodes.is_record = True
    return nodes


@dataclass(frozen=True, slots=True)
class Walked:
    """The result of a walk.

    Attributes:
      nodes: the stored positions, the start first. entries: number of all entries. reached: number of those
        found.
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
_LINE_SHIFT = 16

Numbers = NDArray[np.int64]
Level = tuple[Numbers, Words]
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
    level, ply = walking.start(board), 0
    while len(level[0]):
        if on_progress:
            on_progress(walking.found, len(entries.keys), ply)
        level, ply = walking.step(*level, ply), ply + 1
    nodes = walking.nodes[walking.nodes.ply != UNSEEN]
    nodes = nodes[np.argsort(nodes.ply, kind="stable")]
    return Walked(nodes, len(entries.keys), int((~nodes.is_record).sum()), walking.complete)


def _table(rules: Rules) -> Codes:
    """Returns the expected types by the parent's type and the arrival, `[4, 3]`."""
    arrivals = (Arrival.FIRST, Arrival.CANDIDATE, Arrival.FURTHER)
    rows = [[TYPES.index(expected(rules, kind, arrival)) for arrival in arrivals] for kind in KINDS]
    return np.array([[0, 0, 0], *rows], np.uint8)


class _EntryWalk:
    """A walk. A level is the identities, `[R]`, and words, `[R, 10]`, of the positions at one distance."""

    def __init__(self, entries: EntryIndex, proofs: RecordProofs, max_nodes: int, step_room: int) -> None:
        self._entries = entries
        self._proofs = proofs
        self._filter = proofs.filter()
        self._max_nodes = max_nodes
        self.nodes = _of_entries(entries.data)
        self._records: dict[int, int] = {}  # key -> identity, -1 where nothing is proven
        self._tables = _table(Rules.GARMS), _table(Rules.KANNAN)
        self._steps = new_steps(step_room)
        self.found = 0
        self.complete = True

    def start(self, board: chess.Board) -> Level:
        """Returns the first level: the start alone."""
        words = pack(board)[None]
        at = self._entry_of(board)
        if at < 0:
            at = int(self._identities(np.array([key_of(board)], np.uint64), words)[0])
        if at < 0:
            raise UnknownPositionError(
                f"no fixed-depth search and no mate proof has left an entry of this position: {fen_of(board)}"
            )
        node = self.nodes[at]
        node.ply, self.found = 0, 1
        node.garms = node.kannan = node.actual or PV_CODE
        node.distance = 0 if node.garms == PV_CODE else NO_DISTANCE
        return np.array([at]), words

    def _entry_of(self, board: chess.Board) -> int:
        keys, key = self._entries.keys, np.uint64(key_of(board))
        low, high = np.searchsorted(keys, key, "left"), np.searchsorted(keys, key, "right")
        checks = layout.checks(self._entries.data[low:high])
        fitting = np.flatnonzero(checks == np.uint64(check_of(board) & layout.CHECK_MASK))
        return int(low + fitting[0]) if len(fitting) else -1

    def step(self, at: Numbers, words: Words, ply: int) -> Level:
        """Completes the nodes of the level at a ply; returns the level below it."""
        best, rows = self.nodes.best[at], len(at)
        moves, marks = np.zeros(rows, np.int16), np.zeros(rows, np.uint8)
        lower, upper = self._proofs.bounds(words)
        self.nodes.proven[at] |= (lower > -1) | (upper < 1)
        fresh: list[Level] = []
        done = 0
        words = np.ascontiguousarray(words).reshape(-1)
        while done < rows:
            done, listed = list_steps(
                board_tables(), self._entries, self._filter, words, best, done, moves, marks, self._steps
            )
            fresh.append(self._take(at, ply, listed, marks))
        self.nodes.moves[at], self.nodes.best_marks[at] = moves, marks
        below = np.concatenate([identities for identities, _ in fresh])
        line = self.nodes.line[below]
        self.nodes.garms[below] = line >> _LINE_SHIFT
        self.nodes.distance[below] = line & ((1 << _LINE_SHIFT) - 1)
        return below, np.concatenate([words for _, words in fresh])

    def _take(self, level: Numbers, ply: int, listed: int, marks: Codes) -> Level:
        """Updates counts and types with listed moves; returns the new identities, with their words."""
        steps = self._steps
        of, at, keys = steps.of[:listed], steps.at[:listed].copy(), steps.keys[:listed]
        words = steps.words[: POSITION_WORDS * listed].reshape(-1, POSITION_WORDS)
        unsure = at < 0
        at[unsure] = self._identities(keys[unsure], words[unsure])
        there = at >= 0
        of, at, own, words = of[there], at[there], steps.marks[:listed][there], words[there]
        np.add.at(self.nodes.stored, level[of], 1)
        first = np.diff(of, prepend=-1) != 0
        first = np.where(marks[of] & BEST, own & BEST, first).astype(bool)
        arrival = np.where(first, 0, np.where(own & (CAPTURE | CHECK), 1, 2))
        return self._meet(level[of], ply, at, arrival, words)

    def _meet(self, parents: Numbers, ply: int, at: Numbers, arrival: Numbers, words: Words) -> Level:
        """Types positions that are new or of the same ply; returns the new identities, with their words."""
        nodes = self.nodes
        new = nodes.ply[at] == UNSEEN
        identities, index = np.unique(at[new], return_index=True)
        room = max(0, self._max_nodes - self.found)
        if len(identities) > room:
            self.complete = False
            identities, index = identities[:room], index[:room]
        self.found += len(identities)
        nodes.ply[identities] = ply + 1
        now = nodes.ply[at] == ply + 1
        above, at, arrival, met = nodes[parents[now]], at[now], arrival[now], words[new][index]
        garms = self._tables[0][above.garms, arrival].astype(np.int32)
        distance = np.where(above.actual == PV_CODE, 0, above.distance).astype(np.int32) + 1
        np.minimum.at(nodes.line, at, garms << _LINE_SHIFT | np.minimum(distance, NO_DISTANCE))
        np.minimum.at(nodes.kannan, at, self._tables[1][above.kannan, arrival])
        return identities, met

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
        numbers = np.where(proven, len(self.nodes) + np.cumsum(proven) - 1, -1)
        self._records.update(zip(keys.tolist(), numbers.tolist(), strict=True))
        more = _of_records(lower[proven], upper[proven])
        self.nodes = np.concatenate([self.nodes, more]).view(np.recarray)


# ----------------------------------------------------------- figures of the stored positions
HYATT = 0.9  # least share of the Cut nodes that the first move cuts (Hyatt)
MAKE_ENTRIES = "graphsearch alphabeta POSITION --depth D --store FILE"

Counts = dict[str, int]
Mask = NDArray[np.bool_]
OnProblem = Callable[[str], object]  # one line


@dataclass(frozen=True, slots=True)
class Ply(Answer):
    """The stored positions at one distance from the start.

    Attributes:
      nodes, leaves: numbers by actual type, `unknown` without a stored bound; a leaf is a stored position
        without a move to another one.
      moves: mean legal moves; None if all games are over at this ply.
      uniform: a minimal tree below a start of this type at this ply, with the mean moves everywhere.
      measured: the same with the mean number of moves of each ply above.
    """

    json_keys = "ply total nodes leaves moves formula=measured uniform_formula=uniform"

    ply: int
    nodes: Counts
    leaves: Counts
    moves: float | None
    uniform: Minimal
    measured: Minimal

    @property
    def total(self) -> int:
        """All stored positions of the ply."""
        return sum(self.nodes.values())


@dataclass(frozen=True, slots=True)
class Classification:
    """The stored positions below one, by node types.

    Attributes:
      position: FEN of the start. start: expected type of the start: by its bound, PV where it has none.
      entries: number of the file's entries of the present evaluation. reached: number of those found.
        ignored: number of entries of another evaluation.
      problems: one line for each damaged entry or record. complete: False if the walk reached its limit.
      records: number of positions with a proven record and no entry.
      proven: number of positions with a proof, of a mate or of a result.
      branching: mean legal moves of a position that has any.
      actual, leaves: positions by stored bound.
      agreement: of the actual types with those expected by `garms`, `kannan` and the `search` itself.
      became_all: Cut nodes by Kannan's rules without a cut by a candidate. became_rightly: those found All.
      cuts: Cut nodes with a known cutting move. first_cuts: those that the first move cut.
      cut_odd, cut_placed: Cut nodes at an odd distance of their PV ancestor, and all of them that have one.
      all_even, all_placed: All nodes at an even distance, likewise.
    """

    position: str
    start: str
    entries: int
    reached: int
    ignored: int
    problems: tuple[str, ...]
    complete: bool
    records: int
    proven: int
    branching: float
    actual: Counts
    leaves: Counts
    agreement: dict[str, Agreement]
    became_all: int
    became_rightly: int
    cuts: int
    first_cuts: int
    cut_odd: int
    cut_placed: int
    all_even: int
    all_placed: int
    plies: tuple[Ply, ...]

    @property
    def nodes(self) -> int:
        """Number of positions found."""
        return sum(self.actual.values())

    @property
    def first_share(self) -> float | None:
        """Share of the Cut nodes that the first move cut; None if no cut is known."""
        return self.first_cuts / self.cuts if self.cuts else None

    def as_dict(self) -> dict[str, Any]:
        """Returns the JSON object of `graphsearch lab nodetypes POSITION`."""
        names = "position start entries reached ignored problems complete nodes records proven branching"
        cuts = picked(self, "cuts first=first_cuts share=first_share")
        return {
            **picked(self, f"{names} actual leaves agreement"),
            "kannan": picked(self, "became_all became_rightly"),
            "first_move": cuts | {"reference": HYATT},
            "parity": picked(self, "cut=cut_placed cut_odd all=all_placed all_even"),
            **picked(self, "plies"),
        }


def classify_file(
    path: str | os.PathLike[str],
    board: chess.Board,
    *,
    max_nodes: int = MAX_NODES,
    on_progress: OnProgress | None = None,
    on_problem: OnProblem | None = None,
) -> Classification:
    """Classifies the positions that a graph file holds below one; a search may write the file meanwhile.

    `on_problem` receives each problem: damaged entries before the walk begins, damaged records after it.

    Raises:
      InvalidPositionError: if the position is not legal.
      UnknownPositionError: if the file has no entries, or none of the position.
      StoreError: if the file cannot be read.
    """
    with Store.open(path, read_only=True) as store, store.reader() as reader:
        loaded = load(store, BuiltinEvaluator().identity.digest)
        _tell(loaded.problems, on_problem)
        if not len(loaded.keys):
            raise UnknownPositionError(_nothing(path, loaded.ignored, loaded.problems))
        entries = index_entries(loaded.keys, loaded.data)
        walked = walk(board, entries, RecordProofs(reader), max_nodes=max_nodes, on_progress=on_progress)
        _tell(reader.problems, on_problem)
        problems = (*loaded.problems, *reader.problems)
    return classify(board, walked, ignored=loaded.ignored, problems=problems)


def _tell(problems: Iterable[str], on_problem: OnProblem | None) -> None:
    if on_problem:
        for problem in problems:
            on_problem(problem)


def _nothing(path: str | os.PathLike[str], ignored: int, problems: list[str]) -> str:
    """Returns the error message if there is nothing to classify: the reason and the remedy."""
    if problems:
        return f"{os.fspath(path)} has no entries that can be read: {problems[0]}"
    others = f" of this evaluation ({ignored:,} of another one)" if ignored else ""
    return f"{os.fspath(path)} has no entries{others}; {MAKE_ENTRIES} makes them"


def classify(
    board: chess.Board, walked: Walked, *, ignored: int = 0, problems: tuple[str, ...] = ()
) -> Classification:
    """Returns the figures of a finished walk."""
    nodes = walked.nodes
    is_leaf, known_cut = nodes.stored == 0, (nodes.actual == CUT_CODE) & (nodes.cut > 0)
    became = _became_all(nodes)
    start = TYPES[int(nodes.garms[0])]
    below = (nodes.ply > 0) & (nodes.distance < NO_DISTANCE)
    cut, all_ = (nodes.actual == CUT_CODE) & below, (nodes.actual == ALL_CODE) & below
    is_odd = nodes.distance % 2 == 1
    return Classification(
        position=fen_of(board),
        start=start,
        entries=walked.entries,
        reached=walked.reached,
        ignored=ignored,
        problems=problems,
        complete=walked.complete,
        records=_count(nodes.is_record),
        proven=_count(nodes.proven),
        branching=_mean_moves(nodes.moves) or 0.0,
        actual=_by_kind(nodes.actual),
        leaves=_by_kind(nodes.actual[is_leaf]),
        agreement={
            "garms": _agreement(nodes.garms, nodes.actual),
            "kannan": _agreement(nodes.kannan, nodes.actual),
            "search": _agreement(nodes.searched, nodes.actual),
        },
        became_all=_count(became),
        became_rightly=_count(became & (nodes.actual == ALL_CODE)),
        cuts=_count(known_cut),
        first_cuts=_count(known_cut & (nodes.cut == 1)),
        cut_odd=_count(cut & is_odd),
        cut_placed=_count(cut),
        all_even=_count(all_ & ~is_odd),
        all_placed=_count(all_),
        plies=_plies(nodes, is_leaf, start),
    )


def _became_all(nodes: Nodes) -> Mask:
    """Returns a mask of Kannan's Cut nodes at which the first move and all captures and checks failed.

    It includes a Cut node that a later move cut which is neither a capture nor a check.
    """
    quiet = nodes.best_marks & (CAPTURE | CHECK) == 0
    failed = (nodes.actual == ALL_CODE) | ((nodes.actual == CUT_CODE) & (nodes.cut > 1) & quiet)
    found: Mask = (nodes.kannan == CUT_CODE) & failed
    return found


def _agreement(expected: Codes, actual: Codes) -> Agreement:
    pairs = np.bincount(expected.astype(np.int64) * 4 + actual, minlength=16).reshape(4, 4)
    return Agreement.of(pairs[1:, 1:])


def _plies(nodes: Nodes, is_leaf: Mask, start: str) -> tuple[Ply, ...]:
    branching = _mean_moves(nodes.moves) or 0.0
    found: list[Ply] = []
    above: list[float] = []
    for ply in range(int(nodes.ply.max()) + 1):
        here = nodes.ply == ply
        moves = _mean_moves(nodes.moves[here])
        found.append(
            Ply(
                ply,
                _by_kind(nodes.actual[here]),
                _by_kind(nodes.actual[here & is_leaf]),
                moves,
                minimal(branching, ply, start),
                minimal_of(above, start),
            )
        )
        above.append(moves or 0.0)
    return tuple(found)


def _by_kind(actual: Codes) -> Counts:
    counts = np.bincount(actual, minlength=4).tolist()
    return {**dict(zip(KINDS, counts[1:], strict=True)), "unknown": counts[0]}


def _mean_moves(moves: NDArray[np.int16]) -> float | None:
    some = moves[moves > 0]
    return float(some.mean()) if len(some) else None


def _count(mask: Mask) -> int:
    return int(np.count_nonzero(mask))
