"""Imported games: results at a position, the list of games, and one game with comments and variations."""

from __future__ import annotations

from io import BytesIO, StringIO
from itertools import takewhile
from typing import Annotated, Literal

import chess
from pydantic import Field
from starlette.responses import Response

from ...base.errors import InvalidParameterError
from ...book.study.pgn import StudyGame, read_games, steps_of
from ...exchange.games_export import export_games
from ...exchange.kept_games import text_of_game
from ...position.board import key_text
from ...query.game_list import GameFilters, ListedGames, Order, list_games
from ...query.games import games
from ...query.players import kept_game
from ...store.store import Store
from ..served_file import ServedFile
from ..wanted import SPELLED, GivenPosition, Name, Ply
from .routes import download, get

MOST_LISTED_GAMES = 100_000  # of a file; a page of the list has some dozens
BARE = "its comments and variations: the graph file has lost them"


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


def _list(served: ServedFile, wanted: GameListWanted) -> ListedGames:
    names = {*GameFilters.__dataclass_fields__} - {"position"}
    position = wanted.board() if wanted.here else None
    filters = GameFilters(position=position, **wanted.model_dump(include=names))
    order = Order(**wanted.model_dump(include={"by", "down", "first", "most"}))
    return list_games(served.path, filters, order)


def _game(served: ServedFile, wanted: GameWanted) -> dict[str, object]:
    """Returns a game for the notation pane, and the ply at which it reaches the position, 0 if never."""
    with Store.open(served.path, read_only=True) as store:
        text, is_whole = text_of_game(store, kept_game(store, wanted.source, wanted.number)[0])
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
    get("/api/games", GivenPosition, lambda served, it: games(served.path, it.board())),
    get("/api/game-list", GameListWanted, _list),
    get("/api/game-list-pgn", GameListWanted, _pgn),
    get("/api/game", GameWanted, _game),
]
