"""Reads positions from the mainlines of PGN games, strictly.

Searching a wrong position is worse than not searching, so anything unreadable is an error or a note.
"""

from __future__ import annotations

import io
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path

import chess

from ..base import limits
from ..base.errors import InputFileError, InvalidPositionError, UnusableFileError
from .pgn import GameText, ReadGame, cut_games, read_game

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
    games = cut_games(lines)
    first = next(games, None)
    if first is None:
        raise UnusableFileError(f"{path} has no games; it has neither headers nor moves")
    found = next(islice(chain([first], games), number - 1, None), None)
    if found is None:
        raise InvalidPositionError(f"there is no {where}: it holds fewer")
    more = game is None and next(games, None) is not None
    notes = [f"{path} holds more games; this is the first (--game chooses another)"] if more else []
    return _played(read_game(found), where, ply, notes)[0], tuple(notes)


@dataclass(frozen=True, slots=True)
class GamePosition:
    """A position from a game of a PGN file.

    Attributes:
      game: its number in the file, from 1. headers: its tags.
      board: the position, with the game so far as its move stack; None if it could not be read.
      notes: remarks for the user. problem: why there is no position, or no more moves.
      length: number of readable plies of the mainline; 0 without a position.
    """

    game: int
    headers: dict[str, str]
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
        for number, game in enumerate(cut_games(lines), start=1):
            if last is not None and number > last:
                return
            if only is None or number in only:
                yield _position_in(game, number, str(path), ply)


def read_game_texts(lines: Iterable[str], name: str) -> Iterator[GamePosition]:
    """Yields the last position of each game of a PGN text, and the problem behind it.

    Args:
      lines: each with its end. name: of the text, for messages.

    >>> lines = ['[White "A"]\\n', "\\n", "1. e4 e5 *"]
    >>> [(found.headers["White"], found.length) for found in read_game_texts(lines, "a text")]
    [('A', 2)]
    """
    for number, game in enumerate(cut_games(lines), start=1):
        found = _position_in(game, number, name, None)
        read = read_game(game)
        if found.problem and read.start is not None and not read.variant:
            board = read.start.copy()
            for move in read.moves[: read.error_moves]:
                board.push(move)
            found = replace(found, board=board, length=len(board.move_stack))
        yield found


def _position_in(text: GameText, number: int, name: str, ply: int | None) -> GamePosition:
    notes: list[str] = []
    game = read_game(text)
    try:
        board, length = _played(game, f"game {number} of {name}", ply, notes, at_most=True)
    except InvalidPositionError as error:
        return GamePosition(number, game.headers, None, tuple(notes), str(error))
    return GamePosition(number, game.headers, board, tuple(notes), length=length)


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
    game: ReadGame, where: str, ply: int | None, notes: list[str], *, at_most: bool = False
) -> tuple[chess.Board, int]:
    """Returns the position after `ply` half-moves, and the number of half-moves that the game has.

    Args:
      notes: list to append remarks to.
      at_most: return the last position of a game with fewer half-moves, instead of an error.
    """
    if game.variant:
        raise UnusableFileError(
            f"{where} is {game.variant}; only standard chess and Chess960 can be searched"
        )
    moves = game.moves[: game.error_moves] if game.error else game.moves
    length = f"{len(moves)} {'ply' if len(moves) == 1 else 'plies'}"
    error, line = game.error, game.error_line
    if game.null_line and not error:
        error, line = "a null move (--), which no game contains", game.null_line
    broken = f"{where}, line {line}, breaks off after {length}: {error}"
    if game.start is None or (error and (ply is None or ply > len(moves))):
        raise UnusableFileError(broken)
    if ply is not None and ply > len(moves) and not at_most:
        raise InvalidPositionError(f"{where} has {length}; there is no ply {ply}")
    notes += [broken] if error else []
    notes += [f"{where}, line {number}: {text}" for number, text in game.remarks[:5]]
    notes += [f"{where}: {text}" for text in game.passed_over()]
    board = game.start
    for move in moves[:ply]:
        board.push(move)
    return board, len(moves)
