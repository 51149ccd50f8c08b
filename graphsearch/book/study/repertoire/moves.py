"""Loads a repertoire, adds lines to it, and removes moves from it.

A repertoire consists of positions with the keys of the graph, so a line that transposes into it shares its
moves. Its moves are own moves and the replies to them.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass, field

import chess

from ....base.answer import Answer
from ....base.deadline import check_time
from ....base.errors import InvalidParameterError, InvalidPositionError
from ....base.limits import REPERTOIRE
from ....exchange.sources import GivenFile
from ....position.board import check, fen_of, key_text
from ....store.plain_tables import editing, opened_to_read
from ....store.tables import repertoire as rows
from ....store.tables.repertoire import RepertoireMove, RepertoirePosition
from ....store.upkeep.verify import Problems
from ..pgn import START, StudyGame, steps_of
from ..studies import read_file

AnyPath = str | os.PathLike[str]
SIDES = WHITE, BLACK = ("white", "black")


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
      side: white or black.
      positions: by key. moves: by key of the position, and by move.
    """

    side: str
    positions: dict[str, RepertoirePosition] = field(default_factory=dict)
    moves: dict[str, dict[str, RepertoireMove]] = field(default_factory=dict)

    @property
    def turn(self) -> chess.Color:
        """The color of the side."""
        return self.side == WHITE

    @property
    def size(self) -> int:
        """Number of moves."""
        return sum(map(len, self.moves.values()))

    def is_own(self, key: str) -> bool:
        """Returns whether the side is to move in a position."""
        return (self.positions[key].fen.split(" ", 2)[1] == "w") == self.turn

    def moves_at(self, key: str) -> Iterable[RepertoireMove]:
        """Returns the moves of a position."""
        return self.moves.get(key, {}).values()

    def is_answered(self, key: str) -> bool:
        """Returns whether the repertoire has a move in a position."""
        return bool(self.moves.get(key))

    def roots(self) -> list[str]:
        """Returns the positions where lines begin, the start position first."""
        found = [key for key, one in self.positions.items() if one.root]
        return sorted(found, key=lambda key: (self.positions[key].fen != chess.STARTING_FEN, key))

    def reached(self) -> set[str]:
        """Returns the positions that lines from a root with moves reach."""
        waiting = [key for key in self.roots() if self.is_answered(key)]
        found = set(waiting)
        while waiting:
            new = {move.child for move in self.moves_at(waiting.pop())} - found
            found |= new
            waiting += new
        return found


def checked_side(side: str) -> str:
    """Returns the side of a repertoire.

    Raises:
      InvalidParameterError: if it is not white or black.
    """
    if side not in SIDES:
        raise InvalidParameterError(f"a repertoire is white's or black's, not {side or 'nobody'!r}")
    return side


def load(path: AnyPath, side: str) -> Repertoire:
    """Returns the repertoire of a side.

    Raises:
      InvalidParameterError: if the side is invalid.
      StoreError: if the file cannot be read.
    """
    with opened_to_read(path) as connection:
        return load_from(connection, side)


def load_from(connection: sqlite3.Connection, side: str) -> Repertoire:
    """Returns the repertoire of a side from an open file; as `load`."""
    found = Repertoire(checked_side(side))
    found.positions = {one.key: one for one in rows.positions_of(connection, side)}
    for move in rows.moves_of(connection, side):
        if move.key in found.positions and move.child in found.positions:  # false in a damaged file
            found.moves.setdefault(move.key, {})[move.move] = move
    return found


