"""Leases of positions under evaluation, and their results: no position is evaluated twice.

    lease    the first worker that asks for a position gets its lease; others wait for the result
    publish  all workers can read the result until its record is in the file and every worker sees it there
    release  leases of an ended worker are free again; its published results stay

A worker evaluates and publishes its leased positions before it waits for others, which rules out deadlocks.
Workers get results bit for bit, so that a record does not depend on the worker.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import inf

import numpy as np
from numpy.typing import NDArray

from ...evaluators.pool import Throughput
from ...evaluators.protocol import Evaluation
from ...position.board import clock_of_words
from ...position.fens import clocks_of
from ...store.order import identities
from ...store.record.node import RecordBatch
from .messages import LeaseReply, LeaseRequest, Publish, Updates, Words
from .writer import Merged

MOST_UPDATES = 200_000  # records kept for a worker: some 50 MB, shared by all workers
LOOK_SECONDS = 1.0  # between two checks whether a waiting worker still runs


@dataclass(eq=False)
class LeaseHolder:
    """A worker's process that can hold leases.

    Attributes:
      paid: number of published positions. settled: number of these in finished tasks.
      saved: positions that are new in the file since its task began.
      leased: number of leased positions without a result.
      deadline: time after which it counts as hung, by `time.monotonic`; `inf` without leases.
      seen: number of the last commit that its search sees; None: it searches nothing.
      is_gone: whether it has ended. is_fresh: whether it has published nothing yet.
      updates: records that others have saved since its last request; None: too many. waiting: their number.
      committed: results to drop once all workers see their commit: (number of the commit, names).
    """

    number: int
    paid: int = 0
    settled: int = 0
    saved: int = 0
    leased: int = 0
    deadline: float = inf
    seen: int | None = None
    is_gone: bool = False
    is_fresh: bool = True
    updates: list[RecordBatch] | None = field(default_factory=list)
    waiting: int = 0
    committed: deque[tuple[int, list[bytes]]] = field(default_factory=deque)


@dataclass(frozen=True, slots=True)
class _Published:
    """A row of published results."""

    source: Publish
    row: int

    @property
    def wdl(self) -> NDArray[np.float32]:
        return self.source.evaluation.wdl[self.row]  # type: ignore[no-any-return]

    @property
    def priors(self) -> NDArray[np.float32]:
        offsets = self.source.batch.offsets
        return self.source.evaluation.priors[offsets[self.row] : offsets[self.row + 1]]

    def bounds_at(self, clock: int) -> tuple[int, int]:
        """Returns the proven bounds for a path with this halfmove clock, as `NodeRecord.bounds_at`."""
        if self.source.evaluation.bounds is None:
            return -1, 1
        lower, upper = self.source.evaluation.bounds[self.row].tolist()
        if clock <= clock_of_words(self.source.batch.words[self.row]):
            return lower, upper
        return min(lower, 0), max(upper, 0)


class Ledger:
    """Leases of positions and their results. Its methods are thread-safe.

    Attributes:
      commits: number of commits. published: number of evaluations.
    """

    def __init__(self, *, timeout: float | None = None) -> None:
        """Creates an empty ledger.

        Args:
          timeout: seconds without a result after which a worker with leases counts as hung; None: from
            the measured time per position, generously, as in a pool.
        """
        self._timeout = timeout
        self._throughput = Throughput()
        self._changed = threading.Condition()
        self._entries: dict[bytes, LeaseHolder | _Published] = {}
        self._holders: set[LeaseHolder] = set()
        self._left: deque[tuple[int, list[bytes]]] = deque()  # commits of ended workers
        self.commits = 0
        self.published = 0

    def __len__(self) -> int:
        return len(self._entries)

    # ---------------------------------------------------------- workers
    def enter(self, number: int) -> LeaseHolder:
        """Returns the holder for a worker that was just started."""
        holder = LeaseHolder(number)
        with self._changed:
            self._holders.add(holder)
        return holder

    def begins(self, holder: LeaseHolder) -> None:
        """Begins a task of a worker; its search sees all commits so far."""
        with self._changed:
            holder.seen, holder.saved = self.commits, 0

    def ends(self, holder: LeaseHolder) -> None:
        """Ends a task of a worker that has saved everything."""
        with self._changed:
            holder.seen = None
            self._forget()

    def end(self, holder: LeaseHolder) -> None:
        """Marks a worker as ended; threads waiting on its behalf return."""
        with self._changed:
            holder.is_gone = True
            self._changed.notify_all()

    def release(self, holder: LeaseHolder) -> None:
        """Frees the leases of an ended worker; the caller has handled all its messages."""
        with self._changed:
            for name in [name for name, entry in self._entries.items() if entry is holder]:
                del self._entries[name]
            self._holders.discard(holder)
            self._left.extend(holder.committed)
            self._changed.notify_all()
            self._forget()

    # ---------------------------------------------------------- positions
    def ask(self, holder: LeaseHolder, question: LeaseRequest) -> LeaseReply:
        """Returns the positions that the worker must evaluate, and the known results of the others."""
        names = names_of(question.words)
        with self._changed:
            while question.waits and not holder.is_gone:
                if any(not isinstance(self._entries.get(name), LeaseHolder) for name in names):
                    break
                self._changed.wait(LOOK_SECONDS)
            return self._answered(holder, question, names)

    def _answered(self, holder: LeaseHolder, question: LeaseRequest, names: Sequence[bytes]) -> LeaseReply:
        mine = np.zeros(len(names), bool)
        found: list[_Published] = []
        known: list[int] = []
        for i, name in enumerate(names):
            entry = self._entries.get(name, holder)
            if isinstance(entry, _Published):
                known.append(i)
                found.append(entry)
            elif entry is holder:
                self._entries[name] = holder
                mine[i] = True
        self._set_leased(holder, int(mine.sum()))
        return _answers(mine, known, found, question.words)

    def _set_leased(self, holder: LeaseHolder, count: int) -> None:
        """Sets the number of a worker's leases, and its deadline."""
        holder.leased, holder.deadline = count, inf
        if count:
            seconds = self._timeout or self._throughput.allowance(count, first=holder.is_fresh)
            holder.deadline = time.monotonic() + seconds

    def publish(self, holder: LeaseHolder, found: Publish) -> None:
        """Adds results of a worker."""
        with self._changed:
            for row, name in enumerate(names_of(found.batch.words)):
                self._entries[name] = _Published(found, row)
            holder.paid += len(found.batch)
            self.published += len(found.batch)
            if not holder.is_fresh:  # else the time includes loading and compiling
                self._throughput.learn(len(found.batch), found.seconds, found.seconds)
            holder.is_fresh = False
            self._set_leased(holder, max(0, holder.leased - len(found.batch)))
            self._changed.notify_all()

    def give_back(self, holder: LeaseHolder, words: Words) -> None:
        """Frees leased positions that a worker could not evaluate."""
        with self._changed:
            for name in names_of(words):
                if self._entries.get(name) is holder:
                    del self._entries[name]
            self._set_leased(holder, 0)
            self._changed.notify_all()

    # ---------------------------------------------------------- commits
    def committed(self, holder: LeaseHolder, words: Iterable[Words], found: Merged | None = None) -> None:
        """Counts a commit of a worker's records, and queues the merged records for the other workers."""
        with self._changed:
            self.commits += 1
            names = [name for some in words for name in names_of(some) if name in self._entries]
            holder.committed.append((self.commits, names))
            self._forget()
            if found is not None:
                holder.saved += found.fresh
                for other in self._holders:
                    if other is not holder or other.updates:  # pending updates must not undo its own
                        _add_update(other, found.records)
                _add_update(holder, found.better)

    def updates(self, holder: LeaseHolder) -> Updates:
        """Returns the records that a worker must renew to match the file; its search sees all commits then.

        The caller prevents commits meanwhile.
        """
        with self._changed:
            holder.seen = self.commits
            self._forget()
            found = Updates(holder.updates, self.commits)
            holder.updates, holder.waiting = [], 0
            return found

    def _forget(self) -> None:
        """Drops the results that every worker finds in the file.

        The worker that committed a record has it in memory; the others see it if their search began or
        updated after the commit.
        """
        self._forget_until(self._left, self._seen_by(self._holders))
        for holder in self._holders:
            self._forget_until(holder.committed, self._seen_by(self._holders - {holder}))

    def _seen_by(self, holders: Iterable[LeaseHolder]) -> int:
        """Returns the number of the last commit that all these workers see."""
        return min((holder.seen for holder in holders if holder.seen is not None), default=self.commits)

    def _forget_until(self, committed: deque[tuple[int, list[bytes]]], seen: int) -> None:
        while committed and committed[0][0] <= seen:
            for name in committed.popleft()[1]:
                if isinstance(self._entries.get(name), _Published):
                    del self._entries[name]


