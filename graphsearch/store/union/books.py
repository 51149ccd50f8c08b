"""Merges opening books of the same name, position by position; the build that searched one more counts.

A position keeps its moves, so each still has exactly the moves that one build chose. The positions that they
lead to are in one of the two books, hence in the union. `book build` updates the values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..store import Store
from ..tables.columns import TABLES
from ..tables.rows import insert
from .tables import Input, LeaveOut, Rule, translate

Row = tuple[Any, ...]

_RULE = Rule(refs={"book": "book", "book_run": "book_run"})
_POSITION, _MOVE = "book_position", "book_move"
# of two versions, the one searched more counts, then the later one in this list
_STATES = ("apart", "leaf", "end", "open")


def unite(store: Store, one: Input, leave_out: LeaveOut) -> dict[str, int]:
    """Merges the positions and moves of an input's books; returns the number of rows written.

    It needs an open transaction, and the books themselves must be merged before.

    Args:
      leave_out: called with a message if positions refer to books or builds that are not there.
    """
    names = one.columns(_POSITION)
    before, strays = store.connection.total_changes, 0
    for row in one.rows(_POSITION, "ORDER BY book, key"):
        translated = translate(one, names, _RULE, row)
        if translated is not None:
            _enter(store, one, names, row, translated)
        strays += translated is None
    if strays:
        what = "belong to a book or build that it does not list, or that is left out"
        leave_out(f"{one.name}: table {_POSITION}: {strays} rows {what}, with their moves")
    return {"book_position": store.connection.total_changes - before}


def _enter(store: Store, one: Input, names: Sequence[str], row: Row, translated: Row) -> None:
    """Writes a position with its moves, unless the file's own version counts more."""
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
