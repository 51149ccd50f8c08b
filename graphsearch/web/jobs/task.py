"""A task of the page: a request that runs in a process of its own, and its work there.

The file keeps the request; a restarted server reads it again. Messages between the server and the process:

    server  -> Order, then Question, another task, STOP -> process
    server  <- TaskReport, LiveAnswer                   <- process

A search answers questions from its memory, which has its current state; the file has that of the last save.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import chess
from pydantic import Field

from ...base.answer import Answer
from ...base.errors import GraphSearchError, InvalidParameterError, StoreLockedError
from ...base.limits import byte_count
from ...evaluators.factory import EvaluatorSpec, create, with_threads
from ...query.position import moves
from ...query.source import Records
from ...search.params import LEAST_RAM, SearchParams
from ..wanted import SPELLED, Name, Wanted, Words

if TYPE_CHECKING:
    from ...evaluators.protocol import Evaluator
    from ...graph.view import Reader
    from ...store.record import NodeRecord
    from ...workers.process import Pipe

STOP = "stop"  # ends the task, and saves it
PROGRESS_SECONDS = 0.4  # between two reports of a task with files
LOCK_SECONDS = 1.0  # between two attempts to lock the file
Threads = Annotated[int, Field(ge=1, le=100_000), SPELLED]


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
        """Returns the memory of a search that asks for some; None: the default.

        Raises:
          InvalidParameterError: if it is no size, or too small.
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
        """Returns its title for people.

        Raises:
          GraphSearchError: if it cannot be done.
        """
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
            raise InvalidParameterError(
                f"the page offers {known}; `graphsearch serve --evaluator` adds others"
            )
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
    """Returns the node of a position for the page, without its games and lines."""
    found = moves(records, board)
    return found.as_dict() | {"mate": found.node.mate}


# ---------------------------------------------------------------- in the process
class LiveRecords(Records):
    """Records in the memory of a search."""

    def __init__(self, path: Path, read: Reader) -> None:
        super().__init__(path)
        self._read = read

    def _stored(self, board: chess.Board, key: str) -> NodeRecord | None:
        return self._read(board)


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
            with contextlib.suppress(GraphSearchError):  # the file gives the reason
                found = json_of(question.ask(LiveRecords(self.place.path, read)))
            self._pipe.send(LiveAnswer(question.number, found))

    @contextlib.contextmanager
    def ready(self, spec: EvaluatorSpec) -> Iterator[Evaluator]:
        """Compiles the kernels of an evaluator and of a search that saves; yields the evaluator.

        A task calls it before it opens the file: a stop can then end its process at once.
        """
        from ...search.warm import kernels_missing

        self.send({"stage": "starting"})
        with contextlib.closing(create(spec)) as evaluator:
            if kernels_missing(evaluator, filed=True):
                from ...solvers.mate.beside import compile_search

                self.send({"stage": "compiling"})
                compile_search(evaluator, SearchParams(), filed=True, told=True)
                self.send({"stage": "starting"})
            yield evaluator

    def _listen(self) -> None:
        with contextlib.suppress(EOFError, OSError):
            while (message := self._pipe.recv()) != STOP:
                if isinstance(message, Question):
                    self._questions.put(message)
                else:
                    self.task = message
                    self.turn.set()
        self.stop.set()
        self.turn.set()
