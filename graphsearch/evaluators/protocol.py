"""What an evaluator is: positions in, WDL and priors out, and an identity for where they come from."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import chess
import numpy as np
from numpy.typing import NDArray

from ..base.errors import EvaluatorDefectError, EvaluatorError, GraphSearchError
from ..position.board import POSITION_WORDS, decode_move, encode_move, legal_moves, pack, unpack
from ..position.chess960 import settled
from ..store.record.provenance import EvaluatorIdentity
from .lines import Lines

EXTERNAL = 0  # outside the search loop, through `evaluate`
UNIFORM = 1  # inside: no knowledge
BUILTIN = 2  # inside: this program's own networks
NNUE = 3  # inside: a network of Stockfish


NO_WEIGHTS: NDArray[np.int64] = np.zeros(1, np.int64)  # of an evaluator that is no kernel, or has none
# leaves for an evaluator outside the kernels: asking takes .3 ms, which so many share
OUTSIDE_BATCH = 16
SUM_TOLERANCE = 1e-3  # WDL and priors may miss 1 by this much; they are normalised


@dataclass(frozen=True, slots=True)
class PositionBatch:
    """Positions to evaluate, none of them terminal.

    Attributes:
      words: `[B, 10]` uint64 packed positions.
      moves: `[M]` uint16 legal moves of all positions in turn, each in canonical order.
      offsets: `[B + 1]` int64, where each position's moves begin.
      lines: how the positions were reached; None if that is not known, or the evaluator does not want it.
    """

    words: NDArray[np.uint64]
    moves: NDArray[np.uint16]
    offsets: NDArray[np.int64]
    lines: Lines | None = None

    def __len__(self) -> int:
        return len(self.words)

    @classmethod
    def from_boards(cls, boards: Sequence[chess.Board], *, with_lines: bool = False) -> PositionBatch:
        """Returns the batch of some Boards; the lines are their move stacks."""
        moves = [[encode_move(move) for move in legal_moves(settled(board))] for board in boards]
        lengths = np.array([len(of_board) for of_board in moves], np.int64)
        return cls(
            np.array([pack(board) for board in boards], np.uint64).reshape(-1, POSITION_WORDS),
            np.array([code for of_board in moves for code in of_board], np.uint16),
            np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)]),
            Lines.from_boards(boards) if with_lines else None,
        )

    def part(self, begin: int, end: int) -> PositionBatch:
        """Returns the positions from `begin` to `end`, the latter excluded."""
        offsets = self.offsets[begin : end + 1]
        moves = self.moves[offsets[0] : offsets[-1]]
        lines = self.lines.of(slice(begin, end)) if self.lines else None
        return PositionBatch(self.words[begin:end], moves, offsets - offsets[0], lines)

    def rows(self, chosen: NDArray[np.bool_]) -> PositionBatch:
        """Returns the positions that a mask `[B]` chooses, in their order."""
        lengths = np.diff(self.offsets)
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths[chosen])])
        lines = self.lines.of(chosen) if self.lines else None
        return PositionBatch(self.words[chosen], self.moves[np.repeat(chosen, lengths)], offsets, lines)

    def by_move(self, values: NDArray[Any]) -> NDArray[Any]:
        """Returns each position's value at all of its moves, `[M]`; of a lone one `[1]`, to broadcast."""
        return values if len(values) == 1 else np.repeat(values, np.diff(self.offsets))

    def boards(self) -> Iterator[tuple[chess.Board, list[chess.Move]]]:
        """Yields every position with its legal moves in canonical order."""
        for i, words in enumerate(self.words):
            codes = self.moves[self.offsets[i] : self.offsets[i + 1]]
            yield unpack(words.tolist()), [decode_move(int(code)) for code in codes]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The answer to a batch.

    Attributes:
      wdl: `[B, 3]` float32 win, draw, loss for the side to move; sums to 1.
      priors: `[M]` float32 in the order of the batch's moves; sums to 1 over each position's moves.
      bounds: `[B, 2]` int8, the proven lower and upper result for the side to move in -1, 0, 1; None if
        nothing is proven. It must hold whatever the path to the position, at its clock.
    """

    wdl: NDArray[np.float32]
    priors: NDArray[np.float32]
    bounds: NDArray[np.int8] | None = None


class Evaluator(Protocol):
    """Anything that evaluates positions, without search state.

    A class that names it as its base inherits the defaults below: then `identity` and `evaluate` are enough.

    Attributes:
      identity: what makes its answers the same as another's.
      kernel_kind: where it runs, one of `kinds`. One that is not EXTERNAL runs inside the search loop.
      temperature: policy temperature that its kernel applies, 1 for none.
      weights: what its kernel reads, `int64[...]`.
      notes: what to know about it: lines for a person.
      hits: positions that endgame tablebases have answered so far.
      wants_lines: whether its answers depend on how a position was reached, as far as a batch says that.
      batch_size: the smallest batch that keeps it busy: a search with `MinibatchSize=auto` gathers so many
        leaves. Larger ones cost moves (docs/search.md).
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
    def calls_kernels(self) -> bool:
        """Whether it is one of the kernels, or has one as a part in this process."""
        return self.kernel_kind != EXTERNAL

    @abstractmethod
    def evaluate(self, batch: PositionBatch) -> Evaluation:
        """Returns WDL and priors of every position.

        Raises:
          EvaluatorError: if the evaluator fails.
        """

    def best_moves(self, board: chess.Board) -> list[chess.Move] | None:
        """Returns the moves that tablebases call best, None if there are none or they do not know."""
        return None

    def close(self) -> None:
        """Ends its processes and closes its files, if it has any. A second call does nothing."""
        return


