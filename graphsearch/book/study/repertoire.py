"""Repertoires: books whose moves a person chose, own moves and the replies to them.

A repertoire is a book of its side without windows. It consists of positions with the keys of the graph, so a
line that transposes into it shares its moves.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import chess

from ...base.answer import Answer
from ...base.deadline import check_time
from ...base.errors import InvalidParameterError, InvalidPositionError
from ...base.limits import REPERTOIRE
from ...exchange.importing import GivenFile
from ...position.board import board_of, check, fen_of, key_text
from ...store.file import editing, opened_to_read
from ...store.provenance import now
from ...store.tables.books import REPERTOIRES
from ...store.tables.rows import rows as rows_of_table
from ...store.tables.rows import table_of
from ...store.verify import Problems
from .. import rows
from ..config import is_own_turn
from ..decide import CHOSEN
from ..tree import LEAF, OPEN, BookMove, BookTree, Position
from .pgn import START, steps_of
from .studies import read_file

AnyPath = str | os.PathLike[str]
SIDES = tuple(REPERTOIRES)
CONFIG = '[book]\nside = "{}"\nmax_ply = 1000\n[[window]]\nplies = [1000]\n'  # it adds no moves of its own


@dataclass(frozen=True, slots=True)
class RepertoireChange(Answer):
    """The result of a change: the side, and the numbers of added moves, removed moves, and moves now."""

    side: str
    added: int
    removed: int
    moves: int


@dataclass(slots=True, kw_only=True)
class ImportedRepertoire(Problems, Answer):
    """The result of an import into a repertoire; `problems` lists each skipped part with its reason."""

    json_keys = "side games added moves left_out=problems found"

    side: str
    games: int = 0
    added: int = 0
    moves: int = 0


@dataclass(slots=True)
class Repertoire:
    """The repertoire of a side, in memory.

    Attributes:
      side: white or black. book: number of its book; None before its first move.
      tree: its positions and moves; the root that is the start position comes first.
      written: the roots in the file.
    """

    side: str
    book: int | None
    tree: BookTree
    written: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """Number of moves."""
        return sum(len(position.moves) for position in self.tree.positions.values())

    def is_own(self, key: str) -> bool:
        """Returns whether the side is to move in a position."""
        return is_own_turn(self.side, self.tree.positions[key].turn)

    def is_answered(self, key: str) -> bool:
        """Returns whether the repertoire has a move in a position."""
        return key in self.tree.positions and bool(self.tree.positions[key].moves)

    # -------------------------------------------------------------- changes
    def add_position(self, board: chess.Board) -> Position:
        """Returns the position of a board, which is added if it is new."""
        key = key_text(board)
        return self.tree.add(Position(key=key, fen=fen_of(board), ply=board.ply(), since=0))

    def begin(self, board: chess.Board) -> Position:
        """Returns the first position of a line; an unknown position becomes a root."""
        if key_text(board) not in self.tree.positions:
            self.tree.roots.append(key_text(board))
        return self.add_position(board)

    def add(self, position: Position, move: chess.Move) -> Position:
        """Adds a move of a position; returns the position after it."""
        board = board_of(position.fen)
        san = board.san(move)
        board.push(move)
        child = self.add_position(board)
        if move.uci() not in position.moves:
            made = BookMove(move=move.uci(), san=san, child=child.key, rule=CHOSEN, since=0)
            self.tree.link(position, made)
            position.state = OPEN
        return child

    def write(self, connection: sqlite3.Connection) -> None:
        """Writes what has changed.

        Raises:
          InvalidParameterError: if it has too many moves.
        """
        if self.size > REPERTOIRE.most:
            raise InvalidParameterError(
                f"more than {REPERTOIRE.most:,} moves, the most for {REPERTOIRE.what}{REPERTOIRE.hint}"
            )
        if not self.tree.changed and self.written == (*self.tree.roots,):
            return
        if self.book is None:
            texts = {"name": REPERTOIRES[self.side], "side": self.side, "config": CONFIG.format(self.side)}
            book = table_of(connection, "book").insert(texts | {"created": now(), "updated": now()})
            self.book = int(book.last_pk or 0)
        positions = self.tree.positions
        rows.write_positions(connection, *rows.position_rows(self.tree, self.book, self.tree.changed))
        if self.written != (*self.tree.roots,):
            roots = [(key, positions[key].fen, CHOSEN) for key in self.tree.roots]
            rows.write_roots(connection, self.book, roots)


def checked_side(side: str) -> str:
    """Returns the side of a repertoire.

    Raises:
      InvalidParameterError: if it is not white or black.
    """
    if side not in SIDES:
        raise InvalidParameterError(f"a repertoire is white's or black's, not {side or 'nobody'!r}")
    return side


def load(path: AnyPath, side: str) -> Repertoire:
    """Returns the repertoire of a side; of a damaged file, what fits together.

    Raises:
      InvalidParameterError: if the side is invalid.
      StoreError: if the file cannot be read.
    """
    with opened_to_read(path) as connection:
        return load_from(connection, side)


def load_from(connection: sqlite3.Connection, side: str) -> Repertoire:
    """Returns the repertoire of a side from an open file; as `load`."""
    name = REPERTOIRES[checked_side(side)]
    for (number,) in rows_of_table(connection, "book", ("id",), "WHERE name = ?", (name,)):
        tree = BookTree()
        known = (
            tree.positions[key]
            for key, _, _ in rows.read_tree(connection, number, tree, whole=False)
            if key in tree.positions
        )
        tree.roots = [one.key for one in sorted(known, key=lambda one: one.fen != chess.STARTING_FEN)]
        return Repertoire(side, number, tree, (*tree.roots,))
    return Repertoire(side, None, BookTree())


@contextmanager
def _edited(path: AnyPath, side: str) -> Iterator[tuple[sqlite3.Connection, Repertoire]]:
    """Yields the repertoire of a side in an open file, and writes it in the same transaction."""
    checked_side(side)
    with editing(path) as connection:
        found = load_from(connection, side)
        yield connection, found
        found.write(connection)


# ------------------------------------------------------------------ adding
def add_line(path: AnyPath, side: str, board: chess.Board) -> RepertoireChange:
    """Adds the moves to a position to a side's repertoire: own moves, and the replies to them.

    Raises:
      InvalidParameterError: if the side is invalid, there is no move to add, or there are too many moves.
      InvalidPositionError: if the position is illegal.
      StoreError: if the file cannot be written.
    """
    check(board)
    if not board.move_stack:
        raise InvalidParameterError("name a line: there is no move to add")
    with _edited(path, side) as (_, found):
        before, position = found.size, found.begin(board.root())
        for move in board.move_stack:
            position = found.add(position, move)
    return RepertoireChange(side, found.size - before, 0, found.size)


def import_file(path: AnyPath, side: str, given: GivenFile) -> ImportedRepertoire:
    """Adds all lines of a PGN file, compressed or not, or of a stream, to a side's repertoire.

    Raises:
      ImportFileError: if the file cannot be read, or has no game that can be read.
      InvalidParameterError: if the side is invalid, or there are too many moves.
      StoreError: if the file cannot be written; nothing is added then.
    """
    report = ImportedRepertoire(side=checked_side(side))
    games = read_file(given, report)
    with _edited(path, side) as (_, found):
        before = found.size
        for game in games:
            check_time()
            if game.tree.variations:
                at = {START: found.begin(game.tree.board())}
                for step in steps_of(game.tree):
                    at[step.number] = found.add(at[step.parent], step.move)
    report.games, report.added, report.moves = len(games), found.size - before, found.size
    return report


# ------------------------------------------------------------------ removing
def remove_move(path: AnyPath, side: str, board: chess.Board) -> RepertoireChange:
    """Removes the last move of a line from a side's repertoire, with all positions that only it reached.

    Raises:
      InvalidParameterError: if the side is invalid, or the line has no moves.
      InvalidPositionError: if the repertoire does not have the move.
      StoreError: if the file cannot be written.
    """
    if not board.move_stack:
        raise InvalidParameterError("name a line, whose last move is removed")
    before = board.copy()
    move = before.pop()
    with _edited(path, side) as (connection, found):
        size, position = found.size, found.tree.positions.get(key_text(before))
        if position is None or move.uci() not in position.moves:
            san = before.san(move)
            raise InvalidPositionError(f"{side}'s repertoire does not have {san} in {fen_of(before)}")
        found.tree.unlink(position, move.uci())
        position.state = OPEN if position.moves else LEAF
        found.tree.roots = [key for key in found.tree.roots if found.is_answered(key)]
        _drop(found, connection, found.tree.positions.keys() - found.tree.reachable())
        found.tree.lengthen()
    return RepertoireChange(side, 0, size - found.size, found.size)


def _drop(found: Repertoire, connection: sqlite3.Connection, keys: Collection[str]) -> None:
    """Deletes positions with their moves."""
    for key in keys:
        found.tree.positions.pop(key)
    for position in found.tree.positions.values():
        position.parents -= set(keys)
    found.tree.changed -= set(keys)
    for table in ("book_position", "book_move"):
        pairs = [(found.book, key) for key in keys]
        connection.executemany(f"DELETE FROM {table} WHERE book = ? AND key = ?", pairs)  # noqa: S608 (constants)
