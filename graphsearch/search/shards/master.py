"""The master of searches over a cluster: it holds the cluster's lock, and starts its shards.

The shards stay for the next search, until all searches are done.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import chess

from ...evaluators.factory import EvaluatorSpec, with_threads
from ...graph.memory import default_budget
from ...store.lock import WriteLock
from ...store.sharded.manifest import NAME
from ...workers.launcher import check_pool, threads_per_worker
from ..params import Limits, SearchParams
from .attempt import ClusterSetup
from .hosts import launcher_for
from .making import cluster_at, identity_of
from .shards import ClusterSearch, OnProgress, Shards, nothing


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
    on_ready: Callable[[], None] = nothing,
    on_progress: OnProgress | None = None,
    on_loss: Callable[[str], None] = nothing,
    interval: float = 0.5,
    save_seconds: float | None = None,
    stop: threading.Event | None = None,
) -> ClusterSearch:
    """Searches a position over a cluster, saves it and returns the result.

    Runs one search inside `searching`: arguments and errors are those of `searching` and `Shards.analyze`.
    """
    with searching(
        folder,
        evaluator=evaluator,
        shards=shards,
        pool=pool,
        ram_bytes=ram_bytes,
        on_ready=on_ready,
        on_loss=on_loss,
    ) as cluster:
        return cluster.analyze(
            board,
            limits,
            params,
            searchmoves=searchmoves,
            on_progress=on_progress,
            interval=interval,
            save_seconds=save_seconds,
            stop=stop,
        )


@contextmanager
def searching(
    folder: str | os.PathLike[str],
    *,
    evaluator: EvaluatorSpec | None = None,
    shards: int | None = None,
    pool: str | None = None,
    ram_bytes: int | None = None,
    on_ready: Callable[[], None] = nothing,
    on_loss: Callable[[str], None] = nothing,
) -> Iterator[Shards]:
    """Yields the shards of a cluster, whose lock is held; their processes start with the first search.

    Args:
      folder: of the cluster; created if it is missing, with so many `shards`.
      evaluator: of every shard; the cluster is bound to it.
      pool: where shards run: `local` (processes of this machine), `ray` or `ray:ADDRESS`.
      ram_bytes: memory of each shard; default: together 80 % of the machine's.
      on_ready: called when all shards are ready and a search begins, each time.
      on_loss: called when a shard was lost and the search resumes from the last save.

    Raises:
      StoreLockedError: if another master searches the cluster.
      StoreError: if its files do not belong together.
      EvaluatorError: if the pool is unknown.
    """
    check_pool(pool)  # before a cluster is created
    spec, target = evaluator or EvaluatorSpec(), Path(folder)
    with ExitStack() as stack:
        manifest = stack.enter_context(cluster_at(target, shards, lambda: identity_of(spec)))
        stack.callback(WriteLock(target / NAME).release)
        launcher = launcher_for(pool, manifest.shards)
        stack.callback(launcher.close)
        setup = ClusterSetup(
            folder=target,
            manifest=manifest,
            launcher=launcher,
            spec=_for_each(spec, manifest.shards, pool),
            ram_bytes=ram_bytes or default_budget() // launcher.crowd,
        )
        yield stack.enter_context(Shards(setup, on_ready, on_loss))


def _for_each(spec: EvaluatorSpec, shards: int, pool: str | None) -> EvaluatorSpec:
    """Returns the evaluator of each shard: with its share of this machine's cores."""
    alone = replace(spec, pool=None)
    has_threads = any(name == "threads" for name, _ in spec.options)
    return alone if has_threads else with_threads(alone, threads_per_worker(shards, pool))
