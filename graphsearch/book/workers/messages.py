"""Messages between the builder and a worker, over three or four pipes.

pipe       from the worker                            from the builder
tasks      Ready or Failure; Beat; Outcome            TaskRequest, Stop, Leave
ledger     LeaseRequest; GetUpdates                   LeaseReply; Updates
           Publish, ReleaseLeases                     (no reply)
records    list[RecordBatch]                          Saved or Failure
reading    Open; Find; TakeSnapshot                   Opened; Found or Failure; Snapshot or Failure
           DropSnapshot                               (no reply)

The pipe `reading` exists if the worker cannot open the file itself.
Leave, Ready, Beat and Failure are those of every worker: `graphsearch.workers.messages`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...evaluators.protocol import Evaluation, PositionBatch
from ...store.record.node import RecordBatch
from ...store.transpositions.saved import Loaded
from ..executor import Task

Words = NDArray[np.uint64]


# ------------------------------------------------------------------ tasks
@dataclass(frozen=True, slots=True)
class TaskRequest:
    """A task for a worker, and the run of the file that its records carry."""

    task: Task
    run: int


@dataclass(frozen=True, slots=True)
class Stop:
    """Asks a worker to end its search after the wave. No task follows."""


# ------------------------------------------------------------------ ledger
@dataclass(frozen=True, slots=True)
class LeaseRequest:
    """Asks for the leases or the results of some positions.

    Attributes:
      words: `[B, 10]`.
      waits: whether the reply must wait until at least one of them is known or free.
    """

    words: Words
    waits: bool


@dataclass(frozen=True, slots=True)
class LeaseReply:
    """The reply to a `LeaseRequest`; others evaluate the positions that are neither `mine` nor `known`.

    Attributes:
      mine: `[B]` bool, leased to the asking worker, which must evaluate and publish them.
      known: `[K]` int64, indices of the positions with a result.
      evaluation: of the known positions.
    """

    mine: NDArray[np.bool_]
    known: NDArray[np.int64]
    evaluation: Evaluation


@dataclass(frozen=True, slots=True)
class Publish:
    """Positions, their evaluation as the evaluator gave it, and the seconds that it took."""

    batch: PositionBatch
    evaluation: Evaluation
    seconds: float


@dataclass(frozen=True, slots=True)
class ReleaseLeases:
    """Releases leased positions that the evaluator has failed to evaluate."""

    words: Words


@dataclass(frozen=True, slots=True)
class GetUpdates:
    """Asks for the records that others have saved since the last request; no visit is in flight."""


@dataclass(frozen=True, slots=True)
class Updates:
    """Records that others have saved.

    Attributes:
      batches: as they are in the file, later ones newer; None: too many, read them from the file.
      commits: number of commits so far.
    """

    batches: list[RecordBatch] | None
    commits: int


# ------------------------------------------------------------------ records
@dataclass(frozen=True, slots=True)
class Saved:
    """The records are in the file. `log_held`: size of its write-ahead log if a reader keeps it too long."""

    log_held: int


# ------------------------------------------------------------------ reading
@dataclass(frozen=True, slots=True)
class Open:
    """Asks about the graph as a whole."""


@dataclass(frozen=True, slots=True)
class Opened:
    """The evaluator's number in records, and the transposition entries of the file that prove mates."""

    evaluator: int
    proofs: Loaded


@dataclass(frozen=True, slots=True)
class Find:
    """Asks for the records of some positions, `[K, 10]`, in the snapshot."""

    words: Words


@dataclass(frozen=True, slots=True)
class Found:
    """The flags of the positions with a record, `[K]` bool, and these records, in order."""

    have: NDArray[np.bool_]
    batch: RecordBatch


@dataclass(frozen=True, slots=True)
class TakeSnapshot:
    """Asks for a snapshot of the present state of the graph."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The filter of a snapshot (`FilterArrays`).

    Attributes:
      firsts, segments: of the filter.
      chunks: names of the chunks, in order. blooms: bloom filters of the chunks not sent before.
    """

    firsts: NDArray[np.uint64]
    segments: NDArray[np.int64]
    chunks: NDArray[np.int64]
    blooms: dict[int, NDArray[np.uint8]]


@dataclass(frozen=True, slots=True)
class DropSnapshot:
    """Releases the snapshot."""
