"""Exports positions and moves as JSON lines, CSV and Parquet; the export that all texts of lines share.

schema/exports.md lists the fields. Values are seen by the side to move; N, P and Q follow exactly from
the fields: N = 1 + sum n, Q = clamp(bounds, (v + sum n q) / N).
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from functools import partial
from itertools import compress
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..base.answer import picked
from ..base.errors import ExportError, MissingPackageError
from ..base.version import __version__
from ..position.board import BLACK_TO_MOVE, CHECKMATE, META, clocks_of, key_texts
from ..position.board_kernel import MATE
from ..query.columns import chances_of, draws_beside, draws_of
from ..query.steps import SAN_BYTES, Ints, Mask, castling_of, names_of, uci_names
from ..store.record import TERMINAL_MASK, TERMINALS, keys_of
from ..store.record_kernel import MAX_EVALUATOR
from ..store.store import Store
from ..store.tables import games
from .output import synced
from .selection import Export, Selection
from .walk import UNKNOWN, BookEntry, Positions, Walk

TERMINAL_TEXTS = ("", *TERMINALS.values())


class Column(NamedTuple):
    """Rows of a column, if `valid`; `texts`: what values index; `kind`: Arrow's name, or `text`."""

    values: NDArray[Any]
    valid: Mask | None = None
    kind: str = "text"
    texts: Sequence[str] | None = None

    def rows(self) -> list[Any]:
        """Returns the values, None where one is unknown."""
        found: list[Any] = self.values.tolist()
        if self.texts is not None:
            found = [self.texts[i] for i in found]
        if self.valid is None or self.valid.all():
            return found
        return [v if is_valid else None for v, is_valid in zip(found, self.valid.tolist(), strict=True)]

    def some(self, rows: Mask | Ints) -> Column:
        """Returns some of the rows."""
        valid = None if self.valid is None else self.valid[rows]
        return self._replace(values=self.values[rows], valid=valid)


Columns = dict[str, Column]


def _indexed(texts: NDArray[np.bytes_]) -> Column:
    """Returns a column of texts of which many are equal."""
    different, which = np.unique(texts, return_inverse=True)
    return Column(which, texts=different.astype(str).tolist())


def nodes_of(found: Positions) -> Columns:
    """Returns the columns of positions that all formats of rows have."""
    batch, known, worth = found.batch, found.known, found.worth
    win, draw, loss = chances_of(worth)
    terminal = batch.flags & TERMINAL_MASK
    nothing = Column(np.zeros(len(found), np.int32), np.zeros(len(found), bool), "int32")
    return {
        "key": Column(np.array(key_texts(found.words), object), None, "string"),
        "fen": Column(np.array(found.fens, object), None, "string"),
        "ply": nothing if found.ply is None else Column(found.ply, None, "int32"),
        "depth": nothing if found.depth is None else Column(found.depth, None, "int32"),
        "n": Column(found.n, known, "int64"),
        "q": Column(worth.q, known, "float32"),
        "win": Column(win, known, "float32"),
        "draw": Column(draw, known, "float32"),
        "loss": Column(loss, known, "float32"),
        "v": Column(batch.v, known, "float32"),
        "v_draw": Column(draws_of(batch), known, "float32"),
        "lower": Column(worth.lower, known, "int8"),
        "upper": Column(worth.upper, known, "int8"),
        "terminal": Column(terminal, terminal > 0, "text", TERMINAL_TEXTS),
        "evaluator": Column(batch.evaluator, known, "uint8"),
        "run": Column(batch.run, batch.run > 0, "uint32"),
    }


def moves_of(found: Positions) -> Columns:
    """Returns the columns of moves that all formats of rows have."""
    moves, worth, p = found.moves, found.move_worth, found.priors
    sans, marks = found.names
    visited, mates = worth.n > 0, marks & MATE > 0
    return {
        "move": Column(moves.code, texts=uci_names()),
        "san": _indexed(sans),
        "n": Column(worth.n, None, "uint32"),
        "r": Column(moves.by_edge(found.edges.r), None, "uint32"),
        "p": Column(p, ~np.isnan(p), "float32"),
        "q": Column(worth.q, visited, "float32"),
        "draw": Column(draws_beside(worth.q, worth.draw), visited, "float32"),
        "mate": Column(np.where(mates, 1, worth.mates), mates | (worth.mates != 0), "int16"),
    }


