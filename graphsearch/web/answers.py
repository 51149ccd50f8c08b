"""The answers to requests: about positions, the file and its games, tasks, studies, notes and repertoires.

A change of a study, a note or a repertoire names the revision that was read.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict
from functools import partial
from io import BytesIO, StringIO
from itertools import islice, takewhile
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar
from uuid import uuid4

import chess.pgn
from pydantic import Field
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Route

from ..base.answer import plain
from ..base.deadline import check_time, time_limit
from ..base.errors import (
    ChangedMeanwhileError,
    CorruptRecordError,
    GraphSearchError,
    InputFileError,
    InvalidParameterError,
    InvalidPositionError,
    StatementLimitError,
    StoreError,
    StoreLockedError,
    UnknownPositionError,
)
from ..base.limits import STUDY_MOVES, UPLOAD, check_size, open_file, text_lines
from ..book.questions import status, why
from ..book.study import repertoire, studies
from ..book.study.studies import MoveRow, StudyGame, game_of, read_games, steps_of, text_of
from ..exchange.importing import GivenFile
from ..exchange.kept_games import export_games, game_text
from ..position.board import check, fen_of, is_over_by_clock, key_text, terminal_kind
from ..position.notation import (
    START_WORD,
    board_from_fen,
    named_board,
    play_moves,
    readings,
    start_position,
)
from ..position.openings import opening_of
from ..position.pgn import cut_games, position_in
from ..position.values import cp_of
from ..query.find import Filters, find, read_pieces
from ..query.game_list import GameFilters, ListedGames, list_games, players
from ..query.history import history
from ..query.line import pv, tree_values, values
from ..query.novelties import Novelties, Rules, novelties
from ..query.position import Position, position
from ..query.prepare import Preparation, prepare
from ..query.routes import parents, routes
from ..query.tree import neighbourhood, tree
from ..store.info import info
from ..store.record import BY_CLOCK, TERMINALS
from ..store.store import unfinished_state
from . import tasks
from .gate import body_of
from .task_queue import DONE, ServedFile
from .tasks import SPELLED, Count, GivenPosition, Line, Name, Nothing, Ply, Text, W, Wanted, Words

WRITE_BYTES = 1 << 20  # of an upload, in one write
DOWNLOADS = {"pgn": "application/x-chess-pgn", "toml": "application/toml"}
QUESTION_SECONDS = 20.0  # time limit of an answer
_STATUS = ((UnknownPositionError, 404), (StoreLockedError, 409), (ChangedMeanwhileError, 409))
Answer = Callable[[ServedFile, W], Any]  # a response, a dict, or a report with `as_dict`


def served_by(request: Request) -> ServedFile:
    """Returns the served file of a request's application."""
    found = request.app.state.served
    assert isinstance(found, ServedFile)
    return found


async def error_response(request: Request, error: Exception) -> Response:
    """Returns the response to an error of any route: one line."""
    status = next((code for kind, code in _STATUS if isinstance(error, kind)), 400)
    text = " ".join(getattr(error, "problems", [str(error)]))
    facts = {"error": text.encode("utf-8", "backslashreplace").decode()}
    return JSONResponse(facts | {"damaged": isinstance(error, CorruptRecordError)}, status)


def get(path: str, kind: type[W], answer: Answer[W]) -> Route:
    """Returns the route of a GET request; a thread answers it from the address and its parameters."""

    def endpoint(request: Request) -> Response:
        given = {**request.query_params, **request.path_params}
        return _answered(answer, served_by(request), tasks.read_request(kind, given))

    return Route(path, endpoint, methods=["GET"])


