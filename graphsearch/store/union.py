"""Merges everything but the records of two files, by a rule for every table (`tables.rows.TABLES`).

A row is identified by the key of its table or, if that is a number that each file assigns itself, by other
columns (`identity`). Numbers of other rows are translated (`refs`). A new column needs no change here, a new
table one line.

Of the rows with a number of their own, one that several files have becomes one row. All files are read in
step, sorted by the identity columns, so that memory holds only rows that are equal in these, and new numbers
do not depend on the order in which the files are named.

An imported file counts once, however many graph files it was imported into. The counts of games are sums over
all PGN files, so they can be replaced, added or left out, but the share of one file cannot be separated.
Positions of EPD files and entries of Polyglot books have the number of their file.

Books of the same name are merged position by position; the build that searched one more counts.
A position keeps its moves, so each still has exactly the moves that one build chose. The positions that they
lead to are in one of the two books, hence in the union. `book build` updates the values.

Nothing that a person wrote is lost. A study that the file already has, under any name, is not added again;
any other study is added, with a number after its name if the name is taken. If one of two notes on a position
contains the other, it is kept; otherwise both texts are joined into one note.

Of two transposition entries of the same position and evaluation the better one counts. A proof is better
than other entries, a shorter mate better than a longer one; then greater depth, then an exact value. The raw
data break the last ties, so that the order of the files does not matter. Better entries are appended, because
the newest counts.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from heapq import merge
from itertools import groupby
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ..base.errors import StoreError, UnfinishedError
from . import entries, provenance
from .file import sql_errors
from .record_kernel import MAX_RUN
from .store import Store
from .tables import games, studies
from .tables.games import GameSource, MoveRow, PositionRow
from .tables.rows import TABLES, insert, rows, shown, write_row
from .tables.studies import Note, Study
from .transposition_kernel import (
    BOUND_AT,
    BOUND_MASK,
    DEPTH_AT,
    DEPTH_MASK,
    EXACT,
    PROOF,
    bits_at,
    checks,
    values,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """How the rows of a table are merged.

    Attributes:
      refs: column -> table that its numbers refer to; NULL stays NULL.
      by: columns that decide between two versions of a row: the greater one counts, else the old one.
      identity: columns that identify a row with the number `id` as its key; empty if the key itself does.
      until: the column that is NULL as long as such a row may change; without it, `by` alone decides.
      agree: columns that must be equal in both versions; if they differ, the second is left out and reported.
    """

    refs: Mapping[str, str] = field(default_factory=dict)
    by: tuple[str, ...] = ()
    identity: tuple[str, ...] = ()
    until: str = ""
    agree: tuple[str, ...] = ()


# in the order in which they are merged: a table before those that refer to it
NUMBERED: dict[str, Rule] = {
    "run": Rule(
        refs={"evaluator": "evaluator"},
        identity=("started", "position", "limits", "params", "kind", "program"),
        until="finished",
        by=("finished", "visits", "evaluations"),
    ),
    "book": Rule(identity=("name",), by=("updated", "created"), agree=("side",)),
    "book_run": Rule(
        refs={"book": "book", "run": "run"},
        identity=("started", "config"),
        until="finished",
        by=("finished", "visits", "evaluations", "positions", "searched", "seconds"),
    ),
    "book_queue": Rule(identity=("added", "book", "fen", "moves", "origin"), by=("changed",)),
    "player": Rule(identity=("name",)),
    "event": Rule(identity=("name", "site")),
    "entry_run": Rule(
        identity=("started", "kind", "fen", "limits", "evaluation", "program"),
        until="finished",
        by=("finished", "nodes", "seconds"),
    ),
    "entry_iteration": Rule(
        refs={"run": "entry_run"}, identity=("depth", "alpha", "beta", "value", "nodes", "seconds", "pv")
    ),
}

KEYED: dict[str, Rule] = {
    "root": Rule(by=("visits", "last_searched")),
    "searched_apart": Rule(),
    "root_history": Rule(refs={"run": "run"}, by=("saved",)),
    "book_history": Rule(refs={"book": "book", "run": "run"}, by=("saved",)),
    "game": Rule(refs={"source": "source", "white": "player", "black": "player", "event": "event"}),
    "game_index": Rule(refs={"source": "source"}),
    "game_text": Rule(refs={"source": "source"}),
    "polyglot_entry": Rule(refs={"source": "source"}, by=("fen",)),  # one that has a name
    "epd_position": Rule(refs={"source": "source"}),
    "book_root": Rule(refs={"book": "book"}),
}

# tables that functions of their own merge, below and in `union_records.py`
OWN = frozenset(
    {
        *("evaluator", "source", "game_position", "game_move", "book_position", "book_move"),
        *("entry_piece", "study", "study_position", "note", "segment", "chunk", "block"),
    }
)

# not merged: facts of one file; tables derived from the records, which are rebuilt; the log of edits;
# the queue of the page, with tasks for one file
LEFT = frozenset({"store_info", "top_position", "top_edge", "edit", "task"})


Row = tuple[Any, ...]
LeaveOut = Callable[[str], object]


@dataclass(frozen=True, slots=True)
class Input:
    """An input file, read in one snapshot.

    Attributes:
      store: open for reading. name: as the user gave it.
      numbers: by table, the number in the target file for each number of this one; 0 stays 0.
    """

    store: Store
    name: str
    numbers: dict[str, dict[int, int]] = field(default_factory=dict)

    @property
    def connection(self) -> sqlite3.Connection:
        """The connection, in a transaction."""
        return self.store.connection

    def columns(self, table: str) -> tuple[str, ...]:
        """Returns the columns of a table."""
        return tuple(TABLES[table].columns)

    def rows(self, table: str, rest: str = "", values: tuple[object, ...] = ()) -> Iterator[Row]:
        """Yields the rows of a table, by `columns`.

        Raises:
          CorruptRecordError: at the first row that is damaged, naming the file.
        """
        with sql_errors(self.store.path, "read it"):
            yield from rows(self.connection, table, self.columns(table), rest, values)

    def number(self, table: str, number: int) -> int | None:
        """Returns the target file's number for a row; None if the row is not there."""
        return 0 if number == 0 else self.numbers.get(table, {}).get(number)


