"""What every shard is told of a search, and what it reports."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any

import chess

from ..position.board import board_of
from ..record.node import NodeRecord
from ..search.params import Limits, SearchParams
from .traffic import Traffic


def board_parts(board: chess.Board) -> tuple[str, tuple[str, ...]]:
    """Returns a position as a host is told it: FEN of the game's start, moves in UCI."""
    return board.root().fen(en_passant="fen"), tuple(move.uci() for move in board.move_stack)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A search as every shard is told it.

    Attributes:
      start, moves: the game up to the root: FEN, and moves in UCI.
      searchmoves: moves that it may take at the root, in UCI; empty: all.
      limits: what is still to be done. run: number of the search in all files.
      lists: whether the files list the root, and what it is worth after the search.
      save: number of the last save. visits, evaluations: what the run had added by then.
      save_seconds: between two saves; None: as a search in one process has it.
    """

    start: str
    moves: tuple[str, ...] = ()
    searchmoves: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)
    params: SearchParams = field(default_factory=SearchParams)
    run: int = 1
    lists: bool = True
    save: int = 0
    visits: int = 0
    evaluations: int = 0
    save_seconds: float | None = None

    def board(self) -> chess.Board:
        """Returns the root, with the game before it."""
        board = board_of(self.start)
        for move in self.moves:
            board.push_uci(move)
        return board


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a search is, as its leader knows it; the root's record as it is now."""

    visits: int
    evaluations: int
    nodes: int
    depth: int
    seldepth: int
    seconds: float
    record: NodeRecord | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardReport:
    """What one shard has done in a search.

    Attributes:
      number: of the shard. leads: whether it owned the root.
      visits: completed at the root, if it leads. evaluations, catch_ups, collisions, unkept: its own.
      plies, seldepth: of the visits that ended there.
      nodes: it has. saved: records that it has written. read_back: that it has read.
      stop_reason: why the search ended. problems: damage that it has passed over. seconds: of the search.
      cpu_seconds: of its process meanwhile. peak_rss: most bytes that it ever had in memory; None: not told.
      root: the root's record with the visits that a search of some moves forced and no file holds; None if
        there are none, or it does not lead.
    """

    number: int
    leads: bool
    visits: int
    evaluations: int
    catch_ups: int
    collisions: int
    unkept: int
    plies: int
    seldepth: int
    nodes: int
    saved: int
    read_back: int
    stop_reason: str
    seconds: float
    cpu_seconds: float
    peak_rss: int | None
    problems: list[str]
    traffic: Traffic
    root: NodeRecord | None = None

    def as_dict(self) -> dict[str, Any]:
        """Returns the report as JSON takes it, without the root's record."""
        fields = asdict(replace(self, root=None))
        del fields["root"]
        return fields