def post(path: str, kind: type[W], answer: Answer[W], *, writes: bool = True) -> Route:
    """Returns the route of a JSON request; with `writes` it is refused where nothing may be changed."""

    async def endpoint(request: Request) -> Response:
        if writes:
            served_by(request).may_write()
        body = await body_of(request, tasks.MOST_BODY_BYTES)
        if body is None:
            raise InvalidParameterError(
                f"a request has at most {tasks.MOST_BODY_BYTES >> 20} MiB; import a file instead"
            )
        wanted = await run_in_threadpool(tasks.read_request, kind, body)
        return await run_in_threadpool(_answered, answer, served_by(request), wanted)

    return Route(path, endpoint, methods=["POST"])


def upload(path: str, kind: type[W], answer: Callable[[ServedFile, W], dict[str, Any]]) -> Route:
    """Returns the route of a POST request whose body is a file; its name is the field `file`."""

    async def endpoint(request: Request) -> Response:
        served, name = served_by(request), uuid4().hex
        served.may_write()
        wanted = tasks.read_request(kind, {**request.query_params, **request.path_params, "file": name})
        if isinstance(wanted, tasks.Task):
            wanted.title(served.place)  # refuses a wrong request before the upload
        await _receive(request, served.place.folder / name)
        return JSONResponse(await run_in_threadpool(answer, served, wanted))

    return Route(path, endpoint, methods=["POST"])


def _answered(answer: Answer[W], served: ServedFile, wanted: W) -> Response:
    with time_limit(QUESTION_SECONDS):
        found = answer(served, wanted)
        if isinstance(found, Response):
            return found
        return JSONResponse(found if isinstance(found, dict) else found.as_dict())


def download(content: str | bytes, stem: str, ending: str) -> Response:
    """Returns content as a file to save; its name has letters and digits of ASCII only."""
    name = "".join(c if c.isascii() and c.isalnum() else "-" for c in stem)
    headers = {"Content-Disposition": f'attachment; filename="{name}.{ending}"'}
    return Response(content, media_type=DOWNLOADS.get(ending, "application/octet-stream"), headers=headers)


async def _receive(request: Request, file: Path) -> None:
    """Writes an upload to a file as it arrives; raises InputFileError if it is too large or not written."""
    size, piece = 0, bytearray()
    try:
        with await run_in_threadpool(file.open, "wb") as out:
            async for more in request.stream():
                size += len(more)
                check_size(size, UPLOAD, "the file")
                piece += more
                if len(piece) >= WRITE_BYTES:
                    await run_in_threadpool(out.write, bytes(piece))
                    piece.clear()
            await run_in_threadpool(out.write, bytes(piece))
    except OSError as error:
        file.unlink(missing_ok=True)
        raise InputFileError(f"the file cannot be saved: {error.strerror or error}") from None
    except BaseException:
        file.unlink(missing_ok=True)
        raise


MOST_PLIES = 24  # of a line on the page
MOST_GAMES = 500  # games offered from a pasted PGN
MOST_TRANSLATED = 100_000  # characters of a text that may be in another language


# ---------------------------------------------------------------- positions
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
    min_visits: Annotated[int, Field(ge=0, le=tasks.MOST_COUNT), SPELLED] = 1
    most: Annotated[int, Field(ge=1, le=1000), SPELLED] = 120


class PositionWanted(GivenPosition):
    """Facts about a position; `rest`: the moves of the line after it."""

    rest: Line = ""


def _position(served: ServedFile, wanted: PositionWanted) -> dict[str, Any]:
    """Returns the file's facts about a position, and the board; also for a damaged record."""
    board = wanted.board()
    check(board)
    answer: dict[str, Any] = {"problem": "", "damaged": False}
    try:
        with served.file.opened() as source:
            answer |= position(source, board, lines=0).as_dict()  # lines take longer: `_lines`
            with source.store.reading() as connection:
                answer["note"] = studies.find_note(connection, board).as_dict()
    except StoreError as error:
        answer |= Position(fen_of(board), key_text(board)).as_dict()
        answer |= {"problem": str(error), "damaged": isinstance(error, CorruptRecordError)}
    whole, opening = board.copy(), opening_of(board)
    play_moves(whole, wanted.rest)
    rest = list(_line(whole))[len(board.move_stack) :]
    answer |= state_of(board) | {"rest": rest, "opening": str(opening) if opening else None}
    if newer := served.queue.ask(partial(tasks.node, board=board)):
        answer["brief"] = newer.pop("brief")
        answer["node"] = (answer["node"] or {}) | newer
    if answer["node"]:
        answer["node"]["cp"] = cp_of(answer["node"]["q"])
    return answer


