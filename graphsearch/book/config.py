"""The configuration of a book: roots, side, windows, order of expansion, and the search of a leaf."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import chess

from ..evaluators.factory import EvaluatorSpec

Side = Literal["white", "black", "both"]
Policy = Literal["puct", "dropout", "cost"]
Backup = Literal["minimax", "q"]
BOTH: Side = "both"


@dataclass(frozen=True, slots=True)
class Root:
    """A position where the book begins.

    Attributes:
      board: the position; its ply is that of its move number (`chess.Board.ply()`).
      origin: for the user, such as `root 1` or `root 2: games.pgn, game 7`.
    """

    board: chess.Board
    origin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The moves that a book adds at some plies. A move is added if one of the tests admits it.

    Own moves are those of the book's side (of both sides, if it is `both`), replies those of the other.

    Attributes:
      first, last: plies of the positions, inclusive; None: no end. Where windows overlap, the last counts.
      own_cp: own moves that lose at most this many centipawns against the best one.
      own_moves: largest number of these, the best ones; None: all.
      reply_p: replies with at least this prior; None: the test admits none.
      reply_cp: replies that lose at most this many centipawns against the best one; None: none but the best.
      reply_games: replies in at least this many imported games; None: the test admits none.
      reply_moves: largest number of all these, the best ones; None: all.
    """

    first: int = 0
    last: int | None = None
    own_cp: float = 0.0
    own_moves: int | None = 1
    reply_p: float | None = None
    reply_cp: float | None = None
    reply_games: int | None = None
    reply_moves: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Expansion:
    """The order in which leaves are searched. Losses are in pawns, for the side that moves.

    Attributes:
      policy: `puct`: visits from the root, as in a search; `dropout`: Lincke's drop-out expansion; `cost`:
        in the order of the cost of the path from the root.
      value: backup of values: `minimax`, or `q`, their mean by visits.
      cpuct: of `puct`. alpha: of `dropout`, the plies that a pawn of loss is worth.
      per_ply, per_loss, per_log_p, per_move: of `cost`: the cost of a ply, of a pawn of loss, of one unit of
        -ln P, and of each move that the position has in the book before this one.
    """

    policy: Policy = "dropout"
    value: Backup = "minimax"
    cpuct: float = 1.745
    alpha: float = 10.0
    per_ply: float = 1.0
    per_loss: float = 10.0
    per_log_p: float = 0.5
    per_move: float = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """The search of a position of the book.

    Attributes:
      evaluations, visits: limits of each search; None: no such limit. One of them is set.
      params: (name, value text) pairs of the search's parameters, such as `("MinibatchSize", "32")`.
    """

    evaluations: int | None = 1000
    visits: int | None = None
    params: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Ruling:
    """Forced or excluded moves of a position.

    Attributes:
      board: the position, wherever it occurs in the book; no other ruling of this kind has it.
      moves: moves that are always added (forced), or never (excluded).
      only: of forced moves: whether no other move is added there.
      line: its line in BOOK.toml.
    """

    board: chess.Board
    moves: tuple[chess.Move, ...]
    only: bool = False
    line: int = 0


def is_own_turn(side: str, turn: chess.Color) -> bool:
    """Returns whether a book of a side (`white`, `black` or `both`) has own moves of this colour."""
    return side == BOTH or (side == "white") == turn


@dataclass(frozen=True, slots=True, kw_only=True)
class BookConfig:
    """A checked BOOK.toml.

    Attributes:
      text: the file as read. name: of the book. side: the side with the book's own moves.
      max_ply: positions at this ply are not searched, and none of their moves is added.
      roots: distinct positions before `max_ply`.
      notes: for the author, one line each.
    """

    text: str
    name: str
    side: Side
    max_ply: int
    roots: tuple[Root, ...]
    windows: tuple[Window, ...] = (Window(),)
    expansion: Expansion = field(default_factory=Expansion)
    leaf: Leaf = field(default_factory=Leaf)
    forced: tuple[Ruling, ...] = ()
    excluded: tuple[Ruling, ...] = ()
    evaluator: EvaluatorSpec = field(default_factory=EvaluatorSpec)
    notes: tuple[str, ...] = ()

    def window_at(self, ply: int) -> Window | None:
        """Returns the last window that covers a ply; None: only forced moves are added there."""
        found = None
        for window in self.windows:
            if window.first <= ply and (window.last is None or ply <= window.last):
                found = window
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildLimits:
    """The limits of a build, which otherwise ends when nothing is left to search.

    Attributes:
      seconds: wall time.
      evaluations: the build starts no search that might exceed this number, except the first.
      forever: whether to wait for the queue when nothing is left.
    """

    seconds: float | None = None
    evaluations: int | None = None
    forever: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """The processes and the memory of a build.

    Attributes:
      workers: number of processes that search, in `pool` (`local`, `ray` or `ray:ADDRESS`); None: this one.
      ram_bytes: limit of the memory of the graph, or of all workers together.
    """

    workers: int | None = None
    pool: str | None = None
    ram_bytes: int | None = None
