"""Lists, imports, exports and changes the studies of a graph file, each in one transaction."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import gettempdir

import chess

from ...base.answer import Answer
from ...base.deadline import check_time
from ...base.errors import ChangedMeanwhileError, ImportFileError, InvalidParameterError
from ...base.limits import STUDIES, STUDY_MOVES
from ...exchange.sources import GivenFile, opened
from ...position.board import board_of, check, fen_of
from ...store.plain_tables import editing, opened_to_read
from ...store.tables import studies as rows
from ...store.tables.studies import Study, StudyMove
from ...store.upkeep.verify import Problems
from .pgn import ReadGame, read_games, text_of
from .tree import START, Growth, Tree, clean, made

AnyPath = str | os.PathLike[str]
OnGame = Callable[[int], object]
LONGEST_NAME = 200


@dataclass(frozen=True, slots=True)
class StudyEntry:
    """A study in the list."""

    id: int
    name: str
    moves: int
    revision: int
    created: str
    changed: str


@dataclass(frozen=True, slots=True)
class StudyList(Answer):
    """The studies of a file, by name."""

    studies: tuple[StudyEntry, ...]


@dataclass(slots=True, kw_only=True)
class ImportedStudies(Problems, Answer):
    """The imported studies; `problems` lists each skipped part with its reason."""

    json_keys = "studies found left_out=problems"

    studies: list[StudyEntry] = field(default_factory=list)


# ------------------------------------------------------------------ looking
def list_studies(path: AnyPath) -> StudyList:
    """Returns the studies of a file.

    Raises:
      StoreError: if the file cannot be read.
    """
    with opened_to_read(path) as connection:
        return StudyList(tuple(_entry(study, moves) for study, moves in rows.all_studies(connection)))


def _entry(study: Study, moves: int) -> StudyEntry:
    return StudyEntry(study.id, study.name, moves, study.revision, study.created, study.changed)


def load_study(path: AnyPath, known_by: int | str) -> tuple[Study, Tree]:
    """Returns a study, by number or name.

    Raises:
      InvalidParameterError: if there is no such study.
      StoreError: if the file cannot be read.
    """
    with opened_to_read(path) as connection:
        study = _wanted(connection, known_by)
        return study, Tree(rows.moves_of(connection, study.id))


def _wanted(connection: sqlite3.Connection, known_by: int | str) -> Study:
    found = rows.find_study(connection, known_by)
    if found is None:
        raise InvalidParameterError(f"there is no study {known_by!r}; `graphsearch study list` names all")
    return found


def export_studies(path: AnyPath, names: Sequence[int | str]) -> str:
    """Returns the named studies as PGN; without names, all studies in the order in which they were made.

    Raises:
      InvalidParameterError: if a name has no study.
      StoreError: if the file cannot be read, or has an illegal move.
    """
    with opened_to_read(path) as connection:
        wanted = [_wanted(connection, name) for name in names]
        if not names:
            wanted = sorted((study for study, _ in rows.all_studies(connection)), key=lambda study: study.id)
        return "\n".join(text_of(study, Tree(rows.moves_of(connection, study.id))) for study in wanted)


# ------------------------------------------------------------------ PGN
def import_file(
    path: AnyPath, given: GivenFile, *, name: str = "", on_game: OnGame = lambda _: None
) -> ImportedStudies:
    """Imports a PGN file, compressed or not, or a stream; as `import_studies`.

    Raises:
      ImportFileError: if the file cannot be read.
    """
    with opened(given, Path(gettempdir())) as file:
        return import_studies(path, file.lines(), given.name, name=name, on_game=on_game)


def import_studies(
    path: AnyPath, lines: Iterable[str], source: str, *, name: str = "", on_game: OnGame = lambda _: None
) -> ImportedStudies:
    """Creates a study from each game of a PGN text.

    Args:
      lines: with line ends. source: name of the text.
      name: of the studies; empty: from the tags of each game.
      on_game: called with the number of each game read.

    Raises:
      ImportFileError: if the text has no game that can be read.
      StoreError: if the file cannot be written; nothing is added then.
    """
    report = ImportedStudies()
    games = _taken(lines, source, report, on_game)
    if all(game.is_unreadable for game in games):
        raise ImportFileError("; ".join([f"{source} has no games", *report.problems[:1]]))
    with editing(path) as connection:
        for game in games:
            wanted = checked_name(name or _title(game, source))
            study = rows.add_study(
                connection, rows.free_name(connection, wanted), game.fen, game.headers, game.comment
            )
            rows.put_moves(connection, study.id, game.moves)
            connection.execute("UPDATE study SET last = ? WHERE id = ?", (len(game.moves), study.id))
            report.studies.append(_entry(study, len(game.moves)))
    return report


def _taken(lines: Iterable[str], source: str, report: ImportedStudies, on_game: OnGame) -> list[ReadGame]:
    """Returns the games of a text within the limits of one import."""
    games: list[ReadGame] = []
    moves = 0
    for game in read_games(lines, source):
        check_time()
        on_game(game.number)
        moves += len(game.moves)
        if moves > STUDY_MOVES.most or len(games) == STUDIES.most:
            most = STUDIES if len(games) == STUDIES.most else STUDY_MOVES
            report.add(
                f"{source}, game {game.number} and all behind it: more than {most.shown()}, the most for"
                f" {most.what}{most.hint}"
            )
            break
        games.append(game)
        for reason in game.left_out:
            report.add(reason)
    return games


def _title(game: ReadGame, source: str) -> str:
    """Returns the name of a study from the tags of its game, else from its file."""
    white, black, event = (game.headers[tag].strip("? ") for tag in ("White", "Black", "Event"))
    players = f"{white or '?'} \N{EN DASH} {black or '?'}" if white or black else ""
    return ", ".join(filter(None, (players, event))) or Path(source).stem or "study"


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
@dataclass(frozen=True, slots=True, kw_only=True)
class StudyChange:
    """A change of a study.

    Attributes:
      put: new moves, with numbers above all others, and moves with a new place, comments or glyphs.
      drop: numbers of moves to delete, with all moves below them.
      keep: numbers of moves of `put` that keep their comments.
      comment: before the first move; None: unchanged. headers: tags to set; an empty value deletes the tag.
      name: the new one; None: unchanged.
    """

    put: Sequence[StudyMove] = ()
    drop: Sequence[int] = ()
    keep: Collection[int] = ()
    comment: str | None = None
    headers: dict[str, str] = field(default_factory=dict)
    name: str | None = None


def pgn_of(fen: str, change: StudyChange) -> str:
    """Returns the PGN of an empty study after a change.

    Raises:
      InvalidParameterError: if a move is illegal.
    """
    tree = Tree(())
    start = None if fen == chess.STARTING_FEN else fen
    study = Study(
        id=1,
        name="",
        fen=start,
        headers=change.headers,
        comment=clean(change.comment or ""),
        last=0,
        revision=1,
        created="",
        changed="",
    )
    _put(study, tree, change)
    return text_of(study, tree)


def create_study(path: AnyPath, name: str, fen: str | None, change: StudyChange) -> Study:
    """Creates a study, applies a change to it, and returns it.

    Raises:
      InvalidParameterError: if the name is not free, or a move is illegal.
      InvalidPositionError: for an illegal position.
      StoreError: if the file cannot be written.
    """
    board = board_of(fen or chess.STARTING_FEN)
    check(board)
    start = None if fen_of(board) == chess.STARTING_FEN else fen_of(board)
    with editing(path) as connection:
        study = rows.add_study(connection, checked_name(name), start, {}, "")
        return _changed(connection, study, change)


def change_study(
    path: AnyPath, known_by: int | str, change: StudyChange, revision: int | None = None
) -> Study:
    """Changes a study, and returns it.

    Args:
      revision: the expected one; None: any.

    Raises:
      ChangedMeanwhileError: if the study has another revision.
      InvalidParameterError: if there is no such study or move, the name is not free, or a move is illegal.
      StoreError: if the file cannot be written.
    """
    with editing(path) as connection:
        study = _wanted(connection, known_by)
        if revision is not None and study.revision != revision:
            raise ChangedMeanwhileError(
                f"the study {study.name!r} was changed elsewhere at {study.changed}; it is shown as it is now"
            )
        return _changed(connection, study, change)


def _changed(connection: sqlite3.Connection, study: Study, change: StudyChange) -> Study:
    if change.name is not None and (name := checked_name(change.name)) != study.name:
        rows.check_free(connection, name)
        study = replace(study, name=name)
    if change.put or change.drop:
        tree = Tree(rows.moves_of(connection, study.id))
        dropped = _dropped(tree, change.drop)
        put = _put(study, tree, change)
        rows.drop_moves(connection, study.id, dropped)
        rows.put_moves(connection, study.id, put)
        study = replace(study, last=max([study.last, *(move.id for move in put)]))
    headers = {tag: value for tag, value in (study.headers | change.headers).items() if value}
    comment = study.comment if change.comment is None else clean(change.comment)
    return rows.update_study(connection, replace(study, headers=headers, comment=comment))


def _dropped(tree: Tree, drop: Sequence[int]) -> set[int]:
    gone: set[int] = set()
    for number in drop:
        if number not in tree.moves:
            raise InvalidParameterError(f"the study has no move {number}")
        gone |= {number, *tree.below(number)}
    return gone


def _put(study: Study, tree: Tree, change: StudyChange) -> list[StudyMove]:
    growth, found, last = Growth(study, tree), [], study.last
    for given in change.put:
        known = tree.moves.get(given.id)
        if known is not None:
            facts = replace(given, parent=known.parent)
            if given.id in change.keep:
                facts = replace(facts, before=known.before, comment=known.comment)
            found.append(made(facts, key=known.key, move=known.move, san=known.san))
        elif given.id <= last or given.id == START:
            raise InvalidParameterError(f"move {given.id} is not there any more")
        else:
            found.append(growth.grown(given))
            last = given.id
    return found


def delete_study(path: AnyPath, known_by: int | str, revision: int | None = None) -> Study:
    """Deletes and returns a study.

    Raises:
      as `change_study`.
    """
    with editing(path) as connection:
        study = _wanted(connection, known_by)
        if revision is not None and study.revision != revision:
            raise ChangedMeanwhileError(f"the study {study.name!r} was changed elsewhere; look at it first")
        rows.delete_study(connection, study.id)
        return study
