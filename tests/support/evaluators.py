"""Evaluators that answer from a dict, for toy graphs and proofs, or by how a position was reached."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import NamedTuple

import chess
import numpy as np
from numpy.typing import NDArray

from graphsearch.base.errors import EvaluatorError
from graphsearch.evaluators.protocol import Evaluation, Evaluator, Lines, PositionBatch
from graphsearch.position.board import key_of_words, unpack
from graphsearch.store.provenance import EvaluatorIdentity

from .reference import HashEvaluator


class TableEntry(NamedTuple):
    """WDL for the side to move, and P by move (UCI); moves left out share the rest."""

    wdl: tuple[float, float, float]
    priors: Mapping[str, float]


class TableEvaluator(Evaluator):
    """Looks positions up by their EPD, else answers `default`; `asked` lists those EPDs in order."""

    def __init__(self, entries: Mapping[str, TableEntry], default: TableEntry | None = None) -> None:
        self._entries = entries
        self._default = default
        self.asked: list[str] = []
        text = repr((sorted(entries.items()), default))
        self.identity = EvaluatorIdentity("table", hashlib.sha256(text.encode()).hexdigest())

    def evaluate(self, batch: PositionBatch) -> Evaluation:
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


class LineEvaluator(Evaluator):
    """P as `HashEvaluator` gives them, V a hash of the line; `lines` has those that it got, by key."""

    identity = EvaluatorIdentity("line")
    wants_lines = True

    def __init__(self) -> None:
        self.lines: dict[int, Lines] = {}

    def evaluate(self, batch: PositionBatch) -> Evaluation:
        assert batch.lines is not None
        for row, words in enumerate(batch.words):
            assert key_of_words(words) not in self.lines, "asked twice"
            self.lines[key_of_words(words)] = batch.lines.of(slice(row, row + 1))
        wdl = np.array([_value(lines) for lines in map(batch.lines.of, range(len(batch)))], np.float32)
        return Evaluation(wdl.reshape(-1, 3), HashEvaluator().evaluate(batch).priors)


def _value(lines: Lines) -> NDArray[np.float64]:
    digest = hashlib.sha256(lines.words.tobytes() + lines.repeated.tobytes()).digest()
    raw = 1.0 + np.frombuffer(digest[:3], np.uint8)
    return np.asarray(raw / raw.sum())


def boards_of(lines: Lines) -> list[chess.Board]:
    """Returns the positions of one line, the first one first."""
    return [unpack(words.tolist()) for words in lines.words[0][::-1] if words.any()]
