"""What an evaluator says about positions, without any search."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import chess

from ..position.board import CHECKMATE, NOT_TERMINAL, check, fen_of, terminal_kind
from ..position.values import WDL, cp_of
from .protocol import Evaluator, PositionBatch, checked

ASSESS_BATCH = 256


@dataclass(frozen=True, slots=True)
class Assessment:
    """What an evaluator says about one position, seen by its side to move.

    Attributes:
      position: FEN.
      wdl, q, cp: the value V; cp by the score type that is shown.
      priors: P by move (UCI), largest first; empty for a finished game.
      terminal: `position.CHECKMATE`, `STALEMATE`, `DEAD` or `NOT_TERMINAL`; if the game is over by rule,
        the value is exact and no evaluator was asked.
    """

    position: str
    wdl: WDL
    q: float
    cp: int
    priors: dict[str, float]
    terminal: int

    def as_dict(self) -> dict[str, Any]:
        """Returns the JSON object of `graphsearch evaluate`."""
        return {
            "position": self.position,
            "wdl": self.wdl.as_list(),
            "q": self.q,
            "cp": self.cp,
            "priors": self.priors,
        }


def assess(evaluator: Evaluator, boards: Sequence[chess.Board]) -> Iterator[Assessment]:
    """Yields what an evaluator says about each position, in order.

    Raises:
      InvalidPositionError: for a position that is not legal, before any is evaluated.
      EvaluatorError: if the evaluator fails.
    """
    for board in boards:
        check(board)
    for begin in range(0, len(boards), ASSESS_BATCH):
        yield from _assess_some(evaluator, boards[begin : begin + ASSESS_BATCH])


def _assess_some(evaluator: Evaluator, boards: Sequence[chess.Board]) -> Iterator[Assessment]:
    kinds = [terminal_kind(board) for board in boards]
    batch = PositionBatch.from_boards(
        [b for b, kind in zip(boards, kinds, strict=True) if kind == NOT_TERMINAL],
        with_lines=evaluator.wants_lines,
    )
    found = checked(batch, evaluator.evaluate(batch)) if len(batch) else None
    rows = iter(zip(range(len(batch)), batch.boards(), strict=True))
    for board, kind in zip(boards, kinds, strict=True):
        if kind != NOT_TERMINAL or found is None:
            yield _exact(board, kind)
            continue
        row, (_, moves) = next(rows)
        p = found.priors[batch.offsets[row] : batch.offsets[row + 1]]
        pairs = sorted(zip((m.uci() for m in moves), p.tolist(), strict=True), key=lambda pair: -pair[1])
        wdl = WDL(*found.wdl[row].tolist())
        yield Assessment(
            position=fen_of(board),
            wdl=wdl,
            q=wdl.q,
            cp=cp_of(wdl.q, wdl.draw),
            priors=dict(pairs),
            terminal=kind,
        )


def _exact(board: chess.Board, kind: int) -> Assessment:
    wdl = WDL(0.0, 0.0, 1.0) if kind == CHECKMATE else WDL(0.0, 1.0, 0.0)
    return Assessment(
        position=fen_of(board), wdl=wdl, q=wdl.q, cp=cp_of(wdl.q, wdl.draw), priors={}, terminal=kind
    )
