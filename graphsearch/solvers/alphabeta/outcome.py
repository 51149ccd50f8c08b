"""The result of a fixed-depth search, iteration by iteration, and the facts it took from a file."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import chess

from ...graph.kept_transpositions import EntryReport
from ...position.board import fen_of, key_text
from ...position.scores import centipawns, mate_moves
from .results import Counts, DepthResult


@dataclass(frozen=True, slots=True)
class KnownDepth:
    """Facts that the file held about the root when the search began.

    Attributes:
      depth: plies; 0: nothing usable. nodes, seconds: cost of the iterations up to it, as far as the file has
      them on record.
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
    """A search of one position to a depth.

    Attributes:
      board: the position. asked: requested depth. window: of the last iteration, thousandths.
      depth: completed plies; 0: none, then `value` is that of the moves finished so far, if any.
      value: thousandths of a pawn for the side to move, MATE - n mates in n plies; None if nothing is known.
      bound: `exact`, `lower` (at least), `upper` (at most), empty if nothing is known.
      move: best move; None if the game is over or none is known. pv: legal, `move` first.
      iterations: those of this run, the one that was stopped included. counts: of all of them.
      known: facts from the file. report: outcome of loading the file's entries.
      entries: in memory at the end. graph_nodes: positions of the graph that could order moves.
      stop_reason: `depth`, `known` (the file had the answer), `mate` (deeper searches find the same), `time`,
        `nodes`, `stop`, `reader`, `finished` (the game is over).
      alone: nodes of the same search without file and graph; None if it was not made.
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
        """Nodes that the search without file and graph takes more than this one; None if it was not made."""
        return None if self.alone is None else self.alone - self.counts.nodes

    def as_dict(self) -> dict[str, Any]:
        """Returns the result as JSON takes it."""
        counts = self.counts
        return {
            "position": fen_of(self.board),
            "key": key_text(self.board),
            "store": self.store,
            "asked": self.asked,
            "depth": self.depth,
            "window": list(self.window),
            "value": self.value,
            "cp": None if self.value is None else centipawns(self.value),
            "mate": None if self.value is None else mate_moves(self.value),
            "bound": self.bound or None,
            "bestmove": self.move.uci() if self.move else None,
            "pv": [move.uci() for move in self.pv],
            "nodes": counts.nodes,
            "seconds": self.seconds,
            "stop_reason": self.stop_reason,
            "counts": asdict(counts),
            "known": asdict(self.known),
            "nodes_alone": self.alone,
            "nodes_saved": self.nodes_saved,
            "entries": {"in_memory": self.entries, **self.report.as_dict()},
            "graph_nodes": self.graph_nodes,
            "iterations": [iteration.as_dict() for iteration in self.iterations],
        }
