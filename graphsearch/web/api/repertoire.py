"""Repertoires for the page: show, change, import, export and drill; and the changes since a visit."""

from __future__ import annotations

from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ...base.errors import InvalidParameterError
from ...book.study.repertoire import drill
from ...book.study.repertoire.moves import add_line, import_file, remove_move
from ...book.study.repertoire.survey import survey
from ...book.study.repertoire.writing import pgn_of_repertoire, toml_of_repertoire
from ...book.study.visits import VisitChanges, changes_since, changes_since_visit, note_visit, snapshot
from ...exchange.sources import GivenFile
from ...store.tables.visits import Seen
from ..lines import with_ways
from ..served_file import ServedFile
from .requests import GivenPosition, Wanted, download, get, post
from .studies import StudyImport, closed, imported

MOST_CHANGES, MOST_WAYS = 1000, 100  # changes in an answer; with a line each
MOST_LOOKED_AT, MOST_SEEN = 1000, 2000
Fen = Annotated[str, Field(max_length=120)]
Side = Literal["white", "black"]
Bound = Annotated[int, Field(ge=-1, le=1)]
Share = Annotated[float, Field(ge=-1, le=1)]


# ------------------------------------------------------------ requests
class OnDay(Wanted):
    """A request on a day of the user's calendar; by default the server's."""

    day: Annotated[str, Field(max_length=10)] | None = None

    def today(self) -> date | None:
        """Returns the day, None if none is given.

        Raises:
          InvalidParameterError: if it is not a date.
        """
        try:
            return date.fromisoformat(self.day) if self.day else None
        except ValueError:
            raise InvalidParameterError(
                f"day: expected a date such as 2026-01-31, not {self.day!r}"
            ) from None


class SideWanted(Wanted):
    """A side's repertoire."""

    side: Side


class RepertoireWanted(SideWanted, OnDay):
    """A side's repertoire on a day."""


class RepertoireLine(GivenPosition):
    """A line of a side's repertoire."""

    side: Side


class RepertoireFile(SideWanted):
    """A side's repertoire as a file."""

    form: Literal["pgn", "toml"] = "pgn"


class RepertoireImport(SideWanted, StudyImport):
    """An import into a side's repertoire; its file is the body."""


class DrillWanted(RepertoireLine, OnDay):
    """The next question after a line, or, with `anew`, of a new line."""

    anew: bool = False


class DrillAnswer(RepertoireLine, OnDay):
    """The answer to a question."""

    move: Annotated[str, Field(max_length=5)]


class ChangesWanted(Wanted):
    """The changes since the last visit, with lines to the positions if `ways` is set."""

    ways: bool = False


class SeenPosition(Wanted):
    """The former numbers of a position."""

    key: Annotated[str, Field(max_length=20)]
    fen: Fen
    n: Annotated[int, Field(ge=0, le=10**18)]
    q: Share
    draw: Annotated[float, Field(ge=0, le=1)]
    lower: Bound
    upper: Bound
    best_move: Annotated[str, Field(max_length=5, pattern=r"^[a-h][1-8][a-h][1-8][nbrq]?$")] | None = None

    def row(self) -> Seen:
        """Returns the row of `seen`."""
        return Seen(
            *(self.key, self.fen, self.n, self.q, self.draw), *(self.lower, self.upper, self.best_move)
        )


class SeenWanted(ChangesWanted):
    """The changes since the numbers kept by the browser."""

    since: Annotated[str, Field(max_length=40)]
    seen: Annotated[list[SeenPosition], Field(max_length=MOST_SEEN)] = Field(default_factory=list)


class LookedAt(Wanted):
    """The positions that the user has looked at."""

    looked: Annotated[list[Fen], Field(max_length=MOST_LOOKED_AT)] = Field(default_factory=list)


# ------------------------------------------------------------ repertoires
def _repertoire(served: ServedFile, wanted: RepertoireWanted) -> dict[str, object]:
    """Returns a repertoire with its gaps, weak spots and due positions."""
    state = drill.due_cards(served.kept, wanted.side, today=wanted.today()).drills[0]
    facts = {"cards": state.cards, "due": len(state.due), "next_due": state.next_due}
    return survey(served.kept, wanted.side).as_dict() | facts | {"closed": closed(served)}


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


# ------------------------------------------------------------ drill
def _question(served: ServedFile, wanted: DrillWanted) -> dict[str, object]:
    """Returns the next question, null if nothing is due."""
    board = None if wanted.anew else wanted.board()
    found = drill.next_question(served.kept, wanted.side, board, today=wanted.today())
    return {"question": found.as_dict() if found else None}


def _answer(served: ServedFile, wanted: DrillAnswer) -> drill.Verdict:
    return drill.answer(served.path, wanted.side, wanted.board(), wanted.move, today=wanted.today())


# ------------------------------------------------------------ visits


def _changes_since(served: ServedFile, wanted: SeenWanted) -> dict[str, object]:
    """Returns the changes since the numbers kept by the browser."""
    found = changes_since(served.kept, [one.row() for one in wanted.seen], wanted.since)
    return _shown(served, found, wanted)


def _shown(served: ServedFile, found: VisitChanges, wanted: ChangesWanted) -> dict[str, object]:
    rows = [one.as_dict() for one in found.changes[: MOST_WAYS if wanted.ways else MOST_CHANGES]]
    shown = with_ways(served.path, rows) if wanted.ways else rows
    return found.as_dict() | {"closed": closed(served), "changes": shown}


def _visit(served: ServedFile, wanted: LookedAt) -> dict[str, object]:
    """Records a visit of the file up to now."""
    note_visit(served.path, wanted.looked)
    return {}


def _snapshot(served: ServedFile, wanted: LookedAt) -> dict[str, object]:
    """Returns the numbers that the browser keeps if the file cannot be written."""
    return {"seen": [asdict(one) for one in snapshot(served.kept, wanted.looked)]}


ROUTES = [
    get("/api/repertoire", RepertoireWanted, _repertoire),
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
    get("/api/drill", DrillWanted, _question),
    post("/api/drill", DrillAnswer, _answer),
    get("/api/changes", ChangesWanted, lambda of, it: _shown(of, changes_since_visit(of.kept), it)),
    post("/api/changes", SeenWanted, _changes_since, writes=False),
    post("/api/visit", LookedAt, _visit),
    post("/api/snapshot", LookedAt, _snapshot, writes=False),
]
