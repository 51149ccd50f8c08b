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

from ...position.board import CHECKMATE, NOT_TERMINAL, terminal_kind
from ...position.values import WDL
from .engine import EngineFailureError, UciEngine
from .scores import Score, a_move_earlier, last_score, policy_q, scores_by_move, wdl_of
from .settings import UciSettings

NEUTRAL = WDL(0.0, 1.0, 0.0)  # the value of a part that is not asked for one
MATES, DRAWS = Score(0, mate=1), Score(0, wdl=(0, 1000, 0))  # moves that end the game


@dataclass(frozen=True, slots=True)
class EngineAnswer:
    """One position's answer: WDL, and priors `[moves]` in the order of its moves."""

    wdl: WDL
    priors: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Question:
    """What positions are asked for: V, P or both, and how."""

    settings: UciSettings
    value: bool = True
    policy: bool = True

    async def ask(self, engine: UciEngine, board: chess.Board, moves: Sequence[chess.Move]) -> EngineAnswer:
        """Returns one engine's answer about one position.

        Raises:
          EngineFailureError: if the engine fails; then it can only be killed.
        """
        if self.settings.reproducible:
            engine.new_game()
        wdl = await self._value(engine, board, moves) if self.value else NEUTRAL
        return EngineAnswer(wdl, await self._priors(engine, board, moves))

    async def _value(self, engine: UciEngine, board: chess.Board, moves: Sequence[chess.Move]) -> WDL:
        score = await self._score(engine, board, self.value_limit)
        if score is None and len(moves) == 1:  # some answer a forced move without a search
            score = await self._after(engine, board, moves[0], self.value_limit)
        if score is None:
            raise EngineFailureError("gave no score")
        return wdl_of(score)

    @property
    def value_limit(self) -> chess.engine.Limit:
        """What ends the search for V."""
        if self.settings.depth:
            return chess.engine.Limit(depth=self.settings.depth)
        return chess.engine.Limit(nodes=self.settings.nodes)

    async def _score(self, engine: UciEngine, board: chess.Board, limit: chess.engine.Limit) -> Score | None:
        """Returns the score of a position from a search with one line."""
        found = await engine.search(board, limit, seconds=self.settings.timeout)
        return last_score(found.lines)

    async def _after(
        self, engine: UciEngine, board: chess.Board, move: chess.Move, limit: chess.engine.Limit
    ) -> Score:
        """Returns the score of a move, from the rules or a search of the position after it."""
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
        by_lines = len(moves) <= engine.most_lines
        scores = await (self.by_lines if by_lines else self.by_children)(engine, board, moves)
        return softmax(np.array([policy_q(score) for score in scores]), self.settings.policy_temperature)

    async def by_lines(
        self, engine: UciEngine, board: chess.Board, moves: Sequence[chess.Move]
    ) -> list[Score]:
        """Returns the score of every move from one search of all lines; of those left out, from their own."""
        limit = chess.engine.Limit(depth=self.settings.policy_depth)
        found = await engine.search(board, limit, seconds=self.settings.timeout, lines=len(moves))
        scores = scores_by_move(found.lines, len(moves))
        missing = [move for move in moves if move.uci() not in scores]
        for move in missing:
            scores[move.uci()] = await self._after(engine, board, move, self._limit_after)
        return [scores[move.uci()] for move in moves]

    async def by_children(
        self, engine: UciEngine, board: chess.Board, moves: Sequence[chess.Move]
    ) -> list[Score]:
        """Returns the score of every move from a search of the position after it."""
        return [await self._after(engine, board, move, self._limit_after) for move in moves]

    @property
    def _limit_after(self) -> chess.engine.Limit:
        """What ends the search of the position after a move: one ply less than for the moves together."""
        return chess.engine.Limit(depth=max(1, self.settings.policy_depth - 1))


def softmax(q: NDArray[np.float64], temperature: float) -> NDArray[np.float64]:
    """Returns `exp(q / temperature)`, normalised to sum 1.

    >>> softmax(np.array([0.1, 0.1]), 0.1).tolist()
    [0.5, 0.5]
    """
    weights = np.exp((q - q.max()) / temperature)
    return np.asarray(weights / weights.sum())
