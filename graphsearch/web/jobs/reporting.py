"""Reports a running search to the server: its counters, and the nodes that pages show."""

from __future__ import annotations

import time
from collections.abc import Iterator
from math import inf
from typing import TYPE_CHECKING, Any

from ...base.answer import picked
from ...position.board import board_of

if TYPE_CHECKING:
    from ...graph.view import NodeView, Reader
    from ...search.results import Progress
    from .tasks import Requests, SendProgress

UPDATE_SECONDS = 0.2  # least time between two progress reports
LONGEST_SECONDS = 0.6  # most time between two updates of the numbers, plus the wait for the next progress
COUNTERS = (
    "seconds visits new_visits evaluations catch_ups collisions nodes resident ram_bytes read_back written"
    " depth seldepth visits_per_s evaluations_per_s"
)
SHARE = 0.005  # of a search's time spent on reports


class Reports:
    """The reports of one task.

    Attributes:
      facts: of the task itself; they are part of every report.
    """

    def __init__(self, read: Reader, requests: Requests, send: SendProgress) -> None:
        """Prepares reports; `read` reads positions."""
        self.facts: dict[str, Any] = {}
        self._read, self._requests, self._send = read, requests, send
        self._numbers = _Share(SHARE, UPDATE_SECONDS, LONGEST_SECONDS)
        self._watched_before: tuple[str, ...] = ()

    def show(self, now: Progress) -> None:
        """Reports a search's state, unless it was reported just now."""
        watched = self._requests.watched
        if not self._numbers.is_due() and watched == self._watched_before:
            return
        self._watched_before = watched
        with self._numbers:
            root = now.node(0)
            nodes = [_node(root), *(_node(each) for each in self._watched(root.position))]
            report = {"counters": picked(now, COUNTERS), "reading": now.loaded, "nodes": nodes}
        self._send(self.facts | {"stage": "searching"} | report)

    def _watched(self, root: str) -> Iterator[NodeView]:
        """Yields the watched positions in the graph, except the root."""
        from ...graph.view import view

        for fen in self._requests.watched:
            node = None if fen == root else view(self._read, board_of(fen), lines=0)
            if node is not None:
                yield node


class _Share:
    """A context that limits its body to a share of the time, by a pause until the next run."""

    def __init__(self, share: float, least: float, most: float = inf) -> None:
        """Sets the share, and the least and most seconds between two runs."""
        self._share = share
        self._least, self._most = least, most
        self._next = self._began = self._used = 0.0

    def is_due(self) -> bool:
        return time.monotonic() >= self._next

    def __enter__(self) -> None:
        self._began, self._used = time.monotonic(), time.thread_time()

    def __exit__(self, *_: object) -> None:
        used = time.thread_time() - self._used
        self._next = self._began + max(self._least, min(self._most, used / self._share))


def _node(node: NodeView) -> dict[str, Any]:
    """Returns a node for the page, without lines of its moves."""
    found = node.as_dict()
    for move in found["moves"]:
        del move["pv"]
    return found | {"mate": node.mate}
