"""The common part of a shard's search: the saves of a cluster, and a report; the search of a lone shard."""

from __future__ import annotations

import threading
import time
from dataclasses import asdict, dataclass, replace
from typing import Any

from ...base.errors import StoreError, UnsavedError
from ...graph.graph import Graph
from ...graph.saving import Work
from ...store.record.node import NodeRecord
from ...store.sharded.saved_waves import Save, newest_age, note_save
from ...store.store import Store
from ...workers.process import peak_rss
from ..job import Control, SearchJob
from ..loop import GraphSearch
from ..results import Counts
from ..session import Session

PROGRESS_SECONDS = 0.3


@dataclass(slots=True)
class Traffic:
    """A shard's messages, and how its time was spent.

    Attributes:
      steps: steps in which all shards waited for each other.
      messages: sent to other shards. bytes: of them. rows: visits or bundles sent down.
      entry_levels: entries passed on, counted at each level. visit_levels: visits of them.
      passing, admitting, evaluating, backing: seconds of the phases of a wave, without waiting.
      waiting: seconds from a message to the answers of all others, sending included, without evaluations
        meanwhile.
    """

    steps: int = 0
    messages: int = 0
    bytes: int = 0
    rows: int = 0
    entry_levels: int = 0
    visit_levels: int = 0
    passing: float = 0.0
    admitting: float = 0.0
    evaluating: float = 0.0
    backing: float = 0.0
    waiting: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardProgress:
    """A search's progress by its leader: its own counts, all evaluations and nodes, and the root's record."""

    counts: Counts
    nodes: int
    seconds: float
    record: NodeRecord | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardReport(Counts):
    """One shard's report of a search.

    Attributes:
      number: of the shard. leads: whether it owned the root, where visits are counted.
      nodes: of the shard.
      stop_reason: why the search ended. problems: damage that was skipped. seconds: of the search.
      cpu_seconds: of its process meanwhile. peak_rss: its peak memory in bytes; None: unknown.
      root: the root's record with the forced visits of a search of some moves, which no file holds; None if
        there are none, or it does not lead.
    """

    number: int
    leads: bool
    nodes: int
    stop_reason: str
    seconds: float
    cpu_seconds: float
    peak_rss: int | None
    problems: list[str]
    traffic: Traffic
    root: NodeRecord | None = None

    def as_dict(self) -> dict[str, Any]:
        """Returns the report for JSON, without the root's record."""
        found = asdict(replace(self, root=None))
        del found["root"]
        return found


class ShardPart(Session):
    """One shard's part of a search.

    Attributes:
      progress: set by the leader at intervals; None before that.
    """

    _since: Save
    _save: Save
    _saved_age: int
    _cpu: float

    def take_up(self, since: Save) -> None:
        """Begins to add to the run of a save."""
        self.progress: ShardProgress | None = None
        self._root_record: NodeRecord | None = None  # with forced visits, at the end
        self._since = self._save = since
        self._saved_age = newest_age(self.graph.store) if self.graph.store else 0
        self._cpu = time.process_time()

    def insert_run(self, store: Store) -> None:
        """Inserts the run of the save into a file."""
        self.begin_run(store, self._since.run)

    # ---------------------------------------------------------- saves
    def note(self, save: Save, *, finished: bool, depth: int | None = None) -> Work:
        """Returns a callback that writes the leader's state of the search with a save."""
        self._save = save
        write = self.state_of_run(save.visits, save.evaluations, finished=finished, depth=depth)

        def note(store: Store) -> None:
            write(store, save.run)
            note_save(store, save)
            self._saved_age = newest_age(store)

        return note

    def known(self) -> Save:
        """Returns the last save, with this shard's counts; only the leader has visits."""
        counts = self.counts()
        return replace(self._save, visits=counts.visits, evaluations=counts.evaluations)

    def keep(self, save: Save) -> None:
        """Saves this shard's results after all shards ended between two steps, with complete records."""
        self.graph.flush(self.note(save, finished=True))

    # ---------------------------------------------------------- reports
    def show(self, evaluations: int, nodes: int) -> None:
        """Sets the progress; `evaluations` and `nodes` of all shards."""
        self.progress = ShardProgress(
            counts=replace(self.counts(), evaluations=evaluations),
            nodes=nodes,
            seconds=self.seconds,
            record=self.graph.read(self.board),
        )

    def report(self, number: int, *, leads: bool, traffic: Traffic) -> ShardReport:
        """Returns the report of the whole search."""
        return ShardReport(
            **asdict(self.counts()),
            number=number,
            leads=leads,
            nodes=self.graph.node_count,
            stop_reason=self.reason,
            seconds=self.seconds,
            cpu_seconds=time.process_time() - self._cpu,
            peak_rss=peak_rss(),
            problems=self.graph.problems,
            traffic=traffic,
            root=self._root_record,
        )


class LoneSearch(ShardPart, GraphSearch):
    """The search of the only shard, as in one process, with the run and the saves of its cluster."""

    def __init__(self, graph: Graph, job: SearchJob, stop: threading.Event, *, since: Save) -> None:
        """Prepares a search that adds to the run of a save, until `stop` is set."""
        control = Control(on_progress=lambda _: None, interval=PROGRESS_SECONDS, stop=stop)
        super().__init__(graph, replace(job, run=None, lines=0), control)
        self.take_up(since)

    def run(self) -> ShardReport:
        """Runs the search; returns its report when everything is saved.

        Raises:
          StoreError: if the file cannot be read or written.
          EvaluatorError: if the evaluator fails. Earlier results are saved.
        """
        try:
            with self.graph.held():
                self.search()
        except UnsavedError as error:
            raise error.__cause__ or error from None  # the result stays in this process
        return self.report(0, leads=True, traffic=Traffic())

    def _insert_run(self, store: Store) -> None:
        self._run = self._since.run
        self.insert_run(store)

    def _noted(self, *, finished: bool) -> Work:
        counts = self.counts()
        save = self._since.later(self._save.number + 1, counts.visits, counts.evaluations)
        return self.note(save, finished=finished, depth=counts.depth)

    def _show(self) -> None:
        self.show(self.counts().evaluations, self.graph.node_count)

    def _end(self) -> StoreError | None:
        self._root_record = self.forced.record() if self.forced else None
        return super()._end()
