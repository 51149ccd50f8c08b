"""A search's counts, its progress while it runs, and its result at the end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import chess

from ..base.answer import Answer
from ..graph.view import NodeView
from ..position.openings import Opening
from ..position.values import cp_of

Viewer = Callable[..., NodeView]


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """The additions of a search to its graph.

    Attributes:
      new_visits: visits that this search added, completed at the root.
      evaluations: evaluations that this search paid for.
      catch_ups: visits that needed no evaluation because the child already had more visits.
      collisions: visits that met a leaf in flight.
      unkept_visits: visits that ended in a draw by repetition in this game; they are not kept in the file.
      plies, seldepth: of the visits that ended here, the total and the longest.
      saved_nodes: records saved to the file. read_back: records read from it.
      seconds: wall time since the search began; of a result, saving included.
    """

    new_visits: int
    evaluations: int
    catch_ups: int = 0
    collisions: int = 0
    unkept_visits: int = 0
    plies: int = 0
    seldepth: int = 0
    saved_nodes: int = 0
    read_back: int = 0
    seconds: float

    @property
    def depth(self) -> int:
        """Mean length of a visit, in plies."""
        return round(self.plies / self.new_visits) if self.new_visits else 0

    @property
    def visits_per_s(self) -> float:
        """Visits per second."""
        return self.new_visits / self.seconds if self.seconds else 0.0

    @property
    def evaluations_per_s(self) -> float:
        """Evaluations per second."""
        return self.evaluations / self.seconds if self.seconds else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress(Counts):
    """The progress of a search: its additions, and the graph's present state.

    Attributes:
      visits, nodes: root N, and positions in the graph, now.
      stored: whether the graph has a file.
      resident: nodes in memory; the others are in the file.
      ram_bytes: memory of these nodes.
      loaded: records of the file read into memory so far, and their total; None if nothing is being loaded.
      node: returns the root's present state, with a line for the best moves of a number (None: for all).
    """

    visits: int
    nodes: int
    stored: bool = False
    resident: int
    ram_bytes: int = 0
    loaded: tuple[int, int] | None = None
    node: Viewer


@dataclass(frozen=True, slots=True)
class TableLine(Answer):
    """The answer of tablebases to a position.

    Attributes:
      result: 1, 0 or -1 for the side to move, with its clock.
      line: best moves of both sides to a mate, or to the next move that zeroes the clock; one move of a draw.
    """

    result: int
    line: tuple[chess.Move, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult(Answer, Counts):
    """The result of a search, and its additions to the graph.

    Attributes:
      position, key: FEN of the root, and its key as in the tables.
      store: path of the file; None if the graph is in memory only.
      opening: the last named opening in the game up to the root, or None.
      node: the root with all its moves. q, cp, wdl: its value, seen by the side to move; cp in centipawns.
      evaluator: description of the evaluator. parameters: search parameters by name.
      tablebase: answer of tablebases that know the root; None without one.
      nodes: positions in the graph.
      stop_reason: why the search stopped: `visits`, `evaluations`, `time`, `stop`, `memory`, `reader`
        (another program keeps the file's log from being reused), `proven` (the result, and a move that leads
        to it), `tablebase` (tablebases know the best moves), `exhausted` (hardly any position is left to
        evaluate) or `finished` (the game is over).
      problems: damage in the file that was skipped.
    """

    json_keys = (
        "position key store opening nodes visits new_visits evaluations catch_ups collisions depth seldepth"
        " seconds stop_reason bestmove q cp mate=node.mate bounds=node.bounds wdl evaluator parameters"
        " tablebase moves=node.moves"
    )

    position: str
    key: str
    store: str | None
    opening: Opening | None
    node: NodeView
    evaluator: str
    parameters: dict[str, Any]
    tablebase: TableLine | None
    nodes: int
    stop_reason: str
    problems: list[str]

    def __repr__(self) -> str:
        """Returns the position, the best move, the visits and the root's Q."""
        best = self.bestmove.uci() if self.bestmove else "none"
        visits = f"{self.new_visits:,} new visits of {self.visits:,}"
        return f"<SearchResult {self.position}: bestmove {best}, {visits}, Q {self.q:+.3f}>"

    def _repr_html_(self) -> str:
        """Returns the board and the best moves, for a notebook."""
        return self.node._repr_html_()

    @property
    def visits(self) -> int:
        """Root N now."""
        return self.node.visits

    @property
    def bestmove(self) -> chess.Move | None:
        """The best move; None if the game is over.

        It is the shortest proven win, else the leading move (`store.ranking`), or a draw by a third
        occurrence in the game if no other move is clearly better.
        """
        return self.node.moves[0].move if self.node.moves else None

    @property
    def q(self) -> float:
        """The root's Q, in [-1, 1], seen by the side to move."""
        return self.node.q

    @property
    def cp(self) -> int:
        """The root's Q in centipawns."""
        return cp_of(self.node.q)

    @property
    def wdl(self) -> list[float]:
        """The root's win, draw and loss for the side to move."""
        return list(self.node.wdl)
