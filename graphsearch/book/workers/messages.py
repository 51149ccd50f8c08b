"""What a worker and the process that it works for say to each other, over three pipes.

tasks      Errand, Stop, Leave ->    <- Ready or Failure; Beat; Finished
ledger     Answers ->                <- Ask, which waits for them; Publish, GiveBack, which do not
           News ->                   <- Catchup, which waits for it
records    Saved or Failure ->       <- list[RecordBatch], which waits for it

Leave, Ready, Beat and Failure are those of every worker: `graphsearch.workers`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...evaluators.protocol import Evaluation, PositionBatch
from ...record.node import RecordBatch
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
