"""Exports positions as JSON lines, and moves as CSV; the walk that all exports of text lines share.

schema/exports.md lists the fields. Values are seen by the side to move; N, P and Q follow exactly from
the fields: N = 1 + sum n, Q = clamp(bounds, (v + sum n q) / N).
"""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..base.errors import ExportError
from ..position.fens import fens, key_texts
from ..position.rules_kernel import MATE
from ..query.columns import draws_of
from ..query.steps import Ints, Mask, Words, positions_after, uci_names
from ..store.reading import Reader
from ..store.record.node import TERMINAL_MASK
from ..store.store import Store
from ..store.tables import games
from .choices import BookEntry, Moves, has_rows
from .output import ExportReport, Target, new_output, open_export, scratch_folder, target_name
from .selection import Selection, plan
from .walk import TERMINALS, UNKNOWN, OnProgress, Visits, Walk

LARGE = 10**9  # bytes of an output whose size is predicted
SAMPLE = 4000  # positions before the prediction: after 4,000 of 620,000 it was 3.8 GB, and 4.5 GB came

TERMINAL_TEXTS = ("", *TERMINALS.values())
NODE = (
    *("key", "fen", "ply", "depth", "n", "q", "node_draw", "v", "v_draw", "bounds", "upper", "terminal"),
    *("evaluator", "run"),
)
MOVE = ("move", "san", "n", "r", "p", "q", "draw", "cp", "mate", "child")
_IN_CSV = {"n": "node_n", "q": "node_q", "bounds": "lower"}  # names of NODE that moves have, too
JSON_NODE = (
    *("key", "fen", "ply", "depth", "n", "q", "wdl", "v", "v_draw", "bounds", "terminal"),
    *("evaluator", "run"),
)
COLUMNS = (*(_IN_CSV.get(name, name) for name in NODE), *MOVE)


@dataclass(frozen=True, slots=True)
class Part:
    """Some positions of a batch, and their moves.

    Attributes:
      rows: indices in `visits`. moves: the moves of these positions. of: index in `rows` of each move.
      begins: offset of each position's first move.
    """

    visits: Visits
    rows: Ints
    moves: Moves
    of: Ints
    begins: Ints

    @classmethod
    def of_visits(cls, visits: Visits, rows: Ints) -> Part:
        """Returns the part with the positions `rows`."""
        place = np.full(len(visits), -1, np.int64)
        place[rows] = np.arange(len(rows))
        moves = visits.moves.some(place[visits.moves.of] >= 0)
        of = place[moves.of]
        begins = np.concatenate([[0], np.cumsum(np.bincount(of, minlength=len(rows)))])
        return cls(visits, rows, moves, of, begins)

    @property
    def words(self) -> Words:
        """The positions, `[R, 10]`."""
        return np.asarray(self.visits.batch.words[self.rows])

    @property
    def fens(self) -> list[str]:
        """The positions' FENs."""
        return fens(self.words, self.visits.ply[self.rows].tolist())

    @property
    def known(self) -> Mask:
        """Whether the file has each of the positions."""
        return np.asarray(self.visits.known[self.rows])

    @property
    def entries(self) -> list[BookEntry]:
        """The book entries of the positions; empty without a book."""
        return [self.visits.entries[i] for i in self.rows.tolist()] if self.visits.entries else []


# (file, its reader, folder for temporary files) -> context manager of a function that formats a part as text
Texts = Callable[[Store, Reader, Path], AbstractContextManager[Callable[[Part], bytes]]]


@dataclass(frozen=True, slots=True)
class OutputSize:
    """The predicted size of a large output.

    Attributes:
      size: in bytes. least: the output may become larger, since it is unknown how many positions follow.
      free: bytes that were free for it before it began; None for a stream.
    """

    size: int
    least: bool
    free: int | None


OnLarge = Callable[[OutputSize], None]


