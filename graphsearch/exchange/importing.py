"""The common part of all imports: files go into a graph file in transactions that record the progress."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from ..base.errors import ImportFileError
from ..store.file import LOG_BYTES
from ..store.store import Store
from ..store.tables import games as tables
from ..store.tables.games import GameSource
from .sources import FileProgress, GivenFile, Input, opened

SAY_SECONDS = 0.2


OnProgress = Callable[[FileProgress], object]


class Importing:
    """The state of an import of one file; saves rows and progress.

    Attributes:
      source: its row in the file. report: the report under construction. before: items that an earlier import
        processed. players: whether to store the players of games.
    """

    def __init__(
        self,
        store: Store,
        source: GameSource,
        report: FileReport,
        given: Input,
        job: ImportKind,
        stop: threading.Event,
        on_progress: OnProgress | None,
    ) -> None:
        self.store, self.source, self.report = store, source, report
        self.players, self.before = job.players, report.done
        self._given, self._say_seconds = given, job.say_seconds
        self._stop, self._on_progress = stop, on_progress
        self._started = self._shown_at = time.monotonic()

    @property
    def complete(self) -> bool:
        """Whether the whole file is imported, with the players if requested."""
        return self.source.finished is not None and (
            not self.players or self.source.players == self.source.done
        )

    @property
    def stopped(self) -> bool:
        """Whether a stop was requested; the importer then saves and returns."""
        return self._stop.is_set()

    def save(self, write: tables.Write, *, finished: bool = False, players: int | None = None) -> None:
        """Writes rows and the progress of the import in one transaction.

        Args:
          players: games with stored players, skipped games included; None: as before.

        Raises:
          StoreError: if the file cannot be written; earlier transactions stay.
        """
        report = self.report
        with self.store.transaction():
            write(self.store)
            taken, skipped = report.taken, report.skipped
            self.source = tables.update_source(
                self.store, self.source, taken=taken, skipped=skipped, finished=finished, players=players
            )
        self.store.checkpoint(over=LOG_BYTES)

    def show_progress(self, stage: str = "Importing", count: int | None = None) -> None:
        """Reports progress, at most every `say_seconds`; `count` replaces the number of processed items."""
        now = time.monotonic()
        if self._on_progress is None or now - self._shown_at < self._say_seconds:
            return
        self._shown_at = now
        passed = max(self.report.done - self.before, self.report.players)
        done = passed if count is None else count
        rate, given = done / max(now - self._started, 1e-9), self._given
        self._on_progress(FileProgress(stage, given.name, given.position, given.size, done, rate))


ReadFile = Callable[[Importing, Input], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportKind:
    """How to import files of one kind: the function, and the options that change its result."""

    kind: str
    read: ReadFile  # imports one file; skips items that are already imported, and ends with `Importing.save`
    options: Mapping[str, Any]
    again: bool = False
    players: bool = False  # store players, also of a file that was imported without them
    say_seconds: float = SAY_SECONDS  # between two progress reports


def import_files(
    path: str | os.PathLike[str],
    files: Iterable[GivenFile],
    job: ImportKind,
    *,
    stop: threading.Event | None = None,
    on_progress: OnProgress | None = None,
) -> list[FileReport]:
    """Imports files into a graph file one by one; goes on after a file that cannot be read.

    A missing graph file is made, bound to no evaluator.

    Raises:
      StoreError: as `Store.open`, or if the store cannot be written.
    """
    stop = stop or threading.Event()
    reports: list[FileReport] = []
    with Store.open(path, create=True, unbound=True) as store:
        for given in files:
            if stop.is_set():
                break
            reports.append(_import_one(store, given, job, stop, on_progress))
    return reports


class _StoppedError(Exception):
    """A stop was requested before the file was read to its end; nothing of it is imported."""


def _import_one(
    store: Store, given: GivenFile, job: ImportKind, stop: threading.Event, on_progress: OnProgress | None
) -> FileReport:
    report = FileReport(given.name, job.kind)
    started = time.monotonic()

    def on_bytes(done: int, total: int) -> None:
        if stop.is_set():
            raise _StoppedError
        if on_progress:
            on_progress(FileProgress("Reading", given.name, done, total))

    def on_read() -> None:
        if stop.is_set():
            raise _StoppedError

    try:
        with opened(given, store.path.parent, on_bytes, on_read) as file:
            on_bytes(file.size, file.size)  # the stop request may also have ended a pipe
            report.digest = file.digest
            source = _begin(store, file, job, report)
            if report.state != "known":
                importing = Importing(store, source, report, file, job, stop, on_progress)
                job.read(importing, file)
                report.state = "stopped" if stop.is_set() and not importing.complete else report.state
    except _StoppedError:
        report.state = "stopped"
    except ImportFileError as error:
        report.error = str(error)
        report.state = "failed"
    report.new_taken += report.taken
    report.new_skipped += report.skipped
    report.seconds = time.monotonic() - started
    return report


def _begin(store: Store, file: Input, job: ImportKind, report: FileReport) -> GameSource:
    """Returns the row of a file: a new one, or that of an earlier import; sets the report's state."""
    known = None if job.again else tables.known_source(store, job.kind, file.digest, job.options)
    if known is None:
        with store.transaction():
            known = tables.begin_source(store, job.kind, file.name, file.digest, job.options)
        report.state = "imported"
        others = [one for one in tables.sources(store) if one.digest == file.digest and one.kind == job.kind]
        if not job.again and any(one.options != dict(job.options) for one in others):
            report.notes.append("it was imported before with other options; its content counts again")
    elif not known.finished:
        report.state = "continued"
    else:
        report.state = "players" if job.players and (known.players or 0) < known.done else "known"
    report.source, report.taken, report.skipped = known.id, known.taken, known.skipped
    report.new_taken, report.new_skipped = -known.taken, -known.skipped
    return known


# ------------------------------------------------------------------ reports
@dataclass(frozen=True, slots=True)
class Problem:
    """A skipped or suspicious item: its place in the file (line or entry), and the reason."""

    place: int
    reason: str


@dataclass(slots=True)
class FileReport:
    """The result of importing one file.

    Attributes:
      name, kind, digest: of the file, as in the table `source`.
      source: number of its row; 0 if it has none.
      state: `imported`; `continued` (resumed an earlier import); `players` (counted before, only players were
        added); `known` (imported before, nothing was done); `stopped` (by the user); `failed`.
      taken, skipped: games, entries or positions, in total. new_taken, new_skipped: of this run.
      players: games with players stored in this run.
      problems: all skipped or wrong items of this run.
      variants: games of other variants in this run, by name.
      notes: messages for the user, one line each.
      error: reason of a failure, else empty.
      seconds: wall time of this run.
    """

    name: str
    kind: str
    digest: str = ""
    source: int = 0
    state: str = "failed"
    taken: int = 0
    skipped: int = 0
    new_taken: int = 0
    new_skipped: int = 0
    players: int = 0
    problems: list[Problem] = field(default_factory=list)
    variants: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)
    error: str = ""
    seconds: float = 0.0

    @property
    def done(self) -> int:
        """The number of processed items: imported and skipped."""
        return self.taken + self.skipped

    @property
    def new(self) -> int:
        """The number of items processed in this run."""
        return self.new_taken + self.new_skipped

    @property
    def failed(self) -> bool:
        """Whether the file could not be read, or nothing of it counts."""
        return bool(self.error) or (self.state != "stopped" and not self.taken)

    def as_dict(self) -> dict[str, Any]:
        """Returns the report as a JSON object."""
        facts = asdict(self)
        facts["variants"] = dict(self.variants)
        return facts | {"failed": self.failed}
