"""The worker process: runs one task, reports its progress, ends and saves on request."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING, Any
from zipfile import ZipFile

from ...base.answer import picked
from ...base.errors import GraphSearchError, StoreLockedError
from ...base.faults import error_line
from .reporting import UPDATE_SECONDS
from .searching import do_follow, do_search
from .tasks import (
    BuildTask,
    CompareTask,
    ExportTask,
    FollowTask,
    ImportTask,
    MergeTask,
    Requests,
    ReviewTask,
    SearchTask,
    SendProgress,
    Task,
    TaskReport,
    ready,
)

if TYPE_CHECKING:
    from ...book.review.results import GameReview
    from ...exchange.sources import FileProgress
    from ...workers.process import Pipe

MOST_PROBLEMS = 20  # of a merge or an import, reported to the page
MOST_GAMES = 200  # of a review, for the page; the files have all
MOST_LISTED = 20  # problems and players of a review in its report
LOCK_SECONDS = 1.0  # between two attempts to lock the file


def work(pipe: Pipe) -> None:
    """Runs the first task of a pipe, and receives its requests meanwhile."""
    try:
        task = pipe.recv()
    except EOFError:  # the server has ended, and this process was in reserve
        return
    requests = Requests(pipe)
    try:
        facts = _when_free(task, requests, lambda facts: pipe.send(TaskReport("running", facts)))
        pipe.send(TaskReport("done", facts))
    except GraphSearchError as error:
        pipe.send(TaskReport("failed", error=" ".join(getattr(error, "problems", [str(error)]))))
    except Exception as error:
        pipe.send(TaskReport("failed", error=error_line(error, task.title)))


def _when_free(task: Task, requests: Requests, send: SendProgress) -> dict[str, Any]:
    """Runs a task; with `waits`, it first waits until no other program writes the file."""
    while True:
        try:
            return _WORK[type(task)](task, requests, send)
        except StoreLockedError as error:
            if not task.waits:
                raise
            send({"stage": "waiting", "for": str(error)})
            if requests.stop.wait(LOCK_SECONDS):
                return {"stage": "done", "reason": "stop"}


# ---------------------------------------------------------------- books, imports, exports
def _build(task: BuildTask, requests: Requests, send: SendProgress) -> dict[str, Any]:
    from dataclasses import asdict

    from ...book.build import build
    from ...book.config import BuildLimits, Resources
    from ...book.toml import parse_config
    from ...evaluators.factory import with_threads

    config = parse_config(task.text, Path(task.path).parent, "BOOK.toml")
    if task.threads is not None:
        config = replace(config, evaluator=with_threads(config.evaluator, task.threads))
    with ready(config.evaluator, send) as evaluator:
        report = build(
            task.path,
            config,
            evaluator=evaluator,
            limits=BuildLimits(seconds=task.seconds, evaluations=task.evaluations),
            resources=Resources(ram_bytes=task.ram_bytes),
            stop=requests.stop,
            on_progress=lambda now: send(asdict(now)),
        )
    return {"stage": "done", **report.as_dict()}


def _counted(send: SendProgress) -> Callable[[FileProgress], None]:
    """Returns a function that sends the progress in a file, without the file's name."""
    return lambda now: send(picked(now, "stage done total count rate"))


def _import(task: ImportTask, requests: Requests, send: SendProgress) -> dict[str, Any]:
    from ...base.limits import open_file
    from ...exchange.epd_import import import_epd
    from ...exchange.pgn_import import import_pgn
    from ...exchange.polyglot_import import import_polyglot
    from ...exchange.sources import GivenFile

    take: Any = {"pgn": import_pgn, "polyglot": import_polyglot, "epd": import_epd}[task.form]
    with open_file(task.file) as stream:
        given = GivenFile(task.name, stream)
        more: dict[str, Any] = {"players": task.players} if task.form == "pgn" else {}
        more |= {"stop": requests.stop, "on_progress": _counted(send)}
        report = take(task.path, [given], again=task.again, **more)[0]
    task.file.unlink(missing_ok=True)
    if report.error:
        raise GraphSearchError(report.error)
    facts = report.as_dict()
    shown = {"found": len(report.problems), "problems": facts["problems"][:MOST_PROBLEMS]}
    return {"stage": "done", **facts, **shown}


def _merge(task: MergeTask, requests: Requests, send: SendProgress) -> dict[str, Any]:
    from ...graph.sweeps.merge import MergeProgress, Wanted, merge

    pace = _Pace(send)

    def show(now: MergeProgress) -> None:
        if requests.stop.is_set():
            raise GraphSearchError("stopped; the part merged so far is sound; merge again to finish it")
        pace.show(now.done, now.total, now.stage)

    wanted = Wanted(ram_bytes=task.ram_bytes)
    report = merge([task.other], into=task.path, wanted=wanted, on_progress=show)
    (counts,) = (one.counts for one in report.inputs)
    facts = {"nodes": report.nodes, "added": counts.fresh, "changed": counts.changed, "found": report.found}
    return {"stage": "done", **facts, "problems": report.problems[:MOST_PROBLEMS]}


