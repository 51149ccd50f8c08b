"""The master of a search over a cluster: it starts the shards, tells them the search, and what became of it.

If a shard is lost, all shards end, all files go back to the last save that all of them have, and the search
goes on from there with new processes.
"""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import chess

from ..errors import InvalidParameterError, ShardLostError, StoreError
from ..evaluators.factory import EvaluatorSpec, create, with_threads
from ..evaluators.pool.evaluator import LOCAL, threads_per_worker
from ..graph.view import NodeView, view
from ..position.board import fen_of, history_keys, key_of
from ..record.node import NodeRecord
from ..search import results
from ..search.claims import view_in_game
from ..search.params import Limits, SearchParams
from ..search.results import SearchResult
from ..store.lock import WriteLock
from ..store.sharded.files import open_to_read, shard_path
from ..store.sharded.manifest import NAME, Manifest, is_sharded, read_manifest
from ..store.sharded.ownership import owner_of
from ..store.store import Store
from ..store.tables import provenance
from ..version import __version__
from ..workers.messages import Failure
from .host import Greeting, Setting, board_parts
from .hosts import Running, Site, site_for
from .parting import new_cluster
from .saved_waves import Save, go_back
from .session import Job, Progress, ShardReport

TOKEN_BYTES = 32
ATTEMPTS = 3  # to go on from one save, before the search ends
ENDING_SECONDS = 600.0  # for a shard to close its file
LOOK_SECONDS = 0.1

OnProgress = Callable[[results.Progress], None]


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
    on_progress: OnProgress | None = None,
    on_loss: Callable[[str], None] | None = None,
    interval: float = 0.5,
    save_seconds: float | None = None,
    stop: threading.Event | None = None,
) -> ClusterSearch:
    """Searches a position over a cluster, saves it and returns what is known about the position.

    Args:
      folder: of the cluster; made if it is missing, with so many `shards`.
      evaluator: what every shard evaluates with; the cluster is bound to it.
      pool: where shards run: `local` (processes of this machine), `ray` or `ray:ADDRESS`.
      ram_bytes: memory of each shard.
      on_loss: told when a shard was lost and the search goes on from the last save.
      save_seconds: between two saves; None: as a search in one process has it.
      The rest as `search.loop.analyze` has it.

    Raises:
      InvalidParameterError: if the parameters ask for another gatherer than `flow`.
      StoreLockedError: if another master searches the cluster.
      StoreError: if its files do not belong together, or a shard is lost again and again; all that was saved
        stays.
      EvaluatorError: if the evaluator fails; the cluster holds the last save.
    """
    if params is not None and params.gather != "flow":
        raise InvalidParameterError("a cluster is searched with Gather=flow only")
    spec = evaluator or EvaluatorSpec()
    target = Path(folder)
    manifest = _manifest(target, spec, shards)
    with ExitStack() as stack:
        lock = WriteLock(target / NAME)
        stack.callback(lock.release)
        site = site_for(pool, manifest.shards)
        stack.callback(site.close)
        master = _Master(
            target,
            manifest,
            site,
            board,
            limits=limits or Limits(),
            params=params or SearchParams(),
            spec=_for_each(spec, manifest.shards, pool),
            ram_bytes=ram_bytes,
            searchmoves=tuple(move.uci() for move in searchmoves),
            on_progress=on_progress,
            on_loss=on_loss or (lambda line: None),
            interval=interval,
            save_seconds=save_seconds,
            stop=stop or threading.Event(),
        )
        return master.run()


def _for_each(spec: EvaluatorSpec, shards: int, pool: str | None) -> EvaluatorSpec:
    """Returns what each shard evaluates with: with its share of this machine's cores."""
    alone = replace(spec, pool=None)
    has_threads = any(name == "threads" for name, _ in spec.options)
    return alone if has_threads else with_threads(alone, threads_per_worker(shards, pool or LOCAL))


