"""Answers about one position, and about the line that leads there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import chess
import chess.pgn
from starlette.responses import Response

from ...errors import InvalidPositionError
from ...exchange.picture.dot import dot_of
from ...exchange.picture.svg import svg_of
from ...graph.view import show
from ...position.board import fen_of
from ...position.notation import board_from_fen, play_moves, start_position
from ...position.pgn_position import read_game_texts
from ...query.history import history
from ...query.line import values
from ...query.neighbourhood import Neighbourhood, neighbourhood
from ...query.parents import parents
from ...query.path import path
from ...query.position import position
from ...query.pv import pv
from ...query.tree import tree
from ..house import House
from ..lines import with_sans
from .asking import board_of, get, number, post

MOST_GAMES = 500  # of a pasted PGN, that are offered
Given = Mapping[str, Any]


def _position(house: House, given: Given) -> dict[str, Any]:
    board = board_of(given)
    house.desk.watch(fen_of(board))
    found = position(house.path, board, lines=0).as_dict()  # lines take several times as long: `_lines`
    if found["node"]:
        found["node"] = with_sans(found["node"], board)
    return found | state_of(board)


def state_of(board: chess.Board) -> dict[str, Any]:
    """Returns what the board shows: the line to a position, its legal moves, check, how the game ended."""
    king = board.king(board.turn)
    return {
        "root": fen_of(board.root()),
        "line": list(_line(board)),
        "turn": "w" if board.turn else "b",
        "ply": board.ply(),
        "check": chess.square_name(king) if king is not None and board.is_check() else None,
        "over": _over(board),
        "legal": [{"move": move.uci(), "san": board.san(move)} for move in board.legal_moves],
    }


def _line(board: chess.Board) -> Iterator[dict[str, Any]]:
    walk = board.root()
    for move in board.move_stack:
        yield {
            "move": move.uci(),
            "san": walk.san(move),
            "number": walk.fullmove_number,
            "turn": "w" if walk.turn else "b",
        }
        walk.push(move)


def _over(board: chess.Board) -> str | None:
    if board.is_checkmate():
        return "checkmate"
    if board.is_stalemate():
        return "stalemate"
    return "insufficient material" if board.is_insufficient_material() else None


def _lines(house: House, given: Given) -> dict[str, Any]:
    """Returns the lines of the best moves of a position."""
    return pv(house.path, board_of(given), lines=number(given, "lines", 5, least=1, most=50)).as_dict()


def _values(house: House, given: Given) -> dict[str, Any]:
    return values(house.path, board_of(given)).as_dict()


def _parents(house: House, given: Given) -> dict[str, Any]:
    return parents(house.path, board_of(given)).as_dict()


def _path(house: House, given: Given) -> dict[str, Any]:
    return path(house.path, board_of(given), limit=number(given, "limit", 300, least=1, most=2000)).as_dict()


def _tree(house: House, given: Given) -> dict[str, Any]:
    board = board_of(given)
    node = show(house.path, board)
    least = max(1, (node.visits if node else 0) // number(given, "share", 50, least=2, most=10_000))
    depth = number(given, "depth", 6, least=1, most=20)
    return tree(house.path, board, depth=depth, min_visits=least).as_dict()


def _drawn(house: House, given: Given) -> Neighbourhood:
    """Returns the graph around a position, or the part of a book there."""
    return neighbourhood(
        house.path,
        board_of(given),
        depth=number(given, "depth", 4, most=40),
        min_visits=number(given, "min_visits", 1),
        most=number(given, "most", 120, least=1, most=1000),
        book=str(given["book"]) if given.get("book") else None,
    )


def _neighbourhood(house: House, given: Given) -> dict[str, Any]:
    return _drawn(house, given).as_dict()


def _picture(house: House, given: Given) -> Response:
    """Returns the same as a file for papers or Graphviz."""
    form = "dot" if given.get("form") == "dot" else "svg"
    text = (dot_of if form == "dot" else svg_of)(_drawn(house, given))
    name = f'attachment; filename="graph.{form}"'
    return Response(text, media_type="application/octet-stream", headers={"Content-Disposition": name})


def _history(house: House, given: Given) -> dict[str, Any]:
    return history(house.path, board_of(given)).as_dict()


def _read(house: House, given: Given) -> dict[str, Any]:
    """Returns the line of a FEN, a list of moves or a game, and the games of a PGN with several."""
    text = str(given.get("text") or "").strip()
    if ("[" in text and '"' in text) or "\n\n" in text:
        return _games(text)
    words = text.split()
    if words and "/" in words[0]:
        return {"games": [_game(board_from_fen(text), {})], "more": False, "problems": []}
    start = start_position(words[0]) if words else None
    board = start or chess.Board()
    try:
        play_moves(board, text.removeprefix(words[0]).removeprefix(" moves") if start else text)
    except InvalidPositionError:
        return _games(text)  # moves with comments, glyphs or a result
    return {"games": [_game(board, {})], "more": False, "problems": []}


def _games(text: str) -> dict[str, Any]:
    found: list[dict[str, Any]] = []
    problems: list[str] = []
    more = False
    for game, played in read_game_texts(text.splitlines(keepends=True), "the text"):
        if len(found) >= MOST_GAMES:
            more = True
            break
        if played.board is None:
            problems.append(played.problem)
        else:
            problems += played.notes
            found.append(_game(played.board, game.headers))
    if not found:
        raise InvalidPositionError(
            problems[0] if problems else "there is neither a position nor a game in it"
        )
    return {"games": found, "more": more, "problems": problems[:20]}


_HEADERS = ("White", "Black", "Result", "Event", "Date", "WhiteElo", "BlackElo")


def _game(board: chess.Board, headers: Mapping[str, str]) -> dict[str, Any]:
    return {
        "root": fen_of(board.root()),
        "line": [move.uci() for move in board.move_stack],
        "headers": {name: headers[name][:200] for name in _HEADERS if name in headers},
    }


def _pgn(house: House, given: Given) -> dict[str, Any]:
    """Returns the line as PGN."""
    board = board_of(given)
    game = chess.pgn.Game.from_board(board)
    game.headers["Event"] = "Analysis"
    game.headers["Site"] = "graphsearch"
    return {"pgn": str(game), "fen": fen_of(board)}


ROUTES = [
    get("/api/position", _position),
    get("/api/lines", _lines),
    get("/api/values", _values),
    get("/api/parents", _parents),
    get("/api/path", _path),
    get("/api/tree", _tree),
    get("/api/neighbourhood", _neighbourhood),
    get("/api/picture", _picture),
    get("/api/history", _history),
    get("/api/pgn", _pgn),
    post("/api/read", _read, writes=False),
]
