"""Explains the moves of a book: those of a position, with verdicts, and those that were added or removed.

Functions only read files, and raise StoreError if that fails.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from heapq import nlargest
from operator import attrgetter
from typing import Any

import chess

from ..base.answer import Answer, picked
from ..base.errors import GraphSearchError
from ..position.board import board_of, check, fen_of, key_text
from ..store.apart import ApartMoves
from ..store.store import Store
from ..store.tables.books import books
from ..store.tables.games import games_by_move
from .config import stored_config
from .growth import Growth, Verdict, known_moves
from .rows import StoredBook
from .tree import APART, OPEN, Position


@dataclass(frozen=True, slots=True)
class Why:
    """A position of a book, explained.

    Attributes:
      found: whether the book has it. at: its position in the book, else one that was never searched.
      line: a shortest line, in SAN, from the start of the game where the moves to the root are known, else
        from the root; empty for a root without moves.
      outside_san: the best move outside the book.
      priority, rank, leaves: of a leaf: its cost, its rank in that order from 1, the number of leaves.
      verdicts: on every legal move as of now, best value first; empty if nothing was searched here.
      left_at: of a position that is not in the book: the last position of the book on the path there, and the
        verdict on the next move (None: that position was not searched, or is an end). The path is the given
        game; None: it was never in the book.
      roots: FENs where the book begins.
    """

    book: str
    position: str
    found: bool
    at: Position
    line: str
    outside_san: str | None
    priority: float | None
    rank: int | None
    leaves: int
    verdicts: tuple[Verdict, ...]
    left_at: LeftAt | None
    roots: tuple[str, ...]

    @property
    def state(self) -> str | None:
        """Its state in the book; None if it is not there."""
        return self.at.state if self.found else None

    @property
    def ply(self) -> int | None:
        """Its ply in the book; None if it is not there."""
        return self.at.ply if self.found else None

    @property
    def since(self) -> dict[str, int]:
        """By UCI move of the book, the number of the run that added it."""
        return {move.move: move.since for move in self.at.moves.values()}

    def as_dict(self) -> dict[str, Any]:
        """Returns the JSON object of `graphsearch book why`."""
        names = (
            "book position key=at.key found state ply line searches=at.searches n=at.n value=at.value"
            " outside=at.outside outside_move=outside_san priority rank leaves"
        )
        moves = [v.as_dict() | {"since_run": self.since.get(v.candidate.move)} for v in self.verdicts]
        return picked(self, names) | {"moves": moves} | picked(self, "left_at roots")


@dataclass(frozen=True, slots=True)
class LeftAt:
    """The position where a game leaves a book.

    Attributes:
      position: FEN of the last position of the book. line: to it, as `Why.line`. state: of it.
      move: SAN of the next move. verdict: on the move; None without a decision.
    """

    position: str
    move: str
    line: str
    state: str
    verdict: Verdict | None

    def as_dict(self) -> dict[str, Any]:
        """Returns the JSON object."""
        reason = self.verdict.reason if self.verdict else None
        return picked(self, "position move line state") | {"reason": reason}


def why(path: str | os.PathLike[str], board: chess.Board, name: str | None = None) -> Why:
    """Returns the verdicts of a book (without a name, of the only one) on a position, with reasons.

    Its move stack shows where a game leaves the book.

    Raises:
      InvalidPositionError: if the position is not legal.
      InvalidParameterError: if the file has no such book.
    """
    check(board)
    with Store.open(path, read_only=True) as store:
        return _BookReader(store, name).why(board)


def admitted_moves(store: Store, name: str) -> Callable[[chess.Board], frozenset[str] | None]:
    """Returns a function that returns the moves of a position that `why` calls admitted, in UCI.

    None: nothing is decided there, as of a position whose record is gone. Without such a book, raises
    InvalidParameterError.
    """
    book = _BookReader(store, name)

    def admitted(board: chess.Board) -> frozenset[str] | None:
        found = book.verdicts(board)
        return frozenset(one.candidate.move for one in found if one.admitted) if found else None

    return admitted


class _BookReader:
    """One book of an open file."""

    def __init__(self, store: Store, name: str | None) -> None:
        self._read, self._book = ApartMoves.of(store).read, StoredBook(store, name)
        self.config, self.tree = stored_config(self._book.row.config, self._book.row.name), self._book.tree
        self.tree.expansion = self.config.expansion
        self.tree.update(self.tree.positions)
        self._growth = Growth(self.config, self.tree, 0, self._read, partial(games_by_move, store))

    def why(self, board: chess.Board) -> Why:
        """Returns the explanation of a position."""
        key, positions, fen = key_text(board), self.tree.positions, fen_of(board)
        at = positions.get(key) or Position(key=key, fen=fen, ply=0, since=0)
        costs = {leaf: cost for leaf, cost in self.tree.costs().items() if positions[leaf].reach == 0.0}
        return Why(
            book=self._book.row.name,
            position=fen,
            found=key in positions,
            at=at,
            line=self._line(key),
            outside_san=board.san(chess.Move.from_uci(at.outside_move)) if at.outside_move else None,
            priority=costs.get(key),
            rank=sorted(costs.values()).index(costs[key]) + 1 if key in costs else None,
            leaves=len(costs),
            verdicts=self.verdicts(board),
            left_at=None if key in positions else self._left_at(board),
            roots=tuple(self._book.roots.values()),
        )

    def verdicts(self, board: chess.Board) -> tuple[Verdict, ...]:
        """Returns the present verdicts on the legal moves of a position; none if it was not searched."""
        position = self.tree.positions.get(key_text(board))
        record = self._read(board) if position and position.state == OPEN else None
        if position is None or record is None:
            return ()
        found = self._growth.verdicts(position, board, known_moves(board, record))
        return tuple(_as_it_stands(verdict, board) for verdict in found)

    def _line(self, key: str) -> str:
        line = self.tree.line(key, self.tree.shortest_ways())
        return self._book.text(line) if line.keys[0] in self.tree.roots else ""

    def _left_at(self, board: chess.Board) -> LeftAt | None:
        """Returns the position where a board's game leaves the book; None if it was never in the book."""
        game = board.copy()
        while game.move_stack:
            move = game.pop()
            position = self.tree.positions.get(key_text(game))
            if position is not None:
                verdict = next((v for v in self.verdicts(game) if v.candidate.move == move.uci()), None)
                line = self._line(position.key)
                return LeftAt(fen_of(game), game.san(move), line, position.state, verdict)
        return None


