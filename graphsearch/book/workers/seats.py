"""The workers' processes, each with its pipes and the threads that listen to them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context
from multiprocessing.context import SpawnProcess
from typing import Protocol

from ...errors import EvaluatorError, GraphSearchError
from ...evaluators.pool.process import how_it_ended, signals_blocked
from ...evaluators.pool.worker import failure_of
from ...record.node import RecordBatch
from .ledger import Holder, Ledger
from .merging import Merged
from .messages import Ask, Catchup, Failure, GiveBack, News, Pipes, Publish, Saved
from .worker import Setup, work

ENDING_SECONDS = 10.0  # for what an ended process has sent to be taken in
_starting = threading.Lock()


class Ears(Protocol):
    """Who is told what workers say. Every call comes from a thread of that worker's."""

    def heard(self, seat: Seat, message: object) -> None:
        """Takes in what came by the pipe `tasks`."""

    def commit(self, batches: list[RecordBatch], then: Callable[[Merged], object]) -> int:
        """Commits records; returns the size of a log that is held, or 0.

        Args:
          batches: of one worker, each position once.
          then: told what has become of them, before anything else is written.

        Raises:
          StoreError: if the file cannot be written.
        """

    def between(self, ask: Callable[[], News]) -> News:
        """Returns the answer to a question that is put while nothing is being committed."""

    def lost(self, seat: Seat, how: str) -> None:
        """Notes that the worker's process has ended, and that all it had sent is taken in."""


@dataclass(eq=False)
class Seat:
    """One process: it is never started again, another one takes its number.

    Attributes:
      number: of the worker. holder: what it is for the ledger.
      last_heard: by `time.monotonic`.
    """

    number: int
    holder: Holder
    process: SpawnProcess
    pipes: Pipes
    ears: Ears
    ledger: Ledger
    last_heard: float = field(default_factory=time.monotonic)
    _threads: list[threading.Thread] = field(default_factory=list)

    @classmethod
    def started(cls, number: int, setup: Setup, ears: Ears, ledger: Ledger) -> Seat:
        """Returns a worker that has just been started.

        Raises:
          EvaluatorError: if no process can be started.
        """
        context = get_context("spawn")
        try:
            with _starting, signals_blocked():
                pairs = [context.Pipe() for _ in range(3)]
                ours, theirs = (Pipes(*side) for side in zip(*pairs, strict=True))
                name = f"graphsearch-book-{number}"
                process = context.Process(target=work, args=(setup, theirs), name=name)
                process.start()
                theirs.close()
        except (OSError, RuntimeError) as error:
            raise EvaluatorError(f"a worker process cannot be started: {error}") from None
        seat = cls(number, ledger.enter(number), process, ours, ears, ledger)
        seat._listen()
        return seat

    def _listen(self) -> None:
        works: list[Callable[[], None]] = [self._share, self._save]
        self._threads = [threading.Thread(target=self._until_end, args=(one,), daemon=True) for one in works]
        for thread in self._threads:
            thread.start()
        threading.Thread(target=self._follow, daemon=True).start()

    def send(self, message: object) -> None:
        """Tells the worker something; one that has ended does not hear it."""
        try:
            self.pipes.tasks.send(message)
        except OSError:
            return

    def kill(self) -> None:
        """Ends the process at once; `lost` follows."""
        self.process.kill()

    @property
    def is_alive(self) -> bool:
        """Whether the process runs."""
        return self.process.is_alive()

    # ---------------------------------------------------------- threads
    def _follow(self) -> None:
        """Listens to `tasks` until the process has ended, then takes in what is left of the rest."""
        self._until_end(self._hear)
        self.process.kill()  # it has closed the pipe, so it is ending or broken
        self.process.join()
        self.ledger.end(self.holder)
        for thread in self._threads:
            thread.join(ENDING_SECONDS)
        self.ledger.release(self.holder)
        how = how_it_ended(self.process)
        self.pipes.close()
        self.ears.lost(self, how)

    def _until_end(self, listen: Callable[[], None]) -> None:
        """Listens until the pipe is closed; what does not survive the way ends the process."""
        try:
            while True:
                listen()
        except (EOFError, OSError):
            return
        except Exception:
            self.process.kill()
            raise

    def _hear(self) -> None:
        message = self.pipes.tasks.recv()
        self.last_heard = time.monotonic()
        self.ears.heard(self, message)

    def _share(self) -> None:
        message = self.pipes.ledger.recv()
        if isinstance(message, Ask):
            self.pipes.ledger.send(self.ledger.ask(self.holder, message))
        elif isinstance(message, Publish):
            self.ledger.publish(self.holder, message)
        elif isinstance(message, Catchup):
            self.pipes.ledger.send(self.ears.between(partial(self.ledger.news, self.holder)))
        elif isinstance(message, GiveBack):
            self.ledger.give_back(self.holder, message.words)

    def _save(self) -> None:
        batches: list[RecordBatch] = self.pipes.records.recv()
        reply: Saved | Failure
        try:
            words = [batch.words for batch in batches]
            reply = Saved(self.ears.commit(batches, partial(self.ledger.committed, self.holder, words)))
        except GraphSearchError as error:
            reply = failure_of(error, "")
        self.pipes.records.send(reply)
