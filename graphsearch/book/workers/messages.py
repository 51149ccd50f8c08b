"""What a worker and the process that it works for say to each other, over three pipes or four.

tasks      Errand, Stop, Leave ->    <- Ready or Failure; Beat; Finished
ledger     Answers ->                <- Ask, which waits for them; Publish, GiveBack, which do not
           News ->                   <- Catchup, which waits for it
records    Saved or Failure ->       <- list[RecordBatch], which waits for it
reading    Opened ->                 <- Open, which waits for it
           Found or Failure ->       <- Find, which waits for it
           Held or Failure ->        <- Hold, which waits for it; Rest, which does not

The last one is there if the worker cannot read the file itself.
Leave, Ready, Beat and Failure are those of every worker: `graphsearch.workers`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...evaluators.protocol import Evaluation, PositionBatch
from ...record.node import RecordBatch
from ...store.transpositions.saved import Loaded
from ..desk import Task

Words = NDArray[np.uint64]


# ------------------------------------------------------------------ tasks
@dataclass(frozen=True, slots=True)
class Errand:
    """A task for a worker, and the run of the file that its records carry."""

    task: Task
    run: int


@dataclass(frozen=True, slots=True)
class Stop:
    """Asks a worker to end its search after the wave. No task follows."""


@dataclass(frozen=True, slots=True)
class Finished:
    """The end of a task: visits that it added, evaluations that it paid for, and what went wrong, if so.

    Attributes:
      is_whole: whether its search came to its limit.
    """

    visits: int
    evaluations: int
    error: str = ""
    is_whole: bool = True


# ------------------------------------------------------------------ ledger
@dataclass(frozen=True, slots=True)
class Ask:
    """Asks who evaluates some positions.

    Attributes:
      words: `[B, 10]`.
      waits: answer only when one of them at least is known, or leased to this worker.
    """

    words: Words
    waits: bool


@dataclass(frozen=True, slots=True)
class Answers:
    """What becomes of the positions of an `Ask`: those that are neither mine nor known are waited for.

    Attributes:
      mine: `[B]` bool, leased to the worker that asked: it evaluates them and publishes.
      known: `[K]` int64, indices of those that others have evaluated.
      said: of these.
    """

    mine: NDArray[np.bool_]
    known: NDArray[np.int64]
    said: Evaluation


@dataclass(frozen=True, slots=True)
class Publish:
    """What a worker has evaluated, as the evaluator said it, and the seconds that it took."""

    batch: PositionBatch
    said: Evaluation
    seconds: float


@dataclass(frozen=True, slots=True)
class GiveBack:
    """Positions that the evaluator has failed to evaluate."""

    words: Words


@dataclass(frozen=True, slots=True)
class Catchup:
    """Asks what others have saved since it was last asked. Nothing of the worker's is in flight then."""


@dataclass(frozen=True, slots=True)
class News:
    """What others have saved.

    Attributes:
      batches: records as they are in the file, later ones newer; None: too many, read them from there.
      commits: how many commits there were.
    """

    batches: list[RecordBatch] | None
    commits: int


# ------------------------------------------------------------------ records
@dataclass(frozen=True, slots=True)
class Saved:
    """What was sent is in the file; size of its write-ahead log if a reader keeps that too long, else 0."""

    log_held: int


# ------------------------------------------------------------------ reading
@dataclass(frozen=True, slots=True)
class Open:
    """Asks about the graph as a whole."""


@dataclass(frozen=True, slots=True)
class Opened:
    """The number of the evaluator that records carry, and the entries of the file that prove mates."""

    evaluator: int
    proofs: Loaded


@dataclass(frozen=True, slots=True)
class Find:
    """Asks for the records of some positions, `[K, 10]`, in the state of the graph that is held."""

    words: Words


@dataclass(frozen=True, slots=True)
class Found:
    """Which positions have a record, `[K]`, and the records of those, in order."""

    have: NDArray[np.bool_]
    batch: RecordBatch


@dataclass(frozen=True, slots=True)
class Hold:
    """Asks that the present state of the graph is held."""


@dataclass(frozen=True, slots=True)
class Held:
    """The state that is held, by its filter (`FilterArrays`).

    Attributes:
      firsts, segments: of it.
      chunks: names of the chunks, in order. blooms: their bloom filters, of those that were not sent before.
    """

    firsts: NDArray[np.uint64]
    segments: NDArray[np.int64]
    chunks: NDArray[np.int64]
    blooms: dict[int, NDArray[np.uint8]]


@dataclass(frozen=True, slots=True)
class Rest:
    """Says that no state of the graph is needed for now."""
