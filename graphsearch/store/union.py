"""Merges files: their records in step, and the rows of every table by a rule (`tables.rows.TABLES`).

`docs/contributing/merging.md` has the rules. A row is identified by the key of its table or, if that is a
number that each file assigns itself, by other columns (`identity`). Numbers of other rows are translated
(`refs`). A new column needs no change here, a new table one line.

Rows with a number of their own are read from all files in step, sorted by the identity columns. So memory
holds only rows that are equal in these, and new numbers do not depend on the order in which the files are
named.

The counts of games are sums over all PGN files, so they can be replaced, added or left out, but the share
of one file cannot be separated. A position of a book keeps its moves, so each still has exactly the moves
that one build chose. The positions that they lead to are in one of the two books, hence in the union;
`book build` updates the values. Better transposition entries are appended, because the newest counts.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from heapq import merge
from itertools import groupby
from typing import Any, cast

import numpy as np

from ..base.answer import Answer
from ..base.errors import CorruptRecordError, StoreError, UnfinishedError, UnsoundRecordError
from ..position.board import fen_of, unpack
from . import entries, provenance
from .file import sql_errors
from .reading import find
from .record import RecordBatch, sort_keys
from .record_kernel import MAX_RUN
from .rewrite import rewrite
from .segment import cursors_from, fetch_portion
from .store import Store
from .tables import games, studies
from .tables.games import GameSource, MoveRow
from .tables.rows import TABLES, rows, shown, update_row, write_row
from .transposition_kernel import BOUND_AT, BOUND_MASK, EXACT, PROOF, Words, bits_at, checks, values


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """How the rows of a table are merged.

    Attributes:
      refs: column -> table that its numbers refer to; 0 and NULL stay.
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

# other tables have functions of their own, below; facts of one file, tables derived from the records, the log
# of edits and the page's queue of tasks are not merged

Row = dict[str, Any]  # a value by column
LeaveOut = Callable[[str], object]


@dataclass(frozen=True, slots=True)
class Input:
    """An input file, read in one snapshot; `name`: as the user gave it.

    `numbers` has, by table, the target file's number for each of this one, 0 for a source that is left out.
    """

    store: Store
    name: str
    numbers: dict[str, dict[int, int]] = field(default_factory=dict)

    def rows(self, table: str, rest: str = "", values: tuple[object, ...] = ()) -> Iterator[Row]:
        """Yields the rows of a table; raises CorruptRecordError at the first damaged one, naming the file."""
        with sql_errors(self.store.path, "read it"):
            yield from _rows(self.store.connection, table, rest, values)

    def translated(self, row: Row, refs: Mapping[str, str]) -> Row | None:
        """Returns a row with the target file's numbers; None if it refers to a row that is not there."""
        new = {
            column: self.numbers.get(table, {}).get(row[column])
            for column, table in refs.items()
            if row[column]
        }
        return row | new if all(new.values()) else None


def _rows(
    connection: sqlite3.Connection, table: str, rest: str, values: Sequence[object] = ()
) -> Iterator[Row]:
    names = tuple(TABLES[table].columns)
    return (dict(zip(names, row, strict=True)) for row in rows(connection, table, names, rest, values))


@contextmanager
def open_input(path: str | os.PathLike[str], name: str) -> Iterator[Input]:
    """Yields a file as a snapshot of its current state; others may write to it meanwhile.

    It raises UnfinishedError if the file is being moved to another evaluator. `name`: as the user gave it.
    """
    with Store.open(path, read_only=True) as store, store.snapshot():
        if state := provenance.unfinished_state(store.connection, store.path, store.identity):
            raise UnfinishedError(state)
        yield Input(store, name)


