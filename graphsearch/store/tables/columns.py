"""Every table and column that a graph file may hold: type, range, form. `schema/store.md` describes them.

SQLite keeps any value in any column of a table that is not STRICT, and a file may come from anywhere. So
whoever reads a row holds it to this list (`rows.py`), `store verify` holds all of them to it, and what does
not fit is damaged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ...position.scores import FAR
from ...position.scores import MATE as MATE_SCORE
from ..record.node import MAX_RUN, MAX_VISITS
from ..record.transposition_layout import MOST_DEPTH
from .column import (
    ANY_BLOB,
    ANY_INTEGER,
    ANY_TEXT,
    COUNT,
    DATE,
    DURATION,
    EVALUATOR,
    FEN,
    FEN_OR_NONE,
    ID,
    KEY,
    MOST,
    MOVE,
    NUMBER,
    OBJECT,
    PLY,
    RUN,
    SHARE,
    U16,
    U32,
    WORD,
    Column,
    Q,
    blob,
    integer,
    one_of,
)

MAX_CHUNK_BLOCKS = 2048
MAX_CHUNK_RECORDS = 32 * MAX_CHUNK_BLOCKS
MAX_BLOCK_BYTES = 1 << 18  # as stored; 32 records take less than 1 << 17 before they are compressed
MAX_PIECE_ENTRIES = 1 << 16
MAX_GAME_MOVES = 1 << 16  # half-moves; by the 75-move rule no game has 18,000


@dataclass(frozen=True, slots=True)
class Table:
    """A table: its columns, and those of its primary key."""

    key: tuple[str, ...]
    columns: Mapping[str, Column] = field(repr=False)


_TIMES = {"started": ANY_TEXT, "finished": ANY_TEXT.or_null()}
_FOUND = {"depth": integer(1, MOST_DEPTH), "alpha": integer(-FAR, FAR), "beta": integer(-FAR, FAR)}
_FOUND |= {"value": integer(-MATE_SCORE, MATE_SCORE)}
_LINE = {"best_move": MOVE.or_null(), "pv": ANY_TEXT}
_COUNTS = {"nodes": COUNT, "hits": COUNT, "stored_hits": COUNT}

TABLES: dict[str, Table] = {
    "store_info": Table(("name",), {"name": WORD, "value": ANY_TEXT}),
    "evaluator": Table(
        ("id",),
        {
            "id": EVALUATOR,
            "kind": WORD,
            "digest": ANY_TEXT,
            "options": OBJECT,
            "mapping": ANY_TEXT,
            "identity": OBJECT,
        },
    ),
    "run": Table(
        ("id",),
        {
            "id": RUN,
            **_TIMES,
            "position": FEN_OR_NONE,
            "limits": OBJECT,
            "params": OBJECT,
            "visits": COUNT,
            "evaluations": COUNT,
            "evaluator": EVALUATOR,
            "kind": WORD,
            "program": WORD.or_null(),
        },
    ),
    "root": Table(("key",), {"key": KEY, "position": FEN, "visits": COUNT, "last_searched": ANY_TEXT}),
    "top_position": Table(
        ("key",),
        {
            "key": KEY,
            "fen": FEN,
            "n": COUNT,
            "q": Q,
            "win": SHARE,
            "draw": SHARE,
            "loss": SHARE,
            "best_move": MOVE.or_null(),
        },
    ),
    "top_edge": Table(
        ("key", "move"),
        {
            "key": KEY,
            "move": MOVE,
            "san": WORD,
            "n": integer(0, MAX_VISITS),
            "p": SHARE,
            "q": Q.or_null(),
            "draw": SHARE.or_null(),
        },
    ),
    "segment": Table(
        ("id",),
        {"id": ID, "age": COUNT, "merged_into": ID.or_null(), "frontier": ANY_INTEGER.or_null()},
    ),
    "chunk": Table(
        ("id",),
        {
            "id": ID,
            "segment": ID,
            "first_block": integer(1, MOST - MAX_CHUNK_BLOCKS),
            "blocks": integer(1, MAX_CHUNK_BLOCKS),
            "gone": integer(0, MAX_CHUNK_BLOCKS),
            "records": integer(0, MAX_CHUNK_RECORDS),
            "first_key": ANY_INTEGER,
            "checksum": U32,
            "keys": blob(8 * MAX_CHUNK_BLOCKS),
            "dictionary": blob(1 << 20),
            "bloom": blob(1 << 24),
        },
    ),
    "block": Table(("id",), {"id": ID, "data": blob(MAX_BLOCK_BYTES)}),
    "opinion": Table(
        ("key", "evaluator"),
        {
            "key": KEY,
            "evaluator": EVALUATOR,
            "run": integer(0, MAX_RUN),
            "fen": FEN,
            "n": COUNT,
            "q": Q,
            "draw": SHARE.or_null(),
            "second_q": Q,
            "second_draw": SHARE,
            "best_move": MOVE.or_null(),
            "second_best_move": MOVE.or_null(),
            "policy": blob(255),
        },
    ),
    "source": Table(
        ("id",),
        {
            "id": ID,
            "kind": one_of("pgn", "polyglot", "epd"),
            "name": ANY_TEXT,
            "digest": ANY_TEXT,
            "options": OBJECT,
            **_TIMES,
            "taken": COUNT,
            "skipped": COUNT,
            "players": COUNT.or_null(),
        },
    ),
    "game_position": Table(("key",), {"key": KEY, "fen": FEN, "ply": PLY}),
    "game_move": Table(
        ("key", "move"),
        {"key": KEY, "move": MOVE, "san": WORD}
        | dict.fromkeys(("white", "draws", "black", "unknown", "variations"), COUNT),
    ),
    "polyglot_entry": Table(
        ("key", "source", "place"),
        {
            "key": KEY,
            "move": MOVE,
            "source": ID,
            "place": COUNT,
            "raw_move": U16,
            "weight": U16,
            "learn": U32,
            "fen": FEN.or_null(),
            "san": WORD.or_null(),
        },
    ),
    "epd_position": Table(
        ("source", "place"),
        {"source": ID, "place": COUNT, "key": KEY, "fen": FEN, "operations": OBJECT},
    ),
    "book": Table(
        ("id",),
        {
            "id": ID,
            "name": WORD,
            "side": one_of("white", "black", "both"),
            "config": ANY_TEXT,
            "created": ANY_TEXT,
            "updated": ANY_TEXT,
        },
    ),
    "book_run": Table(
        ("id",),
        {
            "id": ID,
            "book": ID,
            "run": RUN,
            **_TIMES,
            "config": ANY_TEXT,
            "workers": COUNT,
            "positions": COUNT,
            "searched": COUNT,
            "visits": COUNT,
            "evaluations": COUNT,
            "seconds": DURATION,
            "ended": WORD.or_null(),
        },
    ),
    "book_root": Table(("book", "key"), {"book": ID, "key": KEY, "fen": FEN, "origin": ANY_TEXT}),
    "book_position": Table(
        ("book", "key"),
        {
            "book": ID,
            "key": KEY,
            "fen": FEN,
            "ply": PLY,
            "state": one_of("leaf", "open", "end", "apart"),
            "searches": COUNT,
            "n": COUNT,
            "value": Q.or_null(),
            "outside": Q.or_null(),
            "outside_move": MOVE.or_null(),
            "rest": NUMBER.or_null(),
            "priority": NUMBER.or_null(),
            "book_run": ID,
        },
    ),
    "book_move": Table(
        ("book", "key", "move"),
        {
            "book": ID,
            "key": KEY,
            "move": MOVE,
            "san": WORD,
            "child": KEY,
            "rule": WORD,
            "p": SHARE,
            "n": COUNT,
            "q": Q.or_null(),
            "value": Q.or_null(),
            "loss": integer(-(1 << 31), 1 << 31).or_null(),
            "games": COUNT,
            "visits": COUNT,
            "place": COUNT,
            "book_run": ID,
        },
    ),
    "book_queue": Table(
        ("id",),
        {
            "id": ID,
            "book": ANY_TEXT.or_null(),
            "fen": ANY_TEXT,
            "moves": ANY_TEXT,
            "origin": ANY_TEXT,
            "added": ANY_TEXT,
            "state": one_of("waiting", "done", "refused", "dropped"),
            "note": ANY_TEXT.or_null(),
            "changed": WORD.or_null(),
        },
    ),
    "book_lease": Table(
        ("book", "key"),
        {"book": ID, "key": KEY, "worker": COUNT, "pid": COUNT, "since": ANY_TEXT, "expires": ANY_TEXT},
    ),
    "entry_piece": Table(
        ("id",),
        {
            "id": ID,
            "evaluation": ANY_TEXT,
            "entries": integer(1, MAX_PIECE_ENTRIES),
            "checksum": U32,
            "data": ANY_BLOB,
        },
    ),
    "entry_run": Table(
        ("id",),
        {
            "id": ID,
            "kind": WORD,
            **_TIMES,
            "fen": FEN,
            "key": KEY,
            "limits": OBJECT,
            "evaluation": ANY_TEXT,
            "program": ANY_TEXT,
            **{name: column.or_null() for name, column in _FOUND.items()},
            "bound": one_of("", "exact", "lower", "upper").or_null(),
            **_LINE,
            **_COUNTS,
            "seconds": DURATION,
        },
    ),
    "entry_iteration": Table(
        ("id",),
        {
            "id": ID,
            "run": ID,
            **_FOUND,
            "bound": one_of("exact", "lower", "upper"),
            **_LINE,
            **_COUNTS,
            "cutoffs": COUNT,
            "first_cutoffs": COUNT,
            "seconds": DURATION,
        },
    ),
    "root_history": Table(
        ("key", "run", "n"),
        {
            "key": KEY,
            "run": RUN,
            "n": COUNT,
            "saved": ANY_TEXT,
            "q": Q,
            "draw": SHARE,
            "best_move": MOVE.or_null(),
            "depth": PLY.or_null(),
            "pv": ANY_TEXT.or_null(),
        },
    ),
    "book_history": Table(
        ("key", "book", "run", "searched"),
        {
            "key": KEY,
            "book": ID,
            "run": RUN,
            "searched": COUNT,
            "saved": ANY_TEXT,
            "positions": COUNT,
            "value": Q,
            "n": COUNT,
            "best_move": MOVE.or_null(),
            "pv": ANY_TEXT.or_null(),
        },
    ),
    "player": Table(("id",), {"id": ID, "name": WORD}),
    "event": Table(("id",), {"id": ID, "name": ANY_TEXT, "site": ANY_TEXT}),
    "game": Table(
        ("source", "number"),
        {
            **dict.fromkeys(("source", "number"), ID),
            **dict.fromkeys(("place", "bytes"), COUNT),
            **dict.fromkeys(("white", "black"), ID.or_null()),
            **dict.fromkeys(("white_elo", "black_elo"), COUNT.or_null()),
            "date": DATE.or_null(),
            "event": ID.or_null(),
            "round": WORD.or_null(),
            "result": one_of("1-0", "0-1", "1/2-1/2", "*"),
            "eco": WORD.or_null(),
            "fen": FEN.or_null(),
            "moves": blob(MAX_GAME_MOVES),
        },
    ),
}
