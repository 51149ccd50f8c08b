"""Imports Polyglot books into a graph file: every entry unchanged, with the position's FEN if it is found."""

from __future__ import annotations

import os
import threading
from array import array
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain

import chess
import numpy as np

from ..base.errors import ImportFileError
from ..base.limits import BOOK, check_size
from ..position.board import board_of, encode_move, fen_of, pack
from ..position.board import unpack as unpacked
from ..position.words import KEY
from ..query.steps import Words, legal_codes, positions_after
from ..store.store import Store
from ..store.tables import games as tables
from .importing import FileReport, Importing, ImportKind, OnProgress, Problem, import_files
from .polyglot import ENTRY_BYTES, PolyglotEntry, legal_move, unpack, written_move
from .sources import GivenFile, Input

KIND = "polyglot"
ENTRIES_AT_ONCE = 1 << 15  # of one transaction
NAMES_AT_ONCE = 10_000

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
    """Imports every entry of Polyglot books into a graph file; makes the file if it is missing.

    A book stores only the keys of its positions. Their FENs come from the positions of the graph file, and
    from a search over the moves of the book and single moves that are not in it, from those positions and
    from the start of the game.

    Args:
      again: also import books that were imported before.
      stop: set it, from any thread or a signal handler, to save and return.
      entries_at_once: entries per transaction.

    Raises:
      StoreError: if the graph file cannot be written; earlier transactions stay.
    """

    def read(importing: Importing, given: Input) -> None:
        _PolyglotImport(importing, given, entries_at_once).read()

    job = ImportKind(kind=KIND, read=read, options={}, again=again)
    return import_files(path, files, job, stop=stop, on_progress=on_progress)


class _PolyglotImport:
    def __init__(self, importing: Importing, given: Input, entries_at_once: int) -> None:
        self._importing = importing
        self._entries_at_once = entries_at_once
        self._report = importing.report
        self._given = given
        self._keys = BookKeys()
        self._zero = 0
        self._names: list[Row] = []

    def read(self) -> None:
        """Imports the entries that are not imported yet, then names the positions and moves it can find."""
        if self._read_entries():
            finder = Finder(self._importing.store, self._keys)
            if self._name_all(finder):
                self._add_notes(finder)
                self._importing.save(self._write_names(), finished=True)

    # -------------------------------------------------------------- entries
    def _read_entries(self) -> bool:
        """Imports the remaining entries; returns False if stopped before the end."""
        place, rest = 0, b""
        for piece in self._given.pieces(self._entries_at_once * ENTRY_BYTES):
            begin = piece[:4096]
            if (
                not place
                and begin.isascii()
                and begin.decode("ascii").replace("\n", "").replace("\r", "").isprintable()
            ):
                raise ImportFileError(f"{self._given.name} is a text file, not a Polyglot book")
            check_size(place * ENTRY_BYTES, BOOK, self._given.name)
            whole = len(piece) // ENTRY_BYTES * ENTRY_BYTES
            entries, rest = list(unpack(piece[:whole])), piece[whole:]
            self._save_entries(place, entries)
            place += len(entries)
            self._importing.show_progress()
            if self._importing.stopped:
                return False
        if rest:
            reason = f"{len(rest)} bytes at the end are not a whole entry; the book is cut short"
            self._report.problems.append(Problem(place, reason))
            self._report.skipped = 1
        return True

    def _save_entries(self, place: int, entries: list[PolyglotEntry]) -> None:
        self._keys.add(entry.key for entry in entries)
        self._zero += sum(not entry.weight for entry in entries)
        source, known = self._importing.source.id, max(0, self._report.taken - place)
        rows: list[tables.EntryRow] = []
        for at, entry in enumerate(entries[known:], place + known):
            names = f"{entry.key:016x}", _as_written(entry.raw_move)
            rows.append((*names, source, at, entry.raw_move, entry.weight, entry.learn))
        if rows:
            self._report.taken += len(rows)
            self._importing.save(lambda store: tables.add_entries(store, rows))

    # -------------------------------------------------------------- names
    def _name_all(self, finder: Finder) -> bool:
        """Names the entries of every position found; returns False if stopped before the end."""
        for known in finder:
            self._name(known, finder)
            self._importing.show_progress("Naming the positions of", finder.found)
            if len(self._names) >= NAMES_AT_ONCE:
                self._importing.save(self._write_names())
            if self._importing.stopped:
                self._importing.save(self._write_names())
                return False
        return True

    def _name(self, known: Place, finder: Finder) -> None:
        """Names the moves of a position, and passes them to the finder."""
        words, ply = known
        board = unpacked(words.tolist())
        board.fullmove_number = ply // 2 + 1
        fen, key, source = fen_of(board), f"{int(words[KEY]):016x}", self._importing.source.id
        moves: list[chess.Move] = []
        for place, raw in tables.entries_of(self._importing.store, source, key):
            move = legal_move(board, raw)
            if move is None:
                text = _as_written(raw)
                reason = f"the move {text} ({raw:#06x}) is illegal in its position, {fen}"
                self._report.problems.append(Problem(place, reason))
                self._names.append((fen, text, None, key, source, place))
                continue
            self._names.append((fen, move.uci(), board.san(move), key, source, place))
            moves.append(move)
        finder.follow(known, moves)

    def _write_names(self) -> tables.Write:
        names, self._names = self._names, []
        return lambda store: tables.name_entries(store, names)

    def _add_notes(self, finder: Finder) -> None:
        notes = self._report.notes
        total = len(self._keys.sorted)
        notes.append(f"positions whose FEN is known: {finder.found:,} of {total:,}")
        if self._zero:
            notes.append(f"entries of weight 0, which programs do not play: {self._zero:,}")
        if self._keys.disorder is not None:
            notes.append(
                f"its entries are out of order from entry {self._keys.disorder} on; programs will miss some"
            )
        if not total:
            notes.append("it has no entries")


