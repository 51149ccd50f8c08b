"""One position out of a PGN file: a game's mainline, strictly read.

python-chess reads PGN forgivingly: it drops words it cannot read and what follows an illegal move.
A search of the wrong position is worse than none, so here whatever it would drop is an error or a note.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

import chess
import chess.pgn

from .errors import InvalidPositionError

_COMMENT = re.compile(r"\{[^}]*\}|;[^\n]*|^%[^\n]*", re.MULTILINE)
_VARIATION = re.compile(r"\([^()]*\)")
_MOVE = r"[PNBRQK]?[a-h]?[1-8]?[-x]?[a-h][1-8](?:=?[nbrqkNBRQK])?|O-O(?:-O)?|0-0(?:-0)?|--|Z0"
_WORD = re.compile(rf"(?:\d+\.*|\.+)?(?:{_MOVE})?[+#]*(?:[!?]|\$\d+)*|\*|1-0|0-1|1/2(?:-1/2)?|e\.?p\.?|\W+")
_GRAPH_FILE = b"SQLite format 3\0"


@dataclass(slots=True)
class _Game:
    """What a reader saw of one game: its mainline, and where python-chess stumbled."""

    board: chess.Board = field(default_factory=chess.Board)
    headers: chess.pgn.Headers = field(default_factory=lambda: chess.pgn.Headers({}))
    error: str | None = None

    @property
    def plies(self) -> int:
        return len(self.board.move_stack)


class _MainlineReader(chess.pgn.BaseVisitor[_Game]):
    """Collects the mainline; variations are passed over, errors are kept instead of logged."""

    def __init__(self) -> None:
        self.game = _Game()

    def begin_headers(self) -> chess.pgn.Headers:
        return self.game.headers

    def visit_header(self, tagname: str, tagvalue: str) -> None:
        self.game.headers[tagname] = tagvalue

    def begin_variation(self) -> chess.pgn.SkipType:
        return chess.pgn.SKIP

    def visit_board(self, board: chess.Board) -> None:
        self.game.board = board

    def handle_error(self, error: Exception) -> None:
        self.game.error = self.game.error or str(error)

    def result(self) -> _Game:
        return self.game


class _Lines:
    """A text handle that remembers what was read since `start`."""

    def __init__(self, handle: TextIO) -> None:
        self._handle = handle
        self.lines: list[str] = []

    def readline(self) -> str:
        line = self._handle.readline()
        self.lines.append(line)
        return line


def read_pgn(
    path: Path, *, game: int | None = None, ply: int | None = None
) -> tuple[chess.Board, tuple[str, ...]]:
    """Returns the position after `ply` half-moves (all unless given) of a game's mainline, and notes.

    Raises:
      InvalidPositionError: if the file, the game or the ply is not there, the game is a variant,
        or its moves up to there cannot be read.
    """
    number = 1 if game is None else game
    try:
        _refuse_other_files(path)
        with path.open(encoding="utf-8-sig", errors="replace") as handle:
            _skip_games(handle, path, number - 1)
            lines = _Lines(handle)
            found = chess.pgn.read_game(lines, Visitor=_MainlineReader)  # type: ignore[call-overload]
            more = game is None and chess.pgn.skip_game(handle)
    except OSError as error:
        raise InvalidPositionError(f"cannot read {path}: {error.strerror or error}") from None
    where = f"game {number} of {path}"
    notes = [f"{path} holds more games; this is the first (--game chooses another)"] if more else []
    return _position_of(found, _move_text(lines.lines), where, ply, notes), tuple(notes)


@dataclass(frozen=True, slots=True)
class GamePosition:
    """What a game of a PGN file gives.

    Attributes:
      game: its number in the file, from 1.
      board: the position, its move stack the game up to there; None: it could not be read.
      notes: what the person should know. problem: why there is no position.
      length: plies of its mainline that could be read; 0 where there is no position.
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

    A game that breaks off before that is a problem; one that ends before that gives its last position.

    Args:
      only: numbers of games; None: all.

    Raises:
      InvalidPositionError: if the file cannot be read, or is none.
    """
    try:
        _refuse_other_files(path)
        with path.open(encoding="utf-8-sig", errors="replace") as handle:
            yield from _games(handle, path, ply, only)
    except OSError as error:
        raise InvalidPositionError(f"cannot read {path}: {error.strerror or error}") from None


def _games(
    handle: TextIO, path: Path, ply: int | None, only: Collection[int] | None
) -> Iterator[GamePosition]:
    last = max(only, default=0) if only is not None else None
    for number in itertools.count(1):
        if last is not None and number > last:
            return
        if only is not None and number not in only:
            if not chess.pgn.skip_game(handle):
                return
            continue
        lines = _Lines(handle)
        found = chess.pgn.read_game(lines, Visitor=_MainlineReader)  # type: ignore[call-overload]
        if found is None:
            return
        yield _position_in(found, _move_text(lines.lines), number, path, ply)


def _position_in(game: _Game, text: str, number: int, path: Path, ply: int | None) -> GamePosition:
    notes: list[str] = []
    length = game.plies
    wanted = ply if ply is None or game.error else min(ply, length)
    try:
        board = _position_of(game, text, f"game {number} of {path}", wanted, notes)
    except InvalidPositionError as error:
        return GamePosition(number, None, tuple(notes), str(error))
    return GamePosition(number, board, tuple(notes), length=length)


def _refuse_other_files(path: Path) -> None:
    if path.is_dir():
        raise InvalidPositionError(f"{path} is a directory, not a PGN file")
    if not path.is_file():
        return  # a pipe cannot be read twice
    with path.open("rb") as handle:
        head = handle.read(4096)
    if head.startswith(_GRAPH_FILE):
        raise InvalidPositionError(f"{path} is a database, not a PGN file; a graph file goes with --store")
    if b"\0" in head:
        raise InvalidPositionError(f"{path} is not a text file, so it is no PGN file")


def _skip_games(handle: TextIO, path: Path, count: int) -> None:
    for skipped in range(count):
        if not chess.pgn.skip_game(handle):
            raise InvalidPositionError(f"{path} holds {skipped} games; there is no game {count + 1}")


def _move_text(lines: list[str]) -> str:
    """Returns the lines after the headers."""
    start = 0
    while start < len(lines) and re.match(r"\ufeff?\[|\s*$|%|;", lines[start]):
        start += 1
    return "".join(lines[start:])


def _position_of(game: _Game | None, text: str, where: str, ply: int | None, notes: list[str]) -> chess.Board:
    if game is None:
        raise InvalidPositionError(f"there is no {where}; it holds fewer")
    _refuse_variants(game, where)
    odd = _unread_words(text)
    if not game.headers and not game.plies and not re.search(r"\*|1-0|0-1|1/2", text):
        raise InvalidPositionError(f"there is no {where}: it has neither headers nor moves")
    wanted = _wanted_ply(game, where, ply)
    if game.error and wanted == game.plies and ply is None:
        raise InvalidPositionError(f"{where} breaks off after {game.plies} plies: {game.error}")
    if game.error:
        notes.append(f"{where} breaks off after {game.plies} plies: {game.error}")
    _report_unread(odd, where, notes)
    return _cut(game.board, wanted, where)


def _refuse_variants(game: _Game, where: str) -> None:
    name = game.headers.get("Variant", "")
    try:
        standard = game.headers.variant() is chess.Board and not game.headers.is_chess960()
    except ValueError:
        standard = False
    if name and not standard:
        raise InvalidPositionError(f"{where} is {name}; only standard chess can be searched")
    if game.board.chess960:
        raise InvalidPositionError(f"{where} has Chess960 castling; only standard chess can be searched")


def _wanted_ply(game: _Game, where: str, ply: int | None) -> int:
    if ply is None:
        return game.plies
    if ply > game.plies and game.error:
        raise InvalidPositionError(f"{where} breaks off after {game.plies} plies: {game.error}")
    if ply > game.plies:
        raise InvalidPositionError(f"{where} has {game.plies} plies; there is no ply {ply}")
    return ply


def _unread_words(text: str) -> list[str]:
    """Returns the words of the mainline that are no move, number, comment, glyph or result."""
    text, found = _COMMENT.sub(" ", text), 1
    while found:
        text, found = _VARIATION.subn(" ", text)
    return [word for word in text.split() if not _WORD.fullmatch(word)]


def _report_unread(words: list[str], where: str, notes: list[str]) -> None:
    """Refuses words that may have been meant as moves; notes the others, such as `resigns`."""
    for word in words:
        if re.search(r"\d", word):
            raise InvalidPositionError(f"{where} holds the word {word!r}, which is no move")
    if words:
        notes.append(f"{where}: passed over {', '.join(words[:5])}{', ...' if len(words) > 5 else ''}")


def _cut(board: chess.Board, plies: int, where: str) -> chess.Board:
    while len(board.move_stack) > plies:
        board.pop()
    if any(not move for move in board.move_stack):
        raise InvalidPositionError(f"{where} holds a null move (--), which no game contains")
    return board
