"""Positions for the benchmarks, from files with an engine's evaluations."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import chess

from graphsearch.evaluators.uci.evaluator import Score, policy_q

DECIDED = 0.9  # |win - loss| from which a position counts as decided
MOST_CENTIPAWNS = 2000  # of a judged move; a game beyond that is won


@dataclass(frozen=True, slots=True)
class Case:
    """A position, with the moves that led to it, and an engine's evaluation if there is one.

    Attributes:
      best: best moves (UCI). worth: Q of the position after each move, seen by the side to move.
      wdl: of the position. centipawns: of each move, seen by the side to move.
    """

    board: chess.Board
    best: tuple[str, ...] = ()
    worth: Mapping[str, float] = field(default_factory=dict)
    wdl: tuple[float, ...] | None = None
    centipawns: Mapping[str, int] = field(default_factory=dict)

    @property
    def q(self) -> float | None:
        """Q of the position."""
        return self.wdl[0] - self.wdl[2] if self.wdl else None

    def scored(self, scores: Mapping[str, Mapping[str, int]]) -> Case:
        """Returns the position with an engine's scores of moves: `{UCI: {"cp": N} or {"mate": N}}`."""
        worth = {move: policy_q(Score(one.get("cp", 0), one.get("mate"))) for move, one in scores.items()}
        centipawns = {move: centipawns_of(one) for move, one in scores.items()}
        return replace(self, worth=worth, centipawns=centipawns)

    def regret(self, move: str) -> float | None:
        """Returns the Q that a move gives away; None without an engine's evaluation."""
        return max(0.0, max(self.worth.values()) - self.worth[move]) if self.worth else None

    def lost(self, move: str) -> int | None:
        """Returns the centipawns that a move gives away; None without an engine's evaluation."""
        return max(self.centipawns.values()) - self.centipawns[move] if self.centipawns else None


# ------------------------------------------------------------------ files
def lines(path: Path) -> list[str]:
    """Returns the nonempty lines of a text file, gzip'ed or not."""
    data = path.read_bytes()
    text = (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode()
    return [line for line in text.splitlines() if line.strip()]


def read_reference(path: Path, kind: str = "") -> list[Case]:
    """Returns the positions of JSON lines with `fen` and `bestmove`.

    `moves_depth10`, `{UCI: {"cp": N} or {"mate": N}}`, gives the value of each move (Q by lichess's formula),
    `wdl` (per mille, side to move) the value of the position.

    Args:
      kind: `open` or `decided`, by `wdl`.
    """
    rows = [json.loads(line) for line in lines(path)]
    chosen = (row for row in rows if kind in ("", _kind_of(row.get("wdl"))))
    return [_case(row) for row in chosen]


def _kind_of(wdl: Sequence[int] | None) -> str:
    if wdl is None:
        return "unjudged"
    return "decided" if abs(wdl[0] - wdl[2]) >= 1000 * DECIDED else "open"


def _case(row: dict[str, Any]) -> Case:
    wdl = row.get("wdl")
    case = Case(
        chess.Board(row["fen"]),
        (row["bestmove"],),
        wdl=tuple(share / 1000 for share in wdl) if wdl else None,
    )
    return case.scored(row.get("moves_depth10", {}))


def centipawns_of(score: Mapping[str, int]) -> int:
    """Returns the centipawns of a score, limited to `MOST_CENTIPAWNS` either way; a mate counts as the limit.

    >>> centipawns_of({"cp": -35}), centipawns_of({"cp": 5000}), centipawns_of({"mate": -2})
    (-35, 2000, -2000)
    """
    cp = MOST_CENTIPAWNS * (1 if score["mate"] > 0 else -1) if "mate" in score else score["cp"]
    return max(-MOST_CENTIPAWNS, min(MOST_CENTIPAWNS, cp))
