"""A search as one record, whoever wants it, and the caller's means to watch and steer searches."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import chess

from ..base.errors import InvalidPositionError
from ..position.board import check_type, fen_of, settled
from ..position.notation import read_uci
from .params import Limits, SearchParams, check_value

if TYPE_CHECKING:
    from ..graph.graph import Graph

OnProgress = Callable[[Any], None]
BatchLimit = Callable[[int, float], int]
Finding = Callable[["Graph", chess.Board, Limits, threading.Event], Any]  # a `solvers.mate.beside.MateFinder`
LEAST_CPU_SHARE = 0.25  # of a core; a thread that uses less waits for others, such as engines
FIRST_SHOWN_SECONDS = 0.1  # after the start of a search, however long the intervals are


def nothing(*_: object) -> None:
    """Does nothing, whatever it is called with."""


def limits_after(limits: Limits, **spent: float) -> Limits | None:
    """Returns the limits that remain after some visits, evaluations or seconds; None if one is reached.

    >>> limits_after(Limits(visits=5, seconds=9.0), visits=2), limits_after(Limits(visits=5), visits=5)
    (Limits(visits=3, evaluations=None, seconds=9.0), None)
    """
    left = {name: value - spent.get(name, 0) for name, value in limits.as_dict().items()}
    return Limits(**left) if min(left.values(), default=1) > 0 else None  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchJob:
    """One search: of `analyze`, for a position of games, sets, books or `watch`, for the page, or for a `go`.

    `loop.search` runs it; `detached.Searches` run many, here or on workers.

    Attributes:
      board, limits, params, searchmoves, hurry, lines, run: as the arguments of `loop.analyze`.
      lists: whether the file lists the root, and its value after the search.
      mates: makes what looks for mates beside the search, from its graph, position, limits and stop; None:
        nothing does. It must be picklable for a search on a worker.
      title: the position's name for people.
      share: of the time of several jobs that are searched in turn, in proportion to the others.
    """

    board: chess.Board
    limits: Limits = field(default_factory=Limits)
    params: SearchParams = field(default_factory=SearchParams)
    searchmoves: tuple[chess.Move, ...] = ()
    run: int | None = None
    lists: bool = True
    hurry: bool = False
    lines: int | None = None
    mates: Finding | None = None
    title: str = ""
    share: float = 1.0

    def __post_init__(self) -> None:
        """Settles the board; castling may be given in either form.

        Raises:
          InvalidPositionError: if the root is not a `chess.Board`, or one of `searchmoves` not legal.
          InvalidParameterError: if limits, parameters or moves are of another class.
        """
        check_type(self.board)
        check_value(isinstance(self.limits, Limits), "limits", self.limits, "of the class Limits")
        check_value(isinstance(self.params, SearchParams), "params", self.params, "of the class SearchParams")
        are_moves = all(isinstance(move, chess.Move) for move in self.searchmoves)
        check_value(are_moves, "searchmoves", self.searchmoves, "of the class chess.Move")
        board = settled(self.board)
        try:
            moves = tuple(read_uci(board, move.uci()) for move in self.searchmoves)
        except ValueError as error:
            raise InvalidPositionError(f"not a legal move: {error}") from None
        if chess.Move.null() in moves:
            raise InvalidPositionError(f"a null move is not a legal move of {fen_of(board)}")
        object.__setattr__(self, "board", board)
        object.__setattr__(self, "searchmoves", moves)


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """A caller's means to watch and steer searches: those of a graph, for mates, and to a depth.

    Attributes:
      on_progress, interval, stop, pace: as the arguments of `loop.analyze`.
      planned: seconds of a search after which the caller will stop it, if any.
      on_slice: called after each slice of waves, about every 30 ms, and while the file is read; it may read
        the graph.
      on_unsaved: called with the error of a save, after which the search goes on in memory; None: it ends.
    """

    on_progress: OnProgress | None = None
    interval: float = 0.5
    stop: threading.Event = field(default_factory=threading.Event)
    pace: BatchLimit | None = None
    planned: float | None = None
    on_slice: Callable[[], None] = nothing
    on_unsaved: Callable[[Exception], None] | None = None


class SearchClock:
    """The time of a running search: which of its limits is reached, and when its progress is due.

    Attributes:
      limits: the search's. started: when it began, monotonic.
    """

    def __init__(self, limits: Limits, control: Control) -> None:
        """Starts the clock."""
        self.limits, self._control = limits, control
        self.started, self._cpu = time.monotonic(), time.thread_time()
        self._told = self.started - control.interval + min(control.interval, FIRST_SHOWN_SECONDS)

    @property
    def seconds(self) -> float:
        """Wall time since the search began."""
        return time.monotonic() - self.started

    @property
    def left(self) -> float:
        """Wall time until its limit, or until the caller will stop it."""
        return min(self.limits.seconds or math.inf, self._control.planned or math.inf) - self.seconds

    def reached(self, ahead: float = 0.0, **spent: int) -> str:
        """Returns the first limit reached, of those in `spent`, `time` or `stop`; empty if none is.

        `ahead`: CPU seconds that the end will take. At this thread's share of a core they belong to the time
        limit, to a quarter of it at most.

        >>> clock = SearchClock(Limits(seconds=1000.0), Control())
        >>> clock.reached(1e9), SearchClock(Limits(visits=1), Control()).reached(visits=1)
        ('', 'visits')
        """
        now, limit = self.seconds, self.limits.seconds or 0.0
        share = max(LEAST_CPU_SHARE, (time.thread_time() - self._cpu) / max(now, 1e-9))
        used = {**spent, "seconds": now + min(ahead / share, limit / 4)}
        names = [name for name, most in self.limits.as_dict().items() if used.get(name, 0) >= most]
        if names:
            return "time" if names[0] == "seconds" else names[0]
        return "stop" if self._control.stop.is_set() else ""

    def tell(self, progress: Callable[[], object]) -> None:
        """Reports the progress if it is due; the interval begins after the report."""
        if self._control.on_progress and time.monotonic() - self._told >= self._control.interval:
            self._control.on_progress(progress())
            self._told = time.monotonic()