def unite_tables(store: Store, one: Input, leave_out: LeaveOut) -> dict[str, int]:
    """Merges all but the records and the numbered rows of an input, after these, in an open transaction.

    Args:
      leave_out: called with a message for what cannot be merged, such as rows that refer to missing ones.

    Returns:
      the number of rows written to each table that changes; a book's moves count with their positions.

    Raises:
      CorruptRecordError: if a row of the input is damaged.
    """
    written = {"source": _unite_imports(store, one, leave_out)}
    for table, rule in KEYED.items():
        written[table] = _enter(store.connection, one, table, rule, leave_out)
    written["book_position"] = _unite_books(store.connection, one, leave_out)
    written["entry_piece"] = _unite_entries(store, one, leave_out)
    written["study"] = _add_studies(store.connection, one.store.connection)
    written["note"] = _unite_notes(store.connection, one.store.connection)
    return {table: number for table, number in written.items() if number}


def _enter(connection: sqlite3.Connection, one: Input, table: str, rule: Rule, leave_out: LeaveOut) -> int:
    """Merges the rows of one table; returns the number written."""
    before, strays = connection.total_changes, 0

    def translated() -> Iterator[Row]:
        nonlocal strays
        for row in one.rows(table, f"ORDER BY {', '.join(TABLES[table].key)}"):  # writes pages in order
            if found := one.translated(row, rule.refs):
                yield found
            else:  # a source that was left out is reported
                strays += all(one.numbers[to].get(row[column]) != 0 for column, to in rule.refs.items())

    connection.executemany(upsert(table, rule.by), translated())
    if strays:
        named = " or ".join(dict.fromkeys(rule.refs.values()))
        what = f"belong to a {named} that it does not list, or that is left out"
        leave_out(f"{one.name}: table {table}: {strays} rows {what}")
    return connection.total_changes - before


def upsert(table: str, by: Sequence[str]) -> str:
    """Returns the statement that inserts a row, or replaces one that is less in the columns `by`.

    >>> upsert("searched_apart", ())
    'INSERT INTO searched_apart VALUES (:key, :move) ON CONFLICT (key, move) DO NOTHING'
    >>> upsert("root", ("visits",)).partition(" WHERE ")[2]
    '(coalesce(excluded.visits, -1)) > (coalesce(root.visits, -1))'
    """
    key, columns = TABLES[table].key, TABLES[table].columns
    marks = ", ".join(f":{name}" for name in columns)
    conflict = f"INSERT INTO {table} VALUES ({marks}) ON CONFLICT ({', '.join(key)}) DO"  # noqa: S608 (constants)
    if not by:
        return f"{conflict} NOTHING"
    least = {name: "''" if columns[name].kind == "TEXT" else "-1" for name in by}
    values = ", ".join(f"{name} = excluded.{name}" for name in columns if name not in key)
    new, old = (
        ", ".join(f"coalesce({whose}.{name}, {least[name]})" for name in by) for whose in ("excluded", table)
    )
    return f"{conflict} UPDATE SET {values} WHERE ({new}) > ({old})"


# ------------------------------------------------------------------ rows with a number of their own
@dataclass(slots=True)
class _Row:
    """A row of one file, or of the target file after rows of others are merged into it.

    Its `id` is that in the target file, 0: none yet. `members` are the rows of inputs that were merged into
    it, as (number of the input, id). `is_new`: whether it has to be written.
    """

    values: Row
    id: int
    members: list[tuple[int, int]]
    is_new: bool

    def rank(self, names: Sequence[str]) -> tuple[tuple[bool, Any], ...]:
        """Returns its rank by some columns; NULL comes first, as in SQLite."""
        return tuple((self.values[name] is not None, self.values[name]) for name in names)


def unite_numbered(store: Store, inputs: Sequence[Input], leave_out: LeaveOut) -> dict[str, int]:
    """Merges evaluators, runs and all other numbered rows, in an open transaction; fills `numbers` of inputs.

    `leave_out`, and the numbers that it returns: as for `unite_tables`.

    Raises:
      StoreError: if there are too many evaluators or runs.
      CorruptRecordError: if a row of an input is damaged.
    """
    for one in inputs:
        one.numbers["evaluator"] = {
            number: store.add_evaluator(identity) for number, identity in one.store.evaluators().items()
        }
    return {table: written for table in NUMBERED if (written := _unite(store, inputs, table, leave_out))}


