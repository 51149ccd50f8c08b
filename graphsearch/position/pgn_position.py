"""Reads positions from the mainlines of PGN games, strictly.

Searching a wrong position is worse than not searching, so anything unreadable is an error or a note.
"""

from __future__ import annotations

import io
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

import chess

from ..base import limits
from ..base.errors import InputFileError, InvalidPositionError, UnusableFileError
from .board import board_of
from .pgn_text import NULL_MOVES, GameReader, PgnGame, variant_of

SQLITE = b"SQLite format 3\0"  # begins a graph file


def read_pgn(
    lines: Iterable[str], path: Path, *, game: int | None = None, ply: int | None = None
) -> tuple[chess.Board, tuple[str, ...]]:
    """Returns the position after `ply` half-moves (default: all) of a game's mainline, and notes.

    Args:
      lines: those of the file, as `open_text` yields them. path: its name, for messages.

    Raises:
      InvalidPositionError: if the game or the ply does not exist.
      UnusableFileError: if there are no games, the game is a variant, or a move up to the ply cannot be read.
    """
    number = 1 if game is None else game
    where = f"game {number} of {path}"
    reader = GameReader(lines)
    games = iter(reader)
    first = next(games, None)
    if first is None:
        reason = "; it has neither headers nor moves" if reader.strays else ""
        raise UnusableFileError(f"{path} has no games{reason}")
    found = next(islice(chain([first], games), number - 1, None), None)
    if found is None:
        raise InvalidPositionError(f"there is no {where}: it holds fewer")
    more = game is None and next(games, None) is not None
    notes = [f"{path} holds more games; this is the first (--game chooses another)"] if more else []
    return _played(found, where, ply, notes)[0], tuple(notes)


@dataclass(frozen=True, slots=True)
class GamePosition:
    """A position from a game of a PGN file.

    Attributes:
      game: its number in the file, from 1.
      board: the position, with the game so far as its move stack; None if it could not be read.
      notes: remarks for the user. problem: the reason why there is no position.
      length: number of readable plies of the mainline; 0 without a position.
    """

    game: int
    board: chess.Board | None
    notes: tuple[str, ...] = ()
    problem: str = ""
    length: int = 0


def read_games(
    path: Path, *, ply: int | None = None, only: Collection[int] | None = None
) -> Iterator[GamePosition]:
    """Yields the position after at most `ply` half-moves of each game's mainline, game by game.

    A game with an unreadable move before `ply` is a problem; a shorter game gives its last position.

    Args:
      only: numbers of games; None: all.

    Raises:
      InvalidPositionError: if the file cannot be read, or is not PGN.
    """
    last = None if only is None else max(only, default=0)
    with open_text(path) as lines:
        for number, game in enumerate(GameReader(lines), start=1):
            if last is not None and number > last:
                return
            if only is None or number in only:
                yield _position_in(game, number, path, ply)


def read_game_texts(lines: Iterable[str], name: str) -> Iterator[tuple[PgnGame, GamePosition]]:
    """Yields each game of a PGN text, and its last position or its problem.

    Args:
      lines: each with its end. name: of the text, for messages.

    >>> lines = ['[White "A"]\\n', "\\n", "1. e4 e5 *"]
    >>> [(game.headers["White"], found.length) for game, found in read_game_texts(lines, "a text")]
    [('A', 2)]
    """
    for number, game in enumerate(GameReader(lines), start=1):
        yield game, _position_in(game, number, Path(name), None)


def _position_in(game: PgnGame, number: int, path: Path, ply: int | None) -> GamePosition:
    notes: list[str] = []
    try:
        board, length = _played(game, f"game {number} of {path}", ply, notes, at_most=True)
    except InvalidPositionError as error:
        return GamePosition(number, None, tuple(notes), str(error))
    return GamePosition(number, board, tuple(notes), length=length)


@contextmanager
def open_text(path: Path) -> Iterator[Iterator[str]]:
    """Opens a PGN file, another text file or a pipe; yields an iterator over its lines.

    Raises:
      InvalidPositionError: if it cannot be read, or is a graph file.
      UnusableFileError: if it is not text.
    """
    try:
        with limits.open_file(path, piped=True) as file:
            _refuse_other_files(path, file)
            yield limits.text_lines(file, str(path))
    except InputFileError as error:
        raise InvalidPositionError(str(error).replace("expected a file", "not a PGN file")) from None
    except OSError as error:
        raise InvalidPositionError(f"cannot read {path}: {error.strerror or error}") from None


def _refuse_other_files(path: Path, file: io.BufferedReader) -> None:
    head = file.peek(4096)[:4096]
    if head.startswith(SQLITE):
        raise InvalidPositionError(f"{path} is a database, not a PGN file; give a graph file with --store")
    if b"\0" in head:
        raise UnusableFileError(f"{path} is not a text file, so it is not a PGN file")


def _played(
    game: PgnGame, where: str, ply: int | None, notes: list[str], *, at_most: bool = False
) -> tuple[chess.Board, int]:
    """Returns the position after `ply` half-moves, and the number of half-moves that the game has.

    Args:
      notes: list to append remarks to.
      at_most: return the last position of a game with fewer half-moves, instead of an error.
    """
    variant = variant_of(game.headers)
    if variant:
        raise UnusableFileError(f"{where} is {variant}; only standard chess and Chess960 can be searched")
    if game.error:
        raise UnusableFileError(f"{where}, line {game.error_line}: {game.error}")
    board = _start_board(game, where)
    error = _play(game, board)
    plies = len(board.move_stack)
    length = f"{plies} {'ply' if plies == 1 else 'plies'}"
    if error and (ply is None or ply > plies):
        raise UnusableFileError(f"{where} breaks off after {length}: {error}")
    if ply is not None and ply > plies and not at_most:
        raise InvalidPositionError(f"{where} has {length}; there is no ply {ply}")
    if error:
        notes.append(f"{where} breaks off after {length}: {error}")
    if game.strays:
        more = ", ..." if len(game.strays) > 5 else ""
        notes.append(f"{where}: passed over {', '.join(game.strays[:5])}{more}")
    while ply is not None and len(board.move_stack) > ply:
        board.pop()
    return board, plies


def _start_board(game: PgnGame, where: str) -> chess.Board:
    try:
        return board_of(game.headers.get("FEN", chess.STARTING_FEN))
    except ValueError as error:
        raise UnusableFileError(f"{where} breaks off after 0 plies: {error}") from None


def _play(game: PgnGame, board: chess.Board) -> str:
    """Plays the moves of a game up to the first bad one; returns the error, empty if there is none."""
    for word in game.moves:
        if word in NULL_MOVES:
            return "a null move (--), which no game contains"
        try:
            board.push(board.parse_san(word))
        except ValueError as error:
            return str(error)
    return ""
