"""The master of a search over a cluster: it starts the shards, tells them the search, and what became of it.

If a shard is lost, all shards end, all files go back to the last save that all of them have, and the search
goes on from there with new processes.
"""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import chess

from ..errors import InvalidParameterError, ShardLostError, StoreError
from ..evaluators.factory import EvaluatorSpec, create, with_threads
from ..evaluators.pool.evaluator import LOCAL, check_place, threads_per_worker
from ..graph.memory import default_budget
from ..graph.view import NodeView, view
from ..position.board import fen_of, history_keys, key_of
from ..record.node import NodeRecord
from ..search import results
from ..search.claims import view_in_game
from ..search.params import Limits, SearchParams
from ..search.results import SearchResult
from ..store.lock import WriteLock
from ..store.sharded.files import check_files, open_to_read, shard_path
from ..store.sharded.manifest import NAME, Manifest, is_sharded, read_manifest
from ..store.sharded.ownership import owner_of
from ..store.store import Store
from ..store.tables import provenance
from .attempt import Attempt, Plan
from .hosts import site_for
from .job import Job, Progress, ShardReport, board_parts
from .parting import check_new, new_cluster, shard_nodes
from .saved_waves import Save

ATTEMPTS = 3  # to go on from one save, before the search ends

OnProgress = Callable[[results.Progress], None]


def _nothing(*_: object) -> None:
    """Is told something, and does nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSearch:
    """What a search over a cluster found.

    Attributes:
      result: as of a search in one process.
      shards: what each shard did, in the last attempt.
      losses: what was lost on the way, and gone on from.
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
    board: chess.Board,
    limits: Limits | None = None,
    params: SearchParams | None = None,
    *,
    evaluator: EvaluatorSpec | None = None,
    shards: int | None = None,
    pool: str | None = None,
    ram_bytes: int | None = None,
    searchmoves: Sequence[chess.Move] = (),
    on_ready: Callable[[], None] = _nothing,
    on_progress: OnProgress | None = None,
    on_loss: Callable[[str], None] = _nothing,
    interval: float = 0.5,
    save_seconds: float | None = None,
    stop: threading.Event | None = None,
) -> ClusterSearch:
    """Searches a position over a cluster, saves it and returns what is known about the position.

    Args:
      folder: of the cluster; made if it is missing, with so many `shards`.
      evaluator: what every shard evaluates with; the cluster is bound to it.
      pool: where shards run: `local` (processes of this machine), `ray` or `ray:ADDRESS`.
      ram_bytes: memory of each shard; default: together 80 % of the machine's.
      on_ready: told when all shards are ready and the search begins, each time.
      on_loss: told when a shard was lost and the search goes on from the last save.
      save_seconds: between two saves; None: as a search in one process has it.
      The rest as `search.loop.analyze` has it.

    Raises:
      InvalidParameterError: if the parameters ask for another gatherer than `flow`.
      StoreLockedError: if another master searches the cluster.
      StoreError: if its files do not belong together, or a shard is lost again and again; all that was saved
        stays.
      EvaluatorError: if the evaluator fails. What was found before is saved.
    """
    if params is not None and params.gather != "flow":
        raise InvalidParameterError("a cluster is searched with Gather=flow only")
    spec = evaluator or EvaluatorSpec()
    target = Path(folder)
    with ExitStack() as stack:
        manifest = stack.enter_context(_cluster(target, spec, shards, pool))
        stack.callback(WriteLock(target / NAME).release)
        site = site_for(pool, manifest.shards)
        stack.callback(site.close)
        plan = Plan(
            folder=target,
            manifest=manifest,
            site=site,
            leader=owner_of(board, manifest.owners),
            spec=_for_each(spec, manifest.shards, pool),
            ram_bytes=ram_bytes or default_budget() // site.crowd,
        )
        wanted = _Wanted(
            limits=limits or Limits(),
            params=params or SearchParams(),
            searchmoves=tuple(move.uci() for move in searchmoves),
            on_ready=on_ready,
            on_progress=on_progress,
            on_loss=on_loss,
            interval=interval,
            save_seconds=save_seconds,
            stop=stop or threading.Event(),
        )
        return _Master(plan, board, wanted).run()


def _for_each(spec: EvaluatorSpec, shards: int, pool: str | None) -> EvaluatorSpec:
    """Returns what each shard evaluates with: with its share of this machine's cores."""
    alone = replace(spec, pool=None)
    has_threads = any(name == "threads" for name, _ in spec.options)
    return alone if has_threads else with_threads(alone, threads_per_worker(shards, pool or LOCAL))


@contextmanager
def _cluster(folder: Path, spec: EvaluatorSpec, shards: int | None, pool: str | None) -> Iterator[Manifest]:
    """Yields the manifest of a cluster; one that is made goes again if no search could begin."""
    if is_sharded(folder) or shards is None:
        manifest = read_manifest(folder)
        if shards not in (None, manifest.shards):
            raise StoreError(
                f"{folder} has {manifest.shards} shards, not {shards}; leave the number out, or make another"
                " cluster: `graphsearch store merge`, then `split`"
            )
        check_files(folder, manifest)
        yield manifest
        return
    check_new(folder, shards)
    check_place(pool or LOCAL)
    made = create(replace(spec, pool=None))
    try:
        manifest = new_cluster(folder, shards=shards, identity=made.identity)
    finally:
        made.close()
    try:
        yield manifest
    except BaseException:
        with suppress(StoreError):
            if not sum(shard_nodes(folder, manifest)):
                shutil.rmtree(folder, ignore_errors=True)
        raise


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    """What is searched, as `analyze` describes it."""

    limits: Limits
    params: SearchParams
    searchmoves: tuple[str, ...]
    on_ready: Callable[[], None]
    on_progress: OnProgress | None
    on_loss: Callable[[str], None]
    interval: float
    save_seconds: float | None
    stop: threading.Event