@contextmanager
def open_input(path: str | os.PathLike[str], name: str) -> Iterator[Input]:
    """Yields a file as a snapshot of its current state; others may write to it meanwhile.

    Args:
      name: as the user gave it.

    Raises:
      UnfinishedError: if it is being moved to another evaluator.
      StoreError: if it cannot be read.
    """
    with Store.open(path, read_only=True) as store, store.snapshot():
        if state := provenance.unfinished_state(store.connection, store.path, store.identity):
            raise UnfinishedError(state)
        yield Input(store, name)


def unite_keyed(store: Store, one: Input, leave_out: LeaveOut) -> dict[str, int]:
    """Merges the rows of an input, in an open transaction; returns the number written to each table.

    Args:
      leave_out: called with a message for each table with rows that refer to a missing row.

    Raises:
      CorruptRecordError: if a row of the input is damaged.
    """
    return {table: enter(store.connection, one, table, rule, leave_out) for table, rule in KEYED.items()}


def enter(connection: sqlite3.Connection, one: Input, table: str, rule: Rule, leave_out: LeaveOut) -> int:
    """Merges the rows of one table; returns the number written."""
    names = one.columns(table)
    before, strays = connection.total_changes, 0

    def translated() -> Iterator[Row]:
        nonlocal strays
        for row in one.rows(table, f"ORDER BY {', '.join(TABLES[table].key)}"):  # writes pages in order
            if found := translate(one, names, rule, row):
                yield found
            else:
                strays += 1

    connection.executemany(upsert(table, names, rule.by), translated())
    if strays:
        named = " or ".join(dict.fromkeys(rule.refs.values()))
        what = f"belong to a {named} that it does not list, or that is left out"
        leave_out(f"{one.name}: table {table}: {strays} rows {what}")
    return connection.total_changes - before


def upsert(table: str, names: Sequence[str], by: Sequence[str]) -> str:
    """Returns the statement that inserts a row, or replaces one that is less in the columns `by`.

    >>> upsert("root", ("key", "visits"), ("visits",)).partition(" DO ")[2]
    'UPDATE SET visits = excluded.visits WHERE (coalesce(excluded.visits, -1)) > (coalesce(root.visits, -1))'
    """
    marks = ", ".join("?" * len(names))
    start = f"INSERT INTO {table} ({', '.join(names)}) VALUES ({marks})"  # noqa: S608 (constants)
    key, columns = TABLES[table].key, TABLES[table].columns
    conflict = f"{start} ON CONFLICT ({', '.join(key)}) DO"
    if not by:
        return f"{conflict} NOTHING"
    least = {name: "''" if columns[name].kind == "TEXT" else "-1" for name in by}
    values = ", ".join(f"{name} = excluded.{name}" for name in names if name not in key)
    new, old = (
        ", ".join(f"coalesce({whose}.{name}, {least[name]})" for name in by) for whose in ("excluded", table)
    )
    return f"{conflict} UPDATE SET {values} WHERE ({new}) > ({old})"


