"""What people write: the tables `study`, `study_position`, `note`, `edit` and `task`. Write in a transaction.

The table `edit` logs every row of studies, notes and repertoires that an edit changes, for undo and redo.
Triggers of a `recorded` connection write each row as it was before and after the change. An undo writes the
rows of an edit back in reverse order, a redo in order.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace

from ...base.errors import ChangedMeanwhileError, CorruptRecordError, InvalidParameterError
from ..provenance import fact_number, now, set_fact
from .rows import TABLES, insert, query, read_rows, rows, table_of, write_row

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
    """Adds and returns a study; `keys` are those after its moves; raises as `check_free`."""
    check_free(connection, name)
    moment = now()
    row = {"name": name, "moves": len(keys), "revision": 1, "created": moment, "changed": moment}
    number = int(table_of(connection, "study").insert(row | {"pgn": pgn}).last_pk or 0)
    write_keys(connection, number, keys)
    return Study(id=number, **row)  # type: ignore[arg-type]


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
    """Writes the name of a study, and its text and keys unless they are None; returns the next revision."""
    if name != study.name:
        check_free(connection, name)
    moves = study.moves if keys is None else len(keys)
    newer = replace(study, name=name, moves=moves, revision=study.revision + 1, changed=now())
    table_of(connection, "study").update(study.id, asdict(newer) | ({} if pgn is None else {"pgn": pgn}))
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
        "SELECT study.id, study.name, min(move) FROM study_position JOIN study ON study.id = study"
        " WHERE key = ? GROUP BY study.id ORDER BY study.name"
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
    write_row(connection, "note", asdict(note))
    return note


def delete_note(connection: sqlite3.Connection, note: Note) -> None:
    """Deletes the note on a position."""
    set_fact(connection, GONE, str(max(note.revision, fact_number(connection, GONE))))
    connection.execute("DELETE FROM note WHERE key = ?", (note.key,))


# ------------------------------------------------------------------ undo and redo
EDITED = ("study", "note", "book", "book_root", "book_position", "book_move")
MOST_CHARACTERS = 1 << 26  # of the log; older edits are forgotten
_GROWING = ("revision", "changed")  # columns that an undo does not turn back
Row = Mapping[str, object]


@dataclass(slots=True)
class TurnedEdit:
    """An edit that was undone or redone.

    Attributes:
      studies: numbers of the changed ones. returned: those that were missing and are there again. gone: those
        that are missing now.
      names: of the studies. notes: positions with a changed note. sides: repertoires that changed.
    """

    studies: list[int] = field(default_factory=list)
    returned: list[int] = field(default_factory=list)
    gone: list[int] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    sides: list[str] = field(default_factory=list)


@contextmanager
def recorded(connection: sqlite3.Connection) -> Iterator[None]:
    """Logs what the body changes in the tables `EDITED` as one edit, and forgets what was undone before.

    The triggers stay until the connection is closed.
    """
    step = 1 + int(connection.execute("SELECT coalesce(max(step), 0) FROM edit").fetchone()[0])
    connection.execute("PRAGMA recursive_triggers = ON")  # else a replaced row is not logged
    for table in EDITED:
        old, new = (
            f"json_array({', '.join(f'{row}.{name}' for name in TABLES[table].columns)})"
            for row in ("OLD", "NEW")
        )
        changes = {"INSERT": f"NULL, {new}", "DELETE": f"{old}, NULL", "UPDATE": f"{old}, {new}"}
        for event, pair in changes.items():
            values = f"{step}, 0, '{table}', {pair}"
            log = f"INSERT INTO edit (step, undone, edited, old, new) VALUES ({values})"  # noqa: S608 (constants)
            name = f"edit_{table}_{event}"
            connection.execute(f"CREATE TEMP TRIGGER {name} AFTER {event} ON main.{table} BEGIN {log}; END")
    yield
    if connection.execute("SELECT 1 FROM edit WHERE step = ?", (step,)).fetchone():
        connection.execute("DELETE FROM edit WHERE undone = 1")
        size = "sum(coalesce(length(old), 0) + coalesce(length(new), 0)) OVER (ORDER BY id DESC) AS size"
        oldest = f"SELECT max(step) FROM (SELECT step, {size} FROM edit) WHERE size > ?"  # noqa: S608 (constants)
        connection.execute(f"DELETE FROM edit WHERE step < ? AND step <= ({oldest})", (step, MOST_CHARACTERS))  # noqa: S608


def turn(connection: sqlite3.Connection, *, back: bool) -> TurnedEdit | None:
    """Undoes the last edit that is not undone, or redoes the one undone last; returns it, if there is one.

    Raises:
      ChangedMeanwhileError: if another program has changed the same rows without logging it.
    """
    last = "max(step) FROM edit WHERE undone = 0" if back else "min(step) FROM edit WHERE undone = 1"
    (step,) = connection.execute(f"SELECT {last}").fetchone()
    if step is None:
        return None
    turned = TurnedEdit()
    names, order = ("edited", "old", "new"), "WHERE step = ? ORDER BY id"
    if back:
        names, order = ("edited", "new", "old"), f"{order} DESC"
    try:
        for table, *texts in list(rows(connection, "edit", names, order, (step,))):
            before, after = (
                None if text is None else dict(zip(TABLES[table].columns, json.loads(text), strict=True))
                for text in texts
            )
            _write(connection, table, before, after)
            _note(connection, turned, table, before, after)
    except (ValueError, TypeError, sqlite3.IntegrityError) as error:
        raise CorruptRecordError(f"the table edit is damaged in step {step}: {error}") from error
    connection.execute("UPDATE edit SET undone = ? WHERE step = ?", (int(back), step))
    return turned


def forget_edits(connection: sqlite3.Connection) -> None:
    """Empties the log."""
    connection.execute("DELETE FROM edit")


def _write(connection: sqlite3.Connection, table: str, before: Row | None, after: Row | None) -> None:
    """Writes a row as it was after a change, with a revision that no reader has seen; None: no row."""
    names, keys = tuple(TABLES[table].columns), TABLES[table].key
    known = before or after or {}
    where, key = " AND ".join(f"{name} = ?" for name in keys), tuple(known[name] for name in keys)
    found = next(rows(connection, table, names, f"WHERE {where}", key), None)
    present = dict(zip(names, found, strict=True)) if found else None
    if _plain(present) != _plain(before):
        raise ChangedMeanwhileError(
            f"the rows of {table} were changed by another program since; this edit cannot be turned back"
        )
    seen = [int(str(row["revision"])) for row in (after, present, before) if row and "revision" in row]
    connection.execute(f"DELETE FROM {table} WHERE {where}", key)  # noqa: S608 (constants)
    if after is not None:
        written = dict(after)
        if seen:
            written["revision"] = 1 + max(*seen, fact_number(connection, GONE))
        if "changed" in written:
            written["changed"] = now()
        insert(connection, table, names, [tuple(written.values())], otherwise="ABORT")
    elif table == "note":
        set_fact(connection, GONE, str(max(*seen, fact_number(connection, GONE))))


def _plain(row: Row | None) -> Row | None:
    """Returns a row without the columns that only grow."""
    return row and {name: value for name, value in row.items() if name not in _GROWING}


def _note(
    connection: sqlite3.Connection, turned: TurnedEdit, table: str, before: Row | None, after: Row | None
) -> None:
    """Notes what a changed row belongs to."""
    row = after or before or {}
    if table == "study":
        number = int(str(row["id"]))
        if number not in turned.studies:
            turned.studies.append(number)
            turned.names.append(str(row["name"]))
        if before is None or after is None:
            (turned.gone if after is None else turned.returned).append(number)
    elif table == "note":
        turned.notes.append(str(row["fen"]))
    elif table != "book":
        for (side,) in rows(connection, "book", ("side",), "WHERE id = ?", (row["book"],)):
            turned.sides += [side] if side not in turned.sides else []


# ------------------------------------------------------------------ the queue of the web page
@dataclass(frozen=True, slots=True)
class TaskRow:
    """A row of `task`; `request` and `facts` are JSON objects."""

    id: int
    kind: str
    title: str
    state: str
    request: str
    facts: str
    note: str | None
    seconds: float
    added: str
    changed: str


def all_tasks(connection: sqlite3.Connection) -> list[TaskRow]:
    """Returns all tasks in the order in which they were added."""
    return read_rows(connection, "task", TaskRow, "ORDER BY id")


def put_task(connection: sqlite3.Connection, task: TaskRow) -> None:
    """Writes a task, replacing that of the same number."""
    write_row(connection, "task", asdict(task))


def drop_task(connection: sqlite3.Connection, number: int) -> None:
    """Deletes a task."""
    connection.execute("DELETE FROM task WHERE id = ?", (number,))
