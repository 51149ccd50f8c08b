"""Actions that change something: tasks, the files that they have read or written, and the queue."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any, Literal, TypeVar

from starlette.responses import FileResponse, Response

from ..base.errors import InvalidParameterError
from ..base.limits import open_file, text_lines
from ..book.study.studies import read_games
from .routes import get, post, upload
from .task_queue import DONE, ServedFile
from .tasks import (
    EXPORTS,
    BuildTask,
    ExportTask,
    FollowTask,
    ImportTask,
    ReviewTask,
    SearchTask,
    Task,
    file_name,
)
from .wanted import Ply, Wanted

T = TypeVar("T", bound=Task)


class Order(Wanted):
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


def _build(served: ServedFile, wanted: BuildTask) -> dict[str, Any]:
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
    """Returns the file of an export."""
    task, path = _written(served, wanted.number, ExportTask, ".export")
    name = f"{task.book or served.path.stem}.{EXPORTS[task.form]}"
    return FileResponse(path, media_type="application/octet-stream", filename=name)


def _review(served: ServedFile, wanted: TaskWanted) -> Response:
    """Returns the games of a review for the page."""
    return FileResponse(
        _written(served, wanted.number, ReviewTask, ".json")[1], media_type="application/json"
    )


def _review_game(served: ServedFile, wanted: ReviewedGame) -> dict[str, Any]:
    """Returns a reviewed game for the notation, with its marks, better lines and comments."""
    _, path = _written(served, wanted.number, ReviewTask, ".pgn")
    with open_file(path) as file:
        game = next(islice(read_games(text_lines(file, path.name), path.name), wanted.game, None), None)
    if game is None:
        raise InvalidParameterError("the review has no such game")
    return game.as_dict()


def _review_pgn(served: ServedFile, wanted: TaskWanted) -> Response:
    """Returns the annotated games of a review."""
    task, path = _written(served, wanted.number, ReviewTask, ".pgn")
    name = f"{Path(file_name(task.name)).stem}-reviewed.pgn"
    return FileResponse(path, media_type="application/x-chess-pgn", filename=name)


# ---------------------------------------------------------------- the queue
def _queue(served: ServedFile, order: Order) -> dict[str, Any]:
    """Changes the queue: `stop` (a job by number), `hold`, `go`, `clear` or `forget` (ended jobs)."""
    tasks = served.queue
    if order.action == "stop":
        tasks.stop(order.number, hold=order.hold)
    elif order.action in ("clear", "forget"):
        tasks.clear(ended=order.action == "forget")
    else:
        tasks.hold(order.action == "hold")
    return tasks.as_dict()


ROUTES = [
    post("/api/search", SearchTask, ServedFile.add),
    post("/api/follow", FollowTask, lambda served, it: served.queue.follow(it).as_dict()),
    post("/api/build", BuildTask, _build),
    post("/api/export", ExportTask, ServedFile.add, writes=False),
    get("/api/download/{number}", TaskWanted, _download),
    upload("/api/import/{form}", ImportTask, ServedFile.add),
    upload("/api/review", ReviewTask, ServedFile.add),
    get("/api/review/{number}", TaskWanted, _review),
    get("/api/review/{number}/game/{game}", ReviewedGame, _review_game),
    get("/api/review/{number}/pgn", TaskWanted, _review_pgn),
    post("/api/queue", Order, _queue, writes=False),
]