# ------------------------------------------------------------------ texts
def write_texts(
    export: Export, out: BinaryIO, walk: Walk, texts: Callable[[Positions], list[str]], *, head: str = ""
) -> None:
    """Writes a text for every position of a selection, of one side only those with that side to move.

    Raises:
      ExportError: if there is nothing to write.
    """
    for found, _ in walk.visits():
        if _count(export, found):
            out.write((head + "".join(compress(texts(found), found.own.tolist()))).encode())
            head = ""
    _check_some(export)


def _check_some(export: Export) -> None:
    if not export.report.positions:
        raise ExportError(f"{export.store.path}: nothing to export; it has no position of this selection")


def _count(export: Export, found: Positions) -> int:
    """Returns the number of positions of the exported side; adds them and their moves to the report."""
    own = int(found.own.sum())
    export.leave_out("other_side", len(found) - own)
    export.report.positions += own
    export.report.moves += int(found.own[found.moves.of].sum())
    return own


# ------------------------------------------------------------------ JSON lines and CSV
NODE = (
    *("key", "fen", "ply", "depth", "n", "q", "draw", "v", "v_draw", "lower", "upper", "terminal"),
    *("evaluator", "run"),
)
JSON = (
    *("key", "fen", "ply", "depth", "n", "q", "wdl", "v", "v_draw", "bounds", "terminal", "evaluator", "run"),
    *("moves", "games", "book"),
)
MOVE = ("move", "san", "n", "r", "p", "q", "draw", "cp", "mate", "child")
COLUMNS = (*(f"node_{name}" if name in MOVE else name for name in NODE), *MOVE)


def write_jsonl(export: Export, out: BinaryIO) -> None:
    """Writes one JSON object per position."""
    with export.store.reading() as connection:
        has_games = connection.execute("SELECT 1 FROM game_move LIMIT 1").fetchone() is not None
    texts = partial(_json_lines, store=export.store, has_games=has_games)
    write_texts(export, out, Walk(export, leaves=True), texts)


def write_csv(export: Export, out: BinaryIO) -> None:
    """Writes CSV (RFC 4180): a row per move, or one per position without moves."""
    write_texts(export, out, Walk(export, leaves=True), _csv_rows, head=",".join(COLUMNS) + "\r\n")


def _moves_of_text(found: Positions) -> Columns:
    columns, cp = moves_of(found), found.move_worth.cp
    children = np.array(key_texts(found.children[0]), object)
    more = {"cp": Column(cp, cp != UNKNOWN), "child": Column(children)}
    return {name: (columns | more)[name] for name in MOVE}


