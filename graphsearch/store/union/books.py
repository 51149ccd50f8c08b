"""Opening books of one name: position by position, that of the build which has searched it more.

A position takes its moves with it, so each still has just the moves that one build decided on. Whatever they
lead to is in one of the two books, hence in the union. `book build` brings values up to date.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..store import Store
from ..tables.columns import TABLES
from ..tables.rows import insert
from .tables import Input, Rule, translate

Row = tuple[Any, ...]

_RULE = Rule(refs={"book": "book", "book_run": "book_run"})
_POSITION, _MOVE = "book_position", "book_move"
# what decides between two versions: a position that was searched more, then one that has moves
_STATES = ("apart", "leaf", "end", "open")


def unite(store: Store, one: Input, leave_out: Callable[[str], object]) -> dict[str, int]:
    """Enters the positions and moves of an input's books; returns how many rows that wrote.

    In a transaction, after the books themselves.

    Args:
      leave_out: is told of positions of books, or of builds, that are not there.
    """
    names = one.columns(_POSITION)
    before, strays = store.connection.total_changes, 0
    for row in one.rows(_POSITION, "ORDER BY book, key") if names else ():
        translated = translate(one, names, _RULE, row)
        if translated is not None:
            _enter(store, one, names, row, translated)
        strays += translated is None
    if strays:
        what = "belong to a book or build that it does not list, or that is left out"
        leave_out(f"{one.name}: table {_POSITION}: {strays} rows {what}, with their moves")
    return {"book_position": store.connection.total_changes - before}


def _enter(store: Store, one: Input, names: Sequence[str], row: Row, translated: Row) -> None:
    """Enters a position with its moves, unless the file has it from a build that knew more."""
    new = dict(zip(names, translated, strict=True))
    old = _known(store, names, new["book"], new["key"])
    if old is not None:
        ply = min(old["ply"], new["ply"])
        if _worth(new) <= _worth(old):
            if ply < old["ply"]:
                _put(store, _POSITION, names, tuple((old | {"ply": ply}).values()))
            return
        new["ply"] = ply
        where = (new["book"], new["key"])
        store.connection.execute("DELETE FROM book_move WHERE book = ? AND key = ?", where)
    _put(store, _POSITION, names, tuple(new.values()))
    columns = one.columns(_MOVE)
    own = dict(zip(names, row, strict=True))
    for move in one.rows(_MOVE, "WHERE book = ? AND key = ?", (own["book"], own["key"])):
        found = translate(one, columns, _RULE, move)
        if found is not None:
            _put(store, _MOVE, columns, found)


def _known(store: Store, names: Sequence[str], book: int, key: str) -> dict[str, Any] | None:
    statement = f"SELECT {', '.join(names)} FROM book_position WHERE book = ? AND key = ?"  # noqa: S608
    row = store.connection.execute(statement, (book, key)).fetchone()
    return dict(zip(names, row, strict=True)) if row else None


def _worth(position: dict[str, Any]) -> tuple[int, int, int]:
    return position["searches"], position["n"], _STATES.index(position["state"])


def _put(store: Store, table: str, names: Sequence[str], values: Row) -> None:
    assert set(names) <= set(TABLES[table].columns)
    insert(store.connection, table, names, [values])
