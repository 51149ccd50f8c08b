"""The rows of a book in its graph file (`schema/store.md`)."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import chess

from ..base.errors import CorruptRecordError, InvalidParameterError
from ..exchange.selection import games_of_roots, without_clocks
from ..position.board import board_of, fen_of
from ..position.notation import numbered, ply_of, sans_of
from ..store.file import sql_errors
from ..store.provenance import now
from ..store.store import Store
from ..store.tables import games
from ..store.tables.books import DECIDED, REPERTOIRES, book_named
from ..store.tables.rows import TABLES, insert, rows, table_of
from .tree import BookLine, BookMove, BookTree, Position

if TYPE_CHECKING:
    from .config import BookConfig

Row = tuple[Any, ...]
Root = tuple[str, str, str]  # key, FEN, origin
KIND = "book"  # of the row in the table `run`

POSITION_COLUMNS = [name for name in TABLES["book_position"].columns if name != "book"]
MOVE_COLUMNS = [name for name in TABLES["book_move"].columns if name not in ("book", "place")]


@dataclass(frozen=True, slots=True)
class Started:
    """The row ids of a build in these tables; the configuration of the last build, or empty."""

    book: int
    run: int
    book_run: int
    before: str


def start(store: Store, config: BookConfig) -> Started:
    """Inserts a build into a file that is open for writing, and returns its row ids.

    An existing book keeps its configuration until the new one has decided all positions (`write_config`).
    """
    if config.name in REPERTOIRES.values():
        raise InvalidParameterError(f"{config.name!r} is a repertoire; give the book another name")
    time = now()
    with store.transaction():
        connection = store.connection
        row = next(rows(connection, "book", ("id", "config"), "WHERE name = ?", (config.name,)), None)
        book, before = row or (None, "")
        if book is None:
            texts = {"name": config.name, "side": config.side, "config": config.text}
            book = table_of(connection, "book").insert(texts | {"created": time, "updated": time}).last_pk
        run = store.begin_run("", {}, {"book": config.name}, kind=KIND)
        of_run = {"book": book, "run": run, "started": time, "config": config.text}
        book_run = table_of(connection, "book_run").insert(of_run).last_pk
    return Started(int(book or 0), run, int(book_run or 0), before)


def may_decide_otherwise(store: Store, started: Started, config: BookConfig) -> bool:
    """Returns whether a new configuration, evaluator or file, or games may outdate a book's decisions."""
    basis = store.read_fact(DECIDED.format(started.book))
    return started.before != "" and (started.before, basis) != (config.text, _basis(store, config))


def _basis(store: Store, config: BookConfig) -> str:
    """Returns the numbers of reevaluations and, if a window counts them, of imported games in a file.

    Times do not serve: clocks may be wrong, and merged games are older than the merge.
    """
    from ..graph.sweeps.reevaluate import KIND as REEVALUATION

    counts_games = any(window.reply_games is not None for window in config.windows)
    games_taken = sum(row.taken for row in games.sources(store)) if counts_games else 0
    return f"{sum(run.kind == REEVALUATION for run in store.runs())} {games_taken}"


def write_config(store: Store, book: int, config: BookConfig) -> None:
    """Writes the configuration that has decided all positions of a book."""
    row = {"side": config.side, "config": config.text, "updated": now()}
    table_of(store.connection, "book").update(book, row)
    store.write_fact(DECIDED.format(book), _basis(store, config))


def write_roots(connection: sqlite3.Connection, book: int, roots: Sequence[Root]) -> None:
    """Replaces the roots of a book: (key, FEN, origin)."""
    connection.execute("DELETE FROM book_root WHERE book = ?", (book,))
    insert(connection, "book_root", ("book", "key", "fen", "origin"), ((book, *root) for root in roots))


def position_rows(tree: BookTree, book: int, keys: Iterable[str]) -> tuple[list[Row], list[Row]]:
    """Returns the rows of positions and of their moves."""
    positions, moves = [], []
    for key in sorted(keys):
        p = tree.positions[key]
        numbers = (p.state, p.searches, p.n, p.value, p.outside, p.outside_move)
        positions.append((book, key, p.fen, p.ply, *numbers, p.since))
        for place, m in enumerate(p.moves.values()):
            found = (m.p, m.n, m.q, tree.value_of(p, m), m.loss, m.games)
            moves.append((book, key, m.move, m.san, m.child, m.rule, *found, place, m.since))
    return positions, moves


def write_positions(connection: sqlite3.Connection, positions: Sequence[Row], moves: Sequence[Row]) -> None:
    """Writes positions, and replaces their moves."""
    connection.executemany("DELETE FROM book_move WHERE book = ? AND key = ?", [row[:2] for row in positions])
    columns = [name for name in TABLES["book_position"].columns if name != "priority"]
    insert(connection, "book_position", columns, positions)
    insert(connection, "book_move", tuple(TABLES["book_move"].columns), moves, otherwise="ABORT")


