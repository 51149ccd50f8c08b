"""Repertoires: the tables `repertoire_position` and `repertoire_move`. Write within a transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass

from .rows import read_rows, rows, write_rows


@dataclass(frozen=True, slots=True)
class RepertoirePosition:
    """A row of `repertoire_position` without its side."""

    key: str
    fen: str
    root: int


@dataclass(frozen=True, slots=True)
class RepertoireMove:
    """A row of `repertoire_move` without its side."""

    key: str
    move: str
    child: str
    place: int


def positions_of(connection: sqlite3.Connection, side: str) -> list[RepertoirePosition]:
    """Returns the positions of a side's repertoire."""
    return read_rows(connection, "repertoire_position", RepertoirePosition, "WHERE side = ?", (side,))


def moves_of(connection: sqlite3.Connection, side: str) -> list[RepertoireMove]:
    """Returns the moves of a side's repertoire; those of one position in the order of their addition."""
    where = "WHERE side = ? ORDER BY key, place, move"
    return read_rows(connection, "repertoire_move", RepertoireMove, where, (side,))


def moves_at(connection: sqlite3.Connection, key: str) -> dict[str, list[str]]:
    """Returns the moves of a position that are in repertoires, by side."""
    found: dict[str, list[str]] = {}
    for side, move in rows(connection, "repertoire_move", ("side", "move"), "WHERE key = ?", (key,)):
        found.setdefault(side, []).append(move)
    return found


def put_positions(connection: sqlite3.Connection, side: str, found: Iterable[RepertoirePosition]) -> None:
    """Writes positions, replacing those of the same keys."""
    write_rows(connection, "repertoire_position", found, side=side)


def put_moves(connection: sqlite3.Connection, side: str, found: Iterable[RepertoireMove]) -> None:
    """Writes moves, replacing equal ones."""
    write_rows(connection, "repertoire_move", found, side=side)


def drop_positions(connection: sqlite3.Connection, side: str, keys: Iterable[str]) -> None:
    """Deletes positions and their moves."""
    pairs = [(side, key) for key in keys]
    for table in ("repertoire_position", "repertoire_move"):
        connection.executemany(f"DELETE FROM {table} WHERE side = ? AND key = ?", pairs)  # noqa: S608 (constants)


def drop_move(connection: sqlite3.Connection, side: str, key: str, move: str) -> None:
    """Deletes a move."""
    connection.execute(
        "DELETE FROM repertoire_move WHERE side = ? AND key = ? AND move = ?", (side, key, move)
    )
