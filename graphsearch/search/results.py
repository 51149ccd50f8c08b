"""A search's progress while it runs, and its result at the end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import chess

from ..graph.view import NodeView

Viewer = Callable[[int | None], NodeView]


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The progress of a search: its additions, and the graph's present state.

    Attributes:
      seconds: wall time since the search began.
      visits: root N now.
      new_visits: visits that this search added.
      evaluations: evaluations that this search paid for.
      catch_ups: visits that needed no evaluation because the child already had more visits.
      collisions: visits that met a leaf in flight.
      nodes: positions in the graph now.
      stored: whether the graph has a file.
      resident: nodes in memory; the others are in the file.
      ram_bytes: memory of these nodes.
      read_back: records read from the file.
      written: records saved to the file.
      depth: mean length of a visit, in plies.
      seldepth: longest visit, in plies.
      visits_per_s: visits per second.
      evaluations_per_s: evaluations per second.
      loaded: records of the file read into memory so far, and all of them; None if no loading is under way.
      viewer: returns the root as `node` does.
    """

    seconds: float
    visits: int
    new_visits: int
    evaluations: int
    catch_ups: int
    collisions: int
    nodes: int
    stored: bool
    resident: int
    ram_bytes: int
    read_back: int
    written: int
    depth: int
    seldepth: int
    visits_per_s: float
    evaluations_per_s: float
    viewer: Viewer
    loaded: tuple[int, int] | None = None

    def node(self, multipv: int | None = None) -> NodeView:
        """Returns the root's present state, with a line for the best `multipv` moves (None: for all)."""
        return self.viewer(multipv)


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """The result of a search, and its additions to the graph.

    Attributes:
      position: FEN of the root.
      key: of the root, as the tables have it.
      store: path of the file; None if the graph is in memory only.
      visits: root N now.
      new_visits: visits that this search added.
      evaluations: evaluations that this search paid for.
      catch_ups: visits that needed no evaluation because the child already had more visits.
      collisions: visits that met a leaf in flight.
      depth: mean length of a visit, in plies.
      seldepth: longest visit, in plies.
      seconds: wall time, saving included.
      bestmove: the shortest proven win, else the most visited move; None if the game is over.
      node: the root with all its moves.
      nodes: positions in the graph.
      saved_nodes: records written.
      stop_reason: why the search stopped: `visits`, `evaluations`, `time`, `stop`, `memory`, `reader`
        (another program keeps the file's log from being reused), `proven` (the result, and a move that leads
        to it), `exhausted` (no position is left to evaluate) or `finished` (the game is over).
      unkept_visits: visits that ended in a draw by repetition in this game; they are not kept in the file.
      read_back: records read from the file.
      problems: damage in the file that was skipped.
    """

    position: str
    key: str
    store: str | None
    visits: int
    new_visits: int
    evaluations: int
    catch_ups: int
    collisions: int
    depth: int
    seldepth: int
    seconds: float
    bestmove: chess.Move | None
    node: NodeView
    nodes: int
    saved_nodes: int
    stop_reason: str
    unkept_visits: int
    read_back: int
    problems: list[str]

    def as_dict(self) -> dict[str, Any]:
        """Returns the JSON object of `graphsearch analyze`."""
        return {
            "position": self.position,
            "key": self.key,
            "store": self.store,
            "visits": self.visits,
            "new_visits": self.new_visits,
            "evaluations": self.evaluations,
            "catch_ups": self.catch_ups,
            "collisions": self.collisions,
            "depth": self.depth,
            "seldepth": self.seldepth,
            "seconds": self.seconds,
            "bestmove": self.bestmove.uci() if self.bestmove else None,
            "moves": [move.as_dict() for move in self.node.moves],
        }
