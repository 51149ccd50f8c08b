"""A pool of engine processes on one event loop, which has its own thread; splits a batch among the engines.

    evaluate() ---- the positions ---> queue ---> a task of the loop <-> engine
    (any thread) <-- the answers ------    ^----- a task of the loop <-> engine

If an engine fails, it is replaced, and the position tried once more.

    V   one search with one line; its last exact score
    P   softmax(Q of every move / temperature); the Q of all moves from one search of all lines (MultiPV)

An engine with fewer lines than there are moves searches the position after each move instead.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass, field
from typing import Any, TypeVar

import chess
import chess.engine
import numpy as np
from numpy.typing import NDArray

from ...base.errors import EvaluatorError, GraphSearchError
from ...position.board import CHECKMATE, NOT_TERMINAL, fen_of, terminal_kind
from ...position.values import WDL
from ...workers.calls import failure_of
from .engine import EngineFailureError, UciEngine, failure
from .program import Program
from .scores import Score, a_move_earlier, last_score, policy_q, scores_by_move, wdl_of
from .settings import UciSettings

NEUTRAL = WDL(0.0, 1.0, 0.0)  # the value if only P is used
MATES, DRAWS = Score(0, mate=1), Score(0, wdl=(0, 1000, 0))  # moves that end the game


@dataclass(frozen=True, slots=True)
class EngineAnswer:
    """The evaluation of one position: WDL, and priors `[moves]` in the order of its moves."""

    wdl: WDL
    priors: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Question:
    """The request for a position: V, P or both, and the settings of the searches."""

    settings: UciSettings
    value: bool = True
    policy: bool = True

    async def ask(self, engine: UciEngine, board: chess.Board, moves: Sequence[chess.Move]) -> EngineAnswer:
        """Evaluates one position with one engine.

        Raises:
          EngineFailureError: if the engine fails; the caller must then kill it.
        """
        if self.settings.reproducible:
            engine.new_game()
        wdl = await self._value(engine, board, moves) if self.value else NEUTRAL
        return EngineAnswer(wdl, await self._priors(engine, board, moves))

    async def _value(self, engine: UciEngine, board: chess.Board, moves: Sequence[chess.Move]) -> WDL:
        score = await self._score(engine, board, self.value_limit)
        if score is None and len(moves) == 1:  # some engines play a forced move without a search
            score = await self._after(engine, board, moves[0], self.value_limit)
        if score is None:
            raise EngineFailureError("gave no score")
        return wdl_of(score)

    @property
    def value_limit(self) -> chess.engine.Limit:
        """The limit of the search for V."""
        if self.settings.depth:
            return chess.engine.Limit(depth=self.settings.depth)
        return chess.engine.Limit(nodes=self.settings.nodes)

    async def _score(self, engine: UciEngine, board: chess.Board, limit: chess.engine.Limit) -> Score | None:
        found = await engine.search(board, limit, seconds=self.settings.timeout)
        return last_score(found)

    async def _after(
        self, engine: UciEngine, board: chess.Board, move: chess.Move, limit: chess.engine.Limit
    ) -> Score:
        """Returns the score of a move: by the rules if it ends the game, else by a search after it."""
        child = board.copy(stack=False)
        child.push(move)
        child.clear_stack()
        if (kind := terminal_kind(child)) != NOT_TERMINAL:
            return MATES if kind == CHECKMATE else DRAWS
        score = await self._score(engine, child, limit)
        if score is None:
            raise EngineFailureError(f"gave no score for the position after {move.uci()}")
        return a_move_earlier(score)

    # ---------------------------------------------------------- P
    async def _priors(
        self, engine: UciEngine, board: chess.Board, moves: Sequence[chess.Move]
    ) -> NDArray[np.float64]:
        if not self.policy or len(moves) == 1:
            return np.full(len(moves), 1 / len(moves))
        if len(moves) <= engine.most_lines:
            scores = await self._by_lines(engine, board, moves)
        else:
            scores = [await self._after(engine, board, move, self._limit_after) for move in moves]
        return softmax(np.array([policy_q(score) for score in scores]), self.settings.policy_temperature)

    async def _by_lines(
        self, engine: UciEngine, board: chess.Board, moves: Sequence[chess.Move]
    ) -> list[Score]:
        """Returns the score of every move from one search of all lines; searches missing moves alone."""
        limit = chess.engine.Limit(depth=self.settings.policy_depth)
        found = await engine.search(board, limit, seconds=self.settings.timeout, lines=len(moves))
        scores = scores_by_move(found, len(moves))
        missing = [move for move in moves if move.uci() not in scores]
        for move in missing:
            scores[move.uci()] = await self._after(engine, board, move, self._limit_after)
        return [scores[move.uci()] for move in moves]

    @property
    def _limit_after(self) -> chess.engine.Limit:
        """The limit of the search after a move: one ply less than that of the search of all lines."""
        return chess.engine.Limit(depth=max(1, self.settings.policy_depth - 1))


def softmax(q: NDArray[np.float64], temperature: float) -> NDArray[np.float64]:
    """Returns `exp(q / temperature)`, normalised to sum 1.

    >>> softmax(np.array([0.1, 0.1]), 0.1).tolist()
    [0.5, 0.5]
    """
    weights = np.exp((q - q.max()) / temperature)
    return np.asarray(weights / weights.sum())


CLOSE_SECONDS = 10.0
MOST_FAILURES = 2  # of engines at one position

Position = tuple[chess.Board, Sequence[chess.Move]]

Configure = Callable[[UciEngine], chess.engine.ConfigMapping]  # returns the options to set in an engine

_T = TypeVar("_T")

log = logging.getLogger(__name__)
log.addHandler(logging.NullHandler())


@dataclass(eq=False)
class _Row:
    """A position of a batch; `did` describes the failures of engines that evaluated it."""

    position: Position
    answer: EngineAnswer | None = None
    did: list[str] = field(default_factory=list)

    def failure(self, program: Program) -> EvaluatorError:
        """Returns the error with the engines' failures."""
        first, *rest = self.did
        again = "".join(
            ", and so it did once restarted" if did == first else f", and, restarted, {did}" for did in rest
        )
        board = self.position[0].copy(stack=False)
        board.fullmove_number = 1  # that of the evaluator is for engines only
        return failure(program, f"{first}{again}; position {fen_of(board)}")


