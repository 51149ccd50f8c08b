"""Items of the queue from user input: positions, lines, games, and texts with one item per line."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import chess

from ..errors import InvalidPositionError
from ..position.board import fen_of
from ..position.notation import named_board, play_moves, read_position, start_position
from .queue import NewItem

MOVES_WORD = "moves"  # as in UCI: startpos moves e2e4 e7e5


@dataclass(frozen=True, slots=True)
class GivenItem:
    """The item of one position, line or game.

    Attributes:
      item: None if it could not be read. notes: for the user.
      problem: why there is no item.
    """

    item: NewItem | None
    notes: tuple[str, ...] = ()
    problem: str = ""


def item_of(board: chess.Board, origin: str) -> NewItem:
    """Returns the item of a position with the line on its move stack."""
    moves = tuple(move.uci() for move in board.move_stack)
    return NewItem(fen_of(board.root()), moves, origin)


def from_text(text: str, *, moves: str | None = None) -> GivenItem:
    """Returns the line that begins at `startpos`, a FEN or an EPD line; without moves, the position.

    Raises:
      InvalidPositionError: if there is no such position, or a move is illegal.
    """
    given = read_position(text, moves=moves)
    return GivenItem(item_of(given.board, "given"), given.notes)


def from_games(
    path: Path, *, ply: int | None = None, only: Collection[int] | None = None
) -> Iterator[GivenItem]:
    """Yields the line of each game of a PGN file up to `ply` half-moves; of all, or those that `only` names.

    Raises:
      InvalidPositionError: if the file is no PGN, or lacks one of these games.
    """
    from ..position.pgn_position import read_games

    found = set()
    for game in read_games(path, ply=ply, only=only):
        found.add(game.game)
        if game.board is None:
            yield GivenItem(None, game.notes, game.problem)
        else:
            yield GivenItem(item_of(game.board, f"{path.name}, game {game.game}"), game.notes)
    for number in sorted(set(only or ()) - found):
        raise InvalidPositionError(f"{path} has no game {number}")
    if not found:
        raise InvalidPositionError(f"{path} has no games")


def from_lines(lines: Iterable[str]) -> Iterator[GivenItem]:
    """Yields the item of each line of a text: a FEN, an EPD line, or moves from the start position.

    `POSITION moves LIST`, as in UCI, is a line from there. Blank lines and lines that begin with # are
    skipped.

    >>> [given.item.moves for given in from_lines(["# two", "1. e4 e5", "startpos moves d2d4"])]
    [('e2e4', 'e7e5'), ('d2d4',)]
    """
    for number, line in enumerate(lines, 1):
        text = line.strip().lstrip("\ufeff")
        if not text or text.startswith("#"):
            continue
        try:
            yield GivenItem(item_of(_board(text), f"line {number}"))
        except InvalidPositionError as error:
            yield GivenItem(None, problem=f"line {number}: {error}")


def _board(text: str) -> chess.Board:
    words = text.removeprefix("position ").removeprefix("fen ").split()
    place = words.index(MOVES_WORD) if MOVES_WORD in words else len(words)
    position, moves = words[:place], words[place + 1 :]
    if "/" in words[0] or start_position(words[0]):
        board = named_board(" ".join(position))
    else:
        board, moves = chess.Board(), words
    play_moves(board, " ".join(moves))
    return board
