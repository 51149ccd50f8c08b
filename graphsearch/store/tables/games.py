"""Imported data: counts of games by position and move, and the files that they came from.

Call functions that write inside `Store.transaction`. Keys are texts (`key_text`), moves UCI.
`schema/store.md` describes the tables.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from itertools import islice
from typing import Any

import chess

from ...base.answer import Answer
from ..store import Store
from .provenance import now
from .rows import insert, json_object, listed, query, rows, write_row

ASKED_AT_ONCE = 500  # keys of one statement; SQLite allows 32,766 values, but more gain nothing

PositionRow = tuple[str, str, int]  # key, FEN, ply
MoveRow = tuple[str, str, str, int, int, int, int, int]  # key, then as MoveCounts
EntryRow = tuple[str, str, int, int, int, int, int]  # key, move, source, place, raw_move, weight, learn
Write = Callable[[Store], object]
EpdRow = tuple[int, int, str, str, str]  # source, place, key, FEN, operations

_MOVE_COLUMNS = ("move", "san", "white", "draws", "black", "unknown", "variations")


@dataclass(frozen=True, slots=True)
class MoveCounts:
    """A move of imported games, in one position.

    Attributes:
      move, san: in UCI, and as people write it.
      white, draws, black, unknown: games with the move that White won, that were drawn, that Black won,
        without a result. A game counts once, even if it repeats the position and the move.
      variations: number of times that the move occurs in a variation, not in a game.
    """

    move: str
    san: str
    white: int
    draws: int
    black: int
    unknown: int
    variations: int

    @property
    def games(self) -> int:
        """Games with this move, of any result; variations do not count."""
        return self.white + self.draws + self.black + self.unknown

    def points(self, turn: chess.Color) -> int:
        """Returns two points per win of the side that plays the move and one per draw, as Polyglot counts.

        A game without a result shows only that the move was played: it counts as the mean, one point.
        """
        return 2 * (self.white if turn else self.black) + self.draws + self.unknown


@dataclass(frozen=True, slots=True)
class GameSource:
    """An imported file: a row of the table `source`.

    Attributes:
      finished: None until the import is complete.
      players: number of games processed so far with players stored, skipped ones included; None: the import
        stores no players.
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
    """Returns the moves of imported games in each of these positions, the most played first.

    Args:
      keys: of positions. Positions without games are left out of the result.
    """
    wanted = sorted(set(keys))
    found: dict[str, list[MoveCounts]] = {}
    if not wanted:
        return found
    with store.reading() as connection, store.snapshot():
        for start in range(0, len(wanted), ASKED_AT_ONCE):
            some = wanted[start : start + ASKED_AT_ONCE]
            where = f"WHERE key IN ({', '.join('?' * len(some))})"
            for key, *row in rows(connection, "game_move", ("key", *_MOVE_COLUMNS), where, some):
                found.setdefault(key, []).append(MoveCounts(*row))
    for moves in found.values():
        moves.sort(key=lambda move: (-move.games, -move.variations, move.move))
    return found


def games_by_move(store: Store, key: str) -> dict[str, int]:
    """Returns the number of imported games of each move of a position, the most played first."""
    return {row.move: row.games for row in counts(store, [key]).get(key, ())}


def sources(store: Store) -> list[GameSource]:
    """Returns all imported files, oldest first."""
    return [
        GameSource(number, kind, name, digest, json_object(options) or {}, *rest)
        for number, kind, name, digest, options, *rest in listed(store, "source", "ORDER BY id")
    ]


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


def known_source(store: Store, kind: str, digest: str, options: Mapping[str, Any]) -> GameSource | None:
    """Returns the last import of the same bytes with the same options, finished or not; None if none."""
    same = [s for s in sources(store) if (s.kind, s.digest, s.options) == (kind, digest, dict(options))]
    return same[-1] if same else None


def begin_source(store: Store, kind: str, name: str, digest: str, options: Mapping[str, Any]) -> GameSource:
    """Adds an import that begins now; returns its row."""
    source = GameSource(0, kind, name, digest, dict(options), now(), None, 0, 0)
    return replace(source, id=add_source(store, source))


