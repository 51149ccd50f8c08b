"""Runs queued tasks in other processes: at any time one that writes the file, and one that only reads.

Waiting tasks continue when every page is closed, until they are stopped. The file keeps the queue
(`KeptQueue`): tasks left by an ended server wait, held, until the user releases the queue.

One process starts before there is a task for it, so that the next task begins at once: a process needs half a
second to be ready. It does not fork a prepared process: threads, open files and some libraries do not survive
a fork.
"""

from __future__ import annotations

import itertools
import json
import os
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from sqlite3 import Connection
from typing import TYPE_CHECKING, Any

from ..base.answer import picked
from ..base.errors import GraphSearchError, InvalidParameterError, StoreError, UnsavedError
from ..base.faults import error_line
from ..base.system import end_at_once
from ..evaluators.factory import EvaluatorSpec
from ..query.source import KeptFile, mark_of
from ..store.file import changing, holder, lock_of, opened_to_read, release
from ..store.provenance import now
from ..store.tables.rows import json_object
from ..store.tables.studies import TaskRow, all_tasks, drop_task, forget_edits, put_task
from ..workers.process import Child
from . import tasks

if TYPE_CHECKING:
    from ..workers.process import Pipe


KEPT_TASKS = (tasks.SearchTask, tasks.BuildTask, tasks.ImportTask, tasks.ExportTask, tasks.ReviewTask)
KINDS: dict[str, type[tasks.Task]] = {kind.word: kind for kind in KEPT_TASKS}
KEPT = 30  # ended tasks in the list
MOST_WAITING = 1000
WAITING, RUNNING, DONE, FAILED, STOPPED = "waiting", "running", "done", "failed", "stopped"
INTERRUPTED = "interrupted"  # by the end of the server; the task waits for a new start
ENDED = (DONE, FAILED, STOPPED)
BEFORE_WRITING = ("starting", "compiling", "waiting")  # stages in which a process may be killed
ANSWERING = ("searching", "resting")  # stages in which a search answers questions
ENDING = "-queue"  # of the name of the folder beside the file
LOCK = "lock"  # a file in it
READ_ONLY = "the file is served for reading only, so the queue is lost when graphsearch serve ends"
TAKEN = "another graphsearch serve saves the queue of this file; this queue is lost when this one ends"
ANSWER_SECONDS = 0.5  # timeout of an answer; then the file answers
CLOSE_SECONDS = 30.0  # for the last changes of the queue
FLUSH_SECONDS = 2.0  # time limit of saving a task before its request is answered
DEAF_SECONDS = 1.0  # without questions after a timeout: the search is saving or reading