def _unite(store: Store, inputs: Sequence[Input], table: str, leave_out: LeaveOut) -> int:
    """Merges the rows of one table; returns the number written."""
    rule, written = NUMBERED[table], 0
    statement = f"SELECT coalesce(max(id), 0) FROM {table}"  # noqa: S608 (constants)
    last = int(store.connection.execute(statement).fetchone()[0])
    order = f"ORDER BY {', '.join(rule.identity)}"

    def translated(file: int) -> Iterator[_Row]:
        """Yields the rows of an input, without those that refer to a row that was left out."""
        found = (inputs[file].translated(row, rule.refs) for row in inputs[file].rows(table, order))
        return (_Row(row, 0, [(file, row.pop("id"))], is_new=True) for row in found if row)

    def by_identity(row: _Row) -> tuple[tuple[bool, Any], ...]:
        return row.rank(rule.identity)

    ours = _rows(store.connection, table, order)
    streams: list[Iterator[_Row]] = [(_Row(row, row.pop("id"), [], is_new=False) for row in ours)]
    for file, one in enumerate(inputs):
        one.numbers[table] = {}
        streams.append(translated(file))
    for _, equal in groupby(merge(*streams, key=by_identity), by_identity):
        for kept in _merged_rows(equal, rule, f"table {table}", inputs, leave_out):
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


def _merged_rows(
    equal: Iterable[_Row], rule: Rule, table: str, inputs: Sequence[Input], leave_out: LeaveOut
) -> list[_Row]:
    """Merges rows with equal identities, those of the target file first; returns the merged rows."""
    found: list[_Row] = []
    for row in equal:
        kept = next((one for one in found if _is_same(one, row, rule)), None)
        if kept is None:
            found.append(row)
        elif differing := [name for name in rule.agree if kept.values[name] != row.values[name]]:
            named = ", ".join(shown(row.values[column]) for column in rule.identity)
            both = ", ".join(
                f"{name} is {shown(row.values[name])} here, {shown(kept.values[name])} there"
                for name in differing
            )
            leave_out(f"{inputs[row.members[0][0]].name}: {table} {named}: {both}; left out")
        else:
            kept.members += row.members
            if row.rank(rule.by) > kept.rank(rule.by):
                kept.values, kept.is_new = kept.values | row.values, True
    return found


def _is_same(kept: _Row, row: _Row, rule: Rule) -> bool:
    """Returns whether a row and a kept one are the same work: in equal states, or one is unfinished."""
    if row.id or row.members[0][0] in (file for file, _ in kept.members):  # of one file
        return False
    if any(kept.values[name] != row.values[name] for name in rule.refs):
        return False
    if not rule.until or kept.values[rule.until] is None or row.values[rule.until] is None:
        return True
    return all(kept.values[name] == row.values[name] for name in rule.by)


# ------------------------------------------------------------------ imports
# kind, digest and options of an import, and the number of such imports that are further advanced
Sources = dict[tuple[str, str, str, int], GameSource]

PGN = "pgn"


def _unite_imports(store: Store, one: Input, leave_out: LeaveOut) -> int:
    """Merges the imports and their games, and fills the numbers of sources; returns the rows written.

    Of two states of one source the more advanced one counts. The games of all PGN files are added to ours,
    replace them, or are left out if some would count twice.
    """
    connection, numbers = store.connection, one.numbers.setdefault("source", {})
    before = connection.total_changes
    ours, theirs = _sources(store), _sources(one.store)
    own, its = ({key: one for key, one in some.items() if one.kind == PGN} for some in (ours, theirs))
    if not its and next(one.rows("game_position", "LIMIT 1"), None):
        leave_out(f"{one.name}: its games are left out: its table source does not name their files")
    keeps = _holds(own, its)
    adds = not keeps and not {key[:3] for key in own} & {key[:3] for key in its}
    replaces = not keeps and not adds and _holds(its, own)
    if replaces:
        connection.execute("DELETE FROM game_move")
        connection.execute("DELETE FROM game_position")
    if adds or replaces:
        positions = (
            (row["key"], row["fen"], row["ply"]) for row in one.rows("game_position", "ORDER BY key")
        )
        moves = (tuple(row.values()) for row in one.rows("game_move", "ORDER BY key, move"))
        games.add_games(store, positions, ())
        games.add_games(store, (), cast(Iterator[MoveRow], moves))
    elif not keeps:
        missing, shared = (
            ", ".join(source.name for key, source in its.items() if (key in own) is wanted)
            for wanted in (False, True)
        )
        leave_out(
            f"{one.name}: its games are left out: it counts those of {missing or 'some files'} together with"
            f" those of {shared}, which are there already; `graphsearch import` adds the missing file"
        )
    for key, source in sorted(theirs.items(), key=lambda item: item[1].id):
        known, counts = ours.get(key), source.kind != PGN or adds or replaces
        if known is None:
            numbers[source.id] = games.put_source(store, replace(source, id=0)).id if counts else 0
            continue
        numbers[source.id] = known.id
        changed = ["players"] if (source.players or 0) > (known.players or 0) else []
        if counts and _progress(source) > _progress(known):
            changed += ["started", "finished", "taken", "skipped"]
        if changed:
            update_row(connection, "source", known.id, {name: getattr(source, name) for name in changed})
    return connection.total_changes - before


