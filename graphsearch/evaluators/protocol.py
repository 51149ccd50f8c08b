"""The evaluator interface: positions in, WDL and priors out, and an identity that names their source."""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import chess
import numpy as np
from numpy.typing import NDArray

from ..base.errors import EvaluatorDefectError, EvaluatorError, GraphSearchError, InvalidParameterError
from ..base.faults import signal_of
from ..position.board import (
    KEY,
    POSITION_WORDS,
    clock_of_words,
    decode_move,
    encode_move,
    fen_of,
    game_before,
    legal_moves,
    pack,
    settled,
    unpack,
)
from ..store.provenance import EvaluatorIdentity

EXTERNAL = 0  # outside the search loop, through `evaluate`
UNIFORM = 1  # inside: no knowledge
BUILTIN = 2  # inside: this program's own networks
NNUE = 3  # inside: a Stockfish network


NO_WEIGHTS: NDArray[np.int64] = np.zeros(1, np.int64)  # of an evaluator without a kernel or without weights
# batch for an evaluator outside the kernels: a call takes .3 ms, shared by this many leaves
OUTSIDE_BATCH = 16
LINE_PLIES = 8  # positions of a line that an evaluator gets, including the last one
SUM_TOLERANCE = 1e-3  # largest deviation of the sum of WDL or priors from 1, before normalising


@dataclass(frozen=True, slots=True)
class Lines:
    """The last eight positions of the lines that led to a batch's positions.

    Attributes:
      words: `[B, 8, 10]` uint64 packed positions, the one to evaluate first; zeros for unknown ones.
      repeated: `[B, 8]` bool, whether each had occurred before, at any time in the game.
    """

    words: NDArray[np.uint64]
    repeated: NDArray[np.bool_]

    @classmethod
    def unknown(cls, count: int) -> Lines:
        """Returns `count` lines without any known position; the caller fills them."""
        words = np.zeros((count, LINE_PLIES, POSITION_WORDS), np.uint64)
        return cls(words, np.zeros((count, LINE_PLIES), bool))

    @classmethod
    def from_boards(cls, boards: Sequence[chess.Board]) -> Lines:
        """Returns the lines of Boards, from their move stacks."""
        lines = cls.unknown(len(boards))
        for row, board in enumerate(boards):
            past = [pack(board), *game_before(board, LINE_PLIES - 1)]
            for ply, words in enumerate(past[:LINE_PLIES]):
                lines.words[row, ply] = words
                returns = range(ply + 4, min(ply + clock_of_words(words) + 1, len(past)), 2)
                lines.repeated[row, ply] = any(past[i][KEY] == words[KEY] for i in returns)
        return lines

    def of(self, chosen: Any) -> Lines:
        """Returns the lines selected by a mask or a slice."""
        return Lines(self.words[chosen], self.repeated[chosen])


