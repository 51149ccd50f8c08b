"""Answers from a dict, for toy graphs and proofs."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from graphsearch.base.errors import EvaluatorError
from graphsearch.evaluators.protocol import Evaluation, Evaluator, PositionBatch
from graphsearch.store.provenance import EvaluatorIdentity


class TableEntry(NamedTuple):
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
        self._entries = entries
        self._default = default
        self.asked: list[str] = []
        text = repr((sorted(entries.items()), default))
        self.identity = EvaluatorIdentity("table", hashlib.sha256(text.encode()).hexdigest())

    def evaluate(self, batch: PositionBatch) -> Evaluation:
        """Returns the entries of all positions.

        Raises:
          EvaluatorError: for a position without an entry, if there is no default.
        """
        wdl, priors = [], []
        for board, moves in batch.boards():
            self.asked.append(board.epd())
            entry = self._entries.get(board.epd(), self._default)
            if entry is None:
                raise EvaluatorError(f"the table has no entry for {board.epd()}")
            wdl.append(entry.wdl)
            named = [entry.priors.get(move.uci()) for move in moves]
            rest = max(0.0, 1.0 - sum(p for p in named if p is not None))
            priors += [rest / named.count(None) if p is None else p for p in named]
        return Evaluation(np.array(wdl, np.float32).reshape(-1, 3), np.array(priors, np.float32))