def _sources(store: Store) -> Sources:
    """Returns the imports of a file."""
    found, seen = Sources(), Counter[tuple[str, str, str]]()
    for one in sorted(games.sources(store), key=_progress, reverse=True):
        key = one.kind, one.digest, json.dumps(dict(one.options), sort_keys=True)
        found[(*key, seen[key])] = one
        seen[key] += 1
    return found


def _progress(source: GameSource) -> tuple[bool, int]:
    return source.finished is not None, source.taken + source.skipped


def _holds(sources: Sources, others: Sources) -> bool:
    """Returns whether `sources` include all games of `others`."""
    return all(
        key in sources and _progress(sources[key]) >= _progress(other) for key, other in others.items()
    )


# ------------------------------------------------------------------ books
_BOOK_REFS = {"book": "book", "book_run": "book_run"}
CHOSEN = "chosen"  # the rule of a move that a person put in
# of two versions, the one searched more counts, then the later one in this list
_STATES = ("apart", "leaf", "end", "open")


def _unite_books(connection: sqlite3.Connection, one: Input, leave_out: LeaveOut) -> int:
    """Merges the positions and moves of an input's books; returns the number of rows written."""
    before, strays = connection.total_changes, 0
    for row in one.rows("book_position", "ORDER BY book, key"):
        if new := one.translated(row, _BOOK_REFS):
            found = one.rows("book_move", "WHERE book = ? AND key = ?", (row["book"], row["key"]))
            moves = (one.translated(move, _BOOK_REFS) for move in found)
            _enter_position(connection, new, [move for move in moves if move])
        else:
            strays += 1
    if strays:
        what = "belong to a book or build that it does not list, or that is left out"
        leave_out(f"{one.name}: table book_position: {strays} rows {what}, with their moves")
    return connection.total_changes - before


def _enter_position(connection: sqlite3.Connection, new: Row, moves: list[Row]) -> None:
    """Writes a position with its moves, unless the file's own version counts more; keeps chosen moves."""
    where = (new["book"], new["key"])
    old = next(_rows(connection, "book_position", "WHERE book = ? AND key = ?", where), None)
    if old:
        ply = min(old["ply"], new["ply"])
        if _worth(new) <= _worth(old):
            if ply < old["ply"]:
                write_row(connection, "book_position", old | {"ply": ply})
            chosen = [move for move in moves if move["rule"] == CHOSEN]
            connection.executemany(upsert("book_move", ()), chosen)
            return
        new["ply"] = ply
        statement = "DELETE FROM book_move WHERE book = ? AND key = ? AND rule <> ?"
        connection.execute(statement, (*where, CHOSEN))
    write_row(connection, "book_position", new)
    for move in moves:
        write_row(connection, "book_move", move)


def _worth(position: Row) -> tuple[int, int, int]:
    return position["searches"], position["n"], _STATES.index(position["state"])


