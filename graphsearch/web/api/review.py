"""Reviews of games: queues uploads; shows finished reviews, and sends their games."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Annotated
from uuid import uuid4

from pydantic import Field
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Route

from ...base.errors import InvalidParameterError
from ...base.limits import open_file, text_lines
from ...book.review.games import GameChoice, read_since
from ...book.review.review import LEAST_VISITS
from ...book.study.pgn import read_games
from ..jobs.tasks import ReviewTask
from ..served_file import ServedFile
from .kept import makes, queue
from .requests import SPELLED, Name, Upload, Words, read_request, served_by
from .work import Settings, file_name, received, settings

PGN = "application/x-chess-pgn"


# ---------------------------------------------------------------- requests
class ReviewWanted(Settings):
    """A review of games; their file is the body."""

    name: Words = ""
    visits: Annotated[int, Field(ge=LEAST_VISITS, le=10**9), SPELLED] = 1000
    player: Name = ""
    since: Name | None = None


class KeptReview(ReviewWanted):
    """A review with its received file; `file`: as for an import."""

    file: Upload


async def _review(request: Request) -> Response:
    """Stores uploaded games, and queues their review."""
    served = served_by(request)
    served.may_write()
    wanted = read_request(ReviewWanted, request.query_params)
    place = served.folder / uuid4().hex
    kept = KeptReview(file=place.name, **wanted.model_dump())
    review_task(served, kept)  # refuses a wrong request before the upload
    await received(request, place)
    return JSONResponse(await run_in_threadpool(queue, served, "review", kept))


@makes("review", KeptReview)
def review_task(served: ServedFile, wanted: KeptReview) -> ReviewTask:
    """Returns the review of an uploaded file."""
    served.may_write()
    name, place = file_name(wanted.name), served.folder / wanted.file
    since = read_since(wanted.since) if wanted.since else None
    return ReviewTask(
        title=f"review {name}, {wanted.visits:,} visits of every position",
        path=served.path,
        file=place,
        name=name,
        out=place.with_suffix(".review"),
        visits=wanted.visits,
        choice=GameChoice(player=wanted.player.strip(), since=since),
        **settings(served, wanted),
    )


def _written(served: ServedFile, request: Request, ending: str) -> tuple[ReviewTask, Path]:
    """Returns a review and its file with this ending; raises InvalidParameterError if there is none."""
    task = served.queue.job(int(request.path_params["number"])).task
    if isinstance(task, ReviewTask):
        path = task.out.with_suffix(f".{ending}")
        if path.exists():
            return task, path
    raise InvalidParameterError("this task has written no review")


def _shown(request: Request) -> Response:
    """Returns the games of a review for the page."""
    _, path = _written(served_by(request), request, "json")
    return FileResponse(path, media_type="application/json")


def _game(request: Request) -> Response:
    """Returns a reviewed game for the notation, with its marks, better lines and comments."""
    _, path = _written(served_by(request), request, "pgn")
    number = int(request.path_params["game"])
    with open_file(path) as file:
        game = next(islice(read_games(text_lines(file, path.name), path.name), number, None), None)
    if game is None:
        raise InvalidParameterError("the review has no such game")
    return JSONResponse(game.as_dict())


def _file(request: Request) -> Response:
    """Returns the annotated games of a review."""
    task, path = _written(served_by(request), request, "pgn")
    return FileResponse(path, media_type=PGN, filename=f"{Path(task.name).stem}-reviewed.pgn")


ROUTES = [
    Route("/api/review", _review, methods=["POST"]),
    Route("/api/review/{number:int}", _shown, methods=["GET"]),
    Route("/api/review/{number:int}/game/{game:int}", _game, methods=["GET"]),
    Route("/api/review/{number:int}/pgn", _file, methods=["GET"]),
]
