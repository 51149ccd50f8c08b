"""The master of a cluster: it holds the lock, starts the shards, and runs searches on them.

The shards stay until all searches are done. If one is lost, all shards end, all files are rolled back to the
last common save, and the search resumes there with new processes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import chess

from ...base.errors import InvalidParameterError, ShardLostError, StoreError
from ...evaluators.factory import EvaluatorSpec, with_threads
from ...graph.memory import default_budget
from ...graph.view import NodeView, view
from ...position.board import history_keys
from ...store.lock import WriteLock
from ...store.record.node import NodeRecord
from ...store.sharded.files import open_sharded, shard_path
from ...store.sharded.manifest import NAME, Manifest, is_sharded
from ...store.sharded.ownership import owner_of
from ...store.sharded.saved_waves import Save, saves_of
from ...store.store import Store
from ...store.tables import provenance
from ...workers.launcher import check_pool, count_machines, launcher_for
from ..claims import view_in_game
from ..job import Control, SearchJob
from ..params import Limits
from ..repetition import Draws
from ..results import Counts, Progress, SearchResult
from .attempt import Attempt, ClusterSetup
from .part import ShardProgress, ShardReport
from .parting import cluster_at, identity_of

ATTEMPTS = 3  # to resume from one save, before the search ends
MACHINES = 0  # of a new cluster: as many shards as the pool has machines
LEAST_PATIENCE = 0.1  # seconds for an answer about progress, however often it is shown


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSearch:
    """The result of a search over a cluster.

    Attributes:
      result: as of a search in one process.
      shards: the report of each shard, in the last attempt.
      losses: messages about lost shards, after which the search resumed.
      places: where each shard was: host name and process.
    """

    result: SearchResult
    shards: list[ShardReport]
    losses: list[str]
    places: list[str]

    def as_dict(self) -> dict[str, Any]:
        """Returns the JSON object of `graphsearch analyze` over a cluster."""
        shards = [report.as_dict() | {"place": p} for report, p in zip(self.shards, self.places, strict=True)]
        return self.result.as_dict() | {"shards": shards, "losses": self.losses}


def analyze(
    folder: str | os.PathLike[str],
    job: SearchJob,
    control: Control | None = None,
    *,
    evaluator: EvaluatorSpec | None = None,
    shards: int | None = None,
    pool: str | None = None,
    ram_bytes: int | None = None,
) -> ClusterSearch:
    """Runs one search over a cluster; see `searching` and `Shards.search`."""
    with searching(folder, evaluator=evaluator, shards=shards, pool=pool, ram_bytes=ram_bytes) as cluster:
        return cluster.search(job, control)


@contextmanager
def searching(
    folder: str | os.PathLike[str],
    *,
    evaluator: EvaluatorSpec | None = None,
    shards: int | None = None,
    pool: str | None = None,
    ram_bytes: int | None = None,
) -> Iterator[Shards]:
    """Yields the shards of a cluster and holds its lock; their processes start with the first search.

    Args:
      folder: of the cluster; created if it is missing, with `shards` shards (MACHINES: one per machine).
      evaluator: of every shard; the cluster is bound to it.
      pool: where shards run: `local` (processes of this machine), `ray` or `ray:ADDRESS`.
      ram_bytes: memory of each shard; default: together 80 % of the machine's.

    Raises:
      StoreLockedError: if another master searches the cluster.
      StoreError: if its files do not belong together.
      EvaluatorError: if the pool is unknown.
    """
    check_pool(pool)  # before a cluster is created
    spec, target = evaluator or EvaluatorSpec(), Path(folder)
    if shards == MACHINES:
        shards = None if is_sharded(target) else count_machines(pool)
    with ExitStack() as stack:
        manifest = stack.enter_context(cluster_at(target, shards, lambda: identity_of(spec)))
        stack.callback(WriteLock(target / NAME).release)
        launcher = launcher_for(pool, manifest.shards, all_at_once=True)
        stack.callback(launcher.close)
        alone = replace(spec, pool=None)
        if manifest.shards > 1 and not any(name == "threads" for name, _ in spec.options):
            alone = with_threads(alone, launcher.threads)  # else those of a search in one process
        setup = ClusterSetup(
            folder=target,
            manifest=manifest,
            launcher=launcher,
            spec=alone,
            ram_bytes=ram_bytes or default_budget() // launcher.per_machine,
        )
        yield stack.enter_context(Shards(setup))


class Shards:
    """The shards of a locked cluster; a context manager that ends their processes."""

    def __init__(self, setup: ClusterSetup) -> None:
        """Starts no process yet."""
        self.setup = setup
        self._attempt: Attempt | None = None
        self.saved = Save()  # the last one of all files

    def search(self, job: SearchJob, control: Control | None = None) -> ClusterSearch:
        """Searches a position, saves it and returns the result.

        Raises:
          InvalidParameterError: if the parameters name another gatherer than `flow`.
          StoreError: if a shard is lost again and again; all saved results stay.
          EvaluatorError: if the evaluator fails. Earlier results are saved.
        """
        if job.params.gather != "flow":
            raise InvalidParameterError("a cluster is searched with Gather=flow only")
        return _ClusterRun(self, job, control or Control()).to_its_end()

    def started(self) -> tuple[Attempt, Save]:
        """Returns the processes, started if there are none, and the last save of all files."""
        if self._attempt is None:
            attempt = Attempt(self.setup)
            try:
                self.saved = attempt.open()
            except BaseException:
                attempt.kill()
                raise
            self._attempt = attempt
        return self._attempt, self.saved

    def kill(self) -> None:
        """Kills the processes: unsaved results are lost, and the next search starts new processes."""
        attempt, self._attempt = self._attempt, None
        if attempt is not None:
            attempt.kill()

    def __enter__(self) -> Shards:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        attempt = self._attempt
        if kind or attempt is None:
            self.kill()
            return
        with suppress(ShardLostError):  # all is saved
            attempt.leave()


class _ClusterRun:
    """One search, resumed after losses."""

    def __init__(self, shards: Shards, job: SearchJob, control: Control) -> None:
        self._shards, self._setup, self._job, self._control = shards, shards.setup, job, control
        self._leader = owner_of(job.board, shards.setup.manifest.owners)
        self._began = self._shown = time.monotonic()
        self._losses: list[str] = []
        self._saved = Save()
        self._before: Save | None = None  # the run's counts when the search began
        self._run = job.run or 0

    def to_its_end(self) -> ClusterSearch:
        """Searches until a limit, resuming after losses."""
        tries, before = 0, -1
        while True:
            try:
                return self._search_from_save()
            except ShardLostError as error:
                self._shards.kill()
                self._losses.append(str(error))
                tries = 1 if self._saved.number > before else tries + 1
                before = self._saved.number
                if tries >= ATTEMPTS or self._control.stop.is_set():
                    raise StoreError(
                        f"{error}; the search ended, and {self._setup.folder} holds its last save"
                    ) from None
                self._control.on_loss(
                    f"{error}; all shards return to the last save, and the search continues"
                )
            except BaseException:
                self._shards.kill()
                raise

    def _search_from_save(self) -> ClusterSearch:
        """Searches from the last save on."""
        attempt, self._saved = self._shards.started()
        self._run = self._run or 1 + _last_run(self._setup.folder, self._setup.manifest)
        is_of_run = self._saved.run == self._run
        since = self._saved if is_of_run else Save(number=self._saved.number, run=self._run)
        self._before = self._before or since
        self._control.on_ready()
        if not self._losses:
            self._began = time.monotonic()  # a limit of time is for the search, not for starting shards
        visits, evaluations = since.visits - self._before.visits, since.evaluations - self._before.evaluations
        spent = time.monotonic() - self._began if self._losses else 0.0
        job = replace(self._job, limits=_left(self._job.limits, visits, evaluations, spent))
        reports = attempt.search(job, since, self._leader, partial(self._show_progress, attempt))
        found = self._result(reports)
        new_visits, paid = found.new_visits + visits, found.evaluations + evaluations
        return ClusterSearch(
            result=replace(found, new_visits=new_visits, evaluations=paid),
            shards=reports,
            losses=self._losses,
            places=attempt.places,
        )

    def _show_progress(self, attempt: Attempt) -> bool:
        """Reports the progress at intervals; returns whether to stop."""
        show, interval = self._control.on_progress, self._control.interval
        if show and time.monotonic() - self._shown >= interval:
            self._shown = time.monotonic()
            if found := attempt.progress(self._leader, max(interval, LEAST_PATIENCE)):
                show(_progress(found, self._job.board))
        return self._control.stop.is_set()

    def _result(self, reports: list[ShardReport]) -> SearchResult:
        """Returns the result of the last attempt."""
        board, leader = self._job.board, reports[self._leader]
        with open_sharded(self._setup.folder) as store:

            def read(of: chess.Board) -> NodeRecord | None:
                return leader.root if leader.root and of == board else store.read(of)

            node = view_in_game(read, board, history_keys(board), first=self._job.searchmoves)
            nodes = store.node_count
            self._shards.saved = saves_of(store.parts[0])[0]
        assert node is not None, "the first wave records the root"
        return SearchResult.of(
            board,
            Draws.of(board).among(self._job.searchmoves).shown(node),
            Counts.together(reports),
            store=str(self._setup.folder),
            nodes=nodes,
            seconds=time.monotonic() - self._began,
            stop_reason=leader.stop_reason or "stop",
            problems=[problem for report in reports for problem in report.problems],
        )


def _last_run(folder: Path, manifest: Manifest) -> int:
    """Returns the greatest number of a run in any file."""
    last = 0
    for number in range(manifest.shards):
        with Store.open(shard_path(folder, manifest, number), read_only=True) as store:
            last = max(last, provenance.last_run(store.connection))
    return last


def _left(limits: Limits, visits: int, evaluations: int, seconds: float) -> Limits:
    """Returns the limits that remain after so many visits, evaluations and seconds."""
    return Limits(
        visits=None if limits.visits is None else max(1, limits.visits - visits),
        evaluations=None if limits.evaluations is None else max(1, limits.evaluations - evaluations),
        seconds=None if limits.seconds is None else max(0.01, limits.seconds - seconds),
    )


def _progress(found: ShardProgress, board: chess.Board) -> Progress:
    """Returns the progress as in a search in one process; its lines have only their first move."""

    def read(of: chess.Board) -> NodeRecord | None:
        return found.record if of == board else None

    def viewer(lines: int | None) -> NodeView:
        node = view(read, board, lines=lines)
        assert node is not None
        return node

    return Progress(
        seconds=found.seconds,
        visits=found.record.visits if found.record else 0,
        new_visits=found.counts.visits,
        evaluations=found.counts.evaluations,
        nodes=found.nodes,
        resident=found.nodes,
        depth=found.counts.depth,
        seldepth=found.counts.seldepth,
        viewer=viewer,
    )
