"""Explains the moves of a book: those of a position, with verdicts, and those that were added or removed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from heapq import nlargest
from operator import attrgetter
from typing import Any, NamedTuple

import chess

from ..base.answer import Answer, picked
from ..base.errors import GraphSearchError
from ..position.board import board_of, check, fen_of, key_text
from ..store.apart import completed_reader
from ..store.store import Store
from ..store.tables.books import BookRow, book_named, books
from ..store.tables.games import games_by_move
from . import rows
from .config import BookConfig, stored_config
from .decide import Verdict
from .growth import Growth, known_moves
from .tree import OPEN, BookTree


@dataclass(frozen=True, slots=True)
class Why:
    """A position of a book, explained.

    Attributes:
      book: its name. position: FEN. key: as `key_text` has it.
      found: whether the book has it. state: `leaf`, `open` or `end`; None if not found.
      ply: in the book; None if it is not there. line: a shortest line, in SAN, from the start of
        the game where the moves to the root are known, else from the root; empty for a root without moves.
      searches, n: number of its searches, node N after the last. value: of the book, for the side to move.
      outside, outside_san: best value among the moves outside the book, and that move.
      priority, rank, leaves: of a leaf: its cost, its rank in that order from 1, the number of leaves.
      verdicts: on every legal move as of now, best value first; empty if nothing was searched here.
      since: by UCI move of the book, the number of the run that added it.
      left_at: of a position that is not in the book: the last position of the book on the path there, and the
        verdict on the next move (None: that position was not searched, or is an end). The path is the given
        game; None: it was never in the book.
      roots: FENs where the book begins.
    """

    book: str
    position: str
    key: str
    found: bool
    state: str | None
    ply: int | None
    line: str
    searches: int
    n: int
    value: float | None
    outside: float | None
    outside_san: str | None
    priority: float | None
    rank: int | None
    leaves: int
    verdicts: tuple[Verdict, ...]
    since: dict[str, int]
    left_at: LeftAt | None
    roots: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """Returns the JSON object of `graphsearch book why`."""
        names = "book position key found state ply line searches n value outside outside_move=outside_san"
        moves = [v.as_dict() | {"since_run": self.since.get(v.candidate.move)} for v in self.verdicts]
        first = picked(self, f"{names} priority rank leaves")
        return first | {"moves": moves} | picked(self, "left_at roots")


@dataclass(frozen=True, slots=True)
class LeftAt:
    """The position where a game leaves a book.

    Attributes:
      position: FEN of the last position of the book. move: SAN of the next move.
      line: to that position, as `Why.line`. verdict: on the move; None without a decision.
      state: of that position.
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
    """Returns the verdicts of a book on a position, with reasons; read-only.

    Args:
      board: the position; its move stack shows where a game leaves the book.
      name: of the book; None: the only one of the file.

    Raises:
      InvalidPositionError: if the position is not legal.
      InvalidParameterError: if the file has no such book.
      StoreError: if it cannot be read.
    """
    check(board)
    with Store.open(path, read_only=True) as store:
        return _BookReader(store, book_named(store, name)).why(board)


def verdicts_of(store: Store, name: str) -> Callable[[chess.Board], tuple[Verdict, ...]]:
    """Returns a function that returns the verdicts on the moves of a position; the book is read once.

    Raises:
      InvalidParameterError: if the file has no such book.
      StoreError: if it cannot be read.
    """
    return _BookReader(store, book_named(store, name)).verdicts


def admitted_moves(store: Store, name: str) -> Callable[[chess.Board], frozenset[str] | None]:
    """Returns a function that returns the moves of a position that the rules of a book admit now, in UCI.

    They are those that `why` calls admitted. None: nothing is decided there, as of a position whose record is
    gone.

    Raises:
      InvalidParameterError: if the file has no such book.
      StoreError: if it cannot be read.
    """
    verdicts = verdicts_of(store, name)

    def admitted(board: chess.Board) -> frozenset[str] | None:
        found = verdicts(board)
        return frozenset(one.candidate.move for one in found if one.admitted) if found else None

    return admitted


