"""The players and moves of imported games: the tables `player`, `event` and `game`.

Only `import --players` fills them. Call functions that write inside `Store.transaction`.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from ...base.answer import Answer
from ..store import Store
from .games import ASKED_AT_ONCE, GameSource, sources
from .rows import insert, listed, query
from .schema import MAX_INTEGER, TABLES


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


@dataclass(frozen=True, slots=True)
class GameRow:
    """A stored game.

    Attributes:
      source, number: the file, 0 before the game is added, and the number of the game in it, from 1.
      place, size: offset and size of its text in the unpacked file, in bytes.
      white, black: names, None if unknown. event, site: both None if neither is known.
      fen: its first position, None: the start position.
      result: `1-0`, `0-1`, `1/2-1/2` or `*`. moves: numbers in canonical order, a byte each.
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


def counting(store: Store) -> list[int]:
    """Returns the numbers of the sources with games that count: one for each digest.

    Of several imports of the same bytes it takes the one with most games stored, then the one with most moves
    of each, then the last.
    """
    best: dict[str, GameSource] = {}
    for source in sources(store):
        if source.players and (source.digest not in best or _rank(source) >= _rank(best[source.digest])):
            best[source.digest] = source
    return sorted(source.id for source in best.values())


def _rank(source: GameSource) -> tuple[int, float]:
    most = source.options.get("max_ply")
    return source.players or 0, most if isinstance(most, int) else math.inf


def numbers_text(numbers: Iterable[int]) -> str:
    """Returns numbers separated by commas, for an SQL statement."""
    return ", ".join(map(str, numbers))


# -------------------------------------------------------------- writing
def add(store: Store, source: int, games: Sequence[GameRow]) -> None:
    """Adds games of a file; replaces those that it already has."""
    connection = store.connection
    names = {name for game in games for name in (game.white, game.black) if name}
    players: dict[Any, int] = _numbers(connection, "player", ("name",), sorted((name,) for name in names))
    events = _numbers(
        connection, "event", ("name", "site"), sorted({_event(game) for game in games if _event(game)})
    )
    rows = []
    for game in games:
        who = (players.get((game.white,)), players.get((game.black,)), game.white_elo, game.black_elo)
        head = (source, game.number, game.place, game.size, *who, game.date, events.get(_event(game)))
        rows.append((*head, game.round, game.result, game.eco, game.fen, game.moves))
    insert(connection, "game", tuple(TABLES["game"].columns), rows)


def _event(game: GameRow) -> tuple[str, ...]:
    return () if game.event is None else (game.event, game.site or "")


def _numbers(
    connection: sqlite3.Connection, table: str, columns: tuple[str, ...], wanted: Sequence[tuple[str, ...]]
) -> dict[tuple[str, ...], int]:
    """Returns the numbers of texts in a table of texts; adds the missing texts."""
    insert(connection, table, columns, wanted, otherwise="IGNORE")
    where = " AND ".join(f"{column} = ?" for column in columns)
    select = f"SELECT id FROM {table} WHERE {where}"  # noqa: S608 (constants)
    return {texts: connection.execute(select, texts).fetchone()[0] for texts in wanted}


# -------------------------------------------------------------- reading
_PLAYERS = """
WITH
  sides AS (
    SELECT white AS id, 1 AS white, 0 AS black, date, white_elo AS elo FROM game WHERE source IN ({0})
    UNION ALL
    SELECT black, 0, 1, date, black_elo FROM game WHERE source IN ({0})
  )
SELECT player.id, name, sum(white), sum(black), min(date), max(date), max(elo)
FROM sides JOIN player ON player.id = sides.id GROUP BY player.id ORDER BY count(*) DESC, name
"""


def players(store: Store) -> list[PlayerRow]:
    """Returns all players of games that count, most games first; empty if no players are stored."""
    names = ("player.id", "player.name", "source.taken", "source.taken", *["game.date"] * 2, "game.white_elo")
    with store.reading() as connection:
        statement = _PLAYERS.format(numbers_text(counting(store)))
        return [PlayerRow(*row) for row in query(connection, statement, (), *names)]


def player_names(store: Store) -> list[tuple[int, str]]:
    """Returns number and name of all players."""
    return [(number, name) for number, name in listed(store, "player", names=("id", "name"))]


_GAMES = """
SELECT
  source, number, place, bytes, white.name, black.name, white_elo, black_elo, date, event.name, event.site,
  round, result, eco, fen, moves
FROM game
LEFT JOIN player AS white ON white.id = game.white
LEFT JOIN player AS black ON black.id = game.black
LEFT JOIN event ON event.id = game.event
"""
_GAME_NAMES = (
    *(f"game.{name}" for name in ("source", "number", "place", "bytes")),
    *("player.name?", "player.name?", "game.white_elo", "game.black_elo", "game.date"),
    *("event.name?", "event.site?", "game.round", "game.result", "game.eco", "game.fen", "game.moves"),
)


def games_of(
    store: Store, numbers: Iterable[int], *, white: bool = True, black: bool = True, since: str | None = None
) -> Iterator[GameRow]:
    """Yields the games of some players, each once, by file and number.

    Args:
      numbers: of the players. white, black: whether to include their games with this colour.
      since: only games of this date or later, as far as it is known; games without a date are left out.
    """
    sides = [name for name, wanted in (("white", white), ("black", black)) if wanted]
    if not sides:
        return
    wanted = iter(sorted(set(numbers)))
    met: set[tuple[int, int]] = set()
    chosen = numbers_text(counting(store))
    while some := list(islice(wanted, ASKED_AT_ONCE)):
        marks = ", ".join("?" * len(some))
        who = " OR ".join(f"game.{side} IN ({marks})" for side in sides)
        after = "AND date >= ?" if since else ""
        where = f"WHERE ({who}) AND source IN ({chosen}) {after} ORDER BY source, number"
        values = [*some * len(sides), *([since] if since else [])]
        for found in games_where(store, where, values):
            if (found.source, found.number) not in met:
                met.add((found.source, found.number))
                yield found


def games_where(store: Store, rest: str, values: Sequence[object]) -> Iterator[GameRow]:
    """Yields the games that a statement selects.

    Args:
      rest: the clauses after the tables. values: of its marks.
    """
    with store.reading() as connection:
        yield from (GameRow(*row) for row in query(connection, _GAMES + rest, values, *_GAME_NAMES))


def game(store: Store, source: int, number: int) -> GameRow | None:
    """Returns a stored game, None if there is none."""
    if max(source, number) > MAX_INTEGER:
        return None
    return next(games_where(store, "WHERE source = ? AND number = ?", (source, number)), None)


def kept(store: Store) -> int:
    """Returns the number of stored games; a game from several imports of one file counts once."""
    with store.reading() as connection:
        chosen = numbers_text(counting(store))
        count = f"SELECT count(*) FROM game WHERE source IN ({chosen})"  # noqa: S608 (numbers)
        return int(connection.execute(count).fetchone()[0])
