"""The desk of several workers: processes that search tasks of one file at once."""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections import deque
from dataclasses import dataclass
from functools import partial

import chess

from ...arena import default_budget
from ...errors import EvaluatorError, GraphSearchError, InvalidParameterError, StoreError
from ...evaluators import EvaluatorSpec, create
from ...evaluators.factory import with_threads
from ...evaluators.pool import threads_per_worker
from ...evaluators.pool.worker import Failure, Make
from ...params import LEAST_RAM
from ...provenance import EvaluatorIdentity, differences
from ...record import NodeRecord, RecordBatch
from ...store import Store
from ..desk import Note, Outcome, Task
from . import leases
from .ledger import Ledger
from .leases import LEASE_SECONDS, Lease
from .messages import Errand, Finished, Leave, Ready, Stop
from .seats import ENDING_SECONDS, Seat
from .worker import Setup
from .writer import Writer

MOST_WORKERS = 256
MOST_LOST = 3  # workers in a row over one task, or at their start
TICK_SECONDS = 0.25  # between two looks at what hangs
SILENT_SECONDS = 60.0  # without a sign of life until a worker counts as hung
CLOSING_SECONDS = 60.0  # for the waves under way
COORDINATOR_SHARE = 8  # one part of so many of the memory is for what is shared out here
ADVICE = "what the processes wrote to stderr says more; a script needs `if __name__ == '__main__':`"


@dataclass(eq=False)
class _Assignment:
    """A task on its way, and what workers that had it have left: how many there were, what they paid for."""

    task: Task
    lost: int = 0
    paid: int = 0


@dataclass(eq=False)
class _Place:
    """A worker's number, whichever process has it.

    Attributes:
      seat: the process. is_ready: whether that has said that it has its evaluator.
      assignment: what it works on. paid: evaluations of the tasks that it has finished.
      lost_at_start: processes in a row that ended before they were ready.
      error: why nobody works here any more.
    """

    number: int
    seat: Seat | None = None
    is_ready: bool = False
    assignment: _Assignment | None = None
    paid: int = 0
    lost_at_start: int = 0
    error: GraphSearchError | None = None


