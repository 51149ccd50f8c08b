"""Tasks with files and books: builds, imports, exports and reviews."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from ...base.answer import picked
from ...base.errors import BookConfigError, GraphSearchError, InvalidParameterError
from ...base.limits import open_file
from ...book.config import load_toml, parse_config
from ...book.review.games import GameChoice, read_since
from ...book.review.review import LEAST_VISITS
from ...book.why import admitted_moves
from ...evaluators.factory import EvaluatorSpec, with_threads
from ...exchange.importing import GivenFile
from ...exchange.selection import Selection
from ..wanted import MOST_COUNT, SPELLED, Count, Name, Ply, Rooted, Statement, Upload, Words
from .searching import Seconds
from .task import Place, Settings, Task, Threads, Work

if TYPE_CHECKING:
    from ...book.config import BookConfig
    from ...book.review.judging import GameReview
    from ...exchange.importing import FileProgress

EXPORTS = {  # form -> ending
    "pgn": "pgn",
    "polyglot": "bin",
    "epd": "epd",
    "jsonl": "jsonl",
    "csv": "csv",
}
LONGEST_NAME = 120
MOST_PROBLEMS = 20  # of an import or a review, reported to the page
MOST_GAMES = 200  # of a review, for the page; the files have all


def _counted(work: Work) -> Callable[[FileProgress], None]:
    """Returns a function that sends the progress in a file, without the file's name."""
    return lambda now: work.send(picked(now, "stage done total count rate"))


# ---------------------------------------------------------------- books
class BuildTask(Task):
    """A build of a book from the text of a BOOK.toml; `seconds` and `evaluations` end it."""

    word = "build"
    text: Statement = ""
    seconds: Seconds | None = None
    evaluations: Count | None = None
    threads: Threads | None = None
    ram: Name | None = None

    def config(self, place: Place) -> BookConfig:
        """Returns the book; raises BookConfigError if the text is wrong."""
        return parse_config(self.text, place.folder, "BOOK.toml")

    def title(self, place: Place) -> str:
        """Returns the book's name; the book may not name files of the server, or other evaluators."""
        _refuse_files(self.text)
        config = self.config(place)
        if config.evaluator != EvaluatorSpec() and config.evaluator not in place.evaluators.values():
            raise InvalidParameterError(
                "a book built from the page must use an evaluator that the page offers; remove [evaluator]"
            )
        place.ram(self.ram)
        return f"build the book {config.name}"

    def run(self, work: Work) -> dict[str, Any]:
        """Builds the book."""
        from ...book.build import build
        from ...book.config import BuildSettings

        config = self.config(work.place)
        if self.threads is not None:
            config = replace(config, evaluator=with_threads(config.evaluator, self.threads))
        settings = BuildSettings(
            seconds=self.seconds, evaluations=self.evaluations, ram_bytes=work.place.ram(self.ram)
        )
        with work.ready(config.evaluator) as evaluator:
            report = build(
                work.place.path,
                config,
                evaluator=evaluator,
                settings=settings,
                stop=work.stop,
                on_progress=lambda now: work.send(asdict(now)),
            )
        return {"stage": "done", **report.as_dict()}


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
def file_name(text: str) -> str:
    """Returns the name of an uploaded file for lists.

    >>> file_name("C:/games/my.pgn"), file_name("")
    ('my.pgn', 'upload')
    """
    bare = text.replace("\\", "/").rpartition("/")[2]
    return "".join(c for c in bare if c.isprintable())[:LONGEST_NAME] or "upload"


class UploadTask(Task):
    """A task with a received file: its name in the folder of the queue, and the user's name for it."""

    file: Upload
    name: Words = ""

    @property
    def upload(self) -> str:
        """The received file."""
        return self.file

    @contextmanager
    def received(self, work: Work) -> Iterator[GivenFile]:
        """Yields the open file, under the user's name."""
        with open_file(work.place.folder / self.file) as stream:
            yield GivenFile(file_name(self.name), stream)


