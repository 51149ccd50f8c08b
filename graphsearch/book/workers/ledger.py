"""Which positions are being evaluated, by whom, and what came out: none is evaluated twice.

    ask      a position that nobody has is leased to whoever asks first; others wait for the answer
    publish  the answer is there for all; it stays until its record is in the file and every worker sees that
    release  what a worker had leased when it ended is leased to the next who asks; what it published stays

A worker evaluates and publishes what it has leased before it waits for others, so that no two wait for each
other. Answers are handed out as the evaluator gave them, so that a record is the same whoever makes it.
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

from ...evaluators.pool.throughput import Throughput
from ...evaluators.protocol import Evaluation
from ...record.node import RecordBatch
from ...store.order import identities
from .merging import Merged
from .messages import Answers, Ask, News, Publish, Words

MOST_NEWS = 200_000  # records kept for a worker, some 50 MB, which all workers share
LOOK_SECONDS = 1.0  # between two looks of one who waits, whether its worker still runs
CLOCK_SHIFT, CLOCK_MASK = np.uint64(12), np.uint64(255)


@dataclass(eq=False)
class Holder:
    """A worker's process, for the ledger.

    Attributes:
      paid: positions that it has published. settled: those of them that were for tasks it has finished.
      leased: those that it has leased and not published.
      deadline: when it counts as hung, by `time.monotonic`; `inf` while it has nothing to evaluate.
      seen: number of the last commit that its search sees; None: it searches nothing.
      is_gone: whether it has ended. is_fresh: whether it has published nothing yet.
      news: what others have saved since it last asked; None: too much. waiting: records of these.
      committed: answers to drop when all see them, by number of the commit.
    """

    number: int
    paid: int = 0
    settled: int = 0
    leased: int = 0
    deadline: float = inf
    seen: int | None = None
    is_gone: bool = False
    is_fresh: bool = True
    news: list[RecordBatch] | None = field(default_factory=list)
    waiting: int = 0
    committed: deque[tuple[int, list[bytes]]] = field(default_factory=deque)


@dataclass(frozen=True, slots=True)
class _Published:
    """Row of what was published."""

    source: Publish
    row: int

    @property
    def wdl(self) -> NDArray[np.float32]:
        return self.source.said.wdl[self.row]  # type: ignore[no-any-return]

    @property
    def priors(self) -> NDArray[np.float32]:
        offsets = self.source.batch.offsets
        return self.source.said.priors[offsets[self.row] : offsets[self.row + 1]]

    def bounds_at(self, clock: int) -> tuple[int, int]:
        """Returns what is proven for a path with this halfmove clock, as `NodeRecord.bounds_at`."""
        if self.source.said.bounds is None:
            return -1, 1
        lower, upper = self.source.said.bounds[self.row].tolist()
        if clock <= int(self.source.batch.words[self.row, 8] >> CLOCK_SHIFT & CLOCK_MASK):
            return lower, upper
        return min(lower, 0), max(upper, 0)


class Ledger:
    """Leases of positions and what they led to. Its methods are for any thread.

    Attributes:
      commits: how many commits there were. published: how many evaluations.
    """

    def __init__(self, *, timeout: float | None = None) -> None:
        """Makes an empty one.

        Args:
          timeout: seconds after which a worker that publishes nothing of what it has leased counts as hung;
            None: by what positions take, generously, as in a pool.
        """
        self._timeout = timeout
        self._throughput = Throughput()
        self._changed = threading.Condition()
        self._entries: dict[bytes, Holder | _Published] = {}
        self._holders: set[Holder] = set()
        self._left: deque[tuple[int, list[bytes]]] = deque()  # what ended workers have committed
        self.commits = 0
        self.published = 0

    def __len__(self) -> int:
        return len(self._entries)

    # ---------------------------------------------------------- workers
    def enter(self, number: int) -> Holder:
        """Returns a worker that has just been started."""
        holder = Holder(number)
        with self._changed:
            self._holders.add(holder)
        return holder

    def begins(self, holder: Holder) -> None:
        """Notes that a worker gets a task: its search sees what is committed now."""
        with self._changed:
            holder.seen = self.commits

    def ends(self, holder: Holder) -> None:
        """Notes that a worker has finished a task, and holds nothing that only it knows."""
        with self._changed:
            holder.seen = None
            self._forget()

    def end(self, holder: Holder) -> None:
        """Notes that a worker's process is gone: what waits for it, on its behalf, returns."""
        with self._changed:
            holder.is_gone = True
            self._changed.notify_all()

    def release(self, holder: Holder) -> None:
        """Frees what an ended worker had leased, when all that it sent has been taken in."""
        with self._changed:
            for name in [name for name, entry in self._entries.items() if entry is holder]:
                del self._entries[name]
            self._holders.discard(holder)
            self._left.extend(holder.committed)
            self._changed.notify_all()
            self._forget()

    # ---------------------------------------------------------- positions
    def ask(self, holder: Holder, question: Ask) -> Answers:
        """Returns which positions are the worker's to evaluate, and what is known of the others."""
        names = names_of(question.words)
        with self._changed:
            while question.waits and not holder.is_gone and not self._any_free(names):
                self._changed.wait(LOOK_SECONDS)
            return self._answered(holder, question, names)

    def _any_free(self, names: Sequence[bytes]) -> bool:
        return any(not isinstance(self._entries.get(name), Holder) for name in names)

    def _answered(self, holder: Holder, question: Ask, names: Sequence[bytes]) -> Answers:
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
        self._lease(holder, int(mine.sum()))
        return _answers(mine, known, found, question.words)

    def _lease(self, holder: Holder, count: int) -> None:
        holder.leased = count
        self._set_deadline(holder)

    def _set_deadline(self, holder: Holder) -> None:
        if not holder.leased:
            holder.deadline = inf
            return
        seconds = self._timeout or self._throughput.allowance(holder.leased, first=holder.is_fresh)
        holder.deadline = time.monotonic() + seconds

    def publish(self, holder: Holder, found: Publish) -> None:
        """Takes in what a worker has evaluated."""
        with self._changed:
            for row, name in enumerate(names_of(found.batch.words)):
                self._entries[name] = _Published(found, row)
            holder.paid += len(found.batch)
            self.published += len(found.batch)
            holder.leased = max(0, holder.leased - len(found.batch))
            if not holder.is_fresh:  # else with what it loaded or compiled; no measure of the others
                self._throughput.learn(len(found.batch), found.seconds, found.seconds)
            holder.is_fresh = False
            self._set_deadline(holder)
            self._changed.notify_all()

    def give_back(self, holder: Holder, words: Words) -> None:
        """Frees positions that a worker could not evaluate."""
        with self._changed:
            for name in names_of(words):
                if self._entries.get(name) is holder:
                    del self._entries[name]
            self._lease(holder, 0)
            self._changed.notify_all()

    # ---------------------------------------------------------- what is in the file
    def committed(self, holder: Holder, words: Iterable[Words], found: Merged | None = None) -> None:
        """Notes that records of a worker are in the file now, and what became of them."""
        with self._changed:
            self.commits += 1
            names = [name for some in words for name in names_of(some) if name in self._entries]
            holder.committed.append((self.commits, names))
            self._forget()
            if found is not None:
                for other in self._holders:
                    if other is not holder or other.news:  # else it would go back to what came before its own
                        _tell(other, found.records)
                _tell(holder, found.better)

    def news(self, holder: Holder) -> News:
        """Returns what a worker has to take in to have its records as they are in the file.

        No commit may be under way. From now on its search sees all of them.
        """
        with self._changed:
            holder.seen = self.commits
            self._forget()
            found = News(holder.news, self.commits)
            holder.news, holder.waiting = [], 0
            return found

    def _forget(self) -> None:
        """Drops the answers that every worker finds in the file.

        The one that has committed a record has it; the others see it if their search began after that, or
        has looked since.
        """
        self._forget_until(self._left, self._seen_by(self._holders))
        for holder in self._holders:
            self._forget_until(holder.committed, self._seen_by(self._holders - {holder}))

    def _seen_by(self, holders: Iterable[Holder]) -> int:
        """Returns the number of the last commit that all searches of some workers see."""
        return min((holder.seen for holder in holders if holder.seen is not None), default=self.commits)

    def _forget_until(self, committed: deque[tuple[int, list[bytes]]], seen: int) -> None:
        while committed and committed[0][0] <= seen:
            for name in committed.popleft()[1]:
                if isinstance(self._entries.get(name), _Published):
                    del self._entries[name]


