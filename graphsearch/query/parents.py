"""The stored positions that have a move to a given one. Reads only.

The query takes moves back (`unmoves.py`); the file's filters reject most of the resulting positions,
python-chess checks the rest, and the query reads the few that remain.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

import chess
import numpy as np

from ..base.answer import Answer
from ..position.board import POSITION_WORDS, check, clock_term, fen_of, legal_moves, pack_checked
from ..position.values import cp_of
from ..position.words import KEY
from ..store.record.node import Edge
from ..store.record.ranking import edge_of
from .source import RecordSource, opened
from .unmoves import Predecessor, candidates, leads_to


@dataclass(frozen=True, slots=True)
class Parent:
    """A stored position with a move to the requested one.

    Attributes:
      position: FEN, move number 1. visits: its node N.
      move, san: the move.
      n, p, q, cp: edge N, P and Q of it, its centipawns, seen by the side that plays it; None while n = 0.
    """

    position: str
    visits: int
    move: str
    san: str
    n: int
    p: float
    q: float | None
    cp: int | None


@dataclass(frozen=True, slots=True)
class Parents(Answer):
    """The answer of `parents`.

    Attributes:
      parents: the stored positions, most visits of the edge first.
    """

    parents: tuple[Parent, ...]


@dataclass(frozen=True, slots=True)
class ParentEdge:
    """A parent for other queries: its Board, its move to the position, the edge and its P."""

    board: chess.Board
    move: chess.Move
    edge: Edge
    p: float
    visits: int


def parents(path: str | os.PathLike[str], board: chess.Board) -> Parents:
    """Returns the stored positions that have a legal move to a position, visited or not.

    The position itself need not be stored.

    Raises:
      InvalidPositionError: if it is not legal.
      StoreError: if the file cannot be read.
    """
    check(board)
    with opened(path) as source:
        there = stored(source, board, list(candidates(board)))
    found = [
        Parent(
            position=fen_of(one.board),
            visits=one.visits,
            move=one.move.uci(),
            san=one.board.san(one.move),
            n=one.edge.n,
            p=one.p,
            q=one.edge.value if one.edge.n else None,
            cp=cp_of(one.edge.value) if one.edge.n else None,
        )
        for one in there
    ]
    found.sort(key=lambda parent: (-parent.n, -parent.visits, parent.position))
    return Parents(tuple(found))


def stored(source: RecordSource, board: chess.Board, tried: Sequence[Predecessor]) -> list[ParentEdge]:
    """Returns the candidates that are stored and have a legal move to the position."""
    found = []
    for candidate, clocks in _filtered(source, tried):
        if not leads_to(candidate, board):
            continue
        for clock in clocks:
            before = candidate.board.copy(stack=False)
            before.halfmove_clock = clock
            edge = _edge_in(source, before, candidate.move)
            if edge:
                found.append(edge)
    return found


def _filtered(source: RecordSource, tried: Sequence[Predecessor]) -> list[tuple[Predecessor, list[int]]]:
    """Returns the candidates that the file may hold, each with its possible clocks."""
    packed = [pack_checked(candidate.board) for candidate in tried]
    words = np.array(packed, np.uint64).reshape(-1, POSITION_WORDS)
    places: list[int] = []
    clocks: list[int] = []
    for place, candidate in enumerate(tried):
        places += [place] * len(candidate.clocks)
        clocks += candidate.clocks
    which = np.array(places, np.int64)
    terms = {clock: clock_term(clock) for clock in set(clocks)}
    asked = words[which, KEY] ^ np.array([terms[clock] for clock in clocks], np.uint64)
    hits = np.nonzero(source.store.may_hold(words[which], asked))[0]
    kept: dict[int, list[int]] = {}
    for hit in hits.tolist():
        kept.setdefault(places[hit], []).append(clocks[hit])
    return [(tried[place], those) for place, those in kept.items()]


def _edge_in(source: RecordSource, before: chess.Board, move: chess.Move) -> ParentEdge | None:
    """Returns the edge of a stored position, visited or not; None if it is not stored."""
    record = source.read(before)
    if record is None or not record.codes:  # from a tablebase, or damaged: it has no moves
        return None
    index = legal_moves(before).index(move)
    edge = edge_of(record, record.order.index(index))
    return ParentEdge(before, move, edge, record.priors[index], record.visits)
