"""A Polyglot book of what a file knows: entries by key, weights by a stated policy, in 16 bits.

The policies, for the moves of one position:

    n         edge N
    q         2 ** (-loss / 25), loss in centipawns (`centipawn`, of Q alone) against the best move
    minimax   the same of the minimax of the stored values over what is exported; with a book, of its values
    games     2 wins + draws of the side that plays the move, over the imported games, as Polyglot makes
              books, and one point for a game without a result
    imported  the weights of imported entries

n, games and imported stand as they are if the largest fits 16 bits, else all of a position are scaled to it;
q and minimax give the best move 65,535. A weight that rounds to 0 leaves the book, the best never does.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import BinaryIO

from ..errors import ExportError, InvalidParameterError
from ..position.board import is_chess960
from ..store.sharded.files import open_to_read
from ..store.store import Store
from . import tables
from .candidates import Weights, source_of
from .export_report import ExportReport
from .output import new_output, scratch_folder, scratch_path
from .polyglot import ENTRY, MAX_WEIGHT, raw_move
from .polyglot_graph import write_graph
from .polyglot_weights import loss_weight, scaled
from .scratch import KEY_BYTES, Scratch
from .selection import ExportPlan, Selection, plan
from .walk import OnProgress, Walk

WEIGHTS: tuple[Weights, ...] = ("n", "q", "minimax", "games", "imported")
GRAPH_WEIGHTS = ("n", "q", "minimax")  # which the records say
_EXTRA_EMPTY = {
    "games": "no imported games; `graphsearch import pgn` brings some",
    "imported": "no imported entries; `graphsearch import polyglot` brings some",
}


@dataclass(frozen=True, slots=True)
class _Line:
    """An entry before it is written; `learn` is kept from imported ones."""

    raw: int
    weight: float
    learn: int = 0


def export_polyglot(
    path: str | Path,
    target: str | Path,
    selection: Selection | None = None,
    *,
    weights: Weights = "n",
    on_progress: OnProgress | None = None,
) -> ExportReport:
    """Writes a Polyglot book of a graph file, and returns what it holds and what was lost.

    Args:
      path: the graph file; it is only read, also while a search writes it.
      target: the book; replaced as a whole.
      selection: what is exported; of one side, positions where that side moves only.
      weights: the policy. With `imported` and nothing selected, all entries go out as they came in, those of
        unknown positions too.
      on_progress: called with positions visited and met.

    Raises:
      InvalidParameterError: if there is no such policy or book.
      ExportError: if there is nothing to write, or no place for it.
      StoreError: if the graph file cannot be read.
    """
    if weights not in WEIGHTS:
        raise InvalidParameterError(
            f"weights must be {', '.join(WEIGHTS[:-1])} or {WEIGHTS[-1]}, not {weights!r}"
        )
    chosen = selection or Selection()
    started = time.monotonic()
    with open_to_read(path) as store, new_output(target, store=store.path) as out:
        _check_imported(store, weights)
        report = ExportReport("polyglot", str(target))
        if weights == "imported" and _takes_everything(chosen):
            _write_imported(store, chosen, out, report)
        else:
            _write_plan(
                store, plan(store, chosen), weights, target, out, report=report, on_progress=on_progress
            )
        if not report.moves:
            raise ExportError(f"{store.path}: nothing to export{_why(report)}")
        report.seconds = time.monotonic() - started
    return report


def _check_imported(store: Store, weights: Weights) -> None:
    there = {"games": tables.has_games, "imported": tables.has_entries}.get(weights)
    if there and not there(store):
        raise ExportError(f"{store.path} has {_EXTRA_EMPTY[weights]}")


def _why(report: ExportReport) -> str:
    lines = report.left_out_lines()
    return f"; {', '.join(lines)}" if lines else ""


def _takes_everything(selection: Selection) -> bool:
    """Returns whether nothing but a side is selected, so that entries go out without a walk."""
    free = (selection.depth, selection.max_moves) == (None, None) and selection.min_visits == 0
    return free and not selection.roots and selection.book is None


# ------------------------------------------------------------------ of the walk


def _write_plan(
    store: Store,
    plan: ExportPlan,
    weights: Weights,
    target: str | Path,
    out: BinaryIO,
    *,
    report: ExportReport,
    on_progress: OnProgress | None,
) -> None:
    """Writes what a walk finds: that over a graph alone goes by columns."""
    if plan.book is None and weights in GRAPH_WEIGHTS:
        folder = scratch_folder(target)
        write_graph(store, plan, weights, folder, out, report=report, on_progress=on_progress)
        return
    with Scratch(scratch_path(target)) as scratch:
        _write_walked(store, plan, weights, scratch, out, report=report, on_progress=on_progress)


def _write_walked(
    store: Store,
    plan: ExportPlan,
    weights: Weights,
    scratch: Scratch,
    out: BinaryIO,
    *,
    report: ExportReport,
    on_progress: OnProgress | None,
) -> None:
    source = source_of(store, plan.book, weights)
    Walk(store, plan, source, scratch, report, leaves=False, keep=True, on_progress=on_progress).exhaust()
    if weights == "minimax" and plan.book is None:
        spread_minimax(scratch)
    report.left_out["other_side"] += _count_others(scratch)
    for key, positions in groupby(_positions(scratch), key=lambda row: row[1][:KEY_BYTES]):
        node = _heaviest(scratch, list(positions), report)
        lines = _lines(scratch, node, weights, report)
        _write_position(out, int.from_bytes(key, "big"), lines, weights, report)


def _count_others(scratch: Scratch) -> int:
    return int(
        scratch.connection.execute(
            "SELECT count(*) FROM node WHERE NOT own AND EXISTS (SELECT 1 FROM edge WHERE node = id)"
        ).fetchone()[0]
    )


def _positions(scratch: Scratch) -> Iterator[tuple[int, bytes]]:
    """Yields (id, identity) of the positions whose moves are written, in the order of a book."""
    rows = scratch.connection.execute(
        "SELECT id, identity FROM node WHERE own AND EXISTS (SELECT 1 FROM edge WHERE node = id)"
        " ORDER BY identity"
    )
    # `yield from` would close the cursor, which fails once an error has closed the file
    for row in rows:  # noqa: UP028
        yield row


def _heaviest(scratch: Scratch, positions: list[tuple[int, bytes]], report: ExportReport) -> int:
    """Returns the position that is written of those with one key: the most visited, then the first."""
    if len(positions) == 1:
        return positions[0][0]
    report.left_out["clashes"] += len(positions) - 1
    return max(positions, key=lambda row: (_heft(scratch, row[0]), -row[0]))[0]


def _heft(scratch: Scratch, node: int) -> int:
    return sum(edge.n + edge.weight for edge in scratch.edges(node))


def _lines(scratch: Scratch, node: int, weights: Weights, report: ExportReport) -> list[_Line]:
    """Returns the moves of a position with their weights as the policy has them."""
    edges, standard = scratch.edges(node), not is_chess960(scratch.words(node))
    if weights in ("q", "minimax"):
        values = [edge.value for edge in edges if edge.value is not None]
        best = max(values, default=0.0)
        numbers = [0.0 if e.value is None else loss_weight(best, e.value) for e in edges]
    elif weights == "n":
        numbers = [float(edge.n) for edge in edges]
    else:
        numbers = [float(edge.weight) for edge in edges]
        report.left_out["moves_scored_nothing"] += sum(number == 0 for number in numbers)
    return [
        _Line(raw_move(e.move, two_steps=standard and e.san.startswith("O-O")), number, e.learn)
        for e, number in zip(edges, numbers, strict=True)
    ]


def _write_position(
    out: BinaryIO, key: int, lines: Sequence[_Line], weights: Weights, report: ExportReport
) -> None:
    """Writes the entries of one key, heaviest first."""
    fill = weights in ("q", "minimax")
    numbers = scaled([line.weight for line in lines], fill=fill)
    if not fill and max(line.weight for line in lines) > MAX_WEIGHT:
        report.scaled += len(lines)
    kept = [(number, line) for number, line in zip(numbers, lines, strict=True) if number]
    counted = sum(line.weight == 0 for line in lines) if weights in ("games", "imported") else 0
    report.left_out["moves_scaled_away"] += len(lines) - len(kept) - counted
    kept.sort(key=lambda pair: -pair[0])
    for number, line in kept:
        out.write(ENTRY.pack(key, line.raw, number, line.learn))
    report.positions += bool(kept)
    report.moves += len(kept)


def spread_minimax(scratch: Scratch) -> None:
    """Replaces the value of every kept move by the minimax of the values below it, deepest positions first.

    A position that has no moves there keeps its own value. A move to a position that is no deeper than its
    own keeps the stored value too: that cuts the cycles.
    """
    execute = scratch.connection.execute
    execute("UPDATE node SET value = NULL WHERE EXISTS (SELECT 1 FROM edge WHERE node = id)")
    deepest = execute("SELECT coalesce(max(depth), 0) FROM node").fetchone()[0]
    first = scratch.met
    for depth in range(deepest, -1, -1):
        last = first
        first = execute(
            "SELECT coalesce(max(id), 0) FROM node WHERE depth < ? AND id <= ?", (depth, last)
        ).fetchone()[0]
        execute(_FROM_CHILDREN, (first, last))
        execute(_FROM_MOVES, (first, last))


_FROM_CHILDREN = """
UPDATE edge SET value = coalesce(
  (SELECT -c.value FROM node c JOIN node p ON p.id = edge.node WHERE c.id = edge.child AND c.depth > p.depth),
  value)
