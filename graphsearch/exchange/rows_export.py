"""Positions as JSON lines, and moves as CSV: what the records hold, for any program that counts.

docs/exchange.md lists the fields. Values are seen by the side to move; N, P and Q follow from
the fields exactly: N = 1 + sum n, Q = clamp(bounds, (v + sum n q) / N).
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..position.board import key_text_of_words
from ..position.values import cp_of, shown_score_type, wdl_from_q
from ..query.steps import positions_after, uci_of
from ..store.reading import Reader
from ..store.record.node import Edge, NodeRecord
from ..store.record.ranking import node_mean
from ..store.store import Store
from ..store.tables import games
from . import tables
from .candidates import edge_draws, edges_by_move
from .export_report import ExportReport
from .graph_rows import csv_texts, json_texts
from .output import Target
from .selection import Selection
from .streaming import Render, export_stream
from .walk import TERMINALS, OnProgress, Stop

NODE_COLUMNS = [
    "key",
    "fen",
    "ply",
    "depth",
    "node_n",
    "node_q",
    "node_draw",
    "v",
    "v_draw",
    "lower",
    "upper",
    "terminal",
    "evaluator",
    "run",
    "score_type",
]
MOVE_COLUMNS = ["move", "san", "n", "r", "p", "q", "draw", "cp", "mate", "child"]
COLUMNS = (*NODE_COLUMNS, *MOVE_COLUMNS)


def export_jsonl(
    path: str | Path,
    target: Target,
    selection: Selection | None = None,
    *,
    on_progress: OnProgress | None = None,
) -> ExportReport:
    """Writes one JSON object per position; arguments and errors are those of `export_stream`."""
    return export_stream(path, target, selection, "jsonl", _json_lines, json_texts, on_progress=on_progress)


def export_csv(
    path: str | Path,
    target: Target,
    selection: Selection | None = None,
    *,
    on_progress: OnProgress | None = None,
) -> ExportReport:
    """Writes a row per move as RFC 4180 has it, one for a position without moves; else as `export_jsonl`."""
    head = csv_text([dict(zip(COLUMNS, COLUMNS, strict=True))])
    return export_stream(
        path, target, selection, "csv", _csv_rows, csv_texts, head=head, on_progress=on_progress
    )


def _json_lines(store: Store, book: int | None) -> Render:
    has_games = tables.has_games(store)

    def render(stops: list[Stop], texts: list[str], reader: Reader) -> Iterable[tuple[bytes, int]]:
        played = games.counts(store, [stop.seen.key for stop in stops]) if has_games else {}
        for stop, fen, moves in zip(stops, texts, moves_of(stops, book is not None), strict=True):
            data = node_of(stop, fen) | {"moves": moves}
            if has_games:
                data["games"] = [_games(row) for row in played.get(stop.seen.key, [])]
            if book is not None:
                data["book"] = _book(store, book, stop)
            yield json.dumps(data, ensure_ascii=False, allow_nan=False).encode() + b"\n", len(moves)

    return render


def _csv_rows(store: Store, book: int | None) -> Render:
    def render(stops: list[Stop], texts: list[str], reader: Reader) -> Iterable[tuple[bytes, int]]:
        for stop, fen, moves in zip(stops, texts, moves_of(stops, book is not None), strict=True):
            node = _flat(node_of(stop, fen))
            yield csv_text([node | move for move in moves] or [node]), len(moves)

    return render


def csv_text(rows: Iterable[Mapping[str, Any]]) -> bytes:
    """Returns rows as CSV: lines end in CR LF, None is empty."""
    text = io.StringIO(newline="")
    csv.DictWriter(text, COLUMNS, restval="", lineterminator="\r\n").writerows(rows)
    return text.getvalue().encode()


def node_of(stop: Stop, fen: str) -> dict[str, Any]:
    """Returns what is known of a position itself, as the JSON object has it."""
    record = stop.record
    data: dict[str, Any] = {"key": stop.seen.key, "fen": fen, "ply": stop.met.ply, "depth": stop.met.depth}
    data["score_type"] = shown_score_type()
    if record is None:  # in a book, and not in the graph
        names = ("n", "q", "wdl", "v", "v_draw", "bounds", "terminal", "evaluator", "run")
        return data | dict.fromkeys(names)
    q, draws = node_mean(record)
    return data | {
        "n": record.visits,
        "q": q,
        "wdl": wdl_from_q(q, draws).as_list(),
        "v": record.v,
        "v_draw": record.v_draw,
        "bounds": list(record.bounds),
        "terminal": TERMINALS.get(record.terminal),
        "evaluator": record.evaluator,
        "run": record.run or None,
    }


def _flat(node: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the columns of a position."""
    wdl, bounds = node["wdl"] or (None, None, None), node["bounds"] or (None, None)
    special = {
        "node_n": node["n"],
        "node_q": node["q"],
        "node_draw": wdl[1],
        "lower": bounds[0],
        "upper": bounds[1],
    }
    same = ("key", "fen", "ply", "depth", "v", "v_draw", "terminal", "evaluator", "run", "score_type")
    return {name: node[name] for name in same} | special


