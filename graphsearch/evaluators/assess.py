"""What an evaluator says about positions, without any search."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from itertools import islice, pairwise
from typing import Any

import chess
import numpy as np

from ..position.board import CHECKMATE, NOT_TERMINAL, check, decode_move, pack_checked
from ..position.fens import fens
from ..position.listing_kernel import list_all
from ..position.rules_kernel import MAX_LEGAL_MOVES
from ..position.tables import load_tables
from ..position.values import WDL, cp_of
from .lines import Lines
from .protocol import Evaluation, Evaluator, PositionBatch, checked

FIRST_CHUNK, LEAST_CHUNK, LARGEST_CHUNK = 64, 16, 4096  # positions that the evaluator gets at once
CHUNK_SECONDS = 0.5  # it takes between half of this and this, if its size lets it


@dataclass(frozen=True, slots=True)
class Assessment:
    """What an evaluator says about one position, seen by its side to move.

    Attributes:
      position: FEN.
      wdl, q, cp: the value V; cp by the score type that is shown.
      priors: P by move (UCI), largest first; empty for a finished game.
      terminal: `position.CHECKMATE`, `STALEMATE`, `DEAD` or `NOT_TERMINAL`; if the game is over by rule,
        the value is exact and no evaluator was asked.
    """

    position: str
    wdl: WDL
    q: float
    cp: int
    priors: dict[str, float]
    terminal: int

    def as_dict(self) -> dict[str, Any]:
        """Returns the JSON object of `graphsearch evaluate`."""
        return {
            "position": self.position,
            "wdl": self.wdl.as_list(),
            "q": self.q,
            "cp": self.cp,
            "priors": self.priors,
        }


def assess(evaluator: Evaluator, boards: Sequence[chess.Board]) -> Iterator[Assessment]:
    """Yields what an evaluator says about each position, in order.

    Raises:
      InvalidPositionError: for a position that is not legal, before any is evaluated.
      EvaluatorError: if the evaluator fails.
    """
    for board in boards:
        check(board)
    yield from assess_checked(evaluator, boards)


def assess_checked(evaluator: Evaluator, boards: Iterable[chess.Board]) -> Iterator[Assessment]:
    """Yields the same of positions that `check` has let pass, as many as there are.

    The evaluator works on some while the next ones are taken and the last ones are given out. How many it
    gets at once depends on how fast it is.

    Raises:
      EvaluatorError: if the evaluator fails; what it answered before has been yielded.
    """
    source, size, lines = iter(boards), FIRST_CHUNK, evaluator.wants_lines
    with ThreadPoolExecutor(1, "graphsearch-evaluator") as thread:
        asked: tuple[_Chunk, Future[_Answer]] | None = None
        while True:
            taken = list(islice(source, size))
            chunk = _Chunk.of(taken, with_lines=lines) if taken else None
            answer = asked[1].result() if asked else None
            before = asked and asked[0]
            asked = (chunk, thread.submit(_ask, evaluator, chunk.batch)) if chunk else None
            if before and answer:
                yield from before.assessments(answer.evaluation)
                size = answer.next_size(size)
            if asked is None:
                return


@dataclass(frozen=True, slots=True)
class _Answer:
    """What was said of a chunk, and how long that took."""

    evaluation: Evaluation
    seconds: float

    def next_size(self, size: int) -> int:
        """Returns how many positions to ask about at once, so that this takes neither long nor no time."""
        if self.seconds > CHUNK_SECONDS:
            return max(LEAST_CHUNK, size // 2)
        return min(LARGEST_CHUNK, 2 * size) if self.seconds < CHUNK_SECONDS / 2 else size


def _ask(evaluator: Evaluator, batch: PositionBatch) -> _Answer:
    begin = time.monotonic()
    found = checked(batch, evaluator.evaluate(batch) if len(batch) else _nothing())
    return _Answer(found, time.monotonic() - begin)


def _nothing() -> Evaluation:
    return Evaluation(np.zeros((0, 3), np.float32), np.zeros(0, np.float32))


@dataclass(frozen=True, slots=True)
class _Chunk:
    """Positions to evaluate at once, by their FENs; those that have ended are not in the batch."""

    positions: list[str]
    kinds: list[int]
    batch: PositionBatch

    @classmethod
    def of(cls, boards: Sequence[chess.Board], *, with_lines: bool) -> _Chunk:
        words = np.array([pack_checked(board) for board in boards], np.uint64)
        offsets, kinds = np.zeros(len(boards) + 1, np.int64), np.zeros(len(boards), np.uint8)
        moves = np.zeros(len(boards) * MAX_LEGAL_MOVES, np.uint16)
        list_all(load_tables(), words.reshape(-1), offsets, moves, kinds)
        lines = Lines.from_boards(boards) if with_lines else None
        batch = PositionBatch(words, moves[: offsets[-1]].copy(), offsets, lines)
        numbers = (board.fullmove_number for board in boards)
        positions = [f"{fen[:-1]}{number}" for fen, number in zip(fens(words), numbers, strict=True)]
        return cls(positions, kinds.tolist(), batch.rows(kinds == NOT_TERMINAL))

    def assessments(self, found: Evaluation) -> Iterator[Assessment]:
        """Yields what was said of each position."""
        moves, p, wdl = self.batch.moves.tolist(), found.priors.tolist(), found.wdl.tolist()
        rows = iter(zip(wdl, pairwise(self.batch.offsets.tolist()), strict=True))
        for position, kind in zip(self.positions, self.kinds, strict=True):
            if kind != NOT_TERMINAL:
                yield _exact(position, kind)
                continue
            values, (begin, end) = next(rows)
            order = sorted(range(begin, end), key=p.__getitem__, reverse=True)
            priors = {_name(moves[k]): p[k] for k in order}
            yield _assessment(position, WDL(*values), priors, kind)


@cache
def _name(code: int) -> str:
    return decode_move(code).uci()


def _assessment(position: str, wdl: WDL, priors: dict[str, float], kind: int) -> Assessment:
    q = wdl.q
    return Assessment(position=position, wdl=wdl, q=q, cp=cp_of(q, wdl.draw), priors=priors, terminal=kind)


def _exact(position: str, kind: int) -> Assessment:
    wdl = WDL(0.0, 0.0, 1.0) if kind == CHECKMATE else WDL(0.0, 1.0, 0.0)
    return _assessment(position, wdl, {}, kind)
