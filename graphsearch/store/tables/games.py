"""Imported data: counts of games by position and move, the files that they came from, and whole games.

Call functions that write inside `Store.transaction`. Keys are texts (`key_text`), moves UCI.
`schema/store.md` describes the tables. Only `import --players` stores players and whole games.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from typing import Any, NamedTuple

import chess

from ...base.answer import Answer
from ..provenance import now
from ..store import Store
from .rows import MAX_TEXT_BYTES, TABLES, insert, read_rows, rows, write_row

ASKED_AT_ONCE = 500  # keys of one statement

PositionRow = tuple[str, str, int]  # key, FEN, ply
MoveRow = tuple[str, str, str, int, int, int, int, int]  # key, then as MoveCounts
EntryRow = tuple[str, str, int, int, int, int, int]  # key, move, source, place, raw_move, weight, learn
Write = Callable[[Store], object]
EpdRow = tuple[int, int, str, str, str]  # source, place, key, FEN, operations

_MOVE_COLUMNS = ("move", "san", "white", "draws", "black", "unknown", "variations")


@dataclass(frozen=True, slots=True)
class Results:
    """Results of games: won by White, drawn, won by Black, unknown; and moves in variations, not in games.

    A game counts once, even if it repeats the position and the move.
    """

    white: int = 0
    draws: int = 0
    black: int = 0
    unknown: int = 0
    variations: int = 0

    @property
    def games(self) -> int:
        """All games, those without a result included."""
        return self.white + self.draws + self.black + self.unknown

    @property
    def decided(self) -> int:
        """Games with a result, draws included: the basis of scores and shares."""
        return self.white + self.draws + self.black

    @property
    def percents(self) -> dict[str, float | None]:
        """Shares of the games with a result in per cent, by keys of `PlayedMove`; None without such games."""
        won = {"white_percent": self.white, "draw_percent": self.draws, "black_percent": self.black}
        return {name: 100 * x / self.decided if self.decided else None for name, x in won.items()}

    def score(self, turn: chess.Color) -> float | None:
        """Returns the mean of the results in [0, 1] for a side, None if there are none."""
        won = self.white if turn == chess.WHITE else self.black
        return (won + self.draws / 2) / self.decided if self.decided else None

    def __add__(self, other: Results) -> Results:
        return Results(*(a + b for a, b in zip(asdict(self).values(), asdict(other).values(), strict=True)))


@dataclass(frozen=True, slots=True)
class MoveCounts:
    """A move of imported games in one position, in UCI and as people write it, with its results."""

    move: str
    san: str
    results: Results


@dataclass(frozen=True, slots=True)
class GameSource:
    """An imported file: a row of the table `source`; `finished` is None until the import is complete.

    `players` is the number of games processed so far with players stored, skipped ones included; None: the
    import stores no players.
    """

    id: int
    kind: str
    name: str
    digest: str
    options: Mapping[str, Any]
    started: str
    finished: str | None
    taken: int
    skipped: int
    players: int | None = None

    @property
    def done(self) -> int:
        """Number of games, entries or positions processed so far, imported or skipped."""
        return self.taken + self.skipped


@dataclass(frozen=True, slots=True)
class Imported(Answer):
    """The imports of a file: its sources, oldest first, and row counts of the other tables.

    Attributes:
      games: imported from all PGN files. positions, moves: distinct ones of these games.
      entries: of Polyglot books. epd_positions: of EPD files.
    """

    sources: list[GameSource]
    games: int = 0
    positions: int = 0
    moves: int = 0
    entries: int = 0
    epd_positions: int = 0


# -------------------------------------------------------------- reading


def counts(store: Store, keys: Iterable[str]) -> dict[str, list[MoveCounts]]:
    """Returns the moves of imported games by position, the most played first; none without games."""
    found: dict[str, list[MoveCounts]] = {}
    order = "ORDER BY key, white + draws + black + unknown DESC, variations DESC, move"
    where, wanted = "WHERE key IN (SELECT value FROM json_each(?))", json.dumps(sorted(set(keys)))
    with store.reading() as connection:
        names = ("key", *_MOVE_COLUMNS)
        for key, move, san, *row in rows(connection, "game_move", names, f"{where} {order}", (wanted,)):
            found.setdefault(key, []).append(MoveCounts(move, san, Results(*row)))
    return found


def games_by_move(store: Store, keys: Iterable[str]) -> dict[str, dict[str, int]]:
    """Returns the number of imported games by position and move; moves only in variations are left out."""
    return {
        key: {one.move: one.results.games for one in its if one.results.games}
        for key, its in counts(store, keys).items()
        if its[0].results.games  # the most played
    }


def games_played(store: Store, key: str) -> dict[str, int]:
    """Returns the number of imported games by move in one position, the most played first."""
    return games_by_move(store, [key]).get(key, {})


def sources(store: Store) -> list[GameSource]:
    """Returns all imported files, oldest first."""
    with store.reading() as connection:
        return read_rows(connection, "source", GameSource, "ORDER BY id", objects=("options",))


def imported(store: Store) -> Imported:
    """Returns the imports of a file; counting takes some 0.1 s for a million rows."""
    found = sources(store)
    if not found:
        return Imported([])
    tables = ("game_position", "game_move", "polyglot_entry", "epd_position")
    with store.reading() as connection:
        sizes = [connection.execute(f"SELECT count(*) FROM {t}").fetchone()[0] for t in tables]  # noqa: S608
    return Imported(found, sum(source.taken for source in found if source.kind == "pgn"), *sizes)


# -------------------------------------------------------------- writing


def last_source(store: Store, kind: str, digests: list[str], options: Mapping[str, Any]) -> GameSource | None:
    """Returns the last import of the same content with the same options, finished or not; None if none."""
    same = [s for s in sources(store) if s.digest in digests and (s.kind, s.options) == (kind, dict(options))]
    return same[-1] if same else None


def begin_source(store: Store, kind: str, name: str, digest: str, options: Mapping[str, Any]) -> GameSource:
    """Adds an import that begins now; returns its row."""
    return put_source(store, GameSource(0, kind, name, digest, dict(options), now(), None, 0, 0))


def put_source(store: Store, source: GameSource) -> GameSource:
    """Writes a row; adds it and returns it with its number if that is 0."""
    row = asdict(source) | {"options": json.dumps(dict(source.options), sort_keys=True)}
    return replace(source, id=write_row(store.connection, "source", row | {"id": source.id or None}))


def update_source(
    store: Store, source: GameSource, *, taken: int, skipped: int, finished: bool, players: int | None = None
) -> GameSource:
    """Records the progress of an import; in the transaction that adds its data, so that no data counts twice.

    `players` is as in `GameSource`; None: as before.
    """
    ended = source.finished or (now() if finished else None)
    kept = source.players if players is None else players
    return put_source(store, replace(source, taken=taken, skipped=skipped, finished=ended, players=kept))


def add_games(store: Store, positions: Iterable[PositionRow], moves: Iterable[MoveRow]) -> None:
    """Adds counts to those of the file; keeps the FEN with the fewest half-moves of each position."""
    store.connection.executemany(
        "INSERT INTO game_position (key, fen, ply) VALUES (?, ?, ?) ON CONFLICT (key) DO UPDATE"
        " SET fen = excluded.fen, ply = excluded.ply WHERE excluded.ply < ply",
        positions,
    )
    numbers = ("white", "draws", "black", "unknown", "variations")
    sums = ", ".join(f"{name} = {name} + excluded.{name}" for name in numbers)
    store.connection.executemany(
        f"INSERT INTO game_move (key, {', '.join(_MOVE_COLUMNS)}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"  # noqa: S608
        f" ON CONFLICT (key, move) DO UPDATE SET {sums}",
        moves,
    )


def add_entries(store: Store, entries: Iterable[EntryRow]) -> None:
    """Adds entries of a Polyglot book; their positions are not known yet."""
    names = ("key", "move", "source", "place", "raw_move", "weight", "learn")
    insert(store.connection, "polyglot_entry", names, entries, otherwise="ABORT")


def name_entries(store: Store, entries: Iterable[tuple[str, str, str | None, str, int, int]]) -> None:
    """Adds positions and moves to entries: (FEN, move, SAN, key, source, place) each."""
    marks = "fen = ?, move = ?, san = ? WHERE key = ? AND source = ? AND place = ?"
    store.connection.executemany(f"UPDATE polyglot_entry SET {marks}", entries)  # noqa: S608 (constants)


def add_epd(store: Store, positions: Iterable[EpdRow]) -> None:
    """Adds positions of an EPD file."""
    store.connection.executemany("INSERT INTO epd_position VALUES (?, ?, ?, ?, ?)", positions)


def entries_of(store: Store, source: int, key: str) -> list[tuple[int, int]]:
    """Returns the entries of a book in a position: (place, raw move) each."""
    statement = "SELECT place, raw_move FROM polyglot_entry WHERE key = ? AND source = ? ORDER BY place"
    names = ("polyglot_entry.place", "polyglot_entry.raw_move")
    return [(place, raw) for place, raw in store.query(statement, (key, source), *names)]


def known_roots(store: Store) -> list[str]:
    """Returns the FENs of the roots of searches and books in this file."""
    statement = "SELECT position FROM root UNION SELECT fen FROM book_root ORDER BY 1"
    return [fen for (fen,) in store.query(statement, (), "root.position")]


def known_fens(store: Store, keys: Iterable[str]) -> Iterator[str]:
    """Yields a FEN for each of these keys for which a table of this file has one."""
    tables = ("game_position", "top_position", "epd_position", "polyglot_entry")
    # a range, because keys of Chess960 may have more digits
    statement = " UNION ALL ".join(
        f"SELECT {table}.key, fen FROM json_each(?) AS wanted CROSS JOIN {table}"  # noqa: S608 (constants)
        f" ON {table}.key >= wanted.value AND {table}.key < wanted.value || 'g' WHERE fen IS NOT NULL"
        for table in tables
    )
    names = ("game_position.key", "game_position.fen")
    wanted = iter(keys)
    while some := list(islice(wanted, ASKED_AT_ONCE)):
        yield from dict(store.query(statement, [json.dumps(some)] * len(tables), *names)).values()


# ------------------------------------------------------------------ players and their games
@dataclass(frozen=True, slots=True)
class PlayerRow(Answer):
    """A player: number and name, games as White and as Black, first and last date, highest Elo."""

    json_keys = "id name white black first last elo games"

    id: int
    name: str
    white: int
    black: int
    first: str | None
    last: str | None
    elo: int | None

    @property
    def games(self) -> int:
        """Games of either colour."""
        return self.white + self.black


class GameRow(NamedTuple):
    """A stored game: the columns of `game`, and the opening and keys of `game_index`.

    Attributes:
      source, number: the file, 0 before the game is added, and the number of the game in it, from 1.
      place, size: offset and size of its text in the unpacked file, in bytes.
      white, black: names, None if unknown. event, site: both None if neither is known.
      fen: its first position, None: the start position.
      result: `1-0`, `0-1`, `1/2-1/2` or `*`. moves: numbers in canonical order, a byte each.
      opening: code and name of the last position with a name, None if there is none, or it is not stored.
      keys: of every position, the first and the last included, 16 bits each (`key_parts`); empty if they are
        not stored, and in games that are read.
    """

    source: int
    number: int
    place: int
    size: int
    white: str | None
    black: str | None
    white_elo: int | None
    black_elo: int | None
    date: str | None
    event: str | None
    site: str | None
    round: str | None
    result: str
    eco: str | None
    fen: str | None
    moves: bytes
    opening: str | None = None
    keys: bytes = b""


# the sources with games that count, one for each digest: of several imports of one file that with most
# games stored, then that with most moves of each, then the last
_COUNTED = """
SELECT id FROM (
  SELECT id, row_number() OVER (
    PARTITION BY digest ORDER BY players DESC, coalesce(most, 9e9) DESC, id DESC
  ) AS place
  FROM (
    SELECT *, iif(json_valid(options), json_extract(options, '$.max_ply'), 0) AS most
    FROM source WHERE players > 0
  )
) WHERE place = 1
"""

_ADD = """
INSERT OR REPLACE INTO game VALUES (
  ?, ?, ?, ?, (SELECT id FROM player WHERE name = ?), (SELECT id FROM player WHERE name = ?), ?, ?, ?,
  (SELECT id FROM event WHERE name = ? AND site = ?), ?, ?, ?, ?, ?
)
"""


def add(store: Store, source: int, games: Sequence[GameRow]) -> None:
    """Adds games of a file with their openings and keys; replaces those that it already has."""
    indexed = ((source, game.number, game.opening, game.keys) for game in games if game.keys)
    insert(store.connection, "game_index", tuple(TABLES["game_index"].columns), indexed)
    names = sorted({name for game in games for name in (game.white, game.black) if name})
    insert(store.connection, "player", ("name",), ((name,) for name in names), otherwise="IGNORE")
    events = sorted({(game.event, game.site or "") for game in games if game.event is not None})
    insert(store.connection, "event", ("name", "site"), events, otherwise="IGNORE")
    store.connection.executemany(
        _ADD,
        (game._replace(source=source, site=game.site or "")[:-2] for game in games),  # the columns of `game`
    )


# -------------------------------------------------------------- reading
_PLAYERS = f"""
WITH
  counted AS ({_COUNTED}),
  sides AS (
    SELECT white AS id, 1 AS white, 0 AS black, date, white_elo AS elo FROM game WHERE source IN counted
    UNION ALL
    SELECT black, 0, 1, date, black_elo FROM game WHERE source IN counted
  )
