"""Actions that change something: searches, builds, imports and exports, and their queue."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal
from uuid import uuid4

import chess
from pydantic import Field
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Route

from ...base.errors import BookConfigError, InputFileError, InvalidParameterError
from ...base.limits import UPLOAD, byte_count, check_size
from ...book.toml import load_toml, parse_config
from ...book.why import admitted_moves
from ...evaluators.factory import EvaluatorSpec, with_threads
from ...exchange.choices import Weights
from ...exchange.selection import Selection
from ...position.board import fen_of
from ...position.notation import read_moves
from ...search.job import SearchJob
from ...search.params import LEAST_RAM, Limits, SearchParams
from ...solvers.mate.beside import MateFinder
from ..jobs.queued import DONE
from ..jobs.tasks import EXPORTS, IMPORTS, BuildTask, ExportTask, FollowTask, ImportTask, SearchTask
from ..served_file import ServedFile
from .kept import makes, queue
from .requests import (
    MOST_COUNT,
    SPELLED,
    Count,
    GivenPosition,
    Name,
    Ply,
    Rooted,
    Statement,
    Upload,
    Wanted,
    Words,
    post,
    read_request,
    served_by,
)

WRITE_BYTES = 1 << 20  # of an upload, in one write
LONGEST_NAME = 120
MOST_FOLLOWED = 50  # roots
MOST_SECONDS = 10**9
MOST_NAMED = 5  # moves in the title of a search
Seconds = Annotated[float, Field(ge=0, le=MOST_SECONDS)]


# ---------------------------------------------------------------- requests
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
    weights: Weights | None = None


class ImportWanted(Wanted):
    """An import; its file is the body."""

    name: Words = ""
    again: bool = False
    players: bool = False


class KeptImport(ImportWanted):
    """An import with its received file; `file`: its name in the folder of the queue."""

    form: Literal["pgn", "polyglot", "epd"]
    file: Upload


class Order(Wanted):
    """A change of the queue; `number`: the task to stop, `hold`: the queue waits until it is released."""

    action: Literal["stop", "hold", "go", "clear", "forget"]
    number: Ply = 0
    hold: bool = False


# ---------------------------------------------------------------- searches
@makes("search", SearchWanted)
def _search(served: ServedFile, wanted: SearchWanted) -> SearchTask:
    """Returns a search of the position, which starts at once; with `queue` it waits for its turn."""
    served.may_write()
    board = wanted.board()
    return SearchTask(
        title=f"search {_name(board)}{_left_out(board, wanted.searchmoves)}",
        path=served.path,
        boards=(board,),
        limits=Limits(**wanted.model_dump(include={"visits", "evaluations", "seconds"})),
        searchmoves=_listed(board, wanted.searchmoves),
        waits=wanted.queue,
        **settings(served, wanted),
    )


@makes("search-game", GameSearchWanted)
def _game(served: ServedFile, wanted: GameSearchWanted) -> SearchTask:
    """Returns a search of every position of a line, each to `until` visits."""
    served.may_write()
    board = wanted.board()
    boards = [board.copy()]
    while board.move_stack:
        board.pop()
        boards.append(board.copy())
    return SearchTask(
        title=f"{len(boards)} positions to {wanted.until:,} visits each: {_name(boards[0])}",
        path=served.path,
        boards=tuple(found for found in reversed(boards) if any(found.legal_moves)),
        until=wanted.until,
        **settings(served, wanted),
    )


def _follow(served: ServedFile, wanted: FollowWanted) -> dict[str, Any]:
    """Searches some positions in turn from now on: the board's, and those of the watch list."""
    served.may_write()
    found = settings(served, wanted)
    distinct: dict[tuple[str, tuple[chess.Move, ...]], SearchJob] = {}
    for root in (_root(each, found["params"]) for each in wanted.roots):
        distinct.setdefault((fen_of(root.board), root.searchmoves), root)
    roots = tuple(distinct.values())
    title = f"follow {roots[0].title}"
    task = FollowTask(title=title, path=served.path, roots=roots, **found)
    return served.queue.follow(task).as_dict()


