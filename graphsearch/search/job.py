"""A search as one record, whoever wants it, and the caller's means to watch and steer searches."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import chess

from ..base.errors import InvalidPositionError
from ..position.board import check_type, fen_of, settled
from ..position.notation import read_uci
from .params import Limits, SearchParams

if TYPE_CHECKING:
    from .mates import MateFinder
    from .results import Progress

OnProgress = Callable[["Progress"], None]
BatchLimit = Callable[[int, float], int]
Finding = Callable[["Limits"], "MateFinder"]


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
      board, limits, params, hurry, lines, run: as the arguments of `loop.analyze`; `board` is the root.
      searchmoves: moves that it may take at the root; empty: all, or the best ones if tablebases
        know them.
      lists: whether the file lists the root, and its value after the search.
      mates: returns what looks for mates beside a search with some limits; None: nothing does. It must be
        picklable for a search on a worker.
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
        """
        check_type(self.board)
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
    """A caller's means to watch and steer searches.

    Attributes:
      on_progress, interval, stop, pace: as the arguments of `loop.analyze`.
      on_slice: called after each slice of waves, about every 30 ms, and while the file is read; it may read
        the graph.
    """

    on_progress: OnProgress | None = None
    interval: float = 0.5
    stop: threading.Event = field(default_factory=threading.Event)
    pace: BatchLimit | None = None
    on_slice: Callable[[], None] = nothing
