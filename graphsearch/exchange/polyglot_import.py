"""Polyglot books into the tables of a graph file: every entry as it stands, with a FEN where one is known."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence

import chess

from ..errors import ImportFileError
from ..limits import BOOK, check_size
from ..store.tables import games as tables
from .book_positions import BookKeys, Finder, NamedPosition
from .importing import Importing, ImportKind, OnProgress, import_files, open_for_import
from .polyglot import ENTRY_BYTES, PolyglotEntry, legal_move, unpack, written_move
from .report import FileReport, Problem
from .sources import GivenFile, Input

KIND = "polyglot"
ENTRIES_AT_ONCE = 1 << 15  # of one transaction
NAMES_AT_ONCE = 10_000

_LINE_ENDS = str.maketrans("", "", "\t\r\n")

Row = tuple[str, str, str | None, str, int, int]  # as `games.name_entries` takes it


def import_polyglot(
    path: str | os.PathLike[str],
    files: Sequence[GivenFile],
    *,
    again: bool = False,
    stop: threading.Event | None = None,
    on_progress: OnProgress | None = None,
    entries_at_once: int = ENTRIES_AT_ONCE,
) -> list[FileReport]:
    """Takes every entry of Polyglot books into a graph file, which is made if it is missing.

    A book knows positions by their keys only. Their FENs are looked up among the positions of the graph file,
    and found along the moves of the book and over single moves that it leaves out, from there and from the
    start of the game.

    Args:
      again: take in books that were imported before once more.
      stop: set it, from any thread or a signal handler, to save and return.
      entries_at_once: written in one transaction.

    Raises:
      StoreError: if the graph file cannot be written; what was saved before stays.
    """

    def take(importing: Importing, given: Input) -> None:
        _PolyglotImport(importing, given, entries_at_once).take()

    with open_for_import(path) as store:
        job = ImportKind(kind=KIND, take=take, options={}, again=again)
        return import_files(store, files, job, stop=stop, on_progress=on_progress)


class _PolyglotImport:
    """One book."""

    def __init__(self, importing: Importing, given: Input, entries_at_once: int) -> None:
        self._importing = importing
        self._entries_at_once = entries_at_once
        self._report = importing.report
        self._given = given
        self._keys = BookKeys()
        self._zero = 0
        self._names: list[Row] = []

    def take(self) -> None:
        """Takes the entries that were not taken yet, then names what can be named."""
        if self._take_all():
            finder = Finder(self._importing.store, self._keys)
            if self._name_all(finder):
                self._add_notes(finder)
                self._importing.save(self._write_names(), finished=True)

    # -------------------------------------------------------------- entries
    def _take_all(self) -> bool:
        """Returns whether all entries are in the file."""
        place, rest = 0, b""
        for piece in self._given.pieces(self._entries_at_once * ENTRY_BYTES):
            if not place:
                self._refuse_text(piece)
            check_size(place * ENTRY_BYTES, BOOK, self._given.name)
            whole = len(piece) // ENTRY_BYTES * ENTRY_BYTES
            entries, rest = list(unpack(piece[:whole])), piece[whole:]
            self._take(place, entries)
            place += len(entries)
            self._importing.say()
            if self._importing.stopped:
                return False
        if rest:
            reason = f"{len(rest)} bytes at the end are not a whole entry; the book is cut short"
            self._report.problems.append(Problem(place, reason))
            self._report.skipped = 1
        return True

    def _refuse_text(self, piece: bytes) -> None:
        if (
            piece[:4096].isascii()
            and piece[:4096].decode("ascii").replace("\n", "").replace("\r", "").isprintable()
        ):
            raise ImportFileError(f"{self._given.name} is a text file, not a Polyglot book")

    def _take(self, place: int, entries: list[PolyglotEntry]) -> None:
        self._keys.add(entry.key for entry in entries)
        self._zero += sum(not entry.weight for entry in entries)
        rows = [
            _row(entry, self._importing.source.id, place + k)
            for k, entry in enumerate(entries)
            if place + k >= self._report.taken
        ]
        if rows:
            self._report.taken += len(rows)
            self._importing.save(lambda store: tables.add_entries(store, rows))

    # -------------------------------------------------------------- names
    def _name_all(self, finder: Finder) -> bool:
        """Names the entries of every position that is found; returns whether it came to the end."""
        for known in finder:
            self._name(known, finder)
            self._importing.say("Naming the positions of", finder.found)
            if len(self._names) >= NAMES_AT_ONCE:
                self._importing.save(self._write_names())
            if self._importing.stopped:
                self._importing.save(self._write_names())
                return False
        return True

    def _name(self, known: NamedPosition, finder: Finder) -> None:
        """Names the moves of a position, and has the finder follow them."""
        fen, key, source = known.fen, f"{known.key:016x}", self._importing.source.id
        moves: list[chess.Move] = []
        for place, raw in tables.entries_of(self._importing.store, source, key):
            move = legal_move(known.board, raw)
            if move is None:
                text = _as_written(raw)
                reason = f"the move {text} ({raw:#06x}) is illegal in its position, {fen}"
                self._report.problems.append(Problem(place, reason))
                self._names.append((fen, text, None, key, source, place))
                continue
            self._names.append((fen, move.uci(), known.board.san(move), key, source, place))
            moves.append(move)
        finder.follow(known, moves)

    def _write_names(self) -> tables.Write:
        names, self._names = self._names, []
        return lambda store: tables.name_entries(store, names)

    def _add_notes(self, finder: Finder) -> None:
        notes = self._report.notes
        total = self._keys.distinct
        notes.append(f"positions whose FEN is known: {finder.found:,} of {total:,}")
        if self._zero:
            notes.append(f"entries of weight 0, which programs do not play: {self._zero:,}")
        if self._keys.disorder is not None:
            notes.append(
                f"its entries are out of order from entry {self._keys.disorder} on; programs will miss some"
            )
        if not total:
            notes.append("it has no entries")


def _row(entry: PolyglotEntry, source: int, place: int) -> tables.EntryRow:
    key, move = f"{entry.key:016x}", _as_written(entry.raw_move)
    return (key, move, source, place, entry.raw_move, entry.weight, entry.learn)


def _as_written(raw: int) -> str:
    """Returns a raw move in UCI, castling as e1h1; the null move if it is none."""
    move = written_move(raw)
    return move.uci() if move else chess.Move.null().uci()