class ImportTask(UploadTask):
    """An import; `again`: even if the file was imported before. `players`: of `pgn`, store the players."""

    word = "import"
    form: Literal["pgn", "polyglot", "epd"]
    again: bool = False
    players: bool = False

    def title(self, place: Place) -> str:
        """Returns the file's name."""
        return f"import {file_name(self.name)}"

    def run(self, work: Work) -> dict[str, Any]:
        """Imports the file."""
        from ...exchange.epd_import import import_epd
        from ...exchange.pgn_import import import_pgn
        from ...exchange.polyglot import import_polyglot

        take: Any = {"pgn": import_pgn, "polyglot": import_polyglot, "epd": import_epd}[self.form]
        more: dict[str, Any] = {"players": self.players} if self.form == "pgn" else {}
        more |= {"stop": work.stop, "on_progress": _counted(work)}
        with self.received(work) as given:
            report = take(work.place.path, [given], again=self.again, **more)[0]
        if report.error:
            raise GraphSearchError(report.error)
        facts = report.as_dict()
        shown = {"found": len(report.problems), "problems": facts["problems"][:MOST_PROBLEMS]}
        return {"stage": "done", **facts, **shown}


class ExportTask(Rooted, Task):
    """An export into a file that is then downloaded; `weights` of a Polyglot book."""

    word = "export"
    reads_only = True
    endings = (".export",)
    form: Literal["pgn", "polyglot", "epd", "jsonl", "csv"]
    book: Name | None = None
    side: Literal["white", "black", "both"] | None = None
    depth: Ply | None = None
    min_visits: Annotated[int, Field(ge=0, le=MOST_COUNT), SPELLED] = 0
    max_moves: Count | None = None
    weights: Literal["n", "q"] | None = None

    def selection(self) -> Selection:
        """Returns the selected positions; raises GraphSearchError if they are wrong."""
        root = self.board()
        given = self.model_dump(include={"book", "side", "depth", "min_visits", "max_moves"})
        admits = admitted_moves if self.book else None
        return Selection(roots=() if root is None else (root,), admits=admits, **given)

    def title(self, place: Place) -> str:
        """Returns the name of the file or the book."""
        return f"export {self.selection().book or place.path.stem} as {self.form}"

    def run(self, work: Work) -> dict[str, Any]:
        """Writes the file."""
        from ...exchange.epd_export import export_epd
        from ...exchange.pgn_export import export_pgn
        from ...exchange.polyglot import export_polyglot
        from ...exchange.rows_export import export_csv, export_jsonl

        exporters: dict[str, Any] = {
            "pgn": export_pgn,
            "polyglot": partial(export_polyglot, weights=self.weights),
            "epd": export_epd,
            "jsonl": export_jsonl,
            "csv": export_csv,
        }
        (file,) = work.written()
        report = exporters[self.form](work.place.path, file, self.selection(), on_progress=work.progress)
        return {"stage": "done", **report.as_dict(), "path": file.name}


# ---------------------------------------------------------------- reviews
class ReviewTask(Settings, UploadTask):
    """A review of the games of a received file; it writes a JSON file for the page, and annotated games."""

    word = "review"
    endings = (".json", ".pgn")
    visits: Annotated[int, Field(ge=LEAST_VISITS, le=10**9), SPELLED] = 1000
    player: Name = ""
    since: Name | None = None

    def choice(self) -> GameChoice:
        """Returns the games to review; raises GraphSearchError if the date is wrong."""
        return GameChoice(player=self.player.strip(), since=read_since(self.since) if self.since else None)

    def title(self, place: Place) -> str:
        """Returns the file's name, and the visits."""
        self.check(place)
        self.choice()
        return f"review {file_name(self.name)}, {self.visits:,} visits of every position"

    def run(self, work: Work) -> dict[str, Any]:
        """Reviews the games."""
        from ...book.review.review import ReviewSettings, review
        from ...search.params import Limits

        games: list[dict[str, object]] = []

        def keep(game: GameReview) -> None:
            if len(games) < MOST_GAMES:
                games.append(game.as_dict())

        shown, written = work.written()
        settings = ReviewSettings(
            limits=Limits(visits=self.visits), choice=self.choice(), pgn=written, params=self.search_params()
        )
        with work.ready(self.spec(work.place)) as evaluator, self.received(work) as file:
            report = review(
                work.place.path,
                file,
                settings,
                evaluator=evaluator,
                ram_bytes=work.place.ram(self.ram),
                stop=work.stop,
                on_progress=_counted(work),
                on_game=keep,
            )
        found = report.as_dict()
        if report.reviewed:
            shown.write_text(json.dumps(found | {"games": games}), encoding="utf-8")
        for name in ("problems", "players", "notes"):
            found[name] = found[name][:MOST_PROBLEMS]
        return {"stage": "done", **found, "output": None, "reason": "stop" if report.stopped else "visits"}