def translate(one: Input, names: Sequence[str], rule: Rule, row: Row) -> Row | None:
    """Returns a row with the target file's numbers; None if it refers to a row that is not there."""
    values = [
        one.number(rule.refs[name], value) if name in rule.refs and value is not None else value
        for name, value in zip(names, row, strict=True)
    ]
    strays = (now is None and then is not None for now, then in zip(values, row, strict=True))
    return None if any(strays) else tuple(values)


# ------------------------------------------------------------------ rows with a number of their own
@dataclass(slots=True)
class _Row:
    """A row of one file, or of the target file after rows of others are merged into it.

    Attributes:
      file: number of the input, -1: the target file. id: its own number, 0: none in the target file yet.
      values: the other columns. members: the rows of inputs that were merged into it, as (file, id).
      is_new: whether it has to be written.
    """

    file: int
    id: int
    values: dict[str, Any]
    members: list[tuple[int, int]] = field(default_factory=list)
    is_new: bool = False

    def rank(self, names: Sequence[str]) -> tuple[tuple[bool, Any], ...]:
        """Returns its rank by some columns; NULL comes first, as in SQLite."""
        return tuple((self.values[name] is not None, self.values[name]) for name in names)


def unite_numbered(store: Store, inputs: Sequence[Input], leave_out: LeaveOut) -> dict[str, int]:
    """Merges evaluators, runs and all other numbered rows; returns the number of rows written to each table.

    It needs an open transaction, and fills `numbers` of the inputs.

    Args:
      leave_out: called with a message for each row that cannot be merged.

    Raises:
      StoreError: if there are too many evaluators or runs.
      CorruptRecordError: if a row of an input is damaged.
    """
    for one in inputs:
        one.numbers["evaluator"] = {
            number: store.add_evaluator(identity) for number, identity in one.store.evaluators().items()
        }
    return {table: _unite(store, inputs, table, leave_out) for table in NUMBERED}


def _unite(store: Store, inputs: Sequence[Input], table: str, leave_out: LeaveOut) -> int:
    """Merges the rows of one table; returns the number written."""
    rule, written = NUMBERED[table], 0
    statement = f"SELECT coalesce(max(id), 0) FROM {table}"  # noqa: S608 (constants)
    last = int(store.connection.execute(statement).fetchone()[0])
    names, order = tuple(TABLES[table].columns), f"ORDER BY {', '.join(rule.identity)}"
    streams = [_rows_of(-1, names, rows(store.connection, table, names, order))]
    for file, one in enumerate(inputs):
        one.numbers[table] = {}
        streams.append(_translated(one, rule, _rows_of(file, names, one.rows(table, order))))

    def by_identity(row: _Row) -> tuple[tuple[bool, Any], ...]:
        return row.rank(rule.identity)

    for _, equal in groupby(merge(*streams, key=by_identity), by_identity):
        for kept in _merged_rows(
            equal, rule, lambda kept, row: leave_out(_differs(inputs, table, kept, row))
        ):
            if not kept.id:
                kept.id = last = last + 1
            if table == "run" and last > MAX_RUN:
                raise StoreError(
                    f"{store.path}: these files have more than {MAX_RUN:,} runs together, a file has no room"
                    " for more; merge fewer of them"
                )
            if kept.is_new:
                write_row(store.connection, table, {"id": kept.id, **kept.values})
                written += 1
            for file, number in kept.members:
                inputs[file].numbers[table][number] = kept.id
    return written


def _rows_of(file: int, names: Sequence[str], found: Iterable[Sequence[Any]]) -> Iterator[_Row]:
    for row in found:
        values = dict(zip(names, row, strict=True))
        yield _Row(file, values.pop("id"), values)


def _translated(one: Input, rule: Rule, found: Iterable[_Row]) -> Iterator[_Row]:
    """Yields the rows with the target file's numbers, without those that refer to a row that was left out."""
    for row in found:
        numbers = {column: one.number(table, row.values[column]) for column, table in rule.refs.items()}
        row.values |= numbers
        if None not in numbers.values():
            yield _Row(row.file, 0, row.values, [(row.file, row.id)], is_new=True)


