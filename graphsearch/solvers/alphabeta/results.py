"""Results of a fixed-depth search. Pure, without Numba."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import chess


@dataclass(frozen=True, slots=True)
class Counts:
    """Counts of a fixed-depth search.

    Attributes:
      nodes: positions entered, quiescence included; the root counts.
      interior: those searched with depth left. leaves: those where none was left.
      quiescence: those below leaves.
      hits: entries found in the table. stored_hits: those that the file already held when this run began.
      hit_cutoffs: nodes that an entry ended. cutoffs: nodes that a move's value >= beta ended.
      first_cutoffs: those ended by the first move. researches: null windows that failed and were searched
        again. proofs: nodes that a proven result of the graph ended. ordered: nodes whose moves the graph's
        N and P ordered. path_draws: repetitions on the path and clocks of 100.
      pv, cut, all: interior nodes by the type that was expected of them.
      static: static evaluations. cached: leaves whose value the leaf cache held.
      expanded: nodes whose moves were generated. moves: legal moves of those; their ratio is the branching
        factor.
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
class DepthResult:
    """One iteration: a position searched to one depth with one window.

    Attributes:
      depth: plies of full width. alpha, beta: the window, thousandths of a pawn for the side to move.
      value: fail-soft, thousandths of a pawn for the side to move; MATE - n mates in n plies.
      bound: `exact`, `lower` (value >= beta) or `upper` (value <= alpha).
      move: best move; None if the game is over, or none is known.
      pv: the principal variation, legal, `move` first; may be shorter than the depth.
      counts: of this iteration. seconds: it took. complete: False if it was stopped; then `value`, `bound`,
        `move` and `pv` are those of the moves that were finished.
    """

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

    def as_dict(self) -> dict[str, Any]:
        """Returns the iteration as a JSON object."""
        return {
            "depth": self.depth,
            "window": [self.alpha, self.beta],
            "value": self.value,
            "bound": self.bound,
            "move": self.move.uci() if self.move else None,
            "pv": [move.uci() for move in self.pv],
            "seconds": self.seconds,
            "complete": self.complete,
            "counts": asdict(self.counts),
        }