# ------------------------------------------------------------------ studies and notes
def _add_studies(connection: sqlite3.Connection, other: sqlite3.Connection) -> int:
    written = 0
    known = {studies.pgn_of(connection, study.id) for study in studies.all_studies(connection)}
    for study in studies.all_studies(other):
        text = studies.pgn_of(other, study.id)
        if text not in known:
            known.add(text)
            keys = rows(other, "study_position", ("key",), "WHERE study = ? ORDER BY move", (study.id,))
            name = studies.free_name(connection, study.name)
            new = studies.add_study(connection, name, text, [key for (key,) in keys])
            names = ("revision", "created", "changed")
            update_row(connection, "study", new.id, {name: getattr(study, name) for name in names})
            written += 1
    return written


def _unite_notes(connection: sqlite3.Connection, other: sqlite3.Connection) -> int:
    written = 0
    for note in studies.all_notes(other):
        known, text = studies.find_note(connection, note.key), note.text
        if known and text in known.text:
            continue
        if known and known.text not in text:
            text = f"{known.text}\n\n{text}"
        studies.put_note(connection, note.key, note.fen, text)
        written += 1
    return written


# ------------------------------------------------------------------ transposition entries
def _unite_entries(store: Store, one: Input, leave_out: LeaveOut) -> int:
    """Merges the transposition entries of an input; returns the number written."""
    written = 0
    for evaluation in sorted({row[1] for row in entries.listed(one.store, leave_out)}):
        theirs, ours = (entries.load_only(file, evaluation) for file in (one.store, store))
        for problem in theirs.problems:  # `store verify` names ours
            leave_out(problem)
        keys, data = better((ours.keys, ours.data), (theirs.keys, theirs.data))
        entries.insert(store.connection, keys, data, evaluation)
        written += len(keys)
    return written


def better(ours: tuple[Words, Words], theirs: tuple[Words, Words]) -> tuple[Words, Words]:
    """Returns the entries of `theirs` that are better than `ours`, by key; both have each position once."""
    keys, data = (np.concatenate([new, old]) for new, old in zip(theirs, ours, strict=True))
    depths, is_exact = entries.depths(data), bits_at(data, BOUND_AT, BOUND_MASK) == EXACT
    shortness = np.where(depths == PROOF, np.abs(values(data)), 0)  # of a mate
    worth = (data, is_exact, depths, shortness)
    order = np.lexsort((*worth, checks(data), keys))  # of equal ones ours come last
    keys, data, check = keys[order], data[order], checks(data)[order]
    last = np.ones(len(keys), bool)
    last[:-1] = (keys[1:] != keys[:-1]) | (check[1:] != check[:-1])
    chosen = last & (order < len(theirs[0]))
    return keys[chosen], data[chosen]


# ------------------------------------------------------------------ records
EXAMPLES = 5  # positions with contradicting proofs that are named
_CLASH = "the files have proofs that contradict each other; the proof that stands with more visits is kept"


@dataclass(slots=True)
class RecordCounts(Answer):
    """Counts of an input's records by outcome.

    Attributes:
      records: sound records that were read. unsound: records left out, because their contents are impossible.
      fresh: records of new positions. changed: records that change the record of a known position.
      different: positions with two different evaluations, one in each file; one was chosen.
      contradictions: positions with proofs in both files that cannot both be true.
    """

    json_keys = "records unsound fresh changed different contradictions unchanged"

    records: int = 0
    unsound: int = 0
    fresh: int = 0
    changed: int = 0
    different: int = 0
    contradictions: int = 0

    @property
    def unchanged(self) -> int:
        """Number of records that add nothing."""
        return self.records - self.fresh - self.changed

    def unite(
        self, old: RecordBatch, new: RecordBatch, bound: int, on_clash: Callable[[int], object] | None = None
    ) -> RecordBatch:
        """Returns the union of records, each in segment order, and counts those of the second batch.

        `bound`: number of the evaluator that the file is bound to. `on_clash` is called with the index in
        `new` of a record whose proofs contradict the old one's.
        """
        from .union_kernel import CHANGED, CONTRADICTIONS, COUNTS, DIFFERENT, FRESH, unite

        codes = len(old.codes) + len(new.codes)
        out, clashing = RecordBatch.room(len(old) + len(new), codes, codes), np.zeros(len(new), bool)
        counts = np.zeros(COUNTS, np.int64)
        united = int(unite(old, new, bound, out, clashing, counts))
        self.records += len(new)
        self.fresh += int(counts[FRESH])
        self.changed += int(counts[CHANGED])
        self.different += int(counts[DIFFERENT])
        self.contradictions += int(counts[CONTRADICTIONS])
        if on_clash:
            for i in np.flatnonzero(clashing).tolist():
                on_clash(i)
        return out.part(0, united)