def _lines(served: ServedFile, wanted: LinesWanted) -> dict[str, Any]:
    return served.answer(partial(pv, board=wanted.board(), lines=wanted.lines, plies=MOST_PLIES))


def state_of(board: chess.Board) -> dict[str, Any]:
    """Returns the board: the line to a position, its legal moves, check, and the end of the game."""
    king = board.king(board.turn)
    return {
        "line": list(_line(board)),
        "check": chess.square_name(king) if king is not None and board.is_check() else None,
        "over": TERMINALS.get(terminal_kind(board)) or (BY_CLOCK if is_over_by_clock(board) else None),
        "legal": [{"move": move.uci(), "san": board.san(move)} for move in board.legal_moves],
    }


def _line(board: chess.Board) -> Iterator[dict[str, Any]]:
    walk = board.root()
    for move in board.move_stack:
        yield {"move": move.uci(), "san": walk.san(move), "turn": "w" if walk.turn else "b"}
        walk.push(move)


def _way(served: ServedFile, wanted: GivenPosition) -> dict[str, Any]:
    """Returns the root and the moves of a line to a position; no moves if none is found."""
    ways = routes(served.path, [fen_of(wanted.board())]).values()
    return {"lines": [{"root": way.start or chess.STARTING_FEN, "line": way.line} for way in ways]}


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


MOST_ROWS, MOST_PLAYED_ROWS = 1000, 200  # of an answer
_RULES = Rules()
MOST_LISTED_GAMES = 100_000  # of a file; a page of the list has some dozens
BARE = "its comments and variations: the graph file has lost them"
Rows = Annotated[int, Field(ge=1, le=MOST_ROWS), SPELLED]
PlayedRows = Annotated[int, Field(ge=1, le=MOST_PLAYED_ROWS), SPELLED]
Quality = Annotated[float, Field(ge=-1, le=1)]


# ---------------------------------------------------------------- the file and its books
class BookWanted(Wanted):
    """A book; none: the graph."""

    book: Name | None = None


class WhyWanted(GivenPosition, BookWanted):
    """A book's decisions on a position."""


class FindWanted(Wanted):
    """Positions by the content of their records."""

    limit: Rows = 100
    min_n: Annotated[int, Field(ge=0, le=tasks.MOST_COUNT), SPELLED] | None = None
    max_n: Annotated[int, Field(ge=0, le=tasks.MOST_COUNT), SPELLED] | None = None
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


def _books(served: ServedFile, wanted: Nothing) -> dict[str, Any]:
    try:
        found = status(served.path)
    except GraphSearchError as error:
        return {"books": [], "note": str(error)}
    return {"books": [one.as_dict() | {"config": one.book.config} for one in found]}


def _find(served: ServedFile, wanted: FindWanted) -> dict[str, Any]:
    pieces = read_pieces(wanted.pieces) if wanted.pieces else ()
    filters = Filters(pieces=pieces, **wanted.model_dump(exclude={"limit", "pieces"}))
    rows, complete = [], True
    try:
        for found in find(served.path, filters, limit=wanted.limit, on_progress=check_time):
            rows.append(found.as_row())
    except StatementLimitError:
        complete = False
    return {"positions": _with_ways(served, rows), "complete": complete}


