"""Positions of a graph as JSON lines and CSV, as columns: the fields that `rows_export` describes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..position.board import key_text_of_words
from ..position.steps_kernel import MATE
from ..position.values import shown_score_type
from ..position.words import CLOCK_BITS, CLOCK_SHIFT, KEY, META
from ..store.record.node import TERMINAL_MASK
from ..store.store import Store
from ..store.tables import games
from . import tables
from .centipawns import cps_of
from .columns import clock_terms, draws_of
from .graph_walk import Moves, Visits
from .pool import Ints, RecordPool
from .text_kernel import FEN, FLOAT, HEX, INTEGER, NAME, TEXT
from .text_rows import Field, Joints, key_field, literal, names_of, records_text
from .walk import TERMINALS

Text = NDArray[np.uint8]
Columns = dict[str, Field]

TERMINAL_TEXTS = ("", *TERMINALS.values())
TEXTS = (FEN, HEX, NAME, TEXT)  # kinds that JSON puts between quotes

# fields of JSON; those of a list stand under the name of its first one
JSON_NODE = ("key", "fen", "ply", "depth", "score_type", "n", "q", "wdl", "v", "v_draw", "bounds", "terminal")
JSON_SOURCE = ("evaluator", "run")
JSON_MOVE = ("move", "san", "n", "r", "p", "q", "draw", "cp", "mate", "child")
LISTS = {"wdl": ("wdl", "node_draw", "loss"), "bounds": ("bounds", "upper")}
CSV_NODE = (
    *("key", "fen", "ply", "depth", "n", "q", "node_draw", "v", "v_draw", "bounds", "upper", "terminal"),
    *("evaluator", "run", "score_type"),
)


@dataclass(frozen=True, slots=True)
class Part:
    """Some of the positions that were visited together, and their moves.

    Attributes:
      rows: which positions. moves: theirs. of: which of `rows` each is of. begins: where those of each begin.
    """

    visits: Visits
    rows: Ints
    moves: Moves
    of: Ints
    begins: Ints

    @classmethod
    def of_visits(cls, visits: Visits, rows: Ints) -> Part:
        """Returns some positions."""
        place = np.full(len(visits), -1, np.int64)
        place[rows] = np.arange(len(rows))
        moves = visits.moves.some(place[visits.moves.of] >= 0)
        of = place[moves.of]
        begins = np.concatenate([[0], np.cumsum(np.bincount(of, minlength=len(rows)))])
        return cls(visits, rows, moves, of, begins)

    @property
    def metas(self) -> NDArray[np.uint64]:
        """META of the positions in the graph."""
        return np.asarray(self.visits.batch.words[self.rows, META])

    @property
    def keys(self) -> NDArray[np.uint64]:
        """The keys of the positions in the graph."""
        words = self.visits.batch.words[self.rows]
        clocks = words[:, META] >> np.uint64(CLOCK_SHIFT) & np.uint64(CLOCK_BITS)
        return np.asarray(words[:, KEY] ^ clock_terms()[clocks.astype(np.int64)])


@contextmanager
def json_texts(store: Store, _: RecordPool, __: Path) -> Iterator[Callable[[Part], Text]]:
    """Yields what makes the JSON lines of some positions."""
    has_games = tables.has_games(store)
    yield lambda part: json_lines(part, store, has_games=has_games)


@contextmanager
def csv_texts(_: Store, __: RecordPool, ___: Path) -> Iterator[Callable[[Part], Text]]:
    """Yields what makes the rows of CSV of some positions."""
    yield csv_rows


def json_lines(part: Part, store: Store, *, has_games: bool) -> Text:
    """Returns the JSON lines of some positions."""
    tail = [literal("}\n", len(part.rows))]
    if has_games:
        tail.insert(0, _games(part, store))
    joints = Joints(', "moves": [', ", ", "]", ', "moves": []')
    head = list(_json(_node_columns(part), (*JSON_NODE, *JSON_SOURCE)))
    items = list(_json(_move_columns(part), JSON_MOVE))
    words = part.visits.batch.words[part.rows]
    return records_text(words, _opened(head), _opened(items, "}"), tail, part.begins, joints)


def csv_rows(part: Part) -> Text:
    """Returns the rows of CSV of some positions."""
    node, move = _node_columns(part), _move_columns(part)
    head = [replace(node[name], before="," if i else "") for i, name in enumerate(CSV_NODE)]
    head = [replace(field, null=field.before) for field in head]
    items = [replace(move[name], before=",", null=",") for name in JSON_MOVE]
    joints = Joints(empty="," * len(JSON_MOVE), lines=True)
    words = part.visits.batch.words[part.rows]
    return records_text(words, head, items, [literal("\r\n", len(part.rows))], part.begins, joints)


def _json(columns: Columns, names: Iterable[str]) -> Iterable[Field]:
    """Yields the fields of an object, with a comma before each."""
    for name in names:
        if name in LISTS:
            members = LISTS[name]
            yield replace(columns[members[0]], before=f', "{name}": [')
            yield from (replace(columns[member], before=", ") for member in members[1:-1])
            yield replace(columns[members[-1]], before=", ", after="]")
            continue
        field = columns[name]
        quote = '"' if field.kind in TEXTS else ""
        yield replace(field, before=f', "{name}": {quote}', after=quote, null=f', "{name}": null')


def _opened(fields: list[Field], close: str = "") -> list[Field]:
    """Returns the fields of an object with its braces."""
    first, last = fields[0], fields[-1]
    fields[0] = replace(first, before="{" + first.before.removeprefix(", "))
    fields[-1] = replace(last, after=last.after + close, null=last.null + close)
    return fields


def _games(part: Part, store: Store) -> Field:
    keys = [key_text_of_words(words) for words in part.visits.batch.words[part.rows].tolist()]
    played = games.counts(store, keys)
    rows = [[asdict(game) for game in played.get(key, [])] for key in keys]
    texts = [json.dumps(row, ensure_ascii=False) for row in rows]
    return Field(', "games": ', TEXT, np.arange(len(rows)), texts=texts)


def _node_columns(part: Part) -> Columns:
    """Returns what is known of the positions themselves."""
    visits, rows = part.visits, part.rows
    worth = visits.worth()
    q, batch = worth.q[rows], visits.batch
    draw = np.minimum(np.maximum(worth.draw[rows], 0.0), 1.0 - np.abs(q))
    win, loss = ((1.0 - draw + sign * q) / 2 for sign in (1.0, -1.0))
    terminal = batch.flags[rows] & TERMINAL_MASK
    run = batch.run[rows]
    return {
        "key": key_field("", part.keys, part.metas),
        "fen": Field("", FEN, visits.ply[rows] // 2 + 1),
        "ply": Field("", INTEGER, visits.ply[rows]),
        "depth": Field("", INTEGER, visits.depth[rows]),
        "score_type": Field("", TEXT, np.zeros(len(rows), np.int64), texts=[shown_score_type()]),
        "n": Field("", INTEGER, visits.n[rows]),
        "q": Field("", FLOAT, q),
        "wdl": Field("", FLOAT, np.where(win > 0.0, win, 0.0)),
        "node_draw": Field("", FLOAT, draw),
        "loss": Field("", FLOAT, np.where(loss > 0.0, loss, 0.0)),
        "v": Field("", FLOAT, batch.v[rows]),
        "v_draw": Field("", FLOAT, draws_of(batch)[rows]),
        "bounds": Field("", INTEGER, worth.bounds[0::2][rows]),
        "upper": Field("", INTEGER, worth.bounds[1::2][rows]),
        "terminal": Field("", TEXT, terminal, terminal > 0, texts=TERMINAL_TEXTS),
        "evaluator": Field("", INTEGER, batch.evaluator[rows]),
        "run": Field("", INTEGER, run, run > 0),
    }


def _move_columns(part: Part) -> Columns:
    """Returns what is known of the moves."""
    visits, moves = part.visits, part.moves
    names = names_of(visits.batch.words, moves.of, moves.code)
    n, r, q, draw, mate, mated = (
        _by_edge(values, moves) for values in (visits.batch.n, visits.batch.r, *visits.edge_worth())
    )
    visited, mates = n > 0, names.mark & MATE > 0
    cp = np.zeros(len(n), np.int64)
    cp[visited] = cps_of(q[visited], draw[visited])
    return {
        "move": Field("", NAME, names.uci),
        "san": Field("", NAME, names.san),
        "n": Field("", INTEGER, n),
        "r": Field("", INTEGER, r),
        "p": Field("", FLOAT, priors_of(visits, moves)),
        "q": Field("", FLOAT, q, visited),
        "draw": Field("", FLOAT, draw, visited),
        "cp": Field("", INTEGER, cp, visited),
        "mate": Field("", INTEGER, np.where(mates, 1, mate), mates | (mated > 0)),
        "child": key_field("", names.key, names.meta),
    }


def _by_edge(values: NDArray[Any], moves: Moves) -> NDArray[Any]:
    """Returns the values of the edges of moves, 0 for a move without one."""
    return np.asarray(np.append(values, values.dtype.type(0))[moves.edge])  # -1 is the zero at the end


def priors_of(visits: Visits, moves: Moves) -> NDArray[np.float64]:
    """Returns P of moves, as `priors_from_codes` does."""
    batch = visits.batch
    powers = batch.codes.astype(np.int64) ** 4
    before = np.concatenate([[0], np.cumsum(powers)])
    totals = before[batch.code_offsets[1:]] - before[batch.code_offsets[:-1]]
    return np.asarray(powers[batch.code_offsets[moves.of] + moves.index] / totals[moves.of])
