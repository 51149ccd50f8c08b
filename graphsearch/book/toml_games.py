"""Roots of a book out of the games of a PGN file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path as FilePath

import chess

from ..errors import InvalidPositionError
from ..position.board import key_text
from .config import Root
from .toml_faults import Faults
from .toml_lines import Path
from .toml_tables import RootTable


class GameRoots:
    """Reads the games of one root's file, one at a time, and counts the games that give no root."""

    def __init__(self, table: RootTable, path: Path, max_ply: int, faults: Faults) -> None:
        """Makes a reader; `path` is that of the table in the TOML file."""
        assert table.pgn is not None
        self._table = table
        self._file = FilePath(table.pgn)
        self._key: Path = (*path, "pgn")
        self._max_ply = max_ply
        self._faults = faults
        self._seen: set[str] = set()  # keys
        self._found = self._short = self._same = self._late = self._last = 0
        self._broken: list[str] = []

    def read(self, origin: str) -> Iterator[Root]:
        """Yields the roots; adds faults and notes about the games that give none."""
        from ..position.pgn_position import read_games

        try:
            for given in read_games(self._file, ply=self._table.ply, only=self._table.numbers()):
                self._last = given.game
                for note in given.notes:
                    self._faults.note(self._key, note)
                if given.board is None:
                    self._broken.append(given.problem)
                elif self._is_wanted(given.board, given.length):
                    board = given.board.copy(stack=False)
                    yield Root(board, f"{origin}: {self._file.name}, game {given.game}")
        except InvalidPositionError as error:
            self._faults.add(self._key, str(error))
            return
        self._report()

    def _is_wanted(self, board: chess.Board, length: int) -> bool:
        """Returns whether a game's position is a root; counts why not."""
        self._found += 1
        key = key_text(board)
        if self._table.ply is not None and length < self._table.ply:
            self._short += 1
        elif board.ply() >= self._max_ply:
            self._late += 1
        elif key in self._seen:
            self._same += 1
        else:
            self._seen.add(key)
            return True
        return False

    def _report(self) -> None:
        """Reports games that give no root: as notes if all games are meant, else as faults."""
        games, all_read = self._table.numbers(), self._found + len(self._broken)
        if games is None and not self._seen:
            self._faults.add(
                self._key, f"{self._file} gives no position: {self._reasons() or 'it has no games'}"
            )
            return
        if games is not None and len(games) > all_read:
            self._faults.add(
                self._key, f"{self._file} has no game {max(games)}; game {self._last} is the last read"
            )
        if games is not None and (self._broken or self._short or self._late):
            self._faults.add(self._key, self._reasons())
        elif self._reasons():
            self._note(f"left out of {all_read:,} games: {self._reasons()}")
        if self._same:
            self._note(f"{self._same:,} games lead to a position that another gave")

    def _note(self, text: str) -> None:
        self._faults.note(self._key, f"{self._file}: {text}")

    def _reasons(self) -> str:
        reasons = []
        if self._broken:
            reasons.append(f"{len(self._broken):,} unreadable (the first: {self._broken[0]})")
        if self._short:
            reasons.append(f"{self._short:,} shorter than {self._table.ply} plies")
        if self._late:
            text = f"{self._late:,} whose position is at ply {self._max_ply} (max_ply) or later"
            reasons.append(text if self._table.ply is not None else f"{text}; use ply to cut games off")
        return ", ".join(reasons)
