"""A task of the page: a request that runs in a process of its own, and its work there.

The file keeps the request; a restarted server reads it again. Messages between the server and the process:

    server  -> Order, then Watch, Question, another task, STOP -> process
    server  <- TaskReport, LiveAnswer                          <- process
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import Field

from ...base.errors import InvalidParameterError
from ...base.limits import byte_count
from ...evaluators.factory import EvaluatorSpec, create, with_threads
from ...search.params import LEAST_RAM, SearchParams
from ..wanted import SPELLED, Name, Wanted, Words
from .live import LiveRecords, Question, answer_of

if TYPE_CHECKING:
    from ...evaluators.protocol import Evaluator
    from ...graph.view import Reader
    from ...workers.process import Pipe

MOST_OTHERS = 1000  # files in the list
STOP = "stop"  # ends the task, and saves it


@dataclass(frozen=True, slots=True)
class Place:
    """The served file, as tasks know it.

    Attributes:
      folder: for uploads and for files that tasks write. evaluators: the permitted ones by name.
      ram_bytes: most memory of a search, unless it asks for less; None: the default of searches.
      beside: other graph files, of any folder, that the page may compare with this one, or merge into it.
    """

    path: Path
    folder: Path
    evaluators: dict[str, EvaluatorSpec]
    ram_bytes: int | None = None
    beside: tuple[Path, ...] = ()

    def others(self) -> dict[str, Path]:
        """Returns the other graph files that a page may name: those of the folder, and those `beside`."""
        near: list[Path] = []
        with contextlib.suppress(OSError):  # a folder without permission to list it
            near = sorted(path for path in self.path.parent.iterdir() if path.suffix == self.path.suffix)
        graphs = (path for path in [*near, *self.beside] if path.is_file())
        found = (path for path in graphs if not path.samefile(self.path))
        return {path.name: path for path in islice(found, MOST_OTHERS)}

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
      word: names its kind in the file; up to a hyphen it is the kind for the page.
      reads_only: whether it writes no graph file, and so runs beside one that does.
      is_kept: whether a restarted server runs it again.
    """

    word: ClassVar[str]
    reads_only: ClassVar[bool] = False
    is_kept: ClassVar[bool] = True

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
        return ()


class Settings(Wanted):
    """Settings of a search: `params` as names with values, `ram` with its unit."""

    evaluator: Name | None = None
    threads: Annotated[int, Field(ge=1, le=100_000), SPELLED] | None = None
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


# ---------------------------------------------------------------- in the process
@dataclass(frozen=True, slots=True)
class Order:
    """The task of a process; `before`: its last report, if it was interrupted."""

    number: int
    task: Task
    place: Place
    before: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Watch:
    """Watched positions, as FENs: a search shows them too, from its memory."""

    positions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TaskReport:
    """A report of the process: `running` now and then, finally `done`, or `failed` with an `error`."""

    state: str
    facts: dict[str, Any] = field(default_factory=dict)
    error: str = ""


class Work:
    """The work on a task, and the server's messages to it.

    Attributes:
      order: of the process. task: the present one: the server may replace it (`FollowTask`).
      stop: set to end the task. turn: set to end its current search.
      watched: FENs to report, too.
    """

    def __init__(self, pipe: Pipe, order: Order) -> None:
        self.order, self.place, self.task = order, order.place, order.task
        self.stop, self.turn = threading.Event(), threading.Event()
        self.watched: tuple[str, ...] = ()
        self._pipe = pipe
        self._questions: SimpleQueue[Question] = SimpleQueue()
        threading.Thread(target=self._listen, daemon=True).start()

    def send(self, facts: dict[str, Any]) -> None:
        """Sends a report."""
        self._pipe.send(TaskReport("running", facts))

    def answer(self, read: Reader) -> None:
        """Answers the open questions from the memory of a search; only its thread calls it."""
        while not self._questions.empty():
            self._pipe.send(answer_of(self._questions.get(), LiveRecords(self.place.path, read)))

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
        handlers: dict[type, Callable[[Any], None]] = {Question: self._questions.put, Watch: self._watch}
        with contextlib.suppress(EOFError, OSError):
            while (message := self._pipe.recv()) != STOP:
                handlers.get(type(message), self._replace)(message)
        self.stop.set()
        self.turn.set()

    def _watch(self, watch: Watch) -> None:
        self.watched = watch.positions

    def _replace(self, task: Task) -> None:
        self.task = task
        self.turn.set()
