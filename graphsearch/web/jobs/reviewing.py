"""A review in the other process: the games for the page as JSON, and the files to download."""

from __future__ import annotations

import json
import threading
from typing import Any

from ...book.review.results import GameReview, ReviewProgress
from ...book.review.review import ReviewSettings, review
from ...exchange.sources import GivenFile
from ...limits import open_file
from .messages import SendProgress, ready
from .tasks import ReviewTask

MOST_GAMES = 200  # for the page; the files have all
MOST_LISTED = 20  # problems and players in the task's report


def do_review(task: ReviewTask, stop: threading.Event, send: SendProgress) -> dict[str, Any]:
    """Writes a review's files; returns its report."""
    send({"stage": "starting"})
    games: list[dict[str, object]] = []

    def show(now: ReviewProgress) -> None:
        send({"stage": now.stage, "done": now.done, "total": now.total, "count": now.count, "rate": now.rate})

    def keep(game: GameReview) -> None:
        if len(games) < MOST_GAMES:
            games.append(game.as_dict())

    settings = ReviewSettings(
        visits=task.visits,
        choice=task.choice,
        pgn=task.out.with_suffix(".pgn"),
        html=task.out.with_suffix(".html"),
        params=task.params,
    )
    with ready(task.evaluator, send) as evaluator, open_file(task.file) as stream:
        report = review(
            task.path,
            GivenFile(task.name, stream),
            settings,
            evaluator=evaluator,
            ram_bytes=task.ram_bytes,
            stop=stop,
            on_progress=show,
            on_game=keep,
        )
    found = report.as_dict()
    if report.reviewed:
        task.out.with_suffix(".json").write_text(json.dumps(found | {"games": games}), encoding="utf-8")
    task.file.unlink(missing_ok=True)
    for name in ("problems", "players", "notes"):
        found[name] = found[name][:MOST_LISTED]
    return {"stage": "done", **found, "outputs": [], "reason": "stop" if report.stopped else "visits"}
