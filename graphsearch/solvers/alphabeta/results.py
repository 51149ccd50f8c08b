"""Limits and results of a fixed-depth search. Pure, without Numba."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import chess

from ...base.answer import Answer, picked
from ...base.errors import InvalidParameterError
from ...base.limits import WHOLE
from ...graph.kept_transpositions import EntryReport
from ...position.board import fen_of, key_text
from ...position.scores import FAR, centipawns, mate_moves
from ...store.record import transposition_layout


@dataclass(frozen=True, slots=True)
class Counts:
    """Counts of a fixed-depth search.

    Attributes:
      nodes: positions entered, quiescence included; the root counts.
      interior: those searched with depth left. leaves: those where none was left.
      quiescence: those below leaves.
      hits: entries found in the table. stored_hits: those that were in the table before this run.
      hit_cutoffs: nodes that an entry ended. cutoffs: nodes that a move's value >= beta ended.
      first_cutoffs: those ended by the first move. researches: null windows that failed and were searched
        again. proofs: nodes that a proven result of the graph ended. ordered: nodes with moves ordered by
        the graph's N and P. path_draws: repetitions on the path and clocks of 100.
      pv, cut, all: interior nodes by expected type.
      static: static evaluations. cached: leaves with a value in the leaf cache.
      expanded: nodes with generated moves. moves: legal moves of those; their ratio is the branching factor.
    """

    nodes: int = 0
    interior: int = 0
    leaves: int = 0
    quiescence: int = 0
    hits: int = 0
    stored_hits: int = 0
    hit_cutoffs: int = 0
    cutoffs: int = 0
    first_cutoffs: int = 0
    researches: int = 0
    proofs: int = 0
    ordered: int = 0
    path_draws: int = 0
    pv: int = 0
    cut: int = 0
    all: int = 0
    static: int = 0
    cached: int = 0
    expanded: int = 0
    moves: int = 0

    def __add__(self, other: Counts) -> Counts:
        mine, theirs = asdict(self), asdict(other)
        return Counts(**{name: mine[name] + theirs[name] for name in mine})


@dataclass(frozen=True, slots=True)
class DepthResult(Answer):
    """One iteration: a position searched to one depth with one window.

    Attributes:
      depth: plies of full width. alpha, beta: the window, thousandths of a pawn for the side to move.
      value: fail-soft, thousandths of a pawn for the side to move; MATE - n mates in n plies.
      bound: `exact`, `lower` (value >= beta) or `upper` (value <= alpha).
      move: best move; None if the game is over, or none is known.
      pv: the principal variation, legal, `move` first; may be shorter than the depth.
      counts: of this iteration. seconds: wall time. complete: False if it was stopped; then `value`, `bound`,
        `move` and `pv` are those of the finished moves.
    """

    json_keys = "depth window value bound move pv seconds complete counts"

    depth: int
    alpha: int
    beta: int
    value: int
    bound: str
    move: chess.Move | None
    pv: tuple[chess.Move, ...]
    counts: Counts
    seconds: float
    complete: bool

    @property
    def window(self) -> tuple[int, int]:
        """Alpha and beta."""
        return self.alpha, self.beta


MOST_DEPTH = transposition_layout.MOST_DEPTH  # plies; an entry has no more
MOST_NODES = WHOLE.most


@dataclass(frozen=True, slots=True, kw_only=True)
class DepthLimits:
    """The depth of a search, and the limits that end it earlier.

    Attributes:
      depth: plies of full width, 1 to 126.
      window: alpha and beta of the last iteration, thousandths of a pawn for the side to move; None: all.
      nodes: ends the search after so many. seconds: or after so long, > 0.
    """

    depth: int
    window: tuple[int, int] | None = None
    nodes: int | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.depth <= MOST_DEPTH:
            raise InvalidParameterError(f"depth is {self.depth}, expected 1 to {MOST_DEPTH} plies")
        if self.window is not None and not -FAR <= self.window[0] < self.window[1] <= FAR:
            low, high = (bound / 10 for bound in self.window)
            raise InvalidParameterError(
                f"window is {low:g} {high:g}, expected two values from {-FAR // 10} to {FAR // 10},"
                " in centipawns, at least 0.1 apart, the lower one first"
            )
        if self.nodes is not None and not 1 <= self.nodes <= MOST_NODES:
            raise InvalidParameterError(f"nodes is {self.nodes}, expected 1 to 10**18")
        if self.seconds is not None and not 0 < self.seconds < math.inf:
            raise InvalidParameterError(f"seconds is {self.seconds}, expected a number above 0")

    @property
    def last_window(self) -> tuple[int, int]:
        """The window of the last iteration."""
        return self.window or (-FAR, FAR)

    def as_dict(self) -> dict[str, Any]:
        """Returns the limits that are set, as stored with every run."""
        return {name: value for name, value in asdict(self).items() if value is not None}


@dataclass(frozen=True, slots=True)
class KnownDepth:
    """Facts that the file held about the root when the search began.

    Attributes:
      depth: plies; 0: nothing usable.
      nodes, seconds: cost of the iterations up to it, as far as the file has them.
    """

    depth: int = 0
    nodes: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class AlphaBetaProgress:
    """Progress of a search: `depth` is that of the present iteration, the counts are of all of them."""

    seconds: float
    depth: int
    counts: Counts
    entries: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AlphaBetaResult:
    """The result of a search of one position to a depth.

    Attributes:
      board: the position. asked: requested depth. window: of the last iteration, thousandths.
      depth: completed plies; 0: none, then `value` is that of the moves finished so far, if any.
      value: thousandths of a pawn for the side to move, MATE - n mates in n plies; None if nothing is known.
      bound: `exact`, `lower` (at least), `upper` (at most), empty if nothing is known.
      move: best move; None if the game is over or none is known. pv: legal, `move` first.
      iterations: of this run, including a stopped one. counts: of all of them.
      known: facts from the file. report: outcome of loading the file's entries.
      entries: in memory at the end. graph_nodes: positions of the graph that could order moves.
      stop_reason: `depth`, `known` (the file had the answer), `mate` (deeper searches find the same), `time`,
        `nodes`, `stop`, `reader`, `finished` (the game is over).
      alone: nodes of the same search without file and graph; None if that search was not run.
      store: the file, None if there is none.
    """

    board: chess.Board
    asked: int
    window: tuple[int, int]
    depth: int
    value: int | None
    bound: str
    move: chess.Move | None
    pv: tuple[chess.Move, ...]
    iterations: tuple[DepthResult, ...]
    known: KnownDepth
    report: EntryReport
    entries: int
    graph_nodes: int
    seconds: float
    stop_reason: str
    store: str | None = None
    alone: int | None = None

    @property
    def counts(self) -> Counts:
        """Counts of all iterations of this run."""
        return sum((iteration.counts for iteration in self.iterations), Counts())

    @property
    def nodes_saved(self) -> int | None:
        """Nodes that file and graph saved, against `alone`; None if that search was not run."""
        return None if self.alone is None else self.alone - self.counts.nodes

    def as_dict(self) -> dict[str, Any]:
        """Returns the JSON object of the result."""
        return {
            "position": fen_of(self.board),
            "key": key_text(self.board),
            **picked(self, "store asked depth window value"),
            "cp": None if self.value is None else centipawns(self.value),
            "mate": None if self.value is None else mate_moves(self.value),
            "bound": self.bound or None,
            **picked(self, "bestmove=move pv nodes=counts.nodes seconds stop_reason counts known"),
            **picked(self, "nodes_alone=alone nodes_saved"),
            "entries": {"in_memory": self.entries, **self.report.as_dict()},
            **picked(self, "graph_nodes iterations"),
        }
