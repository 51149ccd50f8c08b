"""Studies and notes of a graph file: lists, imports, exports and changes them, each in one transaction.

A study is its PGN text with an index of positions. The text keeps null moves in variations; for the index and
the page, which need legal positions, these variations end there. A note belongs to a position, whichever line
reaches it.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from tempfile import gettempdir
from typing import Literal

import chess
import chess.pgn

from ...base.answer import Answer
from ...base.deadline import check_time
from ...base.errors import ChangedMeanwhileError, CorruptRecordError, ImportFileError, InvalidParameterError
from ...base.limits import STUDIES, STUDY_MOVES
from ...exchange.importing import GivenFile, opened
from ...position.board import check, fen_of, key_text
from ...store.file import changing, editing, opened_to_read
from ...store.tables import studies as rows
from ...store.tables.studies import Note, Study, TurnedEdit
from ...store.verify import Problems
from .pgn import StudyGame, read_games, steps_of, text_of

AnyPath = str | os.PathLike[str]
LONGEST_NAME = 200


@dataclass(frozen=True, slots=True)
class StudyList(Answer):
    """The studies of a file, by name."""

    studies: tuple[Study, ...]


@dataclass(slots=True, kw_only=True)
class ImportedStudies(Problems, Answer):
    """The imported studies; `problems` lists each skipped part with its reason."""

    json_keys = "studies found left_out=problems"

    studies: list[Study] = field(default_factory=list)


# ------------------------------------------------------------------ looking
def list_studies(path: AnyPath) -> StudyList:
    """Returns the studies of a file.

    Raises:
      StoreError: if the file cannot be read.
    """
    with opened_to_read(path) as connection:
        return StudyList(tuple(rows.all_studies(connection)))


def load_study(path: AnyPath, known_by: int | str) -> tuple[Study, StudyGame]:
    """Returns a study, by number or name.

    Raises:
      InvalidParameterError: if there is no such study.
      StoreError: if the file cannot be read, or the study has no game.
    """
    with opened_to_read(path) as connection:
        study = _wanted(connection, known_by)
        return study, _game(connection, study)


def _wanted(connection: sqlite3.Connection, known_by: int | str) -> Study:
    found = rows.find_study(connection, known_by)
    if found is None:
        raise InvalidParameterError(f"there is no study {known_by!r}; `graphsearch study list` names all")
    return found


def _game(connection: sqlite3.Connection, study: Study) -> StudyGame:
    text = StringIO(rows.pgn_of(connection, study.id), None)
    found = next(read_games(text, f"the study {study.name!r}"), None)
    if found is None:
        raise CorruptRecordError(f"the study {study.name!r} is damaged: its PGN has no game")
    return found


def export_studies(path: AnyPath, names: Sequence[int | str]) -> str:
    """Returns the named studies as PGN; without names, all studies in the order in which they were made.

    Raises:
      InvalidParameterError: if a name has no study.
      StoreError: if the file cannot be read.
    """
    with opened_to_read(path) as connection:
        wanted = [_wanted(connection, name).id for name in names]
        if not names:
            wanted = sorted(study.id for study in rows.all_studies(connection))
        return "\n".join(rows.pgn_of(connection, number) for number in wanted)


# ------------------------------------------------------------------ PGN
def read_file(
    given: GivenFile,
    report: Problems,
    *,
    most: int | None = None,
    null_moves: bool = False,
) -> list[StudyGame]:
    """Returns the games of a PGN file, compressed or not, or of a stream.

    Args:
      report: gets a message for each part that is left out, and for games behind the first `most` or beyond
        `STUDY_MOVES`.
      null_moves: as for `read_games`.

    Raises:
      ImportFileError: if the file cannot be read, or has no game that can be read.
    """
    games: list[StudyGame] = []
    moves = 0
    with opened(given, Path(gettempdir())) as file:
        for game in read_games(file.lines(), given.name, null_moves=null_moves):
            check_time()
            moves += sum(1 for _ in steps_of(game.tree))
            if moves > STUDY_MOVES.most or len(games) == most:
                limit = STUDIES if len(games) == most else STUDY_MOVES
                report.add(
                    f"{given.name}, game {game.number} and all behind it: more than {limit.shown()}, the most"
                    f" for {limit.what}{limit.hint}"
                )
                break
            games.append(game)
            for reason in game.left_out:
                report.add(reason)
    if all(game.is_unreadable for game in games):
        raise ImportFileError("; ".join([f"{given.name} has no games", *report.problems[:1]]))
    return games


def import_studies(path: AnyPath, given: GivenFile, *, name: str = "") -> ImportedStudies:
    """Creates a study from each game of a PGN file; as `read_file`.

    Args:
      name: of the studies; empty: from the tags of each game.

    Raises:
      StoreError: if the file cannot be written; nothing is added then.
    """
    report = ImportedStudies()
    games = read_file(given, report, most=STUDIES.most, null_moves=True)
    with editing(path) as connection:
        for game in games:
            wanted = rows.free_name(connection, checked_name(name or _title(game, given.name)))
            report.studies.append(rows.add_study(connection, wanted, *_written(game.tree)))
    return report


def _title(game: StudyGame, source: str) -> str:
    """Returns the name of a study from the tags of its game, else from its file."""
    white, black, event = (game.tree.headers.get(tag, "").strip("? ") for tag in ("White", "Black", "Event"))
    players = f"{white or '?'} \N{EN DASH} {black or '?'}" if white or black else ""
    return ", ".join(filter(None, (players, event))) or Path(source).stem or "study"


def _written(game: chess.pgn.Game) -> tuple[str, list[str]]:
    """Returns the text of a study, and the keys of the positions after its moves, to the first null move."""
    text = text_of(game)
    if any(not step.move for step in steps_of(game)):
        game = next(read_games(StringIO(text), "the study")).tree
    return text, [step.key for step in steps_of(game)]


def checked_name(text: str) -> str:
    """Returns the name of a study in one line.

    Raises:
      InvalidParameterError: if the name is empty then.
    """
    found = "".join(c for c in " ".join(text.split()) if c.isprintable())[:LONGEST_NAME].strip()
    if not found:
        raise InvalidParameterError("a study needs a name")
    return found


# ------------------------------------------------------------------ changes
def create_study(path: AnyPath, name: str, game: chess.pgn.Game) -> Study:
    """Creates a study of a game, and returns it.

    Raises:
      InvalidParameterError: if the name is not free.
      StoreError: if the file cannot be written.
    """
    with editing(path) as connection:
        return rows.add_study(connection, checked_name(name), *_written(game))


def change_study(
    path: AnyPath,
    known_by: int | str,
    *,
    game: chess.pgn.Game | None = None,
    name: str | None = None,
    revision: int | None = None,
) -> Study:
    """Replaces the game of a study, or its name, and returns it.

    Args:
      game, name: None: unchanged. revision: the expected one; None: any.

    Raises:
      ChangedMeanwhileError: if the study has another revision.
      InvalidParameterError: if there is no such study, or the name is not free.
      StoreError: if the file cannot be written.
    """
    with editing(path) as connection:
        study = _at_revision(connection, known_by, revision, "it is shown as it is now")
        text, keys = (None, None) if game is None else _written(game)
        return rows.update_study(
            connection, study, name=study.name if name is None else checked_name(name), pgn=text, keys=keys
        )


def delete_study(path: AnyPath, known_by: int | str, revision: int | None = None) -> Study:
    """Deletes and returns a study; as `change_study`."""
    with editing(path) as connection:
        study = _at_revision(connection, known_by, revision, "look at it first")
        rows.delete_study(connection, study.id)
        return study


def _at_revision(
    connection: sqlite3.Connection, known_by: int | str, revision: int | None, hint: str
) -> Study:
    study = _wanted(connection, known_by)
    if revision not in (None, study.revision):
        raise ChangedMeanwhileError(
            f"the study {study.name!r} was changed elsewhere at {study.changed}; {hint}"
        )
    return study


def turn_edit(path: AnyPath, act: Literal["undo", "redo"]) -> TurnedEdit | None:
    """Undoes the last edit of studies, notes and repertoires, or redoes the one undone last; returns it.

    None: there is none.

    Raises:
      ChangedMeanwhileError: if another program has changed the same rows without logging it.
      StoreError: if the file cannot be written.
    """
    with changing(path) as connection:
        turned = rows.turn(connection, back=act == "undo")
        for number in turned.studies if turned else ():
            study = rows.find_study(connection, number)
            keys = _written(_game(connection, study).tree)[1] if study else ()
            rows.write_keys(connection, number, keys)
        return turned


# ------------------------------------------------------------------ notes
@dataclass(frozen=True, slots=True)
class PositionNote:
    """The note on a position, or None, and (number, name, move) of each study that reaches the position."""

    key: str
    position: str
    note: Note | None
    studies: tuple[tuple[int, str, int], ...]

    def as_dict(self) -> dict[str, object]:
        """Returns the JSON object of `graphsearch note POSITION`."""
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
        if known:
            rows.delete_note(connection, known)
        return None
