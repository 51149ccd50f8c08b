"""Answers about the whole file: its content, books, imported games and runs."""

from __future__ import annotations

from io import BytesIO, StringIO
from itertools import takewhile
from typing import Annotated, Any, Literal

import chess
from pydantic import Field
from starlette.responses import Response

from ...base.deadline import check_time
from ...base.errors import GraphSearchError, InvalidParameterError, StatementLimitError
from ...book.status import status
from ...book.study.pgn import StudyGame, read_games, steps_of
from ...book.why import why
from ...exchange.kept_games import export_games, game_text
from ...position.board import key_text
from ...query.find import Filters, find, read_pieces
from ...query.game_list import GameFilters, ListedGames, Order, list_games, players
from ...query.games import games
from ...query.novelties import Novelties, Rules, novelties
from ...query.prepare import Preparation, prepare
from ...query.routes import routes, transpositions
from ...store.info import info, unfinished_state
from ...store.store import Store
from ...store.tables.books import books
from ..served_file import ServedFile
from ..wanted import MOST_COUNT, SPELLED, Count, GivenPosition, Name, Nothing, Ply, Rooted, Wanted, Words
from .routes import download, get

MOST_ROWS, MOST_PLAYED_ROWS = 1000, 200  # of an answer
_RULES = Rules()
MOST_LISTED_GAMES = 100_000  # of a file; a page of the list has some dozens
BARE = "its comments and variations: the graph file has lost them"
Rows = Annotated[int, Field(ge=1, le=MOST_ROWS), SPELLED]
PlayedRows = Annotated[int, Field(ge=1, le=MOST_PLAYED_ROWS), SPELLED]
Quality = Annotated[float, Field(ge=-1, le=1)]


# ---------------------------------------------------------------- requests
class BookWanted(Wanted):
    """A book, or all."""

    book: Name | None = None


class WhyWanted(GivenPosition, BookWanted):
    """A book's decisions on a position."""


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


# ---------------------------------------------------------------- answers
def _with_ways(served: ServedFile, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns rows about positions, each with a line to it from a root as `way`; None if none is known."""
    found = routes(served.path, [row["position"] for row in rows])
    ways = {
        fen: {
            "start": way.start,
            "line": list(way.line),
            "opening": str(way.opening) if way.opening else None,
        }
        for fen, way in found.items()
    }
    return [row | {"way": ways.get(row["position"])} for row in rows]


def _file(served: ServedFile, wanted: Nothing) -> dict[str, Any]:
    """Returns the data that a page needs once: the file, its books, and the permitted actions."""
    facts = info(served.path).as_dict()
    roots = _with_ways(served, facts["roots"][:MOST_ROWS])
    return {
        "name": served.path.name,
        "read_only": served.read_only,
        "evaluators": list(served.evaluators),
        "info": facts | {"runs": facts["runs"][-MOST_ROWS:], "roots": roots},
        "unfinished": unfinished_state(served.path),
    }


def _books(served: ServedFile, wanted: BookWanted) -> dict[str, Any]:
    try:
        found = status(served.path, wanted.book)
    except GraphSearchError as error:
        if wanted.book:
            raise
        return {"books": [], "note": str(error)}
    with Store.open(served.path, read_only=True) as store:
        texts = {row.name: row.config for row in books(store)}
    return {"books": [book.as_dict() | {"config": texts.get(book.name, "")} for book in found]}


def _find(served: ServedFile, wanted: FindWanted) -> dict[str, Any]:
    rows, complete = [], True
    try:
        for found in find(served.path, _filters(wanted), limit=wanted.limit, on_progress=_look_at_clock):
            rows.append(found.as_dict())
    except StatementLimitError:
        complete = False
    return {"positions": _with_ways(served, rows), "complete": complete, "limit": wanted.limit}


def _filters(wanted: FindWanted) -> Filters:
    pieces = read_pieces(wanted.pieces) if wanted.pieces else ()
    return Filters(pieces=pieces, **wanted.model_dump(exclude={"limit", "pieces"}))


def _novelties(served: ServedFile, wanted: NoveltiesWanted) -> Novelties:
    names = {"games", "cp", "min_games", "min_visits", "move_visits", "loss"}
    rules = Rules(share=wanted.share / 100, **wanted.model_dump(include=names))
    board = None if wanted.book else wanted.board()
    return novelties(
        served.path, board, book=wanted.book, rules=rules, top=wanted.top, on_progress=_look_at_clock
    )


def _prepare(served: ServedFile, wanted: PrepareWanted) -> Preparation:
    options = wanted.model_dump(exclude={"player"})
    return prepare(served.path, [wanted.player], on_progress=_look_at_clock, **options)


def _look_at_clock(*_: int) -> None:
    check_time()


# ---------------------------------------------------------------- imported games
def _list(served: ServedFile, wanted: GameListWanted) -> ListedGames:
    names = {*GameFilters.__dataclass_fields__} - {"position"}
    position = wanted.board() if wanted.here else None
    filters = GameFilters(position=position, **wanted.model_dump(include=names))
    order = Order(**wanted.model_dump(include={"by", "down", "first", "most"}))
    return list_games(served.path, filters, order)


def _game(served: ServedFile, wanted: GameWanted) -> dict[str, object]:
    """Returns a game for the notation pane, and the ply at which it reaches the position, 0 if never."""
    text, is_whole = game_text(served.path, wanted.source, wanted.number)
    name = f"game {wanted.source}:{wanted.number}"
    game = next(read_games(StringIO(text, None), name), None)
    if game is None:
        raise InvalidParameterError(f"{name} has no text")
    if not is_whole:
        game.left_out.append(BARE)
    return game.as_dict() | {"ply": _ply_of(game, wanted.board())}


def _ply_of(game: StudyGame, board: chess.Board) -> int:
    """Returns the ply at which a game reaches a position, 0 if never."""
    wanted = key_text(board)
    main_line = takewhile(lambda step: step.parent == step.number - 1, steps_of(game.tree))
    return next((step.number for step in main_line if step.key == wanted), 0)


def _pgn(served: ServedFile, wanted: GameListWanted) -> Response:
    """Returns the games of a list as a file."""
    out = BytesIO()
    export_games(served.path, _list(served, wanted), out, form="pgn")
    return download(out.getvalue(), f"{served.path.stem}-games", "pgn")


ROUTES = [
    get("/api/file", Nothing, _file),
    get("/api/books", BookWanted, _books),
    get("/api/why", WhyWanted, lambda served, it: why(served.path, it.board(), it.book)),
    get(
        "/api/transpositions",
        TranspositionsWanted,
        lambda served, it: transpositions(served.path, it.board(), top=it.top, look=it.look),
    ),
    get("/api/novelties", NoveltiesWanted, _novelties),
    get("/api/players", PlayersWanted, lambda served, it: players(served.path, it.name, top=it.top)),
    get("/api/prepare", PrepareWanted, _prepare),
    get("/api/find", FindWanted, _find),
    get("/api/games", GivenPosition, lambda served, it: games(served.path, it.board())),
    get("/api/game-list", GameListWanted, _list),
    get("/api/game-list-pgn", GameListWanted, _pgn),
    get("/api/game", GameWanted, _game),
]
