"""Imports games of PGN files into a graph file: counts and results by position and move."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from typing import Any

from ..base.errors import ImportFileError, InvalidParameterError
from ..position.pgn import GameText, read_game, shown
from ..store.store import Store
from ..store.tables import game_list
from ..store.tables import players as player_tables
from ..store.tables.game_list import IndexRow
from ..store.tables.players import GameRow
from .importing import SAY_SECONDS, FileReport, Importing, ImportKind, OnProgress, Problem, import_files
from .kept_games import TextKeeper, game_row, index_of_block
from .pgn_blocks import RESULT_TEXTS, BlockReader, Facts, PlayedBlock, played_game, played_variations
from .sources import GivenFile, Input
from .tally import BLACK, DRAWS, GAMES_AT_ONCE, UNKNOWN, VARIATIONS, WHITE, Tally

KIND = "pgn"
MOST_WORDS = 5  # named of those that are skipped

NULL_MOVE = "a null move (--), which no game contains; the game counts up to there"

_RESULTS = {"1-0": WHITE, "0-1": BLACK, "1/2-1/2": DRAWS, "1/2": DRAWS}


def import_pgn(
    path: str | os.PathLike[str],
    files: Sequence[GivenFile],
    *,
    variations: bool = False,
    max_ply: int | None = None,
    again: bool = False,
    players: bool = False,
    stop: threading.Event | None = None,
    on_progress: OnProgress | None = None,
    games_at_once: int = GAMES_AT_ONCE,
    say_seconds: float = SAY_SECONDS,
) -> list[FileReport]:
    """Counts the games of PGN files (plain, gzip or zstd) in a graph file; makes the file if it is missing.

    A game counts once for each of its (position, move) pairs, even if it repeats them. A broken game does not
    count. A file with the same bytes as one imported before does not count again; an interrupted import
    resumes after the last saved game.

    Args:
      variations: count moves of variations too, in a separate column.
      max_ply: count only moves from positions below this ply; the rest of the game is not read.
      again: count the files even if they were imported before.
      players: store the players, moves and text of each game (tables `player`, `game`, `game_text`). A file
        that was imported without them is read again for that, but does not count again.
      stop: set it, from any thread or a signal handler, to save and return.
      games_at_once: games per transaction.
      say_seconds: interval between two calls of `on_progress`.

    Raises:
      InvalidParameterError: if `max_ply` is below 1.
      StoreError: if the graph file cannot be written; earlier transactions stay.
    """
    if max_ply is not None and max_ply < 1:
        raise InvalidParameterError(f"max_ply is {max_ply}; it must be at least 1")
    options: dict[str, Any] = {"variations": variations, "max_ply": max_ply}

    def read(importing: Importing, given: Input) -> None:
        _PgnImport(importing, given, variations, max_ply, games_at_once).read()

    job = ImportKind(
        kind=KIND, read=read, options=options, again=again, players=players, say_seconds=say_seconds
    )
    return import_files(path, files, job, stop=stop, on_progress=on_progress)


class _PgnImport:
    def __init__(
        self, importing: Importing, given: Input, variations: bool, max_ply: int | None, games_at_once: int
    ) -> None:
        self._importing = importing
        self._report = importing.report
        self._texts = TextKeeper(game_list.text_end(importing.store, importing.source.id))
        if importing.players:
            given.keep(self._texts.add)
        self._reader = BlockReader(given, most=games_at_once, max_ply=max_ply, regular=not variations)
        self._variations, self._max_ply = variations, max_ply
        self._games_at_once = games_at_once
        self._tally = Tally(games_at_once)
        self._rows: list[GameRow] = []  # games to store
        self._index: list[IndexRow] = []
        self._kept_before = importing.source.players or 0
        self._passed = 0
        self._strays = self._at_odds = self._cut_variations = 0
        self._stray_words: list[str] = []  # the first ones

    def read(self) -> None:
        """Imports the games that are not imported yet; saves the counts even after an error."""
        finished = False
        try:
            for one in self._reader:
                if isinstance(one, PlayedBlock):
                    self._add_block(one)
                    self._passed += len(one.games)
                else:
                    self._add_text(one)
                    self._passed += 1
                if self._tally.is_full or len(self._rows) >= self._games_at_once:
                    self._save()
                self._importing.show_progress()
                if self._importing.stopped:
                    return
            if self._reader.words and not self._passed:
                words = f"{self._reader.words:,} words that are not moves"
                raise ImportFileError(f"{self._report.name} has no games, only {words}; is it a PGN file?")
            finished = True
        finally:
            self._save(finished=finished)
            self._add_notes(finished=finished)

    def _add_block(self, played: PlayedBlock) -> None:
        """Counts and stores replayed games, except those already counted or stored."""
        results = [result_of(game) for game in played.games]
        skip = min(max(0, self._importing.before - self._passed), len(results))
        self._tally.add(played.part(skip, len(results)), [result for result, _ in results[skip:]])
        self._report.taken += len(results) - skip
        self._at_odds += sum(at_odds for _, at_odds in results[skip:])
        if self._importing.players:
            first = self._passed + 1
            numbers = [(i, first + i) for i in range(len(results)) if first + i > self._kept_before]
            for i, number in numbers:
                result = RESULT_TEXTS[results[i][0]]
                self._rows.append(game_row(played.games[i], number, result, played.moves(i)))
            self._index += index_of_block(played, numbers)
            self._report.players += len(numbers)

    def _add_text(self, text: GameText) -> None:
        """Reads, counts and stores a game, unless it is already counted and stored."""
        number, report = self._passed + 1, self._report
        counts = number > self._importing.before
        if not counts and (not self._importing.players or number <= self._kept_before):
            return
        game = read_game(text, variations=self._variations)
        most = None if self._max_ply is None or game.start is None else self._max_ply - game.start.ply()
        problem = (game.error_line, game.error) if game.fails_before(most) else (0, "")
        if self._variations and game.variation_faults and not problem[1]:
            problem = game.variation_faults[0]
        if counts:
            report.problems += [Problem(*remark) for remark in game.remarks]
        if game.variant or problem[1]:
            report.skipped += counts
            if game.variant:
                report.variants[game.variant] += counts
            elif counts:
                report.problems.append(Problem(*problem))
            return
        if counts:
            if game.null_line:
                report.problems.append(Problem(game.null_line, NULL_MOVE))
            self._strays += len(game.strays)
            shown_words = [f"{shown(word)} in line {line}" for line, word in game.strays]
            self._stray_words += shown_words[: MOST_WORDS - len(self._stray_words)]
            if self._variations:
                moves = played_variations(game, self._max_ply)
                self._tally.add(moves, [VARIATIONS] * len(moves.games))
                self._cut_variations += game.null_variations
        self._add_block(played_game(game, self._max_ply))

    def _save(self, *, finished: bool = False) -> None:
        passed = max(self._passed, self._kept_before) if self._importing.players else None
        self._importing.save(self._write, finished=finished, players=passed)
        self._tally = Tally(self._games_at_once)  # after a failed save, the next one has these counts
        self._rows, self._index = [], []

    def _write(self, store: Store) -> None:
        self._tally.write(store)
        source = self._importing.source.id
        game_list.add_texts(store.connection, source, self._texts.pop_rows())
        if self._rows:
            player_tables.add(store, source, self._rows)
            game_list.add_index(store.connection, source, self._index)

    def _add_notes(self, *, finished: bool) -> None:
        strays = self._strays + self._reader.words
        words = f" (as {', '.join(self._stray_words)})" if self._stray_words else ""
        for number, what in (
            (self._at_odds, "games whose Result contradicts their ending, counted as without result"),
            (strays if self._passed else 0, f"words that are not moves, skipped{words}"),
            (self._cut_variations, "variations that were read up to a null move (--) only"),
        ):
            if number:
                self._report.notes.append(f"{what}: {number:,}")
        if finished and not self._report.done:
            self._report.notes.append("it has no games")


def result_of(game: Facts) -> tuple[int, bool]:
    """Returns the column of a game's result, and whether its Result header contradicts its ending.

    >>> [result_of(Facts({"Result": "1-0"}, ending, 0, 0)) for ending in ("1-0", "*", "0-1")]
    [(0, False), (0, False), (3, True)]
    """
    header = _RESULTS.get(game.headers.get("Result", "").strip())
    ending = _RESULTS.get(game.result)
    if header is not None and ending is not None and header != ending:
        return UNKNOWN, True
    found = header if ending is None else ending
    return (UNKNOWN if found is None else found), False