def _merged_rows(equal: Iterable[_Row], rule: Rule, leave_out: Callable[[_Row, _Row], object]) -> list[_Row]:
    """Merges rows with equal identities, those of the target file first; returns the merged rows."""
    found: list[_Row] = []
    for row in equal:
        kept = next((one for one in found if _is_same(one, row, rule)), None)
        if kept is None:
            found.append(row)
        elif any(kept.values[name] != row.values[name] for name in rule.agree):
            leave_out(kept, row)
        else:
            kept.members += row.members
            if row.rank(rule.by) > kept.rank(rule.by):
                kept.values, kept.is_new = kept.values | row.values, True
    return found


def _is_same(kept: _Row, row: _Row, rule: Rule) -> bool:
    """Returns whether a row and a kept one are the same work: in equal states, or one is unfinished."""
    if row.file in (kept.file, *(file for file, _ in kept.members)):
        return False
    if any(kept.values[name] != row.values[name] for name in rule.refs):
        return False
    if not rule.until or kept.values[rule.until] is None or row.values[rule.until] is None:
        return True
    return all(kept.values[name] == row.values[name] for name in rule.by)


def _differs(inputs: Sequence[Input], table: str, kept: _Row, row: _Row) -> str:
    rule = NUMBERED[table]
    name = ", ".join(shown(row.values[column]) for column in rule.identity)
    differing = ", ".join(
        f"{column} is {shown(row.values[column])} here, {shown(kept.values[column])} there"
        for column in rule.agree
    )
    return f"{inputs[row.file].name}: {table} {name}: {differing}; left out"


# ------------------------------------------------------------------ imports
Identity = tuple[str, str, str]  # kind, digest and options of an import

PGN = "pgn"
_GAME_TABLES = ("game_move", "game_position")


def unite_imports(store: Store, one: Input, leave_out: LeaveOut) -> dict[str, int]:
    """Merges the imports of an input and their games; returns the number of rows written.

    It needs an open transaction, and fills the numbers of the input's sources.

    Args:
      leave_out: called with a message if games cannot be merged without counting some twice.
    """
    ours, theirs = games.sources(store), games.sources(one.store)
    before = store.connection.total_changes
    one.numbers["source"] = {}
    pgns, others = (
        [[source for source in some if (source.kind == PGN) is wanted] for some in (ours, theirs)]
        for wanted in (True, False)
    )
    _enter_sources(store, one, others[0], others[1])
    _unite_games(store, one, pgns[0], pgns[1], leave_out)
    return {"source": store.connection.total_changes - before}


def _identity(source: GameSource) -> Identity:
    return source.kind, source.digest, json.dumps(dict(source.options), sort_keys=True)


def _progress(source: GameSource) -> tuple[bool, int]:
    return source.finished is not None, source.taken + source.skipped


# ------------------------------------------------------------------ rows of `source`
def _enter_sources(
    store: Store, one: Input, ours: Sequence[GameSource], theirs: Sequence[GameSource]
) -> None:
    """Writes sources; of two states of one source, the more advanced one counts."""
    for source, known in _recognised(store, one, ours, theirs):
        if known is None:
            one.numbers["source"][source.id] = games.add_source(store, source)
        elif _progress(source) > _progress(known):
            store.connection.execute(
                "UPDATE source SET started = ?, finished = ?, taken = ?, skipped = ? WHERE id = ?",
                (source.started, source.finished, source.taken, source.skipped, known.id),
            )


def _recognised(
    store: Store, one: Input, ours: Sequence[GameSource], theirs: Sequence[GameSource]
) -> list[tuple[GameSource, GameSource | None]]:
    """Returns pairs of an input's source and the same one of ours, or None; keeps the larger `players`."""
    left, found = list(ours), list[tuple[GameSource, GameSource | None]]()
    for source in theirs:
        known = next((other for other in left if _identity(other) == _identity(source)), None)
        found.append((source, known))
        if known is None:
            continue
        left.remove(known)
        one.numbers["source"][source.id] = known.id
        if (source.players or 0) > (known.players or 0):
            store.connection.execute("UPDATE source SET players = ? WHERE id = ?", (source.players, known.id))
    return found