@dataclass(slots=True, eq=False)
class QueuedTask:
    """A queued, running or ended task.

    Attributes:
      task: None if its request in the file cannot be done any more. kind: of the task, in a word.
      state: `waiting`, `running`, `done`, `failed`, `stopped` or `interrupted`.
      stopping: whether the task has been asked to end.
      facts: the latest report of its process. error: why it failed.
      before: seconds that it ran under a server that has ended.
    """

    number: int
    task: tasks.Task | None
    kind: str
    title: str
    state: str = WAITING
    stopping: bool = False
    facts: dict[str, Any] = field(default_factory=dict)
    error: str = ""
    began: float = 0.0
    ended: float = 0.0
    before: float = 0.0
    added: str = field(default_factory=now)
    child: Child | None = None

    @classmethod
    def of_row(cls, row: TaskRow, place: tasks.Place) -> QueuedTask:
        """Returns the task of a row of the file, or a failed one with the reason."""
        facts = json_object(row.facts) or {}
        state = INTERRUPTED if row.state == RUNNING else row.state
        found = cls(row.id, None, row.kind, row.title, state, facts=facts, error=row.note or "")
        found.before, found.added = row.seconds, row.added
        try:
            task = _task_of(json_object(row.request) or {})
            found.title = task.title(place)
            if state in ENDED and not all((place.folder / name).exists() for name in task.written(row.id)):
                facts["missing"] = True  # in a copy of the graph file, without the folder of its queue
            if task.upload and state not in ENDED and not (place.folder / task.upload).exists():
                raise InvalidParameterError("the uploaded file is gone")
            found.task = task
        except GraphSearchError as problem:
            if state not in ENDED:
                found.state, found.error = FAILED, f"it was interrupted and cannot continue: {problem}"
        return found

    @property
    def lane(self) -> bool:
        """Whether it only reads: one task that reads runs beside one that writes."""
        return self.task is not None and self.task.reads_only

    @property
    def waits(self) -> bool:
        """Whether it was queued: a search that follows the board waits for its end."""
        return self.task is not None and self.task.waits

    @property
    def seconds(self) -> float:
        """The seconds that the task has run."""
        last = self.ended or time.monotonic()
        return round(self.before + (last - self.began if self.began else 0.0), 1)

    def as_dict(self) -> dict[str, Any]:
        """Returns the JSON object for the page."""
        return picked(self, "number kind title state stopping waits seconds facts error")

    def row(self) -> TaskRow:
        """Returns the task's row in the file."""
        request: dict[str, object] = {}
        if self.task is not None and self.task.is_kept:
            wanted = self.task.model_dump(mode="json", exclude_defaults=True)
            request = {"name": self.task.word, "wanted": wanted}
        texts = (json.dumps(request), json.dumps(self.facts))
        head = (self.number, self.kind, self.title, self.state)
        return TaskRow(*head, *texts, self.error or None, self.seconds, self.added, now())

    def files(self) -> set[str]:
        """Returns the names of the files that the task still needs, or has written."""
        if self.task is None:
            return set()
        needed = {self.task.upload} - {""} if self.state not in ENDED else set()
        return needed.union(self.task.written(self.number))


def _task_of(request: dict[str, object]) -> tasks.Task:
    """Returns the task of a request that the file keeps; raises InvalidParameterError if it is no such."""
    name, wanted = request.get("name"), request.get("wanted")
    if not isinstance(name, str) or name not in KINDS or not isinstance(wanted, dict):
        raise InvalidParameterError("a task of this kind is not repeated")
    return tasks.read_request(KINDS[name], wanted)


# ---------------------------------------------------------------- the queue in the file
class KeptQueue:
    """The table `task` of a file, and a folder for uploads and for what tasks write.

    A thread writes the changes, so that searches do not wait for them. Only one server keeps the queue of a
    file; another one has its queue in memory, and a temporary folder.

    Attributes:
      problem: why the queue is in memory only; empty if the file keeps it.
      folder: FILE-queue beside the file if that keeps the queue.
    """

    def __init__(self, path: Path, *, read_only: bool) -> None:
        """Prepares the queue of a file; `begin` locks it, and makes the folder."""
        self.problem = READ_ONLY if read_only else ""
        self.folder = path.with_name(path.name + ENDING)
        self._path = path
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._writer = ThreadPoolExecutor(1, "graphsearch-queue")
        self._lock: int | None = None

    def begin(self) -> None:
        """Locks the queue of the file and starts to save it, unless another server has it.

        Edits of earlier sessions cannot be undone any more.
        """
        if not self.problem and not os.access(self._path, os.W_OK):
            self.problem = READ_ONLY
        if not self.problem:
            try:
                self.folder.mkdir(mode=0o700, exist_ok=True)
                self._lock = lock_of(self.folder / LOCK)
                self.problem = "" if self._lock is not None else TAKEN
            except OSError as error:
                self.problem = f"the queue cannot be saved: {self.folder}: {error.strerror or error}"
        if self._lock is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="graphsearch-")
            self.folder = Path(self._temporary.name)
            return
        with suppress(StoreError), changing(self._path) as connection:
            forget_edits(connection)

    def rows(self) -> list[TaskRow]:
        """Returns the tasks that the file keeps; none if it cannot be read."""
        if self._lock is None:
            return []
        try:
            with opened_to_read(self._path) as connection:
                return all_tasks(connection)
        except StoreError as error:
            self.problem = str(error)
            return []

    def change(self, change: Callable[[Connection], None]) -> None:
        """Queues a change of the table."""
        if self._lock is not None:
            self._writer.submit(self._write, change)

    def _write(self, change: Callable[[Connection], None]) -> None:
        try:
            with changing(self._path) as connection:
                change(connection)
            self.problem = ""
        except (GraphSearchError, OSError) as error:
            self.problem = f"the queue cannot be saved in the file: {error}"

    def flush(self, seconds: float) -> None:
        """Waits at most `seconds` until the file has all changes."""
        if self._lock is not None:
            with suppress(TimeoutError):
                self._writer.submit(lambda: None).result(seconds)

    def close(self, wanted: set[Path], seconds: float) -> None:
        """Writes the remaining changes, removes the files that no task needs, and unlocks the queue."""
        if self._temporary is not None:
            self._temporary.cleanup()
        if self._lock is None:
            return
        self.flush(seconds)
        self._writer.shutdown(wait=False, cancel_futures=True)
        self.tidy(wanted)
        release(self._lock)
        self._lock = None
        with suppress(OSError):
            if not wanted:
                (self.folder / LOCK).unlink()
            self.folder.rmdir()

    def tidy(self, wanted: set[Path]) -> None:
        """Removes the files that no task needs."""
        with suppress(OSError):
            for path in self.folder.iterdir() if self._lock is not None else ():
                if path not in wanted and path.name != LOCK and path.is_file():
                    path.unlink()


