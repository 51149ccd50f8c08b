"""Exports a file as a Polyglot book: entries sorted by key, with 16-bit weights from one of five policies.

The policies, for the moves of one position:

    n         edge N
    q         2 ** (-loss / 25), loss in centipawns against the best move
    minimax   as q, with the minimax of the stored values over the exported positions; with a book, its values
    games     2 wins + draws of the side to move, over the imported games, as Polyglot makes books, and one
              point for a game without a result
    imported  the weights of imported entries

With `games` and an empty selection, the export follows the games from their start positions, whatever was
searched. n, games and imported stay unchanged if the largest weight of a position fits 16 bits, else all its
weights are scaled; q and minimax give the best move 65,535. Moves with a weight that rounds to 0 are omitted,
but never the best one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import BinaryIO

import chess
import chess.polyglot
import numpy as np
from numpy.typing import NDArray

from ..base.errors import ExportError, InvalidParameterError
from ..position.board import fen_of
from ..position.values import cp_of, negate
from ..position.words import CHESS960, KEY, KINGS, META
from ..query.columns import cps_of
from ..query.steps import CASTLING_STEP, Floats, Ints, Words
from ..store.tables.players import game_starts
from .choices import Moves, PolyglotRow, Weights, all_entries, has_rows
from .output import ExportReport, new_output, open_export, scratch_folder
from .polyglot import ENTRIES, ENTRY, MAX_WEIGHT, fitted, raw_move
from .selection import ExportPlan, Selection, plan, without_clocks
from .walk import OnProgress, Positions, Steps, Tree, Walk

WEIGHTS: tuple[Weights, ...] = ("n", "q", "minimax", "games", "imported")
BY_VALUE = ("q", "minimax")
HALVING_CP = 25.0  # loss in centipawns that halves the weight
AT_ONCE = 1 << 18  # positions per batch of sorting
_IMPORTED = {
    "games": ("game_move", "no imported games; `graphsearch import` brings some"),
    "imported": ("polyglot_entry", "no imported entries; `graphsearch import BOOK.bin` brings some"),
}


def export_polyglot(
    path: str | Path,
    target: str | Path,
    selection: Selection | None = None,
    *,
    weights: Weights | None = None,
    on_progress: OnProgress | None = None,
) -> ExportReport:
    """Writes a Polyglot book of a graph file; returns a report.

    Args:
      path: the graph file, opened read-only; a search may write it meanwhile.
      target: the book, replaced atomically.
      selection: what to export; for one side, only positions with that side to move.
      weights: the policy; None: q with a book, else n. With `imported` and an empty selection, all entries
        are written unchanged, also those of unknown positions.
      on_progress: called with positions visited and met.

    Raises:
      InvalidParameterError: if there is no such policy or book.
      ExportError: if there is nothing to write, or the output cannot be written.
      StoreError: if the graph file cannot be read.
    """
    chosen = selection or Selection()
    if weights is None:
        weights = "n" if chosen.book is None else "q"
    if weights not in WEIGHTS:
        raise InvalidParameterError(
            f"weights must be {', '.join(WEIGHTS[:-1])} or {WEIGHTS[-1]}, not {weights!r}"
        )
    report = ExportReport("polyglot", str(target))
    with open_export(path, partial(new_output, target), report) as (store, out):
        if weights in _IMPORTED and not has_rows(store, _IMPORTED[weights][0]):
            raise ExportError(f"{store.path} has {_IMPORTED[weights][1]}")
        if weights == "imported" and replace(chosen, side=None) == Selection():  # entries need no walk
            # in the order of a single book, so that its bytes stay the same
            for key, rows in groupby(all_entries(store), key=lambda entry: entry.key):
                kept = [row for row in rows if _is_wanted(row, chosen, report)]
                if kept:
                    _write_entries(out, int(key, 16), kept, report)
        else:
            folder = scratch_folder(target)
            wanted = plan(store, chosen, game_starts(store) if weights == "games" else ())
            walk = Walk(store, wanted, folder, report, leaves=False, weights=weights, on_progress=on_progress)
            with walk, GraphBook(folder) as book:
                for found, steps in walk.visits():
                    book.visit(found, steps)
                if weights == "minimax" and wanted.book is None:
                    book.spread_minimax(walk.depths)
                book.write(out, weights, report, book.ways_to_roots(wanted))
        if not report.moves:
            why = ", ".join(report.left_out_lines())
            raise ExportError(f"{store.path}: nothing to export{why and f'; {why}'}")
    return report


# ------------------------------------------------------------------ of the walk
class GraphBook(Tree):
    """The positions and moves of a walk, to be written as a book.

    Positions have their Polyglot key and value; moves have edge N, their value (NaN if unknown), the weight
    and learn field from tables, and the raw move.
    """

    def __init__(self, folder: Path) -> None:
        """Makes an empty tree; `folder`: for temporary files."""
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

    def visit(self, found: Positions, steps: Steps) -> None:
        """Adds the positions and moves of a batch of a walk."""
        moves, in_tables = found.moves, found.moves.in_tables
        nothing = np.zeros(len(moves.of), np.int64)
        self.add(
            found,
            steps,
            {"key": found.words[:, KEY], "value": found.worth.q},
            {
                "n": moves.by_edge(found.edges.n),
                "value": in_tables.value if in_tables else moves.by_edge(found.edge_worth.q),
                "raw": _raw_moves(found.words, moves),
                "weight": in_tables.weight if in_tables else nothing,
                "learn": in_tables.learn if in_tables else nothing,
            },
        )

    def spread_minimax(self, depths: NDArray[np.int32]) -> None:
        """Replaces the value of every move by the minimax of the values below it, deepest positions first.

        A position without moves keeps its value, and so does a move to a position that is not deeper; that
        breaks cycles.

        Args:
          depths: of all positions met, by id - 1, in ascending order.
        """
        depths = depths[: len(self.positions)]
        for depth in range(int(depths[-1]) if len(depths) else -1, -1, -1):
            begin, end = (int(np.searchsorted(depths, depth, side)) for side in ("left", "right"))
            for first in range(begin, end, AT_ONCE):
                self._spread(first, min(first + AT_ONCE, end), depths)

    def _spread(self, first: int, last: int, depths: NDArray[np.int32]) -> None:
        """Updates the move values of positions of one depth from their children, then the positions'."""
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
    def ways_to_roots(self, wanted: ExportPlan) -> NDArray[np.void]:
        """Returns entries for the positions before the roots of a book, sorted by key, best move first.

        The moves are those that lead to the roots, by the roots' values; a position of the walk has its own.
        """
        values: dict[int, dict[int, float]] = {}
        for i, root in enumerate(wanted.roots if wanted.book is not None else ()):
            game = wanted.games.get(without_clocks(fen_of(root)))
            value = float(self.positions["value"][i]) if i < len(self.positions) else 0.0
            walk = game.copy() if game else root
            while walk.move_stack:
                move, value = walk.pop(), negate(value)
                if wanted.side in ("both", chess.COLOR_NAMES[walk.turn]):
                    found = values.setdefault(chess.polyglot.zobrist_hash(walk), {})
                    raw = raw_move(walk, move)
                    found[raw] = max(value, found.get(raw, value))
        walked = set(self.positions["key"][self.positions["size"] > 0].tolist())
        rows = []
        for key in sorted(values.keys() - walked):
            scores = {raw: cp_of(value) for raw, value in values[key].items()}
            best = max(scores.values())
            numbers = np.array([weight_of_loss(best - cp) for cp in scores.values()], np.float64)
            fit = fitted(numbers, np.full(len(numbers), numbers.max()), fill=True).tolist()
            rows += [
                (key, raw, weight, 0) for weight, raw in sorted(zip(fit, scores, strict=True), reverse=True)
            ]
        return np.array(rows, ENTRIES)

    def write(self, out: BinaryIO, weights: Weights, report: ExportReport, more: NDArray[np.void]) -> None:
        """Writes the entries, sorted by key, those of `more` among them."""
        has_moves = self.positions["size"] > 0
        report.left_out["other_side"] += int((has_moves & (self.positions["own"] == 0)).sum())
        report.positions += len(np.unique(more["key"]))
        report.moves += len(more)
        for rows in self._in_order():
            if len(rows):
                entries = self._entries(rows, weights, report)
                before = more["key"] < entries["key"][-1] if len(entries) else np.zeros(len(more), bool)
                some, more = more[before], more[~before]
                both = np.concatenate([entries, some]).astype(ENTRIES)  # which makes them native
                out.write(both[np.argsort(both["key"], kind="stable")].tobytes())
        out.write(more.tobytes())

    def _in_order(self) -> Iterator[Ints]:
        """Yields the positions to write, sorted by key, in parts."""
        bits = max(0, (len(self.positions) // AT_ONCE).bit_length())
        for part in range(1 << bits):
            wanted = (self.positions["size"] > 0) & (self.positions["own"] > 0)
            if bits:
                wanted &= self.positions["key"] >> np.uint64(64 - bits) == part
            rows = np.flatnonzero(wanted)
            yield rows[np.argsort(self.positions["key"][rows], kind="stable")]

    def _entries(self, rows: Ints, weights: Weights, report: ExportReport) -> NDArray[np.void]:
        """Returns the entries of positions, in each position by descending weight."""
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
        """Returns one position for each key: the one with the most visits and weight, else the first."""
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
        """Returns the weight of each move by the policy, before scaling."""
        if weights not in BY_VALUE:
            return self.moves["n" if weights == "n" else "weight"][moves].astype(np.float64)
        values = self.moves["value"][moves]
        known = ~np.isnan(values)
        scores = np.where(known, cps_of(np.where(known, values, -1.0)), -(1 << 40))
        losses, which = np.unique(np.maximum.reduceat(scores, begins)[of] - scores, return_inverse=True)
        found = np.array([weight_of_loss(loss) for loss in losses.tolist()], np.float64)[which]
        return np.where(known, found, 0.0)


def _raw_moves(words: Words, moves: Moves) -> NDArray[np.int64]:
    """Returns moves in Polyglot's encoding; castling is the king capturing his own rook."""
    origin, target = moves.code.astype(np.int64) & 63, moves.code.astype(np.int64) >> 6 & 63
    king = words[moves.of, KINGS] >> origin.astype(np.uint64) & np.uint64(1) > 0
    standard = words[moves.of, META] & np.uint64(CHESS960) == 0
    castles = king & standard & (np.abs((origin & 7) - (target & 7)) == CASTLING_STEP)
    rook = (origin & ~7) + np.where(target > origin, 7, 0)
    raw: NDArray[np.int64] = np.where(castles, rook, target) | origin << 6 | moves.code & (7 << 12)
    return raw


def weight_of_loss(cp: int) -> float:
    """Returns the weight, in (0, 1], of a move that loses `cp` centipawns.

    >>> weight_of_loss(0), weight_of_loss(25)
    (1.0, 0.5)
    """
    return float(2.0 ** max(-cp / HALVING_CP, -1000.0))


# ------------------------------------------------------------------ of imported entries
def _is_wanted(row: PolyglotRow, selection: Selection, report: ExportReport) -> bool:
    if selection.side in (None, "both"):
        return True
    if row.turn is None:
        report.left_out["unknown_entries"] += 1
        return False
    return row.turn == (selection.side == "white")


def _write_entries(out: BinaryIO, key: int, rows: Sequence[PolyglotRow], report: ExportReport) -> None:
    """Writes the entries of one key; merges entries of several books for one move, adding their weights."""
    if len({row.source for row in rows}) > 1:
        merged: dict[int, PolyglotRow] = {}
        for row in rows:
            old = merged.get(row.raw_move)
            weight, learn = (old.weight, old.learn) if old else (0, 0)
            merged[row.raw_move] = row._replace(weight=weight + row.weight, learn=learn or row.learn)
        report.merged += len(rows) - len(merged)
        rows = sorted(merged.values(), key=lambda row: -row.weight)
    weights = np.array([row.weight for row in rows], np.float64)
    largest = np.full(len(rows), weights.max())
    report.scaled += len(rows) if largest[0] > MAX_WEIGHT else 0
    for number, row in zip(fitted(weights, largest).tolist(), rows, strict=True):
        out.write(ENTRY.pack(key, row.raw_move, number, row.learn))
    report.positions += 1
    report.moves += len(rows)
