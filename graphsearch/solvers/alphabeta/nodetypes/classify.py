"""Node types of the stored positions below one: counts, agreement, first-move cuts, and the formulas."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import chess
import numpy as np
from numpy.typing import NDArray

from ....base.answer import Answer, picked
from ....base.errors import UnknownPositionError
from ....evaluators.builtin.evaluator import BuiltinEvaluator
from ....position.board import fen_of
from ....store.record.transposition import TYPES
from ....store.store import Store
from ....store.transpositions.saved import load
from .stored_steps_kernel import CAPTURE, CHECK, index_entries
from .theory import KINDS, Agreement, Minimal, minimal, minimal_of
from .walk import (
    ALL_CODE,
    CUT_CODE,
    MAX_NODES,
    NO_DISTANCE,
    Codes,
    Nodes,
    OnProgress,
    RecordProofs,
    Walked,
    walk,
)

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