WHERE node > ? AND node <= ?
"""
_FROM_MOVES = """
UPDATE node SET value = (SELECT max(value) FROM edge WHERE node = node.id)
WHERE id > ? AND id <= ? AND EXISTS (SELECT 1 FROM edge WHERE node = node.id)
"""


# ------------------------------------------------------------------ of imported entries


def _write_imported(store: Store, selection: Selection, out: BinaryIO, report: ExportReport) -> None:
    """Writes all imported entries of a side; those of one book in its order, so it comes out as it was."""
    for key, rows in groupby(tables.all_entries(store), key=lambda entry: entry.key):
        kept = [row for row in rows if _is_wanted(row, selection, report)]
        if kept:
            _write_entries(out, int(key, 16), kept, report)


def _is_wanted(row: tables.PolyglotRow, selection: Selection, report: ExportReport) -> bool:
    if selection.side in (None, "both"):
        return True
    if row.turn is None:
        report.left_out["unknown_entries"] += 1
        return False
    return row.turn == (selection.side == "white")


def _write_entries(out: BinaryIO, key: int, rows: Sequence[tables.PolyglotRow], report: ExportReport) -> None:
    """Writes the entries of one key; those of several books for one move become one, their weights added."""
    one_book = len({row.source for row in rows}) == 1
    lines = [_Line(row.raw_move, row.weight, row.learn) for row in rows]
    if not one_book:
        merged = list(_merged(lines))
        report.merged += len(lines) - len(merged)
        lines = sorted(merged, key=lambda line: -line.weight)
    numbers = scaled([line.weight for line in lines], fill=False)
    report.scaled += len(lines) if max(line.weight for line in lines) > MAX_WEIGHT else 0
    for number, line in zip(numbers, lines, strict=True):
        out.write(ENTRY.pack(key, line.raw, number, line.learn))
    report.positions += 1
    report.moves += len(lines)


def _merged(lines: Iterable[_Line]) -> Iterator[_Line]:
    found: dict[int, _Line] = {}
    for line in lines:
        old = found.get(line.raw)
        found[line.raw] = (
            line if old is None else _Line(line.raw, old.weight + line.weight, old.learn or line.learn)
        )
    yield from found.values()