def _novelties(served: ServedFile, wanted: NoveltiesWanted) -> Novelties:
    names = {"games", "cp", "min_games", "min_visits", "move_visits", "loss"}
    rules = Rules(share=wanted.share / 100, **wanted.model_dump(include=names))
    at = None if wanted.book else wanted.board()
    return novelties(served.path, at, book=wanted.book, rules=rules, top=wanted.top, on_progress=check_time)


def _prepare(served: ServedFile, wanted: PrepareWanted) -> Preparation:
    options = wanted.model_dump(exclude={"player"})
    return prepare(served.path, [wanted.player], on_progress=check_time, **options)


# ---------------------------------------------------------------- imported games
def _list(served: ServedFile, wanted: GameListWanted) -> ListedGames:
    names = {*GameFilters.__dataclass_fields__} - {"position"}
    position = wanted.board() if wanted.here else None
    filters = GameFilters(position=position, **wanted.model_dump(include=names))
    return list_games(served.path, filters, **wanted.model_dump(include={"by", "down", "first", "most"}))


def _kept_game(served: ServedFile, wanted: GameWanted) -> dict[str, object]:
    """Returns a game for the notation pane, and the ply at which it reaches the position, 0 if never."""
    text, is_whole = game_text(served.path, wanted.source, wanted.number)
    game = _game_at(0, read_games(StringIO(text, None), f"game {wanted.source}:{wanted.number}"))
    if not is_whole:
        game.left_out.append(BARE)
    return game.as_dict() | {"ply": _ply_of(game, wanted.board())}


def _game_at(place: int, games: Iterator[StudyGame]) -> StudyGame:
    """Returns a game by its place from 0; raises InvalidParameterError if there are fewer."""
    game = next(islice(games, place, None), None)
    if game is None:
        raise InvalidParameterError(f"there is no game {place + 1}")
    return game


def _ply_of(game: StudyGame, board: chess.Board) -> int:
    """Returns the ply at which a game reaches a position, 0 if never."""
    wanted = key_text(board)
    main_line = takewhile(lambda step: step.parent == step.number - 1, steps_of(game.tree))
    return next((step.number for step in main_line if step.key == wanted), 0)


def _pgn(served: ServedFile, wanted: GameListWanted) -> Response:
    out = BytesIO()
    export_games(served.path, _list(served, wanted), out)
    return download(out.getvalue(), f"{served.path.stem}-games", "pgn")


# ---------------------------------------------------------------- tasks
T = TypeVar("T", bound=tasks.Task)


class QueueOrder(Wanted):
    """A change of the queue; `number`: the task to stop, `hold`: the queue waits until it is released."""

    action: Literal["stop", "hold", "go", "clear", "forget"]
    number: Ply = 0
    hold: bool = False


class TaskWanted(Wanted):
    """What a task has written, by its number."""

    number: Ply


class ReviewedGame(TaskWanted):
    """A game of a review, from 0."""

    game: Ply


def _build(served: ServedFile, wanted: tasks.BuildTask) -> dict[str, Any]:
    """Queues a build of a book; returns it with the notes on its text."""
    return served.add(wanted) | {"notes": list(wanted.config(served.place).notes)}


# ---------------------------------------------------------------- what tasks have written
def _written(served: ServedFile, number: int, kind: type[T], ending: str) -> tuple[T, Path]:
    """Returns a task of a kind and its file with this ending; raises InvalidParameterError without one."""
    job = served.queue.job(number)
    if isinstance(job.task, kind) and job.state == DONE:
        path = served.place.folder / f"{number}{ending}"
        if path.exists():
            return job.task, path
    raise InvalidParameterError("this task has not written such a file")


def _download(served: ServedFile, wanted: TaskWanted) -> Response:
    task, path = _written(served, wanted.number, tasks.ExportTask, ".export")
    name = f"{task.book or served.path.stem}.{'bin' if task.form == 'polyglot' else task.form}"
    return FileResponse(path, media_type="application/octet-stream", filename=name)


