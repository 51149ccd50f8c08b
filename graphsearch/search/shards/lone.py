"""The search of a cluster of one shard: a search in one process, with the cluster's run and saves."""

from __future__ import annotations

import threading
from dataclasses import replace

from ...base.errors import StoreError, UnsavedError
from ...graph.graph import Graph
from ...graph.saving import Work
from ...store.sharded.saved_waves import Save
from ...store.store import Store
from ..job import Control, SearchJob
from ..loop import GraphSearch
from .part import PROGRESS_SECONDS, ShardPart
from .report import ShardReport, Traffic


class LoneSearch(ShardPart, GraphSearch):
    """The search of the only shard, without messages."""

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
