"""Deletes graph files without contents, which failed commands leave behind."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from ..connection import connect
from ..side_files import remove_side_files

# one of these has a row if a search, an import or a person has put something into the file
CONTENTS = (
    *("segment", "entry_piece", "game_move", "polyglot_entry", "epd_position", "game", "book_queue"),
    *("opinion", "study", "note", "repertoire_move"),
)


def delete_if_empty(path: Path) -> bool:
    """Deletes a graph file without contents; returns whether it did. Any other file stays."""
    if not path.is_file() or not _is_empty(path):
        return False
    path.unlink(missing_ok=True)
    remove_side_files(path)
    return True


def _is_empty(path: Path) -> bool:
    try:
        with closing(connect(path.absolute(), "mode=ro")) as file:
            found = (file.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone() for table in CONTENTS)  # noqa: S608
            return not any(found)
    except sqlite3.Error:  # not a graph file, or one that another process is creating
        return False
