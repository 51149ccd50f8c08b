"""The parameters of a search for every shard, and a shard's report."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any

import chess

from ...position.board import board_of
from ...store.record.node import NodeRecord
from ..params import Limits, SearchParams
from .traffic import Traffic


def board_parts(board: chess.Board) -> tuple[str, tuple[str, ...]]:
    """Returns a position in the form of a `SearchJob`: FEN of the game's start, moves in UCI."""
    return board.root().fen(en_passant="fen"), tuple(move.uci() for move in board.move_stack)


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchJob:
    """A search as it is sent to every shard.

    Attributes:
      start, moves: the game up to the root: FEN, and moves in UCI.
      searchmoves: moves that it may take at the root, in UCI; empty: all.
      limits: the remaining limits. run: number of the search in all files.
      lists: whether the files list the root and its value after the search.
      save: number of the last save. visits, evaluations: of the run up to then.
      save_seconds: between two saves; None: as in a search of one process.
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
    """A search's progress by its leader; with the root's present record."""

    visits: int
    evaluations: int
    nodes: int
    depth: int
    seldepth: int
    seconds: float
    record: NodeRecord | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardReport:
    """One shard's report of a search.

    Attributes:
      number: of the shard. leads: whether it owned the root.
      visits: completed at the root, if it leads. evaluations, catch_ups, collisions, unkept: its own.
      plies, seldepth: of the visits that ended there.
      nodes: of the shard. saved: records written. read_back: records read.
      stop_reason: why the search ended. problems: damage that was skipped. seconds: of the search.
      cpu_seconds: of its process meanwhile. peak_rss: its peak memory in bytes; None: unknown.
      root: the root's record with the forced visits of a search of some moves, which no file holds; None if
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
        """Returns the report for JSON, without the root's record."""
        fields = asdict(replace(self, root=None))
        del fields["root"]
        return fields
