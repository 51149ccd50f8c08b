"""Studies and notes: the tables `study`, `study_move` and `note`. Write within a transaction."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace

from ...base.errors import InvalidParameterError
from .provenance import fact_number, now, set_fact
from .rows import json_object, query, read_rows, rows, table_of, write_rows
from .schema import TABLES

_STUDY = tuple(TABLES["study"].columns)
GONE = "note_revision"  # row of store_info: the greatest revision of a deleted note


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """A row of `study`, without moves; `fen` is None for the start position."""

    id: int
    name: str
    fen: str | None
    headers: dict[str, str]
    comment: str
    last: int
    revision: int
    created: str
    changed: str


@dataclass(frozen=True, slots=True)
class StudyMove:
    """A row of `study_move` without its study; `nags` are numbers separated by spaces."""

    id: int
    parent: int
    place: int
    key: str
    move: str
    san: str
    before: str
    comment: str
    nags: str


@dataclass(frozen=True, slots=True)
class Note:
    """A row of `note`."""

    key: str
    fen: str
    text: str
    revision: int
    changed: str


# ------------------------------------------------------------------ studies
def all_studies(connection: sqlite3.Connection) -> list[tuple[Study, int]]:
    """Returns the studies, by name, each with its number of moves."""
    counts = dict(connection.execute("SELECT study, count(*) FROM study_move GROUP BY study"))
    found = map(_study, rows(connection, "study", _STUDY, "ORDER BY name"))
    return [(study, counts.get(study.id, 0)) for study in found]


def find_study(connection: sqlite3.Connection, known_by: int | str) -> Study | None:
    """Returns the study with a number or a name, None if there is none."""
    column = "id" if isinstance(known_by, int) else "name"
    found = rows(connection, "study", _STUDY, f"WHERE {column} = ?", (known_by,))
    return next(map(_study, found), None)


def _study(row: tuple[object, ...]) -> Study:
    values = dict(zip(_STUDY, row, strict=True))
    values["headers"] = {name: str(value) for name, value in (json_object(values["headers"]) or {}).items()}
    return Study(**values)  # type: ignore[arg-type] # `rows` has checked every column


def add_study(
    connection: sqlite3.Connection, name: str, fen: str | None, headers: dict[str, str], comment: str
) -> Study:
    """Adds a study without moves; returns it.

    Raises:
      InvalidParameterError: if a study has this name.
    """
    check_free(connection, name)
    moment = now()
    row = {
        "name": name,
        "fen": fen,
        "headers": json.dumps(headers),
        "comment": comment,
        "last": 0,
        "revision": 1,
        "created": moment,
        "changed": moment,
    }
    table_of(connection, "study").insert(row)
    found = find_study(connection, name)
    assert found
    return found


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


def update_study(connection: sqlite3.Connection, study: Study) -> Study:
    """Writes a changed study; returns it with the next revision."""
    newer = replace(study, revision=study.revision + 1, changed=now())
    row = asdict(newer) | {"headers": json.dumps(newer.headers)}
    table_of(connection, "study").update(row.pop("id"), row)
    return newer


def delete_study(connection: sqlite3.Connection, number: int) -> None:
    """Deletes a study and its moves."""
    connection.execute("DELETE FROM study_move WHERE study = ?", (number,))
    connection.execute("DELETE FROM study WHERE id = ?", (number,))


def moves_of(connection: sqlite3.Connection, number: int) -> list[StudyMove]:
    """Returns the moves of a study, those of one parent in their order."""
    where = "WHERE study = ? ORDER BY parent, place, id"
    return read_rows(connection, "study_move", StudyMove, where, (number,))


def put_moves(connection: sqlite3.Connection, number: int, moves: Iterable[StudyMove]) -> None:
    """Writes moves of a study, replacing those of the same ids."""
    write_rows(connection, "study_move", moves, study=number)


def drop_moves(connection: sqlite3.Connection, number: int, ids: Iterable[int]) -> None:
    """Deletes moves of a study."""
    connection.executemany("DELETE FROM study_move WHERE study = ? AND id = ?", ((number, i) for i in ids))


def studies_through(connection: sqlite3.Connection, key: str) -> list[tuple[int, str, int]]:
    """Returns the studies with a move that leads to a position: number, name, and the first such move."""
    statement = (
        "SELECT study.id, study.name, min(study_move.id) FROM study_move"
        " JOIN study ON study.id = study_move.study WHERE study_move.key = ?"
        " GROUP BY study.id ORDER BY study.name"
    )
    return list(query(connection, statement, (key,), "study.id", "study.name", "study_move.id"))


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
