"""Imports files into a graph file: games (PGN), books (Polyglot) and positions (EPD)."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..base.errors import ImportFileError, InputFileError, InvalidParameterError
from ..store.store import Store
from ..store.tables import games as tables
from ..store.tables.games import GameSource
from .epd_import import read_positions
from .importing import STDIN, FileProgress, FileReport, GivenFile, Importing, Input, OnProgress, opened
from .pgn_import import read_games
from .polyglot import read_book

# form -> reads a file: skips items that are already imported, and ends with `Importing.save`
READERS: dict[str, Callable[..., None]] = {"pgn": read_games, "polyglot": read_book, "epd": read_positions}


def import_files(
    form: str,
    path: str | os.PathLike[str],
    files: Iterable[GivenFile],
    *,
    variations: bool = False,
    max_ply: int | None = None,
    players: bool = False,
    again: bool = False,
    stop: threading.Event | None = None,
    on_progress: OnProgress | None = None,
) -> list[FileReport]:
    """Imports files (plain, gzip or zstd) into a graph file; goes on after a file that cannot be read.

    A missing graph file is made, bound to no evaluator. A file with the content of one imported before
    does not count again; an interrupted import resumes after what is saved.

    A game counts once for a move that it repeats in a position; a broken one does not count. The FENs of a
    book's positions are looked up (`polyglot.Finder`).

    Args:
      form: `pgn`, `polyglot` or `epd`. variations: of pgn: count moves of variations in a column apart.
      max_ply: of pgn: count only moves from positions below this ply; the rest of the game is not read.
      players: of pgn: store the players, moves and text of each game (tables `player`, `game`, `game_text`).
        A file that was imported without them is read again for that, but does not count again.
      again: also import files that were imported before.
      stop: set it, from any thread or a signal handler, to save and return.

    Raises:
      InvalidParameterError: if `max_ply` is below 1.
      StoreError: as `Store.open`, or if the store cannot be written; earlier transactions stay.
    """
    if max_ply is not None and max_ply < 1:
        raise InvalidParameterError(f"max_ply is {max_ply}; it must be at least 1")
    options = {"variations": variations, "max_ply": max_ply} if form == "pgn" else {}
    stop = stop or threading.Event()

    def import_one(store: Store, given: GivenFile, report: FileReport) -> None:
        def on_bytes(done: int, total: int) -> None:
            look_at_stop()
            if on_progress:
                on_progress(FileProgress("Reading", given.name, done, total))

        with opened(given, store.path.parent, on_bytes, look_at_stop) as file:
            on_bytes(file.size, file.size)  # the stop request may also have ended a pipe
            source = _begin(store, file, report, options, again=again, players=players)
            if report.state != "known":
                importing = Importing(store, source, report, file, stop, on_progress, players)
                READERS[form](importing, file, **options)
                report.state = "stopped" if stop.is_set() and not importing.complete else report.state

    def look_at_stop() -> None:
        if stop.is_set():
            raise _StoppedError

    reports: list[FileReport] = []
    with Store.open(path, create=True, unbound=True) as store:
        for given in files:
            if stop.is_set():
                break
            report, started = FileReport(given.name, form), time.monotonic()
            try:
                import_one(store, given, report)
            except _StoppedError:
                report.state = "stopped"
            except (ImportFileError, InputFileError) as error:
                report.error, report.state = str(error), "failed"
            report.new_taken += report.taken
            report.new_skipped += report.skipped
            report.seconds = time.monotonic() - started
            reports.append(report)
    return reports


class _StoppedError(Exception):
    """A stop was requested before the file was read to its end; nothing of it is imported."""


def _begin(
    store: Store, file: Input, report: FileReport, options: Mapping[str, Any], *, again: bool, players: bool
) -> GameSource:
    """Returns the row of a file: a new one, or that of an earlier import; sets the report's state."""
    known = None if again else tables.last_source(store, report.kind, file.digests, options)
    if known is None:
        with store.transaction():
            known = tables.begin_source(store, report.kind, file.name, file.digests[0], options)
        report.state = "imported"
        before = [one for one in tables.sources(store) if one.kind == report.kind]
        if not again and any(one.digest in file.digests and one.options != options for one in before):
            report.notes.append("it was imported before with other options; its content counts again")
        if any(one.digest not in file.digests and one.name == file.name != STDIN for one in before):
            report.notes.append("it has changed since it was imported; what it held before counts twice")
    elif not known.finished:
        report.state = "continued"
    else:
        report.state = "players" if players and (known.players or 0) < known.done else "known"
    report.digest = known.digest
    report.source, report.taken, report.skipped = known.id, known.taken, known.skipped
    report.new_taken, report.new_skipped = -known.taken, -known.skipped
    return known
