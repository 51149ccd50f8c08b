"""Actions that change something: tasks, the files that they have read or written, and the queue."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Route

from ...base.errors import InvalidParameterError
from ...base.limits import open_file, text_lines
from ...book.study.pgn import read_games
from ..jobs.files import (
    EXPORTS,
    BuildTask,
    ExportTask,
    ImportTask,
    ReviewTask,
    file_name,
)
from ..jobs.searching import FollowTask, SearchTask
from ..jobs.task import Task
from ..jobs.task_queue import DONE, QueuedTask
from ..served_file import ServedFile
from ..wanted import Ply, Wanted, read_request
from .routes import post, received, served_by, task

PGN = "application/x-chess-pgn"


class Order(Wanted):
    """A change of the queue; `number`: the task to stop, `hold`: the queue waits until it is released."""

    action: Literal["stop", "hold", "go", "clear", "forget"]
    number: Ply = 0
    hold: bool = False


def _build(served: ServedFile, wanted: BuildTask) -> dict[str, Any]:
    """Queues a build of a book; returns it with the notes on its text."""
    return served.add(wanted) | {"notes": list(wanted.config(served.place).notes)}


# ---------------------------------------------------------------- uploads
def _upload(kind: type[Task]) -> Any:
    """Returns the endpoint that receives a file, and queues a task with it."""

    async def endpoint(request: Request) -> Response:
        served = served_by(request)
        served.may_write()
        name = uuid4().hex
        wanted = read_request(kind, {**request.query_params, **request.path_params, "file": name})
        wanted.title(served.place)  # refuses a wrong request before the upload
        await received(request, served.place.folder / name)
        return JSONResponse(await run_in_threadpool(served.add, wanted))

    return endpoint


# ---------------------------------------------------------------- what tasks have written
def _written(served: ServedFile, number: int, kind: type[Task], ending: str, lack: str) -> tuple[Any, Path]:
    """Returns a task of a kind and its file with this ending; raises InvalidParameterError without one."""
    job: QueuedTask = served.queue.job(number)
    if isinstance(job.task, kind) and job.state == DONE:
        paths = (served.place.folder / name for name in job.task.written(number) if name.endswith(ending))
        if (path := next(paths, None)) is not None and path.exists():
            return job.task, path
    raise InvalidParameterError(lack)


def _download(request: Request) -> Response:
    """Returns the file of an export."""
    served, number = served_by(request), int(request.path_params["number"])
    wanted, path = _written(served, number, ExportTask, "", "this export has not written a file")
    name = f"{wanted.book or served.path.stem}.{EXPORTS[wanted.form]}"
    return FileResponse(path, media_type="application/octet-stream", filename=name)


def _reviewed(request: Request, ending: str) -> tuple[ReviewTask, Path]:
    number = int(request.path_params["number"])
    return _written(served_by(request), number, ReviewTask, ending, "this task has written no review")


def _review(request: Request) -> Response:
    """Returns the games of a review for the page."""
    return FileResponse(_reviewed(request, ".json")[1], media_type="application/json")


def _review_game(request: Request) -> Response:
    """Returns a reviewed game for the notation, with its marks, better lines and comments."""
    _, path = _reviewed(request, ".pgn")
    number = int(request.path_params["game"])
    with open_file(path) as file:
        game = next(islice(read_games(text_lines(file, path.name), path.name), number, None), None)
    if game is None:
        raise InvalidParameterError("the review has no such game")
    return JSONResponse(game.as_dict())


def _review_pgn(request: Request) -> Response:
    """Returns the annotated games of a review."""
    wanted, path = _reviewed(request, ".pgn")
    name = f"{Path(file_name(wanted.name)).stem}-reviewed.pgn"
    return FileResponse(path, media_type=PGN, filename=name)


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
    task("/api/search", SearchTask),
    post("/api/follow", FollowTask, lambda served, it: served.queue.follow(it).as_dict()),
    post("/api/build", BuildTask, _build),
    task("/api/export", ExportTask, writes=False),
    Route("/api/download/{number:int}", _download, methods=["GET"]),
    Route("/api/import/{form}", _upload(ImportTask), methods=["POST"]),
    Route("/api/review", _upload(ReviewTask), methods=["POST"]),
    Route("/api/review/{number:int}", _review, methods=["GET"]),
    Route("/api/review/{number:int}/game/{game:int}", _review_game, methods=["GET"]),
    Route("/api/review/{number:int}/pgn", _review_pgn, methods=["GET"]),
    post("/api/queue", Order, _queue, writes=False),
]