SELECT player.id, name, sum(white), sum(black), min(date), max(date), max(elo)
FROM sides JOIN player ON player.id = sides.id GROUP BY player.id ORDER BY count(*) DESC, name
"""  # noqa: S608 (constants)


def players(store: Store) -> list[PlayerRow]:
    """Returns all players of games that count, most games first; empty if no players are stored."""
    names = ("player.id", "player.name", "source.taken", "source.taken", *["game.date"] * 2, "game.white_elo")
    return [PlayerRow(*row) for row in store.query(_PLAYERS, (), *names)]


def player_names(store: Store) -> list[tuple[int, str]]:
    """Returns number and name of all players."""
    names = ("player.id", "player.name")
    return [(number, name) for number, name in store.query("SELECT id, name FROM player", (), *names)]


NUMBER_BITS = 32  # of a game's number, below the number of its source in one integer; they limit the games
PACKED = f"game.source << {NUMBER_BITS} | game.number"
_JOINS = {
    "white": "LEFT JOIN player AS white ON white.id = game.white",
    "black": "LEFT JOIN player AS black ON black.id = game.black",
    "event": "LEFT JOIN event ON event.id = game.event",
    "game_index": "LEFT JOIN game_index ON game_index.source = game.source"
    " AND game_index.number = game.number",
}
_GAMES = f"""
SELECT
  game.source, game.number, place, bytes, white.name, black.name, white_elo, black_elo, date, event.name,
  event.site, round, result, eco, fen, moves, opening
