"""Parts of a batch to whichever worker is free, and their answers in order; lost parts go to another worker.

Local processes and Ray's actors differ in how a worker is started, asked and waited for (`Crew`); who does
what, how often and how long is decided here, for both.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ...errors import EvaluatorError
from ...position.board import unpack
from ..protocol import Evaluation, PositionBatch
from .pace import Pace
from .worker import Answer, Failure, Greeting

MOST_LOST = 3  # workers in a row over one part, or at their start
CLOSING_SECONDS = 10.0  # for a batch under way to fail


class WorkerLostError(Exception):
    """A worker that ended, or could not be reached, before it answered; the text says how."""


class Crew(Protocol):
    """Some workers, by number. Every call that starts something returns a reply to wait for."""

    size: int
    patience: float  # seconds for the first worker to start
    advice: str  # what to do if none does
    is_far: bool  # whether a message has to say on which machine something failed

    def greet(self, number: int) -> Hashable:
        """Starts a worker, again if it was lost; the reply is a `Greeting` or `Failure`."""

    def send(self, number: int, part: PositionBatch) -> Hashable:
        """Gives an idle worker a part; the reply is an `Answer` or `Failure`.

        Raises:
          WorkerLostError: if it has ended since.
        """

    def wait(self, replies: Sequence[Hashable], seconds: float) -> Iterable[Hashable]:
        """Returns some replies that have come; none if none does in so many seconds."""

    def take(self, number: int, reply: Hashable) -> object:
        """Returns a reply that has come.

        Raises:
          WorkerLostError: if none will come.
        """

    def kill(self, number: int) -> None:
        """Ends a worker at once; its reply is lost."""

    def stop(self) -> None:
        """Ends all workers, busy ones at once, the others when they have closed their evaluators."""

    def close(self) -> None:
        """Gives back what is left, once nobody waits for replies any more."""


@dataclass(slots=True)
class _Part:
    """Some positions of a batch, from `begin` to `end`; `lost` workers had it."""

    begin: int
    end: int
    lost: int = 0


@dataclass(slots=True)
class _Job:
    """A batch on its way: parts to give out, how many are missing, and the answers so far."""

    batch: PositionBatch
    waiting: deque[_Part]
    missing: int
    wdl: NDArray[np.float32]
    priors: NDArray[np.float32]

    @classmethod
    def of(cls, batch: PositionBatch, sizes: Sequence[int]) -> _Job:
        ends = np.cumsum(sizes).tolist()
        parts = deque(_Part(end - size, end) for end, size in zip(ends, sizes, strict=True))
        wdl, priors = np.empty((len(batch), 3), np.float32), np.empty(len(batch.moves), np.float32)
        return cls(batch, parts, len(parts), wdl, priors)

    def positions(self, part: _Part) -> PositionBatch:
        offsets = self.batch.offsets[part.begin : part.end + 1]
        moves = self.batch.moves[offsets[0] : offsets[-1]]
        return PositionBatch(self.batch.words[part.begin : part.end], moves, offsets - offsets[0])

    def fill_in(self, part: _Part, answer: Answer) -> None:
        offsets = self.batch.offsets
        begin, end = int(offsets[part.begin]), int(offsets[part.end])
        if answer.wdl.shape != (part.end - part.begin, 3) or answer.priors.shape != (end - begin,):
            raise EvaluatorError(
                f"the evaluator answered {answer.wdl.shape} values and {answer.priors.shape} priors to"
                f" {part.end - part.begin} positions with {end - begin} moves"
            )
        self.wdl[part.begin : part.end] = answer.wdl
        self.priors[begin:end] = answer.priors
        self.missing -= 1

    def first_fen(self, part: _Part) -> str:
        return unpack(self.batch.words[part.begin].tolist()).fen()


@dataclass(slots=True)
class _Errand:
    """What a worker is busy with: a part of a job, or its start (no part)."""

    number: int
    job: _Job | None = None
    part: _Part | None = None
    sent: float = field(default_factory=time.monotonic)
    deadline: float = inf


class Dispatcher:
    """Keeps a crew busy. It has one caller at a time; only `close` may come from another thread."""

    def __init__(self, crew: Crew, *, timeout: float | None) -> None:
        """Takes a crew that has not been started.

        Args:
          timeout: seconds that a part may take; None: by what parts take, generously.
        """
        self.crew = crew
        self.pace = Pace()
        self.closed = False
        self._running = threading.Lock()
        self.greeting: Greeting | None = None
        self._timeout = timeout
        self._idle: list[int] = []
        self._fresh = set(range(crew.size))  # workers that have answered nothing yet
        self._busy: dict[Hashable, _Errand] = {}
        self._lost_at_start = 0
        self._stirred = time.monotonic()  # when a worker was last idle or at work

    def start(self) -> Greeting:
        """Starts all workers; returns the greeting of the first, without waiting for the others.

        Raises:
          EvaluatorError: if the evaluator cannot be made, or no worker starts.
        """
        self._stirred = time.monotonic()
        for number in range(self.crew.size):
            self._greet(number)
        while self.greeting is None:
            self._listen(None)
        return self.greeting

    def run(self, batch: PositionBatch) -> Evaluation:
        """Returns the evaluation of a batch.

        Raises:
          EvaluatorError: if the evaluator fails, answers in another shape or costs three workers their life.
        """
        self._check_open()
        self._stirred = time.monotonic()
        job = _Job.of(batch, self.pace.sizes(len(batch), self.crew.size) if len(batch) else [])
        with self._running:
            while job.missing:
                self._hand_out(job)
                self._listen(job)
        return Evaluation(job.wdl, job.priors)

    def close(self) -> None:
        """Ends all workers; a batch under way fails."""
        self.closed = True
        self.crew.stop()
        if self._running.acquire(timeout=CLOSING_SECONDS):  # its caller has noticed
            self._running.release()
        self.crew.close()

    # ---------------------------------------------------------- sending
    def _hand_out(self, job: _Job) -> None:
        while self._idle and job.waiting:
            number, part = self._idle.pop(), job.waiting.popleft()
            seconds = self._timeout or self.pace.allowance(part.end - part.begin, first=number in self._fresh)
            errand = _Errand(number, job, part)
            errand.deadline = errand.sent + seconds
            try:
                self._busy[self.crew.send(number, job.positions(part))] = errand
            except WorkerLostError:  # it ended while it was idle: the part is not to blame
                self._check_open()
                job.waiting.appendleft(part)
                self._greet(number)

    def _greet(self, number: int) -> None:
        self._check_open()
        self._fresh.add(number)
        self._busy[self.crew.greet(number)] = _Errand(number)

    def _check_open(self) -> None:
        if self.closed:
            raise EvaluatorError("the pool of workers is closed")

    # ---------------------------------------------------------- listening
    def _listen(self, job: _Job | None) -> None:
        """Waits until a worker replies, or one has taken too long, and does what follows."""
        self._check_open()
        replies = list(self.crew.wait(list(self._busy), self._seconds_to_wait()))
        for reply in replies:
            errand = self._busy.pop(reply)
            try:
                found = self.crew.take(errand.number, reply)
            except WorkerLostError as error:
                self._check_open()
                self._lost(errand, job, error)
            else:
                self._came(errand, job, found)
        if not replies:
            self._check_open()
            self._end_what_hangs()

    def _seconds_to_wait(self) -> float:
        now = time.monotonic()
        if any(errand.part for errand in self._busy.values()):
            self._stirred = now
        soonest = min((errand.deadline for errand in self._busy.values()), default=inf)
        return max(0.0, min(soonest, self._stirred + self.crew.patience) - now)

    def _end_what_hangs(self) -> None:
        now = time.monotonic()
        if now >= self._stirred + self.crew.patience:
            raise EvaluatorError(f"no worker has started in {self.crew.patience:.0f} s; {self.crew.advice}")
        for errand in self._busy.values():
            if now >= errand.deadline:
                errand.deadline = inf
                self.crew.kill(errand.number)

    def _came(self, errand: _Errand, job: _Job | None, found: object) -> None:
        """Takes in what a worker said; it is idle then."""
        self._idle.append(errand.number)
        self._stirred = time.monotonic()
        if isinstance(found, Failure):
            if errand.part is None or errand.job is job:
                raise found.as_error(placed=self.crew.is_far)
        elif isinstance(found, Greeting):
            self._lost_at_start = 0
            self.greeting = self.greeting or found
            self._check_identity(found.identity, found.place)
        elif isinstance(found, Answer):
            self._answered(errand, job, found)

    def _answered(self, errand: _Errand, job: _Job | None, answer: Answer) -> None:
        part = errand.part
        assert part is not None
        if errand.number in self._fresh:
            self._fresh.discard(errand.number)  # with what it loaded or compiled; no measure of the others
        else:
            self.pace.learn(part.end - part.begin, answer.seconds, time.monotonic() - errand.sent)
        self._check_identity(answer.identity, answer.place)
        if job is not None and errand.job is job:  # else of a batch that failed
            job.fill_in(part, answer)

    def _check_identity(self, identity: str, place: str) -> None:
        assert self.greeting is not None
        if identity != self.greeting.identity:
            raise EvaluatorError(
                f"the workers' evaluators differ: {identity} ({place}), but {self.greeting.identity}"
                f" ({self.greeting.place}); give all machines the same files and versions"
            )

    def _lost(self, errand: _Errand, job: _Job | None, error: WorkerLostError) -> None:
        """Replaces a worker that ended, and has its part done by another one."""
        part = errand.part
        if part is None:
            self._lost_at_start += 1
            if self._lost_at_start >= MOST_LOST:
                self._lost_at_start = 0
                self._greet(errand.number)
                raise EvaluatorError(
                    f"{MOST_LOST} workers in a row ended as they started: {error}; {self.crew.advice}"
                )
        self._greet(errand.number)
        if part is None or job is None or errand.job is not job:
            return
        part.lost += 1
        if part.lost >= MOST_LOST:
            raise EvaluatorError(
                f"{MOST_LOST} workers in a row ended over a part of {part.end - part.begin} positions that"
                f" begins with {job.first_fen(part)}: {error}"
            )
        job.waiting.appendleft(part)
