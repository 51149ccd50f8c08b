"""Merges opening books with repertoires, studies and notes.

Books of the same name are merged position by position; the build that searched one more counts.
A position keeps its moves, so each still has exactly the moves that one build chose. The positions that they
lead to are in one of the two books, hence in the union. `book build` updates the values.

Nothing that a person wrote is lost. A study that the file already has, under any name, is not added again;
any other study is added, with a number after its name if the name is taken. If one of two notes on a position
contains the other, it is kept; otherwise both texts are joined into one note.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

from ..store import Store
from ..tables import studies
from ..tables.rows import insert, rows
from ..tables.studies import Note, Study
from .tables import Input, LeaveOut, Rule, translate

Row = tuple[Any, ...]

_RULE = Rule(refs={"book": "book", "book_run": "book_run"})
_POSITION, _MOVE = "book_position", "book_move"
CHOSEN = "chosen"  # the rule of a move that a person put in
# of two versions, the one searched more counts, then the later one in this list
_STATES = ("apart", "leaf", "end", "open")


def unite_books(store: Store, one: Input, leave_out: LeaveOut) -> dict[str, int]:
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
    """Writes a position with its moves, unless the file's own version counts more; keeps chosen moves."""
    new = dict(zip(names, translated, strict=True))
    columns, of_moves, own = ", ".join(names), one.columns(_MOVE), dict(zip(names, row, strict=True))
    found = one.rows(_MOVE, "WHERE book = ? AND key = ?", (own["book"], own["key"]))
    moves = [move for move in (translate(one, of_moves, _RULE, move) for move in found) if move]
    chosen = [move for move in moves if move[of_moves.index("rule")] == CHOSEN]
    statement = f"SELECT {columns} FROM book_position WHERE book = ? AND key = ?"  # noqa: S608 (constants)
    if present := store.connection.execute(statement, (new["book"], new["key"])).fetchone():
        old = dict(zip(names, present, strict=True))
        ply = new["ply"] = min(old["ply"], new["ply"])
        if _worth(new) <= _worth(old):
            if ply < old["ply"]:
                insert(store.connection, _POSITION, names, [tuple((old | {"ply": ply}).values())])
            insert(store.connection, _MOVE, of_moves, chosen, otherwise="IGNORE")
            return
        where = (new["book"], new["key"], CHOSEN)
        store.connection.execute("DELETE FROM book_move WHERE book = ? AND key = ? AND rule <> ?", where)
    insert(store.connection, _POSITION, names, [tuple(new.values())])
    insert(store.connection, _MOVE, of_moves, moves)


def _worth(position: dict[str, Any]) -> tuple[int, int, int]:
    return position["searches"], position["n"], _STATES.index(position["state"])


# ------------------------------------------------------------------ studies and notes
def unite_studies(store: Store, one: Input) -> dict[str, int]:
    """Merges an input's studies and notes, in an open transaction; returns the number written of each."""
    return {"study": _add_studies(store, one), "note": _unite_notes(store, one)}


def _add_studies(store: Store, one: Input) -> int:
    known = {studies.pgn_of(store.connection, study.id) for study in studies.all_studies(store.connection)}
    written = 0
    for study in studies.all_studies(one.connection):
        text = studies.pgn_of(one.connection, study.id)
        if text not in known:
            known.add(text)
            _copy(store.connection, study, text, one.connection)
            written += 1
    return written


def _copy(connection: sqlite3.Connection, study: Study, pgn: str, source: sqlite3.Connection) -> None:
    keys = rows(source, "study_position", ("key",), "WHERE study = ? ORDER BY move", (study.id,))
    name = studies.free_name(connection, study.name)
    new = studies.add_study(connection, name, pgn, [key for (key,) in keys])
    times = (study.revision, study.created, study.changed, new.id)
    connection.execute("UPDATE study SET revision = ?, created = ?, changed = ? WHERE id = ?", times)


def _unite_notes(store: Store, one: Input) -> int:
    written = 0
    for note in studies.all_notes(one.connection):
        known = studies.find_note(store.connection, note.key)
        text = _joined(known, note)
        if known is None or text != known.text:
            studies.put_note(store.connection, note.key, note.fen, text)
            written += 1
    return written


def _joined(known: Note | None, new: Note) -> str:
    if known is None or known.text in new.text:
        return new.text
    return known.text if new.text in known.text else f"{known.text}\n\n{new.text}"
