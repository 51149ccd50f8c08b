"""Models of the notation pane's requests."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from .requests import MOST_BODY_BYTES, SPELLED, GivenPosition, Name, Text, Wanted, Words

MOST_MOVES = 200_000  # of a change
MOST_VALUES = 1000  # moves that are shown with their values
Number = Annotated[int, Field(ge=0, le=10**9), SPELLED]
Comment = Annotated[str, Field(max_length=1 << 20)]
Nags = Annotated[list[Annotated[int, Field(ge=0, le=255)]], Field(max_length=256)]
Uci = Annotated[str, Field(max_length=5)]


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