def _tell(holder: Holder, batch: RecordBatch) -> None:
    """Keeps records for a worker until it asks, if they are not too many."""
    if holder.news is None or not len(batch):
        return
    holder.news.append(batch)
    holder.waiting += len(batch)
    if holder.waiting > MOST_NEWS:
        holder.news = None


def names_of(words: Words) -> list[bytes]:
    """Returns what tells the records of packed positions apart, `[B, 10]`, as keys of a dict."""
    own = identities(words)
    data, size = own.tobytes(), own.shape[1] * own.itemsize
    return [data[i : i + size] for i in range(0, len(data), size)]


def _answers(
    mine: NDArray[np.bool_], known: Sequence[int], found: Sequence[_Published], words: Words
) -> Answers:
    wdl = np.array([answer.wdl for answer in found], np.float32).reshape(-1, 3)
    priors = np.concatenate([np.zeros(0, np.float32), *(answer.priors for answer in found)])
    bounds = None
    if any(answer.source.said.bounds is not None for answer in found):
        clocks = (words[known, 8] >> CLOCK_SHIFT & CLOCK_MASK).tolist()
        pairs = [answer.bounds_at(clock) for answer, clock in zip(found, clocks, strict=True)]
        bounds = np.array(pairs, np.int8).reshape(-1, 2)
    return Answers(mine, np.array(known, np.int64), Evaluation(wdl, priors, bounds))
