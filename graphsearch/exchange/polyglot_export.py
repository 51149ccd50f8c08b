"""Exports a file as a Polyglot book: entries sorted by key, with 16-bit weights.

The weight of a move is its N (`n`), or, for a loss in centipawns against the best move of its position,
2 ** (-loss / 25) (`q`). `n` stays unchanged if the largest weight of a position fits 16 bits, else all its
weights are scaled; `q` gives the best move 65,535. Moves with a weight that rounds to 0 are omitted, but
never the best one.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Literal

import chess
import chess.polyglot
import numpy as np
from numpy.typing import NDArray

from ..base.errors import ExportError, InvalidParameterError
from ..position.board import fen_of
from ..position.values import cp_of, negate
from ..position.words import CHESS960, KEY, KINGS, META
from ..query.columns import cps_of
from ..query.steps import CASTLING_STEP, Floats, Ints, Mask, Words
from .output import ExportReport, new_output, open_export
from .polyglot import ENTRIES, MAX_WEIGHT, fitted, raw_move
from .selection import ExportPlan, Selection, plan, without_clocks
from .walk import Moves, OnProgress, Positions, Walk

Weights = Literal["n", "q"]
HALVING_CP = 25.0  # loss in centipawns that halves the weight


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
      weights: `n` or `q`; None: q with a book, else n.
      on_progress: called with positions visited and met.

    Raises:
      InvalidParameterError: if there are no such weights, or no such book.
      ExportError: if there is nothing to write, or the output cannot be written.
      StoreError: if the graph file cannot be read.
    """
    chosen = selection or Selection()
    if weights not in (None, "n", "q"):
        raise InvalidParameterError(f"weights must be n or q, not {weights!r}")
    by_value = weights == "q" or (weights is None and chosen.book is not None)
    report = ExportReport("polyglot", str(target))
    with open_export(path, partial(new_output, target), report) as (store, out):
        wanted = plan(store, chosen)
        walk = Walk(store, wanted, report, leaves=False, on_progress=on_progress)
        parts = [_part(found, steps.ids) for found, steps in walk.visits()]
        if parts:
            out.write(entries_of(parts, wanted, report, by_value=by_value).tobytes())
        if not report.moves:
            why = ", ".join(report.left_out_lines())
            raise ExportError(f"{store.path}: nothing to export{why and f'; {why}'}")
    return report


_Part = tuple[Ints, NDArray[np.uint64], Mask, Ints, Floats, Ints, Ints, Floats]


def _part(found: Positions, ids: Ints) -> _Part:
    """Returns columns of a batch: of positions id, Polyglot key, whether it is exported, number of moves and
    value; of moves the raw move, edge N and value (NaN if unknown)."""
    moves, worth = found.moves, found.move_worth
    counts, raw = np.bincount(moves.of, minlength=len(found)), _raw_moves(found.words, moves)
    positions = (ids, found.words[:, KEY], found.own, counts, found.worth.q)
    return (*positions, raw, worth.n.astype(np.int64), worth.value)


def entries_of(
    parts: Sequence[_Part], wanted: ExportPlan, report: ExportReport, *, by_value: bool
) -> NDArray[np.void]:
    """Returns the entries of a walk, sorted by key, in each position by descending weight."""
    ids, keys, own, counts, values, raw, n, value = map(np.concatenate, zip(*parts, strict=True))
    begins = np.cumsum(counts) - counts
    report.left_out["other_side"] += int(((counts > 0) & ~own).sum())
    rows = _without_clashes(np.flatnonzero((counts > 0) & own), keys, n, begins, report)
    first, of = np.cumsum(counts[rows]) - counts[rows], np.repeat(np.arange(len(rows)), counts[rows])
    moves = begins[rows][of] + np.arange(len(of)) - first[of]
    numbers = _weights_by_value(value[moves], first, of) if by_value else n[moves].astype(np.float64)
    largest = np.maximum.reduceat(numbers, first)
    scaled = fitted(numbers, largest[of], fill=by_value)
    kept = np.flatnonzero(scaled)
    kept = kept[np.lexsort((-scaled[kept], of[kept]))]
    report.scaled += 0 if by_value else int(counts[rows][largest > MAX_WEIGHT].sum())
    report.left_out["moves_scaled_away"] += len(moves) - len(kept)
    found = np.zeros(len(kept), ENTRIES)
    found["key"], found["move"], found["weight"] = keys[rows][of[kept]], raw[moves[kept]], scaled[kept]
    if wanted.book is not None:
        roots = dict(zip(ids.tolist(), values.tolist(), strict=True))
        found = np.concatenate([found, _ways_to_roots(wanted, roots, set(keys[counts > 0].tolist()))])
    report.positions += len(np.unique(found["key"]))
    report.moves += len(found)
    return found[np.argsort(found["key"], kind="stable")].astype(ENTRIES)  # which numpy had made native