@dataclass(frozen=True, slots=True)
class PositionBatch:
    """Positions to evaluate, none of them terminal.

    Attributes:
      words: `[B, 10]` uint64 packed positions.
      moves: `[M]` uint16 legal moves of all positions in turn, each in canonical order.
      offsets: `[B + 1]` int64, start of each position's moves.
      lines: previous positions of each; None if unknown or if the evaluator does not use them.
    """

    words: NDArray[np.uint64]
    moves: NDArray[np.uint16]
    offsets: NDArray[np.int64]
    lines: Lines | None = None

    def __len__(self) -> int:
        return len(self.words)

    @classmethod
    def from_boards(cls, boards: Sequence[chess.Board], *, with_lines: bool = False) -> PositionBatch:
        """Returns the batch of `boards`; the lines are their move stacks."""
        moves = [[encode_move(move) for move in legal_moves(settled(board))] for board in boards]
        lengths = np.array([len(of_board) for of_board in moves], np.int64)
        return cls(
            np.array([pack(board) for board in boards], np.uint64).reshape(-1, POSITION_WORDS),
            np.array([code for of_board in moves for code in of_board], np.uint16),
            np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)]),
            Lines.from_boards(boards) if with_lines else None,
        )

    def part(self, begin: int, end: int) -> PositionBatch:
        """Returns the positions from `begin` to `end` (exclusive)."""
        at = np.arange(len(self))
        return self.rows((begin <= at) & (at < end))

    def rows(self, chosen: NDArray[np.bool_]) -> PositionBatch:
        """Returns the positions selected by a mask `[B]`, in the same order."""
        lengths = np.diff(self.offsets)
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths[chosen])])
        lines = self.lines.of(chosen) if self.lines else None
        return PositionBatch(self.words[chosen], self.moves[np.repeat(chosen, lengths)], offsets, lines)

    def by_move(self, values: NDArray[Any]) -> NDArray[Any]:
        """Repeats each position's value for all its moves, `[M]`."""
        return np.repeat(values, np.diff(self.offsets))

    def boards(self) -> Iterator[tuple[chess.Board, list[chess.Move]]]:
        """Yields every position with its legal moves in canonical order."""
        for i, words in enumerate(self.words):
            codes = self.moves[self.offsets[i] : self.offsets[i + 1]]
            yield unpack(words.tolist()), [decode_move(int(code)) for code in codes]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The result of a batch.

    Attributes:
      wdl: `[B, 3]` float32 win, draw, loss for the side to move; sums to 1.
      priors: `[M]` float32 in the order of the batch's moves; sums to 1 over each position's moves.
      bounds: `[B, 2]` int8, the proven lower and upper result for the side to move in -1, 0, 1; None if
        nothing is proven. A bound must hold on every path to the position, at its clock.
      q: `[B]` float32 win - loss of a kernel, whose last bit three float32 cannot hold; None: of WDL.
    """

    wdl: NDArray[np.float32]
    priors: NDArray[np.float32]
    bounds: NDArray[np.int8] | None = None
    q: NDArray[np.float32] | None = None

    @property
    def v(self) -> NDArray[np.float32]:
        """V of each position: win - loss."""
        return self.wdl[:, 0] - self.wdl[:, 2] if self.q is None else self.q

    @classmethod
    def of_parts(cls, parts: Sequence[Evaluation]) -> Evaluation:
        """Returns the evaluation of a batch from those of its parts, without bounds."""
        parts = [cls(np.zeros((0, 3), np.float32), np.zeros(0, np.float32)), *parts]
        return cls(np.concatenate([one.wdl for one in parts]), np.concatenate([one.priors for one in parts]))


class Evaluator(Protocol):
    """Evaluates positions; has no search state. A subclass needs only `identity` and `evaluate`.

    Attributes:
      identity: equal for evaluators that give equal results.
      kernel_kind: EXTERNAL, or the kind of kernel that runs inside the search loop: UNIFORM, BUILTIN, NNUE.
      temperature: policy temperature that its kernel applies, 1 for none.
      weights: its kernel's weights, `int64[...]`.
      notes: remarks for the user, one line each.
      hits: number of positions answered by endgame tablebases so far.
      wants_lines: whether its results depend on the previous positions, `PositionBatch.lines`.
      batch_size: the smallest batch that keeps it busy; a search with `MinibatchSize=auto` collects this
        many leaves (docs/search.md).
    """

    identity: EvaluatorIdentity
    kernel_kind: int = EXTERNAL
    temperature: float = 1.0
    weights: NDArray[np.int64] = NO_WEIGHTS
    notes: tuple[str, ...] = ()
    hits: int = 0
    wants_lines: bool = False
    batch_size: int = OUTSIDE_BATCH

    @property
    def outside_batch(self) -> int:
        """The smallest batch that keeps it busy when Python calls it; `batch_size` may be for kernels."""
        return self.batch_size if self.kernel_kind == EXTERNAL else OUTSIDE_BATCH

    @abstractmethod
    def evaluate(self, batch: PositionBatch) -> Evaluation:
        """Returns WDL and priors of every position.

        Raises:
          EvaluatorError: if the evaluator fails.
        """

    def heed(self, stop: threading.Event) -> None:
        """Gives up calls into foreign code that last, from when `stop` is set; a search calls it first."""
        return

    def best_moves(self, board: chess.Board) -> list[chess.Move] | None:
        """Returns the best moves by tablebases; None without tablebases or if they lack the position."""
        return None

    def best_line(
        self, board: chess.Board, first: chess.Move | None = None
    ) -> tuple[int, list[chess.Move]] | None:
        """Returns result and line as `tablebase.Syzygy.best_line`; None likewise."""
        return None

    def close(self) -> None:
        """Ends its processes and closes its files, if any. A second call does nothing."""
        return


def accepted(evaluator: Evaluator) -> Evaluator:
    """Returns an evaluator of the caller's own; InvalidParameterError if it is no good one."""
    is_named = isinstance(getattr(evaluator, "identity", None), EvaluatorIdentity)
    size = getattr(evaluator, "batch_size", None)
    if not (is_named and isinstance(size, int) and size >= 1 and Evaluator in type(evaluator).__mro__):
        raise InvalidParameterError(
            "an evaluator needs the class Evaluator, an EvaluatorIdentity `identity` and a `batch_size` of at"
            f" least 1; {type(evaluator).__name__} does not have all of them (docs/python.md)"
        )
    evaluator.identity.as_json()
    return evaluator


