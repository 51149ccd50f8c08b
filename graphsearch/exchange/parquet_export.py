"""Exports positions and moves as two Parquet tables, for DuckDB, Polars, pandas and similar tools.

schema/exports.md describes the columns. The export of a whole file scans it in file order, thousands of
records at once; the export of a selection walks over it as in the other exports. Tables are written in row
groups, so memory does not depend on the size of the file.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..base.errors import ExportError, MissingPackageError
from ..base.version import __version__
from ..position.fens import fens, key_texts
from ..position.words import BLACK_TO_MOVE, CHESS960_BITS, CHESS960_SHIFT, CLOCK_BITS, CLOCK_SHIFT, META
from ..query.columns import MoveColumns, NodeColumns, columns_of, draws_of
from ..query.steps import Mask, names_of, uci_names
from ..store.codec.bulk import take
from ..store.record.node import MAX_EVALUATOR, TERMINAL_MASK, RecordBatch
from ..store.store import Store
from .output import ExportReport, new_folder, open_export, synced
from .selection import Selection, plan
from .walk import TERMINALS, OnProgress, Visits, Walk

INSTALL = "pip install '.[parquet]' in the folder of graphsearch"
NODES, EDGES = "nodes.parquet", "edges.parquet"
AT_ONCE = 4096  # positions per batch: 11 MB of child positions
NODES_PER_GROUP, EDGES_PER_GROUP = 1 << 17, 1 << 19  # rows; some 20 MB while buffered


@dataclass(frozen=True, slots=True)
class _Part:
    """A batch of records to write.

    Attributes:
      batch: their columns. known: `[R]` whether the file has the record.
      fens: of the positions. ply, depth: `[R]`, None without a walk.
      taken: `[M]` mask of the legal moves to write; None: all with enough visits.
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
      selection: what to export. If it limits visits at most, the export scans every record of the file,
        reachable from a root or not; otherwise it walks over the selection.
      on_progress: called with the positions done, and known so far.

    Raises:
      InvalidParameterError: if there is no such book.
      ExportError: if there is nothing to write, the folder cannot be written, or pyarrow is not installed.
      StoreError: if the graph file cannot be read.
    """
    try:
        importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        raise MissingPackageError(f"Parquet needs the package pyarrow ({error}): {INSTALL}") from None
    arrow = importlib.import_module("pyarrow")
    chosen = selection or Selection()
    report = ExportReport("parquet", str(target))
    with open_export(path, partial(new_folder, target, is_own=_is_export), report) as (store, folder):
        whole = chosen == Selection(min_visits=chosen.min_visits, all_moves=chosen.all_moves)
        parts = _scanned if whole else _walked
        with ExitStack() as files:
            tables = _Tables(arrow, store, folder, files)
            for part in parts(store, chosen, folder, report, on_progress):
                tables.add(part, chosen, report)
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
    def __init__(self, arrow: Any, store: Store, folder: Path, files: ExitStack) -> None:
        self._nodes = files.enter_context(Table(arrow, folder / NODES, NODES_PER_GROUP))
        self._edges = files.enter_context(Table(arrow, folder / EDGES, EDGES_PER_GROUP))
        names = {number: identity.describe() for number, identity in store.evaluators().items()}
        self._evaluators = [({0: "rules"} | names).get(i, f"evaluator {i}") for i in range(MAX_EVALUATOR + 1)]
        self._sans: dict[bytes, int] = {}  # SAN -> index in `_texts`
        self._texts: list[str] = []

    def add(self, part: _Part, chosen: Selection, report: ExportReport) -> None:
        """Writes a batch, without the records and moves that have too few visits."""
        nodes, moves = columns_of(part.batch)
        least = chosen.min_visits
        rows = nodes.n >= least if part.taken is None else np.ones(len(nodes.n), bool)
        taken = part.taken
        if taken is None:
            enough = moves.n >= (least if chosen.all_moves else max(least, 1))
            taken = rows[moves.of] & enough
            report.left_out["few_visits"] += int((~rows).sum())
            report.left_out["moves_few_visits"] += int((rows[moves.of] & ~enough & (moves.n > 0)).sum())
        sans = self._san_indices(names_of(part.batch.words, moves.of, moves.code)[0])
        self._nodes.add(_chosen_rows(self._of_nodes(part, nodes, moves, sans), rows))
        self._edges.add(_chosen_rows(self._of_edges(part, nodes, moves, sans), taken))
        report.positions += int(rows.sum())
        report.moves += int(taken.sum())

    def _san_indices(self, names: NDArray[np.bytes_]) -> NDArray[np.int64]:
        """Returns the index of each move's SAN in `_texts`; adds new ones."""
        distinct, which = np.unique(names, return_inverse=True)
        for name in distinct.tolist():
            if name not in self._sans:
                self._sans[name] = len(self._texts)
                self._texts.append(name.decode())
        return np.array([self._sans[name] for name in distinct.tolist()], np.int64)[which]

    def _of_nodes(self, part: _Part, nodes: NodeColumns, moves: MoveColumns, sans: Any) -> _Columns:
        known, batch = part.known, part.batch
        meta, terminal = batch.words[:, META].astype(np.int64), batch.flags & np.uint8(TERMINAL_MASK)
        none = np.zeros(len(meta), bool)
        best = np.maximum(nodes.best, 0)
        has_best = known & (nodes.best >= 0)
        win, loss = ((1.0 - nodes.draw + sign * nodes.q) / 2 for sign in (1, -1))
        return {
            "key": _Values("uint64", nodes.key),
            "rooks": _Values("uint16", rooks_of(batch.words[:, META])),
            "key_hex": _Values("string", np.array(key_texts(batch.words), object)),
            "fen": _Values("string", np.array(part.fens, object)),
            "turn": _Values("text", meta & BLACK_TO_MOVE, texts=["w", "b"]),
            "clock": _Values("uint8", meta >> CLOCK_SHIFT & CLOCK_BITS),
            "ply": _Values("int32", meta, none) if part.ply is None else _Values("int32", part.ply),
            "depth": _Values("int32", meta, none) if part.depth is None else _Values("int32", part.depth),
            "n": _Values("int64", nodes.n, known),
            "q": _Values("float32", nodes.q, known),
            "win": _Values("float32", np.maximum(win, 0.0), known),  # not -1e-17 by rounding
            "draw": _Values("float32", nodes.draw, known),
            "loss": _Values("float32", np.maximum(loss, 0.0), known),
            "v": _Values("float32", batch.v, known),
            "v_draw": _Values("float32", draws_of(batch), known),
            "lower": _Values("int8", nodes.lower, known),
            "upper": _Values("int8", nodes.upper, known),
            "mate": _Values("int16", nodes.mate, nodes.mated),
            "terminal": _Values("text", terminal, terminal > 0, ["", *TERMINALS.values()]),
            "moves": _Values("uint8", np.diff(batch.code_offsets)),
            "best_move": _Values("text", _at(moves.code, best), has_best, uci_names()),
            "best_san": _Values("text", _at(sans, best), has_best, self._texts),
            "evaluator": _Values("uint8", batch.evaluator, known),
            "evaluator_name": _Values("text", batch.evaluator, known, self._evaluators),
            "run": _Values("uint32", batch.run, batch.run > 0),
        }

    def _of_edges(self, part: _Part, nodes: NodeColumns, moves: MoveColumns, sans: Any) -> _Columns:
        known, visited = part.known[moves.of], moves.n > 0
        return {
            "key": _Values("uint64", nodes.key[moves.of]),
            "rooks": _Values("uint16", rooks_of(part.batch.words[moves.of, META])),
            "move": _Values("text", moves.code, texts=uci_names()),
            "san": _Values("text", sans, texts=self._texts),
            "rank": _Values("uint8", moves.rank, known),
            "child": _Values("uint64", moves.child),
            "child_rooks": _Values("uint16", rooks_of(moves.child_meta)),
            "n": _Values("uint32", moves.n),
            "r": _Values("uint32", moves.r),
            "p": _Values("float32", moves.p, known),
            "q": _Values("float32", moves.q, visited),
            "draw": _Values("float32", moves.draw, visited),
            "lower": _Values("int8", moves.lower),
            "upper": _Values("int8", moves.upper),
            "mate": _Values("int16", moves.mate, moves.mate != 0),
        }


