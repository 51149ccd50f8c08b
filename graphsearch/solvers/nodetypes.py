"""Node types of alpha-beta: two published sets of rules, counts in minimal trees, and the stored entries.

Both sets are in the chess programming wiki under "Node Types". Knuth and Moore numbered the types 1, 2, 3;
the names PV, Cut and All are Marsland's and Popowich's. The leaves of a minimal tree: Knuth and Moore
(1975), after Levin.

The walk over the entries below a position is breadth-first and works level by level and in bulk, so the
shortest line to a position decides its expected type; among several shortest lines PV takes precedence over
Cut, and Cut over All. The first move of a position is its best move, or without one the first move in
canonical order that leads to a stored position. The expected type of the start is the type of its bound, PV
without one.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import chess
import numpy as np
from numpy.typing import NDArray

from ..base.answer import Answer, picked
from ..base.errors import UnknownPositionError
from ..evaluators.builtin.evaluator import BuiltinEvaluator
from ..position.board import BLACK, BLACK_TO_MOVE, MAX_MOVES, META, fen_of, key_of, pack
from ..query.steps import legal_codes, positions_after
from ..store import transposition_kernel as fields
from ..store.entries import TYPES, load
from ..store.store import Store

# ------------------------------------------------------------------------------------ theory
Numbers = NDArray[np.int64]
Counts = dict[str, int]  # by type
PV, CUT, ALL = "pv", "cut", "all"
KINDS = (PV, CUT, ALL)  # in the order of Knuth's numbers, like `store.entries.TYPES`

PV_CODE, CUT_CODE, ALL_CODE = (TYPES.index(kind) for kind in KINDS)
# The way to a node: the first move of its parent, a further one that may well cut, or any other.
FIRST, CANDIDATE, FURTHER = range(3)
# The expected types, by the parent's type and the way. Onno Garms: the first child of a PV node is PV, the
# further ones are Cut; the first child of a Cut node is All, the further ones are Cut; children of All nodes
# are Cut. Pradu Kannan: in a Cut node the first child and those of all candidate cutoff moves are All, then
# the node itself becomes All.
GARMS = np.zeros((4, 3), np.uint8)
GARMS[PV_CODE:] = CUT_CODE
GARMS[PV_CODE, FIRST], GARMS[CUT_CODE, FIRST] = PV_CODE, ALL_CODE
KANNAN = GARMS.copy()
KANNAN[CUT_CODE, CANDIDATE] = ALL_CODE


@dataclass(frozen=True, slots=True)
class Agreement(Answer):
    """How far the expected types of nodes agree with their actual ones, where both are known.

    Attributes:
      nodes: their number. share: of those with equal types; None without nodes.
      kappa: Cohen's, agreement beyond chance: (share - chance) / (1 - chance). 1: all agree; 0: chance; None
        where chance alone makes all agree, or there are no nodes.
      matrix: numbers by expected, then by actual type.
    """

    nodes: int
    share: float | None
    kappa: float | None
    matrix: dict[str, Counts]


def agreement_of(pairs: Numbers) -> Agreement:
    """Returns the agreement of a confusion matrix: PV, Cut, All as expected (rows) and actual (columns).

    >>> round(agreement_of(np.array([[1, 0, 0], [0, 45, 5], [0, 5, 44]])).kappa, 4)
    0.8038
    """
    matrix = {
        kind: dict(zip(KINDS, row, strict=True)) for kind, row in zip(KINDS, pairs.tolist(), strict=True)
    }
    nodes = int(pairs.sum())
    if not nodes:
        return Agreement(0, None, None, matrix)
    share, chance = int(pairs.trace()) / nodes, int(pairs.sum(0) @ pairs.sum(1)) / nodes**2
    return Agreement(nodes, share, None if chance == 1 else (share - chance) / (1 - chance), matrix)


@dataclass(frozen=True, slots=True)
class Minimal:
    """The leaves of a minimal alpha-beta tree by type: exact integers if all branchings are."""

    pv: float
    cut: float
    all: float

    @property
    def total(self) -> float:
        """All leaves: b^ceil(n/2) + b^floor(n/2) - 1 with b moves at every node."""
        return self.pv + self.cut + self.all

    def as_dict(self) -> dict[str, float | None]:
        """Returns the JSON object; null where a number is too large for one."""
        numbers = picked(self, "pv cut all total")
        return {name: None if value == math.inf else value for name, value in numbers.items()}


def minimal(branchings: Sequence[float], root: str = PV) -> Minimal:
    """Returns the leaves of a tree with `branchings[d]` moves at ply d.

    With b moves everywhere they are 1, b^ceil(n/2) - 1 and b^floor(n/2) - 1. A deeper minimal tree has as
    many nodes at ply d as a tree of depth d has leaves.

    Every line from the PV to another leaf has a free choice of move at every second ply, and the first move
    at the plies between: the leaf is Cut if its parent had the choice, else All (Knuth and Moore's critical
    positions). Below a Cut or All root there is no PV: only All nodes have a choice, at every second ply.

    >>> minimal([40, 40, 40])
    Minimal(pv=1, cut=1599, all=39)
    >>> minimal([40] * 8).total
    5119999
    >>> minimal([20, 30], "cut")
    Minimal(pv=0, cut=30, all=0)
    """
    if root != PV:
        leaves = prod(branchings[1::2] if root == CUT else branchings[0::2])
        is_cut = (len(branchings) % 2 == 0) == (root == CUT)  # Cut and All take turns
        return Minimal(0, leaves if is_cut else 0, 0 if is_cut else leaves)
    backwards = branchings[::-1]
    return Minimal(1, prod(backwards[0::2]) - 1, prod(backwards[1::2]) - 1)


# ---------------------------------------------------------------------------------- the walk
Words = NDArray[np.uint64]
Codes = NDArray[np.uint8]
Mask = NDArray[np.bool_]
Level = tuple[Numbers, Words]  # indices, `[R]`, and words, `[R, 10]`, of the positions at one distance
OnProgress = Callable[[int, int, int], None]  # positions found, entries in all, plies from the start

UNSEEN = -1
TYPE_OF_BOUND = np.array([fields.NO_TYPE, fields.ALL, fields.CUT, fields.PV], np.uint8)  # none, UPPER, LOWER
STEP_ROWS = 4_000  # positions whose moves are listed at once: some 12 MB

# An entry. Types are 1 PV, 2 Cut, 3 All, 0 unknown.
NODE = np.dtype(
    [
        ("ply", np.int16),  # plies from the start, UNSEEN before the walk reaches it
        ("actual", np.uint8),  # type by the stored bound: exact PV, lower Cut, upper All
        ("garms", np.uint8),  # type expected by the topology
        ("kannan", np.uint8),
        ("searched", np.uint8),  # type that the search itself expected
        ("proven", np.bool_),  # whether it is a proof of a mate
        ("moves", np.int16),  # number of legal moves
        ("stored", np.int16),  # number of those that lead to stored positions
        ("best", np.uint16),  # its best move, 0 without one
    ]
)
Nodes = Any  # np.recarray of NODE


def _nodes_of(data: Words) -> Nodes:
    """Returns the nodes of entries."""
    bound: Any = fields.bits_at(data, fields.BOUND_AT, fields.BOUND_MASK)
    value: Any = fields.values(data)
    nodes = np.zeros(len(data), NODE).view(np.recarray)
    nodes.ply, nodes.garms, nodes.kannan = UNSEEN, 255, 255
    nodes.actual = TYPE_OF_BOUND[bound]
    nodes.searched = fields.bits_at(data, fields.TYPE_AT, fields.TYPE_MASK)
    nodes.proven = fields.proves_mate(value, bound)
    nodes.best = fields.bits_at(data, fields.MOVE_AT, fields.MOVE_MASK)
    return nodes


def walk(board: chess.Board, keys: Words, data: Words, *, on_progress: OnProgress | None = None) -> Nodes:
    """Returns the entries, `[K]`, that legal moves through entries reach from a position, by their ply.

    Raises:
      UnknownPositionError: if the position has no entry.
      InvalidPositionError: if it is not legal.
    """
    order = np.argsort(keys)
    walking = _Walk(keys[order], _nodes_of(data[order]))
    level, ply, found = walking.start(board), 0, 0
    while len(level[0]):
        found += len(level[0])
        if on_progress:
            on_progress(found, len(keys), ply)
        level, ply = walking.step(level, ply), ply + 1
    nodes = walking.nodes[walking.nodes.ply != UNSEEN]
    return nodes[np.argsort(nodes.ply, kind="stable")]


class _Walk:
    def __init__(self, keys: Words, nodes: Nodes) -> None:
        self._keys, self.nodes = keys, nodes

    def start(self, board: chess.Board) -> Level:
        """Returns the first level: the start alone."""
        words = pack(board)[None]
        at, is_stored = self._find(np.array([key_of(board)], np.uint64))
        if not is_stored[0]:
            raise UnknownPositionError(
                f"no fixed-depth search and no mate proof has left an entry of this position: {fen_of(board)}"
            )
        node = self.nodes[at[0]]
        node.ply = 0
        node.garms = node.kannan = node.actual or PV_CODE
        return at, words

    def _find(self, keys: Words) -> tuple[Numbers, Mask]:
        """Returns the index of the entry of each key, and whether there is one."""
        at = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        return at, self._keys[at] == keys

    def step(self, level: Level, ply: int) -> Level:
        """Completes the nodes of the level at a ply; returns the level below it."""
        at, words = level
        parts = [
            self._step(at[first : first + STEP_ROWS], words[first : first + STEP_ROWS], ply)
            for first in range(0, len(at), STEP_ROWS)
        ]
        return np.concatenate([part for part, _ in parts]), np.concatenate([part for _, part in parts])

    def _step(self, at: Numbers, words: Words, ply: int) -> Level:
        """Makes the moves of some positions; returns the positions that are reached for the first time."""
        counts, codes, marks = legal_codes(words)
        is_move = np.arange(MAX_MOVES) < counts[:, None]
        of, moves = np.nonzero(is_move)[0], codes[is_move]
        children, keys = positions_after(words, of, moves)
        theirs = BLACK - (words[of, META] & np.uint64(BLACK_TO_MOVE)).astype(np.int64)
        rows = np.arange(len(of))
        is_noisy = (children[rows, theirs] != words[of, theirs]) | (marks[is_move] > 0)
        is_best = moves == self.nodes.best[at][of]
        self.nodes.moves[at] = counts
        has_best = np.zeros(len(at), bool)
        has_best[of[is_best]] = True
        found, is_stored = self._find(keys)
        of, found = of[is_stored], found[is_stored]
        self.nodes.stored[at] = np.bincount(of, minlength=len(at))
        is_first = np.where(has_best[of], is_best[is_stored], np.diff(of, prepend=-1) != 0)
        arrival = np.where(is_first, FIRST, np.where(is_noisy[is_stored], CANDIDATE, FURTHER))
        return self._meet(at[of], ply, found, arrival, children[is_stored])

    def _meet(self, parents: Numbers, ply: int, at: Numbers, arrival: Numbers, words: Words) -> Level:
        """Types positions that are new or of the same ply; returns the new ones."""
        nodes = self.nodes
        is_new = nodes.ply[at] == UNSEEN
        new, index = np.unique(at[is_new], return_index=True)
        nodes.ply[new] = ply + 1
        now = nodes.ply[at] == ply + 1
        above, child, way = nodes[parents[now]], at[now], arrival[now]
        np.minimum.at(nodes.garms, child, GARMS[above.garms, way])
        np.minimum.at(nodes.kannan, child, KANNAN[above.kannan, way])
        return new, words[is_new][index]


# ----------------------------------------------------------- figures of the stored positions
MAKE_ENTRIES = "graphsearch alphabeta POSITION --depth D --store FILE"

OnProblem = Callable[[str], object]  # one line


@dataclass(frozen=True, slots=True)
class Ply(Answer):
    """The stored positions at one distance from the start.

    Attributes:
      nodes, leaves: numbers by actual type, `unknown` without a stored bound; a leaf is a stored position
        without a move to another one.
      moves: mean legal moves; None if all games are over at this ply.
      minimal: a minimal tree below a start of this type at this ply, with the mean moves of each ply above.
    """

    json_keys = "ply total nodes leaves moves formula=minimal"

    ply: int
    nodes: Counts
    leaves: Counts
    moves: float | None
    minimal: Minimal

    @property
    def total(self) -> int:
        """All stored positions of the ply."""
        return sum(self.nodes.values())


@dataclass(frozen=True, slots=True)
class Classification(Answer):
    """The stored positions below one, by node types.

    Attributes:
      start: expected type of the start: by its bound, PV where it has none.
      entries: number of the file's entries of the present evaluation. ignored: of another evaluation.
      problems: one line for each damaged entry. proven: number of positions with a proof of a mate.
      branching: mean legal moves of a position that has any.
      actual, leaves: positions by stored bound.
      agreement: of the actual types with those expected by `garms`, `kannan` and the `search` itself.
    """

    json_keys = "position start entries ignored problems nodes proven branching actual leaves agreement plies"

    position: str
    start: str
    entries: int
    ignored: int
    problems: tuple[str, ...]
    proven: int
    branching: float
    actual: Counts
    leaves: Counts
    agreement: dict[str, Agreement]
    plies: tuple[Ply, ...]

    @property
    def nodes(self) -> int:
        """Number of positions found."""
        return sum(self.actual.values())


def classify_file(
    path: str | os.PathLike[str],
    board: chess.Board,
    *,
    on_progress: OnProgress | None = None,
    on_problem: OnProblem | None = None,
) -> Classification:
    """Classifies the entries that a graph file holds below a position; a search may write it meanwhile.

    `on_problem` receives each problem before the walk begins.

    Raises:
      InvalidPositionError: if the position is not legal.
      UnknownPositionError: if the file has no entries, or none of the position.
      StoreError: if the file cannot be read.
    """
    with Store.open(path, read_only=True) as store:
        loaded = load(store, BuiltinEvaluator().identity.digest)
    if on_problem:
        for problem in loaded.problems:
            on_problem(problem)
    if not len(loaded.keys):
        if loaded.problems:
            raise UnknownPositionError(f"{path} has no entries that can be read: {loaded.problems[0]}")
        others = f" of this evaluation ({loaded.ignored:,} of another one)" if loaded.ignored else ""
        raise UnknownPositionError(f"{path} has no entries{others}; {MAKE_ENTRIES} makes them")
    nodes = walk(board, loaded.keys, loaded.data, on_progress=on_progress)
    return classify(board, nodes, len(loaded.keys), loaded.ignored, tuple(loaded.problems))


def classify(
    board: chess.Board, nodes: Nodes, entries: int, ignored: int = 0, problems: tuple[str, ...] = ()
) -> Classification:
    """Returns the figures of the nodes of a walk."""
    is_leaf, start = nodes.stored == 0, TYPES[int(nodes.garms[0])]
    return Classification(
        position=fen_of(board),
        start=start,
        entries=entries,
        ignored=ignored,
        problems=problems,
        proven=int(np.count_nonzero(nodes.proven)),
        branching=_mean_moves(nodes.moves) or 0.0,
        actual=_by_kind(nodes.actual),
        leaves=_by_kind(nodes.actual[is_leaf]),
        agreement={
            "garms": _agreement(nodes.garms, nodes.actual),
            "kannan": _agreement(nodes.kannan, nodes.actual),
            "search": _agreement(nodes.searched, nodes.actual),
        },
        plies=_plies(nodes, is_leaf, start),
    )


def _agreement(expected: Codes, actual: Codes) -> Agreement:
    pairs = np.bincount(expected.astype(np.int64) * 4 + actual, minlength=16).reshape(4, 4)
    return agreement_of(pairs[1:, 1:])


def _plies(nodes: Nodes, is_leaf: Mask, start: str) -> tuple[Ply, ...]:
    found: list[Ply] = []
    above: list[float] = []
    for ply in range(int(nodes.ply.max()) + 1):
        here = nodes.ply == ply
        counts, leaves = _by_kind(nodes.actual[here]), _by_kind(nodes.actual[here & is_leaf])
        moves = _mean_moves(nodes.moves[here])
        found.append(Ply(ply, counts, leaves, moves, minimal(above, start)))
        above.append(moves or 0.0)
    return tuple(found)


def _by_kind(actual: Codes) -> Counts:
    counts = np.bincount(actual, minlength=4).tolist()
    return {**dict(zip(KINDS, counts[1:], strict=True)), "unknown": counts[0]}


def _mean_moves(moves: NDArray[np.int16]) -> float | None:
    some = moves[moves > 0]
    return float(some.mean()) if len(some) else None