def check_shapes(batch: PositionBatch, evaluation: Evaluation) -> None:
    """Raises EvaluatorError unless an evaluation has a value for each position and a prior for each move."""
    wdl, priors = evaluation.wdl, evaluation.priors
    if wdl.shape != (len(batch), 3) or priors.shape != batch.moves.shape:
        raise EvaluatorError(
            f"the evaluator answered {wdl.shape} values and {priors.shape} priors to {len(batch)} positions"
            f" with {len(batch.moves)} moves"
        )


def checked(batch: PositionBatch, evaluation: Evaluation) -> Evaluation:
    """Returns the evaluation, checked and normalised, as float32 arrays.

    Raises:
      EvaluatorError: if shapes differ, numbers are NaN or negative, or sums are not 1.
    """
    wdl = np.asarray(evaluation.wdl, np.float32)
    priors = np.asarray(evaluation.priors, np.float32)
    check_shapes(batch, Evaluation(wdl, priors))
    sums, totals = np.add.reduceat(priors, batch.offsets[:-1]), wdl.sum(axis=1)
    least = np.minimum(wdl.min(axis=1), np.minimum.reduceat(priors, batch.offsets[:-1]))
    # these comparisons also reject NaN (never >= 0) and infinity (never near 1)
    good = (np.abs(totals - 1) <= SUM_TOLERANCE) & (np.abs(sums - 1) <= SUM_TOLERANCE) & (least >= 0)
    _expect(batch, good, "the evaluator's answer is not a probability")
    bounds = evaluation.bounds
    if bounds is not None:
        bounds = np.asarray(bounds)
        if bounds.shape != (len(batch), 2):
            raise EvaluatorError(f"the evaluator answered {bounds.shape} bounds to {len(batch)} positions")
        good = (bounds[:, 0] <= bounds[:, 1]) & np.isin(bounds, (-1, 0, 1)).all(axis=1)
        _expect(batch, good, "the evaluator's bounds are not two of -1, 0 and 1, the lower one first")
    if evaluation.q is not None:
        good = np.abs(np.asarray(evaluation.q) - wdl[:, 0] + wdl[:, 2]) <= SUM_TOLERANCE
        _expect(batch, good, "the evaluator's Q is not win - loss")
    return Evaluation(wdl / totals[:, None], priors / batch.by_move(sums), bounds, evaluation.q)


def _expect(batch: PositionBatch, good: NDArray[np.bool_], what: str) -> None:
    """Raises EvaluatorError with the first position that is not good."""
    if not good.all():
        raise EvaluatorError(f"{what}: {fen_of(unpack(batch.words[int(np.argmin(good))].tolist()))}")


def answer(evaluator: Evaluator, batch: PositionBatch) -> Evaluation:
    """Returns the evaluator's evaluation of a batch, checked and normalised.

    Raises:
      EvaluatorError: if the evaluator fails or returns an invalid evaluation.
    """
    try:
        return checked(batch, evaluator.evaluate(batch))
    except BaseException as error:  # it may try to end the program as well
        if isinstance(error, GraphSearchError) or signal_of(error):
            raise
        raise EvaluatorDefectError(f"the evaluator failed: {type(error).__name__}: {error}") from error


class AbsentEvaluator(Evaluator):
    """Stands in for the evaluator of a graph file when nothing is evaluated; has only its identity."""

    def __init__(self, identity: EvaluatorIdentity) -> None:
        self.identity = identity

    def evaluate(self, batch: PositionBatch) -> Evaluation:
        """Fails with EvaluatorError: there is no evaluator."""
        raise EvaluatorError(
            f"the graph was opened without its evaluator ({self.identity.describe()}), which {len(batch)} new"
            " positions need; open it with that one"
        )