def _manifest(folder: Path, spec: EvaluatorSpec, shards: int | None) -> Manifest:
    """Returns the manifest of a cluster, made if there is none."""
    if is_sharded(folder) or shards is None:
        manifest = read_manifest(folder)
        if shards not in (None, manifest.shards):
            raise StoreError(
                f"{folder} has {manifest.shards} shards, not {shards}; leave the number out, or make another"
                " cluster: `graphsearch store merge`, then `split`"
            )
        return manifest
    made = create(replace(spec, pool=None))
    try:
        return new_cluster(folder, shards=shards, identity=made.identity)
    finally:
        made.close()


class _Master:
    """One search; what it is made from is described at `analyze`."""

    def __init__(
        self,
        folder: Path,
        manifest: Manifest,
        site: Site,
        board: chess.Board,
        *,
        limits: Limits,
        params: SearchParams,
        spec: EvaluatorSpec,
        ram_bytes: int | None,
        searchmoves: tuple[str, ...],
        on_progress: OnProgress | None,
        on_loss: Callable[[str], None],
        interval: float,
        save_seconds: float | None,
        stop: threading.Event,
    ) -> None:
        self._folder, self._manifest, self._site = folder, manifest, site
        self._board, self._limits, self._params = board, limits, params
        self._spec, self._ram_bytes, self._searchmoves = spec, ram_bytes, searchmoves
        self._on_progress, self._on_loss = on_progress, on_loss
        self._interval, self._save_seconds, self._stop = interval, save_seconds, stop
        self._leader = owner_of(board, manifest.owners)
        self._began = time.monotonic()
        self._losses: list[str] = []
        self._places: list[str] = []
        self._run = 0
        self._told_to_stop = False

    def run(self) -> ClusterSearch:
        """Searches until a limit, whatever is lost on the way."""
        start, _ = go_back(self._folder, self._manifest)
        self._run = 1 + max(_last_run(self._folder, self._manifest, k) for k in range(self._manifest.shards))
        save, tries = start, 0
        while True:
            try:
                done = save if save.run == self._run else Save(number=save.number)
                return self._found(self._attempt(done), done)
            except ShardLostError as error:
                self._losses.append(str(error))
                before = save.number
                save, _ = go_back(self._folder, self._manifest)
                tries = 1 if save.number > before else tries + 1
                if tries >= ATTEMPTS or self._stop.is_set():
                    raise StoreError(
                        f"{error}; the search ended, and {self._folder} holds its last save"
                    ) from None
                self._on_loss(f"{error}; all shards went back to the last save, and the search goes on")

    # ---------------------------------------------------------- one attempt
    def _attempt(self, done: Save) -> list[ShardReport]:
        """Searches with new processes until the end; returns what they report.

        Raises:
          ShardLostError: if one of them is lost.
        """
        hosts: list[Running] = []
        try:
            token = secrets.token_bytes(TOKEN_BYTES)
            for number in range(self._manifest.shards):
                hosts.append(self._site.start(self._setting(number, token)))
            greetings = self._greeted(hosts)
            job = self._job(done)
            addresses = [greeting.address for greeting in greetings]
            self._told_to_stop = False
            replies = [host.call("search", job, addresses, self._leader) for host in hosts]
            self._follow(hosts, replies)
            reports = [_value(reply) for reply in replies]
            for reply in [host.call("leave") for host in hosts]:
                reply.result(ENDING_SECONDS)
            for host in hosts:
                host.leave()
            return reports
        except BaseException:
            for host in hosts:
                host.kill()
            raise

    def _setting(self, number: int, token: bytes) -> Setting:
        return Setting(
            folder=str(self._folder.resolve()),
            number=number,
            evaluator=self._spec,
            ram_bytes=self._ram_bytes,
            token=token,
            is_far=self._site.is_far,
        )

    def _greeted(self, hosts: Sequence[Running]) -> list[Greeting]:
        replies = [host.call("open") for host in hosts]
        greetings: list[Greeting] = [_value(reply) for reply in replies]
        for number, greeting in enumerate(greetings):
            if greeting.version != __version__:
                raise StoreError(
                    f"shard {number} on {greeting.place} has graphsearch {greeting.version}, this machine has"
                    f" {__version__}; install the same version on all machines"
                )
        self._places = [greeting.place for greeting in greetings]
        return greetings

    def _job(self, done: Save) -> Job:
        start, moves = board_parts(self._board)
        limits = self._limits
        left = Limits(
            visits=None if limits.visits is None else max(1, limits.visits - done.visits),
            evaluations=None if limits.evaluations is None else max(1, limits.evaluations - done.evaluations),
            seconds=None
            if limits.seconds is None
            else max(0.01, limits.seconds - (time.monotonic() - self._began)),
        )
        return Job(
            start=start,
            moves=moves,
            searchmoves=self._searchmoves,
            limits=left,
            params=self._params,
            run=self._run,
            save=done.number,
            visits=done.visits,
            evaluations=done.evaluations,
            save_seconds=self._save_seconds,
        )

    def _follow(self, hosts: Sequence[Running], replies: Sequence[Future[Any]]) -> None:
        """Waits until all shards are through, shows how far they are, and has them stop."""
        shown = time.monotonic()
        left = set(replies)
        while left:
            done, left = wait(left, LOOK_SECONDS, "FIRST_COMPLETED")
            if any(_has_failed(reply) for reply in done):
                self._end_badly(hosts, replies)
            if self._stop.is_set() and not self._told_to_stop:
                self._told_to_stop = True
                hosts[self._leader].call("stop")
            if self._on_progress and time.monotonic() - shown >= self._interval:
                shown = time.monotonic()
                self._show(hosts[self._leader])

    def _end_badly(self, hosts: Sequence[Running], replies: Sequence[Future[Any]]) -> None:
        """Has all shards give up, and raises why: what somebody did wrong, or else which one was lost."""
        for host in hosts:
            host.call("give_up")
        wait(replies, 2 * LOOK_SECONDS)
        errors = [found for reply in replies if reply.done() and (found := _error(reply))]
        others = [error for error in errors if not isinstance(error, ShardLostError)]
        gone = [error for reply in replies if reply.done() and (error := reply.exception())]
        raise (others or gone or errors)[0]

    def _show(self, leader: Running) -> None:
        try:
            found: Progress | None = leader.call("progress").result(self._interval)
        except (ShardLostError, TimeoutError):
            return
        if found and self._on_progress:
            self._on_progress(_progress(found, self._board))

    # ---------------------------------------------------------- what was found
    def _found(self, reports: list[ShardReport], before: Save) -> ClusterSearch:
        first = [chess.Move.from_uci(move) for move in self._searchmoves]
        past = history_keys(self._board)
        with open_to_read(self._folder) as store:
            node = view_in_game(store.read, self._board, past, first=first)
            nodes = store.node_count
        assert node is not None, "the first wave records the root"
        leader = reports[self._leader]
        visits = leader.visits + before.visits
        evaluations = sum(report.evaluations for report in reports) + before.evaluations
        result = SearchResult(
            position=fen_of(self._board),
            key=key_of(self._board),
            store=str(self._folder),
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
        return ClusterSearch(result=result, shards=reports, losses=self._losses, places=self._places)


def _value(reply: Future[Any]) -> Any:
    """Returns what a host has answered.

    Raises:
      GraphSearchError: what it says that it failed with.
    """
    value = reply.result()
    if isinstance(value, Failure):
        raise value.as_error(placed=True)
    return value


def _error(reply: Future[Any]) -> Exception | None:
    found = reply.exception()
    if isinstance(found, Exception):
        return found
    value = reply.result()
    return value.as_error(placed=True) if isinstance(value, Failure) else None


def _has_failed(reply: Future[Any]) -> bool:
    return _error(reply) is not None


def _last_run(folder: Path, manifest: Manifest, number: int) -> int:
    with Store.open(shard_path(folder, manifest, number), read_only=True) as store:
        return provenance.last_run(store.connection)


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
