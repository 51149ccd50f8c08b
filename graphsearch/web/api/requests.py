"""Models of the page's requests: their fields, types and bounds. Other fields are refused.

An empty field counts as missing: forms send all their fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

import chess
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from ...base.errors import InvalidParameterError
from ...base.limits import shortened, whole_number
from ...book.review.review import LEAST_VISITS
from ...exchange.choices import Weights
from ...position.notation import START_WORD, named_board, play_moves
from ...query.novelties import Rules

MOST_ROWS, MOST_PLAYED_ROWS = 1000, 200  # of an answer
MOST_FOLLOWED = 50  # roots
MOST_COUNT = 10**18  # visits, evaluations
MOST_SECONDS = 10**9
MOST_BODY_BYTES = 32 << 20  # of a pasted text, such as games; files are streamed
_RULES = Rules()


def _whole(value: object) -> object:
    """Returns the whole number in a form or an address; the model checks anything else."""
    if isinstance(value, bool):
        raise ValueError("expected a whole number")  # the model reports it
    return whole_number(value) if isinstance(value, str) else value


SPELLED = BeforeValidator(_whole)
Count = Annotated[int, Field(ge=1, le=MOST_COUNT), SPELLED]
Ply = Annotated[int, Field(ge=0, le=10**9), SPELLED]
Rows = Annotated[int, Field(ge=1, le=MOST_ROWS), SPELLED]
PlayedRows = Annotated[int, Field(ge=1, le=MOST_PLAYED_ROWS), SPELLED]
Seconds = Annotated[float, Field(ge=0, le=MOST_SECONDS)]
Quality = Annotated[float, Field(ge=-1, le=1)]
Name = Annotated[str, Field(max_length=200)]  # of a book, a player, an evaluator, a file
Words = Annotated[str, Field(max_length=4000)]  # of a form
Line = Annotated[str, Field(max_length=60_000)]  # moves
Pasted = Annotated[str, Field(max_length=MOST_BODY_BYTES)]
Upload = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$", max_length=32)]  # name of a received file
Statement = Annotated[str, Field(max_length=1 << 20)]


class Wanted(BaseModel):
    """A request; unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _without_blanks(cls, given: Any) -> Any:
        if not isinstance(given, Mapping):
            raise ValueError("a request must be a JSON object")  # the model reports it
        return {name: value for name, value in given.items() if value is not None and value != ""}


_Wanted = TypeVar("_Wanted", bound=Wanted)


def read_request(kind: type[_Wanted], given: Mapping[str, object] | bytes) -> _Wanted:
    """Returns the request from parameters, or from a body: a JSON object, without lone surrogates, not deep.

    Raises:
      InvalidParameterError: with the first wrong field and its problem.
    """
    try:
        if isinstance(given, bytes):
            return kind.model_validate_json(given or b"{}")
        return kind.model_validate(dict(given))
    except ValidationError as error:
        raise InvalidParameterError(_problem_of(error)) from None


def _problem_of(error: ValidationError) -> str:
    """Returns the first problem of a request, as one line."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    text = first["msg"].removeprefix("Value error, ")
    text = {"extra_forbidden": "this request has no such field", "json_invalid": f"no JSON: {text}"}.get(
        first["type"], text
    )
    where = ".".join(map(str, first["loc"]))
    return f"{shortened(where)}: {text[:1].lower()}{text[1:]}" if where else text


# ---------------------------------------------------------------- positions
class Nothing(Wanted):
    """A request without fields."""


class GivenPosition(Wanted):
    """A position: a FEN or the name of a start position, and the moves from there."""

    root: Words = START_WORD
    line: Line = ""

    def board(self) -> chess.Board:
        """Returns the position with the game before it.

        Raises:
          InvalidPositionError: if it is not a legal position.
        """
        found = named_board(self.root)
        play_moves(found, self.line)
        return found


class Rooted(Wanted):
    """A position to begin with, or all roots of the file."""

    root: Words | None = None
    line: Line = ""

    def board(self) -> chess.Board | None:
        """Returns the position; None for all roots.

        Raises:
          InvalidPositionError: if it is not a legal position.
        """
        return None if self.root is None else GivenPosition(root=self.root, line=self.line).board()


class LinesWanted(GivenPosition):
    """The lines of the best moves."""

    lines: Annotated[int, Field(ge=1, le=50), SPELLED] = 5


class PathWanted(GivenPosition):
    """The line from a root; `limit`: most positions to read."""

    limit: Annotated[int, Field(ge=1, le=2000), SPELLED] = 300


class TreeWanted(GivenPosition):
    """The visits below a position; a move is drawn if it has one visit in `share`."""

    share: Annotated[int, Field(ge=2, le=10_000), SPELLED] = 50
    depth: Annotated[int, Field(ge=1, le=20), SPELLED] = 6


class NeighbourhoodWanted(GivenPosition):
    """The graph around a position, or the part of a book there; `form` of a picture."""

    depth: Annotated[int, Field(ge=0, le=40), SPELLED] = 4
    min_visits: Annotated[int, Field(ge=0, le=MOST_COUNT), SPELLED] = 1
    most: Annotated[int, Field(ge=1, le=1000), SPELLED] = 120
    book: Name | None = None
    form: Literal["svg", "dot"] = "svg"


class PositionWanted(GivenPosition):
    """Facts about a position; `rest`: the moves of the line after it."""

    rest: Line = ""


class Text(Wanted):
    """A FEN, a list of moves, or games."""

    text: Pasted = ""


class PgnWanted(GivenPosition):
    """A line as PGN, with the tags of its game; without `whole` the game continued differently."""

    headers: dict[Name, Words] = Field(default_factory=dict, max_length=100)
    whole: bool = False


# ---------------------------------------------------------------- the file
class BookWanted(Wanted):
    """A book, or all."""

    book: Name | None = None


class WhyWanted(GivenPosition, BookWanted):
    """A book's decisions on a position."""


