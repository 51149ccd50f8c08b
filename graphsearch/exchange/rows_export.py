"""Exports positions as JSON lines, and moves as CSV, for analysis in other programs.

schema/exports.md lists the fields. Values are seen by the side to move; N, P and Q follow exactly from
the fields: N = 1 + sum n, Q = clamp(bounds, (v + sum n q) / N).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

import numpy as np

from ..position.fens import key_texts
from ..position.rules_kernel import MATE
from ..store.record.node import TERMINAL_MASK
from ..store.store import Store
from ..store.tables import games
from .choices import has_rows
from .columns import draws_of
from .output import ExportReport, Target
from .selection import Selection
from .streaming import OnLarge, Part, Text, export_stream
from .text_kernel import FEN, FLOAT, HEX, INTEGER, NAME, TEXT
from .text_rows import Field, Joints, key_field, literal, names_of, records_text
from .walk import TERMINALS, OnProgress

Columns = dict[str, Field]

TERMINAL_TEXTS = ("", *TERMINALS.values())
TEXTS = (FEN, HEX, NAME, TEXT)  # kinds with quotes in JSON

# fields of JSON; a list has the name of its first field
JSON_NODE = ("key", "fen", "ply", "depth", "n", "q", "wdl", "v", "v_draw", "bounds", "terminal")
JSON_SOURCE = ("evaluator", "run")
JSON_MOVE = ("move", "san", "n", "r", "p", "q", "draw", "cp", "mate", "child")
LISTS = {"wdl": ("wdl", "node_draw", "loss"), "bounds": ("bounds", "upper")}
CSV_NODE = (
    *("key", "fen", "ply", "depth", "n", "q", "node_draw", "v", "v_draw", "bounds", "upper", "terminal"),
    *("evaluator", "run"),
)


_IN_CSV = {"n": "node_n", "q": "node_q", "bounds": "lower"}  # names of CSV_NODE that moves have, too
COLUMNS = (*(_IN_CSV.get(name, name) for name in CSV_NODE), *JSON_MOVE)


def export_jsonl(
    path: str | Path,
    target: Target,
    selection: Selection | None = None,
    *,
    on_progress: OnProgress | None = None,
    on_large: OnLarge | None = None,
) -> ExportReport:
    """Writes one JSON object per position; arguments and errors as in `export_stream`."""

    def texts(store: Store, *_: object) -> AbstractContextManager[Callable[[Part], Text]]:
        return nullcontext(partial(_json_lines, store=store, has_games=has_rows(store, "game_move")))

    return export_stream(path, target, selection, "jsonl", texts, on_progress=on_progress, on_large=on_large)


def export_csv(
    path: str | Path,
    target: Target,
    selection: Selection | None = None,
    *,
    on_progress: OnProgress | None = None,
    on_large: OnLarge | None = None,
) -> ExportReport:
    """Writes CSV (RFC 4180): a row per move, or one per position without moves; else as `export_jsonl`."""
    head = ",".join(COLUMNS).encode() + b"\r\n"
    rows = nullcontext(_csv_rows)
    return export_stream(
        path, target, selection, "csv", lambda *_: rows, head=head, on_progress=on_progress, on_large=on_large
    )


def _json_lines(part: Part, *, store: Store, has_games: bool) -> Text:
    tail = [literal("}\n", len(part.rows))]
    if has_games:
        tail.insert(0, _games(part, store))
    if part.entries:
        tail.insert(-1, _book(part))
    joints = Joints(', "moves": [', ", ", "]", ', "moves": []')
    head = list(_json(_node_columns(part), (*JSON_NODE, *JSON_SOURCE)))
    items = list(_json(_move_columns(part), JSON_MOVE))
    return records_text(part.words, _opened(head), _opened(items, "}"), tail, part.begins, joints)


def _csv_rows(part: Part) -> Text:
    node, move = _node_columns(part), _move_columns(part)
    head = [replace(node[name], before="," if i else "") for i, name in enumerate(CSV_NODE)]
    head = [replace(field, null=field.before) for field in head]
    items = [replace(move[name], before=",", null=",") for name in JSON_MOVE]
    joints = Joints(empty="," * len(JSON_MOVE), lines=True)
    return records_text(part.words, head, items, [literal("\r\n", len(part.rows))], part.begins, joints)


def _json(columns: Columns, names: Iterable[str]) -> Iterable[Field]:
    """Yields the fields of an object, with a comma before each."""
    for name in names:
        if name in LISTS:
            members = LISTS[name]
            yield replace(columns[members[0]], before=f', "{name}": [', null=f', "{name}": null')
            yield from (replace(columns[member], before=", ") for member in members[1:-1])
            yield replace(columns[members[-1]], before=", ", after="]")
            continue
        field = columns[name]
        quote = '"' if field.kind in TEXTS else ""
        yield replace(field, before=f', "{name}": {quote}', after=quote, null=f', "{name}": null')


def _opened(fields: list[Field], close: str = "") -> list[Field]:
    """Returns the fields of an object with its braces added."""
    first, last = fields[0], fields[-1]
    fields[0] = replace(first, before="{" + first.before.removeprefix(", "))
    fields[-1] = replace(last, after=last.after + close, null=last.null + close)
    return fields


def _games(part: Part, store: Store) -> Field:
    keys = key_texts(part.words)
    played = games.counts(store, keys)
    rows = [[asdict(game) for game in played.get(key, [])] for key in keys]
    texts = [json.dumps(row, ensure_ascii=False) for row in rows]
    return Field(', "games": ', TEXT, np.arange(len(rows)), texts=texts)


def _book(part: Part) -> Field:
    names = ("move", "value", "rule", "loss")
    texts = [
        json.dumps(
            dict(entry.position)
            | {"moves": [{name: getattr(move, name) for name in names} for move in entry.moves]},
            ensure_ascii=False,
            allow_nan=False,
        )
        for entry in part.entries
    ]
    return Field(', "book": ', TEXT, np.arange(len(texts)), texts=texts)


def _node_columns(part: Part) -> Columns:
    visits, rows, known = part.visits, part.rows, part.known
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
        "n": Field("", INTEGER, visits.n[rows], known),
        "q": Field("", FLOAT, q, known),
        "wdl": Field("", FLOAT, np.where(win > 0.0, win, 0.0), known),
        "node_draw": Field("", FLOAT, draw, known),
        "loss": Field("", FLOAT, np.where(loss > 0.0, loss, 0.0), known),
        "v": Field("", FLOAT, batch.v[rows], known),
        "v_draw": Field("", FLOAT, draws_of(batch)[rows], known),
        "bounds": Field("", INTEGER, worth.bounds[0::2][rows], known),
        "upper": Field("", INTEGER, worth.bounds[1::2][rows], known),
        "terminal": Field("", TEXT, terminal, terminal > 0, texts=TERMINAL_TEXTS),
        "evaluator": Field("", INTEGER, batch.evaluator[rows], known),
        "run": Field("", INTEGER, run, run > 0),
    }


def _move_columns(part: Part) -> Columns:
    visits, moves = part.visits, part.moves
    names = names_of(visits.batch.words, moves.of, moves.code)
    worth, p = visits.move_worth(moves), visits.priors(moves)
    visited, mates = worth.n > 0, names.mark & MATE > 0
    return {
        "move": Field("", NAME, names.uci),
        "san": Field("", NAME, names.san),
        "n": Field("", INTEGER, worth.n),
        "r": Field("", INTEGER, moves.by_edge(visits.edges.r)),
        "p": Field("", FLOAT, p, ~np.isnan(p)),
        "q": Field("", FLOAT, worth.q, visited),
        "draw": Field("", FLOAT, worth.draw, visited),
        "cp": Field("", INTEGER, worth.cp, visited),
        "mate": Field("", INTEGER, np.where(mates, 1, worth.mates), mates | worth.mated),
        "child": key_field("", names.key, names.meta),
    }