def add_source(store: Store, source: GameSource) -> int:
    """Adds a row of another file, or a new one; returns its number."""
    row = asdict(source) | {"options": json.dumps(dict(source.options), sort_keys=True)}
    del row["id"]
    return write_row(store.connection, "source", row, otherwise="ABORT")


def update_source(
    store: Store, source: GameSource, *, taken: int, skipped: int, finished: bool, players: int | None = None
) -> GameSource:
    """Records the progress of an import; in the transaction that adds its data, so that no data counts twice.

    Args:
      players: number of games with players stored so far, skipped ones included; None: as before.
    """
    ended = now() if finished else None
    store.connection.execute(
        "UPDATE source SET taken = ?, skipped = ?, finished = coalesce(finished, ?),"
        " players = coalesce(?, players) WHERE id = ?",
        (taken, skipped, ended, players, source.id),
    )
    kept = source.players if players is None else players
    return replace(source, taken=taken, skipped=skipped, finished=source.finished or ended, players=kept)


def add_games(store: Store, positions: Iterable[PositionRow], moves: Iterable[MoveRow]) -> None:
    """Adds counts to those of the file; keeps the FEN with the fewest half-moves of each position.

    Args:
      positions: (key, FEN, ply) each.
      moves: (key, move, SAN, white, draws, black, unknown, variations) each.
    """
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


def add_entries(store: Store, rows: Iterable[EntryRow]) -> None:
    """Adds entries of a Polyglot book; their positions are not known yet."""
    names = ("key", "move", "source", "place", "raw_move", "weight", "learn")
    insert(store.connection, "polyglot_entry", names, rows, otherwise="ABORT")


def name_entries(store: Store, rows: Iterable[tuple[str, str, str | None, str, int, int]]) -> None:
    """Adds positions and moves to entries: (FEN, move, SAN, key, source, place) each."""
    store.connection.executemany(
        "UPDATE polyglot_entry SET fen = ?, move = ?, san = ? WHERE key = ? AND source = ? AND place = ?",
        rows,
    )


def add_epd(store: Store, rows: Iterable[EpdRow]) -> None:
    """Adds positions of an EPD file."""
    store.connection.executemany("INSERT INTO epd_position VALUES (?, ?, ?, ?, ?)", rows)


def entries_of(store: Store, source: int, key: str) -> list[tuple[int, int]]:
    """Returns the entries of a book in a position: (place, raw move) each."""
    where = "WHERE key = ? AND source = ? ORDER BY place"
    names = ("place", "raw_move")
    return [(place, raw) for place, raw in listed(store, "polyglot_entry", where, (key, source), names=names)]


def known_roots(store: Store) -> list[str]:
    """Returns the FENs of the roots of searches and books in this file."""
    return sorted(
        {
            fen
            for name, table in (("position", "root"), ("fen", "book_root"))
            for (fen,) in listed(store, table, names=(name,))
        }
    )


def known_fens(store: Store, keys: Iterable[str]) -> Iterator[str]:
    """Yields a FEN for each of these keys for which a table of this file has one."""
    wanted = iter(keys)
    tables = ("game_position", "top_position", "epd_position", "polyglot_entry")
    # a range, because keys of Chess960 may have more digits
    statement = " UNION ALL ".join(
        f"SELECT {table}.key, fen FROM json_each(?) AS wanted CROSS JOIN {table}"  # noqa: S608 (constants)
        f" ON {table}.key >= wanted.value AND {table}.key < wanted.value || 'g' WHERE fen IS NOT NULL"
        for table in tables
    )
    while some := list(islice(wanted, ASKED_AT_ONCE)):
        with store.reading() as connection:
            fens: dict[str, str] = dict(
                query(
                    connection, statement, [json.dumps(some)] * len(tables), "game_position.key",
                    "game_position.fen",
                )
            )  # fmt: skip
        yield from fens.values()