def moves_of(stops: list[Stop], chosen_only: bool) -> list[list[dict[str, Any]]]:
    """Returns the moves of some positions, best first, those without visits behind them in order of P.

    Args:
      chosen_only: of a book: its moves, and no others.
    """
    indices = [moves_taken(stop, chosen_only) for stop in stops]
    of = [i for i, found in enumerate(indices) for _ in found]
    codes = [stops[i].moves.codes[k] for i, found in enumerate(indices) for k in found]
    words = np.array([stop.met.words for stop in stops], np.uint64).reshape(-1, 10)
    keys = map(key_text_of_words, positions_after(words, of, codes)[0].tolist())
    return [
        [_move(stop, edges, priors, k, next(keys)) for k in found]
        for stop, found in zip(stops, indices, strict=True)
        for edges, priors in [_numbers(stop.record)]
    ]


def moves_taken(stop: Stop, chosen_only: bool) -> list[int]:
    """Returns which moves of a position are written: the chosen ones, and those never visited."""
    chosen = [choice.index for choice in stop.choices]
    if chosen_only or stop.record is None or not stop.unvisited:
        return chosen
    record = stop.record
    rest = [index for k, index in enumerate(record.order) if k >= len(record.edges) or not record.edges[k].n]
    return chosen + (rest if record.codes else [])


def _numbers(record: NodeRecord | None) -> tuple[list[Edge], list[float]]:
    if record is None or not record.codes:
        return [], []
    return edges_by_move(record), record.priors


def _move(stop: Stop, edges: list[Edge], priors: list[float], k: int, key: str) -> dict[str, Any]:
    edge = edges[k] if edges else Edge(0)
    q = edge.value if edge.n else None
    return {
        "move": uci_of(stop.moves.codes[k]),
        "san": stop.sans[k],
        "n": edge.n,
        "r": edge.r,
        "p": priors[k] if priors else None,
        "q": q,
        "draw": edge_draws(edge),
        "cp": None if q is None else cp_of(q, edge.draws),
        "mate": 1 if stop.sans[k].endswith("#") else _mate(edge, stop.seen.clock),
        "child": key,
    }


def _mate(edge: Edge, clock: int) -> int | None:
    """Returns the moves to the mate that is proven of a move, negative if it is suffered."""
    proof = edge.proof
    return proof.moves if proof and proof.holds_at(clock) else None


def _games(row: games.MoveCounts) -> dict[str, Any]:
    names = ("move", "san", "white", "draws", "black", "unknown", "variations")
    return {name: getattr(row, name) for name in names}


def _book(store: Store, book: int, stop: Stop) -> dict[str, Any]:
    position = dict(tables.book_position(store, book, stop.seen.key) or {})
    position["moves"] = [
        {"move": uci_of(m.code), "value": m.value, "rule": m.rule, "loss": m.loss}
        for m in tables.book_moves(store, book, stop.seen.key)
    ]
    return position