class _SizeCheck:
    """Predicts the size of an output, once, if it is large or exceeds the free space."""

    def __init__(self, store: Store, selection: Selection, target: Target, told: OnLarge | None) -> None:
        everything = not selection.roots and selection.book is None and selection.depth is None
        whole = everything and selection.max_moves is None and selection.min_visits <= 1
        self._nodes = store.node_count if whole else 0
        named = isinstance(target, (str, os.PathLike))
        self._free = shutil.disk_usage(scratch_folder(target)).free if named else None
        self._told = told

    def look(self, written: int, visited: int, met: int) -> None:
        """Calls back if `written` bytes for `visited` of the `met` positions suggest a large output."""
        if self._told is None or visited < SAMPLE:
            return
        size = written * max(self._nodes, met) // visited
        if size >= LARGE or (self._free is not None and size > self._free):
            self._told(OutputSize(size, not self._nodes, self._free))
            self._told = None


def export_stream(
    path: str | Path,
    target: Target,
    selection: Selection | None,
    form: str,
    texts: Texts,
    *,
    head: bytes = b"",
    rest: bool = False,
    on_progress: OnProgress | None = None,
    on_large: OnLarge | None = None,
) -> ExportReport:
    """Writes the text of every position of a selection; returns a report.

    If the selection is for one side, only positions with that side to move are written.

    Args:
      head: bytes before the first position. rest: whether moves without visits may be written.
      on_large: called once if the output will have `LARGE` bytes or does not fit on the disk.

    Raises:
      InvalidParameterError: if there is no such book.
      ExportError: if there is nothing to write, or the output cannot be written.
      StoreError: if the graph file cannot be read.
    """
    report = ExportReport(form, target_name(target))
    folder, selection = scratch_folder(target), selection or Selection()
    with open_export(path, partial(new_output, target), report) as (store, out):
        chosen = plan(store, selection)
        with (
            Walk(store, chosen, folder, report, leaves=True, rest=rest, on_progress=on_progress) as walk,
            texts(store, walk.reader, folder) as text_of,
        ):
            written, check = len(head), _SizeCheck(store, selection, target, on_large)
            for visits in walk.visits():
                rows = np.flatnonzero(visits.own)
                report.left_out["other_side"] += len(visits) - len(rows)
                if not len(rows):
                    continue
                part = Part.of_visits(visits, rows)
                out.write(head if not report.positions else b"")
                text = text_of(part)
                out.write(text)
                written += len(text)
                report.positions += len(rows)
                report.moves += len(part.of)
                check.look(written, int(visits.ids[-1]), walk.met)
        if not report.positions:
            raise ExportError(f"{store.path}: nothing to export; it has no position of this selection")
    return report


# ------------------------------------------------------------------ JSON lines and CSV
def export_jsonl(
    path: str | Path,
    target: Target,
    selection: Selection | None = None,
    *,
    on_progress: OnProgress | None = None,
    on_large: OnLarge | None = None,
) -> ExportReport:
    """Writes one JSON object per position; arguments and errors as in `export_stream`."""

    def texts(store: Store, *_: object) -> AbstractContextManager[Callable[[Part], bytes]]:
        return nullcontext(partial(_json_lines, store=store, has_games=has_rows(store, "game_move")))

    more: Any = {"rest": True, "on_progress": on_progress, "on_large": on_large}
    return export_stream(path, target, selection, "jsonl", texts, **more)


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
    more: Any = {"rest": True, "on_progress": on_progress, "on_large": on_large}
    return export_stream(path, target, selection, "csv", lambda *_: nullcontext(_csv_rows), head=head, **more)


_to_json = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


def _json_lines(part: Part, *, store: Store, has_games: bool) -> bytes:
    nodes, rows = _nodes(part), list(zip(*_moves(part).values(), strict=True))
    moves = [dict(zip(MOVE, row, strict=True)) for row in rows]
    played = games.counts(store, nodes["key"]) if has_games else {}
    lines, begins = [], part.begins.tolist()
    for i, row in enumerate(zip(*nodes.values(), strict=True)):
        node = dict(zip(nodes, row, strict=True))
        chances = node.pop("win"), node.pop("node_draw"), node.pop("loss")
        node["wdl"] = None if node["n"] is None else chances
        node["bounds"] = None if node["n"] is None else (node["bounds"], node.pop("upper"))
        line = {name: node[name] for name in JSON_NODE} | {"moves": moves[begins[i] : begins[i + 1]]}
        if has_games:
            line["games"] = [asdict(game) for game in played.get(node["key"], [])]
        if part.entries:
            line["book"] = _book(part.entries[i])
        lines.append(f"{_to_json(line)}\n")
    return "".join(lines).encode()


