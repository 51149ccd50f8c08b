"""Reads, changes, imports and exports studies and notes for the notation pane.

A change names the revision that was read.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import TypeVar
from uuid import uuid4

import chess
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
from ...store.sharded.files import file_of_tables
from ...store.tables.studies import Study, StudyMove
from ..served_file import ServedFile
from .asking import download, error_of, get, post, served_by
from .requests import GivenPosition, Nothing, read_query
from .study_requests import (
    NewStudy,
    NoteWritten,
    StudyChangeWanted,
    StudyEdit,
    StudyGone,
    StudyImport,
    StudyWanted,
    TreeText,
    ValuesWanted,
)
from .work import file_name, received

_Upload = TypeVar("_Upload", bound=StudyImport)

IMPORT_SECONDS = 60.0  # time limit of an import from the page
MOST_SHOWN, FIRST_SHOWN = 50_000, 2000  # characters of a comment, and of the beginning of a longer one


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
    if not os.access(file_of_tables(served.path), os.W_OK):
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


async def imported(
    request: Request, model: type[_Upload], add: Callable[[Path, _Upload, GivenFile], dict[str, object]]
) -> Response:
    """Adds an uploaded file to the served one by `add`, within `IMPORT_SECONDS`; returns its report."""
    served = served_by(request)

    def read(file: Path, wanted: _Upload) -> dict[str, object]:
        with open_file(file) as stream, time_limit(IMPORT_SECONDS):
            return add(served.path, wanted, GivenFile(file_name(wanted.name), stream))

    try:
        served.may_write()
        wanted = read_query(model, request.query_params)
        file = await received(request, served.folder / uuid4().hex)
        try:
            return JSONResponse(await run_in_threadpool(read, file, wanted))
        finally:
            file.unlink(missing_ok=True)
    except GraphSearchError as error:
        return error_of(error)


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
    lines = TextIOWrapper(BytesIO(wanted.text.encode()), encoding="latin-1", newline="")
    game = next((one for one in read_games(lines, "the text") if one.number == wanted.number), None)
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


ROUTES = [
    get("/api/studies", Nothing, _studies),
    get("/api/study", StudyWanted, lambda served, it: _as_dict(*studies.load_study(served.path, it.id))),
    get("/api/study-pgn", StudyWanted, _pgn),
    get("/api/note", GivenPosition, lambda served, it: note_on(served.path, it.board())),
    post("/api/study-new", NewStudy, _new),
    post("/api/study-change", StudyEdit, _edit),
    post("/api/study-delete", StudyGone, _delete),
    post("/api/note", NoteWritten, _note),
    post("/api/tree-pgn", NewStudy, _tree_pgn, writes=False),
    post("/api/read-tree", TreeText, _read, writes=False),
    post("/api/tree-values", ValuesWanted, _values, writes=False),
    Route("/api/study-import", _import, methods=["POST"]),
]