def _review(served: ServedFile, wanted: TaskWanted) -> Response:
    _, path = _written(served, wanted.number, tasks.ReviewTask, ".json")
    return FileResponse(path, media_type="application/json")


def _review_game(served: ServedFile, wanted: ReviewedGame) -> dict[str, Any]:
    """Returns a reviewed game for the notation, with its marks, better lines and comments."""
    _, path = _written(served, wanted.number, tasks.ReviewTask, ".pgn")
    with open_file(path) as file:
        return _game_at(wanted.game, read_games(text_lines(file, path.name), "the review")).as_dict()


def _review_pgn(served: ServedFile, wanted: TaskWanted) -> Response:
    task, path = _written(served, wanted.number, tasks.ReviewTask, ".pgn")
    name = f"{Path(tasks.file_name(task.name)).stem}-reviewed.pgn"
    return FileResponse(path, media_type="application/x-chess-pgn", filename=name)


# ---------------------------------------------------------------- the queue
def _queue(served: ServedFile, order: QueueOrder) -> dict[str, Any]:
    """Changes the queue: `stop` (a job by number), `hold`, `go`, `clear` or `forget` (ended jobs)."""
    queue = served.queue
    if order.action == "stop":
        queue.stop(order.number, hold=order.hold)
    elif order.action in ("clear", "forget"):
        queue.clear(ended=order.action == "forget")
    else:
        queue.hold(order.action == "hold")
    return queue.as_dict()


IMPORT_SECONDS = 60.0  # time limit of an import from the page
MOST_VALUES = 1000  # moves that are shown with their values
Number = Annotated[int, Field(ge=0, le=10**9), SPELLED]
Comment = Annotated[str, Field(max_length=1 << 20)]
Nags = Annotated[list[Annotated[int, Field(ge=0, le=255)]], Field(max_length=256)]
Uci = Annotated[str, Field(max_length=5)]


# ---------------------------------------------------------------- requests about studies
class StudyWanted(Wanted):
    """A study by its number; 0 for all studies where that makes sense."""

    id: Number = 0


class GivenMove(Wanted):
    """A move of a game; `parent`: the number of the move before it."""

    id: Number
    parent: Number = 0
    move: Uci = ""
    before: Comment = ""
    comment: Comment = ""
    nags: Nags = Field(default_factory=list)


class GivenGame(Wanted):
    """A game with variations: its moves, each after its parent, a line before its variations."""

    root: Words = START_WORD
    moves: Annotated[list[GivenMove], Field(max_length=STUDY_MOVES.default)] = Field(default_factory=list)
    comment: Comment = ""
    headers: dict[Name, Words] = Field(default_factory=dict, max_length=100)

    def game(self) -> chess.pgn.Game:
        """Returns the game; raises an input error if its first position or a move is illegal."""
        rows = (
            MoveRow(it.id, it.parent, it.move, "", it.before, it.comment, tuple(it.nags)) for it in self.moves
        )
        headers = {tag: value for tag, value in self.headers.items() if value}
        return game_of(named_board(self.root), rows, comment=self.comment, headers=headers)


class NewStudy(Wanted):
    """A new study."""

    name: Name = ""
    game: GivenGame


class StudyGone(Wanted):
    """A study to delete, at the revision that was read."""

    id: Number
    revision: Number


class StudyEdit(StudyGone):
    """A new game or a new name of a study at the revision that was read."""

    name: Name | None = None
    game: GivenGame | None = None


class StudyImport(Wanted):
    """An import into studies: the name of the received file, and the user's name for it."""

    file: tasks.Upload
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

    text: Annotated[str, Field(max_length=tasks.MOST_BODY_BYTES)] = ""
    revision: Number = 0


class SideWanted(Wanted):
    """A side's repertoire; `form`: of its file."""

    side: Literal["white", "black"]
    form: Literal["pgn", "toml"] = "pgn"


class RepertoireLine(GivenPosition, SideWanted):
    """A line of a side's repertoire."""