def _without_clashes(
    rows: Ints, keys: NDArray[np.uint64], n: Ints, begins: Ints, report: ExportReport
) -> Ints:
    """Returns positions sorted by key, of each key the one with the most visits, else the first.

    Args:
      rows: their indices. n: visits of all moves. begins: first move of every position.
    """
    visits = np.add.reduceat(np.append(n, 0), begins)
    rows = rows[np.lexsort((rows, -visits[rows], keys[rows]))]
    again = np.append(np.zeros(min(1, len(rows)), bool), keys[rows][1:] == keys[rows][:-1])
    report.left_out["clashes"] += int(again.sum())
    return np.asarray(rows[~again])


def _weights_by_value(values: Floats, first: Ints, of: Ints) -> Floats:
    """Returns the weight of each move, 0 for one of unknown value.

    Args:
      first: the first move of each position. of: the position of each move.
    """
    known = ~np.isnan(values)
    scores = np.where(known, cps_of(np.where(known, values, -1.0)), -(1 << 40))
    losses, which = np.unique(np.maximum.reduceat(scores, first)[of] - scores, return_inverse=True)
    found = np.array([weight_of_loss(loss) for loss in losses.tolist()], np.float64)[which]
    return np.where(known, found, 0.0)


def weight_of_loss(cp: int) -> float:
    """Returns the weight, in (0, 1], of a move that loses `cp` centipawns.

    >>> weight_of_loss(0), weight_of_loss(25)
    (1.0, 0.5)
    """
    return float(2.0 ** max(-cp / HALVING_CP, -1000.0))


def _ways_to_roots(wanted: ExportPlan, roots: dict[int, float], walked: set[int]) -> NDArray[np.void]:
    """Returns entries for the positions before the roots of a book, sorted by key, best move first.

    The moves are those that lead to the roots, by the roots' values; a position of the walk has its own.

    Args:
      roots: values of positions by id; the ids of roots come first. walked: keys of positions with moves.
    """
    values: dict[int, dict[int, float]] = {}
    for i, root in enumerate(wanted.roots, 1):
        game = wanted.games.get(without_clocks(fen_of(root)))
        value = roots.get(i, 0.0)
        walk = game.copy() if game else root
        while walk.move_stack:
            move, value = walk.pop(), negate(value)
            if wanted.side in ("both", chess.COLOR_NAMES[walk.turn]):
                found = values.setdefault(chess.polyglot.zobrist_hash(walk), {})
                raw = raw_move(walk, move)
                found[raw] = max(value, found.get(raw, value))
    rows = []
    for key in sorted(values.keys() - walked):
        scores = {raw: cp_of(value) for raw, value in values[key].items()}
        best = max(scores.values())
        numbers = np.array([weight_of_loss(best - cp) for cp in scores.values()], np.float64)
        fit = fitted(numbers, np.full(len(numbers), numbers.max()), fill=True).tolist()
        rows += [(key, raw, weight, 0) for weight, raw in sorted(zip(fit, scores, strict=True), reverse=True)]
    return np.array(rows, ENTRIES)


def _raw_moves(words: Words, moves: Moves) -> Ints:
    """Returns moves in Polyglot's encoding; castling is the king capturing his own rook."""
    origin, target = moves.code.astype(np.int64) & 63, moves.code.astype(np.int64) >> 6 & 63
    king = words[moves.of, KINGS] >> origin.astype(np.uint64) & np.uint64(1) > 0
    standard = words[moves.of, META] & np.uint64(CHESS960) == 0
    castles = king & standard & (np.abs((origin & 7) - (target & 7)) == CASTLING_STEP)
    rook = (origin & ~7) + np.where(target > origin, 7, 0)
    raw: Ints = np.where(castles, rook, target) | origin << 6 | moves.code & (7 << 12)
    return raw
