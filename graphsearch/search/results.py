"""What a search says: how far it is while it runs, and what it found in the end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import chess

from ..graph.view import NodeView

Viewer = Callable[[int | None], NodeView]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a search is: what it added, and by `visits` (root N) and `nodes` what the graph holds now.

    With a file (`stored`), `resident` nodes are in memory, which take `ram_bytes`; `read_back` records were
    read from the file, `written` ones saved to it.
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

    def node(self, multipv: int | None = None) -> NodeView:
        """Returns the root as it is now, with lines for the best `multipv` moves (None: all)."""
        return self.viewer(multipv)


@dataclass(frozen=True, slots=True)
class SearchResult:
    """What a search found and added.

    Attributes:
      position: FEN. key: the graph's key. store: the file, None for memory only.
      visits: root N now. new_visits, evaluations, catch_ups, collisions: what this search added.
      depth: mean plies of a visit. seldepth: most plies. seconds: wall time, saving included.
      bestmove: the shortest proven win, else the most visited move; None if the game is over.
      node: the root with all its moves. nodes: positions in the graph. saved_nodes: records written.
      stop_reason: `visits`, `evaluations`, `time`, `stop`, `memory`, `reader` (another program keeps
        the file's log from being reused), `proven` (the result, and a move that leads to it), `exhausted`
        (every position that it goes to is known) or `finished` (no moves).
      unkept_visits: visits that ended in a draw by this game's repetitions: counted here, not in the file.
      read_back: records read from the file. problems: what was found damaged in it and passed over.
    """

    position: str
    key: int
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
            "key": f"{self.key:016x}",
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
