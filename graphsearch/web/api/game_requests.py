"""Models of requests about imported games."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from .requests import SPELLED, GivenPosition, Name, Ply

MOST_LISTED_GAMES = 100_000  # of a file; a page of the list has some dozens


class GameListWanted(GivenPosition):
    """Imported games by conditions; with `here` those that reach the position."""

    here: bool = False
    player: Name = ""
    opponent: Name = ""
    color: Literal["white", "black"] | None = None
    opening: Name = ""
    result: Literal["1-0", "0-1", "1/2-1/2", "*"] | None = None
    least_elo: Ply | None = None
    most_elo: Ply | None = None
    since: Name | None = None
    until: Name | None = None
    file: Name = ""
    by: Name = "date"
    down: bool = True
    first: Ply = 0
    most: Annotated[int, Field(ge=1, le=MOST_LISTED_GAMES), SPELLED] = 50


class GameWanted(GivenPosition):
    """An imported game, and the position to find in it."""

    source: Ply
    number: Ply
