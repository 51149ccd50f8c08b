"""Reads, changes, imports and exports studies and notes for the notation pane; undoes and redoes edits.

A change names the revision that was read.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from io import StringIO
from pathlib import Path
from sqlite3 import Connection
from typing import Annotated, TypeVar
from uuid import uuid4

import chess
from pydantic import Field
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ...base.deadline import time_limit
from ...base.errors import GraphSearchError, InvalidPositionError
from ...base.limits import open_file
from ...book.study import studies
from ...book.study.notes import note_on, write_note
from ...book.study.pgn import ReadGame, read_games
from ...book.study.studies import StudyChange
from ...book.study.tree import START, Tree
from ...exchange.sources import GivenFile
from ...position.board import fen_of
from ...position.notation import named_board
from ...query.line import tree_values
from ...store.plain_tables import changing
from ...store.tables.edits import TurnedEdit, redo, undo
from ...store.tables.studies import Study, StudyMove
from ..served_file import ServedFile
from .requests import (
    MOST_BODY_BYTES,
    SPELLED,
    Answer,
    GivenPosition,
    Name,
    Nothing,
    Text,
    Wanted,
    Words,
    download,
    get,
    post,
    read_request,
    served_by,
)
from .work import file_name, received

IMPORT_SECONDS = 60.0  # time limit of an import from the page
MOST_SHOWN, FIRST_SHOWN = 50_000, 2000  # characters of a comment, and of the beginning of a longer one
MOST_MOVES = 200_000  # of a change
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
    """A move of a study, new or changed; with `keeps` its comments stay: the page shows them in part."""

    id: Number
    parent: Number = 0
    place: Number = 0
    move: Uci = ""
    before: Comment = ""
    comment: Comment = ""
    nags: Nags = Field(default_factory=list)
    keeps: bool = False


class StudyChangeWanted(Wanted):
    """A change of a study; with `says` it sets `comment`, since an empty field counts as missing."""

    put: Annotated[list[GivenMove], Field(max_length=MOST_MOVES)] = Field(default_factory=list)
    drop: Annotated[list[Number], Field(max_length=MOST_MOVES)] = Field(default_factory=list)
    comment: Comment = ""
    says: bool = False
    headers: dict[Name, Words] = Field(default_factory=dict, max_length=100)
    name: Name | None = None


class StudyGone(Wanted):
    """A study to delete, at the revision that was read."""

    id: Number
    revision: Number


class StudyEdit(StudyChangeWanted, StudyGone):
    """A change of a study at the revision that was read."""


class NewStudy(StudyChangeWanted):
    """A new study that begins with a position."""

    root: Words = ""


class StudyImport(Wanted):
    """An import into studies; its file is the body."""

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


# ------------------------------------------------------------ studies
def _studies(served: ServedFile, wanted: Nothing) -> dict[str, object]:
    """Returns the list of studies, and the reason if they cannot be changed."""
    return studies.list_studies(served.path).as_dict() | {"closed": closed(served)}


def closed(served: ServedFile) -> str:
    """Returns the reason if the file cannot be written; else empty."""
    try:
        served.may_write()
    except GraphSearchError as error:
        return str(error)
    if not os.access(served.path, os.W_OK):
        return f"{served.path.name} can only be read; check its permissions"
    return ""


def _as_dict(study: Study, tree: Tree) -> dict[str, object]:
    moves = [_move(tree.moves[number]) for number in tree.below(START)]
    root = study.fen or chess.STARTING_FEN
    facts = asdict(study) | {"fen": root, "comment": _shown(study.comment)}
    return facts | {"moves": moves, "lost": len(tree.lost), "long": len(study.comment) > MOST_SHOWN}


def _move(move: StudyMove) -> dict[str, object]:
    found = {"id": move.id, "parent": move.parent, "place": move.place, "move": move.move, "san": move.san}
    texts = {"before": _shown(move.before), "comment": _shown(move.comment)}
    long = len(move.before) > MOST_SHOWN or len(move.comment) > MOST_SHOWN
    return found | texts | {"nags": [int(number) for number in move.nags.split()], "long": long}


def _shown(text: str) -> str:
    """Returns a comment, or the beginning of a very long one."""
    if len(text) <= MOST_SHOWN:
        return text
    return f"{text[:FIRST_SHOWN]}... ({len(text) - FIRST_SHOWN:,} more characters are in the file)"


def _change(wanted: StudyChangeWanted) -> StudyChange:
    put = [
        StudyMove(
            *(one.id, one.parent, one.place, "", one.move, "", one.before, one.comment),
            " ".join(map(str, sorted(set(one.nags)))),
        )
        for one in wanted.put
    ]
    return StudyChange(
        put=put,
        drop=wanted.drop,
        keep={one.id for one in wanted.put if one.keeps},
        comment=wanted.comment if wanted.says else None,
        headers=wanted.headers,
        name=wanted.name,
    )


def _new(served: ServedFile, wanted: NewStudy) -> dict[str, object]:
    """Makes a study, with a number after its name if the name exists."""
    change = _change(wanted)
    board = named_board(wanted.root) if wanted.root else chess.Board()
    found = studies.create_study(served.path, wanted.name or "", fen_of(board), change)
    return _as_dict(*studies.load_study(served.path, found.id))


def _edit(served: ServedFile, wanted: StudyEdit) -> dict[str, object]:
    found = studies.change_study(served.path, wanted.id, _change(wanted), wanted.revision)
    return {name: getattr(found, name) for name in ("id", "name", "revision", "changed", "last")}


def _delete(served: ServedFile, wanted: StudyGone) -> dict[str, object]:
    return {"name": studies.delete_study(served.path, wanted.id, wanted.revision).name}


# ------------------------------------------------------------ PGN
async def _import(request: Request) -> Response:
    """Makes studies of the games of an uploaded file."""

    def add(path: Path, _: StudyImport, file: GivenFile) -> dict[str, object]:
        return studies.import_file(path, file).as_dict()

    return await imported(request, StudyImport, add)


_Upload = TypeVar("_Upload", bound=StudyImport)


async def imported(
    request: Request, model: type[_Upload], add: Callable[[Path, _Upload, GivenFile], dict[str, object]]
) -> Response:
    """Adds an uploaded file to the served one by `add`, within `IMPORT_SECONDS`; returns its report."""
    served = served_by(request)

    def read(file: Path, wanted: _Upload) -> dict[str, object]:
        with open_file(file) as stream, time_limit(IMPORT_SECONDS):
            return add(served.path, wanted, GivenFile(file_name(wanted.name), stream))

    served.may_write()
    wanted = read_request(model, request.query_params)
    file = await received(request, served.folder / uuid4().hex)
    try:
        return JSONResponse(await run_in_threadpool(read, file, wanted))
    finally:
        file.unlink(missing_ok=True)


def _pgn(served: ServedFile, wanted: StudyWanted) -> Response:
    """Returns a study as a file, or all of them."""
    text = studies.export_studies(served.path, [wanted.id] if wanted.id else [])
    name = f"study-{wanted.id}" if wanted.id else f"{served.path.stem}-studies"
    return download(text, name, "pgn")


def _tree_pgn(served: ServedFile, wanted: NewStudy) -> dict[str, object]:
    """Returns the pane's game as PGN, without saving it."""
    board = named_board(wanted.root) if wanted.root else chess.Board()
    return {"pgn": studies.pgn_of(fen_of(board), _change(wanted))}


