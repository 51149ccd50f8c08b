"""Exports positions and moves as two Parquet tables, for DuckDB, Polars, pandas and similar tools.

schema/exports.md describes the columns. The export of a whole file scans it in file order, thousands of
records at once; the export of a selection walks over it as in the other exports. Tables are written in row
groups, so memory does not depend on the size of the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..base.errors import ExportError
from ..position.board import MOVE_CODES
from ..position.fens import fens, key_texts
from ..position.words import BLACK_TO_MOVE, CHESS960_BITS, CHESS960_SHIFT, CLOCK_BITS, CLOCK_SHIFT, META
from ..query.steps import uci_of
from ..store.codec.bulk import take
from ..store.record.node import MAX_EVALUATOR, TERMINAL_MASK, RecordBatch
from ..store.store import Store
from .arrow_tables import Columns, Table, Values, chosen_rows, needed_arrow
from .columns import MoveColumns, NodeColumns, columns_of, draws_of
from .output import ExportReport, new_folder, open_export
from .selection import Selection, plan
from .text_rows import letters_of, names_of
from .walk import TERMINALS, OnProgress, Visits, Walk

NODES, EDGES = "nodes.parquet", "edges.parquet"
AT_ONCE = 4096  # positions per batch: 11 MB of child positions
NODES_PER_GROUP, EDGES_PER_GROUP = 1 << 17, 1 << 19  # rows; some 20 MB while buffered

# column -> its type in Arrow; `text` is a dictionary of texts
NODE_COLUMNS = {
    "key": "uint64",
    "rooks": "uint16",
    "key_hex": "string",
    "fen": "string",
    "turn": "text",
    "clock": "uint8",
    "ply": "int32",
    "depth": "int32",
    "n": "int64",
    "q": "float32",
    "win": "float32",
    "draw": "float32",
    "loss": "float32",
    "v": "float32",
    "v_draw": "float32",
    "lower": "int8",
    "upper": "int8",
    "mate": "int16",
    "terminal": "text",
    "moves": "uint8",
    "best_move": "text",
    "best_san": "text",
    "evaluator": "uint8",
    "evaluator_name": "text",
    "run": "uint32",
}
EDGE_COLUMNS = {
    "key": "uint64",
    "rooks": "uint16",
    "move": "text",
    "san": "text",
    "rank": "uint8",
    "child": "uint64",
    "child_rooks": "uint16",
    "n": "uint32",
    "r": "uint32",
    "p": "float32",
    "q": "float32",
    "draw": "float32",
    "lower": "int8",
    "upper": "int8",
    "mate": "int16",
}

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class _Part:
    """A batch of records to write.

    Attributes:
      batch: their columns. known: `[R]` whether the file has the record.
      fens: of the positions. ply, depth: `[R]`, None without a walk.
      taken: `[M]` mask of the legal moves to write; None: all moves with at least `min_visits` visits.
    """

    batch: RecordBatch
    known: Mask
    fens: list[str]
    ply: NDArray[np.int32] | None = None
    depth: NDArray[np.int32] | None = None
    taken: Mask | None = None


def export_parquet(
    path: str | Path,
    target: str | Path,
    selection: Selection | None = None,
    *,
    on_progress: OnProgress | None = None,
) -> ExportReport:
    """Writes a folder with `nodes.parquet` and `edges.parquet`; returns a report.

    Args:
      path: the graph file, opened read-only.
      target: the folder; made, or replaced if it has no other files than these two.
      selection: what to export. If it sets at most `min_visits`, the export scans every record of the file,
        reachable from a root or not; otherwise it walks over the selection.
      on_progress: called with the positions done, and known so far.

    Raises:
      InvalidParameterError: if there is no such book.
      ExportError: if there is nothing to write, the folder cannot be written, or pyarrow is not installed.
      StoreError: if the graph file cannot be read.
    """
    arrow = needed_arrow()
    chosen = selection or Selection()
    report = ExportReport("parquet", str(target))
    with open_export(path, partial(new_folder, target, is_own=_is_export), report) as (store, folder):
        whole = chosen == Selection(min_visits=chosen.min_visits)
        parts = _scanned if whole else _walked
        with _Tables(arrow, store, folder) as tables:
            for part in parts(store, chosen, folder, report, on_progress):
                tables.add(part, chosen.min_visits, report)
        if not report.positions:
            raise ExportError(f"{store.path}: nothing to export; it has no position of this selection")
    return report


def _is_export(folder: Path) -> bool:
    return {entry.name for entry in folder.iterdir()} <= {NODES, EDGES}


# ------------------------------------------------------------------ reading
def _scanned(
    store: Store, chosen: Selection, _: Path, report: ExportReport, on_progress: OnProgress | None
) -> Iterator[_Part]:
    """Yields every record of the file, from one snapshot."""
    done = 0
    for batch in store.scan(on_corrupt=lambda error: report.problems.append(str(error))):
        for begin in range(0, len(batch), AT_ONCE):
            some = batch.part(begin, min(begin + AT_ONCE, len(batch)))
            yield _Part(some, np.ones(len(some), bool), fens(some.words))
        done += len(batch)
        if on_progress:
            on_progress(done, max(done, store.node_count))


def _walked(
    store: Store, chosen: Selection, folder: Path, report: ExportReport, on_progress: OnProgress | None
) -> Iterator[_Part]:
    """Yields the positions of a selection, from a walk."""
    wanted = plan(store, chosen)
    with Walk(store, wanted, folder.parent, report, leaves=True, rest=True, on_progress=on_progress) as walk:
        for visits in walk.visits():
            rows = np.flatnonzero(visits.own)
            report.left_out["other_side"] += len(visits) - len(rows)
            if len(rows):
                yield _part_of_visits(visits, rows)


def _part_of_visits(visits: Visits, rows: NDArray[np.int64]) -> _Part:
    batch, moves = visits.batch, visits.moves
    taken = np.zeros(len(batch.codes), bool)
    there = moves.index < np.diff(batch.code_offsets)[moves.of]  # a finished game has none
    taken[(batch.code_offsets[moves.of] + moves.index)[there]] = True
    of_rows = np.repeat(visits.own, np.diff(batch.code_offsets))
    batch = take(batch, rows)
    return _Part(
        batch=batch,
        known=visits.known[rows],
        fens=fens(batch.words, visits.ply[rows].tolist()),
        ply=visits.ply[rows],
        depth=visits.depth[rows],
        taken=taken[of_rows],
    )


# ------------------------------------------------------------------ writing
class _Tables:
    def __init__(self, arrow: Any, store: Store, folder: Path) -> None:
        self._arrow = arrow
        self._folder = folder
        names = {number: identity.describe() for number, identity in store.evaluators().items()}
        self._evaluators = [({0: "rules"} | names).get(i, f"evaluator {i}") for i in range(MAX_EVALUATOR + 1)]
        self._sans: dict[int, int] = {}  # packed SAN -> index in `_texts`
        self._texts: list[str] = []
        self._open = ExitStack()

    def __enter__(self) -> _Tables:
        with ExitStack() as stack:
            self._nodes = stack.enter_context(
                Table(self._arrow, self._folder / NODES, NODE_COLUMNS, NODES_PER_GROUP)
            )
            self._edges = stack.enter_context(
                Table(self._arrow, self._folder / EDGES, EDGE_COLUMNS, EDGES_PER_GROUP)
            )
            self._open = stack.pop_all()
        return self

    def __exit__(self, *error: Any) -> None:
        self._open.__exit__(*error)

    def add(self, part: _Part, least: int, report: ExportReport) -> None:
        """Writes a batch, without records and moves of fewer than `least` visits."""
        nodes, moves = columns_of(part.batch)
        rows = nodes.n >= least if part.taken is None else np.ones(len(nodes.n), bool)
        taken = part.taken
        if taken is None:
            enough = moves.n >= least
            taken = rows[moves.of] & enough
            report.left_out["few_visits"] += int((~rows).sum())
            report.left_out["moves_few_visits"] += int((rows[moves.of] & ~enough & (moves.n > 0)).sum())
        sans = self._san_indices(names_of(part.batch.words, moves.of, moves.code).san)
        self._nodes.add(chosen_rows(self._of_nodes(part, nodes, moves, sans), rows))
        self._edges.add(chosen_rows(self._of_edges(part, nodes, moves, sans), taken))
        report.positions += int(rows.sum())
        report.moves += int(taken.sum())

    def _san_indices(self, names: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Returns the index of each move's SAN in `_texts`; adds new ones."""
        words, which = np.unique(names, return_inverse=True)
        for word, letters in zip(words.tolist(), letters_of(words), strict=True):
            if word not in self._sans:
                self._sans[word] = len(self._texts)
                self._texts.append(letters.decode())
        return np.array([self._sans[word] for word in words.tolist()], np.int64)[which]

    def _of_nodes(self, part: _Part, nodes: NodeColumns, moves: MoveColumns, sans: Any) -> Columns:
        known, batch = part.known, part.batch
        meta, terminal = batch.words[:, META].astype(np.int64), batch.flags & np.uint8(TERMINAL_MASK)
        none = np.zeros(len(meta), bool)
        best = np.maximum(nodes.best, 0)
        has_best = known & (nodes.best >= 0)
        win, loss = ((1.0 - nodes.draw + sign * nodes.q) / 2 for sign in (1, -1))
        return {
            "key": Values(nodes.key),
            "rooks": Values(rooks_of(batch.words[:, META])),
            "key_hex": Values(np.array(key_texts(batch.words), object)),
            "fen": Values(np.array(part.fens, object)),
            "turn": Values(meta & BLACK_TO_MOVE, texts=["w", "b"]),
            "clock": Values(meta >> CLOCK_SHIFT & CLOCK_BITS),
            "ply": Values(meta, none) if part.ply is None else Values(part.ply),
            "depth": Values(meta, none) if part.depth is None else Values(part.depth),
            "n": Values(nodes.n, known),
            "q": Values(nodes.q, known),
            "win": Values(np.maximum(win, 0.0), known),  # not -1e-17 by rounding
            "draw": Values(nodes.draw, known),
            "loss": Values(np.maximum(loss, 0.0), known),
            "v": Values(batch.v, known),
            "v_draw": Values(draws_of(batch), known),
            "lower": Values(nodes.lower, known),
            "upper": Values(nodes.upper, known),
            "mate": Values(nodes.mate, nodes.mated),
            "terminal": Values(terminal, terminal > 0, ["", *TERMINALS.values()]),
            "moves": Values(np.diff(batch.code_offsets)),
            "best_move": Values(_at(moves.code, best), has_best, _moves_in_uci()),
            "best_san": Values(_at(sans, best), has_best, self._texts),
            "evaluator": Values(batch.evaluator, known),
            "evaluator_name": Values(batch.evaluator, known, self._evaluators),
            "run": Values(batch.run, batch.run > 0),
        }

    def _of_edges(self, part: _Part, nodes: NodeColumns, moves: MoveColumns, sans: Any) -> Columns:
        known, visited = part.known[moves.of], moves.n > 0
        return {
            "key": Values(nodes.key[moves.of]),
            "rooks": Values(rooks_of(part.batch.words[moves.of, META])),
            "move": Values(moves.code, texts=_moves_in_uci()),
            "san": Values(sans, texts=self._texts),
            "rank": Values(moves.rank, known),
            "child": Values(moves.child),
            "child_rooks": Values(rooks_of(moves.child_meta)),
            "n": Values(moves.n),
            "r": Values(moves.r),
            "p": Values(moves.p, known),
            "q": Values(moves.q, visited),
            "draw": Values(moves.draw, visited),
            "lower": Values(moves.lower),
            "upper": Values(moves.upper),
            "mate": Values(moves.mate, moves.mate != 0),
        }


def rooks_of(metas: NDArray[np.uint64]) -> NDArray[np.uint16]:
    """Returns bits 20-32 of METAs: the castling rooks of Chess960 positions, 0 for standard castling."""
    return (metas >> np.uint64(CHESS960_SHIFT) & np.uint64(CHESS960_BITS)).astype(np.uint16)


def _at(values: NDArray[Any], places: NDArray[np.int64]) -> NDArray[Any]:
    """Returns values by index; zeros if `values` is empty."""
    return values[places] if len(values) else np.zeros(len(places), np.int64)


@cache
def _moves_in_uci() -> list[str]:
    return [uci_of(code) for code in range(MOVE_CODES)]