class EnginePool:
    """Engines on an event loop, which has a thread of its own. Any thread may call the public methods."""

    def __init__(self, program: Program, configure: Configure, question: Question, workers: int) -> None:
        self._program, self._configure, self._question = program, configure, question
        self._name: str | None = None
        self._any_order = question.settings.reproducible
        self._engines: list[UciEngine | None] = [None] * workers
        self._is_closed = False
        self._batch = threading.Lock()  # one at a time
        self._tasks: set[asyncio.Task[Any]] = set()  # on the loop's thread
        self._loop = asyncio.new_event_loop()
        self._loop.set_exception_handler(_note)
        self._thread = threading.Thread(target=self._loop.run_forever, name="graphsearch-uci", daemon=True)
        self._thread.start()

    @property
    def processes(self) -> list[int]:
        """The process ids of the running engines."""
        return [engine.process for engine in self._engines if engine is not None]

    def first_engine(self) -> UciEngine:
        """Starts the first engine and returns it; raises EvaluatorError if it cannot start."""
        return self._do(self._engine(0, None))

    def answers(self, positions: Sequence[Position]) -> list[EngineAnswer]:
        """Returns the evaluations of all positions, in their order.

        Raises:
          EvaluatorError: if an engine fails at a position and, after a restart, fails again.
        """
        rows = [_Row(position) for position in positions]
        with self._batch:
            self._do(self._answer(rows))
        return [row.answer for row in rows if row.answer is not None]

    def leave(self) -> None:
        """Ends all engines and the thread, also during a batch."""
        self._is_closed = True
        ended = asyncio.run_coroutine_threadsafe(self._end(), self._loop)
        with contextlib.suppress(Exception):
            ended.result(CLOSE_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CLOSE_SECONDS)
        if not self._thread.is_alive():
            self._loop.close()

    def _do(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Returns the result of a coroutine on the loop; an exception of Python becomes an EvaluatorError."""
        if self._is_closed:
            work.close()
            raise failure(self._program, "was closed")
        try:
            return asyncio.run_coroutine_threadsafe(self._noted(work), self._loop).result()
        except CancelledError:
            raise failure(self._program, "was closed") from None
        except GraphSearchError:
            raise
        except Exception as error:
            raise failure_of(error).as_error() from error

    # ---------------------------------------------------------- on the loop's thread
    async def _noted(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Awaits work that `leave` may cancel."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        try:
            return await task
        finally:
            self._tasks.discard(task)

    async def _answer(self, rows: Sequence[_Row]) -> None:
        """Evaluates positions; if results depend on the order, each engine its own."""
        count = min(len(self._engines), len(rows))
        shared = deque(rows)
        queues = [shared if self._any_order else deque(rows[number::count]) for number in range(count)]
        serving = [self._serve(number, waiting) for number, waiting in enumerate(queues)]
        ended = await asyncio.gather(*map(self._noted, serving), return_exceptions=True)
        for error in ended:
            if error is not None:
                raise error

    async def _serve(self, number: int, waiting: deque[_Row]) -> None:
        """Has one engine evaluate waiting positions; a failure empties the queue."""
        try:
            while waiting:
                row = waiting.popleft()
                engine = await self._engine(number, row)
                try:
                    row.answer = await self._question.ask(engine, *row.position)
                except EngineFailureError as error:
                    await self._drop(number)
                    row.did.append(str(error))
                    if len(row.did) >= MOST_FAILURES:
                        raise row.failure(self._program) from None
                    waiting.appendleft(row)
        except BaseException:
            waiting.clear()
            raise

    async def _engine(self, number: int, row: _Row | None) -> UciEngine:
        """Returns the engine with this number, started if necessary, to evaluate `row`.

        Raises:
          EvaluatorError: if it cannot be started; with the failures at the position that it is restarted for.
        """
        engine = self._engines[number]
        if engine is None:
            try:
                engine = self._engines[number] = await self._started()
            except EngineFailureError as error:
                if row is None or not row.did:
                    raise failure(self._program, str(error)) from None
                row.did.append(str(error))
                raise row.failure(self._program) from None
        return engine

    async def _started(self) -> UciEngine:
        """Starts and configures an engine.

        Raises:
          EngineFailureError: if the engine cannot be started, or has another name than the others: results of
            different engines must not be mixed.
        """
        engine = await UciEngine.start(self._program, seconds=self._question.settings.timeout)
        try:
            self._name = self._name or engine.name
            if engine.name != self._name:
                raise EngineFailureError(f"calls itself {engine.name!r} now, not {self._name!r} as before")
            await engine.configure(self._configure(engine))
        except BaseException:
            await engine.kill()
            raise
        return engine

    async def _drop(self, number: int) -> None:
        """Kills an engine; the next position starts another one."""
        engine, self._engines[number] = self._engines[number], None
        if engine is not None:
            await engine.kill()

    async def _end(self) -> None:
        """Cancels a batch under way, whose engines are killed; the others quit."""
        busy = bool(self._tasks)
        for task in list(self._tasks):
            task.cancel()
        engines = [engine for engine in self._engines if engine is not None]
        self._engines = [None] * len(self._engines)
        await asyncio.gather(
            *(engine.kill() if busy else engine.quit() for engine in engines), return_exceptions=True
        )


def _note(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    log.debug("%s", context.get("message"), exc_info=context.get("exception"))