def _read(served: ServedFile, wanted: TreeText) -> dict[str, object]:
    """Returns one game of a text for the pane, with all comments and variations, without saving it."""
    game = next(
        (one for one in read_games(StringIO(wanted.text, None), "the text") if one.number == wanted.number),
        None,
    )
    if game is None:
        raise InvalidPositionError(f"there is no game {wanted.number} in the text")
    return tree_dict(game)


def tree_dict(game: ReadGame) -> dict[str, object]:
    """Returns a parsed game as a JSON object for the pane."""
    root = game.fen or chess.STARTING_FEN
    moves = [_move(game.moves[number - 1]) for number in Tree(game.moves).below(START)]
    texts = {"headers": game.headers, "comment": _shown(game.comment), "left_out": game.left_out}
    return {"fen": root, "moves": moves, **texts}


def _values(served: ServedFile, wanted: ValuesWanted) -> dict[str, object]:
    """Returns the values of a tree's moves."""
    return served.answer(partial(tree_values, start=named_board(wanted.root), moves=wanted.moves))


# ------------------------------------------------------------ notes
def _note(served: ServedFile, wanted: NoteWritten) -> dict[str, object]:
    board = wanted.board()
    write_note(served.path, board, wanted.text, wanted.revision)
    return note_on(served.path, board).as_dict()


# ------------------------------------------------------------ undo
def _turned(turn: Callable[[Connection], TurnedEdit | None]) -> Answer[Nothing]:
    """Returns the function that undoes or redoes an edit of studies, notes and repertoires."""

    def answer(served: ServedFile, wanted: Nothing) -> dict[str, object]:
        with changing(served.path) as connection:
            found = turn(connection)
        return {"edit": asdict(found) if found else None}

    return answer


ROUTES = [
    get("/api/studies", Nothing, _studies),
    get("/api/study", StudyWanted, lambda served, it: _as_dict(*studies.load_study(served.path, it.id))),
    get("/api/study-pgn", StudyWanted, _pgn),
    get("/api/note", GivenPosition, lambda served, it: note_on(served.path, it.board())),
    post("/api/study-new", NewStudy, _new),
    post("/api/study-change", StudyEdit, _edit),
    post("/api/study-delete", StudyGone, _delete),
    post("/api/note", NoteWritten, _note),
    post("/api/undo", Nothing, _turned(undo)),
    post("/api/redo", Nothing, _turned(redo)),
    post("/api/tree-pgn", NewStudy, _tree_pgn, writes=False),
    post("/api/read-tree", TreeText, _read, writes=False),
    post("/api/tree-values", ValuesWanted, _values, writes=False),
    Route("/api/study-import", _import, methods=["POST"]),
]