def rooks_of(metas: NDArray[np.uint64]) -> NDArray[np.uint16]:
    """Returns bits 20-32 of METAs: the castling rooks of Chess960 positions, 0 for standard castling."""
    return (metas >> np.uint64(CHESS960_SHIFT) & np.uint64(CHESS960_BITS)).astype(np.uint16)


def _at(values: NDArray[Any], places: NDArray[np.int64]) -> NDArray[Any]:
    """Returns values by index; zeros if `values` is empty."""
    return values[places] if len(values) else np.zeros(len(places), np.int64)


# ------------------------------------------------------------------ files
@dataclass(frozen=True, slots=True)
class _Values:
    """Rows of a column, null where not `valid`; of the type `text`, the values are indices of `texts`."""

    kind: str  # as Arrow names it, or `text`, a dictionary
    values: NDArray[Any]
    valid: Mask | None = None
    texts: list[str] | None = None


_Columns = dict[str, _Values]


def _chosen_rows(columns: _Columns, rows: Mask) -> _Columns:
    if rows.all():
        return columns
    return {
        name: replace(
            column, values=column.values[rows], valid=None if column.valid is None else column.valid[rows]
        )
        for name, column in columns.items()
    }


class Table:
    """One Parquet file; buffers rows until they fill a row group. The first rows set its columns."""

    def __init__(self, arrow: Any, path: Path, group: int) -> None:
        self._arrow = arrow
        self._path = path
        self._group = group
        self._types: dict[str, Any] = {}
        self._waiting: list[_Columns] = []
        self._rows = 0
        self._open = ExitStack()

    def __enter__(self) -> Table:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is None:
            self._flush()
        self._open.__exit__(kind, error, trace)

    def _begin(self, columns: _Columns) -> None:
        arrow = self._arrow
        text = arrow.dictionary(arrow.int32(), arrow.string())
        self._types = {
            name: text if column.kind == "text" else getattr(arrow, column.kind)()
            for name, column in columns.items()
        }
        about = json.dumps({"program": "graphsearch", "version": __version__})
        schema = arrow.schema(self._types.items(), metadata={"graphsearch": about})
        file = self._open.enter_context(synced(self._path))
        parquet = arrow.parquet.ParquetWriter(file, schema, compression="zstd")
        self._writer = self._open.enter_context(parquet)

    def add(self, columns: _Columns) -> None:
        """Adds rows; writes a row group when enough are buffered."""
        if not self._types:
            self._begin(columns)
        self._waiting.append(columns)
        self._rows += len(next(iter(columns.values())).values)
        if self._rows >= self._group:
            self._flush()

    def _flush(self) -> None:
        if self._rows:
            arrays = [self._array(name, [columns[name] for columns in self._waiting]) for name in self._types]
            self._writer.write_table(
                self._arrow.table(arrays, schema=self._writer.schema), row_group_size=self._rows
            )
        self._waiting, self._rows = [], 0

    def _array(self, name: str, parts: list[_Values]) -> Any:
        arrow, kind = self._arrow, self._types[name]
        values = np.concatenate([part.values for part in parts])
        mask = None
        if parts[0].valid is not None:
            mask = ~np.concatenate([part.valid for part in parts if part.valid is not None])
        texts = parts[-1].texts
        if texts is None:
            plain = values if values.dtype == object else values.astype(kind.to_pandas_dtype(), copy=False)
            return arrow.array(plain, kind, mask=mask)
        used = np.zeros(len(texts), bool)
        used[values] = True
        numbers = (np.cumsum(used) - 1).astype(np.int32)[values]
        some = arrow.array([texts[i] for i in np.flatnonzero(used).tolist()], arrow.string())
        return arrow.DictionaryArray.from_arrays(arrow.array(numbers, mask=mask), some)