def _as_written(raw: int) -> str:
    """Returns a raw move in UCI, castling as e1h1; the null move if its bits are invalid."""
    move = written_move(raw)
    return move.uci() if move else chess.Move.null().uci()


# ------------------------------------------------------------------ positions of a book
Place = tuple[Words, int]  # a position and its ply


class BookKeys:
    """The keys of a book; memory: 8 bytes per entry.

    Attributes:
      disorder: index of the first entry out of order; None if the book is sorted.
    """

    def __init__(self) -> None:
        self._given = array("Q")
        self._entries = 0
        self.disorder: int | None = None

    def add(self, keys: Iterable[int]) -> None:
        """Adds the keys of the next entries."""
        last = self._given[-1] if self._given else -1
        for key in keys:
            if key < last and self.disorder is None:
                self.disorder = self._entries
            if key != last:
                self._given.append(key)
            last = key
            self._entries += 1

    @cached_property
    def sorted(self) -> Words:
        """All keys, sorted and distinct; read it only after the last `add`, as it is cached."""
        return np.unique(np.array(self._given, np.uint64))


class Finder:
    """Yields each position found for a key of the book, and its ply; `follow` its moves before the next.

    Attributes:
      found: number of positions so far.
    """

    def __init__(self, store: Store, keys: BookKeys) -> None:
        self._store = store
        self._keys = keys.sorted
        self._seen = np.zeros(len(self._keys), bool)
        self._ready: deque[Place] = deque()
        self._around: deque[Place] = deque()  # positions to expand by all legal moves
        self._passed: set[int] = set()  # keys of expanded positions that are not in the book
        self.found = 0

    def __iter__(self) -> Iterator[Place]:
        keys = (f"{key:016x}" for key in self._keys.tolist())
        fens = chain(tables.known_roots(self._store), tables.known_fens(self._store, keys))
        for fen in chain([chess.STARTING_FEN], fens):
            board = board_of(fen)
            self._meet(pack(board).reshape(1, -1), board.ply(), passes=True)
            yield from self._drained()
        while self._around and self.found < len(self._keys):
            words, ply = self._around.popleft()
            self._look_around(words, ply)
            yield from self._drained()

    def _drained(self) -> Iterator[Place]:
        while self._ready:
            yield self._ready.popleft()

    def follow(self, known: Place, moves: Sequence[chess.Move]) -> None:
        """Follows the book's legal moves in a position."""
        self._step(*known, [encode_move(move) for move in moves], passes=True)
        self._around.append(known)

    def _look_around(self, words: Words, ply: int) -> None:
        """Meets the positions after all legal moves of a position."""
        counts, codes, _ = legal_codes(words.reshape(1, -1))
        self._step(words, ply, codes[0, : counts[0]].tolist(), passes=False)

    def _step(self, words: Words, ply: int, codes: Sequence[int], *, passes: bool) -> None:
        if codes:
            after, _ = positions_after(words.reshape(1, -1), [0] * len(codes), codes)
            self._meet(after, ply + 1, passes=passes)

    def _meet(self, words: Words, ply: int, *, passes: bool) -> None:
        """Queues positions that are new and in the book; with `passes`, queues the others for expansion."""
        places = np.minimum(np.searchsorted(self._keys, words[:, KEY]), max(len(self._keys) - 1, 0))
        hits = self._keys[places] == words[:, KEY] if len(self._keys) else np.zeros(len(words), bool)
        for row, place, hit in zip(words, places.tolist(), hits.tolist(), strict=True):
            if hit and not self._seen[place]:
                self._seen[place] = True
                self.found += 1
                self._ready.append((row.copy(), ply))
            elif not hit and passes and int(row[KEY]) not in self._passed:
                self._passed.add(int(row[KEY]))
                self._around.append((row.copy(), ply))
