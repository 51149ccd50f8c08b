"""What one engine is asked about one position, and how its answer becomes WDL and priors.

    V   one search with one line; its last exact score
    P   softmax(Q of every move / temperature); the Q of all moves from one search of all lines (MultiPV)

An engine that cannot show as many lines as there are moves is asked about the position after each move.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import chess
import chess.engine
import numpy as np
from numpy.typing import NDArray

from ...position import CHECKMATE, NOT_TERMINAL, terminal_kind
from ...values import WDL, negate
from .engine import EngineFailureError, UciEngine
from .scores import Score, best_known, mate_q, parse_score, scores_by_move, wdl_of
from .settings import UciSettings

NEUTRAL = WDL(0.0, 1.0, 0.0)  # of a part that is not asked for; nobody reads it


@dataclass(frozen=True, slots=True)
class Answer:
    """One position's answer: WDL, and priors `[moves]` in the order of its moves."""

    wdl: WDL
    priors: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Question:
    """What positions are asked for: V, P or both, and how."""

    settings: UciSettings
    value: bool = True
    policy: bool = True

    async def ask(self, engine: UciEngine, board: chess.Board, moves: Sequence[chess.Move]) -> Answer:
        """Returns one engine's answer about one position.

        Raises:
          EngineFailureError: if the engine fails; then it can only be killed.
        """
        if self.settings.reproducible:
            engine.new_game()
        wdl = await self._value(engine, board, moves) if self.value else NEUTRAL
        return Answer(wdl, await self._priors(engine, board, moves))

    async def _value(self, engine: UciEngine, board: chess.Board, moves: Sequence[chess.Move]) -> WDL:
        score = await self._score(engine, board, self.value_limit)
        if score is not None:
            return wdl_of(score)
        if len(moves) == 1:  # some answer a forced move without a search
            return await self._after(engine, board, moves[0], self.value_limit)
        raise EngineFailureError("gave no score")

    @property
    def value_limit(self) -> chess.engine.Limit:
        """What ends the search for V."""
        if self.settings.depth:
            return chess.engine.Limit(depth=self.settings.depth)
        return chess.engine.Limit(nodes=self.settings.nodes)

    async def _score(
        self, engine: UciEngine, board: chess.Board, limit: chess.engine.Limit
    ) -> Score | None:
        found = await engine.search(board, limit, seconds=self.settings.timeout)
        return best_known(score for line in found.lines if (score := parse_score(line)))

    async def _after(
        self, engine: UciEngine, board: chess.Board, move: chess.Move, limit: chess.engine.Limit
    ) -> WDL:
        """Returns the WDL of a move, from a search of the position after it."""
        child = board.copy(stack=False)
        child.push(move)
        child.clear_stack()
        if (kind := terminal_kind(child)) != NOT_TERMINAL:
            return wdl_of(Score(0, mate=1)) if kind == CHECKMATE else NEUTRAL
        score = await self._score(engine, child, limit)
        if score is None:
            raise EngineFailureError(f"gave no score of the position after {move.uci()}")
        return wdl_of(_a_move_earlier(score))

    # ---------------------------------------------------------- P
    async def _priors(
        self, engine: UciEngine, board: chess.Board, moves: Sequence[chess.Move]
    ) -> NDArray[np.float64]:
        if not self.policy or len(moves) == 1:
            return np.full(len(moves), 1 / len(moves))
        if len(moves) <= engine.most_lines:
            q = await self.by_lines(engine, board, moves)
        else:
            q = await self.by_children(engine, board, moves)
        return softmax(q, self.settings.policy_temperature)

    async def by_lines(
        self, engine: UciEngine, board: chess.Board, moves: Sequence[chess.Move]
    ) -> NDArray[np.float64]:
        """Returns the Q of every move from one search of all lines."""
        limit = chess.engine.Limit(depth=self.settings.policy_depth)
        found = await engine.search(board, limit, seconds=self.settings.timeout, lines=len(moves))
        scores = scores_by_move(found.lines)
        q = np.empty(len(moves))
        for i, move in enumerate(moves):
            score = scores.get(move.uci())
            wdl = wdl_of(score) if score else await self._after(engine, board, move, self._below(limit))
            q[i] = wdl.q
        return q

    async def by_children(
        self, engine: UciEngine, board: chess.Board, moves: Sequence[chess.Move]
    ) -> NDArray[np.float64]:
        """Returns the Q of every move from a search, one ply less deep, of the position after it."""
        limit = self._below(chess.engine.Limit(depth=self.settings.policy_depth))
        return np.array([(await self._after(engine, board, move, limit)).q for move in moves])

    def _below(self, limit: chess.engine.Limit) -> chess.engine.Limit:
        return chess.engine.Limit(depth=max(1, (limit.depth or 1) - 1))


def _a_move_earlier(score: Score) -> Score:
    """Returns a score of the position after a move as a score of that move."""
    mate = score.mate
    if mate is not None:
        mate = 1 - mate if mate <= 0 else -mate  # the mating side made one move more
    wdl = None if score.wdl is None else (score.wdl[2], score.wdl[1], score.wdl[0])
    return Score(round(negate(score.cp)), mate, wdl, score.kind, score.depth + 1)


def softmax(q: NDArray[np.float64], temperature: float) -> NDArray[np.float64]:
    """Returns `exp(q / temperature)`, normalised to sum 1.

    >>> softmax(np.array([0.1, 0.1]), 0.1).tolist()
    [0.5, 0.5]
    """
    weights = np.exp((q - q.max()) / temperature)
    return np.asarray(weights / weights.sum())
