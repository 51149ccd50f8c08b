"""A Polyglot book of what a file knows: entries by key, weights by a stated policy, in 16 bits.

The policies, for the moves of one position:

    n         edge N
    q         2 ** (-loss / 25), loss in centipawns (`centipawn`, of Q alone) against the best move
    minimax   the same of the minimax of the stored values over what is exported; with a book, of its values
    games     2 wins + draws of the side that plays the move, over the imported games, as Polyglot makes
              books, and one point for a game without a result
    imported  the weights of imported entries

With games and nothing selected, the games are followed from where they begin, whatever was searched.
n, games and imported stand as they are if the largest fits 16 bits, else all of a position are scaled to it;
q and minimax give the best move 65,535. A weight that rounds to 0 leaves the book, the best never does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from ..base.errors import ExportError, InvalidParameterError
from ..position.words import CHESS960, KEY, KINGS, META
from ..query.steps import CASTLING_STEP
from ..store.store import Store
from ..store.tables.players import game_starts
from .centipawns import cps_from_q
from .choices import Moves, PolyglotRow, Weights, all_entries, has_rows
from .columns import Floats
from .output import ExportReport, new_output, open_export, scratch_folder
from .polyglot import ENTRIES, ENTRY, MAX_WEIGHT, fitted
from .pool import Ints, Words
from .selection import Selection, plan
from .tree import Tree
from .walk import OnProgress, Visits, Walk

WEIGHTS: tuple[Weights, ...] = ("n", "q", "minimax", "games", "imported")
BY_VALUE = ("q", "minimax")
HALVING_CP = 25.0  # a move that loses so many centipawns has half the weight
AT_ONCE = 1 << 18  # positions that are sorted together
_IMPORTED = {
    "games": ("game_move", "no imported games; `graphsearch import` brings some"),
    "imported": ("polyglot_entry", "no imported entries; `graphsearch import BOOK.bin` brings some"),
}


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
    report = ExportReport("polyglot", str(target))
    with open_export(path, partial(new_output, target), report) as (store, out):
        _check_imported(store, weights)
        if weights == "imported" and _is_unlimited(chosen):
            _write_imported(store, chosen, out, report)
        else:
            _write_walked(store, chosen, weights, scratch_folder(target), out, report, on_progress)
        if not report.moves:
            raise ExportError(f"{store.path}: nothing to export{_why(report)}")
    return report


def _check_imported(store: Store, weights: Weights) -> None:
    if weights in _IMPORTED:
        table, what = _IMPORTED[weights]
        if not has_rows(store, table):
            raise ExportError(f"{store.path} has {what}")


def _why(report: ExportReport) -> str:
    lines = report.left_out_lines()
    return f"; {', '.join(lines)}" if lines else ""


def _is_unlimited(selection: Selection) -> bool:
    """Returns whether nothing but a side is selected, so that entries go out without a walk."""
    free = (selection.depth, selection.max_moves) == (None, None) and selection.min_visits == 0
    return free and not selection.roots and selection.book is None


# ------------------------------------------------------------------ of the walk
def _write_walked(
    store: Store,
    selection: Selection,
    weights: Weights,
    folder: Path,
    out: BinaryIO,
    report: ExportReport,
    on_progress: OnProgress | None,
) -> None:
    """Writes what a walk finds; `folder`: where the temporary files go."""
    chosen = plan(store, selection, game_starts(store) if weights == "games" else ())
    with (
        Walk(store, chosen, folder, report, leaves=False, weights=weights, on_progress=on_progress) as walk,
        GraphBook(folder) as book,
    ):
        for visits in walk.visits():
            book.visit(visits)
        if weights == "minimax" and chosen.book is None:
            book.spread_minimax(walk.depths)
        book.write(out, weights, report)


class GraphBook(Tree):
    """The positions and moves of a walk, and the book that is written of them.

    Positions have their Polyglot key and value; moves edge N, their value, NaN if none is known, the weight
    and learn field of tables, and the move as a book has it.
    """

    def __init__(self, folder: Path) -> None:
        """Takes where its temporary files go."""
        super().__init__(
            folder,
            {"key": np.uint64, "value": np.float64},
            {
                "n": np.uint32,
                "value": np.float64,
                "raw": np.uint16,
                "weight": np.int64,
                "learn": np.uint32,
            },
        )

    def visit(self, visits: Visits) -> None:
        """Keeps what a batch of a walk has found."""
        moves, in_tables = visits.moves, visits.moves.in_tables
        nothing = np.zeros(len(moves.of), np.int64)
        self.add(
            visits,
            {"key": visits.batch.words[:, KEY], "value": visits.worth().q},
            {
                "n": moves.by_edge(visits.batch.n),
                "value": in_tables.value if in_tables else moves.by_edge(visits.edge_worth().q),
                "raw": _raw_moves(visits.batch.words, moves),
                "weight": in_tables.weight if in_tables else nothing,
                "learn": in_tables.learn if in_tables else nothing,
            },
        )

    def spread_minimax(self, depths: NDArray[np.int32]) -> None:
        """Replaces the value of every move by the minimax of the values below it, deepest positions first.

        A position without moves keeps its own value, and so does a move to a position that is no deeper than
        its own: that cuts the cycles.

        Args:
          depths: of all positions that were met, by id - 1; they never go down.
        """
        depths = depths[: len(self.positions)]
        for depth in range(int(depths[-1]) if len(depths) else -1, -1, -1):
            begin, end = (int(np.searchsorted(depths, depth, side)) for side in ("left", "right"))
            for first in range(begin, end, AT_ONCE):
                self._spread(first, min(first + AT_ONCE, end), depths)

    def _spread(self, first: int, last: int, depths: NDArray[np.int32]) -> None:
        """Gives positions of one depth, and their moves, what those behind them are worth."""
        counts = self.positions["size"][first:last]
        filled = first + np.flatnonzero(counts)
        if not len(filled):
            return
        begins = self.positions["first"][filled]
        moves = slice(int(begins[0]), int(begins[0] + counts.sum()))
        child = np.maximum(self.moves["child"][moves] - 1, 0)
        known = (self.moves["child"][moves] > 0) & (depths[child] > depths[first])
        known &= self.positions["visited"][child] > 0
        values = self.moves["value"][moves]
        values[known] = -self.positions["value"][child[known]]
        self.positions["value"][filled] = np.maximum.reduceat(values, begins - begins[0])

    # -------------------------------------------------------------- writing
    def write(self, out: BinaryIO, weights: Weights, report: ExportReport) -> None:
        """Writes the entries, in the order of their keys."""
        has_moves = self.positions["size"] > 0
        report.left_out["other_side"] += int((has_moves & (self.positions["own"] == 0)).sum())
        for rows in self._in_order():
            if len(rows):
                out.write(self._entries(rows, weights, report).tobytes())

    def _in_order(self) -> Iterator[Ints]:
        """Yields positions whose moves are written, in the order of their keys, part by part."""
        bits = max(0, (len(self.positions) // AT_ONCE).bit_length())
        for part in range(1 << bits):
            wanted = (self.positions["size"] > 0) & (self.positions["own"] > 0)
            if bits:
                wanted &= self.positions["key"] >> np.uint64(64 - bits) == part
            rows = np.flatnonzero(wanted)
            yield rows[np.argsort(self.positions["key"][rows], kind="stable")]

    def _entries(self, rows: Ints, weights: Weights, report: ExportReport) -> NDArray[np.void]:
        """Returns the entries of positions, those of each the heaviest first."""
        rows = self._without_clashes(rows, report)
        counts = self.positions["size"][rows].astype(np.int64)
        begins = np.cumsum(counts) - counts
        of = np.repeat(np.arange(len(rows)), counts)
        moves = self.positions["first"][rows][of] + np.arange(len(of)) - begins[of]
        numbers = self._numbers(moves, begins, of, weights)
        fill = weights in BY_VALUE
        largest = np.maximum.reduceat(numbers, begins)
        too_large = largest > MAX_WEIGHT
        scaled = fitted(numbers, largest[of], fill=fill)
        kept = np.flatnonzero(scaled)
        kept = kept[np.lexsort((-scaled[kept], of[kept]))]
        nothing = int((numbers == 0).sum()) if weights in _IMPORTED else 0
        report.scaled += 0 if fill else int(counts[too_large].sum())
        report.left_out["moves_scored_nothing"] += nothing
        report.left_out["moves_scaled_away"] += len(moves) - len(kept) - nothing
        report.positions += len(np.unique(of[kept]))
        report.moves += len(kept)
        entries = np.zeros(len(kept), ENTRIES)
        entries["key"] = self.positions["key"][rows][of[kept]]
        entries["move"], entries["weight"] = self.moves["raw"][moves[kept]], scaled[kept]
        entries["learn"] = self.moves["learn"][moves[kept]]
        return entries

    def _without_clashes(self, rows: Ints, report: ExportReport) -> Ints:
        """Returns one position for each key: the most visited, then the first."""
        keys = self.positions["key"][rows]
        again = np.concatenate([np.zeros(min(1, len(rows)), bool), keys[1:] == keys[:-1]])
        if not again.any():
            return rows
        report.left_out["clashes"] += int(again.sum())
        heft = np.zeros(len(rows), np.int64)
        for i in np.flatnonzero(again | np.append(again[1:], False)).tolist():
            first = int(self.positions["first"][rows[i]])
            moves = slice(first, first + int(self.positions["size"][rows[i]]))
            heft[i] = self.moves["n"][moves].sum(dtype=np.int64) + self.moves["weight"][moves].sum()
        rows, keys = (values[np.lexsort((rows, -heft, keys))] for values in (rows, keys))
        return np.asarray(rows[np.append(True, keys[1:] != keys[:-1])])

    def _numbers(self, moves: Ints, begins: Ints, of: Ints, weights: Weights) -> Floats:
        """Returns the weight of each move as the policy has it, before it is scaled."""
        if weights not in BY_VALUE:
            return self.moves["n" if weights == "n" else "weight"][moves].astype(np.float64)
        values = self.moves["value"][moves]
        known = ~np.isnan(values)
        scores = np.where(known, cps_from_q(np.where(known, values, -1.0)), -(1 << 40))
        losses, which = np.unique(np.maximum.reduceat(scores, begins)[of] - scores, return_inverse=True)
        found = np.array([weight_of_loss(loss) for loss in losses.tolist()], np.float64)[which]
        return np.where(known, found, 0.0)


def _raw_moves(words: Words, moves: Moves) -> NDArray[np.int64]:
    """Returns moves as a book writes them; castling is the king taking his own rook."""
    origin, target = moves.code.astype(np.int64) & 63, moves.code.astype(np.int64) >> 6 & 63
    king = words[moves.of, KINGS] >> origin.astype(np.uint64) & np.uint64(1) > 0
    standard = words[moves.of, META] & np.uint64(CHESS960) == 0
    castles = king & standard & (np.abs((origin & 7) - (target & 7)) == CASTLING_STEP)
    rook = (origin & ~7) + np.where(target > origin, 7, 0)
    raw: NDArray[np.int64] = np.where(castles, rook, target) | origin << 6 | moves.code & (7 << 12)
    return raw


def weight_of_loss(cp: int) -> float:
    """Returns the weight of a move that loses so many centipawns, in (0, 1].

    >>> weight_of_loss(0), weight_of_loss(25)
    (1.0, 0.5)
    """
    return float(2.0 ** max(-cp / HALVING_CP, -1000.0))


# ------------------------------------------------------------------ of imported entries


@dataclass(frozen=True, slots=True)
class _Line:
    """An imported entry before it is written."""

    raw: int
    weight: float
    learn: int = 0


def _write_imported(store: Store, selection: Selection, out: BinaryIO, report: ExportReport) -> None:
    """Writes all imported entries of a side; those of one book in its order, so it comes out as it was."""
    for key, rows in groupby(all_entries(store), key=lambda entry: entry.key):
        kept = [row for row in rows if _is_wanted(row, selection, report)]
        if kept:
            _write_entries(out, int(key, 16), kept, report)


def _is_wanted(row: PolyglotRow, selection: Selection, report: ExportReport) -> bool:
    if selection.side in (None, "both"):
        return True
    if row.turn is None:
        report.left_out["unknown_entries"] += 1
        return False
    return row.turn == (selection.side == "white")


def _write_entries(out: BinaryIO, key: int, rows: Sequence[PolyglotRow], report: ExportReport) -> None:
    """Writes the entries of one key; those of several books for one move become one, their weights added."""
    one_book = len({row.source for row in rows}) == 1
    lines = [_Line(row.raw_move, row.weight, row.learn) for row in rows]
    if not one_book:
        merged = list(_merged(lines))
        report.merged += len(lines) - len(merged)
        lines = sorted(merged, key=lambda line: -line.weight)
    weights = np.array([line.weight for line in lines], np.float64)
    largest = np.full(len(lines), weights.max())
    report.scaled += len(lines) if largest[0] > MAX_WEIGHT else 0
    for number, line in zip(fitted(weights, largest).tolist(), lines, strict=True):
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