class _Master:
    """One search, whatever is lost on the way."""

    def __init__(self, plan: Plan, board: chess.Board, wanted: _Wanted) -> None:
        self._plan, self._board, self._wanted = plan, board, wanted
        self._began = self._shown = time.monotonic()
        self._losses: list[str] = []
        self._saved = Save()
        self._run = 0

    def run(self) -> ClusterSearch:
        """Searches until a limit."""
        tries, before = 0, -1
        while True:
            try:
                with Attempt(self._plan) as attempt:
                    reports, done = self._search(attempt)
                return self._found(reports, done, attempt.places)
            except ShardLostError as error:
                self._losses.append(str(error))
                tries = 1 if self._saved.number > before else tries + 1
                before = self._saved.number
                if tries >= ATTEMPTS or self._wanted.stop.is_set():
                    raise StoreError(
                        f"{error}; the search ended, and {self._plan.folder} holds its last save"
                    ) from None
                self._wanted.on_loss(f"{error}; all shards go back to the last save, and the search goes on")

    def _search(self, attempt: Attempt) -> tuple[list[ShardReport], Save]:
        """Returns what the shards report, and what was done before by the same search."""
        self._saved = attempt.prepare()
        self._run = self._run or 1 + _last_run(self._plan.folder, self._plan.manifest)
        done = self._saved if self._saved.run == self._run else Save(number=self._saved.number)
        addresses = attempt.open()
        self._wanted.on_ready()
        if not self._losses:
            self._began = time.monotonic()  # a limit of time is for the search, not for starting shards
        return attempt.search(self._job(done), addresses, partial(self._look, attempt)), done

    def _job(self, done: Save) -> Job:
        start, moves = board_parts(self._board)
        wanted = self._wanted
        return Job(
            start=start,
            moves=moves,
            searchmoves=wanted.searchmoves,
            limits=_left(wanted.limits, done, time.monotonic() - self._began),
            params=wanted.params,
            run=self._run,
            save=done.number,
            visits=done.visits,
            evaluations=done.evaluations,
            save_seconds=wanted.save_seconds,
        )

    def _look(self, attempt: Attempt) -> bool:
        """Shows how far the search is, now and then; returns whether it is to end."""
        show, interval = self._wanted.on_progress, self._wanted.interval
        if show and time.monotonic() - self._shown >= interval:
            self._shown = time.monotonic()
            if found := attempt.progress(interval):
                show(_progress(found, self._board))
        return self._wanted.stop.is_set()

    # ---------------------------------------------------------- what was found
    def _found(self, reports: list[ShardReport], before: Save, places: list[str]) -> ClusterSearch:
        first = [chess.Move.from_uci(move) for move in self._wanted.searchmoves]
        past = history_keys(self._board)
        with open_to_read(self._plan.folder) as store:
            node = view_in_game(store.read, self._board, past, first=first)
            nodes = store.node_count
        assert node is not None, "the first wave records the root"
        leader = reports[self._plan.leader]
        visits = leader.visits + before.visits
        evaluations = sum(report.evaluations for report in reports) + before.evaluations
        result = SearchResult(
            position=fen_of(self._board),
            key=key_of(self._board),
            store=str(self._plan.folder),
            visits=node.visits,
            new_visits=visits,
            evaluations=evaluations,
            catch_ups=sum(report.catch_ups for report in reports),
            collisions=sum(report.collisions for report in reports),
            depth=round(sum(report.plies for report in reports) / max(leader.visits, 1)),
            seldepth=max(report.seldepth for report in reports),
            seconds=time.monotonic() - self._began,
            bestmove=node.moves[0].move if node.moves else None,
            node=node,
            nodes=nodes,
            saved_nodes=sum(report.saved for report in reports),
            stop_reason=leader.stop_reason or "stop",
            unkept_visits=sum(report.unkept for report in reports),
            read_back=sum(report.read_back for report in reports),
            problems=[problem for report in reports for problem in report.problems],
        )
        return ClusterSearch(result=result, shards=reports, losses=self._losses, places=places)


def _last_run(folder: Path, manifest: Manifest) -> int:
    """Returns the greatest number of a run in any file."""
    last = 0
    for number in range(manifest.shards):
        with Store.open(shard_path(folder, manifest, number), read_only=True) as store:
            last = max(last, provenance.last_run(store.connection))
    return last


def _left(limits: Limits, done: Save, seconds: float) -> Limits:
    """Returns what is left of limits."""
    return Limits(
        visits=None if limits.visits is None else max(1, limits.visits - done.visits),
        evaluations=None if limits.evaluations is None else max(1, limits.evaluations - done.evaluations),
        seconds=None if limits.seconds is None else max(0.01, limits.seconds - seconds),
    )


def _progress(found: Progress, board: chess.Board) -> results.Progress:
    """Returns the progress as a search in one process tells it; of lines only the first move is known."""

    def read(of: chess.Board) -> NodeRecord | None:
        return found.record if of == board else None

    def viewer(lines: int | None) -> NodeView:
        node = view(read, board, lines=lines)
        assert node is not None
        return node

    return results.Progress(
        seconds=found.seconds,
        visits=found.record.visits if found.record else 0,
        new_visits=found.visits,
        evaluations=found.evaluations,
        catch_ups=0,
        collisions=0,
        nodes=found.nodes,
        stored=False,
        resident=found.nodes,
        ram_bytes=0,
        read_back=0,
        written=0,
        depth=found.depth,
        seldepth=found.seldepth,
        visits_per_s=found.visits / max(found.seconds, 1e-9),
        evaluations_per_s=found.evaluations / max(found.seconds, 1e-9),
        viewer=viewer,
    )
