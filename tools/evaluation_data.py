"""Labelled positions for the evaluator's tools: their moves, and the policy that an engine's scores mean."""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from pathlib import Path

import chess
import numpy as np
from numpy.typing import NDArray

from graphsearch.evaluators.uci.scores import POLICY_SLOPE
from graphsearch.position.board import POSITION_WORDS, pack
from graphsearch.position.rules_kernel import list_all
from graphsearch.position.tables import load_tables
from graphsearch.query.steps import uci_of
from tools.label_positions import MATE_SCORE

F64 = NDArray[np.float64]


@dataclass(frozen=True)
class Positions:
    """Labelled positions: words `[B * 10]`, wdl `[B, 3]` of the side to move, scores of moves where known."""

    words: NDArray[np.uint64]
    wdl: F64
    scores: list[dict[str, int] | None]

    def labelled(self) -> NDArray[np.bool_]:
        """Returns which positions have the scores of their moves."""
        return np.array([scores is not None for scores in self.scores])

    def where(self, mask: NDArray[np.bool_]) -> Positions:
        """Returns some of the positions."""
        scores = [s for s, keep in zip(self.scores, mask, strict=True) if keep]
        return Positions(self.words.reshape(-1, POSITION_WORDS)[mask].ravel(), self.wdl[mask], scores)


def read_reference(path: Path) -> tuple[Positions, list[str]]:
    """Returns the positions of a reference file and the engine's best moves."""
    with gzip.open(path, "rt") as handle:
        rows = [json.loads(line) for line in handle]
    words = np.concatenate([pack(chess.Board(row["fen"])) for row in rows])
    scores: list[dict[str, int] | None] = [
        {move: plain_score(**score) for move, score in row["moves_depth10"].items()} for row in rows
    ]
    wdl = np.array([row["wdl"] for row in rows]) / 1000
    return Positions(words, wdl, scores), [row["bestmove"] for row in rows]


def plain_score(cp: int = 0, mate: int | None = None) -> int:
    """Returns centipawns; a mate in n is +-(32000 - n).

    >>> plain_score(cp=31), plain_score(mate=-2), plain_score(mate=1)
    (31, -31998, 31999)
    """
    if mate is None:
        return cp
    return MATE_SCORE - mate if mate > 0 else -MATE_SCORE - mate


def read_labels(path: Path) -> Positions:
    """Returns the positions of a labels file."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    words = np.concatenate([pack(chess.Board(row["fen"])) for row in rows])
    return Positions(
        words, np.array([row["wdl"] for row in rows]) / 1000, [row.get("scores") for row in rows]
    )


def all_moves(words: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.uint16]]:
    """Returns where each position's legal moves begin, and the moves."""
    n = len(words) // POSITION_WORDS
    offsets, moves = np.zeros(n + 1, np.int64), np.zeros(256 * n, np.uint16)
    list_all(load_tables(), words, offsets, moves, np.zeros(n, np.uint8))
    return offsets, moves[: offsets[-1]]


def sigmoid(x: F64) -> F64:
    """Returns the logistic function."""
    return np.asarray(1 / (1 + np.exp(-np.clip(x, -40, 40))))


def lichess_q(cp: F64) -> F64:
    """Returns Q of engine scores: 2 / (1 + exp(-0.00368208 cp)) - 1, and +-1 for a mate."""
    return np.where(np.abs(cp) > MATE_SCORE - 1000, np.sign(cp), 2 * sigmoid(POLICY_SLOPE * cp) - 1)


def policy_target(scores: dict[str, int], moves: NDArray[np.uint16], temperature: float) -> F64:
    """Returns the softmax of the engine's scores of the moves, as Q over the temperature."""
    q = lichess_q(np.array([scores[uci_of(int(m))] for m in moves], np.float64)) / temperature
    weights = np.exp(q - q.max())
    return np.asarray(weights / weights.sum())