FROM json_each(?) AS wanted
CROSS JOIN game
  ON game.source = wanted.value >> {NUMBER_BITS} AND game.number = wanted.value & {(1 << NUMBER_BITS) - 1}
{" ".join(_JOINS.values())}
ORDER BY wanted.key
"""  # noqa: S608 (constants)
_GAME_NAMES = (
    *(f"game.{name}" for name in ("source", "number", "place", "bytes")),
    *("player.name?", "player.name?", "game.white_elo", "game.black_elo", "game.date"),
    *("event.name?", "event.site?", "game.round", "game.result", "game.eco", "game.fen", "game.moves"),
    "game_index.opening?",
)


def packed(games: Iterable[tuple[int, int]]) -> list[int]:
    """Returns source and number of games, each packed into one integer."""
    return [source << NUMBER_BITS | number for source, number in games]


def games_at(store: Store, games: Iterable[tuple[int, int]]) -> list[GameRow]:
    """Returns the games with these sources and numbers, in this order; missing ones are left out."""
    return [GameRow(*row) for row in store.query(_GAMES, (json.dumps(packed(games)),), *_GAME_NAMES)]


def game(store: Store, source: int, number: int) -> GameRow | None:
    """Returns a stored game, None if there is none."""
    is_possible = max(source, number) < 1 << NUMBER_BITS - 1
    return next(iter(games_at(store, [(source, number)])), None) if is_possible else None


# ------------------------------------------------------------------ the list of games
Term = tuple[str, Sequence[object]]  # a condition as SQL on a row of `game` and `_JOINS`, values of its marks


class TextRow(NamedTuple):
    """A row of `game_text`: where its text begins in the unpacked file, its length, and its zstd frame."""

    place: int
    size: int
    data: bytes


# -------------------------------------------------------------- texts
def add_texts(connection: sqlite3.Connection, source: int, parts: Iterable[TextRow]) -> None:
    """Adds parts of the text of a file."""
    insert(connection, "game_text", tuple(TABLES["game_text"].columns), ((source, *part) for part in parts))


def text_end(store: Store, source: int) -> int:
    """Returns the end of the stored text of a file, in bytes."""
    statement = "SELECT place, bytes FROM game_text WHERE source = ? ORDER BY place DESC LIMIT 1"
    return sum(sum(row) for row in store.query(statement, (source,), "game_text.place", "game_text.bytes"))


def text_rows(store: Store, source: int, place: int, size: int) -> list[TextRow]:
    """Returns the rows that hold `size` bytes of the text of a file from `place` on, in order."""
    where = "WHERE source = ? AND place > ? AND place < ? AND place + bytes > ? ORDER BY place"
    values = (source, place - MAX_TEXT_BYTES, place + size, place)
    with store.reading() as connection:
        found = rows(connection, "game_text", ("place", "bytes", "data"), where, values)
        return [TextRow(*row) for row in found]


SORTS = {  # what a list may be sorted by -> SQL
    "number": "game.source, game.number",
    "date": "game.date",
    "white": "white.name",
    "black": "black.name",
    "white_elo": "game.white_elo",
    "black_elo": "game.black_elo",
    "result": "game.result",
    "eco": "coalesce(game.eco, substr(game_index.opening, 1, 3))",
    "plies": "length(game.moves)",
    "event": "event.name",
}


class GameList:
    """The games of a file that satisfy all of some conditions."""

    def __init__(self, store: Store, terms: Iterable[Term] = ()) -> None:
        self._store = store
        found = [(f"game.source IN ({_COUNTED})", ()), *terms]
        self._where = " AND ".join(f"({term})" for term, _ in found)
        self._values = [value for _, values in found for value in values]

    def __len__(self) -> int:
        with self._store.reading() as connection:
            return int(connection.execute(self._select("count(*)", ""), self._values).fetchone()[0])

    def page(self, *, by: str, down: bool, first: int, most: int) -> list[GameRow]:
        """Returns at most `most` (-1: all) of the sorted games behind the `first` ones.

        Games without a value to sort by come last; `by` is a key of `SORTS`.
        """
        turn = "DESC" if down else "ASC"
        key = SORTS[by]
        last = "" if by == "number" else f"{key} IS NULL, {key} {turn}, "
        order = f"ORDER BY {last}game.source {turn}, game.number {turn} LIMIT ? OFFSET ?"
        with self._store.reading() as connection:
            statement = self._select("game.source, game.number", order)
            found = list(connection.execute(statement, [*self._values, most, first]))
        return games_at(self._store, found)

    def _select(self, what: str, order: str) -> str:
        used = f"{self._where} {order}"
        joins = " ".join(join for table, join in _JOINS.items() if f"{table}." in used)
        return f"SELECT {what} FROM game {joins} WHERE {used}"  # noqa: S608 (constants, values as marks)


def among(expression: str, numbers: Iterable[int]) -> Term:
    """Returns the condition that a number, given as SQL, is one of these."""
    return f"{expression} IN (SELECT value FROM json_each(?))", [json.dumps(list(numbers))]  # noqa: S608


def of_players(
    mine: Sequence[int] | None, other: Sequence[int] | None, *, white: bool = True, black: bool = True
) -> Term:
    """Returns the condition that players `mine` with these colours meet `other`, by number; None: anyone."""
    found: list[str] = []
    values: list[object] = []
    for pair in [(mine, other)] * white + [(other, mine)] * black:
        both = zip(("game.white", "game.black"), pair, strict=True)
        terms = [among(name, numbers) for name, numbers in both if numbers is not None]
        found.append(f"({' AND '.join(term for term, _ in terms)})")
        values += [value for _, some in terms for value in some]
    return " OR ".join(found), values


def like(text: str) -> str:
    """Returns the LIKE pattern for texts that contain a text; `!` is the escape character.

    >>> like("50%")
    '%50!%%'
    """
    for sign in "!%_":
        text = text.replace(sign, f"!{sign}")
    return f"%{text}%"


def kept(store: Store) -> int:
    """Returns the number of stored games; a game from several imports of one file counts once."""
    return len(GameList(store))


def games_of(
    store: Store, numbers: Sequence[int], *, white: bool = True, black: bool = True, since: str | None = None
) -> list[GameRow]:
    """Returns the games of some players, by number, each once: those with the given colours.

    Args:
      since: only games of this date or later, as far as it is known; games without a date are left out.
    """
    dates = [] if since is None else [("game.date >= ?", (since,))]
    found = GameList(store, [of_players(numbers, None, white=white, black=black), *dates])
    return found.page(by="number", down=False, first=0, most=-1)


def index_keys(store: Store, files: Collection[int] | None = None) -> Iterator[tuple[int, int, bytes]]:
    """Yields source, number and keys of all games that count and have them; `files`: of these sources."""
    among_files, values = ("true", []) if files is None else among("source", files)
    where = f"WHERE source IN ({_COUNTED}) AND {among_files}"
    with store.reading() as connection:
        yield from rows(connection, "game_index", ("source", "number", "keys"), where, values)
