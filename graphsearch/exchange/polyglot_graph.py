"""A Polyglot book of a graph, as columns: the entries that `polyglot_export` describes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from ..position.words import CHESS960, KEY, KINGS, META
from ..query.steps import CASTLING_STEP
from ..store.store import Store
from .candidates import Weights
from .centipawns import cps_from_q
from .export_report import ExportReport
from .graph_walk import GraphWalk, Moves, Visits
from .mapped import Rows
from .polyglot import MAX_WEIGHT
from .polyglot_weights import HALF, SLIGHTLY, weight_of_loss
from .pool import Ints, Words
from .selection import ExportPlan
from .walk import OnProgress

AT_ONCE = 1 << 18  # positions that are sorted together
ENTRIES = np.dtype([("key", ">u8"), ("move", ">u2"), ("weight", ">u2"), ("learn", ">u4")])

Floats = NDArray[np.float64]


class GraphBook:
    """The positions and moves of a walk, and the book that is written of them.

    `positions` has by id - 1: Polyglot key, node Q, whether it was visited and whether its moves are
    exported, where these begin and how many there are. `moves` has edge N, the value of the edge, the move as
    a book has it, and the id of the position behind it, 0 if that was not met.
    """

    def __init__(self, folder: Path) -> None:
        """Takes where its temporary files go."""
        self._open = ExitStack()
        self.positions = self._open.enter_context(
            Rows(
                folder,
                key=np.uint64,
                value=np.float64,
                visited=np.uint8,
                own=np.uint8,
                first=np.int64,
                count=np.int32,
            )
        )
        self.moves = self._open.enter_context(
            Rows(folder, n=np.uint32, value=np.float64, raw=np.uint16, child=np.int64)
        )

    def __enter__(self) -> GraphBook:
        return self

    def __exit__(self, *error: object) -> None:
        self._open.close()

    # -------------------------------------------------------------- filling
    def add(self, visits: Visits) -> None:
        """Keeps what a batch of a walk has found."""
        rows, moves, positions = visits.ids - 1, visits.moves, self.positions
        positions.extend_to(int(visits.ids[-1]))
        counts = np.bincount(moves.of, minlength=len(visits))
        positions["key"][rows] = visits.batch.words[:, KEY]
        positions["value"][rows] = visits.worth().q
        positions["visited"][rows] = 1
        positions["own"][rows] = visits.own
        positions["first"][rows] = len(self.moves) + np.cumsum(counts) - counts
        positions["count"][rows] = counts
        self.moves.add(
            n=visits.batch.n[moves.edge],
            value=visits.edge_worth().q[moves.edge],
            raw=_raw_moves(visits.batch.words, moves),
            child=visits.children,
        )
        positions.release()
        self.moves.release()

    def spread_minimax(self, depths: NDArray[np.int32]) -> None:
        """Replaces the value of every move by the minimax of the values below it, deepest positions first.

        A position without moves keeps its own value, and so does a move to a position that is no deeper than
        its own: that cuts the cycles.

        Args:
          depths: of all positions that were met, by id - 1; they never go down.
        """
        depths = depths[: len(self.positions)]
        for depth in range(int(depths[-1]), -1, -1):
            begin, end = (int(np.searchsorted(depths, depth, side)) for side in ("left", "right"))
            for first in range(begin, end, AT_ONCE):
                self._spread(first, min(first + AT_ONCE, end), depths)

    def _spread(self, first: int, last: int, depths: NDArray[np.int32]) -> None:
        """Gives positions of one depth, and their moves, what those behind them are worth."""
        counts = self.positions["count"][first:last]
        filled = first + np.flatnonzero(counts)
        if not len(filled):
            return
        begins = self.positions["first"][filled]
        moves = slice(int(begins[0]), int(begins[0] + counts.sum()))
        child = np.maximum(self.moves["child"][moves] - 1, 0)
        child[child >= len(depths)] = 0  # not visited
        known = (self.moves["child"][moves] > 0) & (self.moves["child"][moves] <= len(depths))
        known &= (depths[child] > depths[first]) & (self.positions["visited"][child] > 0)
        values = self.moves["value"][moves]
        values[known] = -self.positions["value"][child[known]]
        self.positions["value"][filled] = np.maximum.reduceat(values, begins - begins[0])

    # -------------------------------------------------------------- writing
    def write(self, out: BinaryIO, weights: Weights, report: ExportReport) -> None:
        """Writes the entries, in the order of their keys."""
        has_moves = self.positions["count"] > 0
        report.left_out["other_side"] += int((has_moves & (self.positions["own"] == 0)).sum())
        for rows in self._in_order():
            entries = self._entries(rows, weights, report)
            out.write(entries.tobytes())

    def _in_order(self) -> Iterator[Ints]:
        """Yields positions whose moves are written, in the order of their keys, part by part."""
        bits = max(0, (len(self.positions) // AT_ONCE).bit_length())
        for part in range(1 << bits):
            wanted = (self.positions["count"] > 0) & (self.positions["own"] > 0)
            if bits:
                wanted &= self.positions["key"] >> np.uint64(64 - bits) == part
            rows = np.flatnonzero(wanted)
            yield rows[np.argsort(self.positions["key"][rows], kind="stable")]

    def _entries(self, rows: Ints, weights: Weights, report: ExportReport) -> NDArray[np.void]:
        """Returns the entries of positions, those of each the heaviest first."""
        rows = self._without_clashes(rows, report)
        counts = self.positions["count"][rows].astype(np.int64)
        begins = np.cumsum(counts) - counts
        of = np.repeat(np.arange(len(rows)), counts)
        moves = self.positions["first"][rows][of] + np.arange(len(of)) - begins[of]
        numbers = self._numbers(moves, begins, of, weights)
        fill = weights != "n"
        largest = np.maximum.reduceat(numbers, begins) if len(rows) else numbers
        too_large = largest > MAX_WEIGHT
        factor = np.where(too_large | fill, MAX_WEIGHT / largest, 1.0)
        scaled = np.floor(numbers * factor[of] + HALF - SLIGHTLY).astype(np.int64)
        scaled = np.maximum(scaled, numbers == largest[of])
        kept = np.flatnonzero(scaled)
        kept = kept[np.lexsort((-scaled[kept], of[kept]))]
        report.scaled += 0 if fill else int(counts[too_large].sum())
        report.left_out["moves_scaled_away"] += len(moves) - len(kept)
        report.positions += len(rows)
        report.moves += len(kept)
        entries = np.zeros(len(kept), ENTRIES)
        entries["key"] = self.positions["key"][rows][of[kept]]
        entries["move"], entries["weight"] = self.moves["raw"][moves[kept]], scaled[kept]
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
            heft[i] = self.moves["n"][first : first + int(self.positions["count"][rows[i]])].sum(
                dtype=np.int64
            )
        rows, keys = (values[np.lexsort((rows, -heft, keys))] for values in (rows, keys))
        return np.asarray(rows[np.append(True, keys[1:] != keys[:-1])])

    def _numbers(self, moves: Ints, begins: Ints, of: Ints, weights: Weights) -> Floats:
        """Returns the weight of each move as the policy has it, before it is scaled."""
        if weights == "n":
            return self.moves["n"][moves].astype(np.float64)
        scores = cps_from_q(self.moves["value"][moves])
        best = np.maximum.reduceat(scores, begins) if len(begins) else scores
        losses, which = np.unique(best[of] - scores, return_inverse=True)
        return np.array([weight_of_loss(loss) for loss in losses.tolist()], np.float64)[which]


def write_graph(
    store: Store,
    plan: ExportPlan,
    weights: Weights,
    folder: Path,
    out: BinaryIO,
    *,
    report: ExportReport,
    on_progress: OnProgress | None,
) -> None:
    """Writes the book of a plan without a book.

    Args:
      weights: n, q or minimax. folder: where the temporary files go.
    """
    with (
        GraphWalk(store, plan, folder, report, leaves=False, on_progress=on_progress) as walk,
        GraphBook(folder) as book,
    ):
        for visits in walk.visits():
            book.add(visits)
        if not len(book.positions):
            return
        if weights == "minimax":
            book.spread_minimax(walk.depths)
        book.write(out, weights, report)


def _raw_moves(words: Words, moves: Moves) -> NDArray[np.int64]:
    """Returns moves as a book writes them; castling is the king taking his own rook."""
    origin, target = moves.code.astype(np.int64) & 63, moves.code.astype(np.int64) >> 6 & 63
    king = words[moves.of, KINGS] >> origin.astype(np.uint64) & np.uint64(1) > 0
    standard = words[moves.of, META] & np.uint64(CHESS960) == 0
    castles = king & standard & (np.abs((origin & 7) - (target & 7)) == CASTLING_STEP)
    rook = (origin & ~7) + np.where(target > origin, 7, 0)
    raw: NDArray[np.int64] = np.where(castles, rook, target) | origin << 6 | moves.code & (7 << 12)
    return raw