def _as_it_stands(verdict: Verdict, board: chess.Board) -> Verdict:
    """Returns a verdict with SAN and the rule in the book now: only a build changes decisions."""
    san = board.san(chess.Move.from_uci(verdict.candidate.move))
    verdict = replace(verdict, candidate=replace(verdict.candidate, san=san))
    has, would = verdict.candidate.rule, verdict.rule
    if would and not has:
        return replace(verdict, rule="", reason=f"not added yet; now {verdict.reason}")
    if has and not would:
        return replace(verdict, rule=has, reason=f"added before; now {verdict.reason}")
    return verdict


# ------------------------------------------------------------------ changes
GONE = "its position is not in the book any more"


@dataclass(frozen=True, slots=True)
class BookChange:
    """A move that a book has added or removed.

    Attributes:
      came: whether it was added, not removed.
      rule: by which the book added it. reason: why it is in the book now or no longer is; empty if unknown.
      n: edge N at the last decision. value: in the book, for the side that plays the move; None if unknown.
      loss: centipawns against the best move; None if unknown.
    """

    position: str
    move: str
    san: str
    came: bool
    rule: str
    reason: str
    n: int
    value: float | None
    loss: int | None


@dataclass(frozen=True, slots=True)
class BookChanges(Answer):
    """The changes of a book: numbers of added and removed moves, and the changes with the most visits."""

    book: str
    came: int
    went: int
    changes: tuple[BookChange, ...]


Moves = dict[tuple[str, str], tuple[int, BookChange]]  # by key and move: the build that added it, the move


def changes(old: str | os.PathLike[str], new: str | os.PathLike[str], *, top: int = 20) -> list[BookChanges]:
    """Returns the added and removed moves between two files, for every book that both have."""
    with Store.open(old, read_only=True) as one, Store.open(new, read_only=True) as other:
        ours, theirs = ({row.name: _moves(store, row.name) for row in books(store)} for store in (one, other))
        found = []
        for name in sorted({*ours, *theirs}):
            before, after = ours.get(name, {}), theirs.get(name, {})
            went = [replace(before[place][1], came=False) for place in before if place not in after]
            came = [after[place][1] for place in after if place not in before]
            found.append(_with_reasons(other, name, came, went, top))
    return found


def changes_since(path: str | os.PathLike[str], run: int, *, top: int = 20) -> list[BookChanges]:
    """Returns the moves that a run or a later one has added to each book; removed moves leave no trace."""
    with Store.open(path, read_only=True) as store:
        statement = "SELECT id FROM book_run WHERE run >= ?"
        builds = {number for (number,) in store.query(statement, (run,), "book_run.id")}
        found = []
        for book in books(store):
            moves = _moves(store, book.name).values()
            come = [change for since, change in moves if since in builds]
            found.append(_with_reasons(store, book.name, come, [], top))
    return found


def _moves(store: Store, name: str) -> Moves:
    """Returns the moves of a book, without those that no root leads to."""
    found: Moves = {}
    for key, at in sorted(StoredBook(store, name, whole=False).tree.positions.items()):
        for _, m in sorted(at.moves.items()) if at.state != APART else ():
            change = BookChange(at.fen, m.move, m.san, True, m.rule, "", m.n, m.value, m.loss)
            found[key, m.move] = m.since, change
    return found


def _with_reasons(
    store: Store, name: str, came: list[BookChange], went: list[BookChange], top: int
) -> BookChanges:
    """Returns the changes of a book with the most visits, with the reasons of its present verdicts."""
    rows = nlargest(top, went + came, key=attrgetter("n"))
    with suppress(GraphSearchError):  # no book, or another version's configuration: leave the reasons empty
        book = _BookReader(store, name) if rows else None
        for i, row in enumerate(rows):
            found = book.verdicts(board_of(row.position)) if book else ()
            reason = next((v.reason for v in found if v.candidate.move == row.move), GONE)
            rows[i] = replace(row, reason=reason)
    return BookChanges(name, len(came), len(went), tuple(rows))
