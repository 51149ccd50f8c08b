"""Answers about one position, and about the line to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Annotated, Any

import chess
from pydantic import Field

from ...base.errors import CorruptRecordError, InvalidPositionError, StoreError
from ...position.board import check, fen_of, is_over_by_clock
from ...position.notation import board_from_fen, play_moves, readings, start_position
from ...position.openings import opening_of
from ...position.pgn import cut_games, position_in
from ...query.history import history
from ...query.line import values
from ...query.neighbourhood import neighbourhood
from ...query.parents import parents
from ...query.position import position, unknown
from ...query.pv import pv
from ...query.routes import routes
from ...query.tree import tree
from ..jobs.task import node
from ..served_file import ServedFile
from ..wanted import MOST_COUNT, SPELLED, GivenPosition, Line, Text
from .routes import get, post

MOST_PLIES = 24  # of a line on the page
MOST_GAMES = 500  # games offered from a pasted PGN
MOST_TRANSLATED = 100_000  # characters of a text that may be in another language


# ---------------------------------------------------------------- requests
class LinesWanted(GivenPosition):
    """The lines of the best moves."""

    lines: Annotated[int, Field(ge=1, le=50), SPELLED] = 5


class TreeWanted(GivenPosition):
    """The visits below a position; a move is drawn if it has one visit in `share`."""

    share: Annotated[int, Field(ge=2, le=10_000), SPELLED] = 50
    depth: Annotated[int, Field(ge=1, le=20), SPELLED] = 6


class NeighbourhoodWanted(GivenPosition):
    """The graph around a position."""

    depth: Annotated[int, Field(ge=0, le=40), SPELLED] = 4
    min_visits: Annotated[int, Field(ge=0, le=MOST_COUNT), SPELLED] = 1
    most: Annotated[int, Field(ge=1, le=1000), SPELLED] = 120


class PositionWanted(GivenPosition):
    """Facts about a position; `rest`: the moves of the line after it."""

    rest: Line = ""


def _position(served: ServedFile, wanted: PositionWanted) -> dict[str, Any]:
    """Returns the file's facts about a position, and the board; also for a damaged record."""
    board = wanted.board()
    check(board)
    problem, damaged = "", False
    try:
        found = position(served.kept, board, lines=0)  # lines take several times as long: `_lines`
    except StoreError as error:
        found, problem, damaged = unknown(board), str(error), isinstance(error, CorruptRecordError)
    whole = board.copy()
    play_moves(whole, wanted.rest)
    rest = list(_line(whole))[len(board.move_stack) :]
    answer = found.as_dict() | state_of(board) | {"problem": problem, "damaged": damaged, "rest": rest}
    opening = opening_of(board)
    answer["opening"] = str(opening) if opening else None
    newer = served.queue.ask(partial(node, board=board))
    if newer:
        answer["node"] = (answer["node"] or {}) | newer
    return answer


def _lines(served: ServedFile, wanted: LinesWanted) -> dict[str, Any]:
    return served.answer(partial(pv, board=wanted.board(), lines=wanted.lines, plies=MOST_PLIES))


def state_of(board: chess.Board) -> dict[str, Any]:
    """Returns the board: the line to a position, its legal moves, check, and the end of the game."""
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
    if board.is_insufficient_material():
        return "insufficient material"
    return "drawn by the 75-move rule" if is_over_by_clock(board) else None


def _way(served: ServedFile, wanted: GivenPosition) -> dict[str, Any]:
    """Returns the root and the moves of a line to a position; no moves if none is found."""
    way = routes(served.kept, [fen_of(wanted.board())])
    return {
        "lines": [{"root": found.start or chess.STARTING_FEN, "line": found.line} for found in way.values()]
    }


def _tree(served: ServedFile, wanted: TreeWanted) -> dict[str, Any]:
    return served.answer(partial(tree, board=wanted.board(), depth=wanted.depth, share=wanted.share))


