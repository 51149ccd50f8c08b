"""The common part of a shard's search, alone or with others: the saves of a cluster, and a report."""

from __future__ import annotations

import time
from dataclasses import asdict, replace

from ...graph.saving import Work
from ...store.record.node import NodeRecord
from ...store.sharded.saved_waves import Save, newest_age, note_save
from ...store.store import Store
from ...workers.process import peak_rss
from ..session import Session
from .report import ShardProgress, ShardReport, Traffic

PROGRESS_SECONDS = 0.3


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