# ------------------------------------------------------------------ adding
@dataclass(slots=True)
class _Growth:
    """Adds moves to a repertoire, and collects the new rows."""

    repertoire: Repertoire
    positions: dict[str, RepertoirePosition] = field(default_factory=dict)
    moves: list[RepertoireMove] = field(default_factory=list)
    size: int = field(init=False)

    def __post_init__(self) -> None:
        self.size = self.repertoire.size

    def begin(self, board: chess.Board) -> str:
        """Returns the key of the first position of a line; an unknown position becomes a root."""
        return self._position(board, root=1)

    def _position(self, board: chess.Board, *, root: int = 0) -> str:
        key = key_text(board)
        if key not in self.repertoire.positions:
            made = RepertoirePosition(key, fen_of(board), root)
            self.repertoire.positions[key] = self.positions[key] = made
        return key

    def add(self, key: str, move: chess.Move, child: chess.Board) -> str:
        """Adds a move of a known position; returns the key of the position after it.

        Raises:
          InvalidParameterError: if the repertoire is full.
        """
        known = self.repertoire.moves.setdefault(key, {})
        child_key = self._position(child)
        if move.uci() not in known:
            if self.size == REPERTOIRE.most:
                raise InvalidParameterError(
                    f"more than {REPERTOIRE.most:,} moves, the most for {REPERTOIRE.what}{REPERTOIRE.hint}"
                )
            place = 1 + max((one.place for one in known.values()), default=-1)
            known[move.uci()] = made = RepertoireMove(key, move.uci(), child_key, place)
            self.moves.append(made)
            self.size += 1
        return child_key

    def write(self, connection: sqlite3.Connection) -> None:
        """Writes the new positions and moves."""
        rows.put_positions(connection, self.repertoire.side, self.positions.values())
        rows.put_moves(connection, self.repertoire.side, self.moves)


def add_line(path: AnyPath, side: str, board: chess.Board) -> RepertoireChange:
    """Adds the moves to a position to a side's repertoire: own moves, and the replies to them.

    Raises:
      InvalidParameterError: if the side is invalid, or there is no move to add.
      InvalidPositionError: if the position is illegal.
      StoreError: if the file cannot be written.
    """
    check(board)
    checked_side(side)
    if not board.move_stack:
        raise InvalidParameterError("name a line: there is no move to add")
    with editing(path) as connection:
        growth = _Growth(load_from(connection, side))
        walk = board.root()
        key = growth.begin(walk)
        for move in board.move_stack:
            walk.push(move)
            key = growth.add(key, move, walk)
        growth.write(connection)
        return RepertoireChange(side, len(growth.moves), 0, growth.size)


def import_file(path: AnyPath, side: str, given: GivenFile) -> ImportedRepertoire:
    """Adds all lines of a PGN file, compressed or not, or of a stream, to a side's repertoire.

    Raises:
      ImportFileError: if the file cannot be read, or has no game that can be read.
      InvalidParameterError: if the side is invalid, or there are too many moves.
      StoreError: if the file cannot be written; nothing is added then.
    """
    checked_side(side)
    report = ImportedRepertoire(side=side)
    games = read_file(given, report)
    report.games = len(games)
    with editing(path) as connection:
        growth = _Growth(load_from(connection, side))
        for game in games:
            check_time()
            _add_game(growth, game)
        growth.write(connection)
        report.added, report.moves = len(growth.moves), growth.size
    return report


def _add_game(growth: _Growth, game: StudyGame) -> None:
    if not game.tree.variations:
        return
    keys = {START: growth.begin(game.tree.board())}
    for step in steps_of(game.tree):
        child = step.board.copy(stack=False)
        child.push(step.move)
        keys[step.number] = growth.add(keys[step.parent], step.move, child)


# ------------------------------------------------------------------ removing
def remove_move(path: AnyPath, side: str, board: chess.Board) -> RepertoireChange:
    """Removes the last move of a line from a side's repertoire, with all positions that only it reached.

    Raises:
      InvalidParameterError: if the side is invalid, or the line has no moves.
      InvalidPositionError: if the repertoire does not have the move.
      StoreError: if the file cannot be written.
    """
    checked_side(side)
    if not board.move_stack:
        raise InvalidParameterError("name a line, whose last move is removed")
    before = board.copy()
    move = before.pop()
    key, san = key_text(before), before.san(move)
    with editing(path) as connection:
        found = load_from(connection, side)
        if move.uci() not in found.moves.get(key, {}):
            raise InvalidPositionError(f"{side}'s repertoire does not have {san} in {fen_of(before)}")
        size = found.size
        del found.moves[key][move.uci()]
        rows.drop_move(connection, side, key, move.uci())
        gone = found.positions.keys() - found.reached()
        rows.drop_positions(connection, side, gone)
        left = sum(len(moves) for key, moves in found.moves.items() if key not in gone)
        return RepertoireChange(side, 0, size - left, left)
