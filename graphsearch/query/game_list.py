"""Imported games: listed by player, opening, rating, date, position and more; players; games replayed.

Games are replayed together, ply by ply; a position that several of them share is replayed once. Reads only.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Literal

import chess
import numpy as np
from numpy.typing import NDArray

from ..base.answer import Answer
from ..base.dates import date_text
from ..base.deadline import check_time
from ..base.errors import InvalidParameterError
from ..position.board import (
    MAX_MOVES,
    POSITION_WORDS,
    board_of,
    check,
    decode_move,
    key_of,
    key_text,
    key_texts,
    legal_moves,
    pack,
    unpack,
)
from ..store.ranking import visits_of
from ..store.reading import Reader
from ..store.store import Store
from ..store.tables import games as tables
from ..store.tables.books import book_keys
from ..store.tables.games import SORTS, GameList, GameRow, PlayerRow, Term, kept, player_names, sources
from .source import opened
from .steps import Ints, Mask, Words, legal_codes, positions_after

NO_MOVE = -1
AT_ONCE = 50_000  # positions whose moves are listed together: 33 MB


@dataclass(frozen=True, slots=True)
class Level:
    """The positions of one ply, `[M, 10]`: keys, indexes of parents in the level before, moves from there."""

    words: Words
    keys: Sequence[str]
    parents: Ints
    codes: NDArray[np.uint16]


class Replay:
    """Games that are replayed in step, each at the same ply.

    Attributes:
      levels: the positions of every ply so far, or only the last ones. ply: that of the last level.
      at: `[G]`, index of each game's position in the last level, -1 for a game that is no longer followed.
      damaged: indexes of games with an illegal move or an invalid first position.
    """

    def __init__(
        self, fens: Sequence[str | None], moves: Sequence[bytes], *, keep_levels: bool = True
    ) -> None:
        """Begins with the first positions of games, None for the start position, and the numbers of moves."""
        self._moves, self._keep, self.ply = moves, keep_levels, 0
        self._lengths = np.array([len(game) for game in moves], np.int64)
        starts: dict[str | None, int] = {}
        for fen in dict.fromkeys(fens):
            with suppress(ValueError):
                check(start_of(fen))
                starts[fen] = len(starts)
        self.at = np.array([starts.get(fen, NO_MOVE) for fen in fens], np.int64)
        self.damaged: set[int] = set(np.flatnonzero(self.at < 0).tolist())
        words = np.array([pack(start_of(fen)) for fen in starts], np.uint64).reshape(-1, POSITION_WORDS)
        none = np.zeros(len(words), np.int64)
        self.levels = [Level(words, key_texts(words), none, none.astype(np.uint16))]

    def step(self) -> NDArray[np.uint16]:
        """Plays one ply of every followed game; returns the moves, `[G]`, 0 where one ends or is damaged."""
        level = self.levels[-1]
        codes = np.zeros(len(self.at), np.uint16)
        followed = np.flatnonzero(self.at >= 0)
        goes_on = self._lengths[followed] > self.ply
        self.at[followed[~goes_on]] = NO_MOVE
        followed = followed[goes_on]
        numbers = np.array([self._moves[g][self.ply] for g in followed.tolist()], np.int64)
        pairs, which = np.unique(self.at[followed] << 8 | numbers, return_inverse=True)
        found = _codes_of(level.words, pairs >> 8, pairs & 255)
        wrong = found[which] == 0
        self.damaged.update(followed[wrong].tolist())
        self.at[followed[wrong]] = NO_MOVE
        codes[followed] = found[which]
        sound = found != 0
        parents, moves = (pairs >> 8)[sound], found[sound]
        words, _ = positions_after(level.words, parents, moves)
        self.levels = [*(self.levels if self._keep else ()), Level(words, key_texts(words), parents, moves)]
        self.ply += 1
        self.at[followed[~wrong]] = (np.cumsum(sound) - 1)[which[~wrong]]
        return codes

    def line(self, ply: int, place: int) -> chess.Board:
        """Returns a position with the moves of the first game that reached it."""
        moves: list[chess.Move] = []
        for level in reversed(self.levels[1 : ply + 1]):
            moves.append(decode_move(int(level.codes[place])))
            place = int(level.parents[place])
        board = unpack(self.levels[0].words[place])
        for move in reversed(moves):
            board.push(move)
        return board


def start_of(fen: str | None) -> chess.Board:
    """Returns the first position of a game; None is the start position."""
    return board_of(fen or chess.STARTING_FEN)


def _codes_of(words: Words, places: Ints, numbers: Ints) -> NDArray[np.uint16]:
    """Returns moves by their numbers in canonical order, 0 for an illegal one; `places`: ascending rows."""
    codes = np.zeros(len(places), np.uint16)
    for first in range(0, len(places), AT_ONCE):
        part = slice(first, first + AT_ONCE)
        rows, row = np.unique(places[part], return_inverse=True)
        counts, moves, _ = legal_codes(words[rows])
        number = numbers[part]
        codes[part] = np.where(number < counts[row], moves[row, np.minimum(number, MAX_MOVES - 1)], 0)
    return codes


# ------------------------------------------------------------------ positions that a player knows
ASKED_AT_ONCE = 50_000  # positions

Known = Callable[[Level], Mask]  # mask of the known positions of a level, `[M]`


def book_positions(store: Store, book: int) -> Known:
    """Returns a function that marks the positions of a book; positions apart do not count."""
    keys = frozenset(book_keys(store, book))
    return lambda level: np.array([key in keys for key in level.keys], np.bool_)


def graph_positions(reader: Reader, min_visits: int) -> Known:
    """Returns a function that marks the positions of a graph with N of at least `min_visits`."""

    def known(level: Level) -> Mask:
        mask = np.zeros(len(level.words), np.bool_)
        for first in range(0, len(mask), ASKED_AT_ONCE):
            have, records = reader.find(level.words[first : first + ASKED_AT_ONCE])
            mask[first + np.flatnonzero(have)[visits_of(records) >= min_visits]] = True
        return mask

    return known


# ------------------------------------------------------------------ lists
RESULTS = ("1-0", "0-1", "1/2-1/2", "*")
_ECO = re.compile(r"[A-Ea-e][0-9]{0,2}")


@dataclass(frozen=True, slots=True, kw_only=True)
class GameFilters:
    """Conditions on games; a game must satisfy all of them.

    Attributes:
      player: a name, or beginnings of words in it. color: the player's colour.
      opponent: name of the other side, likewise.
      opening: an ECO code or its beginning (B, B9, B90), or part of the name of an opening.
      result: `1-0`, `0-1`, `1/2-1/2` or `*`. least_elo, most_elo: of both players.
      since, until: dates: 2024, 2024-05 or 2024-05-17. file: part of the name of the PGN file.
      position: a position that the game reaches, by any order of moves.
    """

    player: str = ""
    color: Literal["white", "black"] | None = None
    opponent: str = ""
    opening: str = ""
    result: str | None = None
    least_elo: int | None = None
    most_elo: int | None = None
    since: str | None = None
    until: str | None = None
    file: str = ""
    position: chess.Board | None = None

    def __post_init__(self) -> None:
        """Raises InvalidParameterError for an invalid condition, InvalidPositionError for the position."""
        if self.result is not None and self.result not in RESULTS:
            raise InvalidParameterError(f"a result is one of {', '.join(RESULTS)}, not {self.result!r}")
        if self.position is not None:
            check(self.position)

    def terms(self, store: Store, files: Mapping[int, str], met: Ply | None) -> Iterator[Term]:
        """Yields the conditions on the tables; `files`: by source; `met`: games that reach the position."""
        mine, other = (
            [number for number, known in player_names(store) if matches(name, known)]
            if name.strip()
            else None
            for name in (self.player, self.opponent)
        )
        if mine is not None or other is not None:
            yield tables.of_players(mine, other, white=self.color != "black", black=self.color != "white")
        opening, file = self.opening.strip(), self.file.casefold()
        if _ECO.fullmatch(opening):
            yield "substr(coalesce(game.eco, game_index.opening), 1, length(?)) = ?", [opening.upper()] * 2
        elif opening:
            yield "game_index.opening LIKE ? ESCAPE '!'", [tables.like(opening)]
        for term, value in (
            ("game.result = ?", self.result),
            ("game.white_elo >= ? AND game.black_elo >= ?", self.least_elo),
            ("game.white_elo <= ? AND game.black_elo <= ?", self.most_elo),
            ("game.date >= ?", self.since and date_text(self.since)),
            ("game.date < ?", self.until and date_text(self.until) + "~"),
        ):
            if value is not None:
                yield term, [value] * term.count("?")
        if file:
            named = [one for one, name in files.items() if file in Path(name).name.casefold()]
            yield tables.among("game.source", named)
        if met is not None:
            yield tables.among(tables.PACKED, tables.packed(met))


@dataclass(frozen=True, slots=True)
class ListedGame(Answer):
    """A game of the list, the PGN file it was imported from, and the ply of the requested position."""

    json_keys = (
        "source=row.source number=row.number white=row.white black=row.black white_elo=row.white_elo"
        " black_elo=row.black_elo result=row.result date=row.date event=row.event site=row.site"
        " round=row.round eco opening=row.opening plies file ply"
    )

    row: GameRow
    file: str
    ply: int | None

    @property
    def plies(self) -> int:
        """Half-moves of the game."""
        return len(self.row.moves)

    @property
    def eco(self) -> str | None:
        """Code of the opening in the file, else by the moves."""
        return self.row.eco or (self.row.opening and self.row.opening[:3])


@dataclass(frozen=True, slots=True)
class ListedGames(Answer):
    """The answer of `games --list`: a part of the `total` matching games, and the PGN files by source."""

    json_keys = "all_games total first games files"

    all_games: int
    total: int
    first: int
    games: tuple[ListedGame, ...]
    files: dict[int, str]


def list_games(
    path: str | os.PathLike[str],
    filters: GameFilters | None = None,
    *,
    by: str = "date",
    down: bool = True,
    first: int = 0,
    most: int = 100,
) -> ListedGames:
    """Returns the imported games that satisfy the conditions, in an order; the latest hundred by default.

    Args:
      by: one of `SORTS`. first: how many games to skip. most: most to list, -1 for all.

    Raises:
      InvalidParameterError: for an invalid condition or order, or if the file keeps no games.
    """
    filters = filters or GameFilters()
    if by not in SORTS:
        raise InvalidParameterError(f"games are sorted by one of {', '.join(SORTS)}, not {by!r}")
    with opened(path) as source:
        store, everything = source.store, kept(source.store)
        if not everything:
            raise InvalidParameterError(
                f"{store.path} has stored no games; `graphsearch import FILE --players` adds them, also from"
                " files that were imported before"
            )
        files = {one.id: one.name for one in sources(store) if one.players}
        met = None if filters.position is None else reaching(store, filters.position)
        found = GameList(store, filters.terms(store, files, met))
        rows = found.page(by=by, down=down, first=first, most=most)
        games = tuple(
            ListedGame(row, Path(files.get(row.source, "")).name, (met or {}).get((row.source, row.number)))
            for row in rows
        )
        return ListedGames(everything, len(found), first, games, files)


# ------------------------------------------------------------------ games that reach a position
# `game_index` has 16 bits of the key of every position. They select the games that may reach it (of games of
# 40 moves, one in 1,600 wrongly), and those games are replayed.
PART_SHIFT = 48  # of a key: its upper 16 bits
GAMES_AT_ONCE = 20_000
MOST_LATE = 10_000  # games that are read for the moves that are new in them: 0.1 s

Ply = dict[tuple[int, int], int]  # source and number of a game -> half-moves before the position


def key_parts(keys: NDArray[np.uint64]) -> NDArray[np.uint16]:
    """Returns the bits of keys that `game_index` stores, little-endian."""
    return (keys >> np.uint64(PART_SHIFT)).astype("<u2")


def first_played(store: Store, board: chess.Board, since: str) -> list[str]:
    """Returns the moves, in SAN, that only games imported since a time have in a position.

    Empty if older games do not continue from it, without stored games (`import --players`), or if more than
    MOST_LATE were imported since.
    """
    files, games = sources(store), tables.games_played(store, key_text(board))
    known = {one.digest for one in files if one.started < since}
    late = {one.id: one.players or 0 for one in files if one.digest not in known}
    if not 0 < sum(late.values()) <= MOST_LATE:
        return []
    met, moves = reaching(store, board, late), legal_moves(board)
    rows = [(row.moves, met[row.source, row.number]) for row in tables.games_at(store, met)]
    found = Counter(moves[numbers[ply]] for numbers, ply in rows if ply < len(numbers))
    older = sum(games.values()) - found.total()
    return [board.san(move) for move, n in found.most_common() if older > 0 and n == games.get(move.uci())]


def reaching(store: Store, board: chess.Board, files: Collection[int] | None = None) -> Ply:
    """Returns the games that reach a position, each with the first ply at which it does.

    `files`: the sources of these games; None: all.
    """
    wanted = key_text(board)
    last = _last_plies(store, key_parts(np.array([key_of(board)], np.uint64))[0], files)
    found: Ply = {}
    games = sorted(last)
    for first in range(0, len(games), GAMES_AT_ONCE):
        some = tables.games_at(store, games[first : first + GAMES_AT_ONCE])
        lasts = np.array([last[row.source, row.number] for row in some], np.int64)
        replay = Replay([row.fen for row in some], [row.moves for row in some], keep_levels=False)
        while (replay.at >= 0).any():
            check_time()
            is_here = np.array([key == wanted for key in replay.levels[-1].keys], np.bool_)
            met = np.flatnonzero(replay.at >= 0)
            met = met[is_here[replay.at[met]]]
            found |= {(some[game].source, some[game].number): replay.ply for game in met.tolist()}
            replay.at[met] = replay.at[lasts <= replay.ply] = NO_MOVE
            replay.step()
    return found


def _last_plies(store: Store, wanted: np.uint16, files: Collection[int] | None) -> Ply:
    """Returns the last ply at which each game may have the position; games that cannot are left out."""
    found: Ply = {}
    rows = tables.index_keys(store, files)
    while some := list(islice(rows, GAMES_AT_ONCE)):
        check_time()
        parts = [keys[: len(keys) & ~1] for _, _, keys in some]
        at = np.flatnonzero(np.frombuffer(b"".join(parts), "<u2") == wanted)
        sizes = np.array([len(part) // 2 for part in parts], np.int64)
        ends = np.cumsum(sizes)
        games = np.searchsorted(ends, at, side="right")
        plies = at - (ends - sizes)[games]
        found |= {some[game][:2]: ply for game, ply in zip(games.tolist(), plies.tolist(), strict=True)}
    return found


# ------------------------------------------------------------------ players
MOST_NAMED = 12  # players that a message lists

_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Players(Answer):
    """The answer of `players`: stored games, number of players, and the players found."""

    json_keys = "games total players=rows"

    games: int
    total: int
    rows: tuple[PlayerRow, ...]


def players(path: str | os.PathLike[str], text: str = "", *, top: int | None = None) -> Players:
    """Returns the players of a file's imported games, most games first.

    Args:
      text: only players whose names contain all of its words, or words that begin with them.
      top: most rows.

    Raises:
      InvalidParameterError: if the file has no players.
    """
    with opened(path) as source:
        found = _all(source.store)
        rows = [row for row in found if matches(text, row.name)]
        return Players(tables.kept(source.store), len(found), tuple(rows[:top]))


def named(store: Store, names: Sequence[str]) -> list[PlayerRow]:
    """Returns the players with given names, exact or by beginnings of words: `carlsen m` is Carlsen, Magnus.

    Case, accents and punctuation do not matter. An exact name wins over longer ones.

    Raises:
      InvalidParameterError: if the file has no players, or a name matches none or several, which are listed.
    """
    there = _all(store)
    return list({row.id: row for name in names for row in _one(store, there, name)}.values())


def _all(store: Store) -> list[PlayerRow]:
    found = tables.players(store)
    if not found:
        raise InvalidParameterError(
            f"{store.path} has no players;"
            " `graphsearch import FILE --players` adds them, also from files that were imported before"
        )
    return found


def _one(store: Store, there: Sequence[PlayerRow], name: str) -> list[PlayerRow]:
    """Returns the players of a name: one, or several with names that differ only in case and punctuation."""
    exact = [row for row in there if row.name == name]
    same = exact or [row for row in there if _words(row.name) == _words(name)]
    found = same or [row for row in there if _words(name) and matches(name, row.name)]
    if len(found) == 1 or same:
        return found
    if not found:
        raise InvalidParameterError(f"{store.path} has no games of {name!r}; the table player has all names")
    texts = [f"{row.name} ({row.games:,})" for row in found[:MOST_NAMED]]
    more = f" and {len(found) - MOST_NAMED:,} more" if len(found) > MOST_NAMED else ""
    raise InvalidParameterError(
        f"{name!r} may be {len(found):,} players (with their games): {'; '.join(texts)}{more};"
        " write more of the name, or give --player several times to take them together"
    )


def matches(text: str, name: str) -> bool:
    """Returns whether every word of a text begins a word of a name.

    >>> matches("carlsen m", "Carlsen, Magnus"), matches("vachier", "Vachier-Lagrave"), matches("x", "Tal")
    (True, True, False)
    """
    words = _words(name)
    return all(any(word.startswith(part) for word in words) for part in _parts(text))


def _words(text: str) -> tuple[str, ...]:
    plain = text.casefold()
    if not plain.isascii():
        plain = "".join(c for c in unicodedata.normalize("NFKD", plain) if not unicodedata.combining(c))
    return tuple(_WORD.findall(plain))


_parts = lru_cache(maxsize=100)(_words)  # cached: one text is compared with many names
