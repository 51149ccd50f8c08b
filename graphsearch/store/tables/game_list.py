"""The stored games as a list: filtered, sorted, in pages; their openings, positions and text.

`import --players` fills the tables `game_index` and `game_text` beside `game` (`players.py`).
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass

from ..store import Store
from .players import GameRow, counting, games_where, numbers_text
from .rows import insert, listed, query
from .schema import MAX_TEXT_BYTES, TABLES

Sides = tuple[Sequence[int] | None, Sequence[int] | None]  # players of White, of Black; None: any
NUMBER_BITS = 32  # of a game's number, below the number of its source in one integer; they limit the games


@dataclass(frozen=True, slots=True)
class IndexRow:
    """A row of `game_index`.

    Attributes:
      opening: code and name of the last position with a name, None if there is none.
      keys: of every position, the first and the last included, 16 bits each (`key_parts`).
    """

    number: int
    opening: str | None
    keys: bytes


@dataclass(frozen=True, slots=True)
class TextRow:
    """A row of `game_text`: where its text begins in the unpacked file, its length, and its zstd frame."""

    place: int
    size: int
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """Conditions on games; all that are not None must hold.

    Attributes:
      sides: players of White and of Black, by number; one of these pairs must match; None: any players.
      eco: beginning of the code. opening: part of the name. result: as in `GameRow`.
      least_elo, most_elo: of both players. since, until: of the date, as far as it is known.
      sources: numbers of files. among: the allowed games, as `game_number` gives them.
    """

    sides: Sequence[Sides] | None = None
    eco: str | None = None
    opening: str | None = None
    result: str | None = None
    least_elo: int | None = None
    most_elo: int | None = None
    since: str | None = None
    until: str | None = None
    sources: Sequence[int] | None = None
    among: Sequence[int] | None = None


def game_number(source: int, number: int) -> int:
    """Returns the source and the number of a game, packed into one integer."""
    return source << NUMBER_BITS | number


# -------------------------------------------------------------- writing
_INDEX, _TEXT = (tuple(TABLES[name].columns) for name in ("game_index", "game_text"))


def add_index(connection: sqlite3.Connection, source: int, rows: Iterable[IndexRow]) -> None:
    """Adds openings and positions of games of a file."""
    insert(connection, "game_index", _INDEX, ((source, *astuple(row)) for row in rows))


def add_texts(connection: sqlite3.Connection, source: int, rows: Iterable[TextRow]) -> None:
    """Adds parts of the text of a file."""
    insert(connection, "game_text", _TEXT, ((source, *astuple(row)) for row in rows))


def text_end(store: Store, source: int) -> int:
    """Returns the end of the stored text of a file, in bytes."""
    rest = "WHERE source = ? ORDER BY place DESC LIMIT 1"
    return sum(sum(row) for row in listed(store, "game_text", rest, (source,), names=("place", "bytes")))


# -------------------------------------------------------------- reading
def text_rows(store: Store, source: int, place: int, size: int) -> list[TextRow]:
    """Returns the rows that hold `size` bytes of the text of a file from `place` on, in order."""
    names = ("place", "bytes", "data")
    rest = "WHERE source = ? AND place > ? AND place < ? AND place + bytes > ? ORDER BY place"
    values = (source, place - MAX_TEXT_BYTES, place + size, place)
    return [TextRow(*row) for row in listed(store, "game_text", rest, values, names=names)]


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
_JOINS = {
    "white": "LEFT JOIN player AS white ON white.id = game.white",
    "black": "LEFT JOIN player AS black ON black.id = game.black",
    "event": "LEFT JOIN event ON event.id = game.event",
    "game_index": "LEFT JOIN game_index ON game_index.source = game.source"
    " AND game_index.number = game.number",
}


class GameList:
    """The games of a file that satisfy conditions."""

    def __init__(self, store: Store, conditions: Conditions) -> None:
        self._store = store
        self._values: list[object] = []
        self._where = " AND ".join(self._terms(conditions))

    def __len__(self) -> int:
        with self._store.reading() as connection:
            found = connection.execute(self._select("count(*)", ""), self._values)
            return int(found.fetchone()[0])

    def page(self, *, by: str, down: bool, first: int, most: int) -> list[GameRow]:
        """Returns a page of the sorted games; games without a value to sort by come last.

        Args:
          by: a key of `SORTS`. first: number of games to skip. most: most games to return, -1 for all.
        """
        turn = "DESC" if down else "ASC"
        key = SORTS[by]
        last = "" if by == "number" else f"{key} IS NULL, {key} {turn}, "
        order = f"ORDER BY {last}game.source {turn}, game.number {turn} LIMIT ? OFFSET ?"
        with self._store.reading() as connection:
            statement = self._select("game.source, game.number", order)
            found = list(connection.execute(statement, [*self._values, most, first]))
        rows = {(row.source, row.number): row for row in rows_of(self._store, found)}
        return [rows[one] for one in found if one in rows]

    def _select(self, what: str, order: str) -> str:
        used = f"{self._where} {order}"
        joins = " ".join(join for table, join in _JOINS.items() if f"{table}." in used)
        return f"SELECT {what} FROM game {joins} WHERE {used}"  # noqa: S608 (constants, values as marks)

    def _terms(self, given: Conditions) -> Iterator[str]:
        chosen = counting(self._store)
        sources = chosen if given.sources is None else sorted(set(chosen) & set(given.sources))
        yield f"game.source IN ({numbers_text(sources)})"
        if given.sides is not None:
            yield f"({' OR '.join(self._pair(sides) for sides in given.sides)})"
        eco = "coalesce(game.eco, game_index.opening)"
        for term, value in (
            (f"substr({eco}, 1, length(?)) = ?", given.eco),
            ("game_index.opening LIKE ? ESCAPE '!'", given.opening and _like(given.opening)),
            ("game.result = ?", given.result),
            ("game.white_elo >= ? AND game.black_elo >= ?", given.least_elo),
            ("game.white_elo <= ? AND game.black_elo <= ?", given.most_elo),
            ("game.date >= ?", given.since),
            ("game.date < ?", given.until and given.until + "~"),
        ):
            if value is not None:
                self._values += [value] * term.count("?")
                yield term
        if given.among is not None:
            yield f"game.source << {NUMBER_BITS} | game.number IN ({self._of(given.among)})"

    def _pair(self, sides: Sides) -> str:
        terms = [
            f"game.{name} IN ({self._of(numbers)})"
            for name, numbers in zip(("white", "black"), sides, strict=True)
            if numbers is not None
        ]
        return f"({' AND '.join(terms)})"

    def _of(self, numbers: Sequence[int]) -> str:
        return f"SELECT value FROM json_each({self._mark(json.dumps(list(numbers)))})"  # noqa: S608 (a mark)

    def _mark(self, value: object) -> str:
        self._values.append(value)
        return "?"


def _like(text: str) -> str:
    """Returns the LIKE pattern for texts that contain a text; `!` is the escape character.

    >>> _like("50%")
    '%50!%%'
    """
    for sign in "!%_":
        text = text.replace(sign, f"!{sign}")
    return f"%{text}%"


_AMONG = (
    f"WHERE (game.source, game.number) IN (SELECT value >> {NUMBER_BITS}, value & {(1 << NUMBER_BITS) - 1}"  # noqa: S608
    " FROM json_each(?)) ORDER BY game.source, game.number"
)


def rows_of(store: Store, games: Iterable[tuple[int, int]]) -> list[GameRow]:
    """Returns the games with these sources and numbers, sorted by source and number."""
    return list(games_where(store, _AMONG, [json.dumps([game_number(*one) for one in games])]))


def moves_of(store: Store, games: Iterable[tuple[int, int]]) -> list[tuple[int, int, str | None, bytes]]:
    """Returns source, number, first position and moves of games, sorted by source and number."""
    wanted = json.dumps([game_number(*one) for one in games])
    names = ("source", "number", "fen", "moves")
    return [(a, b, fen, moves) for a, b, fen, moves in listed(store, "game", _AMONG, [wanted], names=names)]


def openings_of(store: Store, games: Iterable[tuple[int, int]]) -> dict[tuple[int, int], str]:
    """Returns the openings of games, by source and number; those without one are left out."""
    names = ("source", "number", "opening")
    found = {}
    for source, number in games:
        where = "WHERE source = ? AND number = ? AND opening IS NOT NULL"
        for row in listed(store, "game_index", where, (source, number), names=names):
            found[row[0], row[1]] = row[2]
    return found


def index_keys(store: Store) -> Iterator[tuple[int, int, bytes]]:
    """Yields source, number and keys of all games that count and have them."""
    where = f"WHERE source IN ({numbers_text(counting(store))})"
    names = ("game_index.source", "game_index.number", "game_index.keys")
    with store.reading() as connection:
        statement = f"SELECT source, number, keys FROM game_index {where}"  # noqa: S608 (numbers)
        yield from query(connection, statement, (), *names)
