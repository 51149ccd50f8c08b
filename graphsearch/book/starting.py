"""The start of a build: its rows in the file, and its workers."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, closing, nullcontext

from ..errors import InvalidParameterError
from ..evaluators.factory import create
from ..evaluators.protocol import Evaluator
from ..search.shards.making import cluster_at, identity_of
from ..search.shards.store import open_to_write
from ..workers import launcher
from ..workers.launcher import LOCAL
from . import rows
from .build_options import Resources
from .config import BookConfig
from .executor import Executor


def check_pool(pool: str | None, config: BookConfig) -> None:
    """Raises InvalidParameterError if there is no such pool, or its workers would start pools."""
    launcher.check_pool(pool)
    if pool not in (None, LOCAL) and config.evaluator.pool not in (None, LOCAL):
        raise InvalidParameterError(
            f"the book's workers and its evaluator cannot both have a pool: leave out `pool` of [evaluator],"
            f" {config.evaluator.pool!r}, or the workers' one, {pool!r}"
        )


def cluster_for(
    path: str | os.PathLike[str], shards: int | None, evaluator: Evaluator | None, config: BookConfig
) -> AbstractContextManager[object]:
    """Returns a context in which a cluster of so many shards exists; None: the path stays as it is."""
    if shards is None:
        return nullcontext()
    return cluster_at(
        path, shards, lambda: evaluator.identity if evaluator else identity_of(config.evaluator)
    )


def executor_for(
    path: str | os.PathLike[str], config: BookConfig, resources: Resources
) -> tuple[rows.Started, Executor]:
    """Returns the numbers of a build, and an executor with workers."""
    from .workers.worker_executor import WorkerExecutor, check_workers

    workers = resources.workers
    check_workers(workers)
    # before the file is made, because there may be no such pool
    starter = launcher.launcher_for(resources.pool, workers)
    try:
        with closing(create(config.evaluator)) as made:
            started = start(path, made, config, workers)
    except BaseException:
        starter.close()
        raise
    executor = WorkerExecutor(
        path,
        config.evaluator,
        workers,
        book=started.book,
        run=started.run,
        launcher=starter,
        ram_bytes=resources.ram_bytes,
    )
    return started, executor


def start(
    path: str | os.PathLike[str], evaluator: Evaluator, config: BookConfig, workers: int
) -> rows.Started:
    """Inserts a build into the file, which is made if it is missing, and returns its numbers."""
    with open_to_write(path, identity=evaluator.identity, create=True) as store:
        return rows.start(store, config, workers)
