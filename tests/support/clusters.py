"""Searches of clusters in one process, and what their files hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import chess
import pytest

from graphsearch import Graph, Limits, SearchParams
from graphsearch.evaluators.protocol import Evaluator
from graphsearch.search.job import SearchJob
from graphsearch.search.shards import attempt, host, master
from graphsearch.search.shards.attempt import Attempt
from graphsearch.search.shards.host import Host, Setting
from graphsearch.search.shards.part import ShardReport
from graphsearch.search.shards.session import search_together
from graphsearch.store.record.node import NodeRecord
from graphsearch.store.sharded.files import files_of
from graphsearch.store.sharded.manifest import is_sharded
from graphsearch.store.sharded.saved_waves import Save
from graphsearch.store.store import Store

from .graphs import records_of as in_bulk

Records = dict[tuple[int, ...], NodeRecord]


def records_of(paths: Iterable[Path]) -> Records:
    """Returns all records of some files by their positions; no position is in two of them."""
    found: Records = {}
    for path in paths:
        with Store.open(path, read_only=True) as store:
            for batch in store.scan():
                for record in in_bulk(batch):
                    assert record.words not in found, f"{path} holds what another file holds"
                    found[record.words] = record
    return found


def search_shards(
    folder: Path,
    evaluator: Evaluator | str,
    board: chess.Board,
    shards: int,
    limits: Limits,
    *,
    run: int = 1,
    save: int = 0,
    searchmoves: tuple[str, ...] = (),
    ram_bytes: int | None = None,
    crashes: bool = False,
    **params: Any,
) -> list[ShardReport]:
    """Returns what the shards report of a search with so many of them, in step, in this process.

    It is saved at its end, and not before. If it `crashes` there, nothing is tidied up, as after a kill.
    """
    folder.mkdir(exist_ok=True)
    listed = tuple(chess.Move.from_uci(move) for move in searchmoves)
    asked = SearchParams(**params)
    job = SearchJob(board=board, searchmoves=listed, limits=limits, params=asked, save_seconds=3600.0)
    files = [folder / f"{number}.graph" for number in range(shards)]
    if is_sharded(folder):
        files = files_of(folder)
    graphs = [Graph.open(files[number], evaluator=evaluator, ram_bytes=ram_bytes) for number in range(shards)]
    try:
        return search_together(graphs, job, Save(number=save, run=run))
    finally:
        for graph in graphs:
            graph._release() if crashes else graph.close()


class ThreadLauncher:
    """Launches shards as threads of this process, cheaper than the processes of `search.shards.attempt`.

    Attributes:
      change: what becomes of a shard's setting, as on a machine that sees something else.
    """

    is_remote, per_machine, threads, patience, advice = False, 1, 1, 60.0, ""

    def __init__(self, change: Callable[[Setting], Setting] = lambda setting: setting) -> None:
        self.change = change

    def start(self, setting: Setting) -> _ThreadHost:
        return _ThreadHost(self.change(setting))

    def close(self) -> None:
        pass


def use(patch: pytest.MonkeyPatch, launcher: ThreadLauncher | None, *evaluators: Evaluator) -> None:
    """Has searches run in threads, or not at all, with these evaluators."""
    made = iter(evaluators)
    patch.setattr(master, "launcher_for", lambda *_, **__: launcher)
    patch.setattr(attempt, "ShardProcess", lambda launcher, setting: launcher.start(setting))
    patch.setattr(host, "create", lambda spec: next(made))


def endless_until_lost(patch: pytest.MonkeyPatch) -> None:
    """Lets the first attempt of a search run on until a shard is lost, however fast the machine is."""
    plain, begun = Attempt.search, list[Attempt]()

    def search(self: Attempt, job: SearchJob, *others: Any) -> list[ShardReport]:
        begun.append(self)
        return plain(self, job if len(begun) > 1 else replace(job, limits=Limits()), *others)

    patch.setattr(Attempt, "search", search)


class _ThreadHost:
    place = ""

    def __init__(self, setting: Setting) -> None:
        self._host, self._threads = Host(setting), ThreadPoolExecutor(3)

    def call(self, method: str, *arguments: Any) -> Future[Any]:
        return self._threads.submit(self._host.do, method, *arguments)

    def leave(self) -> None:
        self._threads.shutdown()

    def kill(self) -> None:
        self._threads.shutdown()
        if self._host._mesh:
            self._host._mesh.close()
        if self._host._graph:
            self._host._graph._release()
