"""Positions of a BOOK.toml: roots from FENs, lines and games, and positions with forced or excluded moves."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import chess

from ..errors import InvalidPositionError
from ..position.board import fen_of, key_of, terminal_kind
from ..position.notation import named_board, play_moves, read_moves
from .config import Root, Ruling
from .toml_table import Table, shown

MAX_GAME = 10**9
MAX_PLY = 1000
ALL = "all"


def located(folder: Path, name: str) -> Path:
    """Returns the absolute path of a file name, which is relative to a folder; `~` is a home."""
    return (folder / os.path.expanduser(name)).absolute()  # noqa: PTH111 (pathlib's fails where there is none)


def read_line(table: Table) -> chess.Board | None:
    """Returns the position that `fen` (the start position unless given) and `moves` of a table name."""
    fen, moves = table.text("fen"), table.text("moves", 'a text, such as "1. e4 e5"')
    if table.get("fen") is not None and fen is None:
        return None
    try:
        board = named_board(fen.strip()) if fen else chess.Board()
    except InvalidPositionError as error:
        table.fault("fen", str(error))
        return None
    try:
        play_moves(board, moves or "")
    except InvalidPositionError as error:
        table.fault("moves", str(error))
        return None
    return board.copy(stack=False)


# -------------------------------------------------------------------- roots
def read_root(table: Table, number: int, folder: Path, max_ply: int | None) -> Iterator[Root]:
    """Yields the roots of one `[[root]]`; what is wrong with it is reported, and not yielded.

    Args:
      folder: relative paths begin there.
      max_ply: of the book; None: unknown, so that it is not compared.
    """
    if "pgn" in table:
        yield from _from_games(table, number, folder, max_ply)
        return
    for key in ("game", "games", "ply"):
        if key in table:
            table.fault(key, "needs pgn, the name of a file of games")
    board = read_line(table)
    if board is None:
        return
    if max_ply is not None and board.ply() >= max_ply:
        key = "moves" if "moves" in table else "fen"
        table.fault(key, f"the position is at ply {board.ply()}, but max_ply is {max_ply}: it must be before")
        return
    _note_end(table, board)
    yield Root(board, f"root {number}")


def _note_end(table: Table, board: chess.Board) -> None:
    if terminal_kind(board):
        table.note("moves", f"the game is over at {fen_of(board)}; nothing can be searched there")


def _from_games(table: Table, number: int, folder: Path, max_ply: int | None) -> Iterator[Root]:
    for key in ("fen", "moves"):
        if key in table:
            table.fault(key, "cannot be given with pgn; use ply to cut a game off")
    name, ply = table.text("pgn", "the name of a PGN file"), table.whole("ply", 0, MAX_PLY)
    games = _which(table)
    path = located(folder, name or "")
    if name is not None and not path.exists():
        table.fault("pgn", f"there is no file {path} (looked for in the folder of this file)")
    if max_ply is not None and ply is not None and ply >= max_ply:
        table.fault("ply", f"must be before max_ply, which is {max_ply}, not {ply}")
    if table.faults:  # a file may be long: it is read when nothing is wrong
        return
    yield from _Games(table, number, path, ply, max_ply).roots(games)


def _which(table: Table) -> frozenset[int] | None:
    """Returns the numbers of the games that are meant, None for all."""
    if "game" in table and "games" in table:
        table.fault("games", 'give game or games, not both: game = 3, games = [1, 2] or games = "all"')
    if table.get("games") == ALL:
        return None
    if "games" not in table:
        return frozenset([table.whole("game", 1, MAX_GAME) or 1])
    items = table.items("games", '"all" or a list of numbers, such as [1, 2]') or []
    for path, item in items:
        if not _is_game(item):
            table.faults.add(path, f"{table.title} games: a game is a number from 1, not {shown(item)}")
    return frozenset(item for _, item in items if _is_game(item))


def _is_game(item: Any) -> bool:
    return isinstance(item, int) and not isinstance(item, bool) and 1 <= item <= MAX_GAME


class _Games:
    """Reads the games of one root's file, one at a time, and counts what it leaves out."""

    def __init__(self, table: Table, number: int, path: Path, ply: int | None, max_ply: int | None) -> None:
        self._table = table
        self._origin = f"root {number}: {path.name}"
        self._path = path
        self._ply = ply
        self._max_ply = max_ply
        self._seen: set[int] = set()  # keys
        self._found = self._short = self._same = self._late = self._last = 0
        self._broken: list[str] = []

    def roots(self, games: frozenset[int] | None) -> Iterator[Root]:
        """Yields the roots; `games` are the numbers of those that are meant, None for all."""
        from ..position.pgn_position import read_games

        try:
            for given in read_games(self._path, ply=self._ply, only=games):
                self._last = given.game
                for note in given.notes:
                    self._table.note("pgn", note)
                board = given.board
                if board is None:
                    self._broken.append(given.problem)
                elif self._is_wanted(board, given.length):
                    yield Root(board.copy(stack=False), f"{self._origin}, game {given.game}")
        except InvalidPositionError as error:
            self._table.fault("pgn", str(error))
            return
        self._report(games)

    def _is_wanted(self, board: chess.Board, length: int) -> bool:
        """Returns whether a game's position is a root; counts why not."""
        self._found += 1
        if self._ply is not None and length < self._ply:
            self._short += 1
            return False
        if self._max_ply is not None and board.ply() >= self._max_ply:
            self._late += 1
            return False
        if key_of(board) in self._seen:
            self._same += 1
            return False
        self._seen.add(key_of(board))
        return True

    def _report(self, games: frozenset[int] | None) -> None:
        """Says what was left out: in a file of which all games are meant by notes, else as faults."""
        table, all_read = self._table, self._found + len(self._broken)
        if games is None and not self._seen:
            table.fault("pgn", f"{self._path} gives no position: {self._reasons() or 'it has no games'}")
            return
        missing = len(games) - all_read if games is not None else 0
        if missing and games is not None:
            table.fault("pgn", f"{self._path} has no game {max(games)}; game {self._last} is the last read")
        if games is not None and (self._broken or self._short or self._late):
            table.fault("pgn", self._reasons())
        elif self._reasons():
            table.note("pgn", f"{self._path}: left out of {all_read:,} games: {self._reasons()}")
        if self._same:
            table.note("pgn", f"{self._path}: {self._same:,} games lead to a position that another gave")

    def _reasons(self) -> str:
        reasons = []
        if self._broken:
            reasons.append(f"{len(self._broken):,} unreadable (the first: {self._broken[0]})")
        if self._short:
            reasons.append(f"{self._short:,} shorter than {self._ply} plies")
        if self._late:
            text = f"{self._late:,} whose position is at ply {self._max_ply} (max_ply) or later"
            reasons.append(text if self._ply is not None else f"{text}; use ply to cut games off")
        return ", ".join(reasons)