# ------------------------------------------------------------------ games
def _unite_games(
    store: Store,
    one: Input,
    ours: Sequence[GameSource],
    theirs: Sequence[GameSource],
    leave_out: LeaveOut,
) -> None:
    """Adds the games of an input, replaces ours by them, or leaves them out, depending on their sources."""
    if not theirs and next(one.rows("game_position", "LIMIT 1"), None):
        leave_out(
            f"{one.name}: its games are left out: its table source does not say which files they are of"
        )
    if _holds(ours, theirs):
        _recognised(store, one, ours, theirs)
        return
    if not Counter(map(_identity, ours)) & Counter(map(_identity, theirs)):
        _add_games(store, one)
        _enter_sources(store, one, (), theirs)
    elif _holds(theirs, ours):
        for table in _GAME_TABLES:
            store.connection.execute(f"DELETE FROM {table}")  # noqa: S608 (constants)
        _add_games(store, one)
        _enter_sources(store, one, ours, theirs)
    else:
        _recognised(store, one, ours, theirs)
        leave_out(_not_apart(one, ours, theirs))


def _holds(sources: Sequence[GameSource], others: Sequence[GameSource]) -> bool:
    """Returns whether `sources` include all games of `others`."""
    left = sorted(sources, key=_progress)
    for other in sorted(others, key=_progress):
        fitting = (s for s in left if _identity(s) == _identity(other) and _progress(s) >= _progress(other))
        found = next(fitting, None)
        if found is None:
            return False
        left.remove(found)
    return True


def _not_apart(one: Input, ours: Sequence[GameSource], theirs: Sequence[GameSource]) -> str:
    known = {_identity(source) for source in ours}
    missing = ", ".join(source.name for source in theirs if _identity(source) not in known)
    shared = ", ".join(source.name for source in theirs if _identity(source) in known)
    return (
        f"{one.name}: its games are left out: it counts those of {missing or 'some files'} together with"
        f" those of {shared}, which are there already; `graphsearch import` adds the missing file"
    )


def _add_games(store: Store, one: Input) -> None:
    positions = (row[:3] for row in one.rows("game_position", "ORDER BY key"))
    games.add_games(store, cast(Iterator[PositionRow], positions), ())
    games.add_games(store, (), cast(Iterator[MoveRow], one.rows("game_move", "ORDER BY key, move")))


# ------------------------------------------------------------------ books, studies and notes

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
            _enter_position(store, one, names, row, translated)
        strays += translated is None
    if strays:
        what = "belong to a book or build that it does not list, or that is left out"
        leave_out(f"{one.name}: table {_POSITION}: {strays} rows {what}, with their moves")
    return {"book_position": store.connection.total_changes - before}


def _enter_position(store: Store, one: Input, names: Sequence[str], row: Row, translated: Row) -> None:
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


# ------------------------------------------------------------------ transposition entries
Words = NDArray[np.uint64]


def unite_entries(store: Store, one: Input, leave_out: LeaveOut) -> dict[str, int]:
    """Merges the entries of an input, in an open transaction; returns the number written.

    Args:
      leave_out: called with a message for each damaged piece.
    """
    written = 0
    for evaluation in sorted({row[1] for row in entries.listed(one.store, leave_out)}):
        theirs, ours = (entries.load_only(file, evaluation) for file in (one.store, store))
        for problem in theirs.problems:  # `store verify` names ours
            leave_out(problem)
        keys, data = better((ours.keys, ours.data), (theirs.keys, theirs.data))
        entries.insert(store.connection, keys, data, evaluation)
        written += len(keys)
    return {"entry_piece": written}


def better(ours: tuple[Words, Words], theirs: tuple[Words, Words]) -> tuple[Words, Words]:
    """Returns the entries of `theirs` that are better than `ours`, by key; both have each position once."""
    keys, data = (np.concatenate([new, old]) for new, old in zip(theirs, ours, strict=True))
    proof = bits_at(data, DEPTH_AT, DEPTH_MASK) == PROOF
    worth = (
        data,
        bits_at(data, BOUND_AT, BOUND_MASK) == EXACT,
        bits_at(data, DEPTH_AT, DEPTH_MASK),
        np.where(proof, np.abs(values(data)), 0),  # the shorter mate
    )
    order = np.lexsort((*worth, checks(data), keys))  # of equal ones ours come last
    keys, data, check = keys[order], data[order], checks(data)[order]
    last = np.ones(len(keys), bool)
    last[:-1] = (keys[1:] != keys[:-1]) | (check[1:] != check[:-1])
    chosen = last & (order < len(theirs[0]))
    return keys[chosen], data[chosen]
