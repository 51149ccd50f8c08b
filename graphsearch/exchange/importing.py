"""What all imports share: file by file into a graph file, in transactions that say how far they are."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from ..base.errors import ImportFileError
from ..store.log import LOG_BYTES
from ..store.sharded.cluster_store import open_to_write
from ..store.store import Store
from ..store.tables import games as tables
from ..store.tables.games import GameSource
from .sources import GivenFile, Input, opened

SAY_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class ImportProgress:
    """How far a file is: bytes, of how many; games, entries or positions so far, and how many a second."""

    stage: str
    name: str
    done: int
    total: int
    count: int = 0
    rate: float = 0.0


OnProgress = Callable[[ImportProgress], object]


class Importing:
    """Where an import stands in one file, and what writes that down.

    Attributes:
      source: its row in the file. report: what is told in the end. before: how much an earlier import did.
      players: whether it is to be kept who played.
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
        """Whether all that was asked for is taken in."""
        return self.source.finished is not None and (
            not self.players or self.source.players == self.source.done
        )

    @property
    def stopped(self) -> bool:
        """Whether the person wants to end; save then, and return."""
        return self._stop.is_set()

    def save(self, write: tables.Write, *, finished: bool = False, players: int | None = None) -> None:
        """Writes rows and how far the import is, all of it or nothing.

        Args:
          players: games whose players are kept then, those left out included; None: as before.

        Raises:
          StoreError: if the file cannot be written; what was saved before stays.
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
        """Tells how far it is, now and then; `count` if it is not of the games or entries that are done."""
        now = time.monotonic()
        if self._on_progress is None or now - self._shown_at < self._say_seconds:
            return
        self._shown_at = now
        passed = max(self.report.done - self.before, self.report.players)
        done = passed if count is None else count
        rate, given = done / max(now - self._started, 1e-9), self._given
        self._on_progress(ImportProgress(stage, given.name, given.position, given.size, done, rate))


ReadFile = Callable[[Importing, Input], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportKind:
    """How files of one kind are taken in: the options that change what is taken, and the function."""

    kind: str
    read: ReadFile  # reads one file, without what was read before, and ends with `Importing.save`
    options: Mapping[str, Any]
    again: bool = False
    players: bool = False  # keep who played, also of a file that was imported before without
    say_seconds: float = SAY_SECONDS  # between two signs of progress


def import_files(
    store: Store,
    files: Iterable[GivenFile],
    job: ImportKind,
    *,
    stop: threading.Event | None = None,
    on_progress: OnProgress | None = None,
) -> list[FileReport]:
    """Takes files into an open store, one after the other; one that cannot be read stops no other.

    Raises:
      StoreError: if the store cannot be written.
    """
    stop = stop or threading.Event()
    reports: list[FileReport] = []
    for given in files:
        if stop.is_set():
            break
        reports.append(_import_one(store, given, job, stop, on_progress))
    return reports


class _StoppedError(Exception):
    """The person wants to end before the file is read to its end; nothing of it is taken."""


def _import_one(
    store: Store, given: GivenFile, job: ImportKind, stop: threading.Event, on_progress: OnProgress | None
) -> FileReport:
    report = FileReport(given.name, job.kind)
    started = time.monotonic()

    def on_bytes(done: int, total: int) -> None:
        if stop.is_set():
            raise _StoppedError
        if on_progress:
            on_progress(ImportProgress("Reading", given.name, done, total))

    def on_read() -> None:
        if stop.is_set():
            raise _StoppedError

    try:
        with opened(given, store.path.parent, on_bytes, on_read) as file:
            on_bytes(file.size, file.size)  # a pipe may have ended because of what stops this
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


def _counts_again(store: Store, file: Input, job: ImportKind) -> bool:
    """Returns whether the same bytes were imported before with other options."""
    there = [source for source in tables.sources(store) if source.digest == file.digest]
    return any(source.kind == job.kind and source.options != dict(job.options) for source in there)


def _begin(store: Store, file: Input, job: ImportKind, report: FileReport) -> GameSource:
    """Returns the row of a file: a new one, or that of an import that was broken off."""
    known = None if job.again else tables.known_source(store, job.kind, file.digest, job.options)
    if known is None:
        with store.transaction():
            known = tables.begin_source(store, job.kind, file.name, file.digest, job.options)
        report.state = "imported"
        if not job.again and _counts_again(store, file, job):
            report.notes.append("it was imported before with other options; what is in it counts once more")
    elif not known.finished:
        report.state = "continued"
    else:
        report.state = "players" if job.players and (known.players or 0) < known.done else "known"
    report.source, report.taken, report.skipped = known.id, known.taken, known.skipped
    report.new_taken, report.new_skipped = -known.taken, -known.skipped
    return known


def open_for_import(path: str | os.PathLike[str]) -> Store:
    """Returns the store that files are imported into; one that does not exist is made, bound to no evaluator.

    Raises:
      StoreError: as `Store.open`.
    """
    return open_to_write(path, create=True, unbound=True)


# ------------------------------------------------------------------ reports
@dataclass(frozen=True, slots=True)
class Problem:
    """Something that was left out, or is odd: where in the file (line, or entry), and why."""

    place: int
    reason: str


@dataclass(slots=True)
class FileReport:
    """What became of one file.

    Attributes:
      name, kind, digest: of the file, as in the table `source`.
      source: number of its row; 0 if it has none.
      state: `imported`; `continued` (after what an import before had taken in); `players` (it was counted
        before, and only who played was added); `known` (all of it was taken in before, and nothing was done);
        `stopped` (by the person); `failed`.
      taken, skipped: games, entries or positions, in all. new_taken, new_skipped: those of this time.
      players: games whose players were kept this time.
      problems: what was skipped or is wrong, this time; all of them.
      variants: games of other variants this time, by name.
      notes: what a person should know, one line each.
      error: why it failed; empty if it did not.
      seconds: this time.
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
        """How far in the file: what was taken in and what was left out."""
        return self.taken + self.skipped

    @property
    def new(self) -> int:
        """How many were passed this time, taken in or left out."""
        return self.new_taken + self.new_skipped

    @property
    def failed(self) -> bool:
        """Whether it could not be read, or nothing in it was of use."""
        return bool(self.error) or (self.state != "stopped" and self.skipped > 0 and not self.taken)

    def as_dict(self) -> dict[str, Any]:
        """Returns the report as JSON takes it."""
        facts = asdict(self)
        facts["variants"] = dict(self.variants)
        return facts | {"failed": self.failed}
