"""Evaluates positions, from Boards or lines of text, without any search."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from itertools import islice, pairwise
from typing import Any

import chess
import numpy as np
from numpy.typing import NDArray

from ..position.board import CHECKMATE, NOT_TERMINAL, POSITION_WORDS, check, decode_move, pack_checked
from ..position.fens import OnBadLine, TextLines, fens, read_lines
from ..position.rules_kernel import MAX_LEGAL_MOVES, list_all
from ..position.tables import load_tables
from ..position.values import WDL, cp_of
from .lines import Lines
from .protocol import Evaluation, Evaluator, PositionBatch, checked


@dataclass(frozen=True, slots=True)
class Positions:
    """Positions that passed `check`.

    Attributes:
      words: `[B, 10]` uint64 packed positions.
      numbers: `[B]` int64 fullmove numbers.
      boards: the same positions with their games as move stacks; None if the games are unknown.
    """

    words: NDArray[np.uint64]
    numbers: NDArray[np.int64]
    boards: list[chess.Board] | None = None

    def __len__(self) -> int:
        return len(self.words)

    def lines(self) -> Lines:
        """Returns the lines that led to the positions."""
        return Lines.from_boards(self.boards) if self.boards else Lines.alone(self.words)


FIRST_CHUNK, LEAST_CHUNK, LARGEST_CHUNK = 64, 16, 4096  # positions in one batch
CHUNK_SECONDS = 0.5  # target time of a batch: between half of this and this


@dataclass(frozen=True, slots=True)
class Assessment:
    """The evaluation of one position, seen by its side to move.

    Attributes:
      position: FEN.
      wdl, q, cp: the value V.
      priors: P by move (UCI), largest first; empty for a finished game.
      terminal: `CHECKMATE`, `STALEMATE`, `DEAD` or `NOT_TERMINAL`; if the game is over by rule,
        the value is exact and does not come from the evaluator.
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
    """Yields the evaluation of each position, in order.

    Raises:
      InvalidPositionError: if a position is not legal; raised before any is evaluated.
      EvaluatorError: if the evaluator fails.
    """
    for board in boards:
        check(board)
    for answers in assess_boards(evaluator, boards):
        yield from answers.assessments()


def assess_boards(evaluator: Evaluator, boards: Iterable[chess.Board]) -> Iterator[Answers]:
    """Returns the evaluations of Boards that passed `check`, in batches; reads Boards only as needed.

    Raises:
      EvaluatorError: if the evaluator fails; all earlier batches have been yielded.
    """
    rest = iter(boards)

    def read(most: int) -> Positions | None:
        found = list(islice(rest, most))
        words = np.array([pack_checked(board) for board in found], np.uint64).reshape(-1, POSITION_WORDS)
        numbers = np.array([board.fullmove_number for board in found], np.int64)
        return Positions(words, numbers, found) if found else None

    return _assess(evaluator, read, lambda: False)


def assess_lines(evaluator: Evaluator, lines: TextLines, on_bad: OnBadLine) -> Iterator[Answers]:
    """Returns the evaluations of the positions of lines of FEN and EPD, in batches; reads only as needed.

    Args:
      on_bad: called with the number of each line that holds no legal position, and the reason.

    Raises:
      InputFileError: if a line is too long to be text.
      EvaluatorError: if the evaluator fails; all earlier batches have been yielded.
    """

    def read(most: int) -> Positions | None:
        first, found = lines.read(most)
        return Positions(*read_lines(found, first, on_bad)) if found else None

    return _assess(evaluator, read, lines.is_waiting)


