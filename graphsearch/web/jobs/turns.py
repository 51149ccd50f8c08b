"""Whose turn it is among roots that share the time of one search."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...position.board import fen_of

if TYPE_CHECKING:
    from .tasks import Root

ROUND_SECONDS = 30.0  # in which each root has its turn
LEAST_SECONDS = 3.0  # of a turn: each begins a run of the file
GOES_ON = {"time", "stop"}  # reasons after which a root has another turn


class Turns:
    """The roots, the seconds that each has had, and those that need no more search."""

    def __init__(self, roots: Sequence[Root]) -> None:
        self._roots = tuple(roots)
        self._had: dict[str, float] = {}  # seconds divided by the share, by position and moves
        self._ended: dict[str, str] = {}  # why it needs no more search

    def replace(self, roots: Sequence[Root]) -> None:
        """Takes other roots; one that is new begins level with the one that has had least."""
        level = min((self._had.get(_key(root), 0.0) for root in self._roots), default=0.0)
        known = {_key(root) for root in self._roots}
        self._roots = tuple(roots)
        kept = {_key(root): self._had.get(_key(root), level) for root in roots}
        self._had = {key: had if key in known else level for key, had in kept.items()}
        self._ended = {}  # a search that has nothing to do ends at once

    def next(self) -> Root | None:
        """Returns the root that has had least for its share; None if none needs more search."""
        open_ = [root for root in self._roots if _key(root) not in self._ended]
        return min(open_, key=lambda root: self._had.get(_key(root), 0.0), default=None)

    def seconds(self, root: Root) -> float | None:
        """Returns the length of a root's turn; None without others."""
        open_ = [one for one in self._roots if _key(one) not in self._ended]
        if len(open_) < 2:
            return None
        return max(LEAST_SECONDS, ROUND_SECONDS * root.share / sum(one.share for one in open_))

    def count(self, root: Root, seconds: float, reason: str) -> None:
        """Counts a search of a root, which ended for a reason."""
        key = _key(root)
        self._had[key] = self._had.get(key, 0.0) + seconds / root.share
        if reason not in GOES_ON:
            self._ended[key] = reason

    def as_list(self) -> list[dict[str, Any]]:
        """Returns the roots for the page."""
        return [
            {
                "title": root.title,
                "position": fen_of(root.board),
                "share": root.share,
                "seconds": round(self._had.get(_key(root), 0.0) * root.share, 1),
                "ended": self._ended.get(_key(root), ""),
            }
            for root in self._roots
        ]


def _key(root: Root) -> str:
    played = " ".join(move.uci() for move in root.board.move_stack)
    return f"{fen_of(root.board.root())} {played} {root.searchmoves}"
