"""Evaluates the records of a file in batches, in a thread beside the one that reads and writes.

here        read | read ahead | take, write | take, write ...
evaluator          batch 1 ---|- batch 2 ---|- batch 3 ...
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ...base.errors import CorruptRecordError
from ...evaluators.protocol import Evaluation, Evaluator, PositionBatch, answer
from ...position.board import board_of, key_of_words, legal_moves
from ...position.legality_kernel import ROOM
from ...position.values import D_SCALE
from ...store.codec.bulk import board_tables, columns_of, owned
from ...store.record.node import UNPROVEN, NodeRecord, RecordBatch, flags_of, prior_codes
from ...store.record.provenance import BY_RULE
from ...store.record.ranking import edge_of, node_mean
from ...store.store import Store
from .relay_kernel import list_moves, relay_edges

FIRST_BATCH, LEAST_BATCH, LARGEST_BATCH = 256, 16, 4096  # positions
BATCH_SECONDS = 0.5  # a batch takes between half of this and this, if its size allows it
SAVE_SECONDS = 3.0  # of evaluations: a killed process loses at most these
AHEAD = 8  # batches given to the evaluator, the present one included: saving and merging take seconds


@dataclass(frozen=True)
class EvaluatingProgress:
    """Progress of a reevaluation.

    Attributes:
      stage: name of the present stage. done, total: records or positions of this stage.
      evaluated: positions evaluated by this call. seconds: since it began.
    """

    stage: str
    done: int
    total: int
    evaluated: int
    seconds: float

    @property
    def rate(self) -> float:
        """Evaluations per second."""
        return self.evaluated / self.seconds if self.seconds else 0.0


@dataclass(frozen=True, slots=True)
class Reevaluation:
    """An evaluator's answers for some records, quantised as in a record.

    Attributes:
      records: the records evaluated.
      v: `[R]` float32 value for the side to move. d: `[R]` uint16 draws per mille.
      codes: P codes as in `RecordBatch`. moves: `encode_move` of the move of each.
      flags: `[R]` uint8 bounds, as in records: exact where tablebases know the result.
    """

    records: RecordBatch
    moves: NDArray[np.uint16]
    v: NDArray[np.float32]
    d: NDArray[np.uint16]
    codes: NDArray[np.uint8]
    flags: NDArray[np.uint8]

    @property
    def is_exact(self) -> NDArray[np.bool_]:
        """Mask of the proven results, which do not come from an evaluator."""
        return np.asarray(self.flags != UNPROVEN)


def done_of(batch: RecordBatch, number: int) -> NDArray[np.bool_]:
    """Returns a mask of the records that already come from an evaluator, or from the rules, `[R]`."""
    ends = np.diff(batch.code_offsets) == 0
    return np.asarray((batch.evaluator == number) | (batch.evaluator == BY_RULE) | ends)


def positions_of(records: RecordBatch) -> PositionBatch:
    """Returns the positions of records that are not terminal, with their legal moves.

    Raises:
      CorruptRecordError: if a record does not have one prior for each of them.
    """
    moves = np.zeros(len(records.codes), np.uint16)
    words = owned(records.words, np.uint64)
    offsets = owned(records.code_offsets, np.int64)
    misfit = list_moves(board_tables(), words.reshape(-1), offsets, moves, np.zeros(ROOM, np.uint16))
    if misfit >= 0:
        key = key_of_words(records.words[misfit].tolist())
        raise CorruptRecordError(
            f"record {key:016x} does not have one prior for each legal move; `graphsearch store verify` lists"
            " such records, `graphsearch store salvage` writes a file without them"
        )
    return PositionBatch(words, moves, offsets)


def quantised(records: RecordBatch, moves: NDArray[np.uint16], evaluation: Evaluation) -> Reevaluation:
    """Returns an evaluation quantised as in records, exactly as a search would write it."""
    v = evaluation.wdl[:, 0] - evaluation.wdl[:, 2]
    draws = np.floor(D_SCALE * evaluation.wdl[:, 1].astype(np.float64) + 0.5)
    most = np.floor(D_SCALE * (1.0 - np.abs(v.astype(np.float64))) + 0.5)
    flags = open_flags(len(records)) if evaluation.bounds is None else flags_of(evaluation.bounds)
    return Reevaluation(
        records=records,
        moves=moves,
        v=v,
        d=np.minimum(draws, most).astype(np.uint16),
        codes=prior_codes(evaluation.priors),
        flags=flags,
    )


def open_flags(count: int) -> NDArray[np.uint8]:
    """Returns the flags of `count` records without a proof."""
    return np.full(count, UNPROVEN, np.uint8)


def read_portions(store: Store, stop: threading.Event) -> Iterator[RecordBatch]:
    """Yields the records of a file in file order; ends once `stop` is set."""
    start: int | None = 0
    while start is not None and not stop.is_set():
        batch, start = store.portion(start)
        yield batch


def answers(
    evaluator: Evaluator, portions: Iterable[RecordBatch], stop: threading.Event
) -> Iterator[Reevaluation]:
    """Yields an evaluator's answers for all records, in their order.

    Args:
      evaluator: called from one thread at a time, another than this one.
      portions: records that are not terminal; the next ones are read while the evaluator works.
      stop: once it is set, no more batches are evaluated; the present one is still yielded.

    Raises:
      EvaluatorError: if the evaluator fails; its earlier answers have been yielded.
      CorruptRecordError: if a record does not fit its position.
    """
    with ThreadPoolExecutor(1, "graphsearch-evaluator") as thread:
        batches = _BatchEvaluator(evaluator)
        asked: deque[Future[Reevaluation]] = deque()
        source = _pieces(portions, batches)
        while True:
            while len(asked) < AHEAD and not stop.is_set() and (piece := next(source, None)) is not None:
                asked.append(thread.submit(batches.evaluate, piece))
            if stop.is_set():
                asked = deque(future for future in asked if not future.cancel())
            if not asked:
                return
            try:
                found = asked.popleft().result()
            except BaseException:
                for future in asked:
                    future.cancel()
                raise
            yield found


class _BatchEvaluator:
    """Evaluates batches, and adapts their size to BATCH_SECONDS."""

    def __init__(self, evaluator: Evaluator) -> None:
        self._evaluator = evaluator
        self._has_failed = False
        self.size = FIRST_BATCH

    def evaluate(self, records: RecordBatch) -> Reevaluation:
        """Returns the answers for some records.

        Raises:
          CancelledError: after a failure, when no answers are used any more.
        """
        if self._has_failed:
            raise CancelledError
        began = time.monotonic()
        try:
            positions = positions_of(records)
            found = quantised(records, positions.moves, answer(self._evaluator, positions))
        except BaseException:
            self._has_failed = True
            raise
        self._learn(len(records), time.monotonic() - began)
        return found

    def _learn(self, count: int, seconds: float) -> None:
        if seconds > BATCH_SECONDS:
            self.size = max(LEAST_BATCH, min(self.size, count // 2))
        elif seconds < BATCH_SECONDS / 2 and count >= self.size:
            self.size = min(LARGEST_BATCH, 2 * self.size)


def _pieces(portions: Iterable[RecordBatch], batches: _BatchEvaluator) -> Iterator[RecordBatch]:
    """Yields records in batches of the present size."""
    for portion in portions:
        first = 0
        while first < len(portion):
            last = min(len(portion), first + batches.size)
            yield portion.part(first, last)
            first = last


def reevaluated(answer: Reevaluation, evaluator: int, runs: NDArray[np.uint32]) -> RecordBatch:
    """Returns records with another evaluator's V, D and P; every visited edge keeps its numbers, by move.

    Args:
      answer: the evaluator's answers. evaluator: its number in the file. runs: `[R]` runs of the answers.
    """
    old = answer.records
    moves, visited = np.diff(old.code_offsets), np.diff(old.edge_offsets)
    out = RecordBatch.room(len(old), 0, int(moves[visited > 0].sum()))
    codes, scratch = owned(answer.codes, np.uint8), np.zeros(512, np.int64)
    edges = int(relay_edges(columns_of(old), codes, columns_of(out), scratch))
    return replace(
        old,
        v=answer.v,
        d=answer.d,
        evaluator=np.where(answer.is_exact, BY_RULE, evaluator).astype(np.uint8),
        flags=answer.flags,
        run=runs,
        codes=answer.codes,
        edge_offsets=out.edge_offsets,
        n=out.n[:edges],
        r=out.r[:edges],
        q=out.q[:edges],
        edge_d=out.edge_d[:edges],
    )


TRUSTED_SHARE = 10  # a move counts if its visits are at least those of the most visited move divided by this


@dataclass(frozen=True, slots=True)
class Favourite:
    """A root's favourite: the move of the largest value among those with a tenth of the most visits.

    Attributes:
      position: FEN. move: in SAN; the first in P while nothing is visited. q: node Q.
    """

    position: str
    move: str
    q: float


def favourites(store: Store) -> list[Favourite]:
    """Returns the favourite of every root of the file that has legal moves."""
    found = []
    for root in store.roots():
        board = board_of(root.position)
        record = store.read(board)
        if record is not None and record.codes:
            move = legal_moves(board)[record.order[favourite(record)]]
            found.append(Favourite(root.position, board.san(move), node_mean(record)[0]))
    return found


def favourite(record: NodeRecord) -> int:
    """Returns the index in descending P of the favourite move of a record with moves."""
    most = max((edge.n for edge in record.edges), default=0)
    if not most:
        return 0
    trusted = [k for k, edge in enumerate(record.edges) if edge.n * TRUSTED_SHARE >= most]
    return max(trusted, key=lambda k: (edge_of(record, k).value, -k))
