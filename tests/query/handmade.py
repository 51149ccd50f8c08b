"""Small graphs and a book written by hand, and what an oracle needs of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import chess
import numpy as np

from graphsearch.position.board import NOT_TERMINAL, key_of, key_text, legal_moves, pack, terminal_kind
from graphsearch.store.provenance import EvaluatorIdentity
from graphsearch.store.record import Edge, NodeRecord
from graphsearch.store.record_kernel import TERMINAL_FLAGS
from graphsearch.store.store import Store

from ..store.records import filled
from ..support.graphs import visited_children
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
    with Store.open(path, identity=identity, create=True) as store, store.transaction():
        execute = store.connection.execute
        book = execute(
            "INSERT INTO book (name, side, config, created, updated) VALUES (?, 'white', ?, 'now', 'now')",
            (name, config),
        ).lastrowid
        start = key_text(chess.Board())
        root = (book, start, chess.STARTING_FEN)
        execute("INSERT INTO book_root (book, key, fen, origin) VALUES (?, ?, ?, 'root')", root)
        for line, *numbers in BOOK_POSITIONS:
            board = after_line(line)
            execute(
                "INSERT INTO book_position (book, key, fen, ply, state, value, outside, outside_move,"
                " priority, book_run) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 1)",
                (book, key_text(board), board.fen(), board.ply(), *numbers),
            )
        for line, p, value in BOOK_MOVES:
            execute(
                "INSERT INTO book_move (book, key, move, san, child, rule, p, n, value, book_run)"
                " VALUES (?, ?, ?, ?, ?, 'own_cp', ?, 1, ?, 1)",
                (book, *last_move(line), key_text(after_line(line)), p, value),
            )
        for line, number in games.items():
            played = (*last_move(line.replace("_", " ")), number)
            execute("INSERT INTO game_move (key, move, san, white) VALUES (?, ?, ?, ?)", played)
    return path


def last_move(line: str) -> tuple[str, str, str]:
    """Returns the last move of a line: the key of the position before it, UCI and SAN."""
    board = after_line(line)
    move = board.pop()
    return key_text(board), move.uci(), board.san(move)


def ways_in(records: Iterable[tuple[chess.Board, NodeRecord]]) -> dict[int, set[tuple[int, str]]]:
    """Returns the visited edges that lead to each key, as (key of the parent, move)."""
    found: dict[int, set[tuple[int, str]]] = {}
    for board, record in records:
        moves = legal_moves(board) if record.codes else []
        for k, child in visited_children(board, record):
            move = moves[record.order[k]].uci()
            found.setdefault(key_of(child), set()).add((key_of(board), move))
    return found