class DisagreeWanted(Wanted):
    """Positions where a second opinion differs."""

    evaluator: Name | None = None
    top: Rows = 50
    min_visits: Count = 1
    by: Literal["value", "policy"] = "value"


class TranspositionsWanted(Rooted):
    """The positions with the most ways in; `look`: positions to examine."""

    top: Rows = 50
    look: Annotated[int, Field(ge=1, le=20_000), SPELLED] = 200


class FindWanted(Wanted):
    """Positions by the content of their records."""

    limit: Rows = 100
    min_n: Annotated[int, Field(ge=0, le=MOST_COUNT), SPELLED] | None = None
    max_n: Annotated[int, Field(ge=0, le=MOST_COUNT), SPELLED] | None = None
    min_q: Quality | None = None
    max_q: Quality | None = None
    bounds: Literal["win", "draw", "loss", "proven"] | None = None
    pieces: Words | None = None
    side: Literal["w", "b"] | None = None
    in_games: bool = False
    book: Name | None = None
    min_ply: Ply | None = None
    max_ply: Ply | None = None


class SqlWanted(Wanted):
    """A read-only SQL statement."""

    statement: Statement = ""


# ---------------------------------------------------------------- imported games
class NoveltiesWanted(GivenPosition, BookWanted):
    """Novelties in games; `share` in per cent."""

    games: Ply = _RULES.games
    share: Annotated[int, Field(ge=0, le=100), SPELLED] = round(100 * _RULES.share)
    cp: Ply | None = None
    min_games: Count = _RULES.min_games
    min_visits: Count = _RULES.min_visits
    move_visits: Count = _RULES.move_visits
    loss: Ply = _RULES.loss
    top: PlayedRows = 20


class PlayersWanted(Wanted):
    """Players by name."""

    name: Name = ""
    top: PlayedRows = 50


class PrepareWanted(BookWanted):
    """Positions where an opponent leaves a book or the graph."""

    player: Name = ""
    color: Literal["white", "black"] | None = None
    since: Name | None = None
    min_games: Count = 1
    min_visits: Count = 10
    by: Literal["games", "cost"] = "games"
    top: PlayedRows = 50


# ---------------------------------------------------------------- other files
class OtherFile(Wanted):
    """A graph file beside the served one, by its name."""

    other: Annotated[str, Field(max_length=1000)] = ""


class DiffWanted(OtherFile):
    """Differences of the two files."""

    turned: bool = False
    cp: Count = 20
    what: Name | None = None
    top: Annotated[int, Field(ge=1, le=500), SPELLED] = 50


class TaskWanted(Wanted):
    """The result of a task, by its number."""

    number: Ply


# ---------------------------------------------------------------- work
class Settings(Wanted):
    """Settings of a search: `params` as names with values, `ram` with its unit."""

    evaluator: Name | None = None
    threads: Annotated[int, Field(ge=1, le=100_000), SPELLED] | None = None
    params: Words = ""
    ram: Name | None = None


class Limited(Wanted):
    """Limits of a search."""

    visits: Count | None = None
    evaluations: Count | None = None
    seconds: Seconds | None = None


class SearchWanted(GivenPosition, Settings, Limited):
    """A search of a position; with `queue` it waits for its turn."""

    searchmoves: Words = ""
    queue: bool = False


class GameSearchWanted(SearchWanted):
    """A search of every position of a line to `until` visits; the limits are ignored."""

    until: Count = 10_000


class FollowedRoot(GivenPosition):
    """A position to search in turn with others, and the moves to search there."""

    share: Annotated[float, Field(ge=0.01, le=1000)] = 1.0
    searchmoves: Words = ""


class FollowWanted(Settings):
    """The positions to search in turn from now on."""

    roots: Annotated[list[FollowedRoot], Field(min_length=1, max_length=MOST_FOLLOWED)]


class BuildWanted(Wanted):
    """A build of a book from the text of a BOOK.toml."""

    text: Statement = ""
    seconds: Seconds | None = None
    evaluations: Count | None = None
    threads: Annotated[int, Field(ge=1, le=100_000), SPELLED] | None = None
    ram: Name | None = None


class ExportWanted(Rooted):
    """An export; `weights` of a Polyglot book."""

    form: Literal["pgn", "polyglot", "epd", "jsonl", "csv", "parquet"]
    book: Name | None = None
    side: Literal["white", "black", "both"] | None = None
    depth: Ply | None = None
    min_visits: Annotated[int, Field(ge=0, le=MOST_COUNT), SPELLED] = 0
    max_moves: Count | None = None
    weights: Weights = "n"


class ImportWanted(Wanted):
    """An import; its file is the body."""

    name: Words = ""
    again: bool = False
    players: bool = False


class KeptImport(ImportWanted):
    """An import with its received file; `file`: its name in the folder of the queue."""

    form: Literal["pgn", "polyglot", "epd"]
    file: Upload


class ReviewWanted(Settings):
    """A review of games; their file is the body."""

    name: Words = ""
    visits: Annotated[int, Field(ge=LEAST_VISITS, le=10**9), SPELLED] = 1000
    player: Name = ""
    since: Name | None = None


class KeptReview(ReviewWanted):
    """A review with its received file; `file`: as for an import."""

    file: Upload


class Order(Wanted):
    """A change of the queue; `number`: the task to stop, `hold`: the queue waits until it is released."""

    action: Literal["stop", "hold", "go", "clear", "forget"]
    number: Ply = 0
    hold: bool = False