def _neighbourhood(served: ServedFile, wanted: NeighbourhoodWanted) -> dict[str, Any]:
    options = wanted.model_dump(include={"depth", "min_visits", "most"})
    return served.answer(partial(neighbourhood, board=wanted.board(), **options))


def _read(served: ServedFile, wanted: Text) -> dict[str, Any]:
    """Returns the line of a FEN, a list of moves or a game, and the games of a PGN with several.

    Where English letters leave problems, those of another language are tried.
    """
    text = wanted.text.strip()
    found, error = list[dict[str, Any]](), list[InvalidPositionError]()
    for reading in readings(text) if len(text) <= MOST_TRANSLATED else (text,):
        try:
            found.append(_read_text(reading))
        except InvalidPositionError as problem:
            error.append(problem)
            continue
        if not found[-1]["problems"]:
            return found[-1]
    if not found:
        raise error[0]
    return found[0]


def _read_text(text: str) -> dict[str, Any]:
    if ("[" in text and '"' in text) or "\n\n" in text:
        return _games(text)
    words = text.split()
    if words and "/" in words[0]:
        return {"games": [_game(board_from_fen(_completed(words)), {})], "more": False, "problems": []}
    start = start_position(words[0]) if words else None
    board = start or chess.Board()
    try:
        play_moves(board, text.removeprefix(words[0]).removeprefix(" moves") if start else text)
    except InvalidPositionError:
        return _games(text)  # moves with comments, glyphs or a result
    return {"games": [_game(board, {})], "more": False, "problems": []}


def _completed(fields: list[str]) -> str:
    """Returns a FEN of one to three fields with the others: White moves, men at home may castle."""
    if len(fields) > 3:
        return " ".join(fields)
    with suppress(ValueError):
        board = chess.Board(f"{fields[0]} {(*fields[1:2], 'w')[0]} {(*fields[2:3], 'KQkq')[0]} - 0 1")
        board.castling_rights = board.clean_castling_rights()
        return board.fen()
    return " ".join(fields)


def _games(text: str) -> dict[str, Any]:
    found: list[dict[str, Any]] = []
    problems: list[str] = []
    more = False
    for number, game in enumerate(cut_games(text.splitlines(keepends=True)), start=1):
        played = position_in(game, number, "the text")
        if len(found) >= MOST_GAMES:
            more = True
            break
        problems += [played.problem] if played.problem else played.notes
        if played.board is not None:
            found.append(_game(played.board, played.headers) | {"number": played.game})
    if not found:
        raise InvalidPositionError(problems[0] if problems else "the text has neither a position nor a game")
    return {"games": found, "more": more, "problems": problems[:20]}


MOST_TAGS, LONGEST_TAG = 60, 200  # of a game, kept by the page
_OF_BOARD = ("FEN", "SetUp", "Variant")  # tags that the line itself provides


def _game(board: chess.Board, headers: Mapping[str, str]) -> dict[str, Any]:
    return {
        "root": fen_of(board.root()),
        "line": [move.uci() for move in board.move_stack],
        "headers": {
            name: value[:LONGEST_TAG]
            for name, value in islice(headers.items(), MOST_TAGS)
            if name not in _OF_BOARD
        },
    }


ROUTES = [
    get("/api/position", PositionWanted, _position),
    get("/api/lines", LinesWanted, _lines),
    get("/api/values", GivenPosition, lambda served, it: served.answer(partial(values, board=it.board()))),
    get("/api/parents", GivenPosition, lambda served, it: parents(served.kept, it.board())),
    get("/api/way", GivenPosition, _way),
    get("/api/tree", TreeWanted, _tree),
    get("/api/neighbourhood", NeighbourhoodWanted, _neighbourhood),
    get("/api/history", GivenPosition, lambda served, it: history(served.path, it.board())),
    post("/api/read", Text, _read, writes=False),
]