def _translator(one: Input) -> Callable[[RecordBatch], RecordBatch]:
    """Returns a function that translates records of an input to the target's numbers.

    A run that the input does not list becomes unknown; for such an evaluator it raises CorruptRecordError.
    """
    runs = np.zeros(MAX_RUN + 1, np.uint32)
    for old, new in one.numbers["run"].items():
        runs[old] = new
    evaluators = np.full(256, 255, np.uint8)
    evaluators[0] = 0
    for old, new in one.numbers["evaluator"].items():
        evaluators[old] = new

    def translated(batch: RecordBatch) -> RecordBatch:
        found = evaluators[batch.evaluator]
        if (found == 255).any():
            number = int(batch.evaluator[found == 255][0])
            raise CorruptRecordError(f"{one.name}: records are of evaluator {number}, which it does not list")
        return batch.replace(run=runs[batch.run], evaluator=found)

    return translated


def unite_records(
    store: Store,
    inputs: Sequence[Input],
    counts: Sequence[RecordCounts],
    *,
    on_records: Callable[[int], object],
    leave_out: LeaveOut,
) -> None:
    """Merges the records of inputs into a file that is open for writing, and counts those of each.

    All files are read in step, and the file is written once. It opens its own transactions.

    Args:
      on_records: called with the number of records read since the last call.
      leave_out: called with a message for each unsound record, and for contradictions.

    Raises:
      CorruptRecordError: if a file is damaged; records written before stay.
      StoreError: if a file cannot be read or written.
    """
    translators = [_translator(one) for one in inputs]
    blocks, unsound = store.catalog.sizes.step_blocks, list[CorruptRecordError]()

    def change(batch: RecordBatch, low: int, pivot: int | None) -> RecordBatch:
        for one, its, translated in zip(inputs, counts, translators, strict=True):
            with one.store.reading() as connection:
                catalog = one.store.catalog
                cursors = cursors_from(catalog, catalog.segments, low, blocks)
                new = fetch_portion(connection, catalog, cursors, low, pivot).records(unsound.append)
            its.unsound += len(unsound)
            while unsound:
                leave_out(str(unsound.pop()))
            clashes = list[int]()
            before = its.contradictions
            batch = its.unite(batch, translated(new), store.evaluator_number, clashes.append)
            for i in clashes[: max(0, EXAMPLES - before)]:
                leave_out(f"{fen_of(unpack(new.words[i].tolist()))}: {_CLASH}")
            on_records(len(new))
        return batch

    rewrite(
        store,
        change,
        others=[one.store for one in inputs],
        advance=on_records,
        on_unsound=lambda error: leave_out(str(error)),
    )
    for its in counts:
        if its.contradictions > EXAMPLES:
            leave_out(f"{its.contradictions - EXAMPLES:,} more positions with such contradictions")


def add_records(store: Store, batch: RecordBatch) -> None:
    """Merges records, in segment order, into a file, in the open transaction.

    They must have the file's numbers of runs and evaluators. An unsound record of the file counts as missing.

    Raises:
      CorruptRecordError: if a block of the file that may hold one of the records is damaged.
      StoreError: if it cannot be read or written.
    """
    words, counts = batch.words, RecordCounts()
    index = store.catalog.around(sort_keys(words))
    found = find(store.connection, index, words, store.catalog.sizes.piece_blocks)
    for error in found.damage:
        if not isinstance(error, UnsoundRecordError):
            raise error
    store.append(counts.unite(found.records, batch, store.evaluator_number), fresh=counts.fresh)
