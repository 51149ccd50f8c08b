"""The requests of the page, and its tasks: requests that run in a process of their own, and their work there.

A request refuses unknown fields; an empty one counts as missing, because forms send all their fields. The
graph file keeps the requests of tasks; a restarted server reads them again. Messages:

    server  -> Order, then Question, another task, STOP -> process
    server  <- TaskReport, LiveAnswer                   <- process

A search answers questions from its memory, which has its current state; the file has that of the last save.
The graph stays open between two searches of a process, so a repeated search continues where it ended.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from math import inf
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeVar

import chess
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from ..base.answer import Answer, picked
from ..base.errors import GraphSearchError, InvalidParameterError, StoreLockedError
from ..base.limits import byte_count, open_file, shortened, whole_number
from ..base.system import GIVEN_WAY, give_way
from ..book.config import BookConfig, parse_config
from ..book.questions import admitted_moves
from ..book.review.review import LEAST_VISITS, GameChoice
from ..evaluators.factory import EvaluatorSpec, create, with_threads
from ..exchange.importing import FileProgress, GivenFile
from ..exchange.selection import Selection
from ..position.notation import START_WORD, named_board, play_moves, read_moves
from ..position.values import cp_of
from ..query.brief import brief
from ..query.position import moves
from ..query.source import Records
from ..search.job import Control, SearchJob, limits_after
from ..search.params import LEAST_RAM, Limits, SearchParams

if TYPE_CHECKING:
    from ..book.review.review import GameReview
    from ..evaluators.protocol import Evaluator
    from ..graph.graph import Graph
    from ..graph.view import Reader
    from ..search.results import Progress
    from ..workers.process import Pipe


# ---------------------------------------------------------------- requests
MOST_COUNT = 10**18  # visits, evaluations
MOST_BODY_BYTES = 32 << 20  # of a pasted text, such as games; files are streamed


def _whole(value: object) -> object:
    """Returns the whole number in a form or an address; the model checks anything else."""
    if isinstance(value, bool):
        raise ValueError("expected a whole number")  # the model reports it
    return whole_number(value) if isinstance(value, str) else value


SPELLED = BeforeValidator(_whole)
Count = Annotated[int, Field(ge=1, le=MOST_COUNT), SPELLED]
Ply = Annotated[int, Field(ge=0, le=10**9), SPELLED]
Name = Annotated[str, Field(max_length=200)]  # of a book, a player, an evaluator, a file
Words = Annotated[str, Field(max_length=4000)]  # of a form
Line = Annotated[str, Field(max_length=60_000)]  # moves
Pasted = Annotated[str, Field(max_length=MOST_BODY_BYTES)]
Upload = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$", max_length=32)]  # name of a received file
Statement = Annotated[str, Field(max_length=1 << 20)]


class Wanted(BaseModel):
    """A request; unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _without_blanks(cls, given: Any) -> Any:
        if not isinstance(given, Mapping):
            raise ValueError("a request must be a JSON object")  # the model reports it
        return {name: value for name, value in given.items() if value is not None and value != ""}


W = TypeVar("W", bound=Wanted)


def read_request(kind: type[W], given: Mapping[str, object] | bytes) -> W:
    """Returns the request from parameters, or from a body: a JSON object, without lone surrogates, not deep.

    Raises InvalidParameterError with the first wrong field and its problem.
    """
    try:
        if isinstance(given, bytes):
            return kind.model_validate_json(given or b"{}")
        return kind.model_validate(dict(given))
    except ValidationError as error:
        raise InvalidParameterError(_problem_of(error)) from None


_PROBLEMS = {  # by pydantic's kind of error; others are in its words
    "extra_forbidden": "this request has no such field",
    "json_invalid": "no JSON: {text}",
    "missing": "it is missing",
    "string_too_long": "at most {max_length:,} characters",
    "too_long": "at most {max_length:,} entries",
    "greater_than_equal": "at least {ge:,}",
    "less_than_equal": "at most {le:,}",
}


