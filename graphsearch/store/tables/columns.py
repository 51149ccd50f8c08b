"""Every table and column of a graph file: type, range, form. `schema/store.md` describes them.

SQLite stores any value in any column of a table that is not STRICT, and files may come from untrusted
sources. So `rows.py` checks every row that it reads against this list, `store verify` checks all rows, and a
value that does not fit counts as damage.

Columns, types, keys and NULL are those of schema/tables.sql. The ranges are here, by column name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources

from ...position.scores import FAR, MATE
from ..record.node import MAX_VISITS
from ..record.transposition_layout import MOST_DEPTH
from . import column as of
from .column import ANY_TEXT, COUNT, MOST, WORD, Column, blob, integer, one_of

MAX_CHUNK_BLOCKS = 2048
MAX_CHUNK_RECORDS = 32 * MAX_CHUNK_BLOCKS
MAX_BLOCK_BYTES = 1 << 18  # as stored; 32 records take less than 1 << 17 before they are compressed
MAX_PIECE_ENTRIES = 1 << 16
MAX_GAME_MOVES = 1 << 16  # half-moves; by the 75-move rule no game has 18,000
MAX_TEXT_BYTES = 1 << 19  # of the text of games, in one row, as stored and as written

_BY_NAME = [
    (of.KEY, "key child"),
    (of.MOVE, "move best_move second_best_move outside_move"),
    (of.FEN, "fen position"),
    (of.Q, "q second_q value outside"),
    (of.SHARE, "p win draw loss second_draw"),
    (of.ID, "id segment merged_into source number book book_run event study revision visit step"),
    (of.RUN, "run"),
    (of.EVALUATOR, "evaluator"),
    (of.PLY, "ply depth"),
    (of.U16, "raw_move weight"),
    (of.U32, "checksum learn"),
    (of.DURATION, "seconds"),
    (of.NUMBER, "rest priority"),
    (of.OBJECT, "options identity limits params operations headers request facts"),
    (of.DATE, "date"),
    (of.NAGS, "nags"),
    (WORD, "name kind program san ended rule changed round eco text opening title"),
    (
        ANY_TEXT,
        "digest mapping started finished last_searched created updated added saved",
    ),
    (ANY_TEXT, "config origin moves note evaluation pv site before comment old new"),
    (COUNT, "n age visits evaluations taken skipped players place bytes"),
    (COUNT, "white draws black unknown variations games white_elo black_elo"),
    (
        COUNT,
        "last parent positions searched searches nodes hits stored_hits cutoffs first_cutoffs",
    ),
    (of.ANY_INTEGER, "frontier first_key"),
    (integer(1, MOST - MAX_CHUNK_BLOCKS), "first_block"),
    (integer(1, MAX_CHUNK_BLOCKS), "blocks"),
    (integer(0, MAX_CHUNK_BLOCKS), "gone"),
    (integer(0, MAX_CHUNK_RECORDS), "records"),
    (integer(1, MAX_PIECE_ENTRIES), "entries"),
    (integer(-FAR, FAR), "alpha beta"),
    (integer(-1, 1), "lower upper"),
    (integer(0, 1), "root undone"),
    (blob(8 * MAX_CHUNK_BLOCKS), "keys"),
    (blob(1 << 20), "dictionary"),
    (blob(1 << 24), "bloom"),
    (blob(255), "policy"),
    (one_of("study", "study_move", "note", "repertoire_position", "repertoire_move"), "edited"),
    (one_of("white", "black", "both"), "side"),
    (one_of("1-0", "0-1", "1/2-1/2", "*"), "result"),
]
_RANGES = {name: column for column, names in _BY_NAME for name in names.split()}
_RANGES |= {  # of names that mean something else in one table
    "store_info.value": ANY_TEXT,
    "evaluator.id": of.EVALUATOR,
    "run.id": of.RUN,
    "run.position": of.FEN_OR_NONE,
    "repertoire_position.side": one_of("white", "black"),
    "repertoire_move.side": one_of("white", "black"),
    "top_edge.n": integer(0, MAX_VISITS),
    "block.data": blob(MAX_BLOCK_BYTES),
    "source.kind": one_of("pgn", "polyglot", "epd"),
    "source.name": ANY_TEXT,
    "event.name": ANY_TEXT,
    **{f"game.{colour}": of.ID for colour in ("white", "black")},
    "game.moves": blob(MAX_GAME_MOVES),
    "game_index.keys": blob(2 * (MAX_GAME_MOVES + 1)),
    "game_text.bytes": integer(1, MAX_TEXT_BYTES),
    "game_text.data": blob(MAX_TEXT_BYTES),
    "task.state": one_of("waiting", "running", "done", "failed", "stopped", "interrupted"),
    "book_position.state": one_of("leaf", "open", "end", "apart"),
    "book_move.loss": integer(-(1 << 31), 1 << 31),
    "book_queue.book": ANY_TEXT,
    "book_queue.fen": ANY_TEXT,
    "book_queue.state": one_of("waiting", "done", "refused", "dropped"),
    "entry_piece.data": of.ANY_BLOB,
    "entry_run.program": ANY_TEXT,
    "entry_run.bound": one_of("", "exact", "lower", "upper"),
    "entry_iteration.run": of.ID,
    "entry_iteration.bound": one_of("exact", "lower", "upper"),
    **{f"entry_{table}.value": integer(-MATE, MATE) for table in ("run", "iteration")},
    **{f"entry_{table}.depth": integer(1, MOST_DEPTH) for table in ("run", "iteration")},
}

_TABLE = re.compile(r"^CREATE TABLE (\w+) \(\n(.*?)\n\)", re.MULTILINE | re.DOTALL)
_COLUMN = re.compile(r"^  ([a-z]\w*) [A-Z]+(.*)$", re.MULTILINE)
_KEY = re.compile(r"^  PRIMARY KEY \((.*)\)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Table:
    """A table: its columns, and those of its primary key."""

    key: tuple[str, ...]
    columns: Mapping[str, Column] = field(repr=False)


@cache
def tables_sql() -> str:
    """Returns the SQL that makes the tables, indexes and views."""
    return (resources.files("graphsearch.schema") / "tables.sql").read_text("utf-8")


def _tables() -> Iterator[tuple[str, Table]]:
    for name, body in _TABLE.findall(tables_sql()):
        key, columns = tuple(", ".join(_KEY.findall(body)).split(", ")), {}
        for column, rest in _COLUMN.findall(body):
            found = _RANGES.get(f"{name}.{column}") or _RANGES[column]
            if "PRIMARY KEY" in rest:
                key = (column,)
            columns[column] = found if "NOT NULL" in rest or key == (column,) else found.or_null()
        yield name, Table(key, columns)


TABLES: dict[str, Table] = dict(_tables())
# older files lack these tables: a reader treats them as empty, a writer creates them
LATER = (
    *("study", "study_move", "note", "edit", "repertoire_position", "repertoire_move"),
    *("searched_apart", "game_index", "game_text", "task"),
)