# ---------------------------------------------------------------- processes
class OpenQuestions:
    """The server's questions that a search has not answered yet; thread-safe."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._open: dict[int, Future[dict[str, Any] | None]] = {}
        self._deaf_until = 0.0

    def ask(self, send: Callable[[tasks.Question], None], ask: tasks.Ask) -> dict[str, Any] | None:
        """Sends a question; returns its answer, None if there is none within `ANSWER_SECONDS`."""
        if time.monotonic() < self._deaf_until:
            return None
        number, waiting = next(self._numbers), Future[dict[str, Any] | None]()
        self._open[number] = waiting
        try:
            send(tasks.Question(number, ask))
            return waiting.result(ANSWER_SECONDS)
        except TimeoutError:
            self._deaf_until = time.monotonic() + DEAF_SECONDS
            return None
        except CancelledError:
            return None
        finally:
            self._open.pop(number, None)

    def settle(self, answer: tasks.LiveAnswer) -> None:
        """Passes an answer to the thread that asked."""
        waiting = self._open.get(answer.number)
        if waiting is not None and waiting.set_running_or_notify_cancel():
            waiting.set_result(answer.found)

    def cancel(self) -> None:
        """Cancels the open questions: their search has ended."""
        self._deaf_until = 0.0
        for waiting in list(self._open.values()):
            waiting.cancel()


def work(pipe: Pipe) -> None:
    """Runs the first task of a pipe, and receives the server's messages meanwhile.

    Until then it imports what a search needs. It ends without the cleaning up of an interpreter, which would
    keep the next task waiting for half a second.
    """
    from ..solvers.mate import beside as _  # noqa: F401

    try:
        order: tasks.Order = pipe.recv()
    except EOFError:  # the server has ended, and this process was in reserve
        return
    work = tasks.Work(pipe, order)
    try:
        pipe.send(tasks.TaskReport("done", work.run()))
    except UnsavedError as error:
        pipe.send(tasks.TaskReport("failed", error=f"the results could not be saved: {error}"))
    except GraphSearchError as error:
        pipe.send(tasks.TaskReport("failed", error=" ".join(getattr(error, "problems", [str(error)]))))
    except Exception as error:
        pipe.send(tasks.TaskReport("failed", error=error_line(error, order.task.word)))
    end_at_once()


class _Process:
    """A process of the queue; without a job it is in reserve."""

    def __init__(self, queue: TaskQueue) -> None:
        """Starts it; raises EvaluatorError if that fails."""
        self.job: QueuedTask | None = None
        self.child = Child(work, partial(queue.hear, self), queue.questions.cancel, partial(queue.lose, self))


class TaskQueue:
    """Starts tasks in processes; its methods are thread-safe.

    Attributes:
      version: grows with every change, so that a reader detects changes.
      kept: the queue in the file. questions: to the running search.
      reserve: the process of the next task, if one waits.
    """

    def __init__(self, kept: KeptQueue, place: Callable[[], tasks.Place]) -> None:
        """Makes an empty queue that `kept` saves; `place` returns the served file."""
        self.version = 0
        self.kept, self._place = kept, place
        self._changed = threading.Condition()
        self._numbers = itertools.count(1)
        self._waiting: deque[QueuedTask] = deque()
        self._running: dict[bool, QueuedTask] = {}  # whether it only reads -> the job
        self._ended: deque[QueuedTask] = deque(maxlen=KEPT)
        self.questions = OpenQuestions()
        self.reserve: _Process | None = None
        self._held = self._closed = False

    # ---------------------------------------------------------------- for requests
    def prepare(self) -> None:
        """Starts the process of the next task in advance; `close` must follow."""
        with self._changed, suppress(GraphSearchError):  # a failure is left for the task to report
            if not self._closed and self.reserve is None:
                self.reserve = _Process(self)

    def restore(self) -> None:
        """Adds the tasks of an ended server; unfinished ones wait until the queue is released."""
        self.kept.begin()
        rows = self.kept.rows()
        ended = [row for row in rows if row.state in ENDED][-KEPT:]
        others = [row for row in rows if row.state not in ENDED][:MOST_WAITING]
        if rows:
            place = self._place()
            jobs = [
                QueuedTask.of_row(row, place) for row in sorted([*ended, *others], key=lambda row: row.id)
            ]
            with self._changed:
                self._numbers = itertools.count(jobs[-1].number + 1)
                self._ended.extend(job for job in jobs if job.state in ENDED)
                self._waiting.extend(job for job in jobs if job.state not in ENDED)
                self._held = bool(self._waiting)
                self._news()
        self.kept.tidy(self.files())

    def add(self, task: tasks.Task) -> QueuedTask:
        """Queues a task, which starts as soon as nothing else is running; returns it once the file has it.

        Raises GraphSearchError if it cannot be done, the queue is full, or it cannot wait and has to.
        """
        title = task.title(self._place())
        with self._changed:
            at_once = not task.waits
            if at_once and task.reads_only in self._running:
                raise InvalidParameterError(
                    f"“{self._running[task.reads_only].title}” is running; stop it first, or add this to the"
                    " queue"
                )
            if len(self._waiting) >= MOST_WAITING:
                raise InvalidParameterError(f"at most {MOST_WAITING:,} tasks may wait")
            job = self._queued(task, title, first=at_once)
            self._held = self._held and not at_once
            self._deal()
        self.kept.flush(FLUSH_SECONDS)
        return job

    def _queued(self, task: tasks.Task, title: str, *, first: bool) -> QueuedTask:
        job = QueuedTask(next(self._numbers), task, task.word, title)
        self._keep(job)
        (self._waiting.appendleft if first else self._waiting.append)(job)
        return job

    def follow(self, task: tasks.FollowTask) -> QueuedTask:
        """Searches another position from now on; returns the task, or raises GraphSearchError.

        It ends a search that was started at once, and waits for anything else that is running.
        """
        title = task.title(self._place())
        with self._changed:
            job = self._running.get(False)
            if job and job.child and isinstance(job.task, tasks.FollowTask) and not job.stopping:
                job.task, job.title = task, title
                job.child.send(task)
                return job
            waiting = next((one for one in self._waiting if isinstance(one.task, tasks.FollowTask)), None)
            if waiting is not None:
                waiting.task, waiting.title = task, title
                return waiting
            self._held = False
            found = self._queued(task, title, first=True)
            if job is not None and not job.stopping and not job.waits:
                self._end_soon(job)
            self._deal()
            return found

    def stop(self, number: int, *, hold: bool = False) -> None:
        """Ends and saves a job, or removes it if it waits; raises as `job`. `hold`: what waits is held."""
        with self._changed:
            job = self.job(number)
            self._held = self._held or (hold and bool(self._waiting))
            if job in self._waiting:
                self._waiting.remove(job)
                self._forget(job)
            elif job in self._running.values() and not job.stopping:
                self._end_soon(job)
            self._news()

    def hold(self, held: bool) -> None:
        """Holds the queue, or releases it."""
        with self._changed:
            self._held = held
            self._deal()

    def clear(self, *, ended: bool) -> None:
        """Removes all waiting tasks, or the ended ones from the list."""
        with self._changed:
            jobs = self._ended if ended else self._waiting
            for job in jobs:
                self._forget(job)
            jobs.clear()
            self._news()

    def ask(self, ask: tasks.Ask) -> dict[str, Any] | None:
        """Returns the answer of a running search from its memory; None without a search or an answer.

        One that is being stopped is not asked: it would be saved later.
        """
        with self._changed:
            job = self._running.get(False)
            if job is None or job.child is None or job.stopping or job.facts.get("stage") not in ANSWERING:
                return None
            send = job.child.send
        return self.questions.ask(send, ask)

    def job(self, number: int) -> QueuedTask:
        """Returns a job by its number; raises InvalidParameterError if there is none."""
        with self._changed:
            for job in (*self._running.values(), *self._waiting, *self._ended):
                if job.number == number:
                    return job
        raise InvalidParameterError(f"there is no task {number}")

    def as_dict(self) -> dict[str, Any]:
        """Returns all jobs for the page."""
        with self._changed:
            return {
                "held": self._held,
                "memory_only": self.kept.problem,
                "running": [job.as_dict() for job in self._running.values()],
                "waiting": [job.as_dict() for job in self._waiting],
                "ended": [job.as_dict() for job in reversed(self._ended)],
            }

    @property
    def writer(self) -> int | None:
        """The pid of the queue's process that may be writing the file; None if there is none."""
        job = self._running.get(False)
        return job.child.pid if job and job.child else None

    def close(self, seconds: float = 600.0) -> None:
        """Ends the running tasks; returns when they are saved, or after `seconds`; removes unneeded files."""
        with self._changed:
            self._closed = True
            if self.reserve is not None:
                self.reserve.child.kill()
            for job in self._running.values():
                self._end_soon(job)
            self._changed.wait_for(lambda: not self._running, seconds)
        self.kept.close(self.files(), CLOSE_SECONDS)

    def files(self) -> set[Path]:
        """Returns the files that waiting and ended tasks still need."""
        with self._changed:
            names = {name for job in (*self._waiting, *self._ended) for name in job.files()}
        folder = self._place().folder if names else Path()
        return {folder / name for name in names}

    # ---------------------------------------------------------------- inside; the lock is held
    def _deal(self) -> None:
        """Starts the waiting tasks that can run."""
        for job in list(self._waiting):
            if job.lane not in self._running and not self._closed and (job.lane or not self._held):
                self._waiting.remove(job)
                self._start(job)
        self._news()

    def _start(self, job: QueuedTask) -> None:
        assert job.task is not None
        self._running[job.lane] = job
        job.state, job.began = RUNNING, time.monotonic()
        self._keep(job)
        try:
            process, self.reserve = self.reserve or _Process(self), None
        except GraphSearchError as error:
            job.state, job.error = FAILED, str(error)
            self._end(job)
            return
        process.job, job.child = job, process.child
        job.child.send(tasks.Order(job.number, job.task, self._place(), job.facts))

    @staticmethod
    def _end_soon(job: QueuedTask) -> None:
        """Ends a job: a process that may be writing saves first, others are killed at once."""
        job.stopping = True
        if job.child:
            job.child.send(tasks.STOP)
            if job.lane or job.facts.get("stage", "starting") in BEFORE_WRITING:
                job.child.kill()

    def _end(self, job: QueuedTask) -> None:
        job.ended = time.monotonic()
        job.child, job.stopping = None, False
        job.facts.pop("node", None)
        if self._closed and job.state == STOPPED and job.task and job.task.is_kept:
            job.state = INTERRUPTED  # by the end of the server
            self._waiting.appendleft(job)
        else:
            self._remove({job.task.upload} if job.task else set())
            if len(self._ended) == KEPT:
                self._forget(self._ended.popleft())
            self._ended.append(job)
        self._running.pop(job.lane, None)
        self._keep(job)

    def _keep(self, job: QueuedTask) -> None:
        self.kept.change(partial(put_task, task=job.row()))

    def _forget(self, job: QueuedTask) -> None:
        self._remove(job.files())
        self.kept.change(partial(drop_task, number=job.number))

    def _remove(self, names: set[str]) -> None:
        for name in names - {""}:
            (self._place().folder / name).unlink(missing_ok=True)

    def _news(self) -> None:
        self.version += 1
        self._changed.notify_all()

    # ---------------------------------------------------------------- threads of the processes
    def hear(self, process: _Process, told: tasks.TaskReport | tasks.LiveAnswer) -> None:
        """Handles a message of a process; one in reserve sends none."""
        if isinstance(told, tasks.LiveAnswer):
            self.questions.settle(told)
            return
        with self._changed:
            if (job := process.job) is None:
                return
            if told.state == RUNNING:
                job.facts = told.facts
                if "counters" in told.facts:  # it needs no more starting
                    self.prepare()
            else:
                job.state, job.error = told.state, told.error
                job.facts = {**told.facts} or job.facts
            self._news()

    def lose(self, process: _Process, how: str) -> None:
        """Ends the task of a process that has ended, and starts the next one."""
        with self._changed:
            if self.reserve is process:
                self.reserve = None
            if (job := process.job) is None:
                return
            if job.state == RUNNING:
                job.state = STOPPED if job.stopping else FAILED
                job.error = "" if job.stopping else f"{how}; everything saved before is in the file"
            elif job.state == DONE and job.stopping:
                job.state = STOPPED
            self._end(job)
            self._deal()
            self.prepare()