def checked(batch: PositionBatch, evaluation: Evaluation) -> Evaluation:
    """Returns the evaluation, normalised, as float32 arrays.

    Raises:
      EvaluatorError: if shapes differ, or a number is missing, negative or does not sum to 1.
    """
    wdl = np.asarray(evaluation.wdl, np.float32)
    priors = np.asarray(evaluation.priors, np.float32)
    if wdl.shape != (len(batch), 3) or priors.shape != batch.moves.shape:
        raise EvaluatorError(
            f"the evaluator answered {wdl.shape} values and {priors.shape} priors to {len(batch)} positions"
            f" with {len(batch.moves)} moves"
        )
    sums = np.add.reduceat(priors, batch.offsets[:-1]) if len(batch) else np.zeros(0, np.float32)
    totals = wdl.sum(axis=1)
    # what is no number is not >= 0, and what is infinite is not near 1
    good = (np.abs(totals - 1) <= SUM_TOLERANCE) & (np.abs(sums - 1) <= SUM_TOLERANCE)
    good &= (wdl >= 0).all(axis=1)
    good_moves = priors >= 0
    if not (good.all() and good_moves.all()):
        raise EvaluatorError(
            f"the evaluator's answer is not a probability: {_first_bad(batch, good, ~good_moves)}"
        )
    wdl, priors = wdl / totals[:, None], priors / batch.by_move(sums)
    return Evaluation(wdl, priors, _checked_bounds(batch, evaluation.bounds))


def _checked_bounds(batch: PositionBatch, bounds: NDArray[np.int8] | None) -> NDArray[np.int8] | None:
    if bounds is None:
        return None
    bounds = np.asarray(bounds, np.int8)
    if bounds.shape != (len(batch), 2):
        raise EvaluatorError(f"the evaluator answered {bounds.shape} bounds to {len(batch)} positions")
    bad = (bounds[:, 0] > bounds[:, 1]) | (np.abs(bounds) > 1).any(axis=1)
    if bad.any():
        fen = unpack(batch.words[int(np.argmax(bad))].tolist()).fen()
        raise EvaluatorError(f"the evaluator's bounds are not an interval within -1 and 1: {fen}")
    return bounds


def _first_bad(batch: PositionBatch, good: NDArray[np.bool_], bad_moves: NDArray[np.bool_]) -> str:
    row = int(np.argmin(good))
    if bad_moves.any():
        row = int(np.searchsorted(batch.offsets, np.argmax(bad_moves), "right")) - 1
    return unpack(batch.words[row].tolist()).fen()


def answer(evaluator: Evaluator, batch: PositionBatch) -> Evaluation:
    """Returns the evaluator's checked answer.

    Raises:
      EvaluatorError: if it fails, or answers what is no evaluation.
    """
    try:
        return checked(batch, evaluator.evaluate(batch))
    except GraphSearchError:
        raise
    except Exception as error:
        raise EvaluatorDefectError(f"the evaluator failed: {type(error).__name__}: {error}") from error


class AbsentEvaluator(Evaluator):
    """Stands for the evaluator that a file is bound to, where nothing is to be evaluated."""

    def __init__(self, identity: EvaluatorIdentity) -> None:
        self.identity = identity

    def evaluate(self, batch: PositionBatch) -> Evaluation:
        """Raises EvaluatorError: there is nobody to ask."""
        raise EvaluatorError(
            f"the graph was opened without its evaluator ({self.identity.describe()}), which {len(batch)} new"
            " positions need; open it with that one"
        )