def write_priorities(store: Store, book: int, priorities: Mapping[str, float]) -> None:
    """Replaces the priorities of a book by those of its leaves, by key."""
    store.connection.execute("UPDATE book_position SET priority = NULL WHERE book = ?", (book,))
    update = "UPDATE book_position SET priority = ? WHERE book = ? AND key = ?"
    store.connection.executemany(update, [(cost, book, key) for key, cost in priorities.items()])


def write_run(store: Store, started: Started, numbers: Mapping[str, float], ended: str | None) -> None:
    """Writes the numbers of a build: the columns from `positions` to `seconds` of the table `book_run`."""
    row = {**numbers, "ended": ended, "finished": now() if ended else None}
    columns = ", ".join(f"{name} = ?" for name in row)
    statement = f"UPDATE book_run SET {columns} WHERE id = ?"  # noqa: S608 (constants)
    store.connection.execute(statement, (*row.values(), started.book_run))
    visits, evaluations = int(numbers["visits"]), int(numbers["evaluations"])
    store.update_run(started.run, visits, evaluations, finished=ended is not None)


def last_worth(store: Store, book: int) -> dict[str, tuple[float, str | None, tuple[str, ...]]]:
    """Returns the last value, best move and line of each root in the history of a book."""
    columns = ("key", "value", "best_move", "pv")
    rest = "WHERE book = ? ORDER BY key, run, searched"
    with sql_errors(store.path, "read it"):
        found = rows(store.connection, "book_history", columns, rest, (book,))
        return {key: (value, best, tuple((pv or "").split())) for key, value, best, pv in found}


def read_tree(connection: sqlite3.Connection, book: int, tree: BookTree, *, whole: bool = True) -> list[Root]:
    """Fills a tree with the stored positions and moves of a book; returns its roots, by origin.

    The caller sets the roots of the tree and updates it. `whole`: whether a move that begins or ends outside
    the positions raises CorruptRecordError, as a damaged row does; else it is left out.
    """
    for fields in _fields(connection, "book_position", POSITION_COLUMNS, "WHERE book = ?", book):
        position = Position(**fields)
        tree.positions[position.key] = position
    for fields in _fields(connection, "book_move", MOVE_COLUMNS, "WHERE book = ? ORDER BY key, place", book):
        key = fields.pop("key")
        move = BookMove(**fields)
        if key in tree.positions and move.child in tree.positions:
            tree.positions[key].moves[move.move] = move
            tree.positions[move.child].parents.add(key)
        elif whole:
            raise CorruptRecordError(f"the rows of the book do not fit together ({key} {move.move})")
    found = rows(connection, "book_root", ("key", "fen", "origin"), "WHERE book = ?", (book,))
    return sorted(((key, fen, origin) for key, fen, origin in found), key=itemgetter(2))


def _fields(
    connection: sqlite3.Connection, table: str, columns: Sequence[str], rest: str, book: int
) -> Iterator[dict[str, Any]]:
    """Returns the rows of a book as keyword arguments of `Position` or `BookMove`."""
    names = ["since" if name == "book_run" else name for name in columns]
    return (dict(zip(names, row, strict=True)) for row in rows(connection, table, columns, rest, (book,)))


class StoredBook:
    """A whole book as it is stored: row of the table `book`, tree, and FENs of its roots by key."""

    def __init__(self, store: Store, name: str | None, *, whole: bool = True) -> None:
        """Reads a book, without a name the only one; as `book_named` and `read_tree`.

        The caller holds a snapshot of the store if the file may change meanwhile.
        """
        self.row, self.tree = book_named(store, name), BookTree()
        with store.reading() as connection:
            roots = read_tree(connection, self.row.id, self.tree, whole=whole)
        self.roots = {key: fen for key, fen, _ in roots}
        self.tree.roots = [key for key in self.roots if key in self.tree.positions]

    def game(self, line: BookLine) -> tuple[str, list[chess.Move]]:
        """Returns the FEN where the game of a line begins, and the moves from there to the root.

        The TOML text of the book may hold those; without it, the game begins at the root.
        """
        fen = self.roots[line.keys[0]]
        before = games_of_roots(self.row.config).get(without_clocks(fen))
        return (fen, []) if before is None else (fen_of(before.root()), before.move_stack)

    def text(self, line: BookLine, *further: str) -> str:
        """Returns the game of a line and further SANs with move numbers; empty without any moves."""
        fen, before = self.game(line)
        sans = (*(sans_of(board_of(fen), before) if before else ()), *line.sans, *further)
        return numbered(sans, ply_of(fen)) if sans else ""