class WorkerDesk:
    """Has tasks searched by several processes, and is the one writer of the file. See `desk.Desk`.

    Its methods are for one thread. Use it in a `with` statement, or close it.

    Attributes:
      notes: what the evaluator has to say to a person.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        spec: EvaluatorSpec | Make,
        workers: int,
        *,
        book: int,
        run: int,
        ram_bytes: int | None = None,
        timeout: float | None = None,
        silent: float = SILENT_SECONDS,
    ) -> None:
        """Starts the workers, waits until the first has its evaluator, and opens the file.

        Args:
          path: the graph file, which nobody else has open for writing; made if it is missing.
          spec: of the evaluator that each worker makes for itself; or a function of a module that makes it.
          workers: how many, at least 1.
          book: id of the book, for the table `book_lease`. run: row of the table `run`, which records carry.
          ram_bytes: most memory that all graphs may take together; default: 80 % of the machine's.
          timeout: seconds in which a worker must have evaluated some positions, else it counts as hung;
            None: 60 s or twenty times what they take, whichever is more, and ten minutes for its first ones.
          silent: seconds without a sign of life after which a worker counts as hung.

        Raises:
          InvalidParameterError: for a number of workers or bytes out of range, or an option of the evaluator.
          EvaluatorError: if the evaluator cannot be made, or no process started.
          EvaluatorMismatchError: if the file is bound to another evaluator.
          StoreError: if the file cannot be opened for writing.
        """
        self._book, self._run = book, run
        self._silent = silent
        self._setup = _setup(path, spec, workers, ram_bytes)
        self._ledger = Ledger(timeout=timeout)
        self._places = [_Place(number) for number in range(workers)]
        self._queue: deque[_Assignment] = deque()
        self._outcomes: deque[Outcome] = deque()
        self._changed = threading.Condition()
        self._error: StoreError | None = None
        self._identity: EvaluatorIdentity | None = None
        self._is_stopping = self._is_closed = False
        self._wanted, self._ended = threading.Event(), threading.Event()
        self._extended = time.monotonic()
        self.notes: tuple[str, ...] = ()
        atexit.register(self._kill)
        try:
            self._start_all()
            self._writer = Writer(Store.open(path, identity=self._first_identity(), create=True))
        except BaseException:
            self._is_closed = True
            self._kill()
            atexit.unregister(self._kill)
            raise
        self._note(leases.drop(book))
        self._keeper = threading.Thread(target=self._keep, name="graphsearch-keeper", daemon=True)
        self._keeper.start()

    def _start_all(self) -> None:
        with self._changed:
            for place in self._places:
                self._start(place)

    def _first_identity(self) -> EvaluatorIdentity:
        """Returns the identity of the evaluator that was made first."""
        with self._changed:
            while self._identity is None:
                self._check_workers()
                self._changed.wait()
            return self._identity

    # ---------------------------------------------------------- for the builder
    @property
    def capacity(self) -> int:
        """How many tasks it works on at once."""
        return max(1, sum(place.error is None for place in self._places))

    @property
    def open_tasks(self) -> int:
        """How many it has that have no outcome yet, or one that was not taken."""
        with self._changed:
            busy = sum(place.assignment is not None for place in self._places)
            return len(self._queue) + busy + len(self._outcomes)

    @property
    def evaluations(self) -> int:
        """Evaluations that all workers have paid for."""
        return self._ledger.published

    @property
    def dropped(self) -> int:
        """Records that lost against a version of the same position with more visits."""
        return self._writer.dropped

    @property
    def processes(self) -> list[int]:
        """The process of each worker that has one."""
        seats = [place.seat for place in self._places if place.seat is not None]
        return [seat.process.pid for seat in seats if seat.process.pid is not None]

    def submit(self, task: Task) -> None:
        """Takes a task; one whose position is being searched waits for that.

        Raises:
          StoreError: if the desk is closed.
        """
        with self._changed:
            if self._is_closed or self._is_stopping:
                raise StoreError(f"{self._setup.path}: its workers have been stopped")
            self._queue.append(_Assignment(task))
            self._hand_out()

    def finished(self, timeout: float) -> list[Outcome]:
        """Returns outcomes, waiting up to `timeout` seconds for the first; what they found can be read then.

        It does not wait if there are no tasks.

        Raises:
          StoreError: if the file cannot be written, once; what it has not is kept, and tried again.
          GraphSearchError: if no worker is left.
        """
        end = time.monotonic() + timeout
        with self._changed:
            while True:
                self._raise_store_error()
                if self._outcomes or not self.open_tasks:
                    break
                self._check_workers()
                left = end - time.monotonic()
                if left <= 0:
                    break
                self._changed.wait(left)
            found = list(self._outcomes)
            self._outcomes.clear()
            return found

    def read(self, board: chess.Board) -> NodeRecord | None:
        """Returns the record of a position as it is in the file, None if the graph does not know it."""
        return self._writer.read(board)

    def note(self, note: Note) -> None:
        """Has something written to the file with what is saved next, after the records of outcomes so far."""
        self._writer.note(note)

    def save(self, *, wait: bool) -> None:
        """Saves what is not in the file; with `wait` it is there on return.

        Outcomes are in the file already when they come; this is for notes.

        Raises:
          StoreError: if it cannot be written.
        """
        if wait:
            self._writer.commit()
        else:
            self._wanted.set()

    def call(self, work: Note) -> None:
        """Has something done with the file at once, in a transaction of its own, and waits for it."""
        self._writer.call(work)

    def stop(self) -> None:
        """Has the searches end after the wave they are at; tasks that no worker has yet are dropped.

        Their outcomes come by `finished`, until `open_tasks` is 0.
        """
        with self._changed:
            self._is_stopping = True
            self._queue.clear()
            for place in self._places:
                if place.seat is not None:
                    place.seat.send(Stop())
            self._changed.notify_all()

    def close(self) -> None:
        """Stops what is running, saves what it found, and closes the file. A second call does nothing.

        An exception meanwhile, such as a KeyboardInterrupt, ends the workers at once.

        Raises:
          StoreError: if what is left cannot be written.
        """
        with self._changed:
            if self._is_closed:
                return
            self._is_closed = True
            self._queue.clear()
            for place in self._places:
                self._dismiss(place)
        try:
            self._wait_for_all(CLOSING_SECONDS)
        finally:
            self._kill()
            self._wait_for_all(ENDING_SECONDS)
            self._end()

    def __enter__(self) -> WorkerDesk:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # ---------------------------------------------------------- ending
    def _dismiss(self, place: _Place) -> None:
        """Lets a worker go; one that is not ready yet has nothing to save."""
        if place.seat is not None and place.is_ready:
            place.seat.send(Leave())
        elif place.seat is not None:
            place.seat.kill()

    def _wait_for_all(self, seconds: float) -> None:
        """Waits until all processes have ended and what they sent is taken in."""
        end = time.monotonic() + seconds
        with self._changed:
            while any(place.seat is not None for place in self._places):
                left = end - time.monotonic()
                if left <= 0:
                    return
                self._changed.wait(left)

    def _kill(self) -> None:
        for place in self._places:
            if place.seat is not None:
                place.seat.kill()

    def _end(self) -> None:
        """Writes what is left, and closes the file."""
        atexit.unregister(self._kill)
        self._ended.set()
        self._wanted.set()
        self._keeper.join()
        try:
            self._writer.note(leases.drop(self._book))
            self._writer.commit()
        finally:
            self._writer.close()

    # ---------------------------------------------------------- what workers say
    def heard(self, seat: Seat, message: object) -> None:
        """Takes in what a worker says of its tasks."""
        with self._changed:
            place = self._places[seat.number]
            if isinstance(message, Ready):
                self._greet(place, message)
            elif isinstance(message, Failure):
                place.error = message.as_error(placed=False)
            elif isinstance(message, Finished):
                self._finish(place, message)
            else:
                return
            self._hand_out()
            self._changed.notify_all()

    def _greet(self, place: _Place, ready: Ready) -> None:
        identity = EvaluatorIdentity.from_json(ready.identity)
        if self._identity is None:
            self._identity, self.notes = identity, ready.notes
        if identity.as_json() != self._identity.as_json():
            place.error = EvaluatorError(
                f"the workers' evaluators differ: {differences(self._identity, identity)}; did a file change?"
            )
            self._dismiss(place)
            return
        place.is_ready, place.lost_at_start = True, 0

    def _finish(self, place: _Place, message: Finished) -> None:
        """Makes an outcome of what a worker has done."""
        assignment = self._take_back(place)
        if assignment is None:
            return
        place.paid += message.evaluations
        paid = assignment.paid + message.evaluations
        self._outcomes.append(Outcome(assignment.task, message.visits, paid, message.error))

    def _take_back(self, place: _Place) -> _Assignment | None:
        """Returns what a worker had, which it has no more."""
        assignment, place.assignment = place.assignment, None
        if assignment is not None:
            assert place.seat is not None
            self._ledger.ends(place.seat.holder)
            self._note(leases.drop(self._book, assignment.task.key))
        return assignment

    def commit(self, seat: Seat, batches: list[RecordBatch]) -> int:
        """Commits what a worker has found."""
        try:
            self._writer.commit(batches)
        except StoreError as error:
            self._fail(error)
            raise
        return self._writer.log_held

    def lost(self, seat: Seat, how: str) -> None:
        """Replaces a worker that has ended, and has its task done by another one."""
        with self._changed:
            place = self._places[seat.number]
            assignment = self._take_back(place)
            was_ready, place.is_ready, place.seat = place.is_ready, False, None
            paid, place.paid = seat.holder.paid - place.paid, 0
            if assignment is not None:
                self._give_again(assignment, paid, how)
            if not was_ready:
                self._lost_at_start(place, how)
            if not self._is_closed and place.error is None:
                self._start(place)
            self._hand_out()
            self._changed.notify_all()

    def _give_again(self, assignment: _Assignment, paid: int, how: str) -> None:
        assignment.lost += 1
        assignment.paid += paid
        if self._is_closed or self._is_stopping:
            self._outcomes.append(Outcome(assignment.task, 0, assignment.paid, how))
        elif assignment.lost >= MOST_LOST:
            error = f"{MOST_LOST} workers in a row ended over {assignment.task.fen}: {how}"
            self._outcomes.append(Outcome(assignment.task, 0, assignment.paid, error))
        else:
            self._queue.appendleft(assignment)

    def _lost_at_start(self, place: _Place, how: str) -> None:
        place.lost_at_start += 1
        if place.lost_at_start >= MOST_LOST and place.error is None:
            place.error = EvaluatorError(
                f"{MOST_LOST} workers in a row ended as they started: {how}; {ADVICE}"
            )

    # ---------------------------------------------------------- handing out
    def _start(self, place: _Place) -> None:
        try:
            place.seat = Seat.started(place.number, self._setup, self, self._ledger)
        except EvaluatorError as error:
            place.error = error

    def _hand_out(self) -> None:
        """Gives tasks to idle workers; none whose position another one searches."""
        for place in self._places:
            if not place.is_ready or place.assignment is not None or self._is_closed or self._is_stopping:
                continue
            assignment = self._next()
            if assignment is None:
                return
            seat = place.seat
            assert seat is not None
            place.assignment = assignment
            self._note(leases.take(self._book, self._lease(place)))
            seat.send(Errand(assignment.task, self._run, self._ledger.begins(seat.holder)))

    def _next(self) -> _Assignment | None:
        busy = {place.assignment.task.key for place in self._places if place.assignment is not None}
        for assignment in self._queue:
            if assignment.task.key not in busy:
                self._queue.remove(assignment)
                return assignment
        return None

    def _lease(self, place: _Place) -> Lease:
        assert place.seat is not None
        assert place.assignment is not None
        return Lease(place.assignment.task.key, place.number, place.seat.process.pid or 0)

    def _note(self, note: Note) -> None:
        self._writer.note(note)
        self._wanted.set()

    # ---------------------------------------------------------- what goes wrong
    def _fail(self, error: StoreError) -> None:
        with self._changed:
            self._error = error
            self._changed.notify_all()

    def _raise_store_error(self) -> None:
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _check_workers(self) -> None:
        """Raises what ended all workers."""
        errors = [place.error for place in self._places]
        if all(errors):
            assert errors[0] is not None
            raise errors[0]

    # ---------------------------------------------------------- the keeper's thread
    def _keep(self) -> None:
        """Ends what hangs, extends leases, and saves what waits for that."""
        while not self._ended.is_set():
            is_wanted = self._wanted.wait(TICK_SECONDS)
            self._wanted.clear()
            self._kill_what_hangs()
            try:
                self._writer.check()
                self._extend()
                if is_wanted and not self._ended.is_set():
                    self._writer.commit()
            except StoreError as error:
                self._fail(error)

    def _kill_what_hangs(self) -> None:
        hung = self._ledger.hung()
        now = time.monotonic()
        with self._changed:
            for place in self._places:
                seat = place.seat
                if seat is not None and (seat.holder in hung or now - seat.last_heard > self._silent):
                    seat.kill()

    def _extend(self) -> None:
        if time.monotonic() - self._extended < LEASE_SECONDS / 3:
            return
        self._extended = time.monotonic()
        with self._changed:
            held = [self._lease(place) for place in self._places if place.assignment is not None]
        self._note(leases.extend(self._book, held))


def _setup(
    path: str | os.PathLike[str], spec: EvaluatorSpec | Make, workers: int, ram_bytes: int | None
) -> Setup:
    """Returns what each worker is made from.

    Raises:
      InvalidParameterError: for numbers out of range, or an option that the evaluator does not have.
    """
    if not 1 <= workers <= MOST_WORKERS:
        raise InvalidParameterError(f"workers must be from 1 to {MOST_WORKERS}, not {workers}")
    every = default_budget() if ram_bytes is None else ram_bytes
    share = every * (COORDINATOR_SHARE - 1) // COORDINATOR_SHARE // workers
    if share < LEAST_RAM:
        least = -(-LEAST_RAM * workers * COORDINATOR_SHARE // (COORDINATOR_SHARE - 1))
        raise InvalidParameterError(
            f"{workers} workers need {-(-least // 10**6)} MB of memory at least, not {every // 10**6}"
        )
    threads = threads_per_worker(workers)
    make = partial(create, with_threads(spec, threads)) if isinstance(spec, EvaluatorSpec) else spec
    return Setup(os.path.realpath(os.fspath(path)), make, share, threads)