def _problem_of(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    text = first["msg"].removeprefix("Value error, ").replace("Input should be", "expected")
    text = _PROBLEMS.get(first["type"], "{text}").format(text=text, **first.get("ctx", {}))
    where = ".".join(map(str, first["loc"]))
    return f"{shortened(where)}: {text[:1].lower()}{text[1:]}" if where else text


class Nothing(Wanted):
    """A request without fields."""


class GivenPosition(Wanted):
    """A position: a FEN or the name of a start position, and the moves from there."""

    root: Words = START_WORD
    line: Line = ""

    def board(self) -> chess.Board:
        """Returns the position with the game before it; raises InvalidPositionError if it is illegal."""
        found = named_board(self.root)
        play_moves(found, self.line)
        return found


class Text(Wanted):
    """A FEN, a list of moves, or games."""

    text: Pasted = ""


# ---------------------------------------------------------------- tasks
STOP = "stop"  # ends the task, and saves it
PROGRESS_SECONDS = 0.4  # between two reports of a task with files
LOCK_SECONDS = 1.0  # between two attempts to lock the file
Threads = Annotated[int, Field(ge=1, le=1024), SPELLED]  # as evaluators allow


@dataclass(frozen=True, slots=True)
class Place:
    """The served file, as tasks know it.

    Attributes:
      folder: for uploads and for files that tasks write. evaluators: the permitted ones by name.
      ram_bytes: most memory of a search, unless it asks for less; None: the default of searches.
    """

    path: Path
    folder: Path
    evaluators: dict[str, EvaluatorSpec]
    ram_bytes: int | None = None

    def ram(self, text: str | None) -> int | None:
        """Returns the memory of a search that asks for some, None for the default.

        Raises InvalidParameterError if it is no size, or too small.
        """
        if text is None or not text.strip():
            return self.ram_bytes
        found = byte_count(text)
        if found < LEAST_RAM:
            raise InvalidParameterError(f"RAM must be at least 8MB, not {text}")
        return min(found, self.ram_bytes or found)


class Task(Wanted):
    """A request that runs in a process of its own.

    Attributes:
      word: names its kind in the file, and for the page.
      reads_only: whether it writes no graph file, and so runs beside one that does.
      is_kept: whether a restarted server runs it again.
      endings: of the files that it writes.
    """

    word: ClassVar[str]
    reads_only: ClassVar[bool] = False
    is_kept: ClassVar[bool] = True
    endings: ClassVar[tuple[str, ...]] = ()

    @property
    def waits(self) -> bool:
        """Whether it waits while another program writes the file."""
        return True

    def title(self, place: Place) -> str:
        """Returns its title for people; raises GraphSearchError if it cannot be done."""
        raise NotImplementedError

    def run(self, work: Work) -> dict[str, Any]:
        """Runs it in the process; returns the last report for the page."""
        raise NotImplementedError

    @property
    def upload(self) -> str:
        """The name of its uploaded file; empty without one."""
        return ""

    def written(self, number: int) -> tuple[str, ...]:
        """Returns the names of the files that it writes as task `number`."""
        return tuple(f"{number}{ending}" for ending in self.endings)


class Settings(Wanted):
    """Settings of a search: `params` as names with values, `ram` with its unit."""

    evaluator: Name | None = None
    threads: Threads | None = None
    params: Words = ""
    ram: Name | None = None

    def search_params(self) -> SearchParams:
        """Returns the parameters; raises InvalidParameterError if they are wrong."""
        return SearchParams.from_options(self.params.replace(",", " ").split())

    def spec(self, place: Place) -> EvaluatorSpec:
        """Returns the evaluator; raises InvalidParameterError if the page does not offer it."""
        name = self.evaluator or next(iter(place.evaluators))
        if name not in place.evaluators:
            known = ", ".join(place.evaluators)
            raise InvalidParameterError(f"the page offers {known}; `serve --evaluator` adds others")
        spec = place.evaluators[name]
        return spec if self.threads is None else with_threads(spec, self.threads)

    def check(self, place: Place) -> None:
        """Raises InvalidParameterError if one of the settings is wrong."""
        self.search_params()
        self.spec(place)
        place.ram(self.ram)


# ---------------------------------------------------------------- messages
@dataclass(frozen=True, slots=True)
class Order:
    """The task of a process; `before`: its last report, if it was interrupted."""

    number: int
    task: Task
    place: Place
    before: dict[str, Any]


@dataclass(frozen=True, slots=True)
class TaskReport:
    """A report of the process: `running` now and then, finally `done`, or `failed` with an `error`."""

    state: str
    facts: dict[str, Any] = field(default_factory=dict)
    error: str = ""


# a function of records, or of a file; sent to another process as a partial
Ask = Callable[[Any], Answer | dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Question:
    """A question for the process of a search; `ask` takes records."""

    number: int
    ask: Ask


@dataclass(frozen=True, slots=True)
class LiveAnswer:
    """The answer to a question as a JSON object; None if the search refused it."""

    number: int
    found: dict[str, Any] | None


def json_of(found: Answer | dict[str, Any]) -> dict[str, Any]:
    """Returns an answer as a JSON object."""
    return found if isinstance(found, dict) else found.as_dict()


def node(records: Records, board: chess.Board) -> dict[str, Any]:
    """Returns the node of a position for the page, without its games and lines, and the `brief` on it."""
    found = moves(records, board)
    said = brief(records, board, node=found.node)
    return found.as_dict() | {"mate": found.node.mate, "brief": said.as_dict()}


# ---------------------------------------------------------------- in the process
class Work:
    """The work on a task, and the server's messages to it.

    Attributes:
      order: of the process. task: the present one: the server may replace it (`FollowTask`).
      stop: set to end the task. turn: set to end its current search.
      facts: part of every report.
    """

    def __init__(self, pipe: Pipe, order: Order) -> None:
        self.order, self.place, self.task = order, order.place, order.task
        self.stop, self.turn = threading.Event(), threading.Event()
        self.facts: dict[str, Any] = {}
        self._pipe = pipe
        self._next = 0.0  # when progress is sent again
        self._questions: SimpleQueue[Question] = SimpleQueue()
        threading.Thread(target=self._listen, daemon=True).start()

    def run(self) -> dict[str, Any]:
        """Runs the task; with `waits`, it first waits until no other program writes the file."""
        task = self.order.task
        while True:
            try:
                return task.run(self)
            except StoreLockedError as error:
                if not task.waits:
                    raise
                self.send({"stage": "waiting", "for": str(error)})
                if self.stop.wait(LOCK_SECONDS):
                    return {"stage": "done", "reason": "stop"}

    def send(self, facts: dict[str, Any]) -> None:
        """Sends a report."""
        self._pipe.send(TaskReport("running", self.facts | facts))

    def progress(self, done: int, total: int, stage: str = "writing") -> None:
        """Sends how far a task with files is, now and then."""
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + PROGRESS_SECONDS
            self.send({"stage": stage, "done": done, "total": total})

    def written(self) -> list[Path]:
        """Returns the files that the task writes."""
        return [self.place.folder / name for name in self.order.task.written(self.order.number)]

    def answer(self, read: Reader) -> None:
        """Answers the open questions from the memory of a search; only its thread calls it."""
        while not self._questions.empty():
            question, found = self._questions.get(), None
            with suppress(GraphSearchError):  # the file gives the reason
                found = json_of(question.ask(Records(self.place.path, read)))
            self._pipe.send(LiveAnswer(question.number, found))

    @contextmanager
    def ready(self, spec: EvaluatorSpec) -> Iterator[Evaluator]:
        """Compiles the kernels of an evaluator and of a search that saves; yields the evaluator.

        A task calls it before it opens the file: a stop can then end its process at once.
        """
        from ..search.warm import kernels_missing

        self.send({"stage": "starting"})
        with closing(create(spec)) as evaluator:
            if kernels_missing(evaluator, filed=True):
                from ..solvers.mate.beside import compile_search

                self.send({"stage": "compiling"})
                compile_search(evaluator, SearchParams(), filed=True, told=True)
                self.send({"stage": "starting"})
            yield evaluator

    def _listen(self) -> None:
        with suppress(EOFError, OSError):
            while (message := self._pipe.recv()) != STOP:
                if isinstance(message, Question):
                    self._questions.put(message)
                else:
                    self.task = message
                    self.turn.set()
        self.stop.set()
        self.turn.set()


MOST_SECONDS = 10**9
MOST_NAMED = 5  # moves in the title of a search
IDLE_SECONDS = 0.03  # between two looks at the server's messages while the position needs no search
UPDATE_SECONDS = 0.2  # between two reports
MOST_UNSAVED = 200_000  # changed nodes of a search that a hand may stop: they are saved within 0.4 s
COUNTERS = (
    "seconds visits new_visits evaluations catch_ups collisions nodes resident ram_bytes read_back"
    " written=saved_nodes depth seldepth visits_per_s evaluations_per_s"
)
TOTALS = "new_visits evaluations seconds"
Seconds = Annotated[float, Field(ge=0, le=MOST_SECONDS)]


def name_of(board: chess.Board) -> str:
    """Returns a line as a title: its last moves, or the position's FEN."""
    if not board.move_stack:
        return "the start position" if board.fen() == chess.STARTING_FEN else board.fen()
    text = board.root().variation_san(board.move_stack)
    return text if len(text) <= 60 else "… " + text[-58:].partition(" ")[2]


class PositionTask(GivenPosition, Settings, Task):
    """A search of a position; `searchmoves`: the moves to search there; none: all."""

    searchmoves: Words = ""

    def title(self, place: Place) -> str:
        """Returns the position's name, with the moves that the search takes or leaves out."""
        self.check(place)
        board = self.board()
        listed = self.listed(board)
        others = [move for move in board.legal_moves if move not in listed]
        title = f"{self.word} {name_of(board)}"
        if not listed or not others:
            return title
        word, moves = ("only", listed) if len(listed) <= len(others) else ("without", tuple(others))
        names = [board.san(move) for move in moves[:MOST_NAMED]]
        return f"{title}, {word} {' '.join([*names, *['...'][: len(moves) - len(names)]])}"

    def listed(self, board: chess.Board) -> tuple[chess.Move, ...]:
        """Returns the moves to search; raises InvalidPositionError if one is illegal."""
        return tuple(read_moves(board, self.searchmoves)) if self.searchmoves.strip() else ()

    def job(self, limits: Limits) -> SearchJob:
        """Returns the search of the position, whose lines the page asks for itself."""
        from ..solvers.mate.beside import MateFinder

        board = self.board()
        return SearchJob(
            board=board,
            limits=limits,
            params=self.search_params(),
            searchmoves=self.listed(board),
            lines=0,
            mates=MateFinder,
        )

    @contextmanager
    def opened(self, work: Work, stop: threading.Event, *, unsaved: float) -> Iterator[tuple[Graph, Control]]:
        """Compiles the kernels, and yields the open graph, and the control of its searches until `stop`.

        With `unsaved` changed nodes a save begins.
        """
        from ..graph.graph import Graph
        from ..search.warm import other_kernels_compiling

        def show(now: Progress) -> None:
            node = now.node(0)
            found = node.as_dict()
            for move in found["moves"]:
                del move["pv"]
            found |= {"mate": node.mate, "cp": cp_of(node.q)}
            report = {"counters": picked(now, COUNTERS), "reading": now.loaded}
            work.send({"stage": "searching", **report, "node": found})

        def on_slice() -> None:
            work.answer(graph.read)
            if graph.arena.dirty_count >= unsaved:
                graph.save_soon()

        with (
            work.ready(self.spec(work.place)) as evaluator,
            Graph.open(work.place.path, evaluator=evaluator, ram_bytes=work.place.ram(self.ram)) as graph,
            other_kernels_compiling(),
        ):
            give_way(GIVEN_WAY)  # to the server and the browser, which show what it finds
            yield graph, Control(on_progress=show, interval=UPDATE_SECONDS, stop=stop, on_slice=on_slice)


class SearchTask(PositionTask):
    """A search of a position until its limits; with `queue` it waits for its turn."""

    word = "search"
    visits: Count | None = None
    evaluations: Count | None = None
    seconds: Seconds | None = None
    queue: bool = False

    @property
    def waits(self) -> bool:
        """Whether it waits for other programs, too."""
        return self.queue

    def run(self, work: Work) -> dict[str, Any]:
        """Searches what an interruption has left of the limits."""
        from ..search.loop import search

        before = spent_before(work.order.before)
        limits = Limits(visits=self.visits, evaluations=self.evaluations, seconds=self.seconds)
        left = limits_after(limits, visits=before["new_visits"], **before)
        totals: dict[str, Any] = {"reason": "visits"} | dict.fromkeys(before, 0)
        unsaved = inf if self.queue else MOST_UNSAVED
        with self.opened(work, work.stop, unsaved=unsaved) as (graph, control):
            if left is not None:
                result = search(graph, self.job(left), control)
                totals = picked(result, f"reason=stop_reason {TOTALS}")
        return {"stage": "done", "spent": {name: before[name] + totals[name] for name in before}, **totals}


def spent_before(facts: dict[str, Any]) -> dict[str, float]:
    """Returns the visits, evaluations and seconds of a search before its interruption, from its last report.

    >>> spent_before({"spent": {"new_visits": 3, "evaluations": "x"}})
    {'new_visits': 3, 'evaluations': 0, 'seconds': 0}
    """
    kept = facts.get("spent")
    found = kept if isinstance(kept, dict) else {}
    numbers = {name: found.get(name) for name in TOTALS.split()}
    return {name: value if isinstance(value, int | float) else 0 for name, value in numbers.items()}


class FollowTask(PositionTask):
    """A search of a position until it is stopped; another such task replaces it."""

    word = "follow"
    is_kept = False

    def run(self, work: Work) -> dict[str, Any]:
        """Searches the position, and those that replace it, until the end."""
        from ..search.loop import search

        totals = dict.fromkeys(TOTALS.split(), 0.0)
        with self.opened(work, work.turn, unsaved=MOST_UNSAVED) as (graph, control):
            while not work.stop.is_set():
                work.turn.clear()  # before the task is read, so that a new one ends the search
                if work.stop.is_set():
                    break
                task = work.task if isinstance(work.task, FollowTask) else self
                work.facts = {"title": task.title(work.place)}
                result = search(graph, replace(task.job(Limits()), hurry=True), control)
                totals = {name: value + getattr(result, name) for name, value in totals.items()}
                graph.save_soon()
                if not work.turn.is_set():
                    work.send({"stage": "resting"})
                while not work.turn.wait(IDLE_SECONDS):  # for another position: this one needs no more search
                    work.answer(graph.read)
                    graph.save_soon()
            graph.flush()  # with all roots in the file's list, also those of the last seconds
        return {"stage": "done", "reason": "stop", **totals}


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
        """Returns the book, which has an evaluator of the page; looks for no file that the text names.

        Raises BookConfigError if the text is wrong, InvalidParameterError if it names another evaluator.
        """
        config = parse_config(self.text, None, "BOOK.toml")
        if config.evaluator == EvaluatorSpec():
            return replace(config, evaluator=next(iter(place.evaluators.values())))
        if config.evaluator not in place.evaluators.values():
            raise InvalidParameterError(
                "a book built from the page must use an evaluator that the page offers; remove [evaluator]"
            )
        return config

    def title(self, place: Place) -> str:
        """Returns the book's name."""
        place.ram(self.ram)
        return f"build the book {self.config(place).name}"

    def run(self, work: Work) -> dict[str, Any]:
        """Builds the book."""
        from ..book.build import build
        from ..book.config import BuildSettings

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
                on_progress=lambda now: work.send({"stage": now.ended, **asdict(now)}),
            )
        return {"stage": "done", **report.as_dict()}


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
        from ..exchange.imports import import_files

        with self.received(work) as given:
            (report,) = import_files(
                self.form,
                work.place.path,
                [given],
                players=self.players and self.form == "pgn",
                again=self.again,
                stop=work.stop,
                on_progress=_counted(work),
            )
        if report.error:
            raise GraphSearchError(report.error)
        facts = report.as_dict()
        shown = {"found": len(report.problems), "problems": facts["problems"][:MOST_PROBLEMS]}
        return {"stage": "done", **facts, **shown}


class ExportTask(Task):
    """An export of all roots, or from one position, that is then downloaded; `weights` of a Polyglot book."""

    word = "export"
    reads_only = True
    endings = (".export",)
    form: Literal["pgn", "polyglot", "epd", "jsonl", "csv"]
    root: Words | None = None
    line: Line = ""
    book: Name | None = None
    side: Literal["white", "black", "both"] | None = None
    depth: Ply | None = None
    min_visits: Annotated[int, Field(ge=0, le=MOST_COUNT), SPELLED] = 0
    max_moves: Count | None = None
    weights: Literal["n", "q"] | None = None

    def selection(self) -> Selection:
        """Returns the selected positions; raises GraphSearchError if they are wrong."""
        roots = () if self.root is None else (GivenPosition(root=self.root, line=self.line).board(),)
        given = self.model_dump(include={"book", "side", "depth", "min_visits", "max_moves"})
        return Selection(roots=roots, admits=admitted_moves if self.book else None, **given)

    def title(self, place: Place) -> str:
        """Returns the name of the file or the book."""
        return f"export {self.selection().book or place.path.stem} as {self.form}"

    def run(self, work: Work) -> dict[str, Any]:
        """Writes the file."""
        from ..exchange.exports import export

        (file,) = work.written()
        report = export(
            self.form,
            work.place.path,
            file,
            self.selection(),
            weights=self.weights,
            on_progress=work.progress,
        )
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
        return GameChoice(player=self.player.strip(), since=self.since or "")

    def title(self, place: Place) -> str:
        """Returns the file's name, and the visits."""
        self.check(place)
        self.choice()
        return f"review {file_name(self.name)}, {self.visits:,} visits of every position"

    def run(self, work: Work) -> dict[str, Any]:
        """Reviews the games."""
        from ..book.review.review import ReviewSettings, review
        from ..search.params import Limits

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