def _root(wanted: FollowedRoot, params: SearchParams) -> SearchJob:
    board = wanted.board()
    return SearchJob(
        board=board,
        params=params,
        searchmoves=tuple(read_moves(board, wanted.searchmoves)) if wanted.searchmoves.strip() else (),
        mates=MateFinder.within,
        title=f"{_name(board)}{_left_out(board, wanted.searchmoves)}",
        share=wanted.share,
    )


def _listed(board: chess.Board, words: str) -> tuple[str, ...]:
    """Returns the moves in a form's text, in UCI; none for an empty text."""
    return tuple(move.uci() for move in read_moves(board, words)) if words.strip() else ()


def _left_out(board: chess.Board, words: str) -> str:
    """Returns the end of a search's title: the moves that it takes or leaves out; empty if it takes all."""
    listed = read_moves(board, words) if words.strip() else []
    others = [move for move in board.legal_moves if move not in listed]
    if not listed or not others:
        return ""
    word, moves = ("only", listed) if len(listed) <= len(others) else ("without", others)
    names = [board.san(move) for move in moves[:MOST_NAMED]]
    return f", {word} {' '.join([*names, *['...'][: len(moves) - len(names)]])}"


def settings(served: ServedFile, wanted: Settings) -> dict[str, Any]:
    """Returns the evaluator, the parameters and the memory of a search."""
    return {
        "evaluator": _evaluator(served, wanted),
        "params": SearchParams.from_options(wanted.params.replace(",", " ").split()),
        "ram_bytes": _ram(served, wanted.ram or ""),
    }


def _evaluator(served: ServedFile, wanted: Settings) -> EvaluatorSpec:
    name = wanted.evaluator or next(iter(served.evaluators))
    if name not in served.evaluators:
        known = ", ".join(served.evaluators)
        raise InvalidParameterError(f"the page offers {known}; `graphsearch serve --evaluator` adds others")
    spec = served.evaluators[name]
    return spec if wanted.threads is None else with_threads(spec, wanted.threads)


def _ram(served: ServedFile, text: str) -> int | None:
    if not text.strip():
        return served.ram_bytes
    found = byte_count(text)
    if found < LEAST_RAM:
        raise InvalidParameterError(f"RAM must be at least 8MB, not {text}")
    return min(found, served.ram_bytes or found)


def _name(board: chess.Board) -> str:
    """Returns a line as a title: its last moves, or the position's FEN."""
    if not board.move_stack:
        return "the start position" if board.fen() == chess.STARTING_FEN else board.fen()
    root, moves = board.root(), board.move_stack
    text = root.variation_san(moves)
    return text if len(text) <= 60 else "… " + text[-58:].partition(" ")[2]


# ---------------------------------------------------------------- books
def _queue_build(served: ServedFile, wanted: BuildWanted) -> dict[str, Any]:
    """Queues a build of a book; returns it with the notes on its text."""
    found = queue(served, "build", wanted)
    return found | {"notes": list(parse_config(wanted.text, served.folder, "BOOK.toml").notes)}


@makes("build", BuildWanted)
def _build(served: ServedFile, wanted: BuildWanted) -> BuildTask:
    """Returns a build of a book from the text of a BOOK.toml."""
    served.may_write()
    _refuse_files(wanted.text)
    config = parse_config(wanted.text, served.folder, "BOOK.toml")
    if config.evaluator != EvaluatorSpec() and config.evaluator not in served.evaluators.values():
        raise InvalidParameterError(
            "a book built from the page must use an evaluator that the page offers; remove [evaluator]"
        )
    return BuildTask(
        title=f"build the book {config.name}",
        path=served.path,
        ram_bytes=_ram(served, wanted.ram or ""),
        **wanted.model_dump(exclude={"ram"}),
    )


def _refuse_files(text: str) -> None:
    """Raises InvalidParameterError if a book names files of the server."""
    try:
        found = load_toml(text, "the book")
    except BookConfigError:
        return  # the parser reports the error
    roots = found.get("root")
    for root in roots if isinstance(roots, list) else ():
        if isinstance(root, dict) and "pgn" in root:
            raise InvalidParameterError("a book built from the page must give its roots as moves or fen")


