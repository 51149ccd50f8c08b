"""What a root was worth at every save, over all runs of a file. Reads only."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import chess

from ..position.board import check, fen_of, key_of
from ..position.values import cp_of
from ..record.provenance import RunInfo
from ..store.tables import history as table
from ..store.tables.history import SavedValues
from .source import last_root, opened


@dataclass(frozen=True, slots=True)
class HistoryPoint:
    """One save of a root; values are seen by the side to move.

    Attributes:
      run: number of the run. kind: `search` or another reason to ask an evaluator; None if the file does not
        list the run any more. evaluator: number of its evaluator, None likewise.
      saved: when, ISO 8601 in UTC.
      n: node N. q, draw: node Q and its draw probability. cp: the same in centipawns.
      best_move, best_san: the best move, None without moves.
    """

    run: int
    kind: str | None
    evaluator: int | None
    saved: str
    n: int
    q: float
    draw: float
    cp: int
    best_move: str | None
    best_san: str | None

    def as_dict(self) -> dict[str, Any]:
        """Returns the point as an object of the list `points`."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


@dataclass(frozen=True, slots=True)
class History:
    """The answer to `history`: the position, and its saves in the order of runs and of N."""

    position: str
    points: tuple[HistoryPoint, ...]

    @property
    def by_run(self) -> tuple[HistoryPoint, ...]:
        """The last point of each run."""
        return tuple({point.run: point for point in self.points}.values())

    def as_dict(self) -> dict[str, Any]:
        """Returns the JSON object of `graphsearch query history`."""
        return {"position": self.position, "points": [point.as_dict() for point in self.points]}


def history(path: str | os.PathLike[str], board: chess.Board | None = None) -> History:
    """Returns Q, N and the best move of a root at every save since the file has format 5.

    Args:
      path: the graph file; it is only read.
      board: the position; None: the root that was searched last.

    Raises:
      InvalidPositionError: if the position is not legal.
      UnknownPositionError: if no position is named, and the file has no root.
      StoreError: if the file cannot be read.
    """
    with opened(path) as source:
        root = board or last_root(source)
        check(root)
        key = f"{key_of(root):016x}"
        saves = [save for part in source.store.parts for save in table.of_root(part, key)]
        runs = {run.id: run for run in source.store.runs()} if saves else {}
    return History(fen_of(root), tuple(_point(root, save, runs.get(save.run)) for save in saves))


def _point(root: chess.Board, save: SavedValues, run: RunInfo | None) -> HistoryPoint:
    values = save.values
    move = chess.Move.from_uci(values.best_move) if values.best_move else None
    return HistoryPoint(
        run=save.run,
        kind=run.kind if run else None,
        evaluator=run.evaluator if run else None,
        saved=save.saved,
        n=values.n,
        q=values.q,
        draw=values.draw,
        cp=cp_of(values.q, values.draw),
        best_move=values.best_move,
        best_san=root.san(move) if move and root.is_legal(move) else None,
    )
