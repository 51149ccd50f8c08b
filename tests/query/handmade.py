"""Small graphs and a book written by hand, and what an oracle needs of them."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import chess
import numpy as np

from graphsearch.position.board import NOT_TERMINAL, key_of, key_text, legal_moves, pack, terminal_kind
from graphsearch.store.provenance import EvaluatorIdentity
from graphsearch.store.record import Edge, NodeRecord
from graphsearch.store.record_kernel import TERMINAL_FLAGS
from graphsearch.store.store import Store

from ..store.records import filled
from ..support.positions import after_line

Edges = Mapping[str, tuple[int, float]]  # SAN -> (n, q)

# 1. e4 is visited most, 1. d4 is worth more; 1. e4 e5 2. Nf3 and 1. Nf3 e5 2. e4 are one position
LINES: dict[str, Edges | None] = {
    "": {"e4": (60, 0.1), "d4": (30, 0.3), "Nf3": (20, 0.05)},
    "e4": {"e5": (40, -0.15), "c5": (19, 0.0)},
    "e4 e5": {"Nf3": (39, 0.2)},
    "e4 e5 Nf3": {"Nc6": (50, -0.1)},
    "e4 e5 Nf3 Nc6": None,
    "d4": {"d5": (29, -0.3)},
    "Nf3": {"e5": (19, 0.1)},
    "Nf3 e5": {"e4": (18, 0.2)},
}


def node(board: chess.Board, edges: Edges | None = None, v: float = 0.0) -> NodeRecord:
    """Returns a record with these visited moves; the more visits, the higher their P."""
    kind = terminal_kind(board)
    moves = legal_moves(board) if kind == NOT_TERMINAL else []
    ranked = sorted(edges or {}, key=lambda san: -(edges or {})[san][0])
    codes = bytearray(10 for _ in moves)
    for k, san in enumerate(ranked):
        codes[moves.index(board.parse_san(san))] = 60 - k
    numbers = [Edge((edges or {})[san][0], 0, float(np.float32((edges or {})[san][1]))) for san in ranked]
    words = tuple(int(word) for word in pack(board))
    return NodeRecord(words, v, 0, 1, TERMINAL_FLAGS[kind], bytes(codes), tuple(numbers))


def graph_file(path: Path, lines: Mapping[str, Edges | None], fen: str = chess.STARTING_FEN) -> Path:
    """Returns a new file with the positions after these lines, the first of which is its root."""
    records = [node(after_line(line, fen), edges) for line, edges in lines.items()]
    filled(path, records)
    with Store.open(path) as store:
        root = after_line(next(iter(lines)), fen)
        store.record_root(f"{key_of(root):016x}", root.fen(), records[0].visits)
    return path


BOOK_POSITIONS = (  # line, state, value, value and move outside the book, priority
    ("", "open", 0.1, 0.02, "c2c4", None),
    ("e4", "open", -0.1, -0.3, "g7g5", None),
    ("e4 e5", "leaf", None, None, None, 3.0),
    ("e4 c5", "leaf", 0.12, None, None, 1.5),
    ("d4", "open", -0.05, None, None, None),
    ("d4 d5", "leaf", 0.05, None, None, None),
)
BOOK_MOVES = (  # line, P and value of its last move
    ("e4", 0.4, 0.1),
    ("d4", 0.4, 0.05),
    ("e4 e5", 0.3, -0.1),
    ("e4 c5", 0.4, -0.12),
    ("d4 d5", 0.5, -0.05),
)
BOOK_CONFIG = '[book]\nside = "white"\nmax_ply = 24\n'


def book_file(path: Path, config: str = BOOK_CONFIG, name: str = "white", **games: int) -> Path:
    """Writes a White book of 1. e4 and 1. d4 with some replies, of which leaves wait, into a file.

    Args:
      path: of the file, which is made if it is not there.
      games: numbers of imported games by line, such as `e4_c6`.
    """
    identity = None if path.exists() else EvaluatorIdentity("uniform", "", {}, "uniform")
    Store.open(path, identity=identity, create=True).close()
    values = {line: value for line, _, value, *_ in BOOK_POSITIONS}
    book = add_book(path, name, "white", [chess.STARTING_FEN], values, config)
    execute(
        path,
        "UPDATE book_position SET state = ?, outside = ?, outside_move = ?, priority = ?"
        f" WHERE book = {book} AND key = ?",
        [(state, *outside, key_text(after_line(line))) for line, state, _, *outside in BOOK_POSITIONS],
    )
    execute(
        path,
        f"UPDATE book_move SET p = ?, value = ? WHERE book = {book} AND key = ? AND move = ?",
        [(*numbers, *last_move(line)[:2]) for line, *numbers in BOOK_MOVES],
    )
    played = [(*last_move(line.replace("_", " ")), number) for line, number in games.items()]
    execute(path, "INSERT INTO game_move (key, move, san, white) VALUES (?, ?, ?, ?)", played)
    return path


def execute(path: Path, statement: str, rows: Sequence[Sequence[Any]]) -> None:
    """Executes a statement of SQL for each row, in one transaction."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.executemany(statement, rows)


def add_book(
    path: Path, name: str, side: str, fens: Sequence[str], lines: Mapping[str, float | None], config: str = ""
) -> int:
    """Writes a book: its roots, and lines in SAN each with the value of the position behind it.

    Returns its number.
    """
    with closing(sqlite3.connect(path)) as connection, connection:
        insert = "INSERT INTO book (name, side, config, created, updated) VALUES (?, ?, ?, '', '')"
        book = connection.execute(insert, (name, side, config)).lastrowid or 0
    boards = [chess.Board(fen) for fen in fens]
    positions: dict[str, tuple[str, int, float | None]] = {
        key_text(b): (b.fen(), b.ply(), None) for b in boards
    }
    execute(
        path,
        "INSERT INTO book_root (book, key, fen, origin) VALUES (?, ?, ?, ?)",
        [(book, key_text(b), b.fen(), f"root {k}") for k, b in enumerate(boards, 1)],
    )
    moves: dict[tuple[str, str], tuple[str, str]] = {}
    for line, value in lines.items():
        board = boards[0].copy()
        for san in line.split():
            move, key = board.parse_san(san), key_text(board)
            board.push(move)
            moves[key, move.uci()] = (san, key_text(board))
            positions.setdefault(key_text(board), (board.fen(), board.ply(), None))
        positions[key_text(board)] = (board.fen(), board.ply(), value)
    execute(
        path,
        "INSERT INTO book_position (book, key, fen, ply, value, state, book_run)"
        " VALUES (?, ?, ?, ?, ?, 'open', 1)",
        [(book, key, *row) for key, row in positions.items()],
    )
    execute(
        path,
        "INSERT INTO book_move (book, key, move, san, child, rule, p, n, book_run)"
        " VALUES (?, ?, ?, ?, ?, 'own_cp', 0.5, 1, 1)",
        [(book, *key, *row) for key, row in moves.items()],
    )
    return book


def last_move(line: str) -> tuple[str, str, str]:
    """Returns the last move of a line: the key of the position before it, UCI and SAN."""
    board = after_line(line)
    move = board.pop()
    return key_text(board), move.uci(), board.san(move)
