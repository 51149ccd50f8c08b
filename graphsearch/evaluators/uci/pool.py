"""A pool of engine processes on one event loop, which has its own thread; splits a batch among the engines.

    evaluate() ---- the positions ---> supervisor ---> a task of the loop <-> engine
    (any thread) <-- the answers ------    ^---------- a task of the loop <-> engine

`workers/supervisor.py` assigns positions to engines. If an engine fails, it replaces the engine and tries the
position once more. It assigns on the loop's thread, so no position waits for another thread.

    V   one search with one line; its last exact score
    P   softmax(Q of every move / temperature); the Q of all moves from one search of all lines (MultiPV)

An engine with fewer lines than there are moves searches the position after each move instead.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import inf
from typing import Any

import chess
import chess.engine
import numpy as np
from numpy.typing import NDArray

from ...base.errors import EvaluatorError
from ...position.board import CHECKMATE, NOT_TERMINAL, fen_of, terminal_kind
from ...position.values import WDL
from ...workers.messages import Failure, Leave, Ready, failure_of
from ...workers.supervisor import Batch, Part, Seat, Supervisor
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

Position = tuple[chess.Board, Sequence[chess.Move]]

Configure = Callable[[UciEngine], chess.engine.ConfigMapping]  # returns the options to set in an engine

log = logging.getLogger(__name__)
log.addHandler(logging.NullHandler())


class _Positions(Batch):
    def __init__(self, positions: Sequence[Position]) -> None:
        super().__init__(missing=len(positions))
        self.answers: list[EngineAnswer | None] = [None] * len(positions)


@dataclass(eq=False)
class _Row(Part):
    """A position of a batch; `did` describes the failures of engines that evaluated it."""

    batch: _Positions
    row: int
    position: Position
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


class EngineTask:
    """An engine as a worker: a task on the loop starts it, sends it positions, and ends it.

    Attributes:
      pid: process id, 0 until the engine is started. alive_since: always inf; the handshake has its own
        timeouts.
      engine: None until it is ready.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        started: Callable[[], Coroutine[Any, Any, UciEngine]],
        question: Question,
        *,
        heard: Callable[[object], None],
        lost: Callable[[str], None],
    ) -> None:
        self.pid, self.alive_since = 0, inf
        self.engine: UciEngine | None = None
        self._loop, self._started, self._question = loop, started, question
        self._heard, self._lost = heard, lost
        self._inbox: asyncio.Queue[object] = asyncio.Queue()
        self._work: asyncio.Task[str] | None = None
        self._life = asyncio.run_coroutine_threadsafe(self._live(), loop)

    def send(self, message: object) -> None:
        """Sends a position, or `Leave`."""
        self._loop.call_soon_threadsafe(self._inbox.put_nowait, message)

    def kill(self) -> None:
        """Kills the engine at once."""
        self._loop.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        if self._work is not None:
            self._work.cancel()

    async def _live(self) -> None:
        self._work = asyncio.create_task(self._serve())
        how = "was ended"
        try:
            await asyncio.wait([self._work])
            how = how if self._work.cancelled() else self._work.result()
            if self.engine is not None:
                await (self.engine.kill() if how else self.engine.quit())
        finally:
            self._lost(how)

    async def _serve(self) -> str:
        """Evaluates positions until `Leave`; returns the engine's failure, empty for none."""
        try:
            self.engine = await self._started()
            self.pid = self.engine.process
            self._heard(Ready(f"process {self.pid}"))
            while not isinstance(row := await self._inbox.get(), Leave):
                assert isinstance(row, _Row)
                self._heard(await self._question.ask(self.engine, *row.position))
        except EngineFailureError as error:
            return str(error)
        except Exception as error:  # for example an option that the engine does not have
            self._heard(failure_of(error))
        return ""


class EnginePool(Supervisor[_Row]):
    """Engines on an event loop. Any thread may call the public methods."""

    most_lost = 2  # engines that may fail at one position
    is_eager = False

    def __init__(self, program: Program, configure: Configure, question: Question, workers: int) -> None:
        super().__init__(workers)
        self.closed = str(failure(program, "was closed"))
        self._program, self._configure, self._question = program, configure, question
        self._name: str | None = None
        self._any_order = question.settings.reproducible
        self._loop = asyncio.new_event_loop()
        self._loop.set_exception_handler(_note)
        self._thread = threading.Thread(target=self._loop.run_forever, name="graphsearch-uci", daemon=True)
        self._thread.start()

    def first_engine(self) -> UciEngine:
        """Starts the first worker's engine and returns it; raises EvaluatorError if it cannot start."""
        self.start(1)
        worker = self.seats[0].worker
        assert isinstance(worker, EngineTask)
        assert worker.engine is not None
        return worker.engine

    def answers(self, positions: Sequence[Position]) -> list[EngineAnswer]:
        """Returns the evaluations of all positions, in their order.

        Raises:
          EvaluatorError: if an engine fails at a position and, after a restart, fails again.
        """
        batch = _Positions(positions)
        self.do(batch, [_Row(batch, row, position) for row, position in enumerate(positions)])
        return [answer for answer in batch.answers if answer is not None]

    def leave(self) -> None:
        """Ends all engines and the thread, also during a batch."""
        self.end(CLOSE_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CLOSE_SECONDS)
        if not self._thread.is_alive():
            self._loop.close()

    # ---------------------------------------------------------- the work
    def _worker(self, seat: Seat[_Row]) -> EngineTask:
        heard, lost = partial(self._heard, seat), partial(self._lost, seat)
        return EngineTask(self._loop, self._started, self._question, heard=heard, lost=lost)

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

    def _next(self, seat: Seat[_Row]) -> _Row | None:
        """Returns the next waiting position; if results depend on the order, only one of the seat's own."""
        if self._any_order:
            starting = sum(other.worker is not None and not other.is_ready for other in self.seats)
            return super()._next(seat) if len(self.waiting) > starting else None  # leave one for each of them
        own = (row for row in self.waiting if row.row % len(self.seats) == seat.number)
        row = next(own, None)
        if row is not None:
            self.waiting.remove(row)
        return row

    def _request(self, seat: Seat[_Row], assignment: _Row) -> tuple[_Row, float]:
        return assignment, inf

    def _finished(self, seat: Seat[_Row], assignment: _Row, message: object) -> None:
        if isinstance(message, Failure):
            self._fail(assignment.batch, message.as_error())
        elif isinstance(message, EngineAnswer):
            assignment.batch.answers[assignment.row] = message
            assignment.batch.missing -= 1

    def _give_again(self, assignment: _Row, how: str) -> None:
        assignment.did.append(how)
        super()._give_again(assignment, how)

    def _given_up(self, assignment: _Row, why: str) -> None:
        self._fail(assignment.batch, assignment.failure(self._program))

    def _lost_at_start(self, seat: Seat[_Row], how: str) -> None:
        """Sets the seat's error: an engine that fails to start is not started again.

        The error includes the failures at the position that the engine was restarted for.
        """
        if seat.error is not None or not how:  # the error is already known
            return
        given_back = next((row for row in self.waiting if row.did), None)
        if given_back is None:
            seat.error = failure(self._program, how)
        else:
            given_back.did.append(how)
            seat.error = given_back.failure(self._program)


def _note(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    log.debug("%s", context.get("message"), exc_info=context.get("exception"))
