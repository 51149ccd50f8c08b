"""Reads, changes, imports and exports studies, notes and repertoires; undoes and redoes edits.

A change names the revision that was read.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from io import StringIO
from itertools import islice
from typing import Annotated, Any, Literal

import chess.pgn
from pydantic import Field
from starlette.responses import Response

from ..base.answer import plain
from ..base.deadline import time_limit
from ..base.errors import GraphSearchError, InvalidPositionError
from ..base.limits import STUDY_MOVES, open_file
from ..book.study import repertoire, studies
from ..book.study.studies import MoveRow, game_of, read_games, text_of
from ..exchange.importing import GivenFile
from ..position.notation import START_WORD, named_board
from ..query.line import tree_values
from .routes import download, get, post, upload
from .task_queue import ServedFile
from .tasks import (
    MOST_BODY_BYTES,
    SPELLED,
    GivenPosition,
    Name,
    Nothing,
    Text,
    Upload,
    Wanted,
    Words,
    file_name,
)

IMPORT_SECONDS = 60.0  # time limit of an import from the page
MOST_VALUES = 1000  # moves that are shown with their values
Number = Annotated[int, Field(ge=0, le=10**9), SPELLED]
Comment = Annotated[str, Field(max_length=1 << 20)]
Nags = Annotated[list[Annotated[int, Field(ge=0, le=255)]], Field(max_length=256)]
Uci = Annotated[str, Field(max_length=5)]


# ------------------------------------------------------------ requests
class StudyWanted(Wanted):
    """A study by its number; 0 for all studies where that makes sense."""

    id: Number = 0


class GivenMove(Wanted):
    """A move of a game; `parent`: the number of the move before it."""

    id: Number
    parent: Number = 0
    move: Uci = ""
    before: Comment = ""
    comment: Comment = ""
    nags: Nags = Field(default_factory=list)


class GivenGame(Wanted):
    """A game with variations: its moves, each after its parent, a line before its variations."""

    root: Words = START_WORD
    moves: Annotated[list[GivenMove], Field(max_length=STUDY_MOVES.default)] = Field(default_factory=list)
    comment: Comment = ""
    headers: dict[Name, Words] = Field(default_factory=dict, max_length=100)

    def game(self) -> chess.pgn.Game:
        """Returns the game.

        Raises:
          InvalidPositionError: if it begins with no legal position.
          InvalidParameterError: if a move is illegal.
        """
        rows = (
            MoveRow(it.id, it.parent, it.move, "", it.before, it.comment, tuple(it.nags)) for it in self.moves
        )
        headers = {tag: value for tag, value in self.headers.items() if value}
        return game_of(named_board(self.root), rows, comment=self.comment, headers=headers)


class NewStudy(Wanted):
    """A new study."""

    name: Name = ""
    game: GivenGame


class StudyGone(Wanted):
    """A study to delete, at the revision that was read."""

    id: Number
    revision: Number


class StudyEdit(StudyGone):
    """A new game or a new name of a study at the revision that was read."""

    name: Name | None = None
    game: GivenGame | None = None


class StudyImport(Wanted):
    """An import into studies: the name of the received file, and the user's name for it."""

    file: Upload
    name: Words = ""


class TreeText(Text):
    """A game with variations and comments as text; `number`: which one of several."""

    number: Annotated[int, Field(ge=1, le=10**9), SPELLED] = 1


class ValuesWanted(Wanted):
    """The values of moves, each named by its parent's number and itself, as in `query.line.tree_values`."""

    root: Words = "startpos"
    moves: Annotated[list[tuple[Number, Uci]], Field(max_length=MOST_VALUES)] = Field(default_factory=list)


class NoteWritten(GivenPosition):
    """The new note on a position; `revision`: that of the note that was read."""

    text: Annotated[str, Field(max_length=MOST_BODY_BYTES)] = ""
    revision: Number = 0


class SideWanted(Wanted):
    """A side's repertoire; `form`: of its file."""

    side: Literal["white", "black"]
    form: Literal["pgn", "toml"] = "pgn"


class RepertoireLine(GivenPosition, SideWanted):
    """A line of a side's repertoire."""


class RepertoireImport(SideWanted, StudyImport):
    """An import into a side's repertoire."""


# ------------------------------------------------------------ studies
def _studies(served: ServedFile, wanted: Nothing) -> dict[str, object]:
    """Returns the list of studies, and the reason if they cannot be changed."""
    return {"studies": plain(studies.list_studies(served.path)), "closed": closed(served)}


def closed(served: ServedFile) -> str:
    """Returns the reason if the file cannot be written; else empty."""
    try:
        served.may_write()
    except GraphSearchError as error:
        return str(error)
    if not os.access(served.path, os.W_OK):
        return f"{served.path.name} can only be read; check its permissions"
    return ""


def _study(served: ServedFile, wanted: StudyWanted) -> dict[str, object]:
    study, game = studies.load_study(served.path, wanted.id)
    return asdict(study) | game.as_dict()


def _new(served: ServedFile, wanted: NewStudy) -> dict[str, object]:
    found = studies.create_study(served.path, wanted.name, wanted.game.game())
    return _study(served, StudyWanted(id=found.id))


