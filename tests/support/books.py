"""Small books, written into the tables by hand."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, field
from pathlib import Path

from graphsearch.position.board import key_text
from graphsearch.store.provenance import EvaluatorIdentity
from graphsearch.store.store import Store

from .positions import after_line

UNIFORM = EvaluatorIdentity("uniform", "", {}, "uniform")
CONFIG = '[book]\nside = "{side}"\nmax_ply = 24\n'


@dataclass
class Handmade:
    """A book in the making: positions by line, moves by position."""

    name: str = "white"
    side: str = "white"
    config: str = ""
    rows: dict[str, dict[str, object]] = field(default_factory=dict)
    moves: list[dict[str, object]] = field(default_factory=list)
    roots: list[str] = field(default_factory=list)
    games: list[tuple[str, str, int]] = field(default_factory=list)

    def put(self, line: str, state: str, value: float | None = None, **columns: object) -> None:
        """Puts a position in by the moves that lead to it from the start."""
        board = after_line(line)
        key = key_text(board)
        empty = {"outside": None, "outside_move": None, "priority": None}
        row = {"key": key, "fen": board.fen(), "ply": board.ply(), "state": state, "value": value}
        self.rows[key] = row | empty | columns

    def root(self, line: str = "") -> None:
        self.roots.append(key_text(after_line(line)))

    def link(self, line: str, san: str, p: float = 0.1, value: float | None = None) -> None:
        board = after_line(line)
        move, after = board.parse_san(san), after_line(f"{line} {san}")
        row = {"key": key_text(board), "move": move.uci(), "san": board.san(move), "child": key_text(after)}
        self.moves.append(row | {"p": p, "value": value})

    def played(self, line: str, san: str, number: int) -> None:
        """Puts in imported games with a move."""
        board = after_line(line)
        self.games.append((key_text(board), board.parse_san(san).uci(), number))

    def write(self, path: Path) -> Path:
        identity = None if path.exists() else UNIFORM
        with Store.open(path, identity=identity, create=True) as store, store.transaction():
            self._write(store.connection)
        return path

    def _write(self, connection: sqlite3.Connection) -> None:
        execute, many = connection.execute, connection.executemany
        config = self.config or CONFIG.format(side=self.side)
        book = execute(
            "INSERT INTO book (name, side, config, created, updated) VALUES (?, ?, ?, 'now', 'now')",
            (self.name, self.side, config),
        ).lastrowid
        many(
            "INSERT INTO book_position (book, key, fen, ply, state, value, outside, outside_move, priority,"
            f" book_run) VALUES ({book}, :key, :fen, :ply, :state, :value, :outside, :outside_move,"
            " :priority, 1)",
            self.rows.values(),
        )
        many(
            "INSERT INTO book_move (book, key, move, san, child, rule, p, n, value, book_run)"
            f" VALUES ({book}, :key, :move, :san, :child, 'own_cp', :p, 1, :value, 1)",
            self.moves,
        )
        many(
            f"INSERT INTO book_root (book, key, fen, origin) VALUES ({book}, ?, ?, 'root')",
            [(key, self.rows[key]["fen"]) for key in self.roots],
        )
        many("INSERT OR REPLACE INTO game_move (key, move, san, white) VALUES (?, ?, '?', ?)", self.games)


def small_book() -> Handmade:
    """Returns a White repertoire of 1. e4 and 1. d4 with some replies, of which leaves wait."""
    book = Handmade()
    book.root()
    book.put("", "open", 0.1, outside=0.02, outside_move="c2c4")
    for first, value in (("e4", 0.1), ("d4", 0.05)):
        book.link("", first, 0.4, value)
    book.put("e4", "open", -0.1, outside=-0.3, outside_move="g7g5")
    book.link("e4", "e5", 0.3, -0.1)
    book.link("e4", "c5", 0.4, -0.12)
    book.put("e4 e5", "leaf", None, priority=3.0)
    book.put("e4 c5", "leaf", 0.12, priority=1.5)
    book.put("d4", "open", -0.05)
    book.link("d4", "d5", 0.5, -0.05)
    book.put("d4 d5", "leaf", 0.05, priority=None)
    return book
