"""Tasks for the worker process, as frozen values, and the messages between it and the server."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

import chess

from ...book.review.games import GameChoice
from ...evaluators.factory import EvaluatorSpec, create
from ...exchange.selection import Selection
from ...search.job import SearchJob, limits_after
from ...search.params import Limits, SearchParams
from .memory import Question, answer_of

if TYPE_CHECKING:
    from ...evaluators.protocol import Evaluator
    from ...query.source import Records
    from ...workers.process import Pipe

IMPORTS = ("pgn", "polyglot", "epd")
EXPORTS = {  # form -> ending
    "pgn": "pgn",
    "polyglot": "bin",
    "epd": "epd",
    "jsonl": "jsonl",
    "csv": "csv",
    "parquet": "zip",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A task; `title` is for people, `waits`: whether it waits while another program writes the file."""

    title: str
    path: Path
    waits: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Searching(Task):
    """A task that searches, with its evaluator, parameters and memory."""

    evaluator: EvaluatorSpec = field(default_factory=EvaluatorSpec)
    params: SearchParams = field(default_factory=SearchParams)
    ram_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Reached:
    """The progress of a task of several searches.

    Attributes:
      positions: number of finished ones. visits, evaluations, seconds: used by the next one.
    """

    positions: int = 0
    visits: int = 0
    evaluations: int = 0
    seconds: float = 0.0

    @classmethod
    def of(cls, facts: dict[str, Any]) -> Reached:
        """Returns the progress from the last report of a task, as the file keeps it; none without one."""
        kept = facts.get("reached")
        if not isinstance(kept, dict) or not all(isinstance(kept.get(x), int | float) for x in cls.__slots__):
            return cls()
        return cls(**{name: kept[name] for name in cls.__slots__})

    def left(self, limits: Limits) -> Limits | None:
        """Returns the remaining limits of the next position; None if one of them is reached."""
        return limits_after(limits, visits=self.visits, evaluations=self.evaluations, seconds=self.seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchTask(Searching):
    """A search of one position, or of several one after the other.

    Attributes:
      boards: the positions, each with the game before it.
      until: root N at which a position is done, whatever the limits: its existing visits count; None: the
        limits alone.
      limits: of each position. searchmoves: of all, in UCI; empty: all moves.
      reached: where an interruption left it.
    """

    boards: tuple[chess.Board, ...]
    until: int | None = None
    limits: Limits = field(default_factory=Limits)
    searchmoves: tuple[str, ...] = ()
    reached: Reached = field(default_factory=Reached)


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowTask(Searching):
    """A search of some roots in turn, until it is stopped; `Roots` replaces them."""

    roots: tuple[SearchJob, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildTask(Task):
    """A build of a book from the text of a BOOK.toml; `seconds` and `evaluations` end it."""

    text: str
    seconds: float | None = None
    evaluations: int | None = None
    ram_bytes: int | None = None
    threads: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportTask(Task):
    """An import of an uploaded file: `pgn`, `polyglot` or `epd`; `name` is the user's name for it.

    Attributes:
      again: even if it was imported before. players: of `pgn`, store the players.
    """

    form: str
    file: Path
    name: str
    again: bool = False
    players: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportTask(Task):
    """An export into a file that is then downloaded; `weights` of a Polyglot book."""

    form: str
    selection: Selection
    file: Path
    weights: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareTask(Task):
    """A comparison with another graph file, into a JSON file; `turned`: the other one is the newer."""

    other: Path
    file: Path
    turned: bool
    cp: int
    what: str
    top: int


READING = ExportTask | CompareTask  # tasks that write no graph file run beside one that does


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeTask(Task):
    """A merge of another graph file into the served one; `ram_bytes`: of the refresh of its values."""

    other: Path
    ram_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewTask(Task):
    """A review of the games of an uploaded file; `name` is the user's name for it.

    It writes `out` with the endings .json (for the page) and .pgn.
    """

    file: Path
    name: str
    out: Path
    visits: int
    choice: GameChoice = field(default_factory=GameChoice)
    evaluator: EvaluatorSpec = field(default_factory=EvaluatorSpec)
    params: SearchParams = field(default_factory=SearchParams)
    ram_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Stop:
    """A request to end the running task, and to save it."""


@dataclass(frozen=True, slots=True)
class Watch:
    """Watched positions, as FENs: a search shows them too, from its memory."""

    positions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Roots:
    """Other roots for a `FollowTask`."""

    roots: tuple[SearchJob, ...]


@dataclass(frozen=True, slots=True)
class TaskReport:
    """A report of the process: `running` now and then, finally `done`, or `failed` with an `error`."""

    state: str
    facts: dict[str, Any] = field(default_factory=dict)
    error: str = ""


SendProgress = Callable[[dict[str, Any]], None]


class Requests:
    """The server's requests to a task.

    Attributes:
      stop: set to end the task. turn: set to end the current search of a `FollowTask`.
      watched: FENs to report, too. roots: the new roots of a `FollowTask`; None: its own.
    """

    def __init__(self, pipe: Pipe) -> None:
        self.stop, self.turn = threading.Event(), threading.Event()
        self.watched: tuple[str, ...] = ()
        self.roots: tuple[SearchJob, ...] | None = None
        self._pipe = pipe
        self._questions: SimpleQueue[Question] = SimpleQueue()
        threading.Thread(target=self._listen, daemon=True).start()

    def answer(self, records: Callable[[], Records]) -> None:
        """Answers the open questions; only the thread of the search calls it."""
        while not self._questions.empty():
            self._pipe.send(answer_of(self._questions.get(), records()))

    def _listen(self) -> None:
        with contextlib.suppress(EOFError, OSError):
            while True:
                self._take(self._pipe.recv())
        self._end()

    def _take(self, message: object) -> None:
        if isinstance(message, Stop):
            self._end()
        elif isinstance(message, Watch):
            self.watched = message.positions
        elif isinstance(message, Question):
            self._questions.put(message)
        elif isinstance(message, Roots):
            self.roots = message.roots
            self.turn.set()

    def _end(self) -> None:
        self.stop.set()
        self.turn.set()


@contextlib.contextmanager
def ready(spec: EvaluatorSpec, send: SendProgress) -> Iterator[Evaluator]:
    """Compiles the kernels of an evaluator and of a search that saves; yields the evaluator.

    A task calls it before it opens the file: a stop can then end its process at once.
    """
    from ...search.warm import kernels_missing

    with contextlib.closing(create(spec)) as evaluator:
        if kernels_missing(evaluator, filed=True):
            from ...search.params import SearchParams
            from ...solvers.mate.beside import compile_search

            send({"stage": "compiling"})
            compile_search(evaluator, SearchParams(), filed=True, told=True)
            send({"stage": "starting"})
        yield evaluator
