"""Studies and notes: the tables `study`, `study_position` and `note`. Write within a transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

from ...base.errors import InvalidParameterError
from .provenance import fact_number, now, set_fact
from .rows import insert, query, read_rows, rows, table_of, write_rows

GONE = "note_revision"  # row of store_info: the greatest revision of a deleted note


@dataclass(frozen=True, slots=True)
class Study:
    """A row of `study` without its text."""

    id: int
    name: str
    moves: int
    revision: int
    created: str
    changed: str


@dataclass(frozen=True, slots=True)
class Note:
    """A row of `note`."""

    key: str
    fen: str
    text: str
    revision: int
    changed: str


# ------------------------------------------------------------------ studies
def all_studies(connection: sqlite3.Connection) -> list[Study]:
    """Returns the studies, by name."""
    return read_rows(connection, "study", Study, "ORDER BY name")


def find_study(connection: sqlite3.Connection, known_by: int | str) -> Study | None:
    """Returns the study with a number or a name, None if there is none."""
    column = "id" if isinstance(known_by, int) else "name"
    return next(iter(read_rows(connection, "study", Study, f"WHERE {column} = ?", (known_by,))), None)


def pgn_of(connection: sqlite3.Connection, number: int) -> str:
    """Returns the text of a study."""
    ((text,),) = rows(connection, "study", ("pgn",), "WHERE id = ?", (number,))
    return str(text)


def add_study(connection: sqlite3.Connection, name: str, pgn: str, keys: Sequence[str]) -> Study:
    """Adds a study; returns it.

    Args:
      pgn: its text. keys: of the positions after its moves.

    Raises:
      InvalidParameterError: if a study has this name.
    """
    check_free(connection, name)
    moment = now()
    texts = {"name": name, "pgn": pgn, "created": moment, "changed": moment}
    row = texts | {"moves": len(keys), "revision": 1}
    number = int(table_of(connection, "study").insert(row).last_pk or 0)
    write_keys(connection, number, keys)
    return Study(number, name, len(keys), 1, moment, moment)


def check_free(connection: sqlite3.Connection, name: str) -> None:
    """Raises InvalidParameterError if a study has this name."""
    if find_study(connection, name):
        raise InvalidParameterError(f"there is a study {name!r} already; choose another name")


def free_name(connection: sqlite3.Connection, name: str) -> str:
    """Returns an unused study name: the given one, or the same with a number."""
    statement = "SELECT name FROM study WHERE substr(name, 1, ?) = ?"
    taken = {one for (one,) in connection.execute(statement, (len(name), name))}
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name} ({number})"
    return free


def update_study(
    connection: sqlite3.Connection, study: Study, *, name: str, pgn: str | None, keys: Sequence[str] | None
) -> Study:
    """Writes the name of a study, and its text with its keys unless they are None; returns its next revision.

    Raises:
      InvalidParameterError: if another study has this name.
    """
    if name != study.name:
        check_free(connection, name)
    moves = study.moves if keys is None else len(keys)
    newer = Study(study.id, name, moves, study.revision + 1, study.created, now())
    texts = {} if pgn is None else {"pgn": pgn}
    changed = {"name": name, "moves": moves, "revision": newer.revision, "changed": newer.changed}
    table_of(connection, "study").update(study.id, changed | texts)
    if keys is not None:
        write_keys(connection, study.id, keys)
    return newer


def write_keys(connection: sqlite3.Connection, number: int, keys: Sequence[str]) -> None:
    """Replaces the index of a study by the positions after its moves."""
    connection.execute("DELETE FROM study_position WHERE study = ?", (number,))
    values = ((number, move, key) for move, key in enumerate(keys, start=1))
    insert(connection, "study_position", ("study", "move", "key"), values)


def delete_study(connection: sqlite3.Connection, number: int) -> None:
    """Deletes a study."""
    write_keys(connection, number, ())
    connection.execute("DELETE FROM study WHERE id = ?", (number,))


def studies_through(connection: sqlite3.Connection, key: str) -> list[tuple[int, str, int]]:
    """Returns the studies with a move that leads to a position: number, name, and the first such move."""
    statement = (
        "SELECT study.id, study.name, min(move) FROM study_position"
        " JOIN study ON study.id = study_position.study WHERE key = ?"
        " GROUP BY study.id ORDER BY study.name"
    )
    return list(query(connection, statement, (key,), "study.id", "study.name", "study_position.move"))


# ------------------------------------------------------------------ notes
def all_notes(connection: sqlite3.Connection) -> list[Note]:
    """Returns the notes, the last changed first."""
    return read_rows(connection, "note", Note, "ORDER BY changed DESC, key")


def find_note(connection: sqlite3.Connection, key: str) -> Note | None:
    """Returns the note on a position, None if there is none."""
    return next(iter(read_rows(connection, "note", Note, "WHERE key = ?", (key,))), None)


def put_note(connection: sqlite3.Connection, key: str, fen: str, text: str) -> Note:
    """Writes the note on a position, replacing an earlier one; returns it with a new revision."""
    known = find_note(connection, key)
    last = known.revision if known else fact_number(connection, GONE)
    note = Note(key, fen, text, last + 1, now())
    write_rows(connection, "note", [note])
    return note


def delete_note(connection: sqlite3.Connection, key: str) -> bool:
    """Deletes the note on a position; returns whether there was one."""
    known = find_note(connection, key)
    if known is None:
        return False
    set_fact(connection, GONE, str(max(known.revision, fact_number(connection, GONE))))
    connection.execute("DELETE FROM note WHERE key = ?", (key,))
    return True
