"""Building a book: search the next leaf, add the moves that its windows admit, and repeat.

    queue -> urgent leaves \\
    policy -> next leaf ----> executor (searches) -> record -> decisions, values -> rows -> file

Records and rows reach the file in the same transactions, so a build can be resumed after any end.
"""

from __future__ import annotations

import os
import threading
from contextlib import ExitStack, closing

from ..base.errors import InvalidParameterError
from ..evaluators.factory import create
from ..evaluators.protocol import Evaluator
from ..search.shards.parting import cluster_at, identity_of
from ..store.sharded.cluster_store import open_to_write
from ..store.sharded.files import open_to_read
from . import rows
from .build_report import BuildReport, OnProgress
from .builder import Builder
from .config import BookConfig, BuildLimits, Resources
from .executor import LocalExecutor


def build(
    path: str | os.PathLike[str],
    config: BookConfig,
    *,
    limits: BuildLimits | None = None,
    resources: Resources | None = None,
    evaluator: Evaluator | None = None,
    stop: threading.Event | None = None,
    on_progress: OnProgress | None = None,
) -> BuildReport:
    """Builds a book until a limit, saves it, and returns a report.

    Args:
      path: the graph file, created if missing.
      limits: when to end; default: when nothing is left to search.
      resources: default: a file, with the memory that the machine has.
      evaluator: replaces the configured one; the caller closes it.
      stop: set it, from any thread or a signal handler, to save and return.
      on_progress: called about twice a second.

    Raises:
      InvalidParameterError: for a wrong time or number of shards, before any file changes.
      EvaluatorError: if the evaluator fails; all results until then are saved.
      EvaluatorMismatchError: if the file is bound to another evaluator.
      StoreLockedError: if another process is writing the file.
      StoreError: if it cannot be read or written.
    """
    stop, limits, resources = stop or threading.Event(), limits or BuildLimits(), resources or Resources()
    if limits.seconds is not None and not limits.seconds > 0:
        raise InvalidParameterError(f"time must be a number of seconds above 0, not {limits.seconds}")
    with ExitStack() as stack:
        if resources.shards is not None:
            bound = evaluator.identity if evaluator else None
            stack.enter_context(
                cluster_at(path, resources.shards, lambda: bound or identity_of(config.evaluator))
            )
        made = evaluator or stack.enter_context(closing(create(config.evaluator)))
        started = _start(path, made, config)
        executor = LocalExecutor(path, made, run=started.run, ram_bytes=resources.ram_bytes, stop=stop)
        return build_at(path, config, started, executor, limits=limits, stop=stop, on_progress=on_progress)


def build_at(
    path: str | os.PathLike[str],
    config: BookConfig,
    started: rows.Started,
    executor: LocalExecutor,
    *,
    limits: BuildLimits,
    stop: threading.Event,
    on_progress: OnProgress | None = None,
) -> BuildReport:
    """Builds with an executor, and closes it at the end."""
    timer, out_of_time = None, threading.Event()
    if limits.seconds is not None:
        timer = threading.Timer(limits.seconds, _end_of_time, (out_of_time, stop))
        timer.daemon = True
        timer.start()
    try:
        with open_to_read(path) as tables:
            return Builder(
                tables,
                config,
                started,
                executor,
                limits=limits,
                stop=stop,
                out_of_time=out_of_time,
                on_progress=on_progress,
            ).build()
    finally:
        if timer:
            timer.cancel()
        executor.close()


def _end_of_time(out_of_time: threading.Event, stop: threading.Event) -> None:
    """Stops the build at its time limit, unless it has been stopped already."""
    if not stop.is_set():
        out_of_time.set()
        stop.set()


def _start(path: str | os.PathLike[str], evaluator: Evaluator, config: BookConfig) -> rows.Started:
    """Inserts a build into the file, created if missing, and returns its row ids."""
    with open_to_write(path, identity=evaluator.identity, create=True) as store:
        return rows.start(store, config)
