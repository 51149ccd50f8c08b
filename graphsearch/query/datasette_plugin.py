"""Datasette over graph files: boards for FENs, and SQL functions over positions and records.

    record(fen)     the record of a position as JSON, as `graphsearch show --json` prints it; NULL if unknown
    san(fen, move)  a move in SAN

and `key`, `after` and `cp`, as `graphsearch lab sql` has them. A search may write the file meanwhile.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import chess
import chess.svg
from datasette import hookimpl
from markupsafe import Markup, escape

from ..store.file import APPLICATION_ID
from ..store.store import Store
from .sql import PURE, Value, record_text

BOARD_PIXELS = 180
LONGEST_FEN, FEN_FIELDS = 120, 6


@hookimpl
def prepare_connection(conn: sqlite3.Connection) -> None:
    """Registers the functions with a connection; `record` only if its file is a graph."""
    for one in PURE:
        conn.create_function(one.name, one.arguments, _null_for_null(one.call), deterministic=one.fixed)
    path = conn.execute("SELECT file FROM pragma_database_list WHERE name = 'main'").fetchone()[0]
    if path and conn.execute("PRAGMA application_id").fetchone()[0] == APPLICATION_ID:
        conn.create_function("record", 1, _null_for_null(_Records(Path(path))))


@hookimpl
def render_cell(value: object) -> Markup | None:
    """Returns a FEN with its board; None for everything else, which Datasette shows itself."""
    board = _board_of(value)
    if board is None:
        return None
    drawn = chess.svg.board(board, size=BOARD_PIXELS, coordinates=False)
    return Markup('{}<br><code style="font-size: 75%">{}</code>').format(Markup(drawn), escape(value))  # noqa: S704 (ours)


def _board_of(value: object) -> chess.Board | None:
    """Returns the position of a text that is a FEN."""
    if not isinstance(value, str) or len(value) > LONGEST_FEN or len(value.split()) != FEN_FIELDS:
        return None
    try:
        return chess.Board(value)
    except ValueError:
        return None


class _Records:
    """Reads records for one connection; opens the file at the first call."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._store: Store | None = None

    def __call__(self, fen: object) -> str | None:
        if self._store is None:
            self._store = Store.open(self._path, read_only=True)
        with self._store.snapshot():
            return record_text(self._store.read, fen)


def _null_for_null(call: Callable[..., Value]) -> Callable[..., Value]:
    """Wraps a function: returns NULL if an argument is NULL."""

    def function(*values: object) -> Value:
        return None if any(value is None for value in values) else call(*values)

    return function