class _BookReader:
    """One book of an open file."""

    def __init__(self, store: Store, book: BookRow) -> None:
        self._read = completed_reader(store)
        self._name = book.name
        self.config: BookConfig = stored_config(book.config, book.name)
        self.tree = BookTree(self.config.expansion)
        with store.reading() as connection:
            found = rows.read_tree(connection, book.id, self.tree)
        self.tree.roots = [key for key, _, _ in found if key in self.tree.positions]
        self._roots = tuple(fen for _, fen, _ in found)
        self._fens = {key: fen for key, fen, _ in found}
        self.tree.update(self.tree.positions)
        self._growth = Growth(self.config, self.tree, 0, self._read, partial(games_by_move, store))

    def why(self, board: chess.Board) -> Why:
        """Returns the explanation of a position."""
        key = key_text(board)
        position = self.tree.positions.get(key)
        reached, positions = self.tree.costs(), self.tree.positions
        costs = {leaf: cost for leaf, cost in reached.items() if positions[leaf].reach == 0.0}
        place = sorted(costs.values()).index(costs[key]) + 1 if key in costs else None
        outside = position.outside_move if position else None
        return Why(
            book=self._name,
            position=fen_of(board),
            key=key,
            found=position is not None,
            state=position.state if position else None,
            ply=position.ply if position else None,
            line=self._line(key) if position else "",
            searches=position.searches if position else 0,
            n=position.n if position else 0,
            value=position.value if position else None,
            outside=position.outside if position else None,
            outside_san=board.san(chess.Move.from_uci(outside)) if outside else None,
            priority=costs.get(key),
            rank=place,
            leaves=len(costs),
            verdicts=self.verdicts(board),
            since={m.move: m.since for m in position.moves.values()} if position else {},
            left_at=None if position else self._left_at(board),
            roots=self._roots,
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
        line = self.tree.line_to(key)
        if line is None:
            return ""
        root = line.keys[0]
        return rows.whole_line(
            self.config.text, self._fens.get(root, self.tree.positions[root].fen), line.sans
        )

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
_MOVES = """
SELECT p.key, m.move, p.fen, m.san, m.rule, m.n, m.value, m.loss, r.run
FROM book_move m
JOIN book_position p ON p.book = m.book AND p.key = m.key
LEFT JOIN book_run r ON r.id = m.book_run
WHERE m.book = ? AND p.state <> 'apart' ORDER BY p.key, m.move
"""
_COLUMNS = (
    *("book_position.key", "book_move.move", "book_position.fen", "book_move.san", "book_move.rule"),
    *("book_move.n", "book_move.value", "book_move.loss", "book_run.run?"),
)


@dataclass(frozen=True, slots=True)
class BookChange:
    """A move that a book has added or removed.

    Attributes:
      position: FEN. move, san: UCI and SAN. came: whether it was added, not removed.
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


class _Move(NamedTuple):
    """A move of a book: position key and move, the run that added it, and the move as a change."""

    place: tuple[str, str]
    run: int
    change: BookChange


def changes(old: str | os.PathLike[str], new: str | os.PathLike[str], *, top: int = 20) -> list[BookChanges]:
    """Returns the added and removed moves between two files, for every book that both have.

    Raises:
      StoreError: if a file cannot be read.
    """
    with Store.open(old, read_only=True) as one, Store.open(new, read_only=True) as other:
        ours, theirs = ({row.name: row for row in books(store)} for store in (one, other))
        found = []
        for name in sorted({*ours, *theirs}):
            before, after = (_moves(store, rows.get(name)) for store, rows in ((one, ours), (other, theirs)))
            whole = _compared(name, before, after, top)
            found.append(_with_reasons(whole, other) if name in theirs else whole)
    return found


def changes_since(path: str | os.PathLike[str], run: int, *, top: int = 20) -> list[BookChanges]:
    """Returns the moves that a run or a later one has added to each book; removed moves leave no trace.

    Raises:
      StoreError: if the file cannot be read.
    """
    with Store.open(path, read_only=True) as store:
        found = []
        for book in books(store):
            come = [move.change for move in _moves(store, book) if move.run >= run]
            most = tuple(nlargest(top, come, key=attrgetter("n")))
            found.append(_with_reasons(BookChanges(book.name, len(come), 0, most), store))
    return found


def _moves(store: Store, book: BookRow | None) -> Iterator[_Move]:
    """Yields the moves of a book; none for None."""
    for key, move, fen, san, rule, n, value, loss, run in (
        store.query(_MOVES, (book.id,), *_COLUMNS) if book else ()
    ):
        yield _Move((key, move), run or 0, BookChange(fen, move, san, True, rule, "", n, value, loss))


def _compared(name: str, old: Iterator[_Move], new: Iterator[_Move], top: int) -> BookChanges:
    """Returns the moves that only one of two books has."""
    before, after = ({move.place: move.change for move in moves} for moves in (old, new))
    went = [replace(change, came=False) for place, change in before.items() if place not in after]
    came = [change for place, change in after.items() if place not in before]
    return BookChanges(name, len(came), len(went), tuple(nlargest(top, went + came, key=attrgetter("n"))))


def _with_reasons(found: BookChanges, store: Store) -> BookChanges:
    """Returns the changes with the reasons of the book's present verdicts."""
    rows = found.changes
    with suppress(GraphSearchError):  # another version's configuration: leave the reasons empty
        verdicts = verdicts_of(store, found.book) if rows else None
        rows = tuple(_reasoned(row, verdicts) for row in rows if verdicts)
    return replace(found, changes=rows)


def _reasoned(row: BookChange, verdicts: Callable[[chess.Board], tuple[Any, ...]]) -> BookChange:
    found = verdicts(board_of(row.position))
    return replace(row, reason=next((v.reason for v in found if v.candidate.move == row.move), GONE))