def _assess(
    evaluator: Evaluator, read: Callable[[int], Positions | None], is_waiting: Callable[[], bool]
) -> Iterator[Answers]:
    """Yields evaluations in batches.

    The evaluator works on one batch while the caller gets the previous one and the next is read. The batch
    size adapts to the evaluator's speed. If `read` has to wait for input, finished evaluations are yielded
    first.

    Args:
      read: returns the next positions, from none to a number; None at the end. is_waiting: whether it blocks.
    """
    size, ended = FIRST_CHUNK, False
    with ThreadPoolExecutor(1, "graphsearch-evaluator") as thread:
        pending: Future[tuple[Answers, float]] | None = None
        while pending or not ended:
            positions = None
            if not (ended or (pending and is_waiting())):
                positions = read(size)
                ended = positions is None
            answered = pending and pending.result()
            pending = thread.submit(_evaluate, evaluator, positions) if positions else None
            if answered:
                yield answered[0]
                if answered[1] > CHUNK_SECONDS:
                    size = max(LEAST_CHUNK, size // 2)
                elif answered[1] < CHUNK_SECONDS / 2:
                    size = min(LARGEST_CHUNK, 2 * size)


def _evaluate(evaluator: Evaluator, positions: Positions) -> tuple[Answers, float]:
    """Returns the evaluations of positions, and the time they took in seconds."""
    begin, count, words = time.monotonic(), len(positions), positions.words
    offsets, kinds = np.zeros(count + 1, np.int64), np.zeros(count, np.uint8)
    moves = np.zeros(count * MAX_LEGAL_MOVES, np.uint16)
    list_all(load_tables(), words.reshape(-1), offsets, moves, kinds)
    lines = positions.lines() if evaluator.wants_lines else None
    going = kinds == NOT_TERMINAL
    batch = PositionBatch(words, moves[: offsets[-1]], offsets, lines).rows(going)
    found = checked(batch, evaluator.evaluate(batch) if len(batch) else _nothing())
    wdl, offsets = np.zeros((count, 3)), np.zeros(count + 1, np.int64)
    wdl[going] = found.wdl
    wdl[~going, np.where(kinds[~going] == CHECKMATE, 2, 1)] = 1.0
    offsets[1:][going] = np.diff(batch.offsets)
    answers = Answers(positions, kinds, wdl, np.cumsum(offsets), batch.moves, found.priors)
    return answers, time.monotonic() - begin


def _nothing() -> Evaluation:
    return Evaluation(np.zeros((0, 3), np.float32), np.zeros(0, np.float32))


@dataclass(frozen=True, slots=True)
class Answers:
    """The evaluations of some positions, each seen by its side to move.

    Attributes:
      positions: the evaluated positions.
      kinds: `[B]` uint8, terminal kinds (`board.terminal_kind`).
      wdl: `[B, 3]` float64.
      offsets: `[B + 1]` int64, start of each position's moves; a terminal position has none.
      moves, priors: `[M]` uint16 and float32.
    """

    positions: Positions
    kinds: NDArray[np.uint8]
    wdl: NDArray[np.float64]
    offsets: NDArray[np.int64]
    moves: NDArray[np.uint16]
    priors: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.positions)

    def assessments(self) -> Iterator[Assessment]:
        """Yields the `Assessment` of each position."""
        moves, p, numbers = self.moves.tolist(), self.priors.tolist(), self.positions.numbers.tolist()
        rows = zip(
            fens(self.positions.words),
            numbers,
            self.kinds.tolist(),
            self.wdl.tolist(),
            pairwise(self.offsets.tolist()),
            strict=True,
        )
        for fen, number, kind, values, (begin, end) in rows:
            order = sorted(range(begin, end), key=p.__getitem__, reverse=True)
            priors = {_name(moves[k]): p[k] for k in order}
            wdl = WDL(*values)
            yield Assessment(f"{fen[:-1]}{number}", wdl, wdl.q, cp_of(wdl.q), priors, kind)

    def json_lines(self) -> str:
        """Returns a line for each position, with the JSON of its `Assessment.as_dict`."""
        return "".join(f"{json.dumps(answer.as_dict())}\n" for answer in self.assessments())


@cache
def _name(code: int) -> str:
    return decode_move(code).uci()
