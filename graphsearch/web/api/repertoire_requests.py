"""Models of requests about repertoires, their drill, and visits."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Literal

from pydantic import Field

from ...base.errors import InvalidParameterError
from ...store.tables.visits import Seen
from .requests import GivenPosition, Wanted
from .study_requests import StudyImport

MOST_LOOKED_AT, MOST_SEEN = 1000, 2000
Fen = Annotated[str, Field(max_length=120)]
Side = Literal["white", "black"]
Bound = Annotated[int, Field(ge=-1, le=1)]
Share = Annotated[float, Field(ge=-1, le=1)]


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
