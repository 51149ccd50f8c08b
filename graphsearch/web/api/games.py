"""Imported games: results at a position, the list of games, and one game with comments and variations."""

from __future__ import annotations

from io import BytesIO, TextIOWrapper

import chess
from starlette.responses import Response

from ...base.errors import InvalidParameterError
from ...book.study.pgn import ReadGame, read_games
from ...book.study.tree import START, Tree
from ...exchange.games_export import export_games, whole_text
from ...position.board import key_text
from ...query.game_list import GameFilters, ListedGames, Order, list_games
from ...query.games import games
from ...query.players import kept_game
from ...store.sharded.files import open_to_read
from ..served_file import ServedFile
from .asking import get
from .game_requests import GameListWanted, GameWanted
from .requests import GivenPosition
from .studies import tree_dict

BARE = "its comments and variations: this file was made before it kept them, and its PGN file is not there"


def _list(served: ServedFile, wanted: GameListWanted) -> ListedGames:
    names = {*GameFilters.__dataclass_fields__} - {"position"}
    position = wanted.board() if wanted.here else None
    filters = GameFilters(position=position, **wanted.model_dump(include=names))
    order = Order(**wanted.model_dump(include={"by", "down", "first", "most"}))
    return list_games(served.path, filters, order)


def _game(served: ServedFile, wanted: GameWanted) -> dict[str, object]:
    """Returns a game for the notation pane, and the ply at which it reaches the position, 0 if never."""
    with open_to_read(served.path) as store:
        row, *_ = kept_game(store, wanted.source, wanted.number)
    text, is_whole = whole_text(served.path, wanted.source, wanted.number, row)
    name = f"game {wanted.source}:{wanted.number}"
    lines = TextIOWrapper(BytesIO(text.encode()), encoding="latin-1", newline="")
    game = next(read_games(lines, name), None)
    if game is None:
        raise InvalidParameterError(f"{name} has no text")
    if not is_whole:
        game.left_out.append(BARE)
    return tree_dict(game) | {"ply": _ply_of(game, wanted.board())}


def _ply_of(game: ReadGame, board: chess.Board) -> int:
    """Returns the ply at which a game reaches a position, 0 if never."""
    wanted, tree, at, ply = key_text(board), Tree(game.moves), START, 0
    while children := tree.children(at):
        at, ply = children[0], ply + 1
        if tree.moves[at].key == wanted:
            return ply
    return 0


def _pgn(served: ServedFile, wanted: GameListWanted) -> Response:
    """Returns the games of a list as a file."""
    out = BytesIO()
    export_games(served.path, _list(served, wanted), out, form="pgn")
    name = "".join(c if c.isascii() and c.isalnum() else "-" for c in served.path.stem)
    headers = {"Content-Disposition": f'attachment; filename="{name}-games.pgn"'}
    return Response(out.getvalue(), media_type="application/x-chess-pgn", headers=headers)


ROUTES = [
    get("/api/games", GivenPosition, lambda served, it: games(served.path, it.board())),
    get("/api/game-list", GameListWanted, _list),
    get("/api/game-list-pgn", GameListWanted, _pgn),
    get("/api/game", GameWanted, _game),
]