# ---------------------------------------------------------------- imports and exports
async def _import(request: Request) -> Response:
    """Stores an uploaded file, and queues its import."""
    served, form = served_by(request), request.path_params["form"]
    served.may_write()
    if form not in IMPORTS:
        raise InvalidParameterError(f"an import is one of {', '.join(IMPORTS)}")
    wanted = read_request(ImportWanted, request.query_params)
    file = await received(request, served.folder / uuid4().hex)
    kept = KeptImport(form=form, file=file.name, **wanted.model_dump())
    return JSONResponse(await run_in_threadpool(queue, served, "import", kept))


@makes("import", KeptImport)
def _import_task(served: ServedFile, wanted: KeptImport) -> ImportTask:
    """Returns the import of an uploaded file."""
    served.may_write()
    name = file_name(wanted.name)
    return ImportTask(
        title=f"import {name}",
        path=served.path,
        form=wanted.form,
        file=served.folder / wanted.file,
        name=name,
        again=wanted.again,
        players=wanted.players,
    )


async def received(request: Request, file: Path) -> Path:
    """Writes a request's upload to a file as it arrives; returns the file.

    Raises:
      InputFileError: if it is too large, or cannot be written.
    """
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
    return file


def file_name(text: str) -> str:
    """Returns the name of an uploaded file for lists.

    >>> file_name("C:/games/my.pgn"), file_name("")
    ('my.pgn', 'upload')
    """
    bare = text.replace("\\", "/").rpartition("/")[2]
    return "".join(c for c in bare if c.isprintable())[:LONGEST_NAME] or "upload"


@makes("export", ExportWanted)
def _export(served: ServedFile, wanted: ExportWanted) -> ExportTask:
    """Returns an export; its file is then downloaded."""
    form, root = wanted.form, wanted.board()
    names = {"book", "side", "depth", "min_visits", "max_moves"}
    admits = admitted_moves if wanted.book else None
    given = wanted.model_dump(include=names)
    selection = Selection(roots=() if root is None else (root,), admits=admits, **given)
    file = served.folder / f"{served.path.stem}-{uuid4().hex[:8]}.{EXPORTS[form]}"
    return ExportTask(
        title=f"export {selection.book or served.path.stem} as {form}",
        path=served.path,
        form=form,
        selection=selection,
        file=file,
        weights=wanted.weights,
    )


def _download(request: Request) -> Response:
    """Returns the file of an export."""
    served = served_by(request)
    job = served.queue.job(int(request.path_params["number"]))
    if not isinstance(job.task, ExportTask) or job.state != DONE or not job.task.file.exists():
        raise InvalidParameterError("this export has not written a file")
    name = f"{job.task.selection.book or served.path.stem}.{EXPORTS[job.task.form]}"
    return FileResponse(job.task.file, media_type="application/octet-stream", filename=name)


# ---------------------------------------------------------------- the queue
def _queue(served: ServedFile, order: Order) -> dict[str, Any]:
    """Changes the queue: `stop` (a job by number), `hold`, `go`, `clear` or `forget` (ended jobs)."""
    tasks = served.queue
    if order.action == "stop":
        tasks.stop(order.number, hold=order.hold)
    elif order.action == "clear":
        tasks.clear()
    elif order.action == "forget":
        tasks.forget()
    else:
        tasks.hold(order.action == "hold")
    return tasks.as_dict()


ROUTES = [
    post("/api/search", SearchWanted, lambda served, it: queue(served, "search", it, now=not it.queue)),
    post("/api/follow", FollowWanted, _follow),
    post("/api/search-game", GameSearchWanted, lambda served, it: queue(served, "search-game", it)),
    post("/api/build", BuildWanted, _queue_build),
    post("/api/export", ExportWanted, lambda served, it: queue(served, "export", it), writes=False),
    post("/api/queue", Order, _queue, writes=False),
    Route("/api/import/{form}", _import, methods=["POST"]),
    Route("/api/download/{number:int}", _download, methods=["GET"]),
]