@dataclass(slots=True)
class ServedFile:
    """One served graph file.

    Attributes:
      path: of the file. read_only: whether to refuse searches, builds and imports.
      evaluators: the permitted ones by name: a page may not name programs or files.
      ram_bytes: most memory of a search, unless it asks for less; None: the default of searches.
      file: the same, open between questions.
    """

    path: Path
    read_only: bool = False
    evaluators: dict[str, EvaluatorSpec] = field(default_factory=lambda: offered())
    ram_bytes: int | None = None
    queue: TaskQueue = field(init=False)
    file: KeptFile = field(init=False)

    def __post_init__(self) -> None:
        self.file = KeptFile(self.path)
        self.queue = TaskQueue(KeptQueue(self.path, read_only=self.read_only), lambda: self.place)

    @property
    def place(self) -> tasks.Place:
        """The file, as tasks know it, with the folder for uploads and exports."""
        return tasks.Place(self.path, self.queue.kept.folder, self.evaluators, self.ram_bytes)

    def add(self, task: tasks.Task) -> dict[str, Any]:
        """Queues a task, and returns it for the page; `TaskQueue.add` has the errors."""
        return self.queue.add(task).as_dict()

    def answer(self, ask: tasks.Ask) -> dict[str, Any]:
        """Returns the answer of a running search from its memory, else that of the file."""
        found = self.queue.ask(ask)
        if found is not None:
            return found
        with self.file.opened() as source:
            return tasks.json_of(ask(source))

    def may_write(self) -> None:
        """Raises InvalidParameterError if the file is served for reading only, and closes it for the writer.

        The last to close a file empties its log.
        """
        if self.read_only:
            raise InvalidParameterError("this page is read-only: it was started with --read-only")
        self.file.close()

    def stamp(self) -> str:
        """Returns a text that changes when the file does; a reader's empty WAL does not change it."""
        return str([mark_of(path) for path in (self.path, Path(f"{self.path}-wal"))])

    def holder(self) -> dict[str, Any] | None:
        """Returns the file's writer, None if there is none: `pid`, `since`, whether it is `ours`."""
        found = holder(self.path)
        return found and found | {"ours": found["pid"] == self.queue.writer}


def offered(names: Sequence[str] = ()) -> dict[str, EvaluatorSpec]:
    """Returns the evaluators for a page: the given ones first, then the built-in ones without files."""
    return {name: EvaluatorSpec(evaluator=name) for name in (*names, "builtin", "uniform")}