class RepertoireImport(SideWanted, StudyImport):
    """An import into a side's repertoire."""


# ---------------------------------------------------------------- studies
def _studies(served: ServedFile, wanted: Nothing) -> dict[str, object]:
    """Returns the list of studies, and the reason if they cannot be changed."""
    return {"studies": plain(studies.list_studies(served.path)), "closed": closed(served)}


def closed(served: ServedFile) -> str:
    """Returns the reason if the file cannot be written; else empty."""
    try:
        served.may_write()
    except GraphSearchError as error:
        return str(error)
    if not os.access(served.path, os.W_OK):
        return f"{served.path.name} can only be read; check its permissions"
    return ""


def _study(served: ServedFile, wanted: StudyWanted) -> dict[str, object]:
    study, game = studies.load_study(served.path, wanted.id)
    return asdict(study) | game.as_dict()


def _new(served: ServedFile, wanted: NewStudy) -> dict[str, object]:
    found = studies.create_study(served.path, wanted.name, wanted.game.game())
    return _study(served, StudyWanted(id=found.id))


def _edit(served: ServedFile, wanted: StudyEdit) -> dict[str, object]:
    game = wanted.game.game() if wanted.game else None
    edit = studies.change_study(served.path, wanted.id, game=game, name=wanted.name, revision=wanted.revision)
    return asdict(edit)


def _delete(served: ServedFile, wanted: StudyGone) -> dict[str, object]:
    return {"name": studies.delete_study(served.path, wanted.id, wanted.revision).name}


# ---------------------------------------------------------------- PGN
@contextmanager
def _uploaded(served: ServedFile, wanted: StudyImport) -> Iterator[GivenFile]:
    """Yields an uploaded file, to be read within `IMPORT_SECONDS`, and removes it."""
    path = served.place.folder / wanted.file
    try:
        with open_file(path) as stream, time_limit(IMPORT_SECONDS):
            yield GivenFile(tasks.file_name(wanted.name), stream)
    finally:
        path.unlink(missing_ok=True)


def _import_studies(served: ServedFile, wanted: StudyImport) -> dict[str, Any]:
    with _uploaded(served, wanted) as file:
        return studies.import_studies(served.path, file).as_dict()


def _study_pgn(served: ServedFile, wanted: StudyWanted) -> Response:
    text = studies.export_studies(served.path, [wanted.id] if wanted.id else [])
    return download(text, f"study-{wanted.id}" if wanted.id else f"{served.path.stem}-studies", "pgn")


def _read_tree(served: ServedFile, wanted: TreeText) -> dict[str, object]:
    """Returns one game of a text for the pane, with all comments and variations, without saving it."""
    return _game_at(wanted.number - 1, read_games(StringIO(wanted.text, None), "the text")).as_dict()


def _values(served: ServedFile, wanted: ValuesWanted) -> dict[str, object]:
    return served.answer(partial(tree_values, start=named_board(wanted.root), moves=wanted.moves))


# ---------------------------------------------------------------- notes
def _note(served: ServedFile, wanted: NoteWritten) -> dict[str, object]:
    board = wanted.board()
    studies.write_note(served.path, board, wanted.text, wanted.revision)
    return studies.note_on(served.path, board).as_dict()


# ---------------------------------------------------------------- undo
def _turned(served: ServedFile, act: Literal["undo", "redo"]) -> dict[str, object]:
    """Undoes or redoes an edit of studies, notes and repertoires."""
    found = studies.turn_edit(served.path, act)
    return {"edit": asdict(found) if found else None}


# ---------------------------------------------------------------- repertoires
def _repertoire(served: ServedFile, wanted: SideWanted) -> dict[str, object]:
    return repertoire.survey(served.path, wanted.side).as_dict() | {"closed": closed(served)}