# ------------------------------------------------------------------ rulings
def read_ruling(table: Table, max_ply: int | None) -> Ruling | None:
    """Returns what a `[[force]]` or `[[exclude]]` decides; what is wrong is reported."""
    board = read_line(table)
    items = table.items("play", 'a list of moves, such as ["c4", "g1f3"]')
    if items is None:
        if "play" not in table:
            table.faults.add(table.path, f'{table.title} needs play, a list of moves, such as play = ["c4"]')
        return None
    moves = []
    for path, item in items if board else []:
        assert board
        if not isinstance(item, str):
            table.faults.add(path, f'{table.title} play: a move is a text, such as "c4", not {shown(item)}')
            continue
        try:
            moves += read_moves(board, item)
        except InvalidPositionError as error:
            table.faults.add(path, f"{table.title} play: {error}")
    if board is None or not moves:
        return None
    if max_ply is not None and board.ply() >= max_ply:
        table.note("play", f"has no effect: the position is at ply {board.ply()}, max_ply is {max_ply}")
    only = table.allows("only") and table.flag("only")
    return Ruling(board=board, moves=tuple(dict.fromkeys(moves)), only=bool(only), line=table.line())


def merged(rulings: list[Ruling]) -> tuple[Ruling, ...]:
    """Returns the rulings with those of one position made one: all its moves, `only` if one says so."""
    found: dict[int, Ruling] = {}
    for ruling in rulings:
        key = key_of(ruling.board)
        before = found.get(key)
        if before is not None:
            moves = tuple(dict.fromkeys([*before.moves, *ruling.moves]))
            only = before.only or ruling.only
            ruling = Ruling(board=before.board, moves=moves, only=only, line=before.line)
        found[key] = ruling
    return tuple(found.values())