def _book(entry: BookEntry) -> dict[str, Any]:
    names = ("move", "value", "rule", "loss")
    return dict(entry.position) | {
        "moves": [{name: getattr(move, name) for name in names} for move in entry.moves]
    }


def _csv_rows(part: Part) -> bytes:
    columns, begins = _nodes(part), part.begins.tolist()
    nodes = _csv_lines(zip(*(columns[name] for name in NODE), strict=True))
    moves, nothing = _csv_lines(zip(*_moves(part).values(), strict=True)), "," * (len(MOVE) - 1)
    lines = [
        f"{node},{move}\r\n"
        for node, begin, end in zip(nodes, begins[:-1], begins[1:], strict=True)
        for move in moves[begin:end] or [nothing]
    ]
    return "".join(lines).encode()


def _csv_lines(rows: Iterable[Sequence[Any]]) -> list[str]:
    out = io.StringIO()
    csv.writer(out).writerows(rows)
    return out.getvalue().split("\r\n")[:-1]


def _nodes(part: Part) -> dict[str, list[Any]]:
    """Returns the columns of positions, None for unknown values."""
    visits, rows, known = part.visits, part.rows, part.known
    worth = visits.worth()
    q, batch = worth.q[rows], visits.batch
    draw = np.minimum(np.maximum(worth.draw[rows], 0.0), 1.0 - np.abs(q))
    win, loss = ((1.0 - draw + sign * q) / 2 for sign in (1.0, -1.0))
    terminal, run = batch.flags[rows] & TERMINAL_MASK, batch.run[rows]
    return {
        "key": key_texts(part.words),
        "fen": part.fens,
        "ply": visits.ply[rows].tolist(),
        "depth": visits.depth[rows].tolist(),
        "n": _where(visits.n[rows], known),
        "q": _where(q, known),
        "win": _where(np.where(win > 0.0, win, 0.0), known),
        "node_draw": _where(draw, known),
        "loss": _where(np.where(loss > 0.0, loss, 0.0), known),
        "v": _where(batch.v[rows], known),
        "v_draw": _where(draws_of(batch)[rows], known),
        "bounds": _where(worth.lower[rows], known),
        "upper": _where(worth.upper[rows], known),
        "terminal": [TERMINAL_TEXTS[kind] or None for kind in terminal.tolist()],
        "evaluator": _where(batch.evaluator[rows], known),
        "run": _where(run, run > 0),
    }


def _moves(part: Part) -> dict[str, list[Any]]:
    """Returns the columns of moves, in the order of MOVE, None for unknown values."""
    visits, moves = part.visits, part.moves
    words = visits.batch.words
    sans, marks = visits.names(moves)
    worth, p, uci = visits.move_worth(moves), visits.priors(moves), uci_names()
    visited, mates = worth.n > 0, marks & MATE > 0
    return {
        "move": [uci[code] for code in moves.code.tolist()],
        "san": sans.astype(str).tolist(),
        "n": worth.n.tolist(),
        "r": moves.by_edge(visits.edges.r).tolist(),
        "p": _where(p, ~np.isnan(p)),
        "q": _where(worth.q, visited),
        "draw": _where(worth.draw, visited),
        "cp": _where(worth.cp, worth.cp != UNKNOWN),
        "mate": _where(np.where(mates, 1, worth.mates), mates | (worth.mates != 0)),
        "child": key_texts(positions_after(words, moves.of, moves.code)[0]),
    }


def _where(values: NDArray[Any], valid: Mask) -> list[Any]:
    """Returns values as a list, with None for those that are not valid."""
    found = values.tolist()
    return (
        found
        if valid.all()
        else [v if is_valid else None for v, is_valid in zip(found, valid.tolist(), strict=True)]
    )