def _repertoire_file(served: ServedFile, wanted: SideWanted) -> Response:
    if wanted.form == "toml":
        text = repertoire.toml_of_repertoire(served.path, wanted.side, wanted.side)
    else:
        text = repertoire.pgn_of_repertoire(served.path, wanted.side)
    return download(text, wanted.side, wanted.form)


def _import_repertoire(served: ServedFile, wanted: RepertoireImport) -> dict[str, Any]:
    with _uploaded(served, wanted) as file:
        return repertoire.import_file(served.path, wanted.side, file).as_dict()


ROUTES = [
    get("/api/position", PositionWanted, _position),
    get("/api/lines", LinesWanted, _lines),
    get("/api/values", GivenPosition, lambda served, it: served.answer(partial(values, board=it.board()))),
    get("/api/parents", GivenPosition, lambda served, it: parents(served.path, it.board())),
    get("/api/way", GivenPosition, _way),
    get("/api/tree", TreeWanted, _tree),
    get("/api/neighbourhood", NeighbourhoodWanted, _neighbourhood),
    get("/api/history", GivenPosition, lambda served, it: history(served.path, it.board())),
    post("/api/read", Text, _read, writes=False),
    get("/api/file", Nothing, _file),
    get("/api/books", Nothing, _books),
    get("/api/why", WhyWanted, lambda served, it: why(served.path, it.board(), it.book)),
    get("/api/novelties", NoveltiesWanted, _novelties),
    get("/api/players", Nothing, lambda served, _: players(served.path, top=50)),
    get("/api/prepare", PrepareWanted, _prepare),
    get("/api/find", FindWanted, _find),
    get("/api/game-list", GameListWanted, _list),
    get("/api/game-list-pgn", GameListWanted, _pgn),
    get("/api/game", GameWanted, _kept_game),
    post("/api/search", tasks.SearchTask, ServedFile.add),
    post("/api/follow", tasks.FollowTask, lambda served, it: served.queue.follow(it).as_dict()),
    post("/api/build", tasks.BuildTask, _build),
    post("/api/export", tasks.ExportTask, ServedFile.add, writes=False),
    get("/api/download/{number}", TaskWanted, _download),
    upload("/api/import/{form}", tasks.ImportTask, ServedFile.add),
    upload("/api/review", tasks.ReviewTask, ServedFile.add),
    get("/api/review/{number}", TaskWanted, _review),
    get("/api/review/{number}/game/{game}", ReviewedGame, _review_game),
    get("/api/review/{number}/pgn", TaskWanted, _review_pgn),
    post("/api/queue", QueueOrder, _queue, writes=False),
    get("/api/studies", Nothing, _studies),
    get("/api/study", StudyWanted, _study),
    get("/api/study-pgn", StudyWanted, _study_pgn),
    post("/api/study-new", NewStudy, _new),
    post("/api/study-change", StudyEdit, _edit),
    post("/api/study-delete", StudyGone, _delete),
    post("/api/note", NoteWritten, _note),
    post("/api/undo", Nothing, lambda served, _: _turned(served, "undo")),
    post("/api/redo", Nothing, lambda served, _: _turned(served, "redo")),
    post("/api/tree-pgn", GivenGame, lambda _, it: {"pgn": text_of(it.game())}, writes=False),
    post("/api/read-tree", TreeText, _read_tree, writes=False),
    post("/api/tree-values", ValuesWanted, _values, writes=False),
    upload("/api/study-import", StudyImport, _import_studies),
    get("/api/repertoire", SideWanted, _repertoire),
    get("/api/repertoire-file", SideWanted, _repertoire_file),
    post(
        "/api/repertoire-add",
        RepertoireLine,
        lambda on, it: repertoire.add_line(on.path, it.side, it.board()),
    ),
    post(
        "/api/repertoire-remove",
        RepertoireLine,
        lambda on, it: repertoire.remove_move(on.path, it.side, it.board()),
    ),
    upload("/api/repertoire-import", RepertoireImport, _import_repertoire),
]
