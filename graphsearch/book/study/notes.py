"""Notes on positions: every line that reaches a position shows its note."""

from __future__ import annotations

import os
from dataclasses import dataclass

import chess

from ...base.answer import Answer
from ...base.errors import ChangedMeanwhileError
from ...position.board import check, fen_of, key_text
from ...store.plain_tables import editing, opened_to_read
from ...store.tables import studies as rows
from ...store.tables.studies import Note

AnyPath = str | os.PathLike[str]


@dataclass(frozen=True, slots=True)
class PositionNote:
    """The note on a position, or None, and (number, name, move) of each study that reaches the position."""

    key: str
    position: str
    note: Note | None
    studies: tuple[tuple[int, str, int], ...]

    def as_dict(self) -> dict[str, object]:
        """Returns the JSON object of `graphsearch note show`."""
        names = ("id", "name", "move")
        return {
            "key": self.key,
            "position": self.position,
            "text": self.note.text if self.note else "",
            "revision": self.note.revision if self.note else 0,
            "changed": self.note.changed if self.note else None,
            "studies": [dict(zip(names, one, strict=True)) for one in self.studies],
        }


@dataclass(frozen=True, slots=True)
class NoteList(Answer):
    """The notes of a file, the last changed first."""

    notes: tuple[Note, ...]


def list_notes(path: AnyPath) -> NoteList:
    """Returns the notes of a file.

    Raises:
      StoreError: if the file cannot be read.
    """
    with opened_to_read(path) as connection:
        return NoteList(tuple(rows.all_notes(connection)))


def note_on(path: AnyPath, board: chess.Board) -> PositionNote:
    """Returns the note on a position, and the studies that reach it.

    Raises:
      InvalidPositionError: if the position is illegal.
      StoreError: if the file cannot be read.
    """
    check(board)
    key = key_text(board)
    with opened_to_read(path) as connection:
        studies = tuple(rows.studies_through(connection, key))
        return PositionNote(key, fen_of(board), rows.find_note(connection, key), studies)


def write_note(path: AnyPath, board: chess.Board, text: str, revision: int | None = None) -> Note | None:
    """Writes and returns the note on a position; an empty text deletes it and returns None.

    Args:
      revision: the expected one, 0: no note; None: any.

    Raises:
      ChangedMeanwhileError: if the note has another revision.
      InvalidPositionError: if the position is illegal.
      StoreError: if the file cannot be written.
    """
    check(board)
    key, plain = key_text(board), text.replace("\0", "").replace("\r\n", "\n").strip()
    with editing(path) as connection:
        known = rows.find_note(connection, key)
        if revision is not None and revision != (known.revision if known else 0):
            raise ChangedMeanwhileError("the note was changed elsewhere; it is shown as it is now")
        if plain:
            return rows.put_note(connection, key, fen_of(board), plain)
        rows.delete_note(connection, key)
        return None
