"""Datasette over graph files: boards for FENs, and SQL functions over positions and records.

    record(fen)     the record of a position as JSON, as `graphsearch show --json` prints it; NULL if unknown
    san(fen, move)  a move in SAN

and `key`, `after` and `cp`, as `graphsearch lab sql` has them. A search may write the file meanwhile.
"""

from __future__ import annotations

import sqlite3

import chess
import chess.svg
from datasette import hookimpl
from markupsafe import Markup, escape

from ..store.file import APPLICATION_ID
from .sql import Clock, Functions

BOARD_PIXELS = 180
LONGEST_FEN, FEN_FIELDS = 120, 6


@hookimpl
def prepare_connection(conn: sqlite3.Connection) -> None:
    """Registers the functions with a connection; `record` only if its file is a graph."""
    path = conn.execute("SELECT file FROM pragma_database_list WHERE name = 'main'").fetchone()[0]
    is_graph = path and conn.execute("PRAGMA application_id").fetchone()[0] == APPLICATION_ID
    Functions(path, Clock(conn, 0)).add_to(conn, reads_records=bool(is_graph))


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