def _export(task: ExportTask, requests: Requests, send: SendProgress) -> dict[str, Any]:
    if task.form == "parquet":
        return _export_tables(task, send)
    from ...exchange.epd_export import export_epd
    from ...exchange.pgn_export import export_pgn
    from ...exchange.polyglot_export import export_polyglot
    from ...exchange.rows_export import export_csv, export_jsonl

    kinds: dict[str, Any] = {
        "pgn": export_pgn,
        "polyglot": export_polyglot,
        "epd": export_epd,
        "jsonl": export_jsonl,
        "csv": export_csv,
    }
    more = {"weights": task.weights} if task.form == "polyglot" else {}
    pace = _Pace(send)
    report = kinds[task.form](task.path, task.file, task.selection, on_progress=pace.show, **more)
    return {"stage": "done", **report.as_dict(), "path": task.file.name}


def _export_tables(task: ExportTask, send: SendProgress) -> dict[str, Any]:
    """Exports two tables, and packs them into one file to download; they are compressed already."""
    from ...exchange.parquet_export import export_parquet

    folder = task.file.with_suffix(".tables")
    try:
        report = export_parquet(task.path, folder, task.selection, on_progress=_Pace(send).show)
        with ZipFile(task.file, "w") as packed:
            for table in sorted(folder.iterdir()):
                packed.write(table, table.name)
    finally:
        rmtree(folder, ignore_errors=True)
    return {"stage": "done", **report.as_dict(), "path": task.file.name}


def _compare(task: CompareTask, requests: Requests, send: SendProgress) -> dict[str, object]:
    """Writes the differences of two files; returns the final report for the page."""
    from ...book.changes import changes
    from ...query.diff import WHATS, diff
    from ..lines import with_ways

    pair = (task.path, task.other) if task.turned else (task.other, task.path)
    what = (task.what,) if task.what else WHATS
    found = diff(*pair, cp=task.cp, what=what, top=task.top, on_progress=_Pace(send).show).as_dict()
    for name, path in (("changes", pair[1]), ("come", pair[1]), ("gone", pair[0])):
        found[name] = with_ways(path, found[name])
    found |= {"old": pair[0].name, "new": pair[1].name}
    found["books"] = [book.as_dict() for book in changes(*pair, top=task.top)]
    task.file.write_text(json.dumps(found), encoding="utf-8")
    return {"stage": "done", "path": task.file.name}


class _Pace:
    """Reports an export's or a merge's progress now and then."""

    def __init__(self, send: SendProgress) -> None:
        self._send = send
        self._next = 0.0

    def show(self, done: int, total: int, stage: str = "writing") -> None:
        now = time.monotonic()
        if now >= self._next:
            self._next = now + 2 * UPDATE_SECONDS
            self._send({"stage": stage, "done": done, "total": total})


def _review(task: ReviewTask, requests: Requests, send: SendProgress) -> dict[str, Any]:
    """Writes a review's files; returns its report."""
    from ...base.limits import open_file
    from ...book.review.review import ReviewSettings, review
    from ...exchange.sources import GivenFile

    send({"stage": "starting"})
    games: list[dict[str, object]] = []

    def keep(game: GameReview) -> None:
        if len(games) < MOST_GAMES:
            games.append(game.as_dict())

    settings = ReviewSettings(
        visits=task.visits,
        choice=task.choice,
        pgn=task.out.with_suffix(".pgn"),
        params=task.params,
    )
    with ready(task.evaluator, send) as evaluator, open_file(task.file) as stream:
        report = review(
            task.path,
            GivenFile(task.name, stream),
            settings,
            evaluator=evaluator,
            ram_bytes=task.ram_bytes,
            stop=requests.stop,
            on_progress=_counted(send),
            on_game=keep,
        )
    found = report.as_dict()
    if report.reviewed:
        task.out.with_suffix(".json").write_text(json.dumps(found | {"games": games}), encoding="utf-8")
    task.file.unlink(missing_ok=True)
    for name in ("problems", "players", "notes"):
        found[name] = found[name][:MOST_LISTED]
    return {"stage": "done", **found, "output": None, "reason": "stop" if report.stopped else "visits"}


_WORK: dict[type[Task], Callable[[Any, Requests, SendProgress], dict[str, Any]]] = {
    SearchTask: do_search,
    FollowTask: do_follow,
    BuildTask: _build,
    ImportTask: _import,
    MergeTask: _merge,
    ReviewTask: _review,
    CompareTask: _compare,
    ExportTask: _export,
}
