"""Answers from a dict, for toy graphs and proofs."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import chess
import numpy as np

from graphsearch.base.errors import EvaluatorError
from graphsearch.evaluators.protocol import Evaluation, Evaluator, PositionBatch
from graphsearch.store.provenance import EvaluatorIdentity


@dataclass(frozen=True, slots=True)
class TableEntry:
    """The answer to one position: WDL for the side to move, and P by move (UCI).

    Moves left out share the rest.
    """

    wdl: tuple[float, float, float]
    priors: Mapping[str, float]


class TableEvaluator(Evaluator):
    """Looks positions up by their EPD (FEN without clocks); `default` answers for all others.

    `asked` lists the EPD of every position in the order of evaluation.
    """

    def __init__(self, entries: Mapping[str, TableEntry], default: TableEntry | None = None) -> None:
        self._entries = dict(entries)
        self._default = default
        self.asked: list[str] = []
        text = repr(
            (
                sorted((epd, entry.wdl, sorted(entry.priors.items())) for epd, entry in entries.items()),
                default,
            )
        )
        self.identity = EvaluatorIdentity("table", hashlib.sha256(text.encode()).hexdigest())

    def evaluate(self, batch: PositionBatch) -> Evaluation:
        """Returns the entries of all positions.

        Raises:
          EvaluatorError: for a position without an entry, if there is no default.
        """
        wdl, priors = [], []
        for board, moves in batch.boards():
            entry = self._entry(board)
            wdl.append(entry.wdl)
            priors += _priors(entry, moves)
        return Evaluation(np.array(wdl, np.float32).reshape(-1, 3), np.array(priors, np.float32))

    def _entry(self, board: chess.Board) -> TableEntry:
        epd = board.epd()
        self.asked.append(epd)
        entry = self._entries.get(epd, self._default)
        if entry is None:
            raise EvaluatorError(f"the table has no entry for {epd}")
        return entry


def _priors(entry: TableEntry, moves: list[chess.Move]) -> list[float]:
    named = {move.uci(): entry.priors.get(move.uci()) for move in moves}
    rest = max(0.0, 1.0 - sum(p for p in named.values() if p is not None))
    unnamed = sum(p is None for p in named.values())
    return [rest / unnamed if p is None else p for p in named.values()]
