"""The shards of a cluster, for one search after the other: requests to each, and their results.

If a shard is lost, all shards end, all files are rolled back to the last common save, and the search resumes
there with new processes.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import chess

from ...errors import InvalidParameterError, ShardLostError, StoreError
from ...graph.view import NodeView, view
from ...position.board import fen_of, history_keys, key_text
from ...store.record.node import NodeRecord
from ...store.sharded.files import open_sharded, shard_path
from ...store.sharded.manifest import Manifest
from ...store.sharded.ownership import owner_of
from ...store.store import Store
from ...store.tables import provenance
from .. import results
from ..claims import view_in_game
from ..params import Limits, SearchParams
from ..results import SearchResult
from .attempt import Attempt, ClusterSetup
from .job import Progress, SearchJob, ShardReport, board_parts
from .saved_waves import Save, saves_of

ATTEMPTS = 3  # to resume from one save, before the search ends

OnProgress = Callable[[results.Progress], None]


def nothing(*_: object) -> None:
    """Does nothing, whatever it is called with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSearch:
    """The result of a search over a cluster.

    Attributes:
      result: as of a search in one process.
      shards: the report of each shard, in the last attempt.
      losses: losses of shards on the way, after which the search resumed.
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


class Shards:
    """The shards of a cluster whose lock is held; in a `with`, which ends their processes."""

    def __init__(
        self, setup: ClusterSetup, on_ready: Callable[[], None], on_loss: Callable[[str], None]
    ) -> None:
        """Starts no process yet; `master.searching` describes the arguments."""
        self.setup, self.on_ready, self.on_loss = setup, on_ready, on_loss
        self._attempt: Attempt | None = None
        self._saved = Save()

    def analyze(
        self,
        board: chess.Board,
        limits: Limits | None = None,
        params: SearchParams | None = None,
        *,
        searchmoves: Sequence[chess.Move] = (),
        run: int | None = None,
        lists: bool = True,
        on_progress: OnProgress | None = None,
        interval: float = 0.5,
        save_seconds: float | None = None,
        stop: threading.Event | None = None,
    ) -> ClusterSearch:
        """Searches a position, saves it and returns the result.

        Args:
          run: number of the run that the search adds to; None: it is one of its own.
          lists: whether the files list the position as a root.
          save_seconds: between two saves; None: as in a search of one process.
          The rest as for `search.loop.analyze`.

        Raises:
          InvalidParameterError: if the parameters name another gatherer than `flow`.
          StoreError: if a shard is lost again and again; all saved results stay.
          EvaluatorError: if the evaluator fails. Earlier results are saved.
        """
        if params is not None and params.gather != "flow":
            raise InvalidParameterError("a cluster is searched with Gather=flow only")
        wanted = _Wanted(
            board=board,
            limits=limits or Limits(),
            params=params or SearchParams(),
            searchmoves=tuple(move.uci() for move in searchmoves),
            run=run,
            lists=lists,
            on_progress=on_progress,
            interval=interval,
            save_seconds=save_seconds,
            stop=stop or threading.Event(),
        )
        return _Search(self, wanted).to_its_end()

    def started(self) -> tuple[Attempt, Save]:
        """Returns the processes, new ones if there are none, and the last save of all files."""
        if self._attempt is None:
            attempt = Attempt(self.setup)
            try:
                self._saved = attempt.prepare()
                attempt.open()
            except BaseException:
                attempt.kill()
                raise
            self._attempt = attempt
        return self._attempt, self._saved

    def note(self, save: Save) -> None:
        """Stores the last save of a search."""
        self._saved = save

    def kill(self) -> None:
        """Kills the processes: unsaved results are lost, and the next search has new ones."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    """The arguments of one search, as `Shards.analyze` describes them."""

    board: chess.Board
    limits: Limits
    params: SearchParams
    searchmoves: tuple[str, ...]
    run: int | None
    lists: bool
    on_progress: OnProgress | None
    interval: float
    save_seconds: float | None
    stop: threading.Event


class _Search:
    """One search, resumed after losses."""

    def __init__(self, shards: Shards, wanted: _Wanted) -> None:
        self._shards, self._setup, self._wanted = shards, shards.setup, wanted
        self._leader = owner_of(wanted.board, shards.setup.manifest.owners)
        self._began = self._shown = time.monotonic()
        self._losses: list[str] = []
        self._saved = Save()
        self._before: Save | None = None  # its run's counts when it began
        self._run = wanted.run or 0

    def to_its_end(self) -> ClusterSearch:
        """Searches until a limit."""
        tries, before = 0, -1
        while True:
            try:
                return self._go_on()
            except ShardLostError as error:
                self._shards.kill()
                self._losses.append(str(error))
                tries = 1 if self._saved.number > before else tries + 1
                before = self._saved.number
                if tries >= ATTEMPTS or self._wanted.stop.is_set():
                    raise StoreError(
                        f"{error}; the search ended, and {self._setup.folder} holds its last save"
                    ) from None
                self._shards.on_loss(f"{error}; all shards go back to the last save, and the search goes on")
            except BaseException:
                self._shards.kill()
                raise

    def _go_on(self) -> ClusterSearch:
        """Searches from the last save on."""
        attempt, self._saved = self._shards.started()
        self._run = self._run or 1 + _last_run(self._setup.folder, self._setup.manifest)
        added = self._saved if self._saved.run == self._run else Save(number=self._saved.number)
        self._before = self._before or added
        self._shards.on_ready()
        if not self._losses:
            self._began = time.monotonic()  # a limit of time is for the search, not for starting shards
        done = _difference(added, self._before)
        reports = attempt.search(self._job(added, done), self._leader, partial(self._look, attempt))
        return self._found(reports, done, attempt.places)

    def _job(self, added: Save, done: Save) -> SearchJob:
        """Returns the remaining job, given the counts of the run and of the search itself."""
        wanted = self._wanted
        spent = time.monotonic() - self._began if self._losses else 0.0
        start, moves = board_parts(wanted.board)
        return SearchJob(
            start=start,
            moves=moves,
            searchmoves=wanted.searchmoves,
            limits=_left(wanted.limits, done, spent),
            params=wanted.params,
            run=self._run,
            lists=wanted.lists,
            save=added.number,
            visits=added.visits,
            evaluations=added.evaluations,
            save_seconds=wanted.save_seconds,
        )

    def _look(self, attempt: Attempt) -> bool:
        """Reports the progress now and then; returns whether to stop."""
        show, interval = self._wanted.on_progress, self._wanted.interval
        if show and time.monotonic() - self._shown >= interval:
            self._shown = time.monotonic()
            if found := attempt.progress(self._leader, interval):
                show(_progress(found, self._wanted.board))
        return self._wanted.stop.is_set()

    # ---------------------------------------------------------- the result
    def _found(self, reports: list[ShardReport], before: Save, places: list[str]) -> ClusterSearch:
        board = self._wanted.board
        leader = reports[self._leader]
        first = [chess.Move.from_uci(move) for move in self._wanted.searchmoves]
        with open_sharded(self._setup.folder) as store:

            def read(of: chess.Board) -> NodeRecord | None:
                return leader.root if leader.root and of == board else store.read(of)

            node = view_in_game(read, board, history_keys(board), first=first)
            nodes = store.node_count
            self._shards.note(saves_of(store.parts[0])[0])
        assert node is not None, "the first wave records the root"
        visits = leader.visits + before.visits
        evaluations = sum(report.evaluations for report in reports) + before.evaluations
        result = SearchResult(
            position=fen_of(board),
            key=key_text(board),
            store=str(self._setup.folder),
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


def _difference(now: Save, before: Save) -> Save:
    """Returns the present save, with the additions since an earlier one."""
    added = {name: getattr(now, name) - getattr(before, name) for name in ("visits", "evaluations")}
    return replace(now, **added)


def _left(limits: Limits, done: Save, seconds: float) -> Limits:
    """Returns the remaining limits."""
    return Limits(
        visits=None if limits.visits is None else max(1, limits.visits - done.visits),
        evaluations=None if limits.evaluations is None else max(1, limits.evaluations - done.evaluations),
        seconds=None if limits.seconds is None else max(0.01, limits.seconds - seconds),
    )


def _progress(found: Progress, board: chess.Board) -> results.Progress:
    """Returns the progress in the form of a search in one process; of lines only the first move is known."""

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