def _edit(served: ServedFile, wanted: StudyEdit) -> dict[str, object]:
    game = wanted.game.game() if wanted.game else None
    return asdict(
        studies.change_study(served.path, wanted.id, game=game, name=wanted.name, revision=wanted.revision)
    )


def _delete(served: ServedFile, wanted: StudyGone) -> dict[str, object]:
    return {"name": studies.delete_study(served.path, wanted.id, wanted.revision).name}


# ------------------------------------------------------------ PGN
@contextmanager
def _uploaded(served: ServedFile, wanted: StudyImport) -> Iterator[GivenFile]:
    """Yields an uploaded file, to be read within `IMPORT_SECONDS`, and removes it."""
    path = served.place.folder / wanted.file
    try:
        with open_file(path) as stream, time_limit(IMPORT_SECONDS):
            yield GivenFile(file_name(wanted.name), stream)
    finally:
        path.unlink(missing_ok=True)


def _import(served: ServedFile, wanted: StudyImport) -> dict[str, Any]:
    """Makes studies of the games of an uploaded file."""
    with _uploaded(served, wanted) as file:
        return studies.import_studies(served.path, file).as_dict()


def _pgn(served: ServedFile, wanted: StudyWanted) -> Response:
    """Returns a study as a file, or all of them."""
    text = studies.export_studies(served.path, [wanted.id] if wanted.id else [])
    name = f"study-{wanted.id}" if wanted.id else f"{served.path.stem}-studies"
    return download(text, name, "pgn")


def _read(served: ServedFile, wanted: TreeText) -> dict[str, object]:
    """Returns one game of a text for the pane, with all comments and variations, without saving it."""
    games = read_games(StringIO(wanted.text, None), "the text")
    game = next(islice(games, wanted.number - 1, None), None)
    if game is None:
        raise InvalidPositionError(f"there is no game {wanted.number} in the text")
    return game.as_dict()


def _values(served: ServedFile, wanted: ValuesWanted) -> dict[str, object]:
    """Returns the values of a tree's moves."""
    return served.answer(partial(tree_values, start=named_board(wanted.root), moves=wanted.moves))


# ------------------------------------------------------------ notes
def _note(served: ServedFile, wanted: NoteWritten) -> dict[str, object]:
    board = wanted.board()
    studies.write_note(served.path, board, wanted.text, wanted.revision)
    return studies.note_on(served.path, board).as_dict()


# ------------------------------------------------------------ undo
def _turned(served: ServedFile, act: Literal["undo", "redo"]) -> dict[str, object]:
    """Undoes or redoes an edit of studies, notes and repertoires."""
    found = studies.turn_edit(served.path, act)
    return {"edit": asdict(found) if found else None}


# ------------------------------------------------------------ repertoires
def _repertoire(served: ServedFile, wanted: SideWanted) -> dict[str, object]:
    """Returns a repertoire with its gaps and weak spots."""
    return repertoire.survey(served.path, wanted.side).as_dict() | {"closed": closed(served)}


def _repertoire_file(served: ServedFile, wanted: SideWanted) -> Response:
    """Returns a repertoire as a file."""
    if wanted.form == "toml":
        text = repertoire.toml_of_repertoire(served.path, wanted.side, wanted.side)
    else:
        text = repertoire.pgn_of_repertoire(served.path, wanted.side)
    return download(text, wanted.side, wanted.form)


def _import_repertoire(served: ServedFile, wanted: RepertoireImport) -> dict[str, Any]:
    """Adds the lines of an uploaded file."""
    with _uploaded(served, wanted) as file:
        return repertoire.import_file(served.path, wanted.side, file).as_dict()


ROUTES = [
    get("/api/studies", Nothing, _studies),
    get("/api/study", StudyWanted, _study),
    get("/api/study-pgn", StudyWanted, _pgn),
    get("/api/note", GivenPosition, lambda served, it: studies.note_on(served.path, it.board())),
    post("/api/study-new", NewStudy, _new),
    post("/api/study-change", StudyEdit, _edit),
    post("/api/study-delete", StudyGone, _delete),
    post("/api/note", NoteWritten, _note),
    post("/api/undo", Nothing, lambda served, _: _turned(served, "undo")),
    post("/api/redo", Nothing, lambda served, _: _turned(served, "redo")),
    post("/api/tree-pgn", GivenGame, lambda _, it: {"pgn": text_of(it.game())}, writes=False),
    post("/api/read-tree", TreeText, _read, writes=False),
    post("/api/tree-values", ValuesWanted, _values, writes=False),
    upload("/api/study-import", StudyImport, _import),
    get("/api/repertoire", SideWanted, _repertoire),
    get("/api/repertoire-file", SideWanted, _repertoire_file),
    post(
        "/api/repertoire-add",
        RepertoireLine,
        lambda on, it: repertoire.add_line(on.path, it.side, it.board()),
    ),
    post(
        "/api/repertoire-remove",
        RepertoireLine,
        lambda on, it: repertoire.remove_move(on.path, it.side, it.board()),
    ),
    upload("/api/repertoire-import", RepertoireImport, _import_repertoire),
]
