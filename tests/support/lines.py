"""An evaluator whose answers depend on how a position was reached."""

from __future__ import annotations

import hashlib

import chess
import numpy as np
from numpy.typing import NDArray

from graphsearch.evaluators.protocol import Evaluation, Evaluator, Lines, PositionBatch
from graphsearch.position.board import key_of_words, unpack
from graphsearch.store.provenance import EvaluatorIdentity

from .reference import HashEvaluator


class LineEvaluator(Evaluator):
    """P as `HashEvaluator` gives them; V is a hash of the line.

    Attributes:
      lines: of every position that it was asked about, by key.
    """

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
