"""Divides the time of one search among several roots, in turns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import chess

from ..position.board import fen_of
from .job import SearchJob
from .params import Limits, SearchParams

ROUND_SECONDS = 30.0  # of a round, in which each root has one turn
LEAST_SECONDS = 3.0  # of a turn: each begins a run in the file
UNFINISHED = {"time", "stop"}  # reasons after which a root has another turn


@dataclass(frozen=True, slots=True)
class Root:
    """A position that is searched in turn with others.

    Attributes:
      board: the position, with the game before it. title: its name for people.
      share: of the time, in proportion to the others. searchmoves: in UCI; empty: all moves.
    """

    board: chess.Board
    title: str
    share: float = 1.0
    searchmoves: tuple[str, ...] = ()


class Turns:
    """The roots, the seconds that each has had, and the roots that need no more search."""

    def __init__(self, roots: Sequence[Root], *, round_seconds: float = ROUND_SECONDS) -> None:
        """Begins with these roots; in `round_seconds` each has one turn."""
        self._roots = tuple(roots)
        self._round = round_seconds
        self._had: dict[str, float] = {}  # seconds divided by the share, by position and moves
        self._ended: dict[str, str] = {}  # why it needs no more search

    def replace(self, roots: Sequence[Root]) -> None:
        """Replaces the roots; a new root begins level with the root that has had the least time."""
        level = min((self._had.get(_key(root), 0.0) for root in self._roots), default=0.0)
        known = {_key(root) for root in self._roots}
        self._roots = tuple(roots)
        kept = {_key(root): self._had.get(_key(root), level) for root in roots}
        self._had = {key: had if key in known else level for key, had in kept.items()}
        self._ended = {}  # a search that has nothing to do ends at once

    def next(self) -> Root | None:
        """Returns the root with the least time for its share; None if none needs more search."""
        open_ = [root for root in self._roots if _key(root) not in self._ended]
        return min(open_, key=lambda root: self._had.get(_key(root), 0.0), default=None)

    def seconds(self, root: Root) -> float | None:
        """Returns the length of a root's turn in seconds; None if no other root needs more search."""
        open_ = [one for one in self._roots if _key(one) not in self._ended]
        if len(open_) < 2:
            return None
        least = min(LEAST_SECONDS, self._round / len(open_))
        return max(least, self._round * root.share / sum(one.share for one in open_))

    def job(self, root: Root, params: SearchParams, limits: Limits | None = None) -> SearchJob:
        """Returns the job for a root's turn; `limits`: the remaining limits of all roots together."""
        left = limits or Limits()
        times = [seconds for seconds in (self.seconds(root), left.seconds) if seconds is not None]
        return SearchJob(
            board=root.board,
            limits=Limits(seconds=min(times, default=None), evaluations=left.evaluations),
            params=params,
            searchmoves=tuple(chess.Move.from_uci(move) for move in root.searchmoves),
            hurry=True,
            lines=0,
        )

    def had(self, root: Root) -> float:
        """Returns the seconds that a root has had."""
        return self._had.get(_key(root), 0.0) * root.share

    def ended(self, root: Root) -> str:
        """Returns why a root needs no more search; empty if it does."""
        return self._ended.get(_key(root), "")

    def count(self, root: Root, seconds: float, reason: str) -> None:
        """Adds the seconds of a root's search, and stores why it ended."""
        key = _key(root)
        self._had[key] = self._had.get(key, 0.0) + seconds / root.share
        if reason not in UNFINISHED:
            self._ended[key] = reason

    def as_list(self) -> list[dict[str, Any]]:
        """Returns the roots for the page."""
        return [
            {
                "title": root.title,
                "position": fen_of(root.board),
                "share": root.share,
                "seconds": round(self.had(root), 1),
                "ended": self.ended(root),
            }
            for root in self._roots
        ]


def _key(root: Root) -> str:
    played = " ".join(move.uci() for move in root.board.move_stack)
    return f"{fen_of(root.board.root())} {played} {root.searchmoves}"
