"""How a build begins: the file knows of it, and its workers are there."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, closing, nullcontext

from ..cluster.making import cluster_at, identity_of
from ..cluster.store import open_to_write
from ..errors import InvalidParameterError
from ..evaluators.factory import create
from ..evaluators.protocol import Evaluator
from ..workers import launcher
from ..workers.launcher import LOCAL
from . import rows
from .config import BookConfig
from .desk import Desk


def check_pool(pool: str | None, config: BookConfig) -> None:
    """Raises InvalidParameterError if a pool is none, or each of its workers would join one."""
    launcher.check_pool(pool)
    if pool not in (None, LOCAL) and config.evaluator.pool not in (None, LOCAL):
        raise InvalidParameterError(
            f"the book's workers and its evaluator cannot both have a pool: leave out `pool` of [evaluator],"
            f" {config.evaluator.pool!r}, or the workers' one, {pool!r}"
        )


def cluster_for(
    path: str | os.PathLike[str], shards: int | None, evaluator: Evaluator | None, config: BookConfig
) -> AbstractContextManager[object]:
    """Returns a context in which the cluster of so many shards is there; None: whatever the path names."""
    if shards is None:
        return nullcontext()
    return cluster_at(
        path, shards, lambda: evaluator.identity if evaluator else identity_of(config.evaluator)
    )


def crew_of(
    path: str | os.PathLike[str], config: BookConfig, workers: int, pool: str | None, ram_bytes: int | None
) -> tuple[rows.Started, Desk]:
    """Returns the numbers of a build, and the desk of its workers."""
    from .workers.desk import WorkerDesk, check_workers

    check_workers(workers)
    starter = launcher.launcher_for(pool, workers)  # before the file is made: there may be no such pool
    try:
        with closing(create(config.evaluator)) as made:
            started = start(path, made, config, workers)
    except BaseException:
        starter.close()
        raise
    desk = WorkerDesk(
        path,
        config.evaluator,
        workers,
        book=started.book,
        run=started.run,
        launcher=starter,
        ram_bytes=ram_bytes,
    )
    return started, desk


def start(
    path: str | os.PathLike[str], evaluator: Evaluator, config: BookConfig, workers: int
) -> rows.Started:
    """Enters a build in the file, which is made if it is missing, and returns its numbers."""
    with open_to_write(path, identity=evaluator.identity, create=True) as store:
        return rows.start(store, config, workers)
