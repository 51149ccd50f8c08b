"""A search's counts, its progress while it runs, and its result at the end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import chess

from ..base.answer import Answer
from ..graph.view import NodeView
from ..position.board import fen_of, key_text
from ..position.openings import Opening, opening_of
from ..position.values import cp_of

Viewer = Callable[[int | None], NodeView]


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """The additions of a search to its graph.

    Attributes:
      visits: completed at the root. evaluations: paid for.
      catch_ups, collisions: as in `SearchResult`. unkept: visits that the file does not keep.
      plies, seldepth: of the visits that ended here, the total and the longest.
      saved: records written. read_back: records read.
    """

    visits: int = 0
    evaluations: int = 0
    catch_ups: int = 0
    collisions: int = 0
    unkept: int = 0
    plies: int = 0
    seldepth: int = 0
    saved: int = 0
    read_back: int = 0

    @property
    def depth(self) -> int:
        """The mean length of a visit, in plies."""
        return round(self.plies / self.visits) if self.visits else 0


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
      loaded: records of the file read into memory so far, and their total; None if nothing is being loaded.
      viewer: returns the root as `node` does.
    """

    seconds: float
    visits: int
    new_visits: int
    evaluations: int
    catch_ups: int = 0
    collisions: int = 0
    nodes: int
    stored: bool = False
    resident: int
    ram_bytes: int = 0
    read_back: int = 0
    written: int = 0
    depth: int
    seldepth: int
    viewer: Viewer
    loaded: tuple[int, int] | None = None

    @property
    def visits_per_s(self) -> float:
        """Visits per second."""
        return self.new_visits / self.seconds if self.seconds else 0.0

    @property
    def evaluations_per_s(self) -> float:
        """Evaluations per second."""
        return self.evaluations / self.seconds if self.seconds else 0.0

    def node(self, multipv: int | None = None) -> NodeView:
        """Returns the root's present state, with a line for the best `multipv` moves (None: for all)."""
        return self.viewer(multipv)


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
class SearchResult(Answer):
    """The result of a search, and its additions to the graph.

    Attributes:
      position: FEN of the root.
      key: key of the root, as in the tables.
      store: path of the file; None if the graph is in memory only.
      opening: the last named opening in the game up to the root, or None.
      visits: root N now.
      new_visits: visits that this search added.
      evaluations: evaluations that this search paid for.
      catch_ups: visits that needed no evaluation because the child already had more visits.
      collisions: visits that met a leaf in flight.
      depth: mean length of a visit, in plies.
      seldepth: longest visit, in plies.
      seconds: wall time, saving included.
      bestmove: the shortest proven win, else the leading move (`store.record.leading`), or a draw by a third
        occurrence in the game if no other move is clearly better; None if the game is over.
      node: the root with all its moves. q, cp, wdl: its value, seen by the side to move; cp in centipawns.
      evaluator: description of the evaluator. parameters: search parameters by name.
      tablebase: answer of tablebases that know the root; None without one.
      nodes: positions in the graph.
      saved_nodes: records written.
      stop_reason: why the search stopped: `visits`, `evaluations`, `time`, `stop`, `memory`, `reader`
        (another program keeps the file's log from being reused), `proven` (the result, and a move that leads
        to it), `tablebase` (tablebases know the best moves), `exhausted` (hardly any position is left to
        evaluate) or `finished` (the game is over).
      unkept_visits: visits that ended in a draw by repetition in this game; they are not kept in the file.
      read_back: records read from the file.
      problems: damage in the file that was skipped.
    """

    json_keys = (
        "position key store opening visits new_visits evaluations catch_ups collisions depth seldepth seconds"
        " bestmove q cp wdl evaluator parameters tablebase moves=node.moves"
    )

    position: str
    key: str
    store: str | None
    opening: Opening | None
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
    evaluator: str
    parameters: dict[str, Any]
    tablebase: TableLine | None
    nodes: int
    saved_nodes: int
    stop_reason: str
    unkept_visits: int
    read_back: int
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
        return self.node.wdl.as_list()

    @classmethod
    def of(cls, board: chess.Board, node: NodeView, counts: Counts, **others: Any) -> SearchResult:
        """Returns a result with these counts; `others`: the remaining attributes."""
        return cls(
            position=fen_of(board),
            key=key_text(board),
            opening=opening_of(board),
            visits=node.visits,
            new_visits=counts.visits,
            evaluations=counts.evaluations,
            catch_ups=counts.catch_ups,
            collisions=counts.collisions,
            depth=counts.depth,
            seldepth=counts.seldepth,
            bestmove=node.moves[0].move if node.moves else None,
            node=node,
            saved_nodes=counts.saved,
            unkept_visits=counts.unkept,
            read_back=counts.read_back,
            **others,
        )