def _add_update(holder: LeaseHolder, batch: RecordBatch) -> None:
    """Queues records for a worker's next request, unless there are too many."""
    if holder.updates is None or not len(batch):
        return
    holder.updates.append(batch)
    holder.waiting += len(batch)
    if holder.waiting > MOST_UPDATES:
        holder.updates = None


def names_of(words: Words) -> list[bytes]:
    """Returns the identities of packed positions, `[B, 10]`, as keys of a dict."""
    own = identities(words)
    data, size = own.tobytes(), own.shape[1] * own.itemsize
    return [data[i : i + size] for i in range(0, len(data), size)]


def _answers(
    mine: NDArray[np.bool_], known: Sequence[int], found: Sequence[_Published], words: Words
) -> LeaseReply:
    wdl = np.array([answer.wdl for answer in found], np.float32).reshape(-1, 3)
    priors = np.concatenate([np.zeros(0, np.float32), *(answer.priors for answer in found)])
    bounds = None
    if any(answer.source.evaluation.bounds is not None for answer in found):
        clocks = clocks_of(words[known]).tolist()
        pairs = [answer.bounds_at(clock) for answer, clock in zip(found, clocks, strict=True)]
        bounds = np.array(pairs, np.int8).reshape(-1, 2)
    return LeaseReply(mine, np.array(known, np.int64), Evaluation(wdl, priors, bounds))