def _by_position(found: Positions, rows: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """Yields the rows of the moves of each position."""
    ends = np.cumsum(np.bincount(found.moves.of, minlength=len(found))).tolist()
    return (rows[begin:end] for begin, end in zip([0, *ends], ends, strict=False))


_to_json = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


def _json_lines(found: Positions, *, store: Store, has_games: bool) -> list[str]:
    nodes = {name: column.rows() for name, column in nodes_of(found).items()}
    columns = (column.rows() for column in _moves_of_text(found).values())
    moves = [dict(zip(MOVE, row, strict=True)) for row in zip(*columns, strict=True)]
    for name, parts in (("wdl", ("win", "draw", "loss")), ("bounds", ("lower", "upper"))):
        some = zip(*(nodes[part] for part in parts), strict=True)
        nodes[name] = [None if row[0] is None else row for row in some]
    nodes["moves"] = list(_by_position(found, moves))
    if has_games:
        played = games.counts(store, nodes["key"])
        nodes["games"] = [
            [{"move": one.move, "san": one.san} | asdict(one.results) for one in played.get(key, [])]
            for key in nodes["key"]
        ]
    if found.entries:
        nodes["book"] = list(map(_book, found.entries))
    names = [name for name in JSON if name in nodes]
    rows = zip(*(nodes[name] for name in names), strict=True)
    return [f"{_to_json(dict(zip(names, row, strict=True)))}\n" for row in rows]


def _book(entry: BookEntry) -> dict[str, Any]:
    return {**entry.position, "moves": [picked(move, "move value rule loss") for move in entry.moves]}


def _csv_rows(found: Positions) -> list[str]:
    columns = nodes_of(found)
    nodes = _csv_lines(columns[name] for name in NODE)
    moves, nothing = _csv_lines(_moves_of_text(found).values()), ["," * (len(MOVE) - 1)]
    rows = zip(nodes, _by_position(found, moves), strict=True)
    return [f"{node}," + f"\r\n{node},".join(own or nothing) + "\r\n" for node, own in rows]


def _csv_lines(columns: Iterable[Column]) -> list[str]:
    """Returns rows of CSV, without line ends; no text of ours needs quotes."""
    return list(map(",".join, zip(*map(_csv_texts, columns), strict=True)))


def _csv_texts(column: Column) -> list[str]:
    """Returns the texts of a column's rows; an equal number is written once, as that is slow."""
    values = column.values
    if column.texts is not None or values.dtype == object:
        texts = column.rows()
    else:
        bits, which = np.unique(values.view(f"i{values.itemsize}"), return_inverse=True)  # -0.0 is not 0.0
        texts = np.array(list(map(repr, bits.view(values.dtype).tolist())), object)[which].tolist()
    if column.valid is None or column.valid.all():
        return texts
    return [text if is_valid else "" for text, is_valid in zip(texts, column.valid.tolist(), strict=True)]


# ------------------------------------------------------------------ Parquet
INSTALL = "pip install '.[parquet]' in the folder of graphsearch"
NODES, EDGES = "nodes.parquet", "edges.parquet"
NODES_PER_GROUP, EDGES_PER_GROUP = 1 << 17, 1 << 19  # rows; some 20 MB while buffered


def write_parquet(export: Export, folder: Path) -> None:
    """Writes `nodes.parquet` and `edges.parquet`.

    If the selection limits visits at most, every record of the file is scanned, reachable from a root or not;
    otherwise the walk goes over the selection.
    """
    try:
        importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        raise MissingPackageError(f"Parquet needs the package pyarrow ({error}): {INSTALL}") from None
    names = {0: "rules"} | {number: one.describe() for number, one in export.store.evaluators().items()}
    evaluators = [names.get(i, f"evaluator {i}") for i in range(MAX_EVALUATOR + 1)]
    chosen, walk = export.selection, Walk(export, leaves=True)
    is_whole = chosen == Selection(min_visits=chosen.min_visits, all_moves=chosen.all_moves)
    with Table(folder / NODES, NODES_PER_GROUP) as nodes, Table(folder / EDGES, EDGES_PER_GROUP) as edges:
        for found in walk.scan() if is_whole else (found for found, _ in walk.visits()):
            if _count(export, found):
                nodes.add(_nodes_of_table(found, evaluators), found.own)
                edges.add(_moves_of_table(found), found.own[found.moves.of])
        nodes.flush()
        edges.flush()
    _check_some(export)


def is_tables(folder: Path) -> bool:
    """Returns whether a folder has no files but those of `write_parquet`."""
    return {entry.name for entry in folder.iterdir()} <= {NODES, EDGES}


def _nodes_of_table(found: Positions, evaluators: Sequence[str]) -> Columns:
    columns, batch, plies = nodes_of(found), found.batch, found.proofs.mates
    held, turns = np.diff(batch.code_offsets), batch.words[:, META].astype(np.int64) & BLACK_TO_MOVE
    mated = batch.flags & TERMINAL_MASK == CHECKMATE
    some = np.flatnonzero(found.known & (held > 0))
    best = np.where(found.ranked.best < 0, found.ranked.by_prior[:, 0], found.ranked.best)
    codes, has_best = np.zeros(len(batch), np.uint16), np.zeros(len(batch), bool)
    codes[some], has_best[some] = found.legal[1][some, best[some]], True
    sans = np.zeros(len(batch), f"S{SAN_BYTES}")
    sans[some] = names_of(found.words, some, codes[some], found.legal)[0]
    before = {name: columns.pop(name) for name in ("key", "fen")}
    after = {name: columns.pop(name) for name in ("terminal", "evaluator", "run")}
    return {
        "key": Column(keys_of(batch.words), None, "uint64"),
        "rooks": Column(castling_of(batch.words), None, "uint16"),
        "key_hex": before["key"],
        "fen": before["fen"],
        "turn": Column(turns, texts=["w", "b"]),
        "clock": Column(clocks_of(batch.words), None, "uint8"),
        **columns,
        "mate": Column(np.where(plies > 0, (plies + 1) // 2, -(-plies // 2)), (plies != 0) | mated, "int16"),
        "terminal": after["terminal"],
        "moves": Column(held, None, "uint8"),
        "best_move": Column(codes, has_best, texts=uci_names()),
        "best_san": _indexed(sans)._replace(valid=has_best),
        "evaluator": after["evaluator"],
        "evaluator_name": Column(batch.evaluator, found.known, texts=evaluators),
        "run": after["run"],
    }


def _moves_of_table(found: Positions) -> Columns:
    """Returns the columns of moves, in canonical order."""
    moves, words, worth = found.moves, found.words, found.edge_worth
    columns = moves_of(found)
    children, keys = found.children
    ranks = found.ranked.of_moves(found.batch)
    known = found.known[moves.of] & (np.diff(found.batch.code_offsets)[moves.of] > 0)
    at = np.where(known, found.batch.code_offsets[moves.of] + moves.index, 0)
    table = {
        "key": Column(keys_of(words)[moves.of], None, "uint64"),
        "rooks": Column(castling_of(words)[moves.of], None, "uint16"),
        "move": columns["move"],
        "san": columns["san"],
        "rank": Column(ranks[at] if len(ranks) else at, known, "uint8"),
        "child": Column(keys, None, "uint64"),
        "child_rooks": Column(castling_of(children), None, "uint16"),
        **{name: columns[name] for name in ("n", "r", "p", "q", "draw")},
        "lower": Column(np.append(worth.lower, np.int8(-1))[moves.edge], None, "int8"),
        "upper": Column(np.append(worth.upper, np.int8(1))[moves.edge], None, "int8"),
        "mate": columns["mate"],
    }
    order = np.lexsort((moves.index, moves.of))
    return {name: column.some(order) for name, column in table.items()}


class Table(ExitStack):
    """One Parquet file; buffers rows until they fill a row group. The first rows set its columns."""

    def __init__(self, path: Path, group: int) -> None:
        super().__init__()
        self._arrow = importlib.import_module("pyarrow")
        self._path, self._group = path, group
        self._waiting: list[Any] = []  # tables
        self._rows = 0
        self._writer: Any = None

    def add(self, columns: Columns, rows: Mask) -> None:
        """Adds the rows of a mask; writes a row group when enough are buffered."""
        arrow = self._arrow
        arrays = {name: self._array(column.some(rows)) for name, column in columns.items()}
        about = json.dumps({"program": "graphsearch", "version": __version__})
        self._waiting.append(arrow.table(arrays).replace_schema_metadata({"graphsearch": about}))
        self._rows += int(rows.sum())
        if self._rows >= self._group:
            self.flush()

    def flush(self) -> None:
        """Writes the rows that are still buffered."""
        if self._rows:
            table = self._arrow.concat_tables(self._waiting).unify_dictionaries().combine_chunks()
            if self._writer is None:
                file = self.enter_context(synced(self._path))
                parquet = self._arrow.parquet.ParquetWriter(file, table.schema, compression="zstd")
                self._writer = self.enter_context(parquet)
            self._writer.write_table(table, row_group_size=self._rows)
        self._waiting, self._rows = [], 0

    def _array(self, column: Column) -> Any:
        arrow, values = self._arrow, column.values
        mask = None if column.valid is None else ~column.valid
        if column.texts is None:
            kind = getattr(arrow, column.kind)()
            plain = values if values.dtype == object else values.astype(kind.to_pandas_dtype(), copy=False)
            return arrow.array(plain, kind, mask=mask)
        used, numbers = np.unique(values, return_inverse=True)
        some = arrow.array([column.texts[i] for i in used.tolist()], arrow.string())
        return arrow.DictionaryArray.from_arrays(arrow.array(numbers.astype(np.int32), mask=mask), some)
