"""Merges studies and notes of two files; nothing that a person wrote is lost.

A study that the file already has, under any name, is not added again. Any other study is added, with a number
after its name if the name is taken. If one of two notes on a position contains the other, it is kept;
otherwise both texts are joined into one note.
"""

from __future__ import annotations

import sqlite3
from dataclasses import astuple

from ..store import Store
from ..tables import studies
from ..tables.studies import Note, Study
from .tables import Input

Content = tuple[object, ...]


def unite(store: Store, one: Input) -> dict[str, int]:
    """Merges an input's studies and notes, in an open transaction; returns the number written of each."""
    return {"study": _unite_studies(store, one), "note": _unite_notes(store, one)}


def _unite_studies(store: Store, one: Input) -> int:
    known = {_content(store.connection, study) for study, _ in studies.all_studies(store.connection)}
    written = 0
    for study, _ in studies.all_studies(one.connection):
        content = _content(one.connection, study)
        if content not in known:
            known.add(content)
            _add(store.connection, study, one.connection)
            written += 1
    return written


def _content(connection: sqlite3.Connection, study: Study) -> Content:
    """Returns a study's content without its name, number and times."""
    moves = tuple(map(astuple, studies.moves_of(connection, study.id)))
    return study.fen, tuple(study.headers.items()), study.comment, moves


def _add(connection: sqlite3.Connection, study: Study, source: sqlite3.Connection) -> None:
    name = studies.free_name(connection, study.name)
    new = studies.add_study(connection, name, study.fen, study.headers, study.comment)
    studies.put_moves(connection, new.id, studies.moves_of(source, study.id))
    connection.execute(
        "UPDATE study SET last = ?, revision = ?, created = ?, changed = ? WHERE id = ?",
        (study.last, study.revision, study.created, study.changed, new.id),
    )


def _unite_notes(store: Store, one: Input) -> int:
    written = 0
    for note in studies.all_notes(one.connection):
        known = studies.find_note(store.connection, note.key)
        text = _joined(known, note)
        if known is None or text != known.text:
            studies.put_note(store.connection, note.key, note.fen, text)
            written += 1
    return written


def _joined(known: Note | None, new: Note) -> str:
    if known is None or known.text in new.text:
        return new.text
    return known.text if new.text in known.text else f"{known.text}\n\n{new.text}"
