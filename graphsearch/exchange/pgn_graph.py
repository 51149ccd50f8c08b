"""What game trees are written from, of a graph: a walk by columns, kept as `Walk` keeps it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ..position.board import pack
from ..store.store import Store
from .centipawns import cps_of
from .export_report import ExportReport
from .graph_epd import NOTES, notes_of
from .graph_rows import priors_of
from .graph_walk import GraphWalk, Visits
from .pool import Words
from .scratch import Scratch, WayIn
from .selection import ExportPlan
from .text_rows import names_of
from .walk import OnProgress

_ROOT = "INSERT INTO node (id, identity, depth, ply, words, soft) VALUES (?, ?, 0, ?, ?, ?)"
_NEW = "INSERT INTO node (id, identity, depth, ply, words, parent, san) VALUES (?, ?, ?, ?, x'', ?, ?)"
_VISITED = "UPDATE node SET n = ?, value = ?, own = ?, mate = ?, note = ? WHERE id = ?"
_MOVE = "INSERT INTO edge VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 0, 0, ?)"


def keep_graph(
    store: Store,
    plan: ExportPlan,
    folder: Path,
    scratch: Scratch,
    report: ExportReport,
    on_progress: OnProgress | None,
) -> None:
    """Walks over a plan without a book, and keeps positions and moves in the temporary file.

    Args:
      folder: where the temporary files of the walk go.
    """
    with GraphWalk(store, plan, folder, report, leaves=False, on_progress=on_progress) as walk:
        found = walk.visits()
        first = next(found, None)
        _keep_roots(plan, scratch)
        while first is not None:
            _keep(first, scratch, adopted=len(plan.roots) if plan.soft and len(plan.roots) > 1 else 0)
            first = next(found, None)


def _keep_roots(plan: ExportPlan, scratch: Scratch) -> None:
    rows = [
        (i, _identity(i), board.ply(), pack(board).tobytes(), plan.soft)
        for i, board in enumerate(plan.roots, 1)
    ]
    scratch.connection.executemany(_ROOT, rows)


def _identity(number: int) -> bytes:
    return number.to_bytes(8, "big")


def _keep(visits: Visits, scratch: Scratch, *, adopted: int) -> None:
    """Keeps what a batch of a walk has found; `adopted`: of so many roots, those that lie below others."""
    moves = visits.moves
    names = [name.decode() for name in _letters(names_of(visits.batch.words, moves.of, moves.code).san)]
    parents, ids = visits.ids[moves.of].tolist(), visits.children.tolist()
    depths, plies = (visits.depth[moves.of] + 1).tolist(), (visits.ply[moves.of] + 1).tolist()
    execute = scratch.connection.executemany
    execute(
        _NEW,
        [(ids[k], _identity(ids[k]), depths[k], plies[k], parents[k], names[k]) for k in visits.new.tolist()],
    )
    follow = (visits.batch.n[moves.edge] > visits.batch.r[moves.edge]).tolist()
    for k in range(len(ids)) if adopted else ():
        if follow[k] and 0 < ids[k] <= adopted:
            scratch.adopt([WayIn(_identity(ids[k]), depths[k], plies[k], b"", parents[k], names[k])])
    execute(_MOVE, _move_rows(visits, parents, names, ids))
    execute(_VISITED, _position_rows(visits))


def _letters(names: Words) -> list[bytes]:
    """Returns names of moves as bytes."""
    found: list[bytes] = np.ascontiguousarray(names, "<u8").view("S8").tolist()
    return found


def _move_rows(visits: Visits, parents: list[int], names: list[str], ids: list[int]) -> Iterator[Any]:
    moves, worth = visits.moves, visits.edge_worth()
    counts = np.bincount(moves.of, minlength=len(visits))
    ranks = np.arange(len(moves.of)) - np.repeat(np.cumsum(counts) - counts, counts)
    q, draw = worth.q[moves.edge], worth.draw[moves.edge]
    return zip(
        parents,
        ranks.tolist(),
        moves.code.tolist(),
        names,
        visits.batch.n[moves.edge].tolist(),
        priors_of(visits, moves).tolist(),
        q.tolist(),
        q.tolist(),
        cps_of(q, draw).tolist(),
        [child or None for child in ids],
        strict=True,
    )


def _position_rows(visits: Visits) -> Iterator[Any]:
    worth = visits.worth(proven=True)
    notes = [NOTES[note] or None for note in notes_of(visits, worth.notes).tolist()]
    mates = [mate or None for mate in worth.mates.tolist()]
    own = visits.own.tolist()
    return zip(visits.n.tolist(), worth.q.tolist(), own, mates, notes, visits.ids.tolist(), strict=True)
