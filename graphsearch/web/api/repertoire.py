"""Repertoires for the page: show, change, import and export."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ...book.study.repertoire import add_line, import_file, remove_move
from ...book.study.survey import pgn_of_repertoire, survey, toml_of_repertoire
from ...exchange.sources import GivenFile
from ..served_file import ServedFile
from ..wanted import GivenPosition, Wanted
from .routes import download, get, post
from .studies import StudyImport, closed, imported

Side = Literal["white", "black"]


# ------------------------------------------------------------ requests
class SideWanted(Wanted):
    """A side's repertoire."""

    side: Side


class RepertoireLine(GivenPosition):
    """A line of a side's repertoire."""

    side: Side


class RepertoireFile(SideWanted):
    """A side's repertoire as a file."""

    form: Literal["pgn", "toml"] = "pgn"


class RepertoireImport(SideWanted, StudyImport):
    """An import into a side's repertoire; its file is the body."""


# ------------------------------------------------------------ repertoires
def _repertoire(served: ServedFile, wanted: SideWanted) -> dict[str, object]:
    """Returns a repertoire with its gaps and weak spots."""
    return survey(served.kept, wanted.side).as_dict() | {"closed": closed(served)}


def _file(served: ServedFile, wanted: RepertoireFile) -> Response:
    """Returns a repertoire as a file."""
    if wanted.form == "toml":
        return download(toml_of_repertoire(served.path, wanted.side, wanted.side), wanted.side, "toml")
    return download(pgn_of_repertoire(served.path, wanted.side), wanted.side, "pgn")


async def _import(request: Request) -> Response:
    """Adds the lines of an uploaded file."""

    def add(path: Path, wanted: RepertoireImport, file: GivenFile) -> dict[str, object]:
        return import_file(path, wanted.side, file).as_dict()

    return await imported(request, RepertoireImport, add)


ROUTES = [
    get("/api/repertoire", SideWanted, _repertoire),
    get("/api/repertoire-file", RepertoireFile, _file),
    post(
        "/api/repertoire-add", RepertoireLine, lambda served, it: add_line(served.path, it.side, it.board())
    ),
    post(
        "/api/repertoire-remove",
        RepertoireLine,
        lambda served, it: remove_move(served.path, it.side, it.board()),
    ),
    Route("/api/repertoire-import", _import, methods=["POST"]),
]
