"""Engine processes side by side: one event loop in a thread of its own, a batch split over them.

    evaluate() ---- the batch ----> loop's thread: worker 1 <-> engine     positions in turn; an engine that
    (any thread) <-- the answers -                 worker 2 <-> engine     fails is replaced and asked again

One hand-over to the loop per batch, not per position.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import CancelledError
from typing import Any, TypeVar

import chess
import chess.engine

from .ask import Answer, Question
from .engine import EngineFailureError, UciEngine, failure
from .program import Program

ATTEMPTS = 2
CLOSE_SECONDS = 10.0

T = TypeVar("T")
Position = tuple[chess.Board, Sequence[chess.Move]]

Configure = Callable[[UciEngine], chess.engine.ConfigMapping]  # the options to set, of those it declares

log = logging.getLogger(__name__)
log.addHandler(logging.NullHandler())


class Worker:
    """One engine at a time, started when it is needed."""

    def __init__(self, program: Program, configure: Configure, question: Question) -> None:
        self._program = program
        self._configure = configure
        self._question = question
        self.engine: UciEngine | None = None

    async def ready(self) -> UciEngine:
        """Returns the running engine.

        Raises:
          EngineFailureError: if it cannot be started.
        """
        if self.engine is None:
            engine = await UciEngine.start(self._program)
            try:
                await engine.configure(self._configure(engine))
            except BaseException:
                await engine.kill()
                raise
            self.engine = engine
        return self.engine

    async def answer(self, board: chess.Board, moves: Sequence[chess.Move]) -> Answer:
        """Returns the answer about one position, from a second engine if the first fails.

        Raises:
          EvaluatorError: if the second fails too.
        """
        did = []
        for _ in range(ATTEMPTS):
            try:
                return await self._question.ask(await self.ready(), board, moves)
            except EngineFailureError as error:
                did.append(str(error))
                await self.drop()
            except BaseException:  # the batch was given up: what the engine is doing is nobody's
                await self.drop()
                raise
        first, second = did
        again = "and so it did once restarted" if first == second else f"and, restarted, {second}"
        raise failure(self._program, f"{first}, {again}; position {board.fen()}")

    async def drop(self) -> None:
        """Kills the engine."""
        engine, self.engine = self.engine, None
        if engine is not None:
            await engine.kill()

    async def close(self) -> None:
        """Ends the engine."""
        engine, self.engine = self.engine, None
        if engine is not None:
            await engine.quit()


class EnginePool:
    """Workers on a loop; all methods may be called from any thread."""

    def __init__(self, program: Program, configure: Configure, question: Question, workers: int) -> None:
        self._program = program
        self._configure = configure
        self._name: str | None = None
        self._workers = [Worker(program, self._options, question) for _ in range(workers)]
        self._any_order = question.settings.reproducible
        self._loop = asyncio.new_event_loop()
        self._loop.set_exception_handler(_note)
        self._thread = threading.Thread(target=self._loop.run_forever, name="graphsearch-uci", daemon=True)
        self._thread.start()
        self._turn = threading.Lock()  # held over a batch
        self._gate = threading.Lock()  # held while work is handed over, so that none comes after the end
        self._work: asyncio.Task[Any] | None = None
        self._closed = False

    def _options(self, engine: UciEngine) -> chess.engine.ConfigMapping:
        """Returns the options to set in an engine that was just started, after a look at its name.

        Raises:
          EngineFailureError: if it is not what the others were: its answers must not be mixed with theirs.
        """
        self._name = self._name or engine.name
        if engine.name != self._name:
            raise EngineFailureError(f"calls itself {engine.name!r} now, not {self._name!r} as before")
        return self._configure(engine)

    def first_engine(self) -> UciEngine:
        """Returns the first worker's engine, started.

        Raises:
          EvaluatorError: if it cannot be.
        """
        try:
            return self._run(self._workers[0].ready())
        except EngineFailureError as error:
            raise failure(self._program, str(error)) from None

    def answers(self, positions: Sequence[Position]) -> list[Answer]:
        """Returns the answers to all positions, in their order.

        Raises:
          EvaluatorError: if an engine fails at a position and, restarted, fails again.
        """
        return self._run(self._split(positions))

    def processes(self) -> list[int]:
        """Returns the ids of the running engines."""
        return [worker.engine.process for worker in self._workers if worker.engine]

    async def _split(self, positions: Sequence[Position]) -> list[Answer]:
        found: list[Answer | None] = [None] * len(positions)

        async def work(worker: Worker, rows: Iterator[int]) -> None:
            for row in rows:
                found[row] = await worker.answer(*positions[row])

        tasks = [
            asyncio.create_task(work(worker, rows))
            for worker, rows in zip(self._workers, self._shares(len(positions)), strict=False)
        ]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return [answer for answer in found if answer is not None]

    def _shares(self, count: int) -> list[Iterator[int]]:
        """Returns each worker's rows; whoever is free takes the next if answers do not depend on it."""
        workers = min(len(self._workers), count)
        if self._any_order:
            return [iter(range(count))] * workers
        return [iter(range(first, count, workers)) for first in range(workers)]

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        """Returns the result of a coroutine on the loop; cancels it if the wait for it is interrupted.

        Raises:
          EvaluatorError: if the pool is closed, before or meanwhile.
        """
        with self._turn:
            with self._gate:
                if self._closed:
                    work.close()
                    raise failure(self._program, "was closed")
                future = asyncio.run_coroutine_threadsafe(self._noted(work), self._loop)
            try:
                return future.result()
            except CancelledError:
                raise failure(self._program, "was closed") from None
            except BaseException:
                future.cancel()
                raise

    async def _noted(self, work: Coroutine[Any, Any, T]) -> T:
        self._work = asyncio.current_task()
        try:
            return await work
        finally:
            self._work = None

    def close(self) -> None:
        """Ends all engines and the thread, whatever they are at; does nothing the second time."""
        with self._gate:
            if self._closed:
                return
            self._closed = True
            future = asyncio.run_coroutine_threadsafe(self._end(), self._loop)
        with contextlib.suppress(TimeoutError):
            future.result(CLOSE_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CLOSE_SECONDS)
        if not self._thread.is_alive():
            self._loop.close()

    async def _end(self) -> None:
        if self._work is not None:
            self._work.cancel()
            await asyncio.wait([self._work])
        await asyncio.gather(*(worker.close() for worker in self._workers), return_exceptions=True)


def _note(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Logs what went wrong beside an answer: failures themselves are raised where the answer is awaited."""
    log.debug("%s", context.get("message"), exc_info=context.get("exception"))
