"""Graphs to export, and what an export of them has to hold, found another way: python-chess, recursion."""

from __future__ import annotations

import io
import os
import shutil
import sqlite3
import subprocess
from collections.abc import Mapping, Sequence
from itertools import compress
from pathlib import Path
from typing import Any

import chess
import chess.polyglot
import numpy as np
import pytest

from graphsearch import Graph, Limits, SearchParams, analyze
from graphsearch.exchange.importing import FileReport, GivenFile
from graphsearch.exchange.imports import import_files
from graphsearch.position.board import board_of, key_of, legal_moves, pack
from graphsearch.store.record import Edge, NodeRecord
from graphsearch.store.store import Store

from ..query.handmade import node
from ..store.records import lookup
from ..support.graphs import ENDGAME as ENDGAME
from ..support.graphs import searched as searched

CASTLES = "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1"
CHESS960 = "1r1k2rr/p2bbp1p/8/8/8/8/P2BBP1P/RR2K1RR w BGbg - 3 20"  # inner and outer rooks; castling at once
PROMOTES = "8/PPPk4/8/8/8/8/4Kppp/8 b - - 0 40"
LINES = ("", "e4", "d4 Nf6", "Nf3 Nf6 d4", "e4 e5 Nf3")  # transpositions

made_record = node  # of a position with these (n, q) of moves in SAN
Known = dict[int, tuple[chess.Board, NodeRecord]]


def imported(form: str, path: Path, data: str | bytes, **options: Any) -> FileReport:
    """Imports a file `some.FORM` with these data from a stream."""
    stream = io.BytesIO(data.encode() if isinstance(data, str) else data)
    [report] = import_files(form, path, [GivenFile(f"some.{form}", stream)], **options)
    return report


def uniform_graph(path: Path, nodes: int) -> Path:
    """Returns a file of about so many nodes below the start position."""
    with Graph.open(path, evaluator="uniform") as graph:
        analyze(graph, chess.Board(), Limits(visits=nodes), SearchParams(minibatch_size=1024))
    return path


def known_below(path: Path, *fens: str, plies: int | None = None) -> Known:
    """Returns (board, record) by key of what visited edges lead to, the shortest way first."""
    found: Known = {}
    with Store.open(path, read_only=True) as store:
        layer = [board_of(fen) for fen in fens or [chess.STARTING_FEN]]
        depth = 0
        while layer and (plies is None or depth <= plies):
            is_there, batch = lookup(store, np.array([pack(board) for board in layer]))
            below = []
            for i, board in enumerate(compress(layer, is_there.tolist())):
                if (key := key_of(board)) not in found:
                    found[key] = (board, record := batch.record(i))
                    below += [after(board, move) for move, edge in edges(board, record) if edge.n > edge.r]
            layer, depth = [board for board in below if key_of(board) not in found], depth + 1
    return found


def after(board: chess.Board, move: chess.Move) -> chess.Board:
    """Returns the position after a move."""
    child = board.copy(stack=False)
    child.push(move)
    return child


def edges(board: chess.Board, record: NodeRecord) -> list[tuple[chess.Move, Edge]]:
    """Returns the visited moves of a record."""
    moves = legal_moves(board) if record.codes else []
    return [(moves[record.order[k]], edge) for k, edge in enumerate(record.edges) if edge.n]


def run_polyglot(folder: Path, *args: str | Path) -> None:
    """Runs Debian's program `polyglot` in a folder; skips the test where there is none."""
    program = shutil.which("polyglot", path=f"{os.environ.get('PATH', '')}:/usr/games")
    if program is None:
        pytest.skip("needs the program polyglot")
    subprocess.run([program, *args], cwd=folder, capture_output=True, check=True, timeout=60)


def execute(path: Path, sql: str, rows: Sequence[Sequence[Any]]) -> None:
    """Writes rows to the plain tables of a file."""
    connection = sqlite3.connect(path)
    with connection:
        connection.executemany(sql, rows)
    connection.close()


def add_games(path: Path, games: Mapping[str, tuple[int, ...]]) -> None:
    """Writes imported games: a line -> games that White won, drawn, that Black won, of unknown result."""
    counts: dict[tuple[str, str], list[Any]] = {}
    for line, results in games.items():
        board = chess.Board()
        for san in line.split():
            move = board.parse_san(san)
            row = counts.setdefault((f"{key_of(board):016x}", move.uci()), [san, 0, 0, 0, 0])
            for k, number in enumerate(results):
                row[1 + k] += number
            board.push(move)
    execute(
        path,
        "INSERT INTO game_move (key, move, san, white, draws, black, unknown) VALUES (?, ?, ?, ?, ?, ?, ?)",
        [(*key, *row) for key, row in counts.items()],
    )


def add_book(path: Path, name: str, side: str, fens: Sequence[str], lines: Mapping[str, float]) -> None:
    """Writes a book: its roots, and lines in SAN each with the value of the position behind it."""
    execute(
        path,
        "INSERT INTO book (id, name, side, config, created, updated) VALUES (1, ?, ?, '', '', '')",
        [(name, side)],
    )
    boards = [chess.Board(fen) for fen in fens]
    positions: dict[str, tuple[str, int, float | None]] = {
        f"{key_of(b):016x}": (b.fen(), b.ply(), None) for b in boards
    }
    execute(
        path,
        "INSERT INTO book_root (book, key, fen, origin) VALUES (1, ?, ?, ?)",
        [(f"{key_of(b):016x}", b.fen(), f"root {k}") for k, b in enumerate(boards, 1)],
    )
    moves: dict[tuple[str, str], tuple[str, str]] = {}
    for line, value in lines.items():
        board = boards[0].copy()
        for san in line.split():
            move, key = board.parse_san(san), f"{key_of(board):016x}"
            board.push(move)
            moves[key, move.uci()] = (san, f"{key_of(board):016x}")
            positions.setdefault(f"{key_of(board):016x}", (board.fen(), board.ply(), None))
        positions[f"{key_of(board):016x}"] = (board.fen(), board.ply(), value)
    execute(
        path,
        "INSERT INTO book_position (book, key, fen, ply, value, state, book_run)"
        " VALUES (1, ?, ?, ?, ?, 'open', 1)",
        [(key, *row) for key, row in positions.items()],
    )
    execute(
        path,
        "INSERT INTO book_move (book, key, move, san, child, rule, p, n, book_run)"
        " VALUES (1, ?, ?, ?, ?, 'own_cp', 0.5, 1, 1)",
        [(*key, *row) for key, row in moves.items()],
    )
